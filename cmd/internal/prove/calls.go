package prove

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/tree"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// call evaluates a function call. Functions that evaluate their arguments one by one are here; for all others, apply
// takes the values.
func (f *frame) call(e ast.Expr, in *scope) *value {
	c := e.AsCall()
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return f.conjoin(f.evaluate(args[0], in), f.evaluate(args[1], in))
	case operators.LogicalOr:
		return f.negate(f.conjoin(f.negate(f.evaluate(args[0], in)), f.negate(f.evaluate(args[1], in))))
	case operators.LogicalNot:
		return f.negate(f.evaluate(args[0], in))
	case operators.NotStrictlyFalse:
		v := f.toBool(f.evaluate(args[0], in))
		return newBool(f.store.Disjoin(v.err, v.truth))
	case operators.Conditional:
		return f.conditional(f.toBool(f.evaluate(args[0], in)), func() *value { return f.evaluate(args[1], in) },
			func() *value { return f.evaluate(args[2], in) })
	case operators.OptSelect:
		name := args[1].AsLiteral().Value().(string)
		return f.lift([]*value{f.evaluate(args[0], in)}, func(l []leaf) *value { return f.optionalMember(l[0], name) })
	}
	var values []*value
	if c.IsMemberFunction() {
		if t := c.Target(); t.Kind() == ast.IdentKind && t.AsIdent() == "optional" && in.find("optional") == nil {
			return f.optionalFunction(c.FunctionName(), args, in)
		}
		values = append(values, f.evaluate(c.Target(), in))
	}
	for _, a := range args {
		values = append(values, f.evaluate(a, in))
	}
	switch c.FunctionName() {
	case "optional.of", "optional.none", "optional.ofNonZeroValue":
		return f.optionalFunction(c.FunctionName(), args, in)
	case "orValue", "or":
		return f.unwrap(c.FunctionName(), values[0], values[1])
	}
	return f.apply(c.FunctionName(), values)
}

// conjoin is && of CEL: false takes precedence over an error.
func (f *frame) conjoin(a, b *value) *value {
	a, b = f.toBool(a), f.toBool(b)
	s := f.store
	no := s.Disjoin(s.Conjoin(a.isBool, a.truth.Negate()), s.Conjoin(b.isBool, b.truth.Negate()))
	yes := s.Conjoin(a.truth, b.truth)
	is := s.Disjoin(no, yes)
	return &value{err: is.Negate(), isBool: is, truth: yes}
}

func (f *frame) negate(v *value) *value {
	v = f.toBool(v)
	return &value{err: v.err, isBool: v.isBool, truth: f.store.Conjoin(v.isBool, v.truth.Negate())}
}

func (f *frame) conditional(c *value, yes, no func() *value) *value {
	g := f.newMerger()
	g.add(c.err, failure())
	if c.truth != solve.False {
		g.add(c.truth, yes())
	}
	if not := f.store.Conjoin(c.isBool, c.truth.Negate()); not != solve.False {
		g.add(not, no())
	}
	return g.value()
}

func (f *frame) optionalFunction(name string, args []ast.Expr, in *scope) *value {
	switch strings.TrimPrefix(name, "optional.") {
	case "none":
		return newLeaf(noneLeaf{})
	case "of":
		return f.some(f.evaluate(args[0], in))
	}
	v := f.evaluate(args[0], in)
	return f.lift([]*value{v}, func(l []leaf) *value {
		zero, ok := f.isZero(l[0])
		if !ok {
			return f.opaqueOf("optional.ofNonZeroValue", l[0])
		}
		return f.choose(zero, newLeaf(noneLeaf{}), f.some(newLeaf(l[0])))
	})
}

func (f *frame) isZero(l leaf) (solve.Formula, bool) {
	switch l := l.(type) {
	case boolLeaf:
		return l.truth.Negate(), true
	case textLeaf:
		return f.sameText(l, textOf("")), true
	case intLeaf:
		if zero := f.compareInts(l, numberOf(0)); zero != nil {
			return f.store.Conjoin(zero(0), zero(-1).Negate()), true
		}
	case nullLeaf:
		return solve.True, true
	}
	return 0, false
}

