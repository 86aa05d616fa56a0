package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/scope"
	dialect "github.com/celgate/celgate/policy/internal/v1alpha1"
)

// LibraryKind is the kind of libraries.
const LibraryKind = "AdmissionPolicyLibrary"

// A Library has variables, functions and scopes for the policies that import it. It is not changed after it was made.
type Library struct {
	APIVersion string
	Name       string
	Metadata   metav1.ObjectMeta // as written
	Position   Position
	Stored     bool // as [Policy.Stored]

	Imports   []string // other libraries, by their names
	Variables []NamedExpr
	Functions []Function
	Scopes    []NamedScope

	places Places
	linked *linkedLibrary // nil: [Linker] has not seen the library
}

// A Function is an expression with parameters.
type Function struct {
	Name   string
	Params []FunctionParam
	Type   string // of the result; empty: that of the expression
	Expr   Expr
}

// A FunctionParam is a parameter of a function.
type FunctionParam struct {
	Name string
	Type string // empty: any
}

// A NamedScope is one path or several under a name.
type NamedScope struct {
	Name  string
	Paths []Expr
}

// Ref names the library.
func (l *Library) Ref() Ref { return Ref{Kind: LibraryKind, Name: l.Name} }

func (c converter) library(in *dialect.AdmissionPolicyLibrary) *Library {
	l := &Library{APIVersion: c.apiVersion, Name: in.Name, Metadata: in.ObjectMeta, Position: c.position(),
		Imports: in.Spec.Imports, Variables: c.variables(in.Spec.Variables), places: c.places}
	for i, f := range in.Spec.Functions {
		made := Function{Name: f.Name, Type: f.Type, Expr: c.expr("spec.functions"+index(i)+".expression", f.Expression)}
		for _, p := range f.Params {
			made.Params = append(made.Params, FunctionParam(p))
		}
		l.Functions = append(l.Functions, made)
	}
	for i, s := range in.Spec.Scopes {
		made := NamedScope{Name: s.Name}
		for j, path := range s.Paths {
			made.Paths = append(made.Paths, c.expr("spec.scopes"+index(i)+".paths"+index(j), path))
		}
		l.Scopes = append(l.Scopes, made)
	}
	return l
}

// Locate is as [Policy.Locate].
func (l *Library) Locate(err *field.Error) Position {
	if x := l.At(err.Field); !x.IsZero() {
		if at := x.Locate(compileOffset(err, x.Src)); at.IsValid() {
			return at
		}
	}
	return locateField(l.places, err.Field, l.Position)
}

// At returns the expression or the path of l at a field path; the zero Expr if there is none.
func (l *Library) At(path string) Expr {
	for _, v := range l.Variables {
		if v.Expr.Field == path {
			return v.Expr
		}
	}
	for _, f := range l.Functions {
		if f.Expr.Field == path {
			return f.Expr
		}
	}
	for _, s := range l.Scopes {
		for _, x := range s.Paths {
			if x.Field == path {
				return x
			}
		}
	}
	return Expr{}
}

// ValidateLibrary returns what is wrong with a library, which a [Linker] has linked. Variable compiles the expression
// of a variable, and is asked in their order; function that of a function. They return why it cannot be; nil compiles
// nothing.
func ValidateLibrary(l *Library, variable func(NamedExpr) *field.Error,
	function func(Function) *field.Error) field.ErrorList {
	v := &libraryValidator{names: map[string]bool{}}
	v.metadata(l.Name, l.Metadata)
	if !locals.IsIdentifier(l.Name) || slices.Contains(takenNames, l.Name) {
		v.add(field.Invalid(field.NewPath("metadata", "name"), l.Name,
			"must be a name that expressions can begin with and have no other meaning for: letters and digits, a letter first"))
	}
	spec := field.NewPath("spec")
	v.imports(l.Imports, spec.Child("imports"), l.linkErrors())
	for i, x := range l.Variables {
		at := spec.Child("variables").Index(i)
		v.name(x.Name, at.Child("name"))
		v.expression(x.Expr, at.Child("expression"), func() *field.Error {
			if variable == nil || len(l.linkErrors()) > 0 {
				return nil // what the others have is not known
			}
			return variable(x)
		})
	}
	for i, f := range l.Functions {
		at := spec.Child("functions").Index(i)
		v.name(f.Name, at.Child("name"))
		v.signature(f, at)
		v.expression(f.Expr, at.Child("expression"), func() *field.Error {
			if function == nil || len(l.linkErrors()) > 0 {
				return nil
			}
			return function(f)
		})
	}
	for i, s := range l.Scopes {
		v.namedScope(s, spec.Child("scopes").Index(i))
	}
	return v.distinct()
}

