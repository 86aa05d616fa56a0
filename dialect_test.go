package celgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

const configMapRules = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]}`

const mutableRules = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}`

// dialectPolicy is a policy for ConfigMaps and its binding; more are further members of its spec.
func dialectPolicy(name, more string) string {
	return fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: %s}
spec:
  %s
%s
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
---
`, name, configMapRules, more)
}

// admit decides about the creation of a ConfigMap with data, such as "{a: b}".
func admit(t *testing.T, policies, data string) *celgate.Decision {
	t.Helper()
	engine := engineOf(t, policies)
	for _, r := range engine.Rejections() {
		t.Fatal(r.Status.Message)
	}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "cm", "namespace": "default"}}
	var members map[string]any
	if err := yaml.Unmarshal([]byte(data), &members); err != nil {
		t.Fatal(err)
	}
	object["data"] = members
	return admitObject(t, engine, "configmaps", object)
}

// admitObject decides about the creation of an object of the core group in the namespace default.
func admitObject(t *testing.T, engine *celgate.Engine, resource string, object map[string]any) *celgate.Decision {
	t.Helper()
	name, _ := object["metadata"].(map[string]any)["name"].(string)
	prepared, err := engine.Prepare(t.Context(), &celgate.Request{
		Kind:      schema.GroupVersionKind{Version: "v1", Kind: object["kind"].(string)},
		Resource:  schema.GroupVersionResource{Version: "v1", Resource: resource},
		Operation: celgate.Create, Namespace: "default", Name: name, Object: object,
	})
	return admitPrepared(t, engine, prepared, err)
}

// admitPrepared decides about a request, unless it could not be prepared.
func admitPrepared(t *testing.T, engine *celgate.Engine, prepared *celgate.Prepared, err error) *celgate.Decision {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.Admit(t.Context(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func engineOf(t testing.TB, policies string) *celgate.Engine {
	t.Helper()
	return engineWith(t, policies, celgate.Options{})
}

func engineWith(t testing.TB, policies string, opts celgate.Options) *celgate.Engine {
	t.Helper()
	docs, problems := manifest.Read(strings.NewReader(policies), "policies.yaml")
	for _, p := range problems {
		t.Fatal(p)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		t.Fatal(err)
	}
	engine, err := celgate.New(&bundle.Set, opts)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// describeDecision returns a decision in one line: the data of the ConfigMap, or code and message of the denial.
func describeDecision(d *celgate.Decision) string {
	if !d.Allowed {
		return fmt.Sprintf("%d %s: %s", d.Status.Code, d.Status.Reason, d.Status.Message)
	}
	return fmt.Sprint(d.Object["data"])
}

func TestMutationsOfDialect(t *testing.T) {
	set := func(key, value string) string {
		return `patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{data: {"` + key + `": "` + value + `"}}'}`
	}
	gives := func(expression string) string {
		return "patchType: ApplyConfiguration\n    applyConfiguration: {expression: '" + expression + "'}"
	}
	patches := func(expression string) string {
		return "patchType: JSONPatch\n    jsonPatch: {expression: '" + expression + "'}"
	}
	merges := func(expression string) string {
		return "patchType: JSONMergePatch\n    jsonMergePatch: {expression: '" + expression + "'}"
	}
	const never = "  reinvocationPolicy: Never\n  mutations:\n  - "
	for name, c := range map[string]struct{ spec, data, want string }{
		"condition true":  {never + "condition: object.data.a == \"b\"\n    " + set("x", "y"), "{a: b}", "map[a:b x:y]"},
		"condition false": {never + "condition: object.data.a == \"c\"\n    " + set("x", "y"), "{a: b}", "map[a:b]"},
		"condition sees the mutations before": {never + set("x", "y") +
			"\n  - condition: has(object.data.x)\n    " + set("z", "z"), "{a: b}", "map[a:b x:y z:z]"},
		"condition sees variables": {"  variables: [{name: v, expression: object.data.a}]\n" + never +
			"condition: variables.v == \"b\"\n    " + set("x", "y"), "{a: b}", "map[a:b x:y]"},
		"error of a condition": {never + "name: first\n    condition: object.data.z == \"b\"\n    " + set("x", "y"), "{a: b}",
			"403 Invalid: policy 'p', mutation 'first' with binding 'p' denied request: expression 'object.data.z == \"b\"' resulted in error: no such key: z"},
		"error of a condition, ignored": {"  failurePolicy: Ignore\n" + never + "condition: object.data.z == \"b\"\n    " + set("x", "y"),
			"{a: b}", "map[a:b]"},
		"message of an error": {never + "message: no z\n    " + gives("Object{data: {\"y\": object.data.z}}"), "{a: b}",
			"403 Invalid: policy 'p' with binding 'p' denied request: no z"},
		"reason of an error": {never + "reason: Forbidden\n    " + gives("Object{data: {\"y\": object.data.z}}"), "{a: b}",
			"403 Forbidden: policy 'p' with binding 'p' denied request: expression 'Object{data: {\"y\": object.data.z}}' resulted in error: no such key: z"},
		"messageExpression": {never + "messageExpression: \"'not ' + object.data.a\"\n    message: nope\n    " + gives("false"), "{a: b}",
			"422 Invalid: policy 'p' with binding 'p' denied request: not b"},
		"messageExpression with an error": {never + "messageExpression: \"'not ' + object.data.z\"\n    message: nope\n    " + gives("false"),
			"{a: b}", "422 Invalid: policy 'p' with binding 'p' denied request: nope"},
		"false": {never + gives("false"), "{a: b}",
			"422 Invalid: policy 'p' with binding 'p' denied request: failed expression: false"},
		"false with a reason": {never + "reason: RequestEntityTooLarge\n    " + gives("false"), "{a: b}",
			"413 RequestEntityTooLarge: policy 'p' with binding 'p' denied request: failed expression: false"},
		"false under Ignore": {"  failurePolicy: Ignore\n" + never + "message: nope\n    " + gives("false"), "{a: b}",
			"422 Invalid: policy 'p' with binding 'p' denied request: nope"},
		"true":                    {never + gives("true"), "{a: b}", "map[a:b]"},
		"null":                    {never + gives("null"), "{a: b}", "map[a:b]"},
		"null or an object, null": {never + gives("object.data.a == \"b\" ? null : Object{data: {\"x\": \"y\"}}"), "{a: b}", "map[a:b]"},
		"null or an object, object": {never + gives("object.data.a == \"c\" ? null : Object{data: {\"x\": \"y\"}}"), "{a: b}",
			"map[a:b x:y]"},
		"null or a patch": {never + patches("object.data.a == \"c\" ? null : [JSONPatch{op: \"add\", path: \"/data/x\", value: \"y\"}]"),
			"{a: b}", "map[a:b x:y]"},
		"false or null": {never + patches("object.data.?a.orValue(\"\") == \"b\" ? false : null"), "{a: c}", "map[a:c]"},
		"nested":        {never + gives("true ? (object.data.a == \"b\" ? true : false) : Object{}"), "{a: b}", "map[a:b]"},
		"skip": {never + patches("object.data.a == \"b\" ? mutations.skip() : [JSONPatch{op: \"remove\", path: \"/data/a\"}]"), "{a: b}",
			"map[a:b]"},
		"deny": {never + patches("object.data.a == \"b\" ? mutations.deny() : [JSONPatch{op: \"remove\", path: \"/data/a\"}]"), "{a: b}",
			"422 Invalid: policy 'p' with binding 'p' denied request: failed expression: object.data.a == \"b\" ? mutations.deny() : [JSONPatch{op: \"remove\", path: \"/data/a\"}]"},
		"optional without a value": {never + gives("optional.none()"), "{a: b}", "map[a:b]"},
		"optional with a value":    {never + gives("optional.of(Object{data: {\"x\": \"y\"}})"), "{a: b}", "map[a:b x:y]"},
		"object in a variable": {"  variables: [{name: v, expression: 'Object{data: {\"x\": \"y\"}}'}]\n" + never + gives("variables.v"),
			"{a: b}", "map[a:b x:y]"},
		"no patches": {never + patches("[]"), "{a: b}", "map[a:b]"},
		"other value": {never + gives("dyn(1)"), "{a: b}",
			"403 Invalid: policy 'p' with binding 'p' denied request: unsupported return type from ApplyConfiguration expression: int"},
		"merge patch": {never + merges("{\"data\": {\"a\": null, \"x\": object.data.c}, \"immutable\": true}"), "{a: b, c: d}",
			"map[c:d x:d]"},
		"merge patch that is an Object": {never + merges("Object{data: {\"x\": \"y\"}}"), "{a: b}", "map[a:b x:y]"},
		"merge patch on a condition":    {never + merges("object.data.a == \"b\" ? {\"data\": {\"a\": null, \"z\": \"z\"}} : null"), "{a: b}", "map[z:z]"},
		"merge patch that denies":       {never + merges("false"), "{a: b}", "422 Invalid: policy 'p' with binding 'p' denied request: failed expression: false"},
		"merge patch that is no object": {never + merges("dyn([1])"), "{a: b}",
			"403 Invalid: policy 'p' with binding 'p' denied request: a JSON merge patch is a map or an Object, not list(dyn)"},
		"merge patch that cannot be decoded": {never + merges("{\"data\": {\"x\": [dyn({\"y\": 1})][0]}}"), "{a: b}",
			"403 Invalid: policy 'p' with binding 'p' denied request: JSON merge patch: json: cannot unmarshal object into Go struct field ConfigMap.data of type string"},
		"merge patch that cannot be decoded, ignored": {"  failurePolicy: Ignore\n" + never + merges("{\"data\": {\"x\": [dyn({\"y\": 1})][0]}}"),
			"{a: b}", "map[a:b]"},
		"nothing to run again": {"  reinvocationPolicy: IfNeeded\n  mutations:\n  - reinvocationPolicy: Never\n    " +
			gives("Object{data: {\"n\": object.data.?n.orValue(\"\") + \"x\"}}"), "{a: b}", "map[a:b n:x]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describeDecision(admit(t, dialectPolicy("p", c.spec), c.data)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestReinvocationOfOneMutation has a policy that runs again because a later one changes a field that it reads: of its
// two mutations, only the one with reinvocation appends again.
func TestReinvocationOfOneMutation(t *testing.T) {
	appends := func(key, more string) string {
		return "  - " + more + "patchType: ApplyConfiguration\n    applyConfiguration: {expression: 'Object{data: {\"" + key +
			"\": object.data.?" + key + ".orValue(\"\") + \"x\"}}'}\n"
	}
	first := dialectPolicy("a", "  reinvocationPolicy: Never\n  mutations:\n"+appends("once", "")+
		appends("twice", "reinvocationPolicy: IfNeeded\n    "))
	second := dialectPolicy("b", "  order: {after: [a]}\n  reinvocationPolicy: Never\n  mutations:\n"+appends("twice", ""))
	if got, want := describeDecision(admit(t, first+second, "{a: b}")), "map[a:b once:x twice:xxx]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDialectRefusesMutations(t *testing.T) {
	const mutation = "  reinvocationPolicy: Never\n  mutations:\n  - patchType: ApplyConfiguration\n    applyConfiguration: {expression: 'Object{}'}\n"
	for name, c := range map[string]struct{ more, want string }{
		"name":              {"    name: A.b", `spec.mutations[0].name: Invalid value: "A.b"`},
		"same names":        {"    name: a\n  - {name: a, patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{}'}}", `spec.mutations[1].name: Duplicate value: "a"`},
		"condition":         {"    condition: '1'", "spec.mutations[0].condition: Invalid value: \"1\": must evaluate to bool but got int"},
		"blank condition":   {"    condition: ' '", "spec.mutations[0].condition: Required value"},
		"message":           {"    message: \"a\\nb\"", "spec.mutations[0].message: Invalid value"},
		"messageExpression": {"    messageExpression: '1'", "spec.mutations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int"},
		"reason":            {"    reason: Unauthorized", `spec.mutations[0].reason: Unsupported value: "Unauthorized"`},
		"reinvocation":      {"    reinvocationPolicy: Always", `spec.mutations[0].reinvocationPolicy: Unsupported value: "Always"`},
		"merge patch of a list": {"  - {patchType: JSONMergePatch, jsonMergePatch: {expression: '[1]'}}",
			"spec.mutations[1].jsonMergePatch.expression: Invalid value: \"[1]\": must evaluate to a map or an Object but got list(int)"},
		"two patches": {"  - {patchType: JSONMergePatch, jsonMergePatch: {expression: 'null'}, jsonPatch: {expression: '[]'}}",
			"spec.mutations[1].jsonPatch: Invalid value"},
		"merge patch beside another": {"  - {patchType: JSONPatch, jsonMergePatch: {expression: 'null'}, jsonPatch: {expression: '[]'}}",
			"spec.mutations[1].jsonMergePatch: Invalid value"},
		"no merge patch": {"  - {patchType: JSONMergePatch}", "spec.mutations[1].jsonMergePatch: Required value"},
		"strategic merge patch": {"  - {patchType: StrategicMergePatch}",
			`supported values: "ApplyConfiguration", "JSONPatch", "JSONMergePatch"`},
		"result": {"  - {patchType: ApplyConfiguration, applyConfiguration: {expression: '1'}}",
			"spec.mutations[1].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object but got int"},
	} {
		t.Run(name, func(t *testing.T) {
			rejected := engineOf(t, dialectPolicy("p", mutation+c.more)).Rejections()
			if len(rejected) != 1 || rejected[0].Ref != policy.Admission.Ref("p") ||
				!strings.Contains(rejected[0].Status.Message, c.want) {
				t.Errorf("%+v, want %s", rejected, c.want)
			}
		})
	}
}

// TestApplyToScale caps a Scale, which no ApplyConfiguration of a released policy can change.
func TestApplyToScale(t *testing.T) {
	engine := engineOf(t, `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: cap}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments/scale]}]}
  reinvocationPolicy: Never
  mutations:
  - condition: object.spec.replicas > 3
    patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{replicas: 3}}'}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: cap}
spec: {policyName: cap}
`)
	scale := func(replicas int64) map[string]any {
		return map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale",
			"metadata": map[string]any{"name": "web", "namespace": "default"},
			"spec":     map[string]any{"replicas": replicas}}
	}
	for asked, want := range map[int64]int64{9: 3, 2: 2} {
		prepared, err := engine.Prepare(t.Context(), &celgate.Request{
			Kind:     schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, SubResource: "scale",
			Operation: celgate.Update, Namespace: "default", Name: "web", Object: scale(asked), OldObject: scale(1),
		})
		if err != nil {
			t.Fatal(err)
		}
		d, err := engine.Mutate(t.Context(), prepared)
		if err != nil || !d.Allowed {
			t.Fatal(err, d.Status)
		}
		if spec, _ := d.Object["spec"].(map[string]any); spec["replicas"] != want {
			t.Errorf("%d became %v", asked, spec["replicas"])
		}
	}
}

func TestMutationActions(t *testing.T) {
	act := func(actions, expression string) string {
		return strings.Replace(dialectPolicy("a", "  reinvocationPolicy: IfNeeded\n  mutations:\n  - patchType: ApplyConfiguration\n"+
			"    applyConfiguration: {expression: '"+expression+"'}"), "policyName: a", "policyName: a, mutationActions: "+actions, 1)
	}
	after := dialectPolicy("b", "  reinvocationPolicy: Never\n  mutations:\n  - patchType: ApplyConfiguration\n"+
		"    applyConfiguration: {expression: 'Object{data: {\"saw\": string(has(object.data.x))}}'}")
	const sets = `Object{data: {"x": "y"}, immutable: true}`
	for name, c := range map[string]struct{ policies, data, warning, audit string }{
		"apply":     {act("[Apply]", sets), "map[a:b saw:true x:y]", "", ""},
		"warn only": {act("[Warn]", sets), "map[a:b saw:false]", "AdmissionPolicy 'a' with binding 'a' would change immutable, data.x", ""},
		"audit only": {act("[Audit]", sets), "map[a:b saw:false]", "",
			`[{"policy":"a","binding":"a","paths":["immutable","data.x"]}]`},
		"apply and warn": {act("[Apply, Warn]", sets), "map[a:b saw:true x:y]", "AdmissionPolicy 'a' with binding 'a' changes immutable, data.x", ""},
		"apply and audit": {act("[Apply, Audit]", sets), "map[a:b saw:true x:y]", "",
			`[{"policy":"a","binding":"a","applied":true,"paths":["immutable","data.x"]}]`},
		"an error": {act("[Warn, Audit]", `Object{data: {"x": object.data.z}}`), "map[a:b saw:false]",
			`AdmissionPolicy 'a' with binding 'a' would fail: expression 'Object{data: {"x": object.data.z}}' resulted in error: no such key: z`,
			`[{"policy":"a","binding":"a","message":"expression 'Object{data: {\"x\": object.data.z}}' resulted in error: no such key: z"}]`},
		"a denial": {act("[Warn]", "false"), "map[a:b saw:false]",
			"AdmissionPolicy 'a' with binding 'a' would deny the request: failed expression: false", ""},
		"nothing changes": {act("[Warn, Audit]", "Object{}"), "map[a:b saw:false]", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := admit(t, c.policies+after, "{a: b}")
			if got := describeDecision(d); got != c.data {
				t.Errorf("got %s, want %s", got, c.data)
			}
			if got := strings.Join(d.WarningTexts(), "\n"); got != c.warning {
				t.Errorf("warned %s, want %s", got, c.warning)
			}
			if got := d.AuditAnnotations["would_mutate"]; got != c.audit {
				t.Errorf("audited %s, want %s", got, c.audit)
			}
		})
	}
	for actions, want := range map[string]string{
		"[]": "spec.mutationActions: Required value", "[Deny]": `spec.mutationActions[0]: Unsupported value: "Deny"`,
		"[Warn, Warn]": `spec.mutationActions[1]: Duplicate value: "Warn"`,
	} {
		rejected := engineOf(t, act(actions, sets)).Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, want) {
			t.Errorf("%s: %+v, want %s", actions, rejected, want)
		}
	}
}