func (f *frame) unwrap(name string, v, other *value) *value {
	g := f.newMerger()
	g.add(v.err, failure())
	for _, p := range v.parts() {
		switch l := p.leaf.(type) {
		case someLeaf:
			if name == "or" {
				g.addLeaf(p.when, l)
			} else {
				g.add(p.when, l.value)
			}
		case noneLeaf:
			g.add(p.when, other)
		case opaqueLeaf:
			g.add(p.when, f.opaqueCall(name, newLeaf(l), other))
		default:
			g.add(p.when, failure())
		}
	}
	return g.value()
}

// comparisons are the functions that compare the size of a list in a way that preserves the bound of the list.
var comparisons = []string{operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals,
	operators.Greater, operators.GreaterEquals}

// apply evaluates a function of values. If one of them is an error, so is the result.
func (f *frame) apply(name string, args []*value) *value {
	f.bound(name, args)
	return f.lift(args, func(l []leaf) *value {
		for _, x := range l {
			_, isDraft := x.(*draft)
			if isDraft || isOpaque(x) && name != operators.Equals && name != operators.NotEquals {
				return f.opaqueOf(name, l...)
			}
		}
		return f.applyTo(name, l)
	})
}

// bound extends lists as far as a comparison of their size with a constant requires, and gives up bounds for any other
// use of a size.
func (f *frame) bound(name string, args []*value) {
	for i, v := range args {
		if len(v.sized) == 0 {
			continue
		}
		most, ok := int64(0), len(args) == 2 && slices.Contains(comparisons, name)
		for _, a := range args[len(args)-1-i].parts() {
			n, isInt := a.leaf.(intLeaf)
			ok = ok && isInt && n.isConst()
			most = max(most, n.more)
		}
		if !ok || most >= mostItems {
			f.leaveUnbounded(v.sized, "arithmetic with the size of a list")
			continue
		}
		for _, n := range v.sized {
			n.require(int(most) + 1)
		}
	}
}

func (f *frame) applyTo(name string, l []leaf) *value {
	if a, ok := l[0].(accessLeaf); ok {
		return f.ask(name, a, l[1:])
	}
	if v := f.applyQuantities(name, l); v != nil {
		return v
	}
	if slices.ContainsFunc(l, isDigits) && !slices.Contains(ofDigits, name) {
		return f.opaqueOf(name, l...)
	}
	switch name {
	case operators.Equals:
		return f.equality(l[0], l[1])
	case operators.NotEquals:
		return f.negate(f.equality(l[0], l[1]))
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return f.order(name, l[0], l[1])
	case operators.In, operators.OldIn:
		return f.contains(l[1], l[0])
	case operators.Index:
		return f.index(l[0], l[1], false)
	case operators.OptIndex:
		return f.index(l[0], l[1], true)
	case operators.Add, operators.Subtract, operators.Multiply, operators.Negate:
		return f.calculate(name, l)
	case operators.Divide, operators.Modulo:
		return f.divide(name, l)
	case "sort":
		if v := f.sort(l[0]); v != nil {
			return v
		}
	case "size":
		return f.sizeOf(l[0])
	case "startsWith", "endsWith", "contains", "matches":
		return f.search(name, l)
	case "lowerAscii", "upperAscii":
		return f.recase(name, l[0])
	case "jsonpatch.escapeKey":
		if t, ok := l[0].(textLeaf); ok && t.isConst() {
			return newLeaf(textOf(tree.EscapeToken(t.before)))
		}
	case "hasValue":
		switch l[0].(type) {
		case someLeaf:
			return newBool(solve.True)
		case noneLeaf:
			return newBool(solve.False)
		}
	case "value":
		switch x := l[0].(type) {
		case someLeaf:
			return x.value
		case noneLeaf:
			return failure()
		}
	case "dyn":
		return newLeaf(l[0])
	case "quantity":
		return f.quantityOf(l[0])
	case "isQuantity":
		return f.isQuantity(l[0])
	case "string":
		return f.toText(l[0])
	case "int":
		return f.toInt(l[0])
	case "sets.contains", "sets.intersects":
		if v := f.sets(name, l[0], l[1]); v != nil {
			return v
		}
	}
	return f.opaqueOf(name, l...)
}