type libraryValidator struct {
	validator
	names map[string]bool // of the parts
}

// imports checks the names of libraries; errs are what is wrong with the libraries.
func (v *validator) imports(names []string, path *field.Path, errs field.ErrorList) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			v.add(field.Duplicate(path.Index(i), name))
		}
	}
	v.add(errs...)
}

func (v *libraryValidator) name(name string, path *field.Path) {
	switch {
	case name == "":
		v.add(field.Required(path, ""))
	case !locals.IsIdentifier(name):
		v.add(field.Invalid(path, name, "must be a valid CEL identifier"))
	case v.names[name]:
		duplicate := field.Duplicate(path, name)
		duplicate.Detail = "each part of a library must have a name of its own"
		v.add(duplicate)
	}
	v.names[name] = true
}

// expression checks an expression; compile says why it is none.
func (v *libraryValidator) expression(x Expr, path *field.Path, compile func() *field.Error) {
	if strings.TrimSpace(x.Src) == "" {
		v.add(field.Required(path, ""))
		return
	}
	if err := compile(); err != nil {
		v.add(&field.Error{Type: err.Type, Field: path.String(), BadValue: x.Src, Detail: err.Detail})
	}
}

// signature checks the parameters and the type of a function.
func (v *libraryValidator) signature(f Function, path *field.Path) {
	seen := map[string]bool{}
	for i, p := range f.Params {
		at := path.Child("params").Index(i)
		switch name := at.Child("name"); {
		case p.Name == "":
			v.add(field.Required(name, ""))
		case !locals.IsIdentifier(p.Name):
			v.add(field.Invalid(name, p.Name, "must be a valid CEL identifier"))
		case slices.Contains(takenNames, p.Name):
			v.add(field.Invalid(name, p.Name, "expressions call something else so"))
		case seen[p.Name]:
			v.add(field.Duplicate(name, p.Name))
		}
		seen[p.Name] = true
		v.typeName(p.Type, at.Child("type"))
	}
	v.typeName(f.Type, path.Child("type"))
}

func (v *libraryValidator) typeName(written string, path *field.Path) {
	if _, ok := ParseType(written); !ok {
		v.add(field.Invalid(path, written, "must be one of "+strings.Join(scalarNames, ", ")+
			", list(TYPE) or map(TYPE, TYPE)"))
	}
}

// namedScope checks the paths of a scope, which must give their keys and indexes the same names.
func (v *libraryValidator) namedScope(s NamedScope, path *field.Path) {
	v.name(s.Name, path.Child("name"))
	if len(s.Paths) == 0 {
		v.add(field.Required(path.Child("paths"), ""))
	}
	var names []string // of the first
	for i, x := range s.Paths {
		at := path.Child("paths").Index(i)
		of := scope.Parse(x.Src)
		switch {
		case x.Src == "":
			v.add(field.Required(at, ""))
		case of.Err() != nil:
			v.add(field.Invalid(at, x.Src, of.Err().Error()))
		case strings.HasPrefix(x.Src, scope.Builtin+"."):
			v.add(field.Invalid(at, x.Src, "must be a path"))
		case i == 0:
			names = of.Names()
		case !slices.Equal(names, of.Names()):
			v.add(field.Invalid(at, x.Src, fmt.Sprintf("the paths of a scope must have the same names: %s has %s",
				s.Paths[0].Src, namesOr(names))))
		}
	}
}

func namesOr(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// A Type is the type of a parameter or a result: a scalar, or with Of a list of one and a map of two.
type Type struct {
	Name string // of scalarNames, list or map
	Of   []Type
}

var scalarNames = []string{"bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp", "dyn"}

var listOrMap = regexp.MustCompile(`^(list|map)\s*\((.*)\)$`)

// ParseType reads a type as functions write it; the empty text is dyn.
func ParseType(text string) (Type, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Type{Name: "dyn"}, true
	}
	if slices.Contains(scalarNames, text) {
		return Type{Name: text}, true
	}
	m := listOrMap.FindStringSubmatch(text)
	if m == nil || len(text) > maxTypeLength {
		return Type{}, false
	}
	of := Type{Name: m[1]}
	for _, part := range splitTypes(m[2]) {
		t, ok := ParseType(part)
		if !ok || strings.TrimSpace(part) == "" {
			return Type{}, false
		}
		of.Of = append(of.Of, t)
	}
	want := 1
	if of.Name == "map" {
		want = 2
	}
	return of, len(of.Of) == want
}

// maxTypeLength bounds how deep types may be.
const maxTypeLength = 200

// splitTypes splits types at the commas between them.
func splitTypes(text string) (all []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				all, from = append(all, text[from:i]), i+1
			}
		}
	}
	return append(all, text[from:])
}
