// Package merge compares package merge and the tables of types with the schemas of kube-apiserver: those that
// kube-openapi makes of the published OpenAPI documents.
package merge

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/patch/merge/mergetest"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	upstream "k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/yaml"
)

// A document is the OpenAPI document of one group and version.
type document struct {
	models    map[string]*spec.Schema
	schema    *smd.Schema
	converter managedfields.TypeConverter
}

func newDocument(t *testing.T, models map[string]*spec.Schema) document {
	t.Helper()
	s, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		t.Fatal(err)
	}
	converter, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		t.Fatal(err)
	}
	return document{models, s, converter}
}

// kinds returns the model names by kind.
func (d document) kinds() map[schema.GroupVersionKind]string {
	kinds := map[schema.GroupVersionKind]string{}
	for name, model := range d.models {
		list, _ := model.Extensions["x-kubernetes-group-version-kind"].([]any)
		for _, item := range list {
			kind, _ := item.(map[string]any)
			text := func(key string) string { s, _ := kind[key].(string); return s }
			kinds[schema.GroupVersionKind{Group: text("group"), Version: text("version"), Kind: text("kind")}] = name
		}
	}
	return kinds
}

// publishedDocuments returns the documents that Kubernetes publishes for its own kinds.
func publishedDocuments(t *testing.T) []document {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "api/openapi-spec/v3/*__*_openapi.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no OpenAPI documents: %v", err)
	}
	var documents []document
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var parsed spec3.OpenAPI
		if err := json.Unmarshal(text, &parsed); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if parsed.Components != nil {
			documents = append(documents, newDocument(t, parsed.Components.Schemas))
		}
	}
	return documents
}

