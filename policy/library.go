package policy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/inline"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/scope"
	dialect "github.com/celgate/celgate/policy/internal/v1alpha1"
)

// LibraryKind is the kind of libraries.
const LibraryKind = "AdmissionPolicyLibrary"

// A Library has variables, functions and scopes for the policies that import it. It is immutable.
type Library struct {
	APIVersion string
	Name       string
	Metadata   metav1.ObjectMeta // as written
	Position   Position
	Stored     bool // see [Policy.Stored]

	Imports   []string // other libraries, by name
	Variables []NamedExpr
	Functions []Function
	Scopes    []NamedScope

	place  func(path string) Locator
	linked *linkedLibrary // nil: before [Set.Link]
}

// A Function is an expression with parameters.
type Function struct {
	Name   string
	Params []FunctionParam
	Type   string // of the result; empty: the type of the expression
	Expr   Expr
}

// A FunctionParam is a parameter of a function.
type FunctionParam struct {
	Name string
	Type string // empty: any
}

// A NamedScope is a name for one or several paths.
type NamedScope struct {
	Name  string
	Paths []Expr
}

// Ref names the library.
func (l *Library) Ref() Ref { return Ref{Kind: LibraryKind, Name: l.Name} }

func (c converter) library(in *dialect.AdmissionPolicyLibrary) *Library {
	l := &Library{APIVersion: c.apiVersion, Name: in.Name, Metadata: in.ObjectMeta, Position: c.position(),
		Imports: in.Spec.Imports, Variables: c.variables(in.Spec.Variables), place: c.place}
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

// Locate is like [Policy.Locate].
func (l *Library) Locate(err *field.Error) Position {
	if x := l.At(err.Field); !x.IsZero() {
		if at := x.Locate(compileOffset(err, x.Src)); at.IsValid() {
			return at
		}
	}
	return locateField(l.place, err.Field, l.Position)
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

// ValidateLibrary returns the errors of a library that [Set.Link] has linked. The function variable compiles the
// expression of a variable, in their order, and function that of a function; both return the error. If they are nil,
// nothing is compiled.
func ValidateLibrary(l *Library, variable func(NamedExpr) *field.Error,
	function func(Function) *field.Error) field.ErrorList {
	v := &libraryValidator{names: map[string]bool{}}
	v.metadata(l.Name, l.Metadata)
	if !locals.IsIdentifier(l.Name) || slices.Contains(takenNames, l.Name) {
		v.add(field.Invalid(field.NewPath("metadata", "name"), l.Name,
			"must be letters and digits, a letter first, without another meaning in expressions"))
	}
	spec := field.NewPath("spec")
	v.imports(l.Imports, spec.Child("imports"), l.linkErrors())
	for i, x := range l.Variables {
		at := spec.Child("variables").Index(i)
		v.name(x.Name, at.Child("name"))
		v.expression(x.Expr, at.Child("expression"), func() *field.Error {
			if variable == nil || len(l.linkErrors()) > 0 {
				return nil // the members of the other libraries are not known
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

// imports checks the names of imported libraries; errs are errors about the libraries themselves.
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

// expression checks an expression; compile returns its error.
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
			v.add(field.Invalid(name, p.Name, "has another meaning in expressions"))
		case seen[p.Name]:
			v.add(field.Duplicate(name, p.Name))
		}
		seen[p.Name] = true
		v.typeName(p.Type, at.Child("type"))
	}
	v.typeName(f.Type, path.Child("type"))
}

func (v *libraryValidator) typeName(written string, path *field.Path) {
	if _, ok := inline.ParseType(written); !ok {
		v.add(field.Invalid(path, written, "must be one of "+strings.Join(inline.ScalarTypes, ", ")+
			", list(TYPE) or map(TYPE, TYPE)"))
	}
}

// namedScope checks the paths of a scope, which must have the same names for their keys and indices.
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
