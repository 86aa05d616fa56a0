package celgate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/manifest"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// An acting quirk is a test of a quirk's effect: policies, an object that is created, and existing objects.
type acting struct{ minor, policies, object, state string }

// toldAt are examples of the quirks that decisions report.
var toldAt = map[quirks.ID]acting{
	quirks.AuditAnnotationAuthorizer: {"1.37", validatingPolicy("", "true",
		"\n  auditAnnotations: [{key: may, valueExpression: \"string(authorizer.path('/x').check('get').allowed())\"}]"),
		madeConfigMap, ""},
	quirks.CIDRContains:    {"1.31", validatingPolicy("", "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", ""), madeConfigMap, ""},
	quirks.EmptyTextSearch: {"1.36", validatingPolicy("", "'abc'.indexOf('', -1) < 0", ""), madeConfigMap, ""},
	quirks.EquivalentMutation: {"1.37", strings.Replace(applyingPolicy("Object{spec: Object.spec{minReplicas: 2}}"),
		everything, "{apiGroups: [autoscaling], apiVersions: [v2], operations: [CREATE], resources: ['*']}", 1),
		`{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: default},
		spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: a}}}`, ""},
	quirks.FirstFailureAudited: {"1.36", validatingPolicy("", "false", "\n  - expression: 1 > 2"), madeConfigMap, ""},
	quirks.IntegerTruncation: {"1.37", applyingPolicy("Object{spec: Object.spec{replicas: 5000000001}}"),
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: default}, spec: {template: {}}}`, ""},
	quirks.LibraryCosts: {"1.31", validatingPolicy("", "object.data.long.split('').all(x, object.data.long.replace('x', 'yy')."+
		"replace('y', 'zz').replace('z', 'ww').size() > 0)", ""), madeConfigMap, ""},
	quirks.LiveDuplicates: {"1.34", strings.ReplaceAll(applyingPolicy("Object{metadata: Object.metadata{labels: {'a': 'b'}}}"),
		"k8s.io/v1", "k8s.io/v1beta1"),
		`{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}, spec: {containers: [{name: a, image: a,
		env: [{name: A, value: a}, {name: A, value: b}]}]}}`, ""},
	quirks.LostMutation: {"1.37", strings.Replace(applyingPolicy("Object{spec: Object.spec{a: 'b'}}"), everything,
		"{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: ['*']}", 1) + "---" +
		strings.ReplaceAll(strings.Replace(applyingPolicy("Object{spec: Object.spec{c: 'd'}}"), everything,
			"{apiGroups: [example.com], apiVersions: [v2], operations: [CREATE], resources: ['*']}", 1), "acts", "too"),
		"{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: default}, spec: {}}", madeWidgets},
	quirks.OptionalOfAny: {"1.36", validatingPolicy("", "object.metadata.name.orValue('x') == 'a'", ""), madeConfigMap, ""},
	quirks.PartialKey: {"1.33", strings.ReplaceAll(applyingPolicy("Object{spec: Object.spec{parts: [Object.spec.parts{id: 'a'}]}}"),
		"k8s.io/v1", "k8s.io/v1alpha1"),
		"{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: default}, spec: {}}",
		strings.NewReplacer("type: object, x-kubernetes-preserve-unknown-fields: true", "type: object, properties: {parts: "+
			"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [id, zone], items: {type: object, "+
			"required: [id, zone], properties: {id: {type: string}, zone: {type: string}}}}}").Replace(madeWidgets)},
	quirks.PatchBigInteger:     {"1.37", patchingPolicy("/metadata/labels/a", "9007199254740993"), madeConfigMap, ""},
	quirks.PatchDecodeError:    {"1.37", patchingPolicy("/data/a", "[1]"), madeConfigMap, ""},
	quirks.PatchNilMap:         {"1.37", patchingPolicy("/data", "null", "/data/a", "'b'"), madeConfigMap, ""},
	quirks.PatchReflectedValue: {"1.37", patchingPolicy("/data/a", "request.userInfo"), madeConfigMap, ""},
	quirks.PatchWithoutValue: {"1.34", strings.NewReplacer("'add'", "'replace'", "k8s.io/v1", "k8s.io/v1beta1").
		Replace(patchingPolicy("", "'x'")), madeConfigMap, ""},
	quirks.QuantityAliased: {"1.36", validatingPolicy("\n  variables: [{name: q, expression: quantity(object.data.q)}]",
		"variables.q.add(quantity('1')).isGreaterThan(quantity('0'))",
		"\n  - expression: variables.q.isLessThan(quantity(object.data.q))"), madeConfigMap, ""},
	quirks.RangeUnbounded: {"1.36", validatingPolicy("", "lists.range(-1).size() == 0", ""), madeConfigMap, ""},
	quirks.SearchBounds:   {"1.31", validatingPolicy("", "'abc'.indexOf('b', 9) < 0", ""), madeConfigMap, ""},
	quirks.SlowLoop:       {"1.37", validatingPolicy("", "lists.range(20000).all(i, i >= 0)", ""), madeConfigMap, ""},
	quirks.TextCosts: {"1.36", validatingPolicy("", "lists.range(12000).all(i, object.data.long.startsWith('x'))", ""),
		madeConfigMap, ""},
}

// notTold are the quirks that decisions do not report, with the reason.
var notTold = map[quirks.ID]string{
	quirks.OptionalFunctions: "the policy is refused with the compiler's words, and takes part in no decision",
	quirks.FormatUnchecked:   "newer minors refuse the policy when it is written, which celgate diff --kube-version tells",
	quirks.BacktickToken:     "the policy is refused with the compiler's words, and takes part in no decision",
	quirks.BacktickSyntax:    "the policy is refused with the compiler's words, and takes part in no decision",
}

const (
	everything = `{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}`
	rules      = "\n  matchConstraints: {resourceRules: [" + everything + "]}"
)

var madeConfigMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, labels: {x: z}},
	data: {q: "100000000000000000000.5", long: ` + strings.Repeat("x", 1000) + "}}"

const madeWidgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: &any
      openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: *any}
`

func validatingPolicy(variables, expression, more string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: acts}
spec:%s%s
  validations:
  - expression: >-
      %s%s
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: acts}
spec: {policyName: acts, validationActions: [Warn, Audit]}
`, rules, variables, expression, more)
}

func mutatingPolicy(mutation string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: acts}
spec:%s
  reinvocationPolicy: Never
  mutations: [%s]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: acts}
spec: {policyName: acts}
`, rules, mutation)
}

func applyingPolicy(expression string) string {
	return mutatingPolicy(fmt.Sprintf("{patchType: ApplyConfiguration, applyConfiguration: {expression: %q}}", expression))
}

// patchingPolicy adds values at paths.
func patchingPolicy(pairs ...string) string {
	var ops []string
	for pair := range slices.Chunk(pairs, 2) {
		ops = append(ops, fmt.Sprintf("JSONPatch{op: 'add', path: '%s', value: %s}", pair[0], pair[1]))
	}
	return mutatingPolicy(fmt.Sprintf("{patchType: JSONPatch, jsonPatch: {expression: %q}}", "["+strings.Join(ops, ", ")+"]"))
}

// TestEveryQuirkIsTold triggers each quirk: the decision reports it, except in a minor without the quirk.
func TestEveryQuirkIsTold(t *testing.T) {
	for _, q := range quirks.All {
		c, ok := toldAt[q.ID]
		if _, listed := notTold[q.ID]; ok == listed {
			t.Errorf("%s is in one of toldAt and notTold", q.ID)
		}
		if !ok {
			continue
		}
		t.Run(string(q.ID), func(t *testing.T) {
			if noted := c.notedQuirks(t, c.minor); !slices.Contains(noted, string(q.ID)) {
				t.Errorf("noted %v", noted)
			}
			if q.Until != "" {
				if noted := c.notedQuirks(t, q.Until); slices.Contains(noted, string(q.ID)) {
					t.Errorf("%s notes it", q.Until)
				}
			}
		})
	}
	for id := range maps.Keys(toldAt) {
		if !slices.ContainsFunc(quirks.All, func(q quirks.Quirk) bool { return q.ID == id }) {
			t.Errorf("%s is no quirk", id)
		}
	}
}

// notedQuirks returns the quirks that a minor notes about the creation.
func (c acting) notedQuirks(t *testing.T, minor string) (noted []string) {
	t.Helper()
	set, err := load(c.policies)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{KubeVersion: minor, Objects: objects(t, c.state)})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range engine.Rejections() {
		t.Fatal(r.Status.Message)
	}
	object := objects(t, c.object)[0]
	kind := apischema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string))
	resource := kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
	req, err := engine.Prepare(t.Context(), &celgate.Request{
		Kind: kind, Resource: resource, Name: "a", Namespace: "default", Operation: celgate.Create, Object: object,
		UserInfo: celgate.UserInfo{Username: "alice"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.Admit(t.Context(), req)
	if d == nil {
		t.Fatal(err)
	}
	for _, n := range d.Notes {
		if n.Quirk != nil {
			noted = append(noted, n.Quirk.ID)
		}
	}
	return noted
}

func objects(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	if text == "" {
		return nil
	}
	docs, problems := manifest.Read(strings.NewReader(text), "objects.yaml")
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	for _, d := range docs {
		all = append(all, d.Object)
	}
	return all
}
