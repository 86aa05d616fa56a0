package builtin_test

import (
	"testing"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

func registry(t testing.TB) *schema.Registry {
	t.Helper()
	r, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryKindHasAType(t *testing.T) {
	r := registry(t)
	if n := len(r.Resources()); n < 100 {
		t.Errorf("only %d resources", n)
	}
	for _, res := range r.Resources() {
		kinds := []schema.GroupVersionKind{res.GroupVersionKind()}
		for _, sub := range res.Subresources {
			kinds = append(kinds, sub.Kind)
		}
		for _, kind := range kinds {
			if typ := r.Type(kind); typ == nil || len(typ.Fields) == 0 || typ.Field("kind") == nil {
				t.Errorf("%v of %v has no type", kind, res.GroupVersionResource)
			}
		}
	}
}
