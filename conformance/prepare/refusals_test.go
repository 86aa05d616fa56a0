package prepare

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/celgate/celgate/internal/prepare"
	refuses "github.com/celgate/celgate/internal/registry"
)

var (
	oddNames = []string{"web", "Web", "w_b", "w.b", "1w", "w-", "-w", "a/b", "a%b", ".", "..", "", "w:b", "é",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), "system:x",
		"10.0.0.1", "a b"}
	oddKeys = []string{"a", "A.b/c", "a.b/c", "/c", "a/", "a b", "é", "kubernetes.io/x", strings.Repeat("k", 64), "a/b/c", "-a"}
	oddText = []string{"", "v", "not ok!", "-v", "v-", strings.Repeat("v", 63), strings.Repeat("v", 64), "a/b", "é"}
)

// spoilMetadata gives an object metadata that may be wrong.
func spoilMetadata(g *generator, meta map[string]any) {
	switch g.IntN(7) {
	case 0:
		meta["name"] = pick(g, oddNames)
	case 1:
		meta["labels"] = map[string]any{pick(g, oddKeys): pick(g, oddText)}
	case 2:
		meta["annotations"] = map[string]any{pick(g, oddKeys): pick(g, oddText)}
	case 3:
		meta["finalizers"] = []any{pick(g, append(oddKeys, "orphan", "kubernetes", "foregroundDeletion", "example.com/f"))}
	case 4:
		owner := map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
		owner[pick(g, []string{"apiVersion", "kind", "name", "uid"})] = pick(g, []string{"", "x", "apps/v1", "a/b/c"})
		if g.IntN(4) == 0 {
			owner["apiVersion"], owner["kind"] = "v1", "Event"
		}
		owners := []any{owner}
		if g.IntN(3) == 0 {
			owner["controller"] = true
			owners = append(owners, map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "v", "controller": true})
		}
		meta["ownerReferences"] = owners
	case 5:
		meta["generateName"] = pick(g, oddNames)
	case 6:
		meta["generation"] = int64(g.IntN(3) - 1)
	}
}

// notJudged are the kinds whose metadata celgate does not validate.
var notJudged = []string{"/v1/events", "networking.k8s.io/v1/ipaddresses"}

// TestMetadata compares the errors of the strategies of built-in kinds about metadata.
func TestMetadata(t *testing.T) {
	types := registry(t)
	refused := 0
	for _, res := range types.Resources() {
		name := res.Group + "/" + res.Version + "/" + res.Resource
		s, ok := strategies[name][""].(rest.RESTCreateStrategy)
		if !ok || !strings.Contains(name, *only) || strings.HasPrefix(res.Resource, "validatingadmissionpolic") ||
			slices.Contains(notJudged, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(*seed, 5)), plausible: true}
			in := prepare.Input{Types: types, Resource: res, Operation: "CREATE", Namespace: "shop", Now: now}
			kind := res.GroupVersionKind()
			for range *count {
				object := decode(t, g, in)
				meta := map[string]any{"name": "web", "uid": "u", "resourceVersion": "1", "creationTimestamp": now.Format("2006-01-02T15:04:05Z")}
				if res.Namespaced {
					meta["namespace"] = "shop"
				}
				old := runtime.DeepCopyJSON(object)
				old["metadata"] = runtime.DeepCopyJSON(meta)
				object["metadata"] = meta
				spoilMetadata(g, meta)
				obj, ok := serverOf(kind).internal(object, kind)
				if !ok {
					continue
				}
				ctx := genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(context.Background(), "shop"),
					&genericapirequest.RequestInfo{APIGroup: res.Group, APIVersion: res.Version, Resource: res.Resource})
				server := rest.ValidateCreate(ctx, obj, s)
				builtin := refuses.Builtin{Kind: kind.GroupKind(), Namespaced: res.Namespaced, Type: types.Type(kind)}
				ours := builtin.Create(object)
				if len(ours) > 0 {
					refused++
				}
				sameMetadata(t, "create", object, server, ours)
				u, ok := s.(rest.RESTUpdateStrategy)
				before, known := serverOf(kind).internal(old, kind)
				if !ok || !known {
					continue
				}
				meta["name"], old["metadata"].(map[string]any)["labels"] = "web", map[string]any{"a": "b"}
				delete(meta, "generateName")
				if obj, ok = serverOf(kind).internal(object, kind); !ok {
					continue
				}
				server = rest.ValidateUpdate(ctx, obj, before, u)
				sameMetadata(t, "update", object, server, builtin.Update(object, old))
				if t.Failed() {
					return
				}
			}
		})
	}
	t.Logf("%d objects were refused", refused)
	if refused == 0 && *only == "" {
		t.Error("no object was refused")
	}
}

