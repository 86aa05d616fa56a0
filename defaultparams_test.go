package celgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
)

// limitDefinition is a kind of params with a default, a rule and a required field.
const limitDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: limits, singular: limit, kind: Limit, listKind: LimitList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [max]
            x-kubernetes-validations: [{rule: "self.max >= self.min", message: max is below min}]
            properties:
              min: {type: integer, default: 1}
              max: {type: integer, maximum: 9}
              words: {type: array, items: {type: string}}
---
`

// limitedPolicy is a policy with Limits as params and its binding.
func limitedPolicy(policySpec, bindingSpec string) string {
	return limitDefinition + fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: limited}
spec:
  paramKind: {apiVersion: example.com/v1, kind: Limit}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps, persistentvolumes]}]
  validations: [{expression: "false", messageExpression: 'string(params.spec.min) + " " + string(params.spec.max) + " " + params.spec.?words.orValue(["none"]).join(",")'}]
%s
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: limited}
spec:
  policyName: limited
%s
---
`, policySpec, bindingSpec)
}

// limitedEngine returns an engine with policies and the objects beside them.
func limitedEngine(t *testing.T, text string) *celgate.Engine {
	t.Helper()
	docs, problems := manifest.Read(strings.NewReader(text), "limited.yaml")
	for _, p := range problems {
		t.Fatal(p)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	for _, d := range bundle.Objects {
		objects = append(objects, d.Object)
	}
	engine, err := celgate.New(&bundle.Set, celgate.Options{Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// create decides about a new object of kind "ConfigMap" or "PersistentVolume" named x, the first in the namespace team.
func create(t *testing.T, engine *celgate.Engine, kind string) *celgate.Decision {
	t.Helper()
	object := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "x"}}
	if kind == "PersistentVolume" {
		object["spec"] = map[string]any{"capacity": map[string]any{"storage": "1Gi"},
			"accessModes": []any{"ReadWriteOnce"}, "hostPath": map[string]any{"path": "/x"}}
	}
	prepared, err := engine.RequestFor(t.Context(), object, celgate.As{Namespace: "team"})
	return admitPrepared(t, engine, prepared, err)
}

const stored = `
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: example.com/v1
kind: Limit
metadata: {name: own, namespace: team, labels: {team: a}}
spec: {min: 2, max: 3}
---
`

func TestDefaultParams(t *testing.T) {
	const (
		defaults = "  defaultParams: {spec: {max: 5, words: [a]}}\n"
		named    = "  paramRef: {name: own, parameterNotFoundAction: Default}"
		missing  = "  paramRef: {name: none, parameterNotFoundAction: Default}"
		selected = "  paramRef: {selector: {matchLabels: {team: a}}, parameterNotFoundAction: Default}"
	)
	for name, c := range map[string]struct{ policy, binding, kind, want, param string }{
		"a param":                {defaults, named, "ConfigMap", "2 3 none", "team/own"},
		"a param, merged":        {defaults + "  paramMerge: Merge\n", named, "ConfigMap", "2 3 a", "team/own"},
		"a param of a selector":  {defaults + "  paramMerge: Merge\n", selected, "ConfigMap", "2 3 a", "team/own"},
		"no param":               {defaults, missing, "ConfigMap", "1 5 a", celgate.DefaultParam},
		"no param, merged":       {defaults + "  paramMerge: Merge\n", missing, "ConfigMap", "1 5 a", celgate.DefaultParam},
		"no paramRef":            {defaults, "", "ConfigMap", "1 5 a", celgate.DefaultParam},
		"no namespace":           {defaults, named, "PersistentVolume", "1 5 a", celgate.DefaultParam},
		"no namespace, Deny":     {defaults, strings.Replace(named, "Default", "Deny", 1), "PersistentVolume", "cannot use namespaced paramRef", ""},
		"no param, Deny":         {defaults, strings.Replace(missing, "Default", "Deny", 1), "ConfigMap", "no params found", ""},
		"no param, Allow":        {defaults, strings.Replace(missing, "Default", "Allow", 1), "ConfigMap", "", ""},
		"no default":             {"", missing, "ConfigMap", "no params found for policy binding with `Default`", ""},
		"labels and annotations": {"  defaultParams: {metadata: {labels: {a: b}}, spec: {max: 5}}\n", missing, "ConfigMap", "1 5 none", celgate.DefaultParam},
	} {
		engine := limitedEngine(t, limitedPolicy(c.policy, c.binding)+stored)
		for _, r := range engine.Rejections() {
			t.Fatal(name, r.Status.Message)
		}
		d := create(t, engine, c.kind)
		switch {
		case c.want == "" && d.Allowed:
		case d.Allowed || !strings.Contains(d.Status.Message, c.want):
			t.Errorf("%s: %s", name, describeDecision(d))
		case len(d.Outcomes) > 0 && d.Outcomes[0].Param != c.param:
			t.Errorf("%s: param %q", name, d.Outcomes[0].Param)
		}
	}
}

// TestDefaultParamsRefused writes default params that the server would not store as they are.
func TestDefaultParamsRefused(t *testing.T) {
	for spec, want := range map[string]string{
		`defaultParams: {spec: {max: "5"}}`:                             `spec.defaultParams.spec.max: Invalid value: "string"`,
		`defaultParams: {spec: {max: 10}}`:                              `spec.defaultParams.spec.max: Invalid value: 10`,
		`defaultParams: {spec: {min: 4, max: 3}}`:                       "spec.defaultParams.spec: Invalid value: max is below min",
		`defaultParams: {spec: {}}`:                                     "spec.defaultParams.spec.max: Required value",
		`defaultParams: {spec: {max: 5, maxx: 6}}`:                      `spec.defaultParams: Invalid value: unknown field "spec.maxx"`,
		`defaultParams: {kind: Limits, spec: {max: 5}}`:                 "spec.defaultParams.kind: Invalid value: \"Limits\": must be that of paramKind: Limit",
		`defaultParams: {metadata: {name: a}, spec: {max: 5}}`:          "spec.defaultParams.metadata.name: Forbidden",
		`defaultParams: {metadata: {labels: {"-": b}}, spec: {max: 5}}`: "spec.defaultParams.metadata.labels",
		`paramMerge: Merge`:                                             "spec.paramMerge: Forbidden: the policy has no defaultParams",
		"defaultParams: {spec: {max: 5}}\n  paramMerge: Other":          `spec.paramMerge: Unsupported value: "Other": supported values: "Merge", "Replace"`,
	} {
		rejected := limitedEngine(t, limitedPolicy("  "+spec, "")).Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, want) {
			t.Errorf("%s: %+v", spec, rejected)
			for _, r := range rejected {
				t.Log(r.Status.Message)
			}
		}
	}
	// Fields that a built-in kind does not have; a binding of a released kind does not have Default.
	for text, want := range map[string]string{
		dialectPolicy("p", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n  defaultParams: {data: {a: 1}}\n  validations: [{expression: 'true'}]"): "spec.defaultParams: Invalid value: ",
		dialectPolicy("p", "  defaultParams: {data: {a: b}}\n  validations: [{expression: 'true'}]"):                                                 "spec.defaultParams: Forbidden: the policy has no paramKind",
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\n" +
			"spec: {policyName: p, validationActions: [Deny], paramRef: {name: a, parameterNotFoundAction: Default}}\n": `Unsupported value: "Default"`,
	} {
		rejected := limitedEngine(t, text).Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, want) {
			t.Errorf("%s\n%+v", text, rejected)
			for _, r := range rejected {
				t.Log(r.Status.Message)
			}
		}
	}
}

// TestDefaultParamsUnknown writes default params of a kind that comes later: the policy fails until it does.
func TestDefaultParamsUnknown(t *testing.T) {
	engine := limitedEngine(t, strings.Replace(limitedPolicy("  defaultParams: {spec: {max: 5}}", ""), limitDefinition, "", 1)+stored[:strings.Index(stored, "---")])
	if d := create(t, engine, "ConfigMap"); len(engine.Rejections()) > 0 || d.Allowed ||
		!strings.Contains(d.Status.Message, "failed to find resource referenced by paramKind") {
		t.Error(describeDecision(d), engine.Rejections())
	}
}
