package v1alpha1

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
)

//go:generate go test -run TestReference -update

var update = flag.Bool("update", false, "write the reference in docs/dialect.md")

const (
	page  = "../../../docs/dialect.md"
	begin = "<!-- made from policy/internal/v1alpha1/types.go by go generate -->\n"
	end   = "<!-- end -->\n"
)

// TestReference compares the reference in docs/dialect.md with the comments of the types.
func TestReference(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the reference", page)
	}
	want := before + begin + reference(t) + end + after
	if *update && want != string(text) {
		if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is not what the types say: run go generate ./policy/internal/v1alpha1", page)
	}
}

// reference is a table for each type, in the order of the file.
func reference(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		spec := d.Specs[0].(*ast.TypeSpec)
		of, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| field | type | |\n|---|---|---|\n", spec.Name.Name, oneLine(d.Doc.Text()))
		for _, f := range of.Fields.List {
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			if name == "" { // apiVersion and kind
				continue
			}
			doc := oneLine(f.Doc.Text())
			if doc == "" {
				t.Errorf("%s.%s has no comment", spec.Name.Name, name)
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, typeName(f.Type), strings.ReplaceAll(doc, "|", `\|`))
		}
	}
	out.WriteByte('\n')
	return out.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// typeName is a type as the reference shows it.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.ArrayType:
		return "list of " + typeName(x.Elt)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.MapType:
		return "object"
	case *ast.Ident:
		if ast.IsExported(x.Name) {
			return "[" + x.Name + "](#" + strings.ToLower(x.Name) + ")"
		}
		return x.Name
	}
	return fmt.Sprintf("%T", x)
}
