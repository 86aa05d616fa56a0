package solve

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// member returns the term that a string is in a language. The predicates of SMT-LIB are easier for its solvers than
// languages with the same meaning.
func (w *scriptWriter) member(l *Lang, term string) (string, error) {
	switch a := l.auto.(type) {
	case upTo:
		return "(<= (str.len " + term + ") " + numeralOf(int64(a)) + ")", nil
	case around:
		for _, part := range []*string{&a.before, &a.after} {
			if *part != "" {
				*part = " " + quoteSMT(*part)
			}
		}
		return w.member(a.Lang, "(str.++"+a.before+" "+term+a.after+")")
	case *search:
		if text, fromStart, toEnd, ok := literalIn(a.parsed); ok {
			word := quoteSMT(text)
			switch {
			case fromStart && toEnd:
				return "(= " + term + " " + word + ")", nil
			case fromStart:
				return "(str.prefixof " + word + " " + term + ")", nil
			case toEnd:
				return "(str.suffixof " + word + " " + term + ")", nil
			}
			return "(str.contains " + term + " " + word + ")", nil
		}
	}
	name := w.languages[l]
	if name == "" {
		text, err := writeLanguage(l)
		if err != nil {
			return "", err
		}
		name = fmt.Sprintf("l%d", len(w.languages))
		w.languages[l] = name
		w.line("(define-fun " + name + " () RegLan " + text + ")")
	}
	return "(str.in_re " + term + " " + name + ")", nil
}

// literalIn returns the text of a regular expression that is a text, perhaps between anchors.
func literalIn(re *syntax.Regexp) (text string, fromStart, toEnd, ok bool) {
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	if len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		fromStart, parts = true, parts[1:]
	}
	if n := len(parts); n > 0 && parts[n-1].Op == syntax.OpEndText {
		toEnd, parts = true, parts[:n-1]
	}
	switch {
	case len(parts) == 0:
		return "", fromStart, toEnd, true
	case len(parts) > 1 || parts[0].Op != syntax.OpLiteral || parts[0].Flags&syntax.FoldCase != 0 ||
		slices.ContainsFunc(parts[0].Rune, func(r rune) bool { return !isWritable(r, r+1) }):
		return "", false, false, false
	}
	return string(parts[0].Rune), fromStart, toEnd, true
}

// isWritable reports whether SMT-LIB may tell the characters before each of some others from these.
func isWritable(breaks ...rune) bool {
	return !slices.ContainsFunc(breaks, func(r rune) bool {
		return r >= 0xd800 && r <= 0xe000 || r > alikeFrom && r <= unicode.MaxRune
	})
}

// writeLanguage returns the term of a language: from its regular expression or, where this has assertions, from its
// automaton.
func writeLanguage(l *Lang) (string, error) {
	if !isWritable(l.auto.breaks()...) {
		return "", fmt.Errorf("%w: a language has characters above 0x2FFFF or surrogates", ErrUnwritable)
	}
	if a, ok := l.auto.(*search); ok {
		if text, ok := writeRegexp(a.parsed, open, open); ok && len(text) <= mostSMTRegex {
			return text, nil
		}
	}
	return eliminateStates(l)
}

// A side is what is beside a part of a regular expression.
type side int

const (
	open   side = iota // any text
	closed             // the start or the end of the text
	inner              // another part
)

