package schema_test

import (
	"os"
	"strings"
	"testing"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"sigs.k8s.io/yaml"
)

func registry(t testing.TB) *schema.Registry {
	t.Helper()
	r, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func file(t testing.TB, name string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return tree(t, string(raw))
}

func TestCustomResource(t *testing.T) {
	r, err := registry(t).WithCustomResources(file(t, "widgets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	typ := r.Type(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	if typ == nil {
		t.Fatal("no type")
	}
	spec := typ.Field("spec").Type
	parts := spec.Field("parts").Type
	if parts.Merge != schema.Keyed || strings.Join(parts.Keys, ",") != "name,port" {
		t.Errorf("parts: %v %v", parts.Merge, parts.Keys)
	}
}