// equality is ==, which compares values of all types.
func (f *frame) equality(a, b leaf) *value {
	if a == b {
		if _, ok := a.(doubleLeaf); !ok {
			switch a.(type) {
			case textLeaf, intLeaf, nullLeaf, noneLeaf:
				return newBool(solve.True)
			}
		}
	}
	_, aNull := a.(nullLeaf)
	_, bNull := b.(nullLeaf)
	if (aNull || bNull) && !isOpaque(a) && !isOpaque(b) {
		return newBool(formulaOf(aNull && bNull))
	}
	switch x := a.(type) {
	case boolLeaf:
		switch y := b.(type) {
		case boolLeaf:
			return newBool(f.store.Iff(x.truth, y.truth))
		case textLeaf, intLeaf, doubleLeaf, lengthLeaf, parsedLeaf, quotientLeaf, digitsLeaf:
			return newBool(solve.False)
		}
	case textLeaf:
		switch y := b.(type) {
		case textLeaf:
			if same, ok := f.textsAreOne(x, y); ok {
				return newBool(same)
			}
		case digitsLeaf:
			return f.equality(b, a)
		case boolLeaf, intLeaf, doubleLeaf, lengthLeaf, parsedLeaf, quotientLeaf:
			return newBool(solve.False)
		}
	case digitsLeaf:
		if v := f.equalDigits(x, b); v != nil {
			return v
		}
	case intLeaf, lengthLeaf, doubleLeaf, parsedLeaf, quotientLeaf:
		if is := f.compareInts(a, b); is != nil {
			return newBool(f.store.Conjoin(is(0), is(-1).Negate()))
		}
		switch b.(type) {
		case boolLeaf, textLeaf, digitsLeaf:
			return newBool(solve.False)
		}
	case *list:
		if y, ok := b.(*list); ok {
			if v := f.equalLists(x, y); v != nil {
				return v
			}
		}
	}
	return f.opaqueOf("==", a, b)
}

func formulaOf(b bool) solve.Formula {
	if b {
		return solve.True
	}
	return solve.False
}

// equalLists compares lists of scalars, one of which has a fixed length.
func (f *frame) equalLists(a, b *list) *value {
	if isFixed(a) {
		a, b = b, a
	}
	if !isFixed(b) || a.unordered || b.unordered {
		return nil
	}
	for _, n := range a.sources {
		n.require(len(b.items) + 1)
	}
	s, counts := f.store, f.counts(a.items)
	if len(a.items) < len(b.items) {
		return newBool(solve.False)
	}
	out := counts[len(a.items)][len(b.items)]
	for i, it := range a.items {
		same := solve.False
		for n, other := range b.items {
			for _, l := range slices.Concat(it.value.alts, other.value.alts) {
				switch l.leaf.(type) {
				case textLeaf, intLeaf, nullLeaf:
				default:
					return nil
				}
			}
			if n <= i {
				v := f.lift([]*value{it.value, other.value}, func(l []leaf) *value { return f.equality(l[0], l[1]) })
				same = s.Disjoin(same, s.Conjoin(counts[i][n], v.truth))
			}
		}
		out = s.Conjoin(out, s.Disjoin(it.present.Negate(), same))
	}
	return newBool(out)
}

// isFixed reports a list whose items are all present.
func isFixed(l *list) bool {
	return !slices.ContainsFunc(l.items, func(i *item) bool { return i.present != solve.True })
}

func (m *machine) sameText(a, b textLeaf) solve.Formula {
	same, _ := m.textsAreOne(a, b)
	return same
}

// textsAreOne returns the condition that two texts are equal; not ok: it cannot be expressed.
func (m *machine) textsAreOne(a, b textLeaf) (solve.Formula, bool) {
	switch {
	case a.isConst() && b.isConst():
		return formulaOf(a.before == b.before), true
	case a.isConst():
		return m.isIn(b, m.store.Word(a.before)), true
	case b.isConst():
		return m.isIn(a, m.store.Word(b.before)), true
	case a == b:
		return solve.True, true
	case a.before == b.before && a.after == b.after && a.letters == asIs && b.letters == asIs:
		return m.store.Equal(a.x, b.x), true
	}
	return 0, false
}

func (m *machine) isIn(t textLeaf, l *solve.Lang) solve.Formula {
	if t.isConst() {
		return formulaOf(l.Has(t.before))
	}
	l = m.store.Enclose(l, t.before, t.after)
	if t.letters != asIs {
		l = m.store.Fold(l, t.letters == upper)
	}
	return m.store.Member(t.x, l)
}

