package prepare

import (
	"context"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/conformance/custom"
	"github.com/celgate/celgate/conformance/spoil"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	refuses "github.com/celgate/celgate/internal/registry"
)

// definitions are valid CustomResourceDefinitions, as YAML documents.
const definitions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: spoils.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: spoils, singular: spoil, kind: Spoil, listKind: SpoilList, shortNames: [sp], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns: [{name: Age, type: date, jsonPath: .metadata.creationTimestamp}]
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [replicas]
            properties:
              replicas: {type: integer, minimum: 0, default: 1}
              color: {type: string, enum: [red, green], pattern: "^[a-z]+$"}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string, x-kubernetes-validations: [{rule: "self != 'x'"}]}, maxItems: 3}
              costly: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self.contains('x')"}]}, maxItems: 30}
              map: {type: object, maxProperties: 5, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: "self == oldSelf", messageExpression: "'no'"}]}}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
            x-kubernetes-validations: [{rule: "self.replicas < 10", message: too many, fieldPath: .replicas, reason: FieldValueInvalid}]
          status: {type: object, properties: {replicas: {type: integer}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kinds.acme.example}
spec:
  group: acme.example
  scope: Cluster
  names: {plural: kinds, kind: Kind}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: converter, namespace: acme, path: /convert, port: 443}}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          metadata: {type: object, properties: {name: {type: string, maxLength: 20}}}
          spec:
            type: object
            properties:
              labels: {type: object, additionalProperties: {type: string}}
              pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, number: {type: integer, default: 80}}}
              ref: {type: object, x-kubernetes-map-type: atomic, properties: {name: {type: string}}}
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    deprecationWarning: acme.example/v1beta1 goes
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: parts.example.k8s.io
  annotations: {api-approved.kubernetes.io: https://github.com/kubernetes/enhancements/pull/1}
spec:
  group: example.k8s.io
  scope: Namespaced
  names: {plural: parts, kind: Part}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1beta1, v1], clientConfig: {url: "https://acme.example/convert"}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string, format: date}}}}}}
