package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

// restate returns the recorded answer of native policies with the names of the policies and bindings in the dialect, by
// native name, and with the author's expressions.
func restate(t *testing.T, recorded *Want, names map[string]string) *Want {
	t.Helper()
	w := *recorded
	rename := func(text string) string {
		for native, name := range names {
			text = strings.ReplaceAll(text, "'"+native+"'", "'"+name+"'")
		}
		return unfold(text)
	}
	if w.Status != nil {
		w.Status = w.Status.DeepCopy()
		w.Status.Message = rename(w.Status.Message)
		for i, cause := range w.Status.Details.Causes {
			w.Status.Details.Causes[i].Message = rename(cause.Message)
			w.Status.Details.Causes[i].Field = "" // which only the dialect has
		}
	}
	w.Warnings = slices.Clone(w.Warnings)
	for i, text := range w.Warnings {
		w.Warnings[i] = rename(text)
	}
	if w.AuditAnnotations != nil {
		w.AuditAnnotations = map[string]string{}
	}
	for key, value := range recorded.AuditAnnotations {
		policyName, key, _ := strings.Cut(key, "/")
		if name, ok := names[policyName]; ok {
			policyName = name
		}
		w.AuditAnnotations[policyName+"/"+key] = dropIndexes(t, value, names)
	}
	return &w
}

// dropIndexes returns the value of an audit annotation; for failures, without the name of the rule in its policy.
func dropIndexes(t *testing.T, value string, names map[string]string) string {
	t.Helper()
	var failures []map[string]any
	if json.Unmarshal([]byte(value), &failures) != nil {
		return value
	}
	for _, f := range failures {
		delete(f, "expressionIndex")
		delete(f, "validation")
		for _, member := range []string{"policy", "binding"} {
			if name, ok := names[fmt.Sprint(f[member])]; ok {
				f[member] = name
			}
		}
		f["message"] = unfold(fmt.Sprint(f["message"]))
	}
	slices.SortFunc(failures, func(a, b map[string]any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	text, err := json.Marshal(failures)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nameOf is the name that messages call a policy or binding of a set by.
func nameOf(set *policy.Set, object map[string]any) string {
	if b := set.Binding(policy.RefOf(object)); b != nil {
		return b.Name
	}
	return policy.RefOf(object).Name
}

// TestLowered makes native policies of those of the dialect in a case: they are those of the case, which a server has
// answered, and the dialect has the same answer.
func TestLowered(t *testing.T) {
	cases := corpus(t)
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	own, err := celenv.New("1.37", quirks.SetOf("1.37"))
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
			known := types
			for _, object := range c.State {
				if object["kind"] == "CustomResourceDefinition" {
					if known, err = known.WithCustomResources(object); err != nil {
						t.Fatal(err)
					}
				}
			}
			var set policy.Set
			for _, object := range c.Dialect {
				if err := set.Add(object, nil); err != nil {
					t.Fatal(err)
				}
			}
			set = *set.Link(nil)
			var made []map[string]any
			names := map[string]string{}
			l := lower.New(&set, known, own)
			for _, object := range c.Dialect {
				var natives []map[string]any
				var refusals []lower.Refusal
				switch p := set.Policy(policy.RefOf(object)); {
				case policy.RefOf(object).Kind == policy.LibraryKind:
				case p != nil:
					natives, refusals = l.Policy(object, p)
				default:
					natives, refusals = l.Binding(object, set.Binding(policy.RefOf(object)))
				}
				if len(refusals) > 0 {
					t.Fatal(refusals)
				}
				for _, native := range natives {
					names[policy.RefOf(native).Name] = nameOf(&set, object)
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
			turned.Want = restate(t, turned.Want, names)
			got, err := Replay(t.Context(), &turned, celgate.Newest)
			if err != nil {
				t.Fatal(err)
			}
			if diff := Compare(turned.Want, restate(t, got, nil)); diff != "" {
				t.Error("- recorded + dialect\n" + diff)
			}
		})
	}
	if n < 20 {
		t.Errorf("%d cases have a dialect.yaml", n)
	}
}
