package celgate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// setOf reads policies and bindings.
func setOf(t *testing.T, text string) *policy.Set {
	t.Helper()
	docs, problems := manifest.Read(strings.NewReader(text), "policies.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		t.Fatal(err)
	}
	return &bundle.Set
}

func ratchet(expression string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ratchet}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - expression: "` + expression + `"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ratchet}
spec: {policyName: ratchet, validationActions: [Deny]}
`
}

// Stored objects are in force although they could not be written now: on a server of 1.37.2 with these policies in its
// etcd, the ConfigMap is denied with these messages.
func TestStoredPolicyDecides(t *testing.T) {
	const denied = "ValidatingAdmissionPolicy 'ratchet' with binding 'ratchet' denied request: "
	for _, test := range []struct {
		expression string
		written    bool // such a policy can be written
		served     bool // only a check of the server prevents it from being in force
		want       string
	}{
		{"1 == 2", true, true, denied + "failed expression: 1 == 2"},
		{"[1].includes(2)", false, true, denied + "failed expression: [1].includes(2)"},
		{"objekt.foo(1", false, false, denied + "compilation error: compilation failed: ERROR: <input>:1:13: " +
			"Syntax error: missing ')' at '<EOF>'\n | objekt.foo(1\n | ............^"},
	} {
		written, err := celgate.New(setOf(t, ratchet(test.expression)), celgate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(written.Rejections()) == 0; got != test.written {
			t.Errorf("%s as newly written: in force is %v, want %v", test.expression, got, test.written)
		}
		set := setOf(t, ratchet(test.expression))
		set.MarkStored()
		served, err := celgate.New(set, celgate.Options{WithoutQuirks: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(served.Rejections()) == 0; got != test.served {
			t.Errorf("%s stored, in the place of a server: in force is %v, want %v", test.expression, got, test.served)
		}
		stored, err := celgate.New(set, celgate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if rejected := stored.Rejections(); len(rejected) > 0 {
			t.Fatalf("%s stored: rejected: %v", test.expression, rejected[0].Status.Message)
		}
		request, err := stored.Prepare(t.Context(), &celgate.Request{
			Kind:      schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			Resource:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			Name:      "c",
			Namespace: "default",
			Operation: celgate.Create,
			Object:    map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		decision, err := stored.Admit(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if decision.Allowed || !strings.HasSuffix(decision.Status.Message, test.want) {
			t.Errorf("%s stored: %+v, want %q", test.expression, decision.Status, test.want)
		}
	}
}

// No cluster has two policies, or two bindings, of one kind and name.
func TestTwoOfOneName(t *testing.T) {
	one := setOf(t, ratchet("true"))
	for what, add := range map[string]func(*policy.Set){
		"policy 'ratchet'": func(s *policy.Set) {
			s.Policies = append(s.Policies, setOf(t, ratchet("false")).Policies...)
		},
		"binding 'ratchet'": func(s *policy.Set) {
			s.Bindings = append(s.Bindings, setOf(t, ratchet("false")).Bindings...)
		},
	} {
		set := &policy.Set{Policies: one.Policies, Bindings: one.Bindings}
		add(set)
		_, err := celgate.New(set, celgate.Options{})
		var twice *policy.DuplicateError
		if !errors.As(err, &twice) || twice.Name != "ratchet" || twice.Position.Line == 0 || twice.First.Line == 0 {
			t.Errorf("%s twice: %v", what, err)
		}
	}
	set := &policy.Set{Policies: one.Policies, Bindings: one.Bindings}
	for _, p := range setOf(t, ratchet("true")).Policies {
		p.Kind = policy.Mutating // of another kind
		set.Policies = append(set.Policies, p)
	}
	if unique, twice := set.Deduplicate(); len(twice) > 0 || len(unique.Policies) != 2 {
		t.Error(twice)
	}
}
