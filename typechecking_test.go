package celgate_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// TestTypeChecking refuses only expressions that are wrong for every kind that a policy matches.
func TestTypeChecking(t *testing.T) {
	deployments := func(resources, more, expression string) string {
		text := podPolicy(expression)
		text = strings.Replace(text, `apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]`,
			`apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [`+resources+`]`, 1)
		return strings.Replace(text, "  reinvocationPolicy:", "  "+more+"\n  reinvocationPolicy:", 1)
	}
	const wrong = `Object{spec: Object.spec{replicas: "3", template: Object.spec.template{hostnam: "x"}}}`
	for _, c := range []struct{ name, policy, want string }{
		{"wrong", deployments("deployments, statefulsets", "", wrong),
			"compilation failed for apps/v1 Deployment: ERROR: <input>:1:36: expected type of field 'replicas' is 'int' but provided type is 'string'"},
		{"wrong for one of two", deployments("deployments, daemonsets", "", `Object{spec: Object.spec{replicas: 3}}`), ""},
		{"wrong for all of many", deployments("'*'", "", `Object{metadata: Object.metadata{label: {"a": "b"}}}`), "did you mean labels?"},
		{"warn", deployments("deployments", "typeChecking: Warn", wrong), ""},
		{"off", deployments("deployments", `typeChecking: "Off"`, wrong), ""},
		{"unknown", deployments("deployments", "typeChecking: Maybe", wrong), `spec.typeChecking: Unsupported value: "Maybe"`},
		{"a kind that is not known", strings.Replace(deployments("things", "", wrong), "[apps]", "[example.com]", 1), ""},
		{"read", deployments("deployments", "", `Object{metadata: Object.metadata{labels: {"a": object.spec.replica}}}`),
			"undefined field 'replica'"},
		{"what may be right", deployments("deployments", "", `Object{spec: Object.spec{replicas: dyn("3"), template: objects.unset()}}`), ""},
		{"an atomic value", deployments("deployments", "", `Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"a": "b"}}}}`), ""},
		{"an optional that is none", deployments("deployments", "", `Object{spec: Object.spec{?replicas: optional.none()}}`), ""},
		{"a verdict", deployments("deployments", "", `object.spec.replicas == 1 ? null : Object{spec: Object.spec{replicas: 1}}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := engineOf(t, c.policy)
			message := ""
			for _, r := range engine.Rejections() {
				message += r.Status.Message
			}
			if (message == "") != (c.want == "") || !strings.Contains(message, c.want) {
				t.Errorf("got %q, want %q", message, c.want)
			}
		})
	}
}

// TestTypeCheckingOfUpdates lets an update keep existing expressions.
func TestTypeCheckingOfUpdates(t *testing.T) {
	of := func(expression string) *policy.Policy {
		docs, _ := manifest.Read(strings.NewReader(podPolicy(expression)), "p.yaml")
		return manifest.NewBundle(docs...).Set.Policies[0]
	}
	engine, err := celgate.New(&policy.Set{}, celgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const wrong = `Object{spec: Object.spec{hostnam: "x"}}`
	if errs := engine.WriteErrors(compile.Written{Policy: of(wrong), OldPolicy: of(wrong)}); len(errs) > 0 {
		t.Errorf("what the policy had is refused: %v", errs)
	}
	if errs := engine.WriteErrors(compile.Written{Policy: of(wrong), OldPolicy: of("Object{}")}); len(errs) != 1 {
		t.Errorf("what is new is let in: %v", errs)
	}
}
