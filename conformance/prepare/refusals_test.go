package prepare

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	"k8s.io/apiserver/pkg/warning"

	"github.com/celgate/celgate/conformance/custom"
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

// TestCustomRefusals compares the errors about objects of random definitions: on create, on update, and in their
// status.
func TestCustomRefusals(t *testing.T) {
	types := registry(t)
	g := &custom.Generator{Rand: rand.New(rand.NewPCG(*seed, 6))}
	compared, refused, warned := 0, 0, 0
	for i := range *count {
		d := g.NewDefinition(widget.Group, widget.Kind, "widgets")
		definition := d.Object(d.Schema)
		with, err := types.WithCustomResources(definition)
		if err != nil {
			t.Fatalf("schema %d: %v", i, err)
		}
		ours, err := refuses.NewCustom(definition, "v1")
		if err != nil {
			t.Fatalf("schema %d: %v", i, err)
		}
		strategy, status := customStrategies(t, d.Version(d.Schema))
		make := func() map[string]any {
			in := g.NewObject(d, "shop")
			made, _, err := prepare.Canonical(in, with, widget)
			if err != nil {
				return nil
			}
			made["metadata"].(map[string]any)["uid"] = "u"
			made["metadata"].(map[string]any)["resourceVersion"] = "1"
			return made
		}
		ctx := genericapirequest.WithNamespace(context.Background(), "shop")
		same := func(what string, object, old map[string]any, ask func(context.Context) field.ErrorList,
			ours field.ErrorList, warnings []string) {
			want := append(sortedTexts(ours), warnings...)
			var server []string
			for range 50 { // equality of maps ends at a difference, in random order, or at an error
				told := map[string]bool{}
				server = sortedTexts(ask(warning.WithWarningRecorder(ctx, recorder(told))))
				refuses := len(server) > 0
				server = append(server, slices.Sorted(maps.Keys(told))...)
				if equal := slices.Equal(server, want); equal {
					if refuses {
						refused++
					}
					warned += len(told)
					break
				}
			}
			compared++
			if !slices.Equal(server, want) {
				t.Errorf("schema %d, %s: %v\n%v\nserver:  %v\ncelgate: %v", i, what, object, old, server, want)
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
			same("create", object, nil, func(ctx context.Context) field.ErrorList {
				return rest.ValidateCreate(ctx, wrap(object), strategy)
			}, ours.Create(ctx, object), nil)
			errs, warnings := ours.Update(ctx, object, old)
			same("update", object, old, func(ctx context.Context) field.ErrorList {
				return rest.ValidateUpdate(ctx, wrap(object), wrap(old), strategy)
			}, errs, warnings)
			errs, warnings = ours.UpdateStatus(ctx, object, old)
			same("status", object, old, func(ctx context.Context) field.ErrorList {
				return rest.ValidateUpdate(ctx, wrap(object), wrap(old), status)
			}, errs, warnings)
			if t.Failed() {
				text, _ := json.Marshal(d.Schema)
				t.Fatalf("%s", text)
			}
		}
	}
	t.Logf("%d comparisons, %d refused, %d warnings", compared, refused, warned)
	if refused < compared/4 || refused == compared || warned == 0 {
		t.Errorf("%d of %d were refused, %d warnings", refused, compared, warned)
	}
}

// A recorder keeps the warnings of the server.
type recorder map[string]bool

func (r recorder) AddWarning(_, text string) { r[text] = true }

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
