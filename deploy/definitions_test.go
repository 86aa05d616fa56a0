package deploy

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

//go:generate go test -run TestDialectDefinitions -update

var update = flag.Bool("update", false, "write the definitions of the dialect")

// A definition is a kind of the dialect, of which a CustomResourceDefinition is made.
type definition struct {
	kind, plural, short string
	released            []string // the definitions that have the schemas of released fields, the best first
	columns             string
}

var definitions = []definition{
	{"AdmissionPolicy", "admissionpolicies", "cgap", []string{"validatingadmissionpolicies", "mutatingadmissionpolicies"}, `
- {name: Failure, type: string, jsonPath: .spec.failurePolicy}
- {name: Order, type: integer, jsonPath: .status.order}
- {name: Param, type: string, priority: 1, jsonPath: .status.paramKind.kind}
- {name: Kinds, type: integer, priority: 1, jsonPath: .status.matchedKindsTotal}
- {name: Reachable, type: string, jsonPath: ".status.conditions[?(@.type=='Reachable')].status"}
- {name: Ready, type: string, jsonPath: ".status.conditions[?(@.type=='Ready')].status"}
- {name: Reason, type: string, jsonPath: ".status.conditions[?(@.type=='Ready')].reason"}
- {name: Message, type: string, priority: 1, jsonPath: ".status.conditions[?(@.type=='Ready')].message"}
- {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
`},
	{"NamespacedAdmissionPolicyBinding", "namespacedadmissionpolicybindings", "cgnapb", []string{"validatingadmissionpolicybindings"}, `
- {name: Policy, type: string, jsonPath: .spec.policyName}
- {name: Policies, type: string, priority: 1, jsonPath: ".spec.policies[*].name"}
- {name: Mutations, type: string, priority: 1, jsonPath: ".spec.mutationActions"}
- {name: Reachable, type: string, jsonPath: ".status.conditions[?(@.type=='Reachable')].status"}
- {name: Ready, type: string, jsonPath: ".status.conditions[?(@.type=='Ready')].status"}
- {name: Reason, type: string, jsonPath: ".status.conditions[?(@.type=='Ready')].reason"}
- {name: Message, type: string, priority: 1, jsonPath: ".status.conditions[?(@.type=='Ready')].message"}
- {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
`},
	{"AdmissionPolicyLibrary", "admissionpolicylibraries", "cgapl", []string{"validatingadmissionpolicies"}, `
- {name: Imports, type: string, priority: 1, jsonPath: .spec.imports}
- {name: Ready, type: string, jsonPath: ".status.conditions[?(@.type=='Ready')].status"}
- {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
`},
	{"AdmissionPolicyBinding", "admissionpolicybindings", "cgapb", []string{"validatingadmissionpolicybindings"}, `
- {name: Policy, type: string, jsonPath: .spec.policyName}
- {name: Policies, type: string, priority: 1, jsonPath: ".spec.policies[*].name"}
- {name: Mutations, type: string, priority: 1, jsonPath: ".spec.mutationActions"}
- {name: Reachable, type: string, jsonPath: ".status.conditions[?(@.type=='Reachable')].status"}
- {name: Ready, type: string, jsonPath: ".status.conditions[?(@.type=='Ready')].status"}
- {name: Reason, type: string, jsonPath: ".status.conditions[?(@.type=='Ready')].reason"}
- {name: Message, type: string, priority: 1, jsonPath: ".status.conditions[?(@.type=='Ready')].message"}
- {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
`},
}

func (d *definition) scope() string {
	if strings.HasPrefix(d.kind, "Namespaced") {
		return "Namespaced"
	}
	return "Cluster"
}

const definitionHead = `# %s of policy.celgate.dev/v1alpha1, made from its Go type by go generate.
# Unknown fields are kept, so that celgate sees and refuses them: a field that the API server drops says nothing to anybody.
`

// TestDialectDefinitions compares the definitions of the dialect with its Go types.
func TestDialectDefinitions(t *testing.T) {
	types := readTypes(t)
	for _, d := range definitions {
		text, err := yaml.Marshal(d.tree(t, types))
		if err != nil {
			t.Fatal(err)
		}
		path := "crds/" + d.plural + ".yaml"
		want := fmt.Sprintf(definitionHead, d.kind) + string(text)
		have, err := os.ReadFile(path)
		if *update {
			err = os.WriteFile(path, []byte(want), 0o666)
			have = []byte(want)
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != want {
			t.Errorf("%s is not what the types say: run go generate ./deploy ./policy/...", path)
		}
	}
}

// readTypes returns the struct types of the dialect with their comments.
func readTypes(t *testing.T) map[string]*ast.GenDecl {
	file, err := parser.ParseFile(token.NewFileSet(), "../policy/internal/v1alpha1/types.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*ast.GenDecl{}
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
			types[d.Specs[0].(*ast.TypeSpec).Name.Name] = d
		}
	}
	return types
}

