package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exportedTypes is the number of exported types of each public package. A change of a number must be deliberate: a type
// without a use outside of the module does not belong to the public API, and a new one has a line in CHANGELOG.md.
// Aliases of Kubernetes types do not count, because users already know them.
var exportedTypes = map[string]int{
	"":         24,
	"explain":  12,
	"manifest": 5,
	"policy":   29,
	"schema":   4,
	"state":    2,
	"webhook":  3,
}

func TestExportedTypes(t *testing.T) {
	found := map[string]int{}
	for path := range list(t) {
		public, ok := relative(path)
		if !ok || strings.Contains("/"+public, "/internal/") {
			continue
		}
		var names []string
		for _, file := range parse(t, token.NewFileSet(), filepath.Join("..", "..", filepath.FromSlash(public))) {
			for _, d := range file.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.TYPE {
					continue
				}
				for _, s := range g.Specs {
					if s := s.(*ast.TypeSpec); s.Name.IsExported() && !ofKubernetes(s, file) {
						names = append(names, s.Name.Name)
					}
				}
			}
		}
		if len(names) > 0 {
			found[public] = len(names)
		}
		if want := exportedTypes[public]; len(names) != want {
			t.Errorf("package %q exports %d types, not %d: %s", public, len(names), want, strings.Join(names, " "))
		}
	}
	for public := range maps.Keys(exportedTypes) {
		if found[public] == 0 {
			t.Errorf("package %q exports no type", public)
		}
	}
}

// TestExamples wants an example that runs in each public package.
func TestExamples(t *testing.T) {
	for path := range list(t) {
		public, ok := relative(path)
		if !ok || strings.Contains("/"+public+"/", "/internal/") || strings.HasPrefix(public, "cmd/") {
			continue
		}
		dir := filepath.Join("..", "..", filepath.FromSlash(public))
		text, err := os.ReadFile(filepath.Join(dir, "example_test.go"))
		if err != nil || !bytes.Contains(text, []byte("func Example")) || !bytes.Contains(text, []byte("// Output:")) {
			t.Errorf("package %q has no example that runs (%v)", public, err)
		}
	}
}

// ofKubernetes reports that a type is an alias of one that a module of Kubernetes has.
func ofKubernetes(s *ast.TypeSpec, file *ast.File) bool {
	of, ok := s.Type.(*ast.SelectorExpr)
	if !ok || !s.Assign.IsValid() {
		return false
	}
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		path, err := strconv.Unquote(i.Path.Value)
		name := filepath.Base(path)
		if i.Name != nil {
			name = i.Name.Name
		}
		return err == nil && name == of.X.(*ast.Ident).Name && strings.HasPrefix(path, "k8s.io/")
	})
}

// TestOnlyPreparedIsDecided tests that a program that lets an engine decide about an unprepared request does not
// compile.
func TestOnlyPreparedIsDecided(t *testing.T) {
	root := filepath.Join("..", "..")
	exports := exportData(t, root)
	fset := token.NewFileSet()
	compile := func(request string) error {
		file, err := parser.ParseFile(fset, "program.go", `package program
import (
	"context"
	"`+module+`"
)
func decide(ctx context.Context, e *celgate.Engine, r *celgate.`+request+`) (*celgate.Decision, error) {
	return e.Admit(ctx, r)
}`, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = importingFrom(fset, exports).Check("program", fset, []*ast.File{file}, nil)
		return err
	}
	if err := compile("Prepared"); err != nil {
		t.Errorf("a prepared request: %v", err)
	}
	if err := compile("Request"); err == nil || !strings.Contains(err.Error(), "*celgate.Request") {
		t.Errorf("a request that nobody prepared: %v", err)
	}
}

// TestFilesOfTheRoot fails for files of package celgate that use each other in a circle: so they can be read from the
// bottom up.
func TestFilesOfTheRoot(t *testing.T) {
	root := filepath.Join("..", "..")
	exports := exportData(t, root)
	fset := token.NewFileSet()
	files := parse(t, fset, root)
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := importingFrom(fset, exports).Check(module, fset, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]map[string]string{} // file, file, a name
	for id, used := range info.Uses {
		from, to := fset.Position(id.Pos()).Filename, fset.Position(used.Pos()).Filename
		if used.Pkg() != pkg || from == to {
			continue
		}
		if _, isImport := used.(*types.PkgName); isImport {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]string{}
		}
		uses[from][to] = used.Name()
	}
	done := map[string]bool{}
	var visit func(path []string)
	visit = func(path []string) {
		last := path[len(path)-1]
		if i := slices.Index(path[:len(path)-1], last); i >= 0 {
			circle := filepath.Base(last)
			for j := i; j < len(path)-1; j++ {
				circle += " -(" + uses[path[j]][path[j+1]] + ")-> " + filepath.Base(path[j+1])
			}
			t.Errorf("files in a circle: %s", circle)
			return
		}
		if done[last] {
			return
		}
		for _, next := range slices.Sorted(maps.Keys(uses[last])) {
			visit(append(slices.Clip(path), next))
		}
		done[last] = true
	}
	for _, file := range slices.Sorted(maps.Keys(uses)) {
		visit([]string{file})
	}
	if len(uses) == 0 {
		t.Error("no file uses another")
	}
}

// parse reads the files of a package without its tests.
func parse(t *testing.T, fset *token.FileSet, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// importingFrom returns a type checker that finds packages in the files of [exportData].
func importingFrom(fset *token.FileSet, exports map[string]string) *types.Config {
	return &types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
}

// exportData returns the file with the export data of each package that the root package needs.
func exportData(t *testing.T, root string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", ".")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return exports
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
}
