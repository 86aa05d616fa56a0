package prove

import (
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/storable"
	"github.com/celgate/celgate/internal/tree"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A patcher applies one mutation to an object under a condition. The parts of the object that the mutation does not
// reach stay the same values, so that proofs about them need no reasoning.
type patcher struct {
	*frame
	builtin bool
	origin  string        // names the mutation
	ignores bool          // a failure leaves the object unchanged
	failing solve.Formula // the mutation fails; callers ignore the result
	touched []*record     // in which the mutation wrote, inner ones first
}

// fail records that the mutation fails.
func (p *patcher) fail(when solve.Formula) { p.failing = p.store.Disjoin(p.failing, when) }

// undecide returns a part of which nothing is known if a condition is true.
func (p *patcher) undecide(when solve.Formula, was *held, t *shape.Type, what string) *held {
	if when == solve.False {
		return was
	}
	p.doubts = append(p.doubts, when)
	return p.pick(when, p.unknownPart(doubtKey(len(p.doubts)-1), t, what), was)
}

func doubtKey(index int) string { return "doubt " + strconv.Itoa(index) }

// doubtsFrom returns a condition that may have any value if one of the doubts since a number of them holds: an
// undecided part of a mutation may also make it fail.
func (m *machine) doubtsFrom(since int) solve.Formula {
	out := solve.False
	for i := since; i < len(m.doubts); i++ {
		out = m.store.Disjoin(out, m.store.Conjoin(m.doubts[i], m.opaques[doubtKey(i)].there))
	}
	return out
}

// open returns a record of a part, to be changed under a condition; nil: the part is not a struct or a map.
func (p *patcher) open(path string, t *shape.Type, was *held) *record {
	var bases []alternative
	if was.value != nil && was.present != solve.False {
		for _, a := range was.value.parts() {
			switch l := a.leaf.(type) {
			case nullLeaf:
			case *node:
				path = l.path
				bases = append(bases, alternative{p.store.Conjoin(was.present, a.when), l})
			case *record:
				path = l.path
				bases = append(bases, alternative{p.store.Conjoin(was.present, a.when), l})
			case opaqueLeaf:
				bases = append(bases, alternative{p.store.Conjoin(was.present, a.when), l})
			default:
				return nil
			}
		}
	}
	return p.newRecord(p.origin, path, t, p.builtin, bases...)
}

// close returns the part with a changed record under a condition, and as it was otherwise.
func (p *patcher) close(when solve.Formula, was *held, r *record) *held {
	p.touched = append(p.touched, r)
	out := &held{present: p.store.Disjoin(was.present, when)}
	isNull := solve.False
	if was.value != nil {
		for _, a := range was.value.alts {
			if a.leaf == (nullLeaf{}) {
				isNull = p.store.Conjoin(a.when, when.Negate())
			}
		}
	}
	g := p.newMerger()
	g.addLeaf(isNull, nullLeaf{})
	g.addLeaf(isNull.Negate(), r)
	out.value = g.value()
	return out
}

// fieldsOf returns the members of a literal; not ok: it is something else.
func fieldsOf(l leaf) ([]draftField, bool) {
	switch l := l.(type) {
	case *draft:
		return l.fields, true
	case *dict:
		var all []draftField
		for _, k := range l.keys {
			all = append(all, draftField{k, solve.True, l.values[k]})
		}
		return all, true
	}
	return nil, false
}

// apply merges the value of an ApplyConfiguration into a part, as structured-merge-diff does.
func (p *patcher) apply(path string, t *shape.Type, atomic bool, when solve.Formula, was *held, v *value) *held {
	if when == solve.False || t == nil {
		return was
	}
	out := was
	for _, a := range v.parts() {
		out = p.applyLeaf(path, t, atomic, p.store.Conjoin(when, a.when), out, a.leaf)
	}
	p.fail(p.store.Conjoin(when, v.err))
	return out
}

func (p *patcher) applyLeaf(path string, t *shape.Type, atomic bool, when solve.Formula, was *held, l leaf) *held {
	if when == solve.False {
		return was
	}
	fields, isLiteral := fieldsOf(l)
	patch, isList := l.(*list)
	switch {
	case (t.Kind == shape.Struct || t.Kind == shape.Map) && isLiteral:
		if atomic || t.Merge == shape.Atomic {
			p.fail(when) // may not mutate atomic arrays, maps or structs
			return was
		}
		return p.applyFields(path, t, when, was, fields)
	case t.Kind == shape.List && isList:
		if atomic || t.Merge == shape.Atomic {
			p.fail(when)
			return was
		}
		if t.Merge == shape.Keyed && t.Elem.Kind == shape.Struct {
			return p.applyItems(path, t, when, was, patch)
		}
	case t.Kind != shape.Struct && t.Kind != shape.Map && t.Kind != shape.List:
		stored := p.asStored(path, t, l)
		return p.pick(when, &held{solve.True, stored}, was)
	}
	return p.undecide(when, was, t, "the merge of "+lastOf(path))
}

func (p *patcher) applyFields(path string, t *shape.Type, when solve.Formula, was *held, fields []draftField) *held {
	r := p.open(path, t, was)
	if r == nil {
		return p.undecide(when, was, t, "the merge of "+lastOf(path))
	}
	for _, f := range fields {
		inner, atomic, ok := memberType(t, f.name)
		writes := p.store.Conjoin(when, f.present)
		if !ok {
			if t.PreserveUnknown || t.Embedded {
				r.write(f.name, p.undecide(writes, r.member(f.name), nil, "a member without a schema"))
			} else {
				p.fail(writes) // field not declared in schema
			}
			continue
		}
		now := p.apply(r.path+"."+f.name, inner, atomic, writes, r.memberBefore(f.name), f.value)
		r.write(f.name, p.pick(p.store.Disjoin(r.had, writes), now, r.defaultOf(f.name)))
	}
	return p.close(when, was, r)
}

func memberType(t *shape.Type, name string) (inner *shape.Type, atomic, ok bool) {
	if t.Kind == shape.Map {
		return t.Elem, false, true
	}
	f := t.Field(name)
	if f == nil {
		return nil, false, false
	}
	return f.Type, f.Atomic, true
}

// A merging is the merge of a list of an ApplyConfiguration into a live one, by the keys of their items.
type merging struct {
	*patcher
	path        string
	elem        *shape.Type
	key         string
	when        solve.Formula
	live, patch *list
	has, wants  []*value        // the keys of the live items, and of those of the patch
	missing     []solve.Formula // the live list lacks an item of the patch
	owners      []int           // the live items, from 1, that the items of the patch are made from
	need        int             // how many live items a smaller list must keep
}

// applyItems merges lists by the keys of their items.
func (p *patcher) applyItems(path string, t *shape.Type, when solve.Formula, was *held, patch *list) *held {
	s := p.store
	live, isNull, ok := p.listOf(was)
	if !ok || len(t.Keys) != 1 || t.Elem.Field(t.Keys[0]) == nil {
		return p.undecide(when, was, t, "the merge of "+lastOf(path))
	}
	m := &merging{patcher: p, path: path, elem: t.Elem, key: t.Keys[0], when: when, live: live, patch: patch, need: 2}
	if !m.findKeys() {
		return p.undecide(when, was, t, "the merge of items without a known key")
	}
	twice := m.isTwice(live.items, m.has)
	if storable.Holds(storable.Distinct, t.Elem.Name, "") {
		p.assumed = append(p.assumed, twice.Negate())
		twice, m.need = solve.False, 0
	}
	for i, it := range live.items { // without a key
		twice = s.Disjoin(twice, s.All(when, it.present, m.has[i].err))
	}
	if p.ignores && twice != solve.False { // some minors refuse to merge such a list
		p.fail(s.Conjoin(twice, p.unknownPart("twice", nil, "the merge of items with equal keys").present))
	}
	p.fail(m.isTwice(patch.items, m.wants))
	out := &list{sources: slices.Clone(live.sources), unordered: live.unordered}
	for _, n := range patch.sources {
		out.sources = addNode(out.sources, n)
	}
	m.findOwners()
	out.items = m.mergeLive()
	added := m.addMissing(out)
	for _, n := range live.sources {
		n.require(m.need)
	}
	if len(patch.items) > 1 && !isAscending(m.has, m.wants) {
		out.unordered = out.unordered || len(live.items) > 1
	}
	g := p.newMerger()
	null := s.Conjoin(isNull, added.Negate())
	g.addLeaf(null, nullLeaf{})
	g.addLeaf(null.Negate(), out)
	merged := &held{s.Disjoin(was.present, added), g.value()}
	merged = p.undecide(twice, merged, t, "the merge of items with equal keys")
	if p.builtin {
		return merged
	}
	empty := when // an empty patch of an empty list leaves null or an empty list
	for _, it := range slices.Concat(live.items, patch.items) {
		empty = s.Conjoin(empty, it.present.Negate())
	}
	return p.undecide(empty, merged, t, "the merge of empty lists")
}

// findKeys finds the keys of all items, and reports whether it did.
func (m *merging) findKeys() bool {
	keys := func(items []*item) (all []*value) {
		for _, it := range items {
			v := m.lift([]*value{it.value}, func(l []leaf) *value { return m.get(l[0], m.key) })
			if len(v.alts) == 0 || v.isBool != solve.False {
				return nil
			}
			all = append(all, v)
		}
		return all
	}
	m.has, m.wants = keys(m.live.items), keys(m.patch.items)
	for j, it := range m.patch.items {
		if m.wants != nil {
			m.fail(m.store.All(m.when, it.present, m.wants[j].err))
		}
	}
	return len(m.has) == len(m.live.items) && len(m.wants) == len(m.patch.items)
}

// equate returns the condition that two keys are equal.
func (m *merging) equate(a, b *value) solve.Formula {
	if len(a.alts) == 1 && len(b.alts) == 1 && a.alts[0].leaf == b.alts[0].leaf {
		return solve.True
	}
	return m.lift([]*value{a, b}, func(l []leaf) *value { return m.equality(l[0], l[1]) }).truth
}

// isTwice returns the condition that two of the items have the same key.
func (m *merging) isTwice(items []*item, keys []*value) solve.Formula {
	out := solve.False
	for i := range items {
		for j := range i {
			both := m.store.All(m.when, items[i].present, items[j].present)
			out = m.store.Disjoin(out, m.store.Conjoin(both, m.equate(keys[i], keys[j])))
		}
	}
	return out
}

// findOwners finds the items of the patch that are made from live items: if such an item is in the patch, the live one
// is there.
func (m *merging) findOwners() {
	m.missing, m.owners = make([]solve.Formula, len(m.patch.items)), make([]int, len(m.patch.items))
	for j, new := range m.patch.items {
		m.missing[j] = m.store.Conjoin(m.when, new.present)
		for i, it := range m.live.items {
			if m.equate(m.has[i], m.wants[j]) == solve.True && isOwn(it.value, m.key, m.has[i]) {
				m.owners[j], m.missing[j] = i+1, solve.False
			}
		}
	}
}

// mergeLive merges the items of the patch into the live ones.
func (m *merging) mergeLive() (all []*item) {
	s := m.store
	for i, it := range m.live.items {
		part := &held{solve.True, it.value}
		for j, new := range m.patch.items {
			if m.owners[j] > 0 && m.owners[j] != i+1 {
				continue // two live items with the same key are another case
			}
			match := m.equate(m.has[i], m.wants[j])
			here := s.All(m.when, new.present, it.present, match)
			m.missing[j] = s.Conjoin(m.missing[j], s.Conjoin(it.present, match).Negate())
			if here != solve.False {
				path := m.path + "[" + strconv.Itoa(i) + "]"
				part = m.apply(path, m.elem, false, here, part, withoutField(new.value, m.key))
			}
		}
		all = append(all, &item{it.present, part.value})
	}
	return all
}

// addMissing adds the items that the live list lacks, and returns the condition that there are any.
func (m *merging) addMissing(out *list) solve.Formula {
	added := solve.False
	for j, new := range m.patch.items {
		if m.missing[j] == solve.False {
			continue
		}
		m.need++
		made := m.apply(m.path+"[+"+strconv.Itoa(j)+"]", m.elem, false, m.missing[j], absent, new.value)
		if made.value == nil { // the mutation fails
			made = &held{solve.False, failure()}
		}
		out.items = append(out.items, &item{m.missing[j], made.value})
		out.unordered = out.unordered || len(m.live.items) > 0
		added = m.store.Disjoin(added, m.missing[j])
	}
	return added
}

// withoutField returns literals without a member.
func withoutField(v *value, name string) *value {
	out := *v
	out.alts = slices.Clone(v.alts)
	for i, a := range out.alts {
		if fields, ok := fieldsOf(a.leaf); ok {
			out.alts[i].leaf = &draft{fields: slices.DeleteFunc(slices.Clone(fields),
				func(f draftField) bool { return f.name == name })}
		}
	}
	return &out
}

// isOwn reports whether a key is that of the item itself, as the incoming object has it.
func isOwn(item *value, key string, is *value) bool {
	t, ok := is.alts[0].leaf.(textLeaf)
	if !ok || !t.isVar || len(item.alts) != 1 {
		return false
	}
	return slices.ContainsFunc(rootsOf(item.alts[0].leaf), func(n *node) bool {
		p := n.members[key]
		return p != nil && p.val != nil && p.fixed == nil && p.text == t.x
	})
}

// isAscending reports whether the keys of a patch are those of the live items, in their order.
func isAscending(has, wants []*value) bool {
	i := 0
	for _, w := range wants {
		for i < len(has) && (len(has[i].alts) != 1 || len(w.alts) != 1 || has[i].alts[0].leaf != w.alts[0].leaf) {
			i++
		}
		if i++; i > len(has) {
			return false
		}
	}
	return true
}

// listOf returns the list that a part holds, without items if it is absent.
func (p *patcher) listOf(was *held) (live *list, isNull solve.Formula, ok bool) {
	live, isNull = &list{}, solve.False
	if was.value == nil || was.present == solve.False {
		return live, isNull, true
	}
	for _, a := range was.value.parts() {
		switch l := a.leaf.(type) {
		case nullLeaf:
			isNull = a.when
		case *list:
			if len(live.sources)+len(live.items) > 0 {
				return nil, 0, false
			}
			there := p.store.Conjoin(was.present, a.when)
			live = &list{sources: l.sources, unordered: l.unordered}
			for _, it := range l.items {
				live.items = append(live.items, &item{p.store.Conjoin(there, it.present), it.value})
			}
		default:
			return nil, 0, false
		}
	}
	return live, isNull, true
}

// asStored returns a value as the server stores it in a place of a type.
func (p *patcher) asStored(path string, t *shape.Type, l leaf) *value {
	fields, isLiteral := fieldsOf(l)
	switch t.Kind {
	case shape.Boolean:
		if _, ok := l.(boolLeaf); ok {
			return newLeaf(l)
		}
	case shape.Integer, shape.IntOrString:
		if _, isDouble := l.(doubleLeaf); isNumber(l) && !isDouble {
			bits := int(t.Bits)
			if t.Kind == shape.IntOrString {
				bits = 32
			}
			least, most := solve.Range(bits)
			if upper, lower := p.compareInts(l, numberOf(most)), p.compareInts(numberOf(least), l); upper != nil &&
				lower != nil {
				fits := p.store.Conjoin(upper(0), lower(0))
				return p.choose(fits, newLeaf(l), p.opaqueOf("a number that does not fit", l))
			}
		}
		if text, ok := l.(textLeaf); ok && t.Kind == shape.IntOrString {
			return newLeaf(text)
		}
	case shape.String:
		switch l.(type) {
		case textLeaf, digitsLeaf:
			return newLeaf(l)
		}
	case shape.Quantity:
		if text, ok := l.(textLeaf); ok && text.isConst() {
			if q, err := resource.ParseQuantity(text.before); err == nil {
				return newLeaf(textOf(q.String()))
			}
		}
	case shape.Struct, shape.Map:
		switch l := l.(type) {
		case *node:
			if t == l.typ || t.Name != "" && t.Name == l.typ.Name || isTextMap(t) && isTextMap(l.typ) {
				return newLeaf(l)
			}
		case *record:
			if t == l.typ || t.Name != "" && t.Name == l.typ.Name || isTextMap(t) && isTextMap(l.typ) {
				return newLeaf(l)
			}
		}
		if isLiteral {
			return p.make(path, t, fields)
		}
	case shape.List:
		if from, ok := l.(*list); ok {
			out := &list{sources: from.sources, unordered: from.unordered}
			for i, it := range from.items {
				v := p.lift([]*value{it.value}, func(l []leaf) *value {
					return p.asStored(path+"["+strconv.Itoa(i)+"]", t.Elem, l[0])
				})
				out.items = append(out.items, &item{it.present, v})
			}
			return newLeaf(out)
		}
	}
	return p.opaqueOf("a value stored as "+strconv.Itoa(int(t.Kind)), l)
}

func isTextMap(t *shape.Type) bool {
	return t.Kind == shape.Map && t.Elem.Kind == shape.String && t.Elem.Format == ""
}

// make returns a new struct or map.
func (p *patcher) make(path string, t *shape.Type, fields []draftField) *value {
	r := p.newRecord(p.origin, path, t, p.builtin)
	for _, f := range fields {
		inner, _, ok := memberType(t, f.name)
		if !ok { // the server drops it, or keeps what it does not know
			if t.PreserveUnknown || t.Embedded {
				r.write(f.name, p.undecide(solve.True, absent, nil, "a member without a schema"))
			}
			continue
		}
		v := p.lift([]*value{f.value}, func(l []leaf) *value { return p.asStored(path+"."+f.name, inner, l[0]) })
		r.write(f.name, p.pick(f.present, &held{solve.True, v}, r.defaultOf(f.name)))
	}
	p.touched = append(p.touched, r)
	return newLeaf(r)
}

// patch applies the operations of a JSON patch in order.
func (p *patcher) patch(t *shape.Type, when solve.Formula, was *held, v *value) *held {
	out := was
	for _, a := range v.parts() {
		here := p.store.Conjoin(when, a.when)
		operations, ok := a.leaf.(*list)
		if !ok || len(operations.sources) > 0 {
			out = p.undecide(here, out, nil, "a JSON patch for each item of a list")
			continue
		}
		for _, it := range operations.items {
			out = p.operation(t, p.store.Conjoin(here, it.present), out, it.value)
		}
	}
	p.fail(p.store.Conjoin(when, v.err))
	return out
}

func (p *patcher) operation(t *shape.Type, when solve.Formula, was *held, v *value) *held {
	out := was
	for _, a := range v.parts() {
		d, ok := a.leaf.(*draft)
		here := p.store.Conjoin(when, a.when)
		if here == solve.False {
			continue
		}
		op, path := constantOf(d, "op"), constantOf(d, "path")
		if !ok || op == "" || !strings.HasPrefix(path, "/") || op != "add" && op != "replace" && op != "remove" ||
			path == "/kind" || path == "/apiVersion" {
			out = p.undecide(here, out, nil, "this operation of a JSON patch")
			continue
		}
		var to *value
		if given := d.field("value"); given != nil && given.present == solve.True {
			to = given.value
			p.fail(p.store.Conjoin(here, to.err))
		}
		if to == nil && op != "remove" {
			out = p.undecide(here, out, nil, "an operation without a value")
			continue
		}
		var steps []string
		for _, step := range strings.Split(path[1:], "/") {
			steps = append(steps, tree.UnescapeToken(step))
		}
		out = p.operate("object", t, steps, op, here, out, to)
	}
	return out
}

// constantOf returns a constant text of a draft; empty: there is none.
func constantOf(d *draft, name string) string {
	if d == nil {
		return ""
	}
	f := d.field(name)
	if f == nil || f.present != solve.True || f.value.err != solve.False || len(f.value.parts()) != 1 {
		return ""
	}
	t, ok := f.value.parts()[0].leaf.(textLeaf)
	if !ok || !t.isConst() {
		return ""
	}
	return t.before
}

// operate applies an operation below a part.
func (p *patcher) operate(path string, t *shape.Type, steps []string, op string, when solve.Formula, was *held,
	to *value) *held {
	switch t.Kind {
	case shape.Struct, shape.Map:
		return p.operateMember(path, t, steps, op, when, was, to)
	case shape.List:
		return p.operateItem(path, t, steps, op, when, was, to)
	}
	return p.undecide(when, was, t, "a JSON patch of "+lastOf(path))
}

func (p *patcher) operateMember(path string, t *shape.Type, steps []string, op string, when solve.Formula, was *held,
	to *value) *held {
	r := p.open(path, t, was)
	name := steps[0]
	inner, _, ok := memberType(t, name)
	if r == nil || !ok {
		return p.undecide(when, was, t, "a JSON patch of "+name)
	}
	p.fail(p.store.Conjoin(when, r.had.Negate()))
	r.patched = true
	old := r.memberBefore(name)
	switch {
	case len(steps) > 1:
		p.fail(p.store.Conjoin(when, old.present.Negate()))
		r.write(name, p.operate(r.path+"."+name, inner, steps[1:], op, when, old, to))
	case op == "remove":
		p.fail(p.store.Conjoin(when, old.present.Negate()))
		r.write(name, p.pick(when, absent, old))
	default: // the server's replace adds a missing member
		v := p.lift([]*value{to}, func(l []leaf) *value { return p.asStored(r.path+"."+name, inner, l[0]) })
		r.write(name, p.pick(when, &held{solve.True, v}, old))
	}
	return p.close(when, was, r)
}

// operateItem applies an operation to an item of a list that has a constant index, or adds one.
func (p *patcher) operateItem(path string, t *shape.Type, steps []string, op string, when solve.Formula, was *held,
	to *value) *held {
	s := p.store
	live, isNull, ok := p.listOf(was)
	index, err := strconv.Atoi(steps[0])
	atEnd := steps[0] == "-"
	if !ok || was.value == nil || err != nil && !atEnd {
		return p.undecide(when, was, t, "a JSON patch of an item")
	}
	p.fail(s.Conjoin(when, s.Disjoin(isNull, was.present.Negate())))
	out := &list{sources: live.sources, unordered: live.unordered, items: slices.Clone(live.items)}
	switch {
	case len(steps) == 1 && op == "add" && (atEnd || index == 0 && !live.unordered):
		v := p.lift([]*value{to}, func(l []leaf) *value { return p.asStored(path+"["+steps[0]+"]", t.Elem, l[0]) })
		made := &item{when, v}
		if atEnd {
			out.items = append(out.items, made)
		} else {
			out.items = append([]*item{made}, out.items...)
		}
		p.inserted = p.inserted || t.Merge != shape.Atomic
	case len(steps) > 1 && err == nil && isOneOf(was) && index >= 0 && index < mostItems:
		for _, n := range live.sources {
			n.require(index + 1)
		}
		if index >= len(live.items) {
			p.fail(when)
			return was
		}
		it := live.items[index]
		p.fail(s.Conjoin(when, it.present.Negate()))
		part := p.operate(path+"[]", t.Elem, steps[1:], op, s.Conjoin(when, it.present), &held{solve.True, it.value}, to)
		out.items[index] = &item{it.present, part.value}
	default:
		return p.undecide(when, was, t, "this change of a list by a JSON patch")
	}
	g := p.newMerger()
	g.addLeaf(isNull, nullLeaf{})
	g.addLeaf(isNull.Negate(), out)
	return &held{was.present, g.value()}
}

// isOneOf reports whether a part is the unchanged list of a node: its items are present one after the other.
func isOneOf(was *held) bool {
	return len(was.value.alts) > 0 && !slices.ContainsFunc(was.value.alts, func(a alternative) bool {
		l, ok := a.leaf.(*list)
		return ok && l.name == ""
	})
}

// tidy makes of the changed parts what the server makes of them when it encodes them and sets defaults: it drops the
// zero values that Go omits, and may set what follows from other members.
func (p *patcher) tidy() {
	for _, r := range p.touched {
		filled, known := storable.FilledBy(r.typ.Name)
		mayFill := p.builtin && !known && prepare.HasDefaults(r.typ.Name)
		for _, name := range r.written {
			f := r.typ.Field(name)
			if r.isMap() || f == nil {
				continue
			}
			h := r.parts[name]
			if p.builtin && f.OmitEmpty && !f.Pointer && h.value != nil {
				zero := p.zero(f.Type, h.value)
				h = p.pick(p.store.Conjoin(h.present, zero), r.defaultOf(name), h)
			}
			gone := h.present.Negate()
			if p.builtin && !f.OmitEmpty && !f.OmitZero && f.Type.Kind != shape.Struct {
				h = p.undecide(gone, h, f.Type, "the zero value of "+name)
			}
			if p.builtin && !f.OmitZero && f.Type.Kind == shape.Struct && !f.Pointer {
				h = p.pick(gone, r.defaultOf(name), h)
			}
			if mayFill || slices.Contains(filled, name) || f.Default != nil {
				h = p.pick(gone, r.defaultOf(name), h)
			}
			if p.builtin && prepare.IsGated(r.typ, name) {
				h = p.undecide(solve.True, h, f.Type, name+" of a feature that is off")
			}
			r.parts[name] = h
		}
		p.follow(r)
		r.written, r.patched = nil, false
	}
	p.touched = nil
}

// zero returns the condition that a value is the zero value of its Go type.
func (p *patcher) zero(t *shape.Type, v *value) solve.Formula {
	s := p.store
	out := solve.False
	for _, a := range v.parts() {
		is := solve.False
		switch l := a.leaf.(type) {
		case nullLeaf:
			is = solve.True
		case *list:
			is = solve.True
			for _, it := range l.items {
				is = s.Conjoin(is, it.present.Negate())
			}
		case *node, *record:
			if isMapLeaf(l) {
				is = solve.True
				for _, e := range p.entriesOf(l) {
					is = s.Conjoin(is, e.present.Negate())
				}
			}
		default:
			if t.Kind == shape.Boolean || t.Kind == shape.String || t.Kind == shape.Integer {
				if zero, ok := p.isZero(l); ok {
					is = zero
				} else {
					is = p.toBool(p.opaqueOf("is zero", l)).truth
				}
			}
		}
		out = s.Disjoin(out, s.Conjoin(a.when, is))
	}
	return out
}

// follow makes unknown what the server may set because of the members that a mutation wrote.
func (p *patcher) follow(r *record) {
	if !r.builtin {
		return
	}
	wrote := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.written, name) })
	}
	unknown := func(when solve.Formula, names ...string) {
		for _, name := range names {
			if f := r.typ.Field(name); f != nil {
				what := "what the server makes of " + name + " after the mutation"
				r.write(name, p.undecide(when, r.member(name), f.Type, what))
			}
		}
	}
	switch strings.TrimPrefix(strings.TrimPrefix(r.typ.Name, "k8s.io/api/core/v1."), "k8s.io/api/apps/v1.") {
	case "Volume":
		if r.had == solve.False { // a new volume without a source gets an emptyDir
			none := solve.True
			for i := range r.typ.Fields {
				if f := &r.typ.Fields[i]; f.Pointer && f.Type.Kind == shape.Struct && wrote(f.Name) {
					none = p.store.Conjoin(none, r.member(f.Name).present.Negate())
				}
			}
			if !wrote("emptyDir") {
				made := p.newRecord(p.origin, r.path+".emptyDir", r.typ.Field("emptyDir").Type, true)
				r.write("emptyDir", &held{none, newLeaf(made)})
			} else {
				unknown(none, "emptyDir")
			}
		} else if r.patched {
			unknown(solve.True, "emptyDir")
		}
	case "ResourceRequirements", "VolumeResourceRequirements":
		if wrote("limits") || r.patched {
			unknown(solve.True, "requests")
		}
	case "PodSpec":
		if wrote("serviceAccountName", "serviceAccount") {
			unknown(solve.True, "serviceAccountName", "serviceAccount")
		}
		if wrote("terminationGracePeriodSeconds") {
			h := r.member("terminationGracePeriodSeconds")
			negative := solve.True
			if h.value != nil {
				negative = solve.False
				for _, a := range h.value.parts() {
					is := solve.True
					if below := p.compareInts(a.leaf, numberOf(-1)); below != nil {
						is = below(0)
					}
					negative = p.store.Disjoin(negative, p.store.Conjoin(a.when, is))
				}
			}
			unknown(negative, "terminationGracePeriodSeconds")
		}
		if wrote("hostNetwork") {
			h := r.member("hostNetwork")
			on := h.present
			if h.value != nil && len(h.value.alts) == 0 {
				on = p.store.Conjoin(on, h.value.truth)
			}
			unknown(on, "containers", "initContainers")
		}
	case "DeploymentStrategy", "DaemonSetUpdateStrategy", "StatefulSetUpdateStrategy":
		if wrote("type") || r.patched {
			unknown(solve.True, "rollingUpdate")
		}
	}
}

