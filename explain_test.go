package celgate_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
)

// TestExplainBelongsToTheCall tests concurrent calls on one engine: each gets the events of its own decision, in its
// own order, and calls without a tracer get none.
func TestExplainBelongsToTheCall(t *testing.T) {
	engine, req := prepareBench(t, benchPolicies(benchLabel, benchSidecar))
	want, err := engine.Mutate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{want.Changes[0].Policy, want.Changes[1].Policy}
	reversed := []string{names[1], names[0]}
	var running sync.WaitGroup
	for i := range 20 {
		running.Go(func() {
			order := [][]string{nil, reversed, names[:1], {}}[i%4]
			var ran []string
			var outcomes []int
			evaluated := 0
			d, err := engine.Explain(t.Context(), req, explain.Options{Order: order, MutatingOnly: true,
				Trace: func(e explain.Event) {
					switch {
					case e.Op == explain.OpRun && !e.Second:
						ran = append(ran, e.Policy)
					case e.Op == explain.OpOutcome:
						outcomes = append(outcomes, e.Outcome)
					case e.Evaluation != nil:
						evaluated++
					}
				},
			})
			if err != nil {
				t.Error(err)
				return
			}
			if order == nil {
				order = names
			}
			if !slices.Equal(ran, order) || (len(order) > 0) != (evaluated > 0) {
				t.Errorf("asked for %v: ran %v, %d evaluations", order, ran, evaluated)
			}
			if len(outcomes) != len(d.Outcomes) || len(outcomes) > 0 && outcomes[len(outcomes)-1] != len(d.Outcomes)-1 {
				t.Errorf("asked for %v: told of the outcomes %v of %d", order, outcomes, len(d.Outcomes))
			}
			if len(d.Changes) != len(order) {
				t.Errorf("asked for %v: %d changes", order, len(d.Changes))
			}
		})
		running.Go(func() {
			if d, err := engine.Mutate(t.Context(), req); err != nil || len(d.Outcomes) != len(want.Outcomes) {
				t.Error(d, err)
			}
		})
	}
	running.Wait()
}

// TestExplainIsTimed tests that a call in another order is timed like any other.
func TestExplainIsTimed(t *testing.T) {
	set, err := load(benchPolicies(benchLabel, benchSidecar))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{Timed: true})
	if err != nil {
		t.Fatal(err)
	}
	_, req := prepareBench(t, benchPolicies(benchLabel))
	usual, err := engine.Mutate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	order := []string{usual.Changes[1].Policy, usual.Changes[0].Policy}
	other, err := engine.Explain(t.Context(), req, explain.Options{Order: order, MutatingOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(usual.Timings()) != 2 || len(other.Timings()) != 2 {
		t.Errorf("%d and %d timings", len(usual.Timings()), len(other.Timings()))
	}
}

// TestExplainObserves tests that concurrent calls get the branches of their own expressions.
func TestExplainObserves(t *testing.T) {
	engine, req := prepareBench(t, benchValidation)
	branches, err := engine.Branches()
	if err != nil || len(branches) != 1 {
		t.Fatal(branches, err)
	}
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			var seen []explain.Observation
			how := explain.Options{Observe: func(o explain.Observation) { seen = append(seen, o) }}
			if _, err := engine.Explain(t.Context(), req, how); err != nil {
				t.Error(err)
			}
			if len(seen) == 0 || seen[len(seen)-1].Branch != -1 || !seen[len(seen)-1].True {
				t.Errorf("%+v", seen)
			}
		})
	}
	running.Wait()
}
