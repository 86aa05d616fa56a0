package conformance

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/lcs"
)

// Compare returns the difference of an answer from the recorded one, "" if they are equal. Objects must be settled.
// Everything is compared exactly, except for objects that were not recorded: the recorder does not see those of
// policies and of reviews.
//
// One of several recorded answers is enough.
func Compare(recorded, got *Want) string {
	diff := compareOne(recorded, got)
	for _, other := range recorded.Others {
		if diff == "" || compareOne(other, got) == "" {
			return ""
		}
	}
	return diff
}

func compareOne(recorded, got *Want) string {
	recorded, got = normalise(recorded), normalise(got)
	if recorded.Object == nil {
		recorded.Mutated, got.Object, got.Mutated = nil, nil, nil
	}
	want, _ := yaml.Marshal(recorded) // every field of a Want can be encoded
	have, _ := yaml.Marshal(got)
	if string(want) == string(have) {
		return ""
	}
	return diffLines(string(want), string(have))
}

func normalise(w *Want) *Want {
	c := *w
	c.Minors, c.Others = nil, nil
	return &c
}

// diffLines shows the lines that differ: "-" was recorded, "+" is the answer.
func diffLines(want, have string) string {
	a, b := strings.Split(want, "\n"), strings.Split(have, "\n")
	c := lcs.Compare(a, b)
	var out strings.Builder
	i, j := 0, 0
	for {
		switch step, more := c.Next(i, j); {
		case !more:
			return out.String()
		case step == lcs.Keep:
			i, j = i+1, j+1
		case step == lcs.Drop:
			fmt.Fprintf(&out, "- %s\n", a[i])
			i++
		default:
			fmt.Fprintf(&out, "+ %s\n", b[j])
			j++
		}
	}
}

// Check returns the mistakes in a corpus: two cases with one idea, and cases without a recorded answer.
func Check(cases []*Case) []string {
	var problems []string
	ideas := map[string]string{}
	for _, c := range cases {
		if first, ok := ideas[c.Idea]; ok {
			problems = append(problems, fmt.Sprintf("%s: the same idea as %s", c.Name, first))
		}
		ideas[c.Idea] = c.Name
		if c.Want == nil {
			problems = append(problems, c.Name+": not recorded")
		}
	}
	slices.Sort(problems)
	return problems
}
