//go:build !race

package celgate_test

import "testing"

// TestAllocations limits the allocations of one decision. The API server's own plugins allocate 1,120 times for the
// label, 1,400 for the pull policy, 685 for the JSON patch and 104 times for the validation. It does not run with the
// race detector, under which a sync.Pool drops values at random.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		name, policies string
		ceiling        float64
	}{
		{"label", benchPolicies(benchLabel), 16},
		{"sidecar", benchPolicies(benchSidecar), 36},
		{"pull policy", benchPolicies(benchPullPolicy), 39},
		{"JSON patch", benchPolicies(benchJSONPatch), 40},
		{"all four", benchPolicies(benchLabel, benchSidecar, benchPullPolicy, benchJSONPatch), 125},
		{"validation", benchValidation, 6},
	} {
		engine, req := prepareBench(t, c.policies)
		decide, mutates := engine.Mutate, true
		if c.policies == benchValidation {
			decide, mutates = engine.Validate, false
		}
		allocations := testing.AllocsPerRun(100, func() {
			d, err := decide(t.Context(), req)
			if err != nil || !d.Allowed || d.Mutated != mutates {
				t.Fatalf("%s: %+v, %v", c.name, d, err)
			}
		})
		if allocations > c.ceiling {
			t.Errorf("%s: %v allocations, at most %v", c.name, allocations, c.ceiling)
		}
		t.Logf("%s: %v allocations", c.name, allocations)
	}
}
