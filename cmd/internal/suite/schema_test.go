package suite

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/celgate/celgate/manifest"
)

// TestJSONSchema compares the schema for editors with the decoder, and with all suites of the repository.
func TestJSONSchema(t *testing.T) {
	const file = "../../../docs/suite.schema.json"
	want, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		if !*update {
			t.Fatalf("%s is not what the code knows; go test ./cmd/internal/suite -update rewrites it", file)
		}
		if err := os.WriteFile(file, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var plain map[string]any
	if err := json.Unmarshal(want, &plain); err != nil {
		t.Fatal(err)
	}
	expanded, err := json.Marshal(withoutReferences(plain, plain["definitions"].(map[string]any)))
	if err != nil {
		t.Fatal(err)
	}
	var schema spec.Schema
	if err := json.Unmarshal(expanded, &schema); err != nil {
		t.Fatal(err)
	}
	validator := validate.NewSchemaValidator(&schema, nil, "", strfmt.Default)
	valid := func(object map[string]any) error {
		return validator.Validate(object).AsError()
	}

	documents := 0
	for _, root := range []string{"../../../examples"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			docs, _ := manifest.Load(path)
			for _, d := range docs {
				if !IsRecognised(d.Object) {
					continue
				}
				documents++
				if err := valid(d.Object); err != nil {
					t.Errorf("%s: %v", d.Position(), err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if documents < 20 {
		t.Errorf("only %d suites and cases were found", documents)
	}

	for _, wrong := range []string{
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suit, cases: []}`,
		`{apiVersion: celgate.dev/v1, kind: Suite, cases: []}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite, polices: [a], cases: []}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite, cases: [{name: a, objct: b}]}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite, cases: [{name: 3}]}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite, cases: [{name: a, operation: PATCH}]}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite, cases: [{name: a, expect: deny}]}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite, cases: [{name: a, expect: {denied: {polcy: x}}}]}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Suite, cases: [{name: a, expect: {skipped: {by: rules}}}]}`,
		`{apiVersion: celgate.dev/v1alpha1, kind: Case, table: [{table: []}]}`,
	} {
		docs, problems := manifest.Read(strings.NewReader(wrong), "wrong.yaml")
		if len(docs) != 1 || len(problems) > 0 {
			t.Fatalf("%s: %v", wrong, problems)
		}
		if valid(docs[0].Object) == nil {
			t.Errorf("the schema allows %s", wrong)
		}
	}
}

func copyTree(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = copyTree(v[i])
		}
		return list
	case map[string]any:
		members := map[string]any{}
		for key, member := range v {
			members[key] = copyTree(member)
		}
		return members
	}
	return v
}

// withoutReferences puts definitions in the places of references, which the validator does not follow.
func withoutReferences(v any, definitions map[string]any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutReferences(v[i], definitions)
		}
	case map[string]any:
		if to, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(to, "#/definitions/")
			inner := maps.Clone(definitions)
			inner[name] = map[string]any{} // a recursive type is visited once
			return withoutReferences(copyTree(definitions[name]), inner)
		}
		for key, member := range v {
			if key != "definitions" {
				v[key] = withoutReferences(member, definitions)
			}
		}
		delete(v, "definitions")
	}
	return v
}
