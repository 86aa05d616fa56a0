package prepare

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/custom"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/schema"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

var widget = schema.GroupVersionKind{Group: "lab.example.test", Version: "v1", Kind: "Widget"}

// TestCustom compares decoded objects of random structural schemas with the result of the server's decoder.
func TestCustom(t *testing.T) {
	types := registry(t)
	g := &custom.Generator{Rand: rand.New(rand.NewPCG(*seed, 4))}
	for i := range *count {
		s := g.Schema(0)
		s["type"] = "object"
		delete(s, "x-kubernetes-embedded-resource")
		delete(s, "nullable")
		delete(s, "default")
		delete(s, "x-kubernetes-int-or-string")
		delete(s, "items")
		delete(s, "additionalProperties")
		if s["properties"] == nil {
			s["properties"] = map[string]any{"spec": g.Schema(1)}
		}
		with, err := types.WithCustomResources(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "widgets.lab.example.test"},
			"spec": map[string]any{
				"group": widget.Group, "scope": "Namespaced",
				"names": map[string]any{"plural": "widgets", "kind": widget.Kind},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": s}}},
			},
		})
		if err != nil {
			t.Fatalf("schema %d: %v", i, err)
		}
		server := newCustomServer(t, s)
		for range 10 {
			obj := g.Instance(s, 0)
			in, ok := obj.(map[string]any)
			if !ok {
				continue
			}
			in["apiVersion"], in["kind"] = widget.GroupVersion().String(), widget.Kind
			if g.IntN(3) > 0 {
				in["metadata"] = map[string]any{"name": "a",
					"labels": map[string]any{"a": []any{"b", "b", "b", nil, int64(1)}[g.IntN(5)]}, "surprise": true}
			}
			compareCustom(t, with, server, in)
			if t.Failed() {
				text, _ := json.Marshal(s)
				t.Fatalf("schema %d: %s", i, text)
			}
		}
	}
}

// customServer holds a structural schema in the form of the server.
type customServer struct{ schema *structural.Structural }

func newCustomServer(t *testing.T, s map[string]any) customServer {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var v1 apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(text, &v1); err != nil {
		t.Fatal(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1, &internal,
		nil); err != nil {
		t.Fatal(err)
	}
	out, err := structural.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	if err := defaulting.PruneDefaults(out); err != nil {
		t.Fatal(err)
	}
	return customServer{out}
}

// object decodes as unstructuredSchemaCoercer and unstructuredDefaulter do (apiextensions-apiserver
// pkg/apiserver/customresource_handler.go v0.37.2).
func (s customServer) object(in map[string]any) (out map[string]any, unknown []string, err error) {
	out = runtime.DeepCopyJSON(in)
	meta, found, metaUnknown, err := objectmeta.GetObjectMetaWithOptions(out,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, err
	}
	unknown = append(unknown, metaUnknown...)
	unknown = append(unknown, pruning.PruneWithOptions(out, s.schema, true,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(out, s.schema)
	problem, paths := objectmeta.CoerceWithOptions(nil, out, s.schema, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if problem != nil {
		return nil, nil, problem
	}
	unknown = append(unknown, paths...)
	out["apiVersion"], out["kind"] = in["apiVersion"], in["kind"]
	if found {
		if err := objectmeta.SetObjectMeta(out, meta); err != nil {
			return nil, nil, err
		}
	}
	defaulting.Default(out, s.schema)
	return out, unknown, nil
}

func compareCustom(t *testing.T, types *schema.Registry, server customServer, in map[string]any) {
	body, _ := json.Marshal(in)
	want, unknown, wantErr := server.object(in)
	got, warnings, gotErr := prepare.Canonical(in, types, widget)
	if wantErr != nil || gotErr != nil {
		if (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s\n got error %s\nwant error %s", body, text(gotErr), text(wantErr))
		}
		return
	}
	wantWarnings := make([]string, len(unknown))
	for i, path := range unknown {
		wantWarnings[i] = fmt.Sprintf("unknown field %q", path)
	}
	switch {
	case !reflect.DeepEqual(got, want):
		t.Errorf("%s\n%s", body, strings.Join(difference("", got, want), "\n"))
	case !slices.Equal(warnings, wantWarnings):
		t.Errorf("%s\n got warnings %q\nwant warnings %q", body, warnings, wantWarnings)
	}
	if after, _ := json.Marshal(in); string(after) != string(body) {
		t.Errorf("%s was changed", body)
	}

	// After a mutation only the defaults come.
	defaulted := runtime.DeepCopyJSON(in)
	defaulting.Default(defaulted, server.schema)
	normal, err := prepare.Normalise(in, types, widget)
	if err != nil || !reflect.DeepEqual(normal, defaulted) {
		t.Errorf("%s normalised:\n%v %s", body, err, strings.Join(difference("", normal, defaulted), "\n"))
	}
}
