package solve

import (
	"math/big"
	"slices"
)

// An edge is the constraint x - y <= c.
type edge struct {
	x, y    int
	c       *big.Int
	literal Formula
	isBound bool // from a variable's bounds, not from a literal
}

// solveInts finds integers that satisfy the edges, or returns conflicting literals: those of a negative cycle.
func (s *Store) solveInts(literals []edge) (values map[Int]int64, conflict []Formula) {
	used := map[int]bool{}
	for _, e := range literals {
		used[e.x], used[e.y] = true, true
	}
	delete(used, 0)
	edges := slices.Clone(literals)
	vars := make([]int, 0, len(used))
	for v := range used {
		vars = append(vars, v)
	}
	slices.Sort(vars)
	bound := func(v int, least, most int64) {
		edges = append(edges, edge{x: v, c: big.NewInt(most), isBound: true},
			edge{y: v, c: new(big.Int).Neg(big.NewInt(least)), isBound: true})
	}
	for _, v := range vars {
		bound(v, s.ints[v].least, s.ints[v].most)
	}
	if _, circle := shorten(edges, vars); circle != nil {
		for _, e := range circle {
			if !e.isBound {
				conflict = append(conflict, e.literal)
			}
		}
		return nil, conflict
	}
	values = map[Int]int64{}
	for _, v := range vars { // each variable takes its preferred value within the limits of earlier ones
		most := distances(edges, vars, 0, false)[v]
		least := new(big.Int).Neg(distances(edges, vars, 0, true)[v])
		at := big.NewInt(s.wishes[v])
		if at.Cmp(least) < 0 {
			at = least
		} else if at.Cmp(most) > 0 {
			at = most
		}
		values[Int(v)] = at.Int64()
		bound(v, at.Int64(), at.Int64())
	}
	return values, nil
}

// shorten relaxes edges until nothing changes. If it does not end, it returns the edges of a negative cycle.
func shorten(edges []edge, vars []int) (map[int]*big.Int, []edge) {
	at := map[int]*big.Int{0: new(big.Int)}
	for _, v := range vars {
		at[v] = new(big.Int)
	}
	by := map[int]edge{}
	for round := 0; ; round++ {
		changed := -1
		for _, e := range edges { // x <= y + c
			if sum := new(big.Int).Add(at[e.y], e.c); sum.Cmp(at[e.x]) < 0 {
				at[e.x], by[e.x], changed = sum, e, e.x
			}
		}
		if changed < 0 {
			return at, nil
		}
		if round <= len(at) {
			continue
		}
		for range at { // onto the cycle
			changed = by[changed].y
		}
		var circle []edge
		for v := changed; ; {
			circle = append(circle, by[v])
			if v = by[v].y; v == changed {
				return nil, circle
			}
		}
	}
}

// distances returns the tightest c of v - from <= c or, with back, of from - v <= c. The edges do not have a negative
// cycle.
func distances(edges []edge, vars []int, from int, back bool) map[int]*big.Int {
	at := map[int]*big.Int{from: new(big.Int)}
	for range len(vars) + 1 {
		for _, e := range edges {
			x, y := e.x, e.y
			if back {
				x, y = y, x
			}
			if at[y] == nil {
				continue
			}
			if sum := new(big.Int).Add(at[y], e.c); at[x] == nil || sum.Cmp(at[x]) < 0 {
				at[x] = sum
			}
		}
	}
	return at
}
