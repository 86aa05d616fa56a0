package celgate_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate"
)

// TestDecisionLinks follows the warnings and the answer of a decision to the violations that they are about.
func TestDecisionLinks(t *testing.T) {
	decide := func(actions string) *celgate.Decision {
		set, err := load(strings.ReplaceAll(replicaLimit, "[Deny]", actions))
		if err != nil {
			t.Fatal(err)
		}
		engine := celgate.Must(celgate.New(set, celgate.Options{}))
		object := deployment(9)
		object["spec"].(map[string]any)["odd"] = true
		return celgate.Must(engine.Admit(t.Context(),
			celgate.Must(engine.RequestFor(t.Context(), object, celgate.As{}))))
	}
	d := decide("[Warn, Audit]")
	if len(d.Warnings) != 2 || d.Warnings[0].Violation != nil || d.Warnings[0].Text != `unknown field "spec.odd"` {
		t.Fatalf("%+v", d.Warnings)
	}
	if v := &d.Violations[0]; d.Warnings[1].Violation != v || d.Denial != nil {
		t.Errorf("the warning is about %p, the answer about %p, the violation is %p", d.Warnings[1].Violation, d.Denial,
			v)
	}
	if d.MutatedObject == nil || d.Object["metadata"].(map[string]any)["uid"] == nil ||
		d.MutatedObject["metadata"].(map[string]any)["uid"] != nil {
		t.Errorf("the object after mutations is %v, at the end %v", d.MutatedObject["metadata"], d.Object["metadata"])
	}
	if d = decide("[Deny, Audit]"); d.Denial != &d.Violations[0] || len(d.Warnings) != 1 {
		t.Errorf("the answer is about %p, the violation is %p; %+v", d.Denial, &d.Violations[0], d.Warnings)
	}
	for _, q := range celgate.Quirks("1.36") {
		if q.ID == "" || q.Title == "" {
			t.Errorf("%+v", q)
		}
	}
	if len(celgate.Quirks("1.36")) == len(celgate.Quirks("1.37")) {
		t.Error("the minors have the same quirks")
	}
}
