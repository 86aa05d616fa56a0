package lower

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// configurations returns the ApplyConfigurations, one for each path, that have the effect of a mutation with a scope on
// objects of some kinds. They name each item on the path by its keys.
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
		return nil, &unsayable{"scope", "with failurePolicy Ignore kube-apiserver keeps the changes at the paths before " +
			"one that fails"}
	}
	for name := range identifiers(m.read(m.Expr), m.read(m.Condition)) {
		if name == "object" || name == "variables" {
			return nil, &unsayable{"scope", "it has several paths, and at each of them " + name +
				" would have the changes at the paths before"}
		}
	}
	return all, nil
}

// configuration returns the literal for the value that hops lead to: of an item of a list with its keys.
func (w *way) configuration(hops []hop, from string, inMember bool) (string, error) {
	if len(hops) == 0 {
		return w.mergeLiteral(from, inMember)
	}
	h, rest := hops[0], hops[1:]
	if h.Member != "" {
		if h.in.Kind != shape.Struct {
			return "", w.unknownError("is below a map, in which kube-apiserver does not convert literals")
		}
		name, typeName := locals.Item, w.name
		if len(rest) > 0 {
			name = w.freshName("in")
		}
		w.enter(h, "")
		inner, err := w.configuration(rest, name, true)
		if err != nil {
			return "", err
		}
		return typeName + "{?" + h.Member + ": " + from + access(h) + ".optMap(" + name + ", " + inner + ")}", nil
	}
	if h.in.Kind != shape.List || h.in.Merge != shape.Keyed || !w.isUnique(h.in) {
		return "", w.unknownError("is in a list whose items do not have unique keys")
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

// isUnique reports whether the items of the keyed lists at the end of the way have distinct keys: the API server
// guarantees that for lists of CustomResourceDefinitions and Pods.
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

// withKeys adds the keys of an item as first members to each literal on a side of the expression src.
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

// mergeLiteral returns the literal for one value of the scope.
func (w *way) mergeLiteral(value string, inMember bool) (string, error) {
	if w.typ.Kind != shape.Struct {
		return "", w.unknownError("is not for values of this type")
	}
	nothing := w.name + "{}"
	src, err := branches(w.resolve(w.Expr), nothing, func(e ast.Expr) (string, error) {
		if e.Kind() != ast.StructKind {
			return "", w.unknownError("is not written as an Item{…}")
		}
		return text(e), w.mergeable(e, w.typ)
	})
	if condition := w.condition(); err == nil && inMember && condition != "" {
		src = group(condition) + " ? " + group(src) + " : " + nothing
	}
	return src, err
}

// appliesNatively refuses an ApplyConfiguration of the whole object that kube-apiserver would merge differently: it
// never writes a value that merges atomically, even if the object lacks it or has the same one.
func (m *mutation) appliesNatively() {
	e := m.read(m.Expr)
	if e == nil {
		return
	}
	kinds := typed.KindsOf(m.types, m.policy.MatchConstraints)
	if m.matchesUnknown() {
		kinds = append(kinds, typed.Kind{})
	}
	for _, kind := range kinds {
		var unknown *shape.Type
		if kind.Type == nil {
			unknown = m.metadataOnly()
			kind.Type = unknown
		}
		w := m.way(kind.Type)
		w.unknownKind = unknown
		_, err := branches(e, "", func(e ast.Expr) (string, error) { return "", w.mergeable(e, kind.Type) })
		why := &unsayable{}
		if errors.As(err, &why) { // errors of verdicts are reported elsewhere
			m.refuse(why.field, "%s", why.reason)
			return
		}
	}
}

// metadataOnly returns the type of objects of kinds whose schemas are not known.
func (m *mutation) metadataOnly() *shape.Type {
	of := &shape.Type{Kind: shape.Struct}
	if known := m.types.Type(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}); known != nil {
		of.Fields = []shape.Field{*known.Field("metadata")}
	}
	return of
}

// mergeable returns an error for the part of a literal that kube-apiserver would merge differently.
func (w *way) mergeable(e ast.Expr, t *shape.Type) error {
	all := func(parts ...ast.Expr) error {
		for _, part := range parts {
			if err := w.mergeable(part, t); err != nil {
				return err
			}
		}
		return nil
	}
	switch name := function(e); {
	case name == "optional.none" && w.Scope.IsZero(): // as a branch
	case strings.HasPrefix(name, "objects."), name == "optional.none":
		return w.unknownError("has %s", name)
	case name == operators.Conditional:
		return all(e.AsCall().Args()[1:]...)
	case name == operators.Add && t.Kind == shape.List:
		return all(e.AsCall().Args()...)
	case name == "optional.of":
		return all(e.AsCall().Args()...)
	case name == "orValue", name == "filter":
		if err := all(e.AsCall().Target()); err != nil || name == "filter" {
			return err
		}
		return all(e.AsCall().Args()...)
	case name == "optMap" && len(e.AsCall().Args()) == 2:
		return all(e.AsCall().Args()[1])
	case (name == "map" || name == "transformList") && t.Kind == shape.List && len(e.AsCall().Args()) > 1:
		return w.mergeable(e.AsCall().Args()[len(e.AsCall().Args())-1], t.Elem)
	case w.variable(e) != nil:
		return all(w.variable(e))
	case e.Kind() == ast.ListKind && t.Kind == shape.List:
		for _, item := range e.AsList().Elements() {
			if err := w.mergeable(item, t.Elem); err != nil {
				return err
			}
		}
		return nil
	case e.Kind() == ast.MapKind && t.Kind == shape.Map && !merges(t):
		for _, entry := range e.AsMap().Entries() {
			if err := w.mergeable(entry.AsMapEntry().Value(), t.Elem); err != nil {
				return err
			}
		}
		return nil
	case e.Kind() == ast.StructKind && t.Kind == shape.Struct:
		for _, f := range e.AsStruct().Fields() {
			member := f.AsStructField()
			declared := t.Field(member.Name())
			switch {
			case w.Scope.IsZero() && function(member.Value()) == "optional.none":
				continue // the same for both, unless it has a question mark, which is checked elsewhere
			case declared == nil && t == w.unknownKind:
				return w.unknownError("has %s, and whether it merges as one value is not known for all matched kinds: add their "+
					"CustomResourceDefinitions", member.Name())
			case declared == nil && w.Scope.IsZero():
				continue // an error for both
			}
			if declared == nil || declared.Atomic || merges(declared.Type) {
				return w.unknownError("has %s, which merges as one value: kube-apiserver never writes such a value", member.Name())
			}
			if t == w.typ && slices.Contains(w.keys, member.Name()) {
				return w.unknownError("has the key %s of the item", member.Name())
			}
			if err := w.mergeable(member.Value(), declared.Type); err != nil {
				return err
			}
		}
		return nil
	}
	if holdsAtomic(t, map[*shape.Type]bool{}) {
		return w.unknownError("has %s, which may contain a part that merges as one value", text(e))
	}
	return nil
}

// variable returns the expression of the policy's variable that an expression names; nil for other expressions.
func (w *way) variable(e ast.Expr) ast.Expr {
	if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() || e.AsSelect().Operand().Kind() != ast.IdentKind ||
		e.AsSelect().Operand().AsIdent() != "variables" {
		return nil
	}
	for _, v := range w.policy.Variables {
		if v.Name == e.AsSelect().FieldName() {
			if made, err := parse(v.Expr.Code()); err == nil {
				return made
			}
		}
	}
	return nil
}

// holdsAtomic reports whether values of a type may contain a part that merges atomically.
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