// writeRegexp returns the term of the texts that contain a match of a regular expression, together with what is beside
// it. It knows the assertions of start and end at the ends only.
func writeRegexp(re *syntax.Regexp, left, right side) (string, bool) {
	switch re.Op {
	case syntax.OpCapture:
		return writeRegexp(re.Sub[0], left, right)
	case syntax.OpAlternate:
		return writeParts("re.union", re.Sub, func(_ int, sub *syntax.Regexp) (string, bool) {
			return writeRegexp(sub, left, right)
		})
	case syntax.OpBeginText, syntax.OpEndText:
		return writeRegexp(&syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{re}}, left, right)
	case syntax.OpConcat:
		parts := re.Sub
		for len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
			if left == inner {
				return "", false
			}
			left, parts = closed, parts[1:]
		}
		for n := len(parts); n > 0 && parts[n-1].Op == syntax.OpEndText; n = len(parts) {
			if right == inner {
				return "", false
			}
			right, parts = closed, parts[:n-1]
		}
		if len(parts) > 1 {
			return writeParts("re.++", parts, func(i int, sub *syntax.Regexp) (string, bool) {
				beside := [2]side{inner, inner}
				if i == 0 {
					beside[0] = left
				}
				if i == len(parts)-1 {
					beside[1] = right
				}
				return writeRegexp(sub, beside[0], beside[1])
			})
		}
		re = &syntax.Regexp{Op: syntax.OpEmptyMatch}
		if len(parts) == 1 {
			re = parts[0]
		}
		if isEdged(re) {
			return writeRegexp(re, left, right)
		}
	}
	text, ok := writeMatch(re)
	if left == open {
		text = joinTerms("re.++", "re.all", text)
	}
	if right == open {
		text = joinTerms("re.++", text, "re.all")
	}
	return text, ok
}

// isEdged reports whether a part may have assertions at its ends that writeRegexp knows.
func isEdged(re *syntax.Regexp) bool {
	return slices.Contains([]syntax.Op{syntax.OpCapture, syntax.OpAlternate, syntax.OpConcat}, re.Op)
}

// emptyTerm is the language of the empty text.
const emptyTerm = `(str.to_re "")`

// writeMatch returns the term of the texts that match a regular expression without assertions.
func writeMatch(re *syntax.Regexp) (text string, ok bool) {
	sub := func() string {
		text, ok = writeRegexp(re.Sub[0], inner, inner)
		return text
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return "re.none", true
	case syntax.OpEmptyMatch:
		return emptyTerm, true
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return "(str.to_re " + quoteSMT(string(re.Rune)) + ")", true
		}
		var all []string
		for _, r := range re.Rune {
			set := []rune{r, r}
			for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
				set = append(set, other, other)
			}
			all = append(all, writeSet(set))
		}
		return joinTerms("re.++", all...), true
	case syntax.OpCharClass:
		return writeSet(re.Rune), true
	case syntax.OpAnyChar:
		return "re.allchar", true
	case syntax.OpAnyCharNotNL:
		return writeSet([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}), true
	case syntax.OpStar:
		return "(re.* " + sub() + ")", ok
	case syntax.OpPlus:
		return "(re.+ " + sub() + ")", ok
	case syntax.OpQuest:
		return "(re.opt " + sub() + ")", ok
	case syntax.OpRepeat:
		part := sub()
		if re.Max >= 0 {
			return fmt.Sprintf("((_ re.loop %d %d) %s)", re.Min, re.Max, part), ok
		}
		return fmt.Sprintf("(re.++ ((_ re.^ %d) %s) (re.* %s))", re.Min, part, part), ok
	}
	return "", false
}

// writeParts joins the terms of parts.
func writeParts(operator string, parts []*syntax.Regexp, write func(int, *syntax.Regexp) (string, bool)) (string,
	bool) {
	all := make([]string, len(parts))
	for i, part := range parts {
		text, ok := write(i, part)
		if !ok {
			return "", false
		}
		all[i] = text
	}
	return joinTerms(operator, all...), true
}

func joinTerms(operator string, all ...string) string {
	if len(all) == 1 {
		return all[0]
	}
	return "(" + operator + " " + strings.Join(all, " ") + ")"
}

// writeSet returns the term of the characters in ranges, which are pairs of the first and the last one.
func writeSet(ranges []rune) string {
	var all []string
	for i := 0; i+1 < len(ranges); i += 2 {
		from, to := ranges[i], min(ranges[i+1], endOfSMTRunes-1)
		switch {
		case from > to:
		case from == 0 && to == endOfSMTRunes-1:
			return "re.allchar"
		case from == to:
			all = append(all, "(str.to_re "+quoteRune(from)+")")
		default:
			all = append(all, "(re.range "+quoteRune(from)+" "+quoteRune(to)+")")
		}
	}
	if len(all) == 0 {
		return "re.none"
	}
	return joinTerms("re.union", all...)
}

