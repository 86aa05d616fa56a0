package webhook

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestDiff(t *testing.T) {
	for _, test := range []struct{ name, before, after, want string }{
		{"equal", `{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}]}`, `null`},
		{"members", `{"a":1,"b":2}`, `{"b":3,"c":null}`,
			`[{"op":"remove","path":"/a"},{"op":"replace","path":"/b","value":3},{"op":"add","path":"/c","value":null}]`},
		{"escapes", `{}`, `{"a/b~c":"<"}`, `[{"op":"add","path":"/a~1b~0c","value":"<"}]`},
		{"item at the end", `{"l":[1]}`, `{"l":[1,2]}`, `[{"op":"add","path":"/l/1","value":2}]`},
		{"item at the start", `{"l":[2,3]}`, `{"l":[1,2,3]}`, `[{"op":"add","path":"/l/0","value":1}]`},
		{"items out of the middle", `{"l":[1,2,3,4]}`, `{"l":[1,4]}`,
			`[{"op":"remove","path":"/l/2"},{"op":"remove","path":"/l/1"}]`},
		{"within an item", `{"l":[{"n":"a"},{"n":"b"}]}`, `{"l":[{"n":"a"},{"n":"b","v":1}]}`,
			`[{"op":"add","path":"/l/1/v","value":1}]`},
		{"other types", `{"a":{},"b":[],"c":null,"d":1}`, `{"a":[],"b":{},"c":0,"d":1.5}`,
			`[{"op":"replace","path":"/a","value":[]},{"op":"replace","path":"/b","value":{}},{"op":"replace","path":"/c","value":0},{"op":"replace","path":"/d","value":1.5}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := marshal(diff(object(t, test.before), object(t, test.after)))
			if err != nil {
				t.Fatal(err)
			}
			var have, want any
			if json.Unmarshal(got, &have) != nil || json.Unmarshal([]byte(test.want), &want) != nil ||
				!reflect.DeepEqual(have, want) {
				t.Errorf("have %s\nwant %s", got, test.want)
			}
		})
	}
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := utiljson.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// FuzzDiff applies the patch with the library of kube-apiserver.
func FuzzDiff(f *testing.F) {
	f.Add(`{"a":[1,2,3],"b":{"c":null}}`, `{"a":[0,1,3],"d":[[]]}`)
	f.Add(`{"l":[{"n":1},{"n":2}]}`, `{"l":[{"n":2},{"n":1},{"n":2}]}`)
	f.Add(`{"":{"~":[]}}`, `{"":{"/":[null]}}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		var a, b map[string]any
		if utiljson.Unmarshal([]byte(before), &a) != nil || utiljson.Unmarshal([]byte(after), &b) != nil || a == nil ||
			b == nil {
			return
		}
		source, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		text, err := marshal(diff(a, b))
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(text)
		if err != nil {
			t.Fatal(err)
		}
		patched, err := patch.Apply(source)
		if err != nil {
			t.Fatalf("%s on %s: %v", text, source, err)
		}
		var got map[string]any
		if err := utiljson.Unmarshal(patched, &got); err != nil {
			t.Fatal(err)
		}
		normal, _ := json.Marshal(b) // floats such as 1e0 are written as 1
		var want map[string]any
		if err := utiljson.Unmarshal(normal, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\non   %s\nhave %s\nwant %s", text, source, patched, normal)
		}
	})
}

func TestAnnotationKey(t *testing.T) {
	long := strings.Repeat("policy.", 30) + "example.com/key"
	seen := map[string]string{}
	for _, test := range []struct{ key, want string }{
		{"validation.policy.admission.k8s.io/validation_failure", "validation_failure"},
		{"p.example.com/key", "p.example.com_key"},
		{long, ""},
		{long + "2", ""},
	} {
		got := annotationKey(test.key)
		if test.want != "" && got != test.want {
			t.Errorf("%s: have %s, want %s", test.key, got, test.want)
		}
		if problems := validation.IsQualifiedName("celgate.example.com/" + got); len(problems) > 0 {
			t.Errorf("%s: %s: %v", test.key, got, problems)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are both %s", other, test.key, got)
		}
		seen[got] = test.key
	}
}