func (f *frame) search(name string, l []leaf) *value {
	text, ok := l[0].(textLeaf)
	what, isText := l[1].(textLeaf)
	if !ok || !isText {
		return failure()
	}
	if !what.isConst() {
		return f.opaqueOf(name, l...)
	}
	var lang *solve.Lang
	switch name {
	case "startsWith":
		lang = f.store.Prefix(what.before)
	case "endsWith":
		lang = f.store.Suffix(what.before)
	case "contains":
		lang = f.store.Containing(what.before)
	default:
		var err error
		if lang, err = f.store.Matching(what.before); err != nil {
			return failure()
		}
	}
	return newBool(f.isIn(text, lang))
}

func (f *frame) recase(name string, l leaf) *value {
	t, ok := l.(textLeaf)
	if !ok {
		return failure()
	}
	to, letters := lowerASCII, lower
	if name == "upperAscii" {
		to, letters = upperASCII, upper
	}
	if t.letters != asIs && t.letters != letters {
		return f.opaqueOf(name, l)
	}
	t.before, t.after = to(t.before), to(t.after)
	if t.isVar {
		t.letters = letters
	}
	return newLeaf(t)
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, s)
}

// contains is the operator in.
func (f *frame) contains(in, l leaf) *value {
	switch c := in.(type) {
	case *list:
		out := solve.False
		for _, n := range c.sources {
			n.require(1)
		}
		for _, it := range c.items {
			v := f.lift([]*value{it.value, newLeaf(l)}, func(l []leaf) *value { return f.equality(l[0], l[1]) })
			out = f.store.Disjoin(out, f.store.Conjoin(it.present, v.truth))
		}
		return newBool(out)
	case *node, *dict, *record:
		key, ok := l.(textLeaf)
		if !ok {
			return f.opaqueOf("in", in, l)
		}
		if key.isConst() {
			if present, _, ok := f.part(c, key.before); ok {
				return newBool(present)
			}
			return f.opaqueOf("in", in, l)
		}
		found, _, ok := f.lookUp(c, key)
		if !ok {
			return f.opaqueOf("in", in, l)
		}
		return newBool(found)
	}
	return failure()
}

// lookUp returns the value of a non-constant key.
func (f *frame) lookUp(in leaf, key textLeaf) (solve.Formula, *value, bool) {
	g := f.newMerger()
	found := solve.False
	try := func(present solve.Formula, k textLeaf, v *value) bool {
		same, ok := f.textsAreOne(k, key)
		if !ok {
			return false
		}
		here := f.store.Conjoin(present, same)
		g.add(here, v)
		found = f.store.Disjoin(found, here)
		return true
	}
	switch c := in.(type) {
	case *node, *record:
		if !isMapLeaf(c) {
			return 0, nil, false
		}
		all := f.entriesOf(c)
		for _, e := range all {
			if e.key == key { // of the entry itself: keys are distinct
				g.add(e.present, e.value)
				g.add(e.present.Negate(), failure())
				return e.present, g.value(), true
			}
		}
		for _, n := range rootsOf(c) {
			n.require(1)
		}
		for _, e := range all {
			if !try(e.present, e.key, e.value) {
				return 0, nil, false
			}
		}
	case *dict:
		for _, k := range c.keys {
			if !try(solve.True, textOf(k), c.values[k]) {
				return 0, nil, false
			}
		}
	}
	g.add(found.Negate(), failure())
	return found, g.value(), true
}

// index is a[i] or a[?i].
func (f *frame) index(in, at leaf, optional bool) *value {
	absent := failure()
	if optional {
		absent = newLeaf(noneLeaf{})
	}
	wrap := func(present solve.Formula, v *value) *value {
		if v == nil {
			return absent
		}
		if optional {
			v = f.some(v)
		}
		return f.choose(present, v, absent)
	}
	switch c := in.(type) {
	case *node, *dict, *record:
		key, ok := at.(textLeaf)
		if !ok {
			return f.opaqueOf("[]", in, at)
		}
		if key.isConst() {
			if present, v, ok := f.part(c, key.before); ok {
				return wrap(present, v)
			}
		} else if found, v, ok := f.lookUp(c, key); ok {
			return wrap(found, v)
		}
		return f.opaqueOf("[]", in, at)
	case *list:
		n, ok := at.(intLeaf)
		if !ok || !n.isConst() {
			f.leaveUnbounded(c.sources, "an index that is not constant")
			return f.opaqueOf("[]", in, at)
		}
		if n.more < 0 {
			return absent
		}
		if c.unordered {
			f.leaveUnbounded(c.sources, "an item of a sorted list")
			return f.opaqueOf("[]", in, at)
		}
		if n.more >= mostItems {
			f.leaveUnbounded(c.sources, "an index")
		} else {
			for _, s := range c.sources {
				s.require(int(n.more) + 1)
			}
		}
		return f.itemAt(c, n.more, wrap, absent)
	case noneLeaf:
		return newLeaf(c)
	case someLeaf:
		return f.lift([]*value{c.value}, func(l []leaf) *value { return f.index(l[0], at, true) })
	case nullLeaf, textLeaf, intLeaf, boolLeaf:
		if optional {
			return f.opaqueOf("[?]", in, at)
		}
	}
	return failure()
}