// quoteRune is quoteSMT of one character.
func quoteRune(r rune) string { return quoteSMT(string(r)) }

// mostEliminated is the maximum number of states of an automaton that becomes a term.
const mostEliminated = 300

var errLongLanguage = fmt.Errorf("%w: a language is too large", ErrUnwritable)

// A graph has the terms of the transitions between states; empty: there is none.
type graph [][]string

// eliminateStates returns the term of a language from its automaton: one state after the other is replaced by
// transitions between the others.
func eliminateStates(l *Lang) (string, error) {
	g, err := graphOf(l)
	if err != nil {
		return "", err
	}
	start, end := len(g)-2, len(g)-1
	for range start {
		best, least := -1, 0
		for v := range start {
			if cost := g.cost(v); cost > 0 && (best < 0 || cost < least) {
				best, least = v, cost
			}
		}
		if best < 0 {
			break
		}
		if !g.eliminate(best) {
			return "", errLongLanguage
		}
	}
	if text := g[start][end]; text != "" {
		return text, nil
	}
	return "re.none", nil
}

// graphOf returns the automaton of a language, with a start and an end behind its states.
func graphOf(l *Lang) (graph, error) {
	breaks := append([]rune{0, endOfSMTRunes}, l.auto.breaks()...)
	slices.Sort(breaks)
	breaks = slices.Compact(breaks)
	breaks = breaks[slices.Index(breaks, 0) : slices.Index(breaks, endOfSMTRunes)+1]
	number, states := map[int]int{0: 0}, []int{0}
	var sets []map[int][]rune // by state and next state: the ranges of characters
	for i := 0; i < len(states); i++ {
		sets = append(sets, map[int][]rune{})
		for k, from := range breaks[:len(breaks)-1] {
			state := l.next(states[i], from)
			to, known := number[state]
			if !known {
				to = len(states)
				number[state], states = to, append(states, state)
			}
			if set := sets[i][to]; len(set) > 0 && set[len(set)-1] == from-1 {
				set[len(set)-1] = breaks[k+1] - 1
			} else {
				sets[i][to] = append(set, from, breaks[k+1]-1)
			}
		}
		if len(states) > mostEliminated {
			return nil, errLongLanguage
		}
	}
	g := make(graph, len(states)+2)
	for i := range g {
		g[i] = make([]string, len(g))
	}
	for i, state := range states {
		for to, set := range sets[i] {
			g[i][to] = writeSet(set)
		}
		if l.accepts(state) {
			g[i][len(states)+1] = emptyTerm
		}
	}
	g[len(states)][0] = emptyTerm
	return g, nil
}

// cost returns how many transitions the elimination of a state makes, and 1 for a state without any.
func (g graph) cost(v int) int {
	in, out := 0, 0
	for i := range g {
		if i != v && g[i][v] != "" {
			in++
		}
		if i != v && g[v][i] != "" {
			out++
		}
	}
	if in == 0 && out == 0 {
		return 0
	}
	return in*out + 1
}

// eliminate replaces a state, and reports whether the terms are short enough.
func (g graph) eliminate(v int) bool {
	loop := emptyTerm
	if g[v][v] != "" {
		loop = "(re.* " + g[v][v] + ")"
	}
	for i := range g {
		for j := range g {
			if i == v || j == v || g[i][v] == "" || g[v][j] == "" {
				continue
			}
			parts := slices.DeleteFunc([]string{g[i][v], loop, g[v][j]}, func(s string) bool { return s == emptyTerm })
			around := emptyTerm
			if len(parts) > 0 {
				around = joinTerms("re.++", parts...)
			}
			if g[i][j] != "" {
				around = joinTerms("re.union", g[i][j], around)
			}
			if len(around) > mostSMTRegex {
				return false
			}
			g[i][j] = around
		}
	}
	for i := range g {
		g[i][v], g[v][i] = "", ""
	}
	return true
}
