package lower

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// An unsayable is the error for a part of a mutation with a scope that does not have a native form.
type unsayable struct{ field, reason string }

func (e *unsayable) Error() string { return e.field + ": " + e.reason }

// A hop is one step of a path in the objects of a kind.
type hop struct {
	scope.Step
	in     *shape.Type // the type that the step leads out of
	atomic bool        // its value merges atomically
}

// hops returns the steps of a path in objects of a type, and the type of the values there; nil if the path does not
// exist.
func (m *mutation) hops(steps scope.Steps, t *shape.Type) ([]hop, *shape.Type, error) {
	unknown := func() error {
		return &unsayable{"scope", "a native policy needs the schema of the whole path, and parts of it are not declared"}
	}
	var all []hop
	for i, step := range steps {
		h := hop{Step: step, in: t}
		if t.Nullable && i > 0 {
			return nil, nil, &unsayable{"scope", "a value on the path may be null, which is an error in a native expression"}
		}
		switch {
		case t.Kind == shape.Struct && step.Member != "":
			f := t.Field(step.Member)
			switch {
			case f == nil && (t.PreserveUnknown || t.Embedded || len(t.Fields) == 0):
				return nil, nil, unknown()
			case f == nil:
				return nil, nil, nil
			}
			t, h.atomic = f.Type, f.Atomic || merges(f.Type)
		case t.Kind == shape.Map, t.Kind == shape.List && step.Member == "":
			t, h.atomic = t.Elem, merges(t.Elem)
		default:
			return nil, nil, unknown()
		}
		if step.Key != "" && t.Kind != shape.Struct {
			return nil, nil, unknown()
		}
		if step.With != "" {
			if i < len(steps)-1 || t.Kind != shape.Struct {
				return nil, nil, unknown()
			}
			if t.Field(step.With) == nil {
				return nil, nil, nil
			}
		}
		all = append(all, h)
	}
	return all, t, nil
}

// merges reports whether the values of a type are merged; scalars do not count.
func merges(t *shape.Type) bool {
	switch t.Kind {
	case shape.Struct, shape.Map, shape.List:
		return t.Merge == shape.Atomic
	case shape.Any, shape.Union:
		return true
	}
	return false
}

// A way leads from an object to the values of a scope, by macros and optional members.
type way struct {
	*mutation
	typ     *shape.Type       // of the values
	name    string            // of the type at the present position, such as Object.spec.containers
	pointer joined            // to the present position
	field   joined            // its path
	key     string            // the variable of the last key or index; empty: none
	names   map[string]string // variables for the keys and indices that the scope names
	guard   string            // a further condition of the values; empty: none
	used    map[string]bool   // names that variables of the way must not have
	unsets  bool              // the mutation removes values
	keys    []string          // of the values, if they are items of a keyed list

	unknownKind *shape.Type // of objects whose schema is not known beyond the metadata; nil otherwise
}

func (m *mutation) way(t *shape.Type) *way {
	w := &way{mutation: m, typ: t, name: "Object", names: map[string]string{}}
	w.used = identifiers(m.read(m.Expr), m.read(m.Condition))
	return w
}

// freshName returns a name that neither the expressions of the mutation nor the way use.
func (w *way) freshName(stem string) string {
	for n := 1; ; n++ {
		if name := fmt.Sprintf("%s%d", stem, n); !w.used[name] {
			w.used[name] = true
			return name
		}
	}
}

// variables returns the variables for the items of a list or map: at the last step those of the mutation.
func (w *way) variables(h hop, rest []hop) (key, item string) {
	key, item = locals.Key, locals.Item
	for _, later := range rest {
		if later.Member == "" {
			key = ""
		}
	}
	if key == "" {
		key = w.freshName("at")
	}
	if len(rest) > 0 {
		item = w.freshName("in")
	}
	if w.key = key; h.Name != "" {
		w.names[h.Name] = key
	}
	return key, item
}

// access returns a hop to a member as an expression with an optional value.
func access(h hop) string {
	if h.in.Kind == shape.Map || !locals.IsIdentifier(h.Member) {
		return "[?" + quote(h.Member) + "]"
	}
	return ".?" + h.Member
}

// selects returns the condition for an item that a hop leads to; empty for all.
func selects(h hop, item string) string {
	if h.Key == "" {
		return ""
	}
	return item + access(hop{Step: scope.Step{Member: h.Key}, in: &shape.Type{Kind: shape.Struct}}) + `.orValue("") == ` +
		quote(h.Value)
}

// conjoin joins conditions with &&.
func conjoin(conditions ...string) string {
	var all []string
	for _, c := range conditions {
		if c != "" {
			all = append(all, c)
		}
	}
	for i, c := range all {
		if e, err := parse(c); len(all) > 1 && err == nil && (function(e) == operators.Conditional ||
			function(e) == operators.LogicalOr) {
			all[i] = "(" + c + ")"
		}
	}
	return strings.Join(all, " && ")
}

// enter steps to a member, or to the items of a list or map with the variable of their key.
func (w *way) enter(h hop, key string) {
	if h.With != "" {
		w.guard = "has(" + locals.Item + "." + h.With + ")"
	}
	if h.Member != "" {
		w.name += "." + h.Member
		w.pointer = w.pointer.with(piece{text: "/" + tree.EscapeToken(h.Member)})
		switch dotted := strings.ContainsAny(h.Member, "./[]"); {
		case dotted:
			w.field = w.field.with(piece{text: "[" + h.Member + "]"})
		case len(w.field) > 0:
			w.field = w.field.with(piece{text: "." + h.Member})
		default:
			w.field = w.field.with(piece{text: h.Member})
		}
		return
	}
	shown := piece{expr: "string(" + key + ")"}
	if h.in.Kind == shape.Map {
		shown.expr = key
	}
	w.field = w.field.with(piece{text: "["}, shown, piece{text: "]"})
	if h.in.Kind == shape.Map {
		shown.expr = "jsonpatch.escapeKey(" + key + ")"
	}
	w.pointer = w.pointer.with(piece{text: "/"}, shown)
}

// resolve returns the syntax tree of an expression of the mutation, with the names of the scope replaced by those of
// the way.
func (w *way) resolve(x policy.Expr) ast.Expr {
	e := w.read(x)
	if e == nil {
		return nil
	}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.StructKind:
			s := e.AsStruct()
			if rest, ok := strings.CutPrefix(s.TypeName(), locals.ItemType); ok && (rest == "" || rest[0] == '.') {
				e.SetKindCase(nodes.NewStruct(e.ID(), w.name+rest, s.Fields()))
			}
		case ast.SelectKind:
			s := e.AsSelect()
			if s.Operand().Kind() != ast.IdentKind || s.Operand().AsIdent()+"." != locals.Path("") {
				return
			}
			by := w.names[s.FieldName()]
			if s.FieldName() == locals.Whole {
				by = w.field.String()
			}
			if made, wrong := parse(by); wrong == nil {
				e.SetKindCase(made)
			}
		case ast.IdentKind:
			if e.AsIdent() == locals.Key && w.key == "" {
				e.SetKindCase(nodes.NewLiteral(e.ID(), types.NullValue))
			}
		}
	}))
	return e
}

// condition returns the condition for a value, including the guard; empty: none.
func (w *way) condition() string {
	e := w.resolve(w.Condition)
	if e == nil {
		return w.guard
	}
	return conjoin(w.guard, text(e))
}
