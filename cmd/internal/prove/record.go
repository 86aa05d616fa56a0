package prove

import (
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/storable"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// A record is a struct or a map that mutations have changed: another one with some members replaced.
type record struct {
	m       *machine
	id      int
	origin  string // the mutation that made it
	path    string
	typ     *shape.Type
	builtin bool
	bases   []alternative // what it was before, which exclude each other
	had     solve.Formula // one of them is there; otherwise mutations made the value
	parts   map[string]*held
	changed []string // the members that mutations wrote
	written []string // those of the current mutation
	patched bool     // by a JSON patch of the current mutation
}

// held is a member of a record.
type held struct {
	present solve.Formula
	value   *value // nil if it is never present
}

var absent = &held{present: solve.False}

func (m *machine) newRecord(origin, path string, t *shape.Type, builtin bool,
	bases ...alternative) *record {
	m.records++
	r := &record{m: m, id: m.records, origin: origin, path: path, typ: t, builtin: builtin, bases: bases,
		had: solve.False, parts: map[string]*held{}}
	for _, b := range bases {
		r.had = m.store.Disjoin(r.had, b.when)
	}
	return r
}

func (r *record) isMap() bool { return r.typ.Kind == shape.Map }

// memberBefore returns a member as it was before all changes of the record; absent if the base is.
func (r *record) memberBefore(name string) *held {
	out := absent
	for _, b := range r.bases {
		h := r.m.partOf(b.leaf, name)
		out = r.m.pick(b.when, &held{r.m.store.Conjoin(b.when, h.present), h.value}, out)
	}
	return out
}

// partOf returns a member of a struct or a map.
func (m *machine) partOf(l leaf, name string) *held {
	present, v, ok := m.part(l, name)
	if !ok {
		return m.unknownPart(keyOf("part ."+name, newLeaf(l)), nil, "."+name)
	}
	return &held{present, v}
}

// member returns a member.
func (r *record) member(name string) *held {
	if h := r.parts[name]; h != nil {
		return h
	}
	h := r.memberBefore(name)
	if r.had != solve.True {
		h = r.m.pick(r.had, h, r.defaultOf(name))
	}
	r.parts[name] = h
	return h
}

// write replaces a member.
func (r *record) write(name string, h *held) {
	r.parts[name] = h
	if !slices.Contains(r.changed, name) {
		r.changed = append(r.changed, name)
	}
	if !slices.Contains(r.written, name) {
		r.written = append(r.written, name)
	}
}

// pick returns one part if a condition is true, and another one otherwise.
func (m *machine) pick(c solve.Formula, a, b *held) *held {
	switch {
	case c == solve.True || a == b:
		return a
	case c == solve.False:
		return b
	}
	out := &held{present: m.store.If(c, a.present, b.present), value: a.value}
	switch {
	case a.value == nil || a.present == solve.False:
		out.value = b.value
	case b.value != nil && b.present != solve.False:
		out.value = m.choose(c, a.value, b.value)
	}
	return out
}

// defaultOf returns a member of a value that a mutation made and that it did not write: the server may set it.
func (r *record) defaultOf(name string) *held {
	f := r.typ.Field(name)
	if r.isMap() || f == nil {
		return absent
	}
	unknown := func() *held {
		key := "fresh " + strconv.Quote(r.origin) + r.path + "." + name
		return r.m.unknownPart(key, f.Type, "the default of "+name+" in a new "+lastOf(r.path))
	}
	if !r.builtin {
		if f.Default != nil {
			return unknown()
		}
		return absent
	}
	filled, known := storable.FilledBy(r.typ.Name)
	if f.Default != nil || slices.Contains(filled, name) || !known && prepare.HasDefaults(r.typ.Name) {
		return unknown()
	}
	if f.OmitZero || f.OmitEmpty && (f.Pointer || f.Type.Kind != shape.Struct) {
		return absent
	}
	if f.Type.Kind == shape.Struct && !f.Pointer {
		made := r.m.newRecord(r.origin, r.path+"."+name, f.Type, true)
		return &held{solve.True, newLeaf(made)}
	}
	h := *unknown()
	h.present = solve.True
	return &h
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// unknownPart returns a member that may be absent or have any value, but always the same one for the same key.
func (m *machine) unknownPart(key string, t *shape.Type, what string) *held {
	o := m.opaques[key]
	if o == nil {
		o = m.newOpaque(key, what)
		o.err, o.isPart, o.there = solve.False, true, m.store.NewBool()
		var known *types.Type
		if t != nil {
			known = map[shape.Kind]*types.Type{shape.Boolean: types.BoolType, shape.String: types.StringType,
				shape.Integer: types.IntType}[t.Kind]
		}
		if t != nil && t.Nullable {
			known = nil
		}
		o.val = m.typedValue(o, known)
	}
	return &held{o.there, o.val}
}

// names lists the members that mutations wrote, in the record and its bases.
func (r *record) names() []string {
	names := slices.Clone(r.changed)
	for _, b := range r.bases {
		if inner, ok := b.leaf.(*record); ok {
			for _, name := range inner.names() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// rootsOf returns the nodes below all changes.
func rootsOf(l leaf) (all []*node) {
	switch at := l.(type) {
	case *node:
		return []*node{at}
	case *record:
		for _, b := range at.bases {
			for _, n := range rootsOf(b.leaf) {
				all = addNode(all, n)
			}
		}
	}
	return all
}

// An entry is an entry of a map.
type entry struct {
	present solve.Formula
	key     textLeaf
	value   *value
}

// entriesOf lists the entries of a map.
func (m *machine) entriesOf(l leaf) (all []entry) {
	switch l := l.(type) {
	case *node:
		for _, e := range l.entries() {
			all = append(all, entry{e.present, e.key, e.value()})
		}
	case *record:
		var names []string
		for _, b := range l.bases {
			for _, name := range l.changed {
				m.partOf(b.leaf, name) // so that the base has an entry for it
			}
			for _, e := range m.entriesOf(b.leaf) {
				switch {
				case !e.key.isConst():
					all = append(all, entry{m.store.Conjoin(b.when, e.present), e.key, e.value})
				case !slices.Contains(names, e.key.before):
					names = append(names, e.key.before)
					h := l.member(e.key.before)
					all = append(all, entry{h.present, e.key, h.value})
				}
			}
		}
		for _, name := range l.changed {
			if !slices.Contains(names, name) {
				h := l.parts[name]
				all = append(all, entry{h.present, textOf(name), h.value})
			}
		}
	}
	return slices.DeleteFunc(all, func(e entry) bool { return e.value == nil })
}

// isMapLeaf reports whether a leaf is a map of an object.
func isMapLeaf(l leaf) bool {
	switch l := l.(type) {
	case *node:
		return l.typ.Kind == shape.Map
	case *record:
		return l.isMap()
	}
	return false
}

// A draft is an object of a mutation, such as Object.spec{…}, a JSONPatch, or a map with optional entries. It is for
// results: other uses are not decided.
type draft struct {
	name   string // of the type; empty: a map
	fields []draftField
}

type draftField struct {
	name    string
	present solve.Formula
	value   *value
}

func (d *draft) field(name string) *draftField {
	for i := range d.fields {
		if d.fields[i].name == name {
			return &d.fields[i]
		}
	}
	return nil
}

// structLiteral evaluates an object of a mutation.
func (f *frame) structLiteral(e ast.StructExpr, in *scope) *value {
	out := &draft{name: e.TypeName()}
	failing := solve.False
	for _, x := range e.Fields() {
		field := x.AsStructField()
		v := f.evaluate(field.Value(), in)
		h, err, ok := f.optionalPart(v, field.IsOptional())
		if !ok {
			return f.opaqueCall(e.TypeName(), v)
		}
		failing = f.store.Disjoin(failing, err)
		out.fields = append(out.fields, draftField{field.Name(), h.present, h.value})
	}
	g := f.newMerger()
	g.add(failing, failure())
	g.addLeaf(failing.Negate(), out)
	return g.value()
}

// optionalPart returns the member of a literal with a value, which may be optional; not ok: it is unknown.
func (f *frame) optionalPart(v *value, optional bool) (h held, err solve.Formula, ok bool) {
	if !optional {
		return held{solve.True, v}, v.err, true
	}
	g := f.newMerger()
	h.present = solve.False
	for _, a := range v.parts() {
		switch l := a.leaf.(type) {
		case someLeaf:
			h.present = f.store.Disjoin(h.present, a.when)
			g.add(a.when, l.value)
		case noneLeaf:
		default:
			return h, 0, false
		}
	}
	h.value = g.value()
	return h, v.err, true
}
