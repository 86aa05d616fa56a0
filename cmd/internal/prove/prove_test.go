package prove

import (
	"context"
	"strings"
	"testing"

	"fmt"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
	"sigs.k8s.io/yaml"
)

// room returns a room for the newest minor.
func room(t testing.TB) *Room {
	t.Helper()
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRoom(types, "1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sideOf(t testing.TB, r *Room, text string) *Side {
	t.Helper()
	set := &policy.Set{}
	addAll(t, set, text)
	s, err := r.NewSide(set, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, rejected := range s.engine.Rejections() {
		t.Fatalf("%s: %s", rejected.Ref, rejected.Status.Message)
	}
	return s
}

// addAll adds the documents of a text to a set.
func addAll(t testing.TB, set *policy.Set, text string) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			t.Fatal(err)
		}
		if object == nil {
			continue
		}
		if err := set.Add(object, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// one returns a policy for a resource with one validation, in force.
func one(group, version, resource, expression string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [%q], apiVersions: [%q], operations: [CREATE, UPDATE], resources: [%q]}
  validations:
  - expression: %q
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]}
`, group, version, resource, expression)
}

func TestStricter(t *testing.T) {
	r := room(t)
	for _, test := range []struct {
		old, now string
		want     Answer
	}{
		{"object.spec.replicas <= 5", "!(object.spec.replicas > 5)", Proved},
		{"!(object.spec.replicas > 5)", "object.spec.replicas <= 5", Proved},
		{"object.spec.replicas <= 5", "object.spec.replicas <= 3", Proved},
		{"object.spec.replicas <= 3", "object.spec.replicas <= 5", Counterexample},
		{"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
			"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com'))", Counterexample},
		{"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com'))",
			"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))", Proved},
		{"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
			"object.spec.template.spec.containers.all(c, c.image.matches('^registry[.]example[.]com/[a-z]+'))", Proved},
		{"object.spec.template.spec.containers.all(c, c.image.matches('^registry[.]example[.]com/[a-z]+'))",
			"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))", Counterexample},
		{"object.spec.template.spec.containers.all(c, has(c.securityContext) && has(c.securityContext.runAsNonRoot) && c.securityContext.runAsNonRoot)",
			"object.spec.template.spec.containers.all(c, c.?securityContext.?runAsNonRoot.orValue(false))", Proved},
		{"object.spec.template.spec.containers.all(c, c.?securityContext.?runAsNonRoot.orValue(false))",
			"object.spec.template.spec.containers.exists(c, c.?securityContext.?runAsNonRoot.orValue(false)) && object.spec.template.spec.containers.all(c, c.?securityContext.?runAsNonRoot.orValue(true))", Counterexample},
		{"has(object.metadata.labels) && 'team' in object.metadata.labels && object.metadata.labels['team'] != ''",
			"object.metadata.labels['team'] != ''", Proved},
		{"object.metadata.labels['team'] != ''",
			"has(object.metadata.labels) && 'team' in object.metadata.labels && object.metadata.labels['team'] != ''", Proved},
		{"object.metadata.labels['team'] != ''",
			"object.metadata.?labels['team'].orValue('') != ''", Proved},
		{"size(object.spec.template.spec.containers) < 3", "size(object.spec.template.spec.containers) <= 2", Proved},
		{"size(object.spec.template.spec.containers) < 3", "size(object.spec.template.spec.containers) <= 3", Counterexample},
	} {
		got, err := r.Stricter(context.Background(), sideOf(t, r, one("apps", "v1", "deployments", test.old)),
			sideOf(t, r, one("apps", "v1", "deployments", test.now)))
		if err != nil {
			t.Error(err)
			continue
		}
		if got.Answer != test.want {
			t.Errorf("%s\n%s: %s %+v", test.old, test.now, got.Answer, got.Reasons)
		}
		if got.Found != nil {
			text, _ := yaml.Marshal(got.Found.Request.Object)
			t.Logf("%s\n%s:\n%s", test.old, test.now, text)
		}
	}
}

// TestKeptParts asks about parts of objects that an update keeps, and some beside them that it changes.
func TestKeptParts(t *testing.T) {
	r := room(t)
	for _, test := range []struct {
		group, resource, old, now string
		want                      Answer
	}{
		{"", "pods/ephemeralcontainers", "object.spec.ephemeralContainers.all(c, has(c.securityContext))",
			"object.spec.ephemeralContainers.all(c, !has(c.securityContext))", Counterexample},
		{"", "pods/ephemeralcontainers", "object.spec.?ephemeralContainers.orValue([]).all(c, c.image != 'x')",
			"object.spec.containers.all(c, c.image != 'x')", Counterexample},
		{"", "pods/ephemeralcontainers", "object.spec.?nodeName.orValue('') == oldObject.spec.?nodeName.orValue('') && " +
			"(object.spec.containers.all(c, c.image != 'x') || oldObject.spec.containers.exists(c, c.image == 'x'))", "true",
			Proved},
		{"", "pods/ephemeralcontainers", "object.spec.?ephemeralContainers.orValue([]).size() == " +
			"oldObject.spec.?ephemeralContainers.orValue([]).size()", "true", Counterexample},
		{"apps", "deployments/status", "object.spec.replicas == oldObject.spec.replicas", "true", Proved},
		{"apps", "deployments/status", "object.status.?replicas == oldObject.status.?replicas", "true", Counterexample},
		{"apps", "deployments", "oldObject == null || object.status.?replicas.orValue(0) == " +
			"oldObject.status.?replicas.orValue(0)", "true", Proved},
		{"apps", "deployments", "oldObject == null || object.spec.replicas == oldObject.spec.replicas", "true",
			Counterexample},
		{"apps", "deployments/scale", "object.status.replicas == oldObject.status.replicas", "true", Proved},
		{"apps", "deployments/scale", "object.spec.?replicas == oldObject.spec.?replicas", "true", Counterexample},
		{"", "namespaces/finalize", "object.status.?phase.orValue('') == " +
			"oldObject.status.?phase.orValue('')", "true", Proved},
		{"", "pods", "object.spec.containers.all(c, c.?securityContext.?procMount.orValue('Default') == 'Default')", "true",
			Counterexample},
	} {
		was := sideOf(t, r, one(test.group, "v1", test.resource, test.old))
		is := sideOf(t, r, one(test.group, "v1", test.resource, test.now))
		got, err := r.Stricter(context.Background(), was, is)
		if err != nil {
			t.Fatal(err)
		}
		if got.Answer != test.want {
			t.Errorf("%s: %s, then %s: %s %v", test.resource, test.old, test.now, got.Answer, messages(got))
		}
	}
}
