package prove

import (
	"strings"

	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// A machine evaluates expressions for all objects of a kind at once.
//
// Lists and maps have a bound, the size of their class. It loses nothing where it is reached: an evaluation of a
// quantifier over a list needs no more items than require asks for to come to what it comes to (one for which all is
// false, or an error; two for which exists_one is true), and leaving the others out changes none of them, in the
// contexts that are left. So an object with longer lists has a smaller one beside it for which everything comes to the
// same, as long as the sum of what is required of a list is not above its size. Where it is, the sizes grow and
// everything is evaluated again; where that does not end, there is no proof. What of a list does not depend on its
// items in this way (an index that is not constant, arithmetic with its size) leaves it unbounded.
type machine struct {
	store *solve.Store
	nodes []*node
	sizes map[string]int      // by class
	keys  map[string][]string // of maps, by class: constant keys
	grown bool                // keys are new: evaluate again

	opaques   map[string]*opaque
	unknown   []*opaque
	wishes    []solve.Formula // what holds of most objects
	unbounded []reason        // why there is no proof: the bound of a list loses something

	at source // of the expression that is evaluated
}

// A source is an expression with its syntax tree.
type source struct {
	policy *policy.Policy
	expr   policy.Expr
	ast    *ast.AST
	id     int64 // of the node at hand
}

// A reason says which part of an expression is outside of what can be decided.
type reason struct {
	source
	what string
}

// An opaque is what an expression comes to that is outside: anything, but always the same.
type opaque struct {
	key string
	err solve.Formula
	reason
	val           *value
	isBool, truth solve.Formula // of an untyped one that was used as a bool, or the truth of one that is a bool
	asked         bool
	num           solve.Int  // of an int
	text          solve.Text // of a string
	isText        bool
}

// isIn reports whether something depends on the value.
func (o *opaque) isIn(v solve.Variables) bool {
	return v.Bools[o.err] || o.asked && (v.Bools[o.isBool] || v.Bools[o.truth]) || o.num != 0 && v.Ints[o.num] ||
		o.isText && v.Texts[o.text]
}

func newMachine(sizes map[string]int, keys map[string][]string) *machine {
	return &machine{store: solve.NewStore(), sizes: sizes, keys: keys, opaques: map[string]*opaque{}}
}

func (m *machine) size(class string) int { return max(1, m.sizes[class]) }

// mostItems is the largest bound of a list.
const mostItems = 10

// settle reports whether all lists were as long as was required; if not, it makes the sizes larger.
func (m *machine) settle() bool {
	done := !m.grown
	for _, n := range m.nodes {
		if n.listed == nil && n.slots == nil || n.demand <= m.size(n.class) {
			continue
		}
		if m.size(n.class) >= mostItems {
			m.unbounded = append(m.unbounded, reason{what: "more items of " + n.path + " than " + "a proof can look at"})
			continue
		}
		m.sizes[n.class] = min(n.demand, mostItems)
		done = false
	}
	return done
}

// leaveUnbounded says that the bounds of lists lose something.
func (m *machine) leaveUnbounded(sources []*node, what string) {
	if len(sources) > 0 {
		m.unbounded = append(m.unbounded, reason{m.at, what})
	}
}

// opaqueValue is what is not known of an expression: any value of a type, or an error. The key tells what it is of.
func (m *machine) opaqueValue(key string, t *types.Type, what string) *value {
	o := m.opaques[key]
	if o == nil {
		o = m.newOpaque(key, what)
		g := m.newMerger()
		g.add(o.err, failure())
		g.add(o.err.Negate(), m.typedValue(o, t))
		o.val = g.value()
	}
	return o.val
}

func (m *machine) newOpaque(key, what string) *opaque {
	o := &opaque{key: key, err: m.store.NewBool(), reason: reason{m.at, what}}
	m.opaques[key] = o
	m.unknown = append(m.unknown, o)
	return o
}

// typedValue is any value of a type.
func (m *machine) typedValue(o *opaque, t *types.Type) *value {
	switch {
	case t == nil:
	case t.IsExactType(types.BoolType):
		o.asked, o.isBool, o.truth = true, solve.True, m.store.NewBool()
		return newBool(o.truth)
	case t.IsExactType(types.IntType):
		least, most := solve.Range(64)
		o.num = m.store.NewInt(least, most, 1)
		return newLeaf(intLeaf{x: o.num, factor: 1})
	case t.IsExactType(types.StringType):
		o.isText, o.text = true, m.store.NewText("a")
		return newLeaf(textLeaf{x: o.text, isVar: true})
	}
	return newLeaf(opaqueLeaf{o})
}

// join is a text of which nothing is known but that it depends on two others: joining texts is no error.
func (m *machine) join(a, b textLeaf) *value {
	key := keyOf("join", newLeaf(a), newLeaf(b))
	o := m.opaques[key]
	if o == nil {
		o = m.newOpaque(key, "+ of two texts that are not constant")
		o.err, o.val = solve.False, m.typedValue(o, types.StringType)
	}
	return o.val
}

// keyOf is a text for a function of values: equal for equal ones, and for no others.
func keyOf(function string, args ...*value) string {
	var key strings.Builder
	key.WriteString(function)
	for _, a := range args {
		key.WriteByte(' ')
		a.writeKey(&key)
	}
	return key.String()
}

// opaqueCall is what is not known of a function of values.
func (m *machine) opaqueCall(function string, args ...*value) *value {
	return m.opaqueValue(keyOf(function, args...), m.typeHere(), function)
}

// typeHere is the type of the part of an expression at hand, nil if it is not known.
func (m *machine) typeHere() *types.Type {
	if m.at.ast == nil {
		return nil
	}
	return m.at.ast.GetType(m.at.id)
}

// opaqueOf is opaqueCall of leaves.
func (m *machine) opaqueOf(function string, leaves ...leaf) *value {
	args := make([]*value, len(leaves))
	for i, l := range leaves {
		args[i] = newLeaf(l)
	}
	return m.opaqueCall(function, args...)
}

// toBool makes an opaque value a bool, if it is one.
func (m *machine) toBool(v *value) *value {
	g := m.newMerger()
	for _, p := range v.parts() {
		o, isOpaque := p.leaf.(opaqueLeaf)
		switch b := p.leaf.(type) {
		case boolLeaf:
			g.add(p.when, newBool(b.truth))
		default:
			if !isOpaque {
				g.add(p.when, failure())
				continue
			}
			if !o.asked {
				o.asked, o.isBool, o.truth = true, m.store.NewBool(), m.store.NewBool()
			}
			g.add(m.store.Conjoin(p.when, o.isBool), newBool(o.truth))
			g.add(m.store.Conjoin(p.when, o.isBool.Negate()), failure())
		}
	}
	g.add(v.err, failure())
	return g.value()
}
