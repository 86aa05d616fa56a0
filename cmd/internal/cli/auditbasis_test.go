package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestQuestions holds the hash of flags to be the same for two runs that are asked alike, whatever they have seen, and
// another one where a flag is.
func TestQuestions(t *testing.T) {
	asked := func(change func(*audit)) string {
		t.Helper()
		a := &audit{apply: apply{console: &console{}}}
		a.workloads.given = []string{"Rollout.argoproj.io=spec.template", "Set.example.com=spec.pod"}
		a.asked.extra = map[string][]string{"a": {"b"}, "c": {"d"}}
		change(a)
		if err := a.workloads.check(); err != nil {
			t.Fatal(err)
		}
		a.workloads.found.noteKind(schema.GroupKind{Kind: t.Name()})
		return a.questions()
	}
	alike := asked(func(*audit) {})
	for name, change := range map[string]func(*audit){
		"deletions": func(a *audit) { a.deletions = true },
		"user":      func(a *audit) { a.asked.user = "dev" },
		"pods-of":   func(a *audit) { a.workloads.given = a.workloads.given[1:] },
		"limit":     func(a *audit) { a.limits.Memory = 1 },
	} {
		if again := asked(func(a *audit) { a.top = len(name) }); again != alike {
			t.Errorf("%s, not %s", again, alike)
		}
		if other := asked(change); other == alike {
			t.Errorf("%s: %s as without", name, other)
		}
	}
}
