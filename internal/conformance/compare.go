package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Compare returns how an answer differs from the recorded one, "" if it does not. Objects must be settled. Everything
// is compared exactly, but for warnings that come neither from policies nor from unknown or duplicate fields
// (deprecated APIs, advice of the registry), which are left out.
func Compare(recorded, got *Want) string {
	recorded, got = compared(recorded), compared(got)
	want, _ := yaml.Marshal(recorded) // a Want holds only what can be written
	have, _ := yaml.Marshal(got)
	if string(want) == string(have) {
		return ""
	}
	return diffLines(string(want), string(have))
}

func compared(w *Want) *Want {
	c := *w
	c.Minors = nil
	c.Warnings = nil
	for _, warning := range w.Warnings {
		if strings.HasPrefix(warning, "Validation failed for ValidatingAdmissionPolicy") ||
			strings.HasPrefix(warning, "unknown field ") || strings.HasPrefix(warning, "duplicate field ") {
			c.Warnings = append(c.Warnings, warning)
		}
	}
	return &c
}

// diffLines shows the lines that differ: "-" was recorded, "+" is the answer.
func diffLines(want, have string) string {
	var b strings.Builder
	b.WriteString(cmp.Diff(strings.Split(want, "\n"), strings.Split(have, "\n")))
	return b.String()
}

// Rules that a corpus keeps: no two cases share an idea, and every case is recorded. Check returns what is wrong.
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
