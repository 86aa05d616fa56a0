package lower

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
)

// configurations are the ApplyConfigurations, one for each path, that do what a mutation with a scope does to objects
// of some kinds. They name each item on the way by its keys.
func (m *mutation) configurations(kinds []typed.Kind) ([]patch, error) {
	var all []patch
	for i := range m.ParsedScope().Paths {
		src, err := m.lowerKinds(i, kinds, func(w *way, hops []hop) (string, error) {
			return w.configuration(hops, "object", true)
		})
		if err != nil {
			return nil, err
		}
		if src != "" {
			all = append(all, patch{policy.ApplyConfiguration, src})
		}
	}
	if len(all) < 2 {
		return all, nil
	}
	if m.policy.FailurePolicy == policy.Ignore {
		return nil, &unsayable{"scope", "with failurePolicy Ignore kube-apiserver keeps what was changed at the paths before " +
			"one that fails"}
	}
	for name := range identifiers(m.read(m.Expr), m.read(m.Condition)) {
		if name == "object" || name == "variables" {
			return nil, &unsayable{"scope", "it has several paths, at each of which " + name +
				" would be as the one before left it"}
		}
	}
	return all, nil
}

// configuration is the literal of what hops lead through from a value: of the item of a list with its keys.
func (w *way) configuration(hops []hop, from string, inMember bool) (string, error) {
	if len(hops) == 0 {
		return w.mergeLiteral(from, inMember)
	}
	h, rest := hops[0], hops[1:]
	if h.Member != "" {
		if h.in.Kind != shape.Struct {
			return "", w.unknown("is below a map, in which kube-apiserver does not convert literals")
		}
		name, typeName := locals.Item, w.name
		if len(rest) > 0 {
			name = w.fresh("in")
		}
		w.enter(h, "")
		inner, err := w.configuration(rest, name, true)
		if err != nil {
			return "", err
		}
		return typeName + "{?" + h.Member + ": " + from + access(h) + ".optMap(" + name + ", " + inner + ")}", nil
	}
	if h.in.Kind != shape.List || h.in.Merge != shape.Keyed || !w.isUnique(h.in) {
		return "", w.unknown("is in a list whose items have no keys, or not each keys of its own")
	}
	key, item := w.variables(h, rest)
	w.enter(h, key)
	if len(rest) == 0 {
		w.keys = h.in.Keys
	}
	args := []string{key, item}
	filter := selects(h, item)
	var inner string
	var err error
	if len(rest) == 0 {
		filter = conjoin(filter, w.condition())
	}
	if inner, err = w.configuration(rest, item, false); err != nil {
		return "", err
	}
	if filter != "" {
		args = append(args, filter)
	}
	if inner, err = withKeys(inner, h.in.Keys, item); err != nil {
		return "", err
	}
	return from + ".transformList(" + strings.Join(append(args, inner), ", ") + ")", nil
}

// isUnique reports that no two items of the lists with keys at the end of the way have the same: the API server refuses
// those of definitions, and these of Pods.
func (w *way) isUnique(t *shape.Type) bool {
	if t.Elem.Name == "" {
		return true
	}
	switch w.name[strings.LastIndexByte(w.name, '.')+1:] {
	case "containers", "initContainers", "ephemeralContainers", "volumes":
		return strings.HasPrefix(t.Elem.Name, "k8s.io/api/core/v1.")
	}
	return false
}

// withKeys puts the keys of an item in front of the members of each literal that a text comes to.
func withKeys(src string, keys []string, item string) (string, error) {
	e, err := parse(src)
	if err != nil {
		return "", err
	}
	visitSides(e, func(e ast.Expr) {
		s := e.AsStruct()
		var fields []ast.EntryExpr
		for _, key := range keys {
			value := nodes.NewSelect(0, nodes.NewIdent(0, item), key)
			fields = append(fields, nodes.NewStructField(0, key, value, false))
		}
		e.SetKindCase(nodes.NewStruct(0, s.TypeName(), append(fields, s.Fields()...)))
	})
	return text(e), nil
}

// mergeLiteral is the literal for one value of the scope.
func (w *way) mergeLiteral(value string, inMember bool) (string, error) {
	if w.typ.Kind != shape.Struct {
		return "", w.unknown("is not for values of this type")
	}
	nothing := w.name + "{}"
	src, err := branches(w.resolve(w.Expr), nothing, func(e ast.Expr) (string, error) {
		if e.Kind() != ast.StructKind {
			return "", w.unknown("is not written as an Item{…}")
		}
		return text(e), w.mergeable(e, w.typ)
	})
	if condition := w.condition(); err == nil && inMember && condition != "" {
		src = group(condition) + " ? " + group(src) + " : " + nothing
	}
	return src, err
}

// mergeable says what of a literal kube-apiserver would not merge as it is meant.
func (w *way) mergeable(e ast.Expr, t *shape.Type) error {
	switch {
	case strings.HasPrefix(function(e), "objects."), function(e) == "optional.none":
		return w.unknown("has %s", function(e))
	case function(e) == operators.Conditional:
		for _, side := range e.AsCall().Args()[1:] {
			if err := w.mergeable(side, t); err != nil {
				return err
			}
		}
		return nil
	case function(e) == "map" && t.Kind == shape.List && len(e.AsCall().Args()) > 1:
		return w.mergeable(e.AsCall().Args()[len(e.AsCall().Args())-1], t.Elem)
	case e.Kind() == ast.ListKind && t.Kind == shape.List:
		for _, item := range e.AsList().Elements() {
			if err := w.mergeable(item, t.Elem); err != nil {
				return err
			}
		}
		return nil
	case e.Kind() == ast.StructKind && t.Kind == shape.Struct:
		for _, f := range e.AsStruct().Fields() {
			member := f.AsStructField()
			declared := t.Field(member.Name())
			if declared == nil || declared.Atomic || merges(declared.Type) {
				return w.unknown("has %s, which merges as one value: kube-apiserver writes none of these", member.Name())
			}
			if t == w.typ && slices.Contains(w.keys, member.Name()) {
				return w.unknown("has the key %s of the item", member.Name())
			}
			if err := w.mergeable(member.Value(), declared.Type); err != nil {
				return err
			}
		}
		return nil
	}
	if holdsAtomic(t, map[*shape.Type]bool{}) {
		return w.unknown("has %s, in which there may be what merges as one value", text(e))
	}
	return nil
}

// holdsAtomic reports a type in whose values there may be what merges as one value.
func holdsAtomic(t *shape.Type, seen map[*shape.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	if merges(t) {
		return true
	}
	for i := range t.Fields {
		if t.Fields[i].Atomic || holdsAtomic(t.Fields[i].Type, seen) {
			return true
		}
	}
	return holdsAtomic(t.Elem, seen)
}
