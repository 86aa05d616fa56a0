package policy_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
)

// FuzzFromObject tests that any JSON tree becomes a policy, a binding or an error with a reason, the same each time,
// without changes of the tree; policies and bindings can be validated, and each error has a position.
func FuzzFromObject(f *testing.F) {
	cases := corpus(f)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		data, err := yaml.ToJSON([]byte(cases[name].object))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var obj map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
			t.Skip()
		}
		before := runtime.DeepCopyJSON(obj)
		p, b, err := policy.FromObject(obj, rows{"": 1}.Place)
		switch {
		case !policy.IsRecognised(obj):
			if err == nil || p != nil || b != nil {
				t.Fatal(p, b, err)
			}
		case err != nil:
			var failed *policy.DecodeError
			if !errors.As(err, &failed) || len(failed.Problems) == 0 || failed.Error() == "" || p != nil || b != nil {
				t.Fatalf("%T %v %v %v", err, err, p, b)
			}
		case (p == nil) == (b == nil):
			t.Fatal(p, b)
		case p != nil:
			for _, err := range policy.ValidatePolicy(p, nil) {
				if !p.Locate(err).IsValid() {
					t.Errorf("%v has no place", err)
				}
			}
		default:
			for _, err := range policy.ValidateBinding(b) {
				if !b.Locate(err).IsValid() {
					t.Errorf("%v has no place", err)
				}
			}
		}
		if !reflect.DeepEqual(before, obj) {
			t.Error("the object was changed")
		}
		if first, again := answer(obj), answer(obj); !reflect.DeepEqual(first, again) {
			t.Errorf("%v, then %v", first, again)
		}
	})
}
