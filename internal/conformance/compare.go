package conformance

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Compare returns how an answer differs from the recorded one, "" if it does not. Objects must be settled. Everything
// is compared exactly, but that objects are left out if none was recorded: the recorder does not see those of policies
// and of reviews.
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
	want, _ := yaml.Marshal(recorded) // a Want holds only what can be written
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
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			fmt.Fprintf(&out, "- %s\n", a[i])
			i++
		default:
			fmt.Fprintf(&out, "+ %s\n", b[j])
			j++
		}
	}
	return out.String()
}

// Check returns what is wrong with a corpus: no two cases share an idea, and every case is recorded.
func Check(cases []*Case) []string {
	var problems []string
	ideas := map[string]string{}
	for _, c := range cases {
		if first, ok := ideas[c.Idea]; ok {
			problems = append(problems, fmt.Sprintf("%s: the same idea as %s", c.Name, first))
		}
		ideas[c.Idea] = c.Name
		if c.Want == nil || len(c.Want.Minors) == 0 {
			problems = append(problems, c.Name+": not recorded")
		}
	}
	slices.Sort(problems)
	return problems
}