// itemAt returns the item of a list with a given index, counting only present items.
func (f *frame) itemAt(c *list, n int64, wrap func(solve.Formula, *value) *value, absent *value) *value {
	counts := f.counts(c.items)
	g := f.newMerger()
	found := solve.False
	for i, it := range c.items {
		if int64(i) < n {
			continue
		}
		here := f.store.Conjoin(it.present, counts[i][n])
		g.add(here, wrap(solve.True, it.value))
		found = f.store.Disjoin(found, here)
	}
	g.add(found.Negate(), absent)
	return g.value()
}

// counts returns, for each item and for the end, the conditions for the number of present items before it.
func (f *frame) counts(items []*item) [][]solve.Formula {
	s := f.store
	all := [][]solve.Formula{{solve.True}}
	for _, it := range items {
		last := all[len(all)-1]
		next := make([]solve.Formula, len(last)+1)
		for n := range next {
			next[n] = solve.False
			if n < len(last) {
				next[n] = s.Conjoin(last[n], it.present.Negate())
			}
			if n > 0 {
				next[n] = s.Disjoin(next[n], s.Conjoin(last[n-1], it.present))
			}
		}
		all = append(all, next)
	}
	return all
}

func (f *frame) sizeOf(l leaf) *value {
	switch c := l.(type) {
	case textLeaf:
		if c.isConst() {
			return newLeaf(numberOf(int64(utf8.RuneCountInString(c.before))))
		}
		return newLeaf(lengthLeaf{c})
	case *dict:
		return newLeaf(numberOf(int64(len(c.keys))))
	case *list:
		return f.count(c.items, c.sources)
	case *node, *record:
		if !isMapLeaf(c) {
			return f.opaqueOf("size", l)
		}
		var items []*item
		for _, e := range f.entriesOf(c) {
			items = append(items, &item{present: e.present})
		}
		return f.count(items, rootsOf(c))
	}
	return failure()
}

func (f *frame) count(items []*item, sources []*node) *value {
	g := f.newMerger()
	counts := f.counts(items)
	for n, when := range counts[len(counts)-1] {
		g.addLeaf(when, numberOf(int64(n)))
	}
	out := g.value()
	out.sized = slices.Clone(sources)
	return out
}

// sets evaluates two functions of the library sets by their items.
func (f *frame) sets(name string, a, b leaf) *value {
	x, ok := a.(*list)
	y, isList := b.(*list)
	if !ok || !isList {
		return nil
	}
	if name == "sets.contains" { // all items of y are in x
		out := newBool(solve.True)
		if len(x.sources) > 0 && len(y.sources) > 0 {
			return nil
		}
		for range y.items {
			for _, n := range x.sources {
				n.require(1)
			}
		}
		for _, n := range y.sources {
			n.require(1)
		}
		for _, it := range y.items {
			in := f.lift([]*value{it.value}, func(l []leaf) *value { return f.contains(&list{items: x.items}, l[0]) })
			out = f.conjoin(out, f.choose(it.present, in, newBool(solve.True)))
		}
		return out
	}
	out := solve.False
	for _, n := range slices.Concat(x.sources, y.sources) {
		n.require(1)
	}
	for _, it := range y.items {
		in := f.lift([]*value{it.value}, func(l []leaf) *value { return f.contains(&list{items: x.items}, l[0]) })
		out = f.store.Disjoin(out, f.store.Conjoin(it.present, in.truth))
	}
	return newBool(out)
}