// TestBindingOfSeveral has one binding for a mutating policy, a validating one and one of the dialect.
func TestBindingOfSeveral(t *testing.T) {
	const good = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: m}
spec:
  ` + mutableRules + `
  reinvocationPolicy: Never
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{data: {"m": "m"}}'}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: v}
spec:
  ` + configMapRules + `
  validations: [{expression: 'object.data.m == "m" && object.data.d == "d"', message: not both}, {expression: '!has(object.data.bad)'}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: d}
spec:
  ` + configMapRules + `
  reinvocationPolicy: Never
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{data: {"d": "d"}}'}}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: b}
spec:
  policies: [{kind: MutatingAdmissionPolicy, name: m}, {kind: ValidatingAdmissionPolicy, name: v}, {name: d}]
`
	d := admit(t, good, "{a: b}")
	if got, want := describeDecision(d), "map[a:b d:d m:m]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(d.Notes) != 2 {
		t.Errorf("notes %v", d.Notes)
	}
	if got, want := describeDecision(admit(t, good, "{bad: b}")), "422 Invalid: configmaps \"cm\" is forbidden: "+
		"ValidatingAdmissionPolicy 'v' with binding 'b' denied request: failed expression: !has(object.data.bad)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"a policy is not valid": {"'!has(object.data.bad)'", "'object.'", `spec.policies[1]: Invalid value: "ValidatingAdmissionPolicy v"`},
		"a policy is not there": {"{name: d}]", "{name: e}]", `spec.policies[2]: Invalid value: "AdmissionPolicy e"`},
		"unknown kind":          {"{name: d}]", "{kind: Policy, name: d}]", `spec.policies[2].kind: Unsupported value: "Policy"`},
		"twice":                 {"{name: d}]", "{name: d}, {name: d}]", `spec.policies[3]: Duplicate value: "AdmissionPolicy d"`},
		"no name":               {"{name: d}]", "{name: ''}]", "spec.policies[2].name: Required value"},
		"both":                  {"  policies:", "  policyName: d\n  policies:", "spec.policies: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			engine := engineOf(t, strings.Replace(good, c.old, c.new, 1))
			i := slices.IndexFunc(engine.Rejections(), func(r celgate.Rejection) bool {
				return r.Ref == policy.Ref{Kind: "AdmissionPolicyBinding", Name: "b"}
			})
			if i < 0 || !strings.Contains(engine.Rejections()[i].Status.Message, c.want) {
				t.Fatalf("%+v, want %s", engine.Rejections(), c.want)
			}
			if engine.MayMatch(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", celgate.Create) {
				t.Error("some of the policies are in force")
			}
		})
	}
}
