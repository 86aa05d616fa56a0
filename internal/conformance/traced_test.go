package conformance

import (
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestTraced holds that an engine that tells what it does decides as one that does not, costs included, and that what it tells
// is the decision: each outcome once, in order, and mutations that begin where the one before ended.
func TestTraced(t *testing.T) {
	cases, err := Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, c := range cases {
		if c.Request == nil {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			w, err := worldOf(c)
			if err != nil {
				t.Fatal(err)
			}
			plain, _, err := w.Engine(c.Policies, c.Stored...)
			if err != nil {
				t.Fatal(err)
			}
			set := manifest.NewBundle(manifest.DocumentsOf(c.Policies)...).Set
			stored := manifest.NewBundle(manifest.DocumentsOf(c.Stored)...).Set
			stored.MarkStored()
			set.Policies, set.Bindings = append(set.Policies, stored.Policies...), append(set.Bindings, stored.Bindings...)
			var events []celgate.Event
			traced, err := celgate.NewTraced(&set, celgate.Options{KubeVersion: w.Minor, Types: w.Types, Cluster: w.Cluster}, func(e celgate.Event) {
				events = append(events, e)
			})
			if err != nil {
				t.Fatal(err)
			}
			request, err := w.request(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			prepared, err := plain.Prepare(t.Context(), request)
			if err != nil {
				t.Skip("refused before any policy")
			}
			want, err := plain.Admit(t.Context(), prepared)
			if err != nil {
				t.Fatal(err)
			}
			got, err := traced.Admit(t.Context(), prepared)
			if err != nil {
				t.Fatal(err)
			}
			ignored := cmp.Options{
				cmpopts.IgnoreFields(celgate.Decision{}, "Object", "Changes"), cmpopts.IgnoreUnexported(celgate.Decision{}, celgate.Violation{}),
				cmp.Comparer(func(a, b policy.Expr) bool { return a.Src == b.Src && a.Field == b.Field }), cmpopts.EquateEmpty(),
				cmp.Comparer(func(a, b error) bool { return fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", b, b) }),
			}
			if diff := cmp.Diff(want, got, ignored); diff != "" {
				t.Error(diff)
			}
			var outcomes []celgate.Outcome
			objects := map[string]map[string]any{}
			for _, e := range events {
				if e.Outcome != nil {
					outcomes = append(outcomes, *e.Outcome)
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
		})
	}
	if told == 0 {
		t.Error("no mutation was told")
	}
}