func registry(t *testing.T) *schema.Registry {
	t.Helper()
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// custom returns the definition in testdata with its document.
func custom(t *testing.T) (*schema.Registry, document) {
	t.Helper()
	text, err := os.ReadFile("testdata/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	var crd apiextensions.CustomResourceDefinition
	if err := errors.Join(yaml.Unmarshal(text, &tree), yaml.Unmarshal(text, &crd)); err != nil {
		t.Fatal(err)
	}
	types, err := registry(t).WithCustomResources(tree)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := builder.BuildOpenAPIV3(&crd, "v1", builder.Options{V2: false})
	if err != nil {
		t.Fatal(err)
	}
	return types, newDocument(t, parsed.Components.Schemas)
}

func TestSchemasOfBuiltInKinds(t *testing.T) {
	types := registry(t)
	compared := map[schema.GroupVersionKind]bool{}
	for _, d := range publishedDocuments(t) {
		for kind, model := range d.kinds() {
			if compared[kind] {
				continue
			}
			typ := types.Type(kind)
			if typ == nil {
				if types.ResourceFor(kind) != nil {
					t.Errorf("%s has a resource but no type", kind)
				}
				continue
			}
			compared[kind] = true
			compareTypes(t, kind, d.schema, model, typ)
		}
	}
	if len(compared) < 100 {
		t.Errorf("only %d kinds compared", len(compared))
	}
	t.Logf("%d kinds", len(compared))
}

func TestSchemaOfCustomKind(t *testing.T) {
	types, d := custom(t)
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	compareTypes(t, kind, d.schema, d.kinds()[kind], types.Type(kind))
}

func compareTypes(t *testing.T, kind schema.GroupVersionKind, want *smd.Schema, model string, typ *shape.Type) {
	t.Helper()
	got, root := mergetest.Schema(typ)
	c := comparison{want: want, got: got, seen: map[string]bool{}}
	c.refs(smd.TypeRef{NamedType: &model}, root, kind.Kind, true)
	for _, difference := range c.differences {
		// The tables let fieldsV1 be any value. It lies below an atomic list, which no patch may touch.
		if !strings.Contains(difference, "managedFields[].fieldsV1: ") {
			t.Errorf("%s: %s", kind, difference)
		}
	}
}

// A comparison walks two schemas in step.
type comparison struct {
	want, got   *smd.Schema
	seen        map[string]bool
	differences []string
}

func (c *comparison) report(path, format string, args ...any) {
	c.differences = append(c.differences, path+": "+fmt.Sprintf(format, args...))
}

// refs compares the targets of two references; parts below lists and maps that merge as one value are compared less
// strictly.
func (c *comparison) refs(want, got smd.TypeRef, path string, members bool) {
	if want.NamedType != nil && got.NamedType != nil {
		pair := *want.NamedType + " " + *got.NamedType
		if want.ElementRelationship == nil && got.ElementRelationship == nil {
			if c.seen[pair] {
				return
			}
			c.seen[pair] = true
		}
	}
	w, okW := c.want.Resolve(want)
	g, okG := c.got.Resolve(got)
	if okW != okG {
		c.report(path, "resolves %v, want %v", okG, okW)
		return
	}
	switch {
	case (w.Scalar == nil) != (g.Scalar == nil), (w.List == nil) != (g.List == nil), (w.Map == nil) != (g.Map == nil):
		c.report(path, "forms %s, want %s", forms(g), forms(w))
		return
	case w.Scalar != nil && *w.Scalar != *g.Scalar:
		c.report(path, "scalar %s, want %s", *g.Scalar, *w.Scalar)
	}
	if w.List != nil {
		if w.List.ElementRelationship != g.List.ElementRelationship || !slices.Equal(w.List.Keys, g.List.Keys) {
			c.report(path, "list %s %q, want %s %q", g.List.ElementRelationship, g.List.Keys,
				w.List.ElementRelationship, w.List.Keys)
		}
		for _, key := range w.List.Keys {
			if d, want := c.keyDefault(c.got, g.List.ElementType, key),
				c.keyDefault(c.want, w.List.ElementType, key); !reflect.DeepEqual(d, want) {
				c.report(path, "default of key %s is %#v, want %#v", key, d, want)
			}
		}
		c.refs(w.List.ElementType, g.List.ElementType, path+"[]", members)
	}
	if w.Map != nil {
		c.maps(w.Map, g.Map, path)
	}
}

func (c *comparison) maps(want, got *smd.Map, path string) {
	if (want.ElementRelationship == smd.Atomic) != (got.ElementRelationship == smd.Atomic) {
		c.report(path, "map %q, want %q", got.ElementRelationship, want.ElementRelationship)
	}
	if open, wantOpen := !reflect.DeepEqual(got.ElementType, smd.TypeRef{}),
		!reflect.DeepEqual(want.ElementType, smd.TypeRef{}); open != wantOpen {
		c.report(path, "takes undeclared members: %v, want %v", open, wantOpen)
	} else if open {
		c.refs(want.ElementType, got.ElementType, path+".*", true)
	}
	for _, f := range want.Fields {
		if other, ok := got.FindField(f.Name); ok {
			c.refs(f.Type, other.Type, path+"."+f.Name, true)
		} else {
			c.report(path+"."+f.Name, "is missing")
		}
	}
	for _, f := range got.Fields {
		if _, ok := want.FindField(f.Name); !ok {
			c.report(path+"."+f.Name, "is not declared by the server")
		}
	}
}

func (c *comparison) keyDefault(s *smd.Schema, elem smd.TypeRef, key string) any {
	atom, _ := s.Resolve(elem)
	if atom.Map == nil {
		return nil
	}
	field, _ := atom.Map.FindField(key)
	if n, ok := field.Default.(int64); ok {
		return float64(n)
	}
	return field.Default
}

func forms(a smd.Atom) string {
	var forms []string
	if a.Scalar != nil {
		forms = append(forms, string(*a.Scalar))
	}
	if a.List != nil {
		forms = append(forms, "list")
	}
	if a.Map != nil {
		forms = append(forms, "map")
	}
	return strings.Join(forms, "+")
}

// The merges of objects that are made up, under the server's own converters.
func TestApplyToKinds(t *testing.T) {
	type subject struct {
		kind      schema.GroupVersionKind
		typ       *shape.Type
		converter managedfields.TypeConverter
	}
	var subjects []subject
	types, d := custom(t)
	add := func(d document) {
		for kind := range d.kinds() {
			if typ := types.Type(kind); typ != nil && types.ResourceFor(kind) != nil {
				subjects = append(subjects, subject{kind, typ, d.converter})
			}
		}
	}
	add(d)
	for _, d := range publishedDocuments(t) {
		add(d)
	}
	slices.SortFunc(subjects, func(a, b subject) int { return strings.Compare(a.kind.String(), b.kind.String()) })

	random := rand.NewChaCha8([32]byte([]byte(strings.Repeat("celgate ", 4))))
	merged := 0
	for _, s := range subjects {
		for range 100 {
			choices := make([]byte, 256)
			random.Read(choices)
			g := mergetest.Generator{Choices: choices}
			live, patch := g.Objects(s.typ)
			for _, object := range []map[string]any{live, patch} {
				object["apiVersion"], object["kind"] = s.kind.GroupVersion().String(), s.kind.Kind
				drop(object, "fieldsV1") // see compareTypes
			}
			want, wantErr := upstream.ApplyStructuredMergeDiff(s.converter,
				&unstructured.Unstructured{Object: runtime.DeepCopyJSON(live)},
				&unstructured.Unstructured{Object: mergetest.Copy(patch).(map[string]any)})
			got, err := merge.Apply(live, patch, s.typ)
			if err != nil || wantErr != nil {
				if (err == nil) != (wantErr == nil) || !sameText(err.Error(), wantErr.Error()) {
					t.Fatalf("%s\nlive  %v\npatch %#v\ngot error %v\nwant      %v", s.kind, live, patch, err, wantErr)
				}
				continue
			}
			merged++
			if want := want.(*unstructured.Unstructured).Object; !reflect.DeepEqual(want, got) {
				t.Fatalf("%s\nlive  %v\npatch %#v\n%s", s.kind, live, patch, cmp.Diff(want, got))
			}
		}
	}
	t.Logf("%d kinds, %d merges", len(subjects), merged)
	if merged < 1000 {
		t.Errorf("only %d merges", merged)
	}
}

// drop removes a member at any depth.
func drop(v any, name string) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, name)
		for _, member := range v {
			drop(member, name)
		}
	case []any:
		for _, item := range v {
			drop(item, name)
		}
	}
}

// sameText compares error texts in which the server orders members at random. An undeclared member ends the server's
// check of a map, so of several problems it may report others.
func sameText(got, want string) bool {
	const unfit = " object to typed object: "
	stage, list, found := strings.Cut(want, unfit)
	if !found {
		_, list, found = strings.Cut(want, "structs: ")
		_, gotList, gotFound := strings.Cut(got, "structs: ")
		a, b := strings.Split(gotList, ", "), strings.Split(list, ", ")
		slices.Sort(a)
		slices.Sort(b)
		return found && gotFound && slices.Equal(a, b)
	}
	gotStage, gotList, _ := strings.Cut(got, unfit)
	if gotStage != stage {
		return false
	}
	if strings.Contains(list, "not declared in schema") || strings.Contains(gotList, "not declared in schema") {
		return true
	}
	a, b := strings.Split(gotList, "\n"), strings.Split(list, "\n")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