func (d *definition) tree(t *testing.T, types map[string]*ast.GenDecl) map[string]any {
	g := &generator{t: t, types: types}
	for _, name := range d.released {
		text, err := os.ReadFile("crds/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		g.released = append(g.released, schemaOf(t, text))
	}
	var columns []any
	if err := yaml.Unmarshal([]byte(d.columns), &columns); err != nil {
		t.Fatal(err)
	}
	root := g.object(d.kind, nil)
	properties := root["properties"].(map[string]any)
	properties["apiVersion"], properties["kind"] = map[string]any{"type": "string"}, map[string]any{"type": "string"}
	properties["metadata"] = map[string]any{"type": "object"}
	keepUnknown(root)
	drop(properties["status"], "x-kubernetes-preserve-unknown-fields")
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": d.plural + ".policy.celgate.dev",
			"labels": map[string]any{"app.kubernetes.io/name": "celgate"}},
		"spec": map[string]any{
			"group": "policy.celgate.dev", "scope": d.scope(),
			"names": map[string]any{"kind": d.kind, "listKind": d.kind + "List", "plural": d.plural,
				"singular": strings.ToLower(d.kind), "shortNames": []any{d.short}, "categories": []any{"celgate"}},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"additionalPrinterColumns": columns, "schema": map[string]any{"openAPIV3Schema": root},
			}},
		},
	}
}

func schemaOf(t *testing.T, text []byte) map[string]any {
	var tree struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// keepUnknown keeps unknown members of all objects with properties.
func keepUnknown(schema any) {
	visitObjects(schema, func(s map[string]any) { s["x-kubernetes-preserve-unknown-fields"] = true })
}

func drop(schema any, key string) { visitObjects(schema, func(s map[string]any) { delete(s, key) }) }

// visitObjects calls do for all schemas of objects with properties.
func visitObjects(schema any, do func(map[string]any)) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		do(s)
		for _, p := range properties {
			visitObjects(p, do)
		}
	}
	visitObjects(s["items"], do)
	visitObjects(s["additionalProperties"], do)
}

// A generator makes schemas of the types of one kind.
type generator struct {
	t        *testing.T
	types    map[string]*ast.GenDecl
	released []map[string]any // the schemas of definitions of the released kinds
}

// object returns the schema of a struct type; path leads to it.
func (g *generator) object(name string, path []string) map[string]any {
	decl := g.types[name]
	of := decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	properties, required := map[string]any{}, []any{}
	base := g.embeddedSchema(of, path)
	if base != nil {
		properties, _ = base["properties"].(map[string]any)
		required, _ = base["required"].([]any)
	}
	for _, f := range of.Fields.List {
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		member, options, _ := strings.Cut(tag, ",")
		if member == "" || member == "metadata" { // of all kinds
			continue
		}
		schema := g.field(f, append(path[:len(path):len(path)], member))
		if known, ok := properties[member].(map[string]any); ok {
			schema = g.overlay(known, schema)
			required = slices.DeleteFunc(required, func(name any) bool { return name == member })
			whereGiven(base, member)
		}
		directives(g.t, f.Doc, schema)
		_, isRequired := schema["required!"]
		delete(schema, "required!")
		if isRequired || !strings.HasPrefix(options, "omit") {
			required = append(required, member)
		}
		properties[member] = schema
	}
	schema := map[string]any{"type": "object", "properties": properties, "description": comment(decl.Doc)}
	if base != nil {
		base["properties"], base["description"] = properties, schema["description"]
		schema = base
		delete(schema, "required")
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	directives(g.t, decl.Doc, schema)
	return schema
}

// embeddedSchema returns the schema of the released type that a struct embeds, at a path of the definitions, or nil.
func (g *generator) embeddedSchema(of *ast.StructType, path []string) map[string]any {
	for _, f := range of.Fields.List {
		if len(f.Names) > 0 || len(path) == 0 {
			continue
		}
		known := g.releasedSchema(path)
		if items, ok := known["items"].(map[string]any); ok {
			known = items
		}
		return known
	}
	return nil
}

// overlay returns the schema of a field that takes the place of a released one: the released one, with the items of the
// new.
func (g *generator) overlay(released, schema map[string]any) map[string]any {
	if items, ok := schema["items"].(map[string]any); ok && items["properties"] != nil {
		released["items"] = items
	}
	released["description"] = schema["description"]
	return released
}

// whereGiven applies the rules of a schema only if the optional member exists.
func whereGiven(schema map[string]any, member string) {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, item := range rules {
		rule := item.(map[string]any)
		if text := rule["rule"].(string); strings.Contains(text, "self."+member) {
			rule["rule"] = "!has(self." + member + ") || " + text
		}
	}
}

// field returns the schema of a field: that of the released kinds for a type of theirs that they have there.
func (g *generator) field(f *ast.Field, path []string) map[string]any {
	schema := g.typeSchema(f.Type, path)
	if ofReleased(f.Type) {
		if known := g.releasedSchema(path); known != nil {
			schema = known
		}
	}
	schema["description"] = comment(f.Doc)
	return schema
}

// ofReleased reports that a type is one of the API, or a list of such.
func ofReleased(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.StarExpr:
		return ofReleased(x.X)
	case *ast.ArrayType:
		return ofReleased(x.Elt)
	case *ast.SelectorExpr:
		return true
	}
	return false
}

