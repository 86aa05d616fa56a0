package conformance

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// compareTraced tests that an engine with events decides like one without, including costs, and that the events match
// the decision: each outcome once, in order, and each mutation begins with the result of the one before. It returns the
// number of mutations in the events.
func compareTraced(t *testing.T, c *Case, w *World, engine *celgate.Engine) (told int64) {
	t.Helper()
	request, err := w.request(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := engine.Prepare(t.Context(), request)
	if err != nil {
		return 0 // refused before any policy
	}
	want, err := engine.Admit(t.Context(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	var events []explain.Event
	got, err := engine.Explain(t.Context(), prepared, explain.Options{
		Trace:   func(e explain.Event) { events = append(events, e) },
		Observe: func(explain.Observation) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	ignored := cmp.Options{
		cmpopts.IgnoreFields(celgate.Decision{}, "Object", "Changes"),
		cmpopts.IgnoreUnexported(celgate.Decision{}, celgate.Violation{}),
		cmp.Comparer(func(a, b policy.Expr) bool { return a.Src == b.Src && a.Field == b.Field }),
		cmp.Comparer(func(a, b *policy.Validation) bool {
			return a == b || a != nil && b != nil && a.Name == b.Name && a.Expr.Field == b.Expr.Field
		}),
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b error) bool { return fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", b, b) }),
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
	var outcomes []celgate.Outcome
	objects := map[string]map[string]any{}
	for _, e := range events {
		if e.Op == explain.OpOutcome {
			outcomes = append(outcomes, got.Outcomes[e.Outcome])
		}
		if m := e.Mutation; m != nil {
			told++
			as := m.As.String()
			if before, ok := objects[as]; ok && !e.Second && !reflect.DeepEqual(before, m.Before) {
				t.Errorf("%s mutation %d does not begin where the one before ended", e.Policy, m.Index)
			}
			if m.After != nil {
				objects[as] = m.After
			}
		}
	}
	if diff := cmp.Diff(got.Outcomes, outcomes, ignored); diff != "" {
		t.Error(diff)
	}
	return told
}