// sameMetadata compares errors about metadata. If the server finds other errors in an object, it stops before the rules
// of all kinds.
func sameMetadata(t *testing.T, what string, object map[string]any, server, ours field.ErrorList) {
	t.Helper()
	of := func(list field.ErrorList) (texts []string) {
		for _, err := range list {
			if text := err.Error(); aboutMetadata(err.Field) && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
		return texts
	}
	want, got := of(server), of(ours)
	if len(want) == 0 && len(server) > 0 {
		return // refused for something else
	}
	if !slices.Equal(got, want) {
		meta, _ := object["metadata"].(map[string]any)
		t.Errorf("%s %v: %v\nserver:  %s\ncelgate: %s", what, object["kind"], fmt.Sprint(meta), strings.Join(want, "\n         "),
			strings.Join(got, "\n         "))
	}
}

// aboutMetadata reports an error about a member that all kinds have: a Node has others below metadata.
func aboutMetadata(path string) bool {
	member, ok := strings.CutPrefix(path, "metadata.")
	end := strings.IndexAny(member+".", ".[")
	return ok && slices.Contains([]string{"name", "generateName", "namespace", "labels", "annotations", "finalizers",
		"ownerReferences", "generation", "uid", "resourceVersion"}, member[:end])
}

// constrain adds rules that instances may break to a schema and those below it.
func constrain(g *generator, s map[string]any, rules bool) {
	switch s["type"] {
	case "object":
		properties, _ := s["properties"].(map[string]any)
		names := slices.Sorted(keys(properties))
		if len(names) > 0 && g.IntN(3) == 0 {
			s["required"] = []any{pick(g, names)}
		}
		for _, name := range names {
			if p, ok := properties[name].(map[string]any); ok {
				constrain(g, p, rules && s["x-kubernetes-embedded-resource"] == nil)
			}
		}
		if inner, ok := s["additionalProperties"].(map[string]any); ok {
			constrain(g, inner, false)
		}
		if g.IntN(4) == 0 {
			s["maxProperties"] = int64(g.IntN(3))
		}
		if rules && len(names) > 0 && g.IntN(2) == 0 {
			name := pick(g, names)
			addRule(g, s, "has(self."+name+")", "self == oldSelf", "!has(self."+name+") || has(oldSelf."+name+")", "false")
		}
	case "array":
		if inner, ok := s["items"].(map[string]any); ok {
			constrain(g, inner, false)
			if inner["type"] == "string" || inner["type"] == "integer" {
				if inner["nullable"] == nil && g.IntN(2) == 0 {
					s["x-kubernetes-list-type"] = "set"
				}
			}
		}
		s["maxItems"] = int64(1 + g.IntN(2))
		if rules && g.IntN(3) == 0 {
			addRule(g, s, "size(self) == 1", "size(self) >= size(oldSelf)")
		}
	case "string":
		switch g.IntN(5) {
		case 0:
			s["enum"] = []any{"text", "other"}
		case 1:
			s["maxLength"] = int64(g.IntN(6))
		case 2:
			s["pattern"] = pick(g, []string{"^t", "^x", "t{2}"})
		case 3:
			s["format"] = pick(g, []string{"date", "ipv4", "uuid", "k8s-short-name"})
		}
	case "integer":
		switch g.IntN(4) {
		case 0:
			s["minimum"] = int64(g.IntN(6))
		case 1:
			s["multipleOf"] = float64(2)
		case 2:
			s["maximum"], s["exclusiveMaximum"] = int64(3), g.IntN(2) == 0
		}
		if rules && g.IntN(3) == 0 {
			addRule(g, s, "self > 3", "self == oldSelf", "self / 0 == 1")
		}
	}
	delete(s, "default") // which would have to keep the rules
}

func addRule(g *generator, s map[string]any, expressions ...string) {
	rule := map[string]any{"rule": pick(g, expressions)}
	switch g.IntN(5) {
	case 0:
		rule["message"] = "not so"
	case 1:
		rule["messageExpression"] = pick(g, []string{"'not ' + string(1)", "''", "'a\nb'"})
	case 2:
		rule["reason"] = pick(g, []string{"FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"})
	}
	s["x-kubernetes-validations"] = []any{rule}
}

// TestCustomRefusals compares the errors about objects of random definitions: on create, on update, and in their
// status.
func TestCustomRefusals(t *testing.T) {
	types := registry(t)
	g := &generator{Rand: rand.New(rand.NewPCG(*seed, 6))}
	compared, refused := 0, 0
	for i := range *count {
		s := g.schema(0)
		for _, member := range []string{"x-kubernetes-embedded-resource", "nullable", "default", "x-kubernetes-int-or-string",
			"items", "additionalProperties", "x-kubernetes-preserve-unknown-fields"} {
			delete(s, member)
		}
		s["type"] = "object"
		spec := g.schema(1)
		constrain(g, spec, true)
		s["properties"] = map[string]any{"spec": spec, "status": map[string]any{"type": "object",
			"properties": map[string]any{"n": map[string]any{"type": "integer", "maximum": int64(4)}}}}
		if g.IntN(3) == 0 {
			addRule(g, s, "has(self.spec)", "self.metadata.name != 'b'", "self.spec == oldSelf.spec")
		}
		version := map[string]any{"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": s}, "subresources": map[string]any{"status": map[string]any{}}}
		if g.IntN(3) == 0 {
			version["subresources"].(map[string]any)["scale"] = map[string]any{
				"specReplicasPath": ".spec." + pick(g, names), "statusReplicasPath": ".status.n"}
		}
		definition := map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "widgets.lab.example.test"},
			"spec": map[string]any{"group": widget.Group, "scope": "Namespaced",
				"names": map[string]any{"plural": "widgets", "kind": widget.Kind}, "versions": []any{version}},
		}
		with, err := types.WithCustomResources(definition)
		if err != nil {
			t.Fatalf("schema %d: %v", i, err)
		}
		ours, err := refuses.NewCustom(definition, "v1")
		if err != nil {
			t.Fatalf("schema %d: %v", i, err)
		}
		strategy, status := customStrategies(t, version)
		make := func() map[string]any {
			in, ok := g.instance(s, 0).(map[string]any)
			if !ok {
				return nil
			}
			in["apiVersion"], in["kind"] = widget.GroupVersion().String(), widget.Kind
			in["metadata"] = map[string]any{"name": pick(g, []string{"a", "a", "a", "b", "B"}), "namespace": "shop"}
			if g.IntN(2) == 0 {
				in["status"] = map[string]any{"n": pick(g, []any{int64(3), int64(9), "x", int64(-1)})}
			}
			made, _, err := prepare.Canonical(in, with, widget)
			if err != nil {
				return nil
			}
			made["metadata"].(map[string]any)["uid"] = "u"
			made["metadata"].(map[string]any)["resourceVersion"] = "1"
			return made
		}
		ctx := genericapirequest.WithNamespace(context.Background(), "shop")
		same := func(what string, object, old map[string]any, ask func() field.ErrorList, ours field.ErrorList) {
			server := ask()
			for range 50 { // equality of maps ends at a difference, in random order, or at an error
				if slices.Equal(sortedTexts(server), sortedTexts(ours)) {
					break
				}
				server = ask()
			}
			compared++
			if len(server) > 0 {
				refused++
			}
			if !slices.Equal(sortedTexts(server), sortedTexts(ours)) {
				t.Errorf("schema %d, %s: %v\n%v\nserver:  %v\ncelgate: %v", i, what, object, old, server, ours)
			}
		}
		for range 5 {
			object, old := make(), make()
			if object == nil || old == nil {
				continue
			}
			wrap := func(object map[string]any) runtime.Object {
				return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
			}
			same("create", object, nil, func() field.ErrorList { return rest.ValidateCreate(ctx, wrap(object), strategy) },
				ours.Create(ctx, object))
			same("update", object, old, func() field.ErrorList {
				return rest.ValidateUpdate(ctx, wrap(object), wrap(old), strategy)
			}, ours.Update(ctx, object, old))
			same("status", object, old, func() field.ErrorList {
				return rest.ValidateUpdate(ctx, wrap(object), wrap(old), status)
			}, ours.UpdateStatus(ctx, object, old))
			if t.Failed() {
				text, _ := json.Marshal(s)
				t.Fatalf("%s", text)
			}
		}
	}
	t.Logf("%d comparisons, %d refused", compared, refused)
	if refused < compared/4 || refused == compared {
		t.Errorf("%d of %d were refused", refused, compared)
	}
}

// customStrategies are the server's for a version of a definition
// (apiextensions-apiserver pkg/apiserver/customresource_handler.go v0.37.2).
func customStrategies(t *testing.T, version map[string]any) (rest.RESTCreateUpdateStrategy, rest.RESTUpdateStrategy) {
	var v apiextensionsv1.CustomResourceDefinitionVersion
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(version, &v); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema,
		&internal, nil); err != nil {
		t.Fatal(err)
	}
	whole, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	of := internal.OpenAPIV3Schema.Properties["status"]
	status, _, err := validation.NewSchemaValidator(&of)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := structural.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	var scale *apiextensions.CustomResourceSubresourceScale
	if given := v.Subresources.Scale; given != nil {
		scale = &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: given.SpecReplicasPath,
			StatusReplicasPath: given.StatusReplicasPath}
	}
	strategy := customresource.NewStrategy(nil, true, widget, whole, status, shape,
		&apiextensions.CustomResourceSubresourceStatus{}, scale, nil)
	return strategy, customresource.NewStatusStrategy(strategy)
}

// sortedTexts are the texts of errors, which the server has in the random order of maps.
func sortedTexts(errs field.ErrorList) (texts []string) {
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	slices.Sort(texts)
	return texts
}