// releasedSchema returns a copy of the schema that a released kind has at a path; nil if none has.
func (g *generator) releasedSchema(path []string) map[string]any {
	for _, root := range g.released {
		at := root
		for _, member := range path {
			if items, ok := at["items"].(map[string]any); ok {
				at = items
			}
			properties, _ := at["properties"].(map[string]any)
			at, _ = properties[member].(map[string]any)
		}
		if at != nil {
			return copyTree(at).(map[string]any)
		}
	}
	return nil
}

func copyTree(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for k, v := range value {
			out[k] = copyTree(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = copyTree(v)
		}
		return out
	}
	return value
}

func (g *generator) typeSchema(x ast.Expr, path []string) map[string]any {
	switch x := x.(type) {
	case *ast.StarExpr:
		return g.typeSchema(x.X, path)
	case *ast.ArrayType:
		return map[string]any{"type": "array", "x-kubernetes-list-type": "atomic", "items": g.typeSchema(x.Elt, path)}
	case *ast.MapType:
		return map[string]any{"type": "object", "additionalProperties": g.typeSchema(x.Value, path)}
	case *ast.SelectorExpr:
		return map[string]any{"type": "string"} // or one that the released kinds have
	case *ast.Ident:
		switch x.Name {
		case "string":
			return map[string]any{"type": "string"}
		case "any":
			return map[string]any{"x-kubernetes-preserve-unknown-fields": true}
		case "bool":
			return map[string]any{"type": "boolean"}
		case "int64", "int32":
			return map[string]any{"type": "integer", "format": x.Name}
		}
		if g.types[x.Name] != nil {
			return g.object(x.Name, path)
		}
	}
	g.t.Fatalf("%s has a type that no schema is made of: %T", strings.Join(path, "."), x)
	return nil
}

// comment is the text of a comment without directives.
func comment(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// directives adds the directives of a comment to a schema; the member "required!" is for the parent.
func directives(t *testing.T, doc *ast.CommentGroup, schema map[string]any) {
	for _, c := range doc.List {
		directive, ok := strings.CutPrefix(c.Text, "//crd:")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(directive, " ")
		switch name {
		case "required":
			schema["required!"] = true
		case "enum":
			of := schema
			if items, ok := schema["items"].(map[string]any); ok {
				of = items
			}
			var texts []any
			for _, text := range strings.Fields(value) {
				texts = append(texts, text)
			}
			of["enum"] = texts
		case "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum":
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(c.Text, err)
			}
			schema[name] = n
		case "rule":
			rule, message, ok := strings.Cut(value, ": ")
			if !ok {
				t.Fatal("no text: " + c.Text)
			}
			rules, _ := schema["x-kubernetes-validations"].([]any)
			schema["x-kubernetes-validations"] = append(rules, map[string]any{"rule": rule, "message": message})
		default:
			t.Fatal("unknown directive " + c.Text)
		}
	}
}