// differ returns the condition that two parts differ.
func (p *patcher) differ(a, b *held) solve.Formula {
	s := p.store
	if a == b || a.present == b.present && a.value == b.value {
		return solve.False
	}
	apart := s.Iff(a.present, b.present).Negate()
	if a.value == nil || b.value == nil || a.value == b.value {
		return apart
	}
	out := solve.False
	for _, x := range a.value.parts() {
		for _, y := range b.value.parts() {
			if both := s.Conjoin(x.when, y.when); both != solve.False {
				out = s.Disjoin(out, s.Conjoin(both, p.differLeaves(x.leaf, y.leaf)))
			}
		}
	}
	out = s.Any(out, a.value.err, b.value.err)
	return s.Disjoin(apart, s.All(a.present, b.present, out))
}

func (p *patcher) differLeaves(a, b leaf) solve.Formula {
	s := p.store
	if a == b {
		return solve.False
	}
	switch x := a.(type) {
	case *list:
		y, ok := b.(*list)
		if !ok {
			return solve.True
		}
		return p.differLists(x, y)
	case *record, *node:
		names := namesOf(a)
		for _, name := range namesOf(b) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		switch b.(type) {
		case *record, *node:
		default:
			return solve.True
		}
		if !slices.Equal(rootsOf(a), rootsOf(b)) {
			return p.toBool(p.opaqueOf("differ", a, b)).truth
		}
		out := solve.False
		for _, name := range names {
			out = s.Disjoin(out, p.differ(p.partOf(a, name), p.partOf(b, name)))
		}
		return out
	}
	v := p.equality(a, b)
	return s.Disjoin(v.err, v.truth.Negate())
}

func namesOf(l leaf) []string {
	if r, ok := l.(*record); ok {
		return r.names()
	}
	return nil
}

// differLists compares lists item by item: an item that one of them has more is a difference if it is present.
func (p *patcher) differLists(a, b *list) solve.Formula {
	s := p.store
	if a.name != "" && a.name == b.name {
		return solve.False
	}
	for _, n := range slices.Concat(a.sources, b.sources) {
		n.require(1)
	}
	out := solve.False
	for i := range max(len(a.items), len(b.items)) {
		x, y := &held{present: solve.False}, &held{present: solve.False}
		if i < len(a.items) {
			x = &held{a.items[i].present, a.items[i].value}
		}
		if i < len(b.items) {
			y = &held{b.items[i].present, b.items[i].value}
		}
		out = s.Disjoin(out, p.differ(x, y))
	}
	return out
}
