package differ

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/conformance"
)

// TestSlot checks that the policy of a slot is about the objects of the slot alone, also under another name.
func TestSlot(t *testing.T) {
	world, err := readWorld(t.Context(), celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	l := &Live{world: world, pools: map[*kind]*pool{}}
	for i, k := range world.kinds {
		manifest := k.templates[0]
		l.pools[k] = &pool{creates: []creation{{manifest: manifest}},
			updates: []update{{manifest, []map[string]any{manifest}}}}
		g := world.generator(*seed, uint64(i))
		s := l.slot(g, k, "q7", 10)
		other, err := s.rename("z9")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*slot{s, other} {
			names := map[string]bool{}
			for _, q := range s.questions {
				object := q.object
				if q.operation == celgate.Delete {
					object = s.old
				}
				_, name := nameOf(object)
				names[name] = true
				if !strings.Contains(name, s.token) {
					t.Errorf("%s: an object is called %s", s.token, name)
				}
			}
			spec := s.c.Policy["spec"].(map[string]any)
			for _, rule := range spec["matchConstraints"].(map[string]any)["resourceRules"].([]any) {
				allowed := rule.(map[string]any)["resourceNames"].([]any)
				if len(allowed) == 0 {
					t.Errorf("%s: a rule for everything", k.resource.Kind)
				}
				for _, name := range allowed {
					if !strings.Contains(name.(string), s.token) {
						t.Errorf("%s: a rule for %v", s.token, name)
					}
					delete(names, name.(string))
				}
			}
			if len(names) > 0 {
				t.Errorf("%s: no rule for %v", k.resource.Kind, names)
			}
			if bound := s.c.Binding["spec"].(map[string]any); bound["policyName"] != "policy-"+s.token {
				t.Errorf("bound to %v", bound["policyName"])
			}
		}
		if again := l.slot(world.generator(*seed, uint64(i)), k, "q7", 10); !reflect.DeepEqual(again.c, s.c) {
			t.Errorf("%s: one seed makes two policies", k.resource.Kind)
		}
	}
}

// TestSettledWant tests that only fields that the server generates anew are removed.
func TestSettledWant(t *testing.T) {
	got := settledWant(&conformance.Want{
		Status:           &metav1.Status{Message: "uid 1b4e28ba-2fa1-4d2c-883f-0016d3cca427 at 2026-11-28T04:53:17Z, not 2024-02-03T04:05:06Z"},
		Warnings:         []string{`in scheme "pkg/api/legacyscheme/scheme.go:30"`},
		AuditAnnotations: map[string]string{"p/a": "2027-01-01T00:00:00Z"},
		Object:           map[string]any{"a": []any{"2026-11-28T04:53:17Z", int64(3)}},
	})
	want := &conformance.Want{
		Status:           &metav1.Status{Message: "uid <uid> at <time>, not 2024-02-03T04:05:06Z"},
		Warnings:         []string{"in scheme"},
		AuditAnnotations: map[string]string{"p/a": "<time>"},
		Object:           map[string]any{"a": []any{"<time>", int64(3)}},
	}
	if diff := conformance.Compare(want, got); diff != "" {
		t.Error(diff)
	}
}
