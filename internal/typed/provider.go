package typed

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/shape"
)

// The names of the types of roots. Types below have the names of the fields added, as in Object.spec.containers: lists
// and maps do not add a name.
const (
	objectName = "Object"
	paramsName = "$params"
)

// names maps paths of a kind to types. Types are found on demand, because recursive types have infinitely many paths.
// It is safe for concurrent use.
type names struct {
	root  *shape.Type
	known sync.Map // name → *schema.Type, nil for an unknown path
}

// find returns the type that a path names: a struct, or a map or list whose items are not structs. It is nil for an
// undescribed type.
func (n *names) find(path string) *shape.Type {
	if known, ok := n.known.Load(path); ok {
		return known.(*shape.Type)
	}
	found := n.root
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		found = namedMember(n.find(path[:i]), path[i+1:])
	}
	n.known.Store(path, found)
	return found
}

// namedMember returns the type that the name of a member adds.
func namedMember(t *shape.Type, name string) *shape.Type {
	if t == nil {
		return nil
	}
	switch t.Kind {
	case shape.Struct:
		f := t.Field(name)
		if f == nil {
			return nil
		}
		return namedType(f.Type)
	case shape.Map:
		return namedType(t.Elem)
	}
	return nil
}

// namedType returns the type that the name of a position of type t stands for: the type of its items, if those have
// members.
func namedType(t *shape.Type) *shape.Type {
	for u := t; ; u = u.Elem {
		switch u.Kind {
		case shape.Struct:
			return u
		case shape.List, shape.Map:
		default:
			return t
		}
	}
}

// celType returns the CEL type of the values at a position. It is dyn if there are several.
func celType(t *shape.Type, name string) *cel.Type {
	if t.Nullable {
		return cel.DynType
	}
	switch t.Kind {
	case shape.Boolean:
		return cel.BoolType
	case shape.Integer:
		return cel.IntType
	case shape.String, shape.Bytes, shape.Time, shape.MicroTime, shape.Duration, shape.Quantity:
		return cel.StringType
	case shape.List:
		return cel.ListType(celType(t.Elem, name))
	case shape.Map:
		return cel.MapType(cel.StringType, celType(t.Elem, name))
	case shape.Struct:
		if len(t.Fields) > 0 && !t.PreserveUnknown {
			return structType(name)
		}
	}
	return cel.DynType
}

// structType returns the type of the values with members at a path. The type is nullable, as all such types: then
// cel-go asks a provider for wrapper(name) about the members of literals, and for name about the members of other
// values (checker/checker.go v0.29.2, checkCreateStruct and checkSelectField).
func structType(name string) *cel.Type { return types.NewNullableType(types.NewObjectType(name)) }

func literalOf(name string) (string, bool) {
	if inner, ok := strings.CutPrefix(name, "wrapper("); ok {
		return strings.CutSuffix(inner, ")")
	}
	return "", false
}

// A provider gives cel-go the types of one kind, of its params and of variables. It accepts all literals, because
// literals.go judges them.
type provider struct {
	types.Provider // for all other types

	object, params, items *names
	variables             map[string]*cel.Type
}

func (p *provider) namesOf(name string) *names {
	root, _, _ := strings.Cut(name, ".")
	switch root {
	case objectName:
		return p.object
	case paramsName:
		return p.params
	case locals.ItemType:
		return p.items
	}
	return nil
}

// FindStructType finds every name below a root, whether or not such a field exists.
func (p *provider) FindStructType(name string) (*cel.Type, bool) {
	inner, literal := literalOf(name)
	if !literal {
		inner = name
	}
	if p.namesOf(inner) != nil {
		return types.NewTypeTypeWithParam(structType(inner)), true
	}
	if name == celenv.VariablesType {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType finds the declared members of a type, and any member of a literal.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if inner, ok := literalOf(name); ok && p.namesOf(inner) != nil {
		return &types.FieldType{Type: cel.DynType}, true
	}
	if n := p.namesOf(name); n != nil {
		t := memberType(n.find(name), field, name)
		return &types.FieldType{Type: t}, t != nil
	}
	if name == celenv.VariablesType {
		t := p.variables[field]
		return &types.FieldType{Type: t}, t != nil
	}
	return p.Provider.FindStructFieldType(name, field)
}

// memberType returns the type of a member of the values whose type has a given name; nil if the member is unknown.
func memberType(t *shape.Type, field, name string) *cel.Type {
	switch {
	case t == nil:
		return cel.DynType
	case t.Kind == shape.Map:
		return celType(t.Elem, name+"."+field)
	case t.Kind == shape.Struct:
		switch f := t.Field(field); {
		case f != nil:
			return celType(f.Type, name+"."+field)
		case t.Embedded && (field == "apiVersion" || field == "kind"):
			return cel.StringType
		case len(t.Fields) == 0 || t.PreserveUnknown:
			return cel.DynType
		}
	}
	return nil
}
