package prepare

import (
	"slices"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// A pass decodes a tree into the Go type that a schema.Type describes, applies the defaults and encodes the result, in
// one walk and without the Go type. An unchanged result is the input itself, not a copy.
//
// It decodes like sigs.k8s.io/json (names are case-sensitive, null leaves the zero value) and encodes like
// encoding/json (omitempty drops zero scalars, null pointers and empty lists and maps, but never a struct).
//
// The result for a value depends only on the value and its type. So a pass does not change parts that a value shares
// with known, the value at its place in an object that a pass does not change (see [Normal]).
//
// A pass only detects errors. problems returns them in the server's words.
type pass struct {
	lenient bool     // decode as runtime.DefaultUnstructuredConverter does
	round   bool     // the kind's resource lists are rounded up to whole thousandths
	check   bool     // only detect errors: the result does not have defaults
	stored  bool     // the object went through etcd, where an empty list is missing, except in a map
	nested  int      // enclosing unions
	around  *members // of the enclosing object

	unknown bool // undeclared members were dropped
	failed  bool // a value does not fit its type

	truncated bool // an integer lost bits, which only a lenient pass allows
}

// value returns v as a value of type t is written; same: the result is v itself. A nil known means that nothing is
// known.
func (p *pass) value(t *shape.Type, v, known any) (out any, same bool) {
	switch t.Kind {
	case shape.Any:
		return v, true
	case shape.Boolean:
		if _, ok := v.(bool); ok {
			return v, true
		}
		p.failed = p.failed || v != nil
		return false, false
	case shape.String:
		if _, ok := v.(string); ok {
			return v, true
		}
		p.failed = p.failed || v != nil
		return "", false
	case shape.Integer:
		if v == nil {
			return int64(0), false
		}
		return p.integer(t.Bits, v)
	case shape.Number:
		if v == nil {
			return float64(0), false
		}
		return p.number(v)
	case shape.Bytes:
		if v == nil {
			return nil, true
		}
		return p.octets(v)
	case shape.Struct:
		in, ok := v.(map[string]any)
		p.failed = p.failed || !ok && v != nil
		was, _ := known.(map[string]any)
		return p.object(t, in, was)
	case shape.Map:
		return p.mapping(t, v, known)
	case shape.List:
		return p.list(t, v, known)
	case shape.Union:
		return p.decodeUnion(t, v)
	default:
		out, ok := p.convertSpecial(t.Kind, v)
		p.failed = p.failed || !ok
		return out, out == v
	}
}

// object decodes the members of a struct. A nil map is an absent struct.
func (p *pass) object(t *shape.Type, in, known map[string]any) (map[string]any, bool) {
	if in != nil && tree.IsSame(in, known) {
		return in, true
	}
	outer := p.around
	o := outer.membersOf(in)
	p.around, o.typ, o.known = o, t, known
	switch {
	case in == nil:
		o.m, o.owned = map[string]any{}, true
		p.everyMember(t, o, in)
	case known == nil:
		p.everyMember(t, o, in)
	default:
		p.otherMembers(t, o, in, known)
	}
	if complete := rules[t.Name]; complete != nil && !p.check {
		complete(o, in)
	}
	p.around = outer
	return o.m, !outer.close(o)
}

func (p *pass) everyMember(t *shape.Type, o *members, in map[string]any) {
	for name, v := range in {
		if f := t.Field(name); f != nil {
			p.member(f, o, v, true, nil)
			continue
		}
		p.unknown = true
		o.drop(name)
	}
	for _, f := range t.ImpliedFields() {
		if _, given := in[f.Name]; !given {
			p.member(f, o, nil, false, nil)
		}
	}
}

// otherMembers decodes the members that differ from known. A member missing in both stays missing.
func (p *pass) otherMembers(t *shape.Type, o *members, in, known map[string]any) {
	both := 0
	for name, v := range in {
		was, had := known[name]
		if had {
			both++
			if tree.IsShared(v, was) {
				continue
			}
		}
		f := t.Field(name)
		if f == nil {
			p.unknown = true
			o.drop(name)
			continue
		}
		p.member(f, o, v, true, was)
	}
	if both == len(known) {
		return
	}
	for name := range known {
		if _, given := in[name]; !given {
			if f := t.Field(name); f != nil {
				p.member(f, o, nil, false, nil)
			}
		}
	}
}

// member decodes one member of o.
func (p *pass) member(f *shape.Field, o *members, old any, given bool, known any) {
	v, keep, same := p.field(f, old, known)
	switch {
	case !keep:
		if given {
			o.drop(f.Name)
		}
	case !given || !same:
		o.set(f.Name, v)
	}
}

// field returns the result for one member; keep is false if it is not written.
func (p *pass) field(f *shape.Field, v, known any) (out any, keep, same bool) {
	if v == nil {
		switch f.Type.Kind {
		case shape.Struct, shape.Any, shape.Quantity, shape.Time, shape.MicroTime, shape.Duration,
			shape.IntOrString:
			if !f.Pointer {
				break // a struct in Go: always written, whatever omitempty says
			}
			fallthrough
		default:
			if f.Default != nil {
				if out, ok := defaultOf(f); ok {
					return out, true, false
				}
			}
			if f.OmitEmpty {
				return nil, false, false
			}
			if f.Pointer {
				return nil, true, true
			}
		}
	}
	out, same = p.value(f.Type, v, known)
	if f.Pointer {
		return out, true, same
	}
	if f.OmitZero && out == nil {
		return nil, false, false
	}
	if f.Default == nil && !f.OmitEmpty {
		return out, true, same
	}
	if !isEmpty(f.Type.Kind, out) {
		return out, true, same
	}
	if f.Default != nil {
		if out, ok := defaultOf(f); ok {
			return out, true, false
		}
	}
	return out, !f.OmitEmpty, same
}

// defaultOf returns the default that the field declares. A zero default counts for pointers only: the published schemas
// declare it for structs and scalars as well, and Go has it anyway.
func defaultOf(f *shape.Field) (any, bool) {
	switch d := f.Default.(type) {
	case map[string]any:
		return d, len(d) > 0
	case string:
		return d, f.Pointer || d != ""
	case int64:
		return d, f.Pointer || d != 0
	case float64:
		return d, f.Pointer || d != 0
	case bool:
		return d, f.Pointer || d
	case []any:
		return d, len(d) > 0
	}
	return nil, false
}

// isEmpty reports whether omitempty drops v.
func isEmpty(kind shape.Kind, v any) bool {
	switch kind {
	case shape.Boolean:
		return v == false
	case shape.Integer:
		return v == int64(0)
	case shape.Number:
		return v == float64(0)
	case shape.String:
		return v == ""
	case shape.Bytes:
		return v == nil || v == ""
	case shape.Map, shape.List:
		return size(v) == 0
	}
	return false
}

func (p *pass) mapping(t *shape.Type, v, known any) (any, bool) {
	in, ok := v.(map[string]any)
	if !ok || in == nil {
		p.failed = p.failed || !ok && v != nil
		return nil, v == nil
	}
	o := members{m: in}
	was, _ := known.(map[string]any)
	for name, old := range in {
		before, had := was[name]
		if had && tree.IsShared(old, before) {
			continue
		}
		new, same := p.value(elem(t), old, before)
		switch {
		case p.round && elem(t).Kind == shape.Quantity:
			new, same = roundUp(new, old)
		case p.stored && elem(t).Kind == shape.List && new == nil:
			new, same = []any{}, false
		}
		if !same {
			o.set(name, new)
		}
	}
	return o.m, !o.owned
}

func (p *pass) list(t *shape.Type, v, known any) (any, bool) {
	in, ok := v.([]any)
	if !ok || in == nil {
		p.failed = p.failed || !ok && v != nil
		return nil, v == nil
	}
	if p.stored && len(in) == 0 {
		return nil, false
	}
	was, _ := known.([]any)
	out, same := in, true
	for i, old := range in {
		before, had := counterpart(was, in, i)
		if had && tree.IsShared(old, before) {
			continue
		}
		new, unchanged := p.value(elem(t), old, before)
		if unchanged {
			continue
		}
		if same {
			out, same = slices.Clone(in), false
		}
		out[i] = new
	}
	if same {
		return v, true
	}
	return out, false
}

var anything = &shape.Type{}

func elem(t *shape.Type) *shape.Type {
	if t.Elem == nil {
		return anything
	}
	return t.Elem
}

// decodeUnion decodes a value of one of several types, distinguished by their JSON form, as the types
// JSONSchemaPropsOr… of apiextensions v1 do in marshal.go: an empty list becomes null, and so does a value of another
// form, unless one alternative is a boolean.
func (p *pass) decodeUnion(t *shape.Type, v any) (any, bool) {
	for _, alternative := range t.OneOf {
		fits := false
		switch v := v.(type) {
		case map[string]any:
			fits = alternative.Kind == shape.Struct
		case []any:
			fits = alternative.Kind == shape.List && len(v) > 0
		case bool:
			fits = alternative.Kind == shape.Boolean
		}
		if fits {
			p.nested++
			out, same := p.value(alternative, v, nil)
			p.nested--
			return out, same
		}
		if alternative.Kind == shape.Boolean {
			p.failed = true
		}
	}
	return nil, v == nil
}
