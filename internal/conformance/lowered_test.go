package conformance

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

// renamed is a status with another name of a binding.
func renamed(t *testing.T, status *metav1.Status, from, to string) *metav1.Status {
	if status == nil || from == to {
		return status
	}
	text, err := yaml.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	out := &metav1.Status{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "'"+from+"'", "'"+to+"'")), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLowered makes native policies of those of the dialect in a case: they are those of the case, which a server has
// answered, and the dialect has the same answer.
func TestLowered(t *testing.T) {
	cases := corpus(t)
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	own, err := celenv.New("1.37", quirks.Of("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range cases {
		if c.Dialect == nil {
			continue
		}
		n++
		t.Run(c.Name, func(t *testing.T) {
			var set policy.Set
			for _, object := range c.Dialect {
				p, b, err := policy.FromObject(object, nil)
				switch {
				case err != nil:
					t.Fatal(err)
				case p != nil:
					set.Policies = append(set.Policies, p)
				default:
					set.Bindings = append(set.Bindings, b)
				}
			}
			var made []map[string]any
			l := lower.New(&set, types, own)
			for _, object := range c.Dialect {
				var natives []map[string]any
				var refusals []lower.Refusal
				if p := set.Policy(policy.RefOf(object)); p != nil {
					natives, refusals = l.Policy(object, p)
				} else {
					natives, refusals = l.Binding(object, set.Binding(policy.RefOf(object)))
				}
				if len(refusals) > 0 {
					t.Fatal(refusals)
				}
				made = append(made, natives...)
			}
			if !reflect.DeepEqual(made, c.Policies) {
				text, _ := yaml.Marshal(made)
				t.Errorf("the native form is\n%s", text)
			}
			turned := *c
			turned.Policies = c.Dialect
			if turned.Want, err = wantedOfDialect(c.Want); err != nil {
				t.Fatal(err)
			}
			for _, b := range set.Bindings {
				turned.Want.Status = renamed(t, turned.Want.Status, strings.Replace(b.Name, "/", ".", 1), b.Name)
			}
			got, err := Replay(t.Context(), &turned)
			if err != nil {
				t.Fatal(err)
			}
			if diff := Compare(turned.Want, got); diff != "" {
				t.Error("- recorded + dialect\n" + diff)
			}
		})
	}
	if n < 20 {
		t.Errorf("%d cases have a dialect.yaml", n)
	}
}
