package celgate

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

const importingPolicy = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: NAME}
spec:
  imports: [IMPORT]
  failurePolicy: FAILS
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: EXPRESSION}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
---
`

func policyImporting(name, library, expression, fails string) string {
	return strings.NewReplacer("NAME", name, "IMPORT", library, "EXPRESSION", expression, "FAILS", fails).Replace(importingPolicy)
}

func libraryOf(name, imports, function string) string {
	return `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyLibrary
metadata: {name: ` + name + `}
spec:
  imports: [` + imports + `]
  functions: [{name: f, params: [{name: x, type: int}], type: bool, expression: "` + function + `"}]
---
`
}

// storedSet returns the set of a text in stored form.
func storedSet(t *testing.T, text string) *policy.Set {
	t.Helper()
	docs, problems := manifest.Read(strings.NewReader(text), "libraries.yaml")
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	bundle.Set.MarkStored()
	return &bundle.Set
}

func engineOf(t *testing.T, set *policy.Set, before *Engine) *Engine {
	t.Helper()
	e, err := New(set, Options{Before: before, WithoutQuirks: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decideConfigMap(t *testing.T, e *Engine) *Decision {
	t.Helper()
	req, err := e.RequestFor(t.Context(), map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "x", "namespace": "default"}}, As{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Admit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestChangedLibrary changes one of three libraries: only the policies that import it, directly or through another one,
// are recompiled.
func TestChangedLibrary(t *testing.T) {
	one, two := libraryOf("one", "", "x > 0"), libraryOf("two", "one", "one.f(x) && x < 9")
	other := libraryOf("other", "", "x == 1")
	set := storedSet(t, one+two+other+policyImporting("a", "one", "one.f(1)", "Fail")+policyImporting("b", "two", "two.f(1)", "Fail")+
		policyImporting("c", "other", "other.f(1)", "Fail"))
	first := engineOf(t, set, nil)
	if len(first.Rejections())+len(first.Failing()) > 0 || !decideConfigMap(t, first).Allowed {
		t.Fatal(first.Rejections(), first.Failing())
	}
	programs := func(e *Engine) map[string]any {
		all := map[string]any{}
		for _, h := range e.index.hooks {
			all[h.Name] = h.Program
		}
		return all
	}
	same := engineOf(t, &policy.Set{Policies: set.Policies, Bindings: set.Bindings, Libraries: set.Libraries}, first)
	changed := *set
	changed.Libraries = append(storedSet(t, libraryOf("one", "", "x > 1")).Libraries, set.Libraries[1:]...)
	next := engineOf(t, &changed, same)
	was, again, is := programs(first), programs(same), programs(next)
	compiled := 0
	for name := range was {
		if was[name] != again[name] {
			t.Errorf("%s is compiled again, though nothing has changed", name)
		}
		if was[name] != is[name] {
			compiled++
		}
	}
	if compiled != 2 || was["c"] != is["c"] {
		t.Errorf("%d policies are compiled again, not a and b", compiled)
	}
	if d := decideConfigMap(t, next); d.Allowed || len(d.Violations) != 2 {
		t.Errorf("%+v", d.Violations)
	}
}

// TestBrokenLibrary removes a library, makes it invalid, and removes a part that a policy uses: each request for the
// policy is an error, and failurePolicy decides.
func TestBrokenLibrary(t *testing.T) {
	for name, c := range map[string]struct{ libraries, want string }{
		"deleted":         {"", `spec.imports[0]: Not found: "one"`},
		"does not parse":  {libraryOf("one", "", "x +"), "the library is not valid: spec.functions[0].expression: Syntax error"},
		"imports nothing": {libraryOf("one", "none", "true"), `the library is not valid: spec.imports[0]: Not found: "none"`},
		"without it": {strings.ReplaceAll(libraryOf("one", "", "true"), "name: f,", "name: g,"),
			"undeclared reference to 'one.f' (did you mean one.g?)"},
		"another type": {strings.ReplaceAll(libraryOf("one", "", "x == ''"), "type: int", "type: string"),
			"found no matching overload for 'one.f' applied to '(int)'"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, fails := range []string{"Fail", "Ignore"} {
				e := engineOf(t, storedSet(t, c.libraries+policyImporting("a", "one", "one.f(1)", fails)), nil)
				if len(e.Failing()) != 1 || !strings.Contains(e.Failing()[0].Status.Message, c.want) {
					t.Errorf("%s: %+v", fails, e.Failing())
				}
				d := decideConfigMap(t, e)
				if d.Allowed != (fails == "Ignore") {
					t.Errorf("%s: allowed is %t", fails, d.Allowed)
				}
				if !d.Allowed && !strings.Contains(d.Status.Message, c.want) {
					t.Error(d.Status.Message)
				}
			}
		})
	}
}

// TestImportsOfNew refuses a policy that is written before its libraries where it is to be in force at once.
func TestImportsOfNew(t *testing.T) {
	set := storedSet(t, policyImporting("a", "one", "one.f(1)", "Fail"))
	set.Policies[0].Stored = false
	e := engineOf(t, set, nil)
	if len(e.Rejections()) != 1 || !strings.Contains(e.Rejections()[0].Status.Message, `spec.imports[0]: Not found: "one"`) {
		t.Errorf("%+v", e.Rejections())
	}
	if len(storedSet(t, libraryOf("one", "two", "true")+libraryOf("two", "one", "true")).Libraries) != 2 {
		t.Error("libraries in a cycle are not there")
	}
}
