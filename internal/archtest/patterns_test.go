package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The start of a command compiles no regular expression: those of packages are patterns, compiled on their first use.
// So that none panics there, each is compiled here.
func TestPatterns(t *testing.T) {
	found := 0
	eachFile(t, func(files *token.FileSet, path string, file *ast.File) {
		module, _, _ := strings.Cut(path, "/")
		if module == "conformance" || module == "tools" || module == "bench" || strings.Contains(path, "conformance/") {
			return
		}
		for _, decl := range file.Decls {
			inPackage := false
			if d, is := decl.(*ast.GenDecl); is {
				inPackage = d.Tok == token.VAR
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if _, is := n.(*ast.FuncLit); is {
					inPackage = false
				}
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				switch callee(call) {
				case "pattern.New":
					found++
					if text, is := constantText(call.Args[0]); !is {
						t.Errorf("%s: the text of a pattern must be a constant", files.Position(call.Pos()))
					} else if _, err := regexp.Compile(text); err != nil {
						t.Errorf("%s: %v", files.Position(call.Pos()), err)
					}
				case "regexp.MustCompile":
					if inPackage {
						t.Errorf("%s: use pattern.New for a variable of a package", files.Position(call.Pos()))
					}
				}
				return true
			})
		}
	})
	if found < 80 {
		t.Errorf("only %d patterns were found", found)
	}
}

// callee returns the function of a package that is called, as "regexp.MustCompile"; "": another one.
func callee(call *ast.CallExpr) string {
	if f, is := call.Fun.(*ast.SelectorExpr); is {
		if x, is := f.X.(*ast.Ident); is {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// constantText returns the value of string literals joined by +.
func constantText(expr ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		x, xOK := constantText(e.X)
		y, yOK := constantText(e.Y)
		return x + y, xOK && yOK && e.Op == token.ADD
	}
	return "", false
}