`

// TestDefinitions compares the errors about CustomResourceDefinitions with changed fields and random schemas, on create
// and update.
func TestDefinitions(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	s := customresourcedefinition.NewStrategy(scheme)
	types := registry(t)
	r := rand.New(rand.NewPCG(*seed, 8))
	g := &custom.Generator{Rand: r}
	var objects []map[string]any
	for text := range strings.SplitSeq(definitions, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, spoil.ToIntegers(object).(map[string]any))
	}
	envs, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	kind := kindOf(objects[0])
	res := types.ResourceFor(kind)
	builtin := refuses.Builtin{Kind: kind.GroupKind(), Type: types.Type(kind), Envs: envs}
	internal := func(object map[string]any) *apiextensions.CustomResourceDefinition {
		var given apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &given); err != nil {
			t.Fatal(err)
		}
		var d apiextensions.CustomResourceDefinition
		if err := scheme.Convert(&given, &d, nil); err != nil {
			t.Fatal(err)
		}
		return &d
	}
	made := func(object map[string]any) map[string]any {
		in := prepare.Input{Types: types, Resource: res, Now: now, Operation: "CREATE", Object: object,
			User: authenticationv1.UserInfo{Username: "dev"}}
		result, err := prepare.Object(in)
		if err != nil {
			return nil
		}
		in.Object, in.SharesLabels = result.Object, result.SharesLabels
		return prepare.ObjectToValidate(in)
	}
	ctx := context.Background()
	of, seen, asked := tally{}, map[string]int{}, map[string]int{}
	compare := func(what string, server, ours field.ErrorList) {
		of.asked++
		if len(server) > 0 {
			of.refused++
		}
		for _, e := range slices.Concat(server, ours) { // the server makes up names of types
			e.Detail = selfType.ReplaceAllString(e.Detail, "selfType")
		}
		want, got := slices.Compact(sortedTexts(server)), slices.Compact(sortedTexts(ours))
		if slices.Equal(want, got) {
			if len(want) > 0 {
				of.worded++
			}
			for _, e := range server {
				asked[e.Detail]++
			}
			return
		}
		if difference := firstDifference(want, got); seen[difference] == 0 {
			t.Errorf("%s\n%s", difference, what)
			seen[difference]++
		}
	}
	for i := range *count {
		object := objects[i%len(objects)]
		before := made(object)
		stored := internal(before)
		if errs := rest.ValidateCreate(ctx, stored, s); len(errs) > 0 {
			t.Fatalf("%s is not valid: %v", stored.Name, errs)
		}
		if i%2 == 0 {
			stored.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{
				{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}}
			before["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Established", "status": "True"}}
		}
		stored.ResourceVersion, before["metadata"].(map[string]any)["resourceVersion"] = "1", "1"
		spoiled, what := object, "another schema"
		if r.IntN(3) == 0 {
			spoiled = runtime.DeepCopyJSON(object)
			version := spoiled["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
			g.Fits = r.IntN(2) == 0
			version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
				"properties": map[string]any{"spec": g.Schema(1)}}}
		}
		if r.IntN(3) == 0 {
			spoiled = runtime.DeepCopyJSON(spoiled)
			eachRule(spoiled, func(rule map[string]any) {
				if r.IntN(2) == 0 {
					rule["rule"] = expressions[r.IntN(len(expressions))]
				}
				if r.IntN(4) == 0 {
					rule["messageExpression"] = expressions[r.IntN(len(expressions))]
				}
				if r.IntN(4) == 0 {
					rule["optionalOldSelf"] = r.IntN(2) == 0
				}
			})
			what += ", with other rules"
		}
		for range r.IntN(3) {
			var more string
			spoiled, more = spoil.Spoil(r, spoiled, types.Type(kind))
			what += ", " + more
		}
		after := made(spoiled)
		if after == nil {
			continue
		}
		errs, panicked := recovered(func() field.ErrorList { return rest.ValidateCreate(ctx, internal(after), s) })
		if panicked { // of selectable fields without a structural schema
			if len(builtin.Create(after)) == 0 {
				t.Errorf("created with %s: the server panics, celgate allows it", what)
			}
			continue
		}
		compare("created with "+what, errs, builtin.Create(after))
		updated := runtime.DeepCopyJSON(after)
		updated["metadata"] = runtime.DeepCopyJSON(before)["metadata"]
		if labels := after["metadata"].(map[string]any)["labels"]; labels != nil {
			updated["metadata"].(map[string]any)["labels"] = labels
		}
		next := internal(updated)
		s.PrepareForUpdate(ctx, next, stored)
		updated["status"] = statusOf(t, scheme, next)
		compare("updated to "+what, rest.ValidateUpdate(ctx, next, stored, s), builtin.Update(updated, before))
	}
	t.Logf("%d asked, %d refused, %d in the same words", of.asked, of.refused, of.worded)
	for _, detail := range slices.SortedFunc(maps.Keys(asked), func(a, b string) int { return asked[b] - asked[a] }) {
		t.Logf("%6d %s", asked[detail], shorten(detail))
	}
}

// expressions are rules and messages, some of them costly or wrong.
var expressions = []string{"self == oldSelf", "oldSelf.hasValue()", "self.all(a, self.all(b, self.all(c, a == b)))",
	"self.contains('x')", "self.matches('a+')", "self.nothing", "1 +", "self > 3", "'text'", "string(self)", "has(self.color)",
	"self.exists(a, a.contains('x')) && self.all(a, self.all(b, b.contains('y')))", "oldSelf != self ? 'x' : 'y'",
	"self.map.all(k, self.map[k] > 1)", "self.costly.all(a, self.costly.all(b, a.contains(b)))", "quantity('1').isInteger()"}

var selfType = regexp.MustCompile(`selfType\d+`)

// eachRule calls do with the validation rules below a value.
func eachRule(v any, do func(rule map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list, _ := v[name].([]any)
			for _, rule := range list {
				if rule, ok := rule.(map[string]any); ok && name == "x-kubernetes-validations" {
					do(rule)
				}
			}
			eachRule(v[name], do)
		}
	case []any:
		for _, item := range v {
			eachRule(item, do)
		}
	}
}

// recovered calls a function that may panic.
func recovered(do func() field.ErrorList) (errs field.ErrorList, panicked bool) {
	defer func() {
		if recover() != nil {
			panicked = true
		}
	}()
	return do(), false
}

// statusOf returns the status of a definition as a tree.
func statusOf(t *testing.T, scheme *runtime.Scheme, d *apiextensions.CustomResourceDefinition) any {
	var stored apiextensionsv1.CustomResourceDefinition
	if err := scheme.Convert(d, &stored, nil); err != nil {
		t.Fatal(err)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&stored)
	if err != nil {
		t.Fatal(err)
	}
	return tree["status"]
}
