package check

import (
	"strings"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// A typer declares the types of kinds for the type checker, in two ways: run has the types of values at run time, where
// times and quantities are strings; server has the types that the server's own type checker assumes.
type typer struct {
	registry    *schema.Registry
	run, server map[schema.GroupVersionKind]*celenv.DeclaredType // nil: the kind has no type
	structs     map[*shape.Type]*apiservercel.DeclType           // of run
	named       map[string]*apiservercel.DeclType                // the same by their names
}

func newTyper(r *schema.Registry) typer {
	return typer{
		registry: r,
		run:      map[schema.GroupVersionKind]*celenv.DeclaredType{},
		server:   map[schema.GroupVersionKind]*celenv.DeclaredType{},
		structs:  map[*shape.Type]*apiservercel.DeclType{},
		named:    map[string]*apiservercel.DeclType{},
	}
}

// runtimeType returns the type of a kind's values in expressions; nil for an unknown kind.
func (ty *typer) runtimeType(kind schema.GroupVersionKind) *celenv.DeclaredType {
	return declaredOnce(ty.run, kind, func() *apiservercel.DeclType {
		t := ty.registry.Type(kind)
		if t == nil {
			return nil
		}
		return ty.runningType(t, kind.String(), map[*shape.Type]bool{})
	})
}

// declaredOnce returns the memoised type of a kind, or makes it.
func declaredOnce(known map[schema.GroupVersionKind]*celenv.DeclaredType, kind schema.GroupVersionKind,
	make func() *apiservercel.DeclType) *celenv.DeclaredType {
	declared, ok := known[kind]
	if !ok {
		if t := make(); t != nil {
			declared = celenv.Declare(t)
		}
		known[kind] = declared
	}
	return declared
}

func (ty *typer) runningType(t *shape.Type, name string, open map[*shape.Type]bool) *apiservercel.DeclType {
	switch t.Kind {
	case shape.Boolean:
		return apiservercel.BoolType
	case shape.Integer:
		return apiservercel.IntType
	case shape.String, shape.Bytes, shape.Time, shape.MicroTime, shape.Duration:
		return apiservercel.StringType
	case shape.Quantity:
		return apiservercel.StringType
	case shape.List:
		return apiservercel.NewListType(ty.runningType(t.Elem, name+"[]", open), -1)
	case shape.Map:
		return apiservercel.NewMapType(apiservercel.StringType, ty.runningType(t.Elem, name+"[]", open), -1)
	case shape.Struct:
		if len(t.Fields) == 0 || t.PreserveUnknown || t.Nullable || open[t] {
			return apiservercel.DynType
		}
		if done := ty.structs[t]; done != nil {
			return done
		}
		if t.Name != "" {
			name = t.Name
		}
		open[t] = true
		fields := map[string]*apiservercel.DeclField{}
		for i := range t.Fields {
			f := &t.Fields[i]
			fields[f.Name] = apiservercel.NewDeclField(f.Name, ty.runningType(f.Type, name+"."+f.Name, open), true, nil,
				nil)
		}
		if t.Embedded {
			for _, member := range []string{"apiVersion", "kind"} {
				fields[member] = apiservercel.NewDeclField(member, apiservercel.StringType, true, nil, nil)
			}
		}
		delete(open, t)
		declared := apiservercel.NewObjectType(name, fields)
		ty.structs[t], ty.named[name] = declared, declared
		return declared
	}
	return apiservercel.DynType
}

// variable returns the declared type of a variable with a checked type.
func (ty *typer) variable(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	if declared := ty.named[t.TypeName()]; declared != nil {
		return declared
	}
	switch parameters := t.Parameters(); {
	case t.Kind() == cel.ListKind && len(parameters) == 1:
		return apiservercel.NewListType(ty.variable(parameters[0]), -1)
	case t.Kind() == cel.MapKind && len(parameters) == 2 && parameters[0] == cel.StringType:
		return apiservercel.NewMapType(apiservercel.StringType, ty.variable(parameters[1]), -1)
	}
	switch t {
	case cel.BoolType:
		return apiservercel.BoolType
	case cel.IntType:
		return apiservercel.IntType
	case cel.StringType:
		return apiservercel.StringType
	case cel.DoubleType:
		return apiservercel.DoubleType
	}
	return apiservercel.DynType
}

// checkerType returns the type that the server's type checker gives a kind (as k8s.io/apiserver/pkg/cel/common
// SchemaDeclType v0.37.2 makes it of the kind's OpenAPI schema); nil if it has none.
func (ty *typer) checkerType(kind schema.GroupVersionKind) *celenv.DeclaredType {
	return declaredOnce(ty.server, kind, func() *apiservercel.DeclType {
		if t := ty.registry.Type(kind); t != nil {
			if declared := checkingType(t, map[*shape.Type]bool{}); declared != nil {
				return declared.MaybeAssignTypeName(kind.Kind)
			}
		}
		return nil
	})
}

// checkingType returns nil for types that the server leaves undeclared, because they do not have a single JSON type.
func checkingType(t *shape.Type, open map[*shape.Type]bool) *apiservercel.DeclType {
	switch t.Kind {
	case shape.Boolean:
		return apiservercel.BoolType
	case shape.Integer:
		return apiservercel.IntType
	case shape.Number:
		return apiservercel.DoubleType
	case shape.String, shape.Duration:
		switch t.Format {
		case "byte":
			return apiservercel.BytesType
		case "duration":
			return apiservercel.DurationType
		case "date", "date-time":
			return apiservercel.TimestampType
		}
		return apiservercel.StringType
	case shape.Bytes:
		return apiservercel.BytesType
	case shape.Time, shape.MicroTime:
		return apiservercel.TimestampType
	case shape.IntOrString:
		return apiservercel.DynType
	case shape.List:
		if elem := checkingType(t.Elem, open); elem != nil {
			return apiservercel.NewListType(elem, -1)
		}
	case shape.Map:
		if elem := checkingType(t.Elem, open); elem != nil {
			return apiservercel.NewMapType(apiservercel.StringType, elem, -1)
		}
	case shape.Struct:
		fields := map[string]*apiservercel.DeclField{}
		if !open[t] {
			open[t] = true
			for i := range t.Fields {
				name, ok := apiservercel.Escape(t.Fields[i].Name)
				if member := checkingType(t.Fields[i].Type, open); member != nil && ok {
					fields[name] = apiservercel.NewDeclField(name, member, true, nil, nil)
				}
			}
			delete(open, t)
		}
		return apiservercel.NewObjectType("object", fields)
	case shape.Any:
		if strings.HasSuffix(t.Name, ".RawExtension") {
			return apiservercel.NewObjectType("object", map[string]*apiservercel.DeclField{})
		}
	}
	return nil
}
