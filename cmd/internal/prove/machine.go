package prove

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// A machine evaluates expressions for all objects of a kind at once.
//
// Lists and maps have a bound, the size of their class. Within the bound, answers are exact: the result of a quantifier
// over a list depends on at most as many items as require registers (one item for which all is false, or an error; two
// for which exists_one is true), and removing the others does not change it, in the supported contexts. So for every
// object with longer lists, a smaller object exists for which all expressions have the same results, as long as the sum
// of the required items of a list does not exceed its size. Otherwise the sizes grow and everything is evaluated again;
// if that does not end, the result is not a proof. Uses of a list that do not depend on its items in this way (a
// non-constant index, arithmetic with its size) leave it unbounded.
type machine struct {
	store *solve.Store
	nodes []*node
	sizes map[string]int      // by class
	keys  map[string][]string // of maps, by class: constant keys
	grown bool                // new keys were found: evaluate again

	opaques  map[string]*opaque
	accesses []*access
	records  int             // their number
	zeros    bool            // members that Go omits if they are zero may be zero
	mutates  bool            // mutating policies take part: they see the object before the registry
	doubts   []solve.Formula // the conditions under which a part of a mutation is not decided
	assumed  []solve.Formula // what the registry requires of objects that mutations change
	inserted bool            // a JSON patch added an item to a list with keys

	quantities map[textLeaf]*quantity
	compared   map[[3]int64]bool // the comparisons x - y <= c of quantities
	distance   big.Int           // the sum of their constants

	unknown   []*opaque
	wishes    []solve.Formula // properties of most objects
	unbounded []reason        // the reason why the result is not a proof: the bound of a list is not exact

	exact bool // objects have the names of a model, although they look alike

	at source // of the current expression
}

// A source is an expression with its syntax tree.
type source struct {
	policy *policy.Policy
	expr   policy.Expr
	ast    *ast.AST
	id     int64 // of the current node
}

// A reason names the part of an expression that cannot be decided.
type reason struct {
	source
	what string
}

// An opaque is the unknown value of an undecided expression: any value, but always the same one.
type opaque struct {
	key string
	typ *types.Type // nil: unknown
	err solve.Formula
	reason
	of            []*opaque // the arguments of a function that are unknown, too
	val           *value
	isBool, truth solve.Formula // of an untyped value used as a bool, or the truth of a bool
	asked         bool
	num           solve.Int  // of an int
	text          solve.Text // of a string
	isText        bool
	isPart        bool          // of a member that may be absent
	there         solve.Formula // it is present
}

// isIn reports whether a formula with these variables depends on the value.
func (o *opaque) isIn(v solve.Variables) bool {
	return v.Bools[o.err] || o.asked && (v.Bools[o.isBool] || v.Bools[o.truth]) || o.num != 0 && v.Ints[o.num] ||
		o.isText && v.Texts[o.text] || o.isPart && v.Bools[o.there]
}

// mostClauses bounds the work for one question: about two seconds.
const mostClauses = 2_000_000

func newMachine(sizes map[string]int, keys map[string][]string) *machine {
	store := solve.NewStore()
	store.Limit(mostClauses)
	return &machine{store: store, sizes: sizes, keys: keys, opaques: map[string]*opaque{},
		quantities: map[textLeaf]*quantity{}, compared: map[[3]int64]bool{}}
}

func (m *machine) size(class string) int { return max(1, m.sizes[class]) }

// mostItems is the largest bound of a list.
const mostItems = 10

// settle reports whether all lists were as long as required; otherwise it increases the sizes.
func (m *machine) settle() bool {
	done := !m.grown
	for _, n := range m.nodes {
		if n.listed == nil && n.slots == nil || n.demand <= m.size(n.class) {
			continue
		}
		if m.size(n.class) >= mostItems {
			m.unbounded = append(m.unbounded, reason{what: fmt.Sprintf("more than %d items of %s", mostItems, n.path)})
			continue
		}
		m.sizes[n.class] = min(n.demand, mostItems)
		done = false
	}
	return done
}

// leaveUnbounded records that the bounds of lists are not exact.
func (m *machine) leaveUnbounded(sources []*node, what string) {
	if len(sources) > 0 {
		m.unbounded = append(m.unbounded, reason{m.at, what})
	}
}

// opaqueValue returns an unknown value: any value of a type, or an error. The key identifies it.
func (m *machine) opaqueValue(key string, t *types.Type, what string) *value {
	return m.resultOf(key, t, what, false)
}

// resultOf is opaqueValue, for a total function without the error.
func (m *machine) resultOf(key string, t *types.Type, what string, isTotal bool) *value {
	o := m.opaques[key]
	if o == nil {
		o = m.newOpaque(key, what)
		o.typ = t
		if isTotal {
			o.err = solve.False
		}
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

// typedValue returns any value of a type.
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

// join returns a text that only depends on two others: joining texts is never an error.
func (m *machine) join(a, b textLeaf) *value {
	key := keyOf("join", newLeaf(a), newLeaf(b))
	o := m.opaques[key]
	if o == nil {
		o = m.newOpaque(key, "+ of two strings that are not constant")
		o.err, o.val = solve.False, m.typedValue(o, types.StringType)
	}
	return o.val
}

// keyOf returns a key for a function of values: the same key for equal values only.
func keyOf(function string, args ...*value) string {
	var key strings.Builder
	key.WriteString(function)
	for _, a := range args {
		key.WriteByte(' ')
		a.writeKey(&key)
	}
	return key.String()
}

// opaqueCall returns the unknown result of a function of values.
func (m *machine) opaqueCall(function string, args ...*value) *value {
	key, known := keyOf(function, args...), len(m.unknown)
	out := m.resultOf(key, m.typeHere(), function, isTotal(function, args))
	if len(m.unknown) > known {
		for _, v := range args {
			for _, a := range v.alts {
				if l, ok := a.leaf.(opaqueLeaf); ok {
					m.opaques[key].of = append(m.opaques[key].of, l.opaque)
				}
			}
		}
	}
	return out
}

// typeHere returns the type of the current part of an expression, nil if it is not known.
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

// toBool converts an opaque value to a bool, if it is one.
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
