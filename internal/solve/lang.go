package solve

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// A Lang is a regular language of strings: an automaton whose states are created on demand. A store shares equal
// languages.
type Lang struct {
	name  string
	regex string // the regular expression that it is made of; "": none
	auto  automaton
	steps map[step]int
	final map[int]bool
}

type step struct {
	state int
	r     rune
}

// An automaton reads runes. Its states are numbers; it starts in state 0.
type automaton interface {
	next(state int, r rune) int
	accepts(state int) bool
	// breaks returns the runes at which behaviour may change: the automaton treats all runes from one to the next
	// alike.
	breaks() []rune
}

func (s *Store) language(name string, make func() (automaton, error)) (*Lang, error) {
	if l := s.langs[name]; l != nil {
		return l, nil
	}
	auto, err := make()
	if err != nil {
		return nil, err
	}
	l := &Lang{name: name, auto: auto, steps: map[step]int{}, final: map[int]bool{}}
	s.langs[name] = l
	return l, nil
}

func (l *Lang) next(state int, r rune) int {
	at := step{state, r}
	to, ok := l.steps[at]
	if !ok {
		to = l.auto.next(state, r)
		l.steps[at] = to
	}
	return to
}

func (l *Lang) accepts(state int) bool {
	yes, ok := l.final[state]
	if !ok {
		yes = l.auto.accepts(state)
		l.final[state] = yes
	}
	return yes
}

// run reads a text from a given state.
func (l *Lang) run(state int, text string) int {
	for _, r := range text {
		state = l.next(state, r)
	}
	return state
}

// Has reports whether a word is in the language.
func (l *Lang) Has(word string) bool { return l.accepts(l.run(0, word)) }

// Matching returns the language of the texts that contain a match of a regular expression of Go.
func (s *Store) Matching(pattern string) (*Lang, error) {
	l, err := s.language("~"+pattern, func() (automaton, error) { return s.newSearch(pattern) })
	if err != nil {
		return nil, err
	}
	l.regex = pattern
	return l, nil
}

// Word returns the language of a single word.
func (s *Store) Word(word string) *Lang { return s.quote("=", `(?s)\A`, word, `\z`) }

// Prefix returns the language of the texts with a prefix.
func (s *Store) Prefix(prefix string) *Lang { return s.quote("^", `(?s)\A`, prefix, "") }

// Suffix returns the language of the texts with a suffix.
func (s *Store) Suffix(suffix string) *Lang { return s.quote("$", "(?s)", suffix, `\z`) }

// Containing returns the language of the texts that contain a text.
func (s *Store) Containing(part string) *Lang { return s.quote("*", "(?s)", part, "") }

func (s *Store) quote(kind, before, text, after string) *Lang {
	l, err := s.language(kind+text, func() (automaton, error) {
		return s.newSearch(before + regexp.QuoteMeta(text) + after)
	})
	if err != nil { // the text is not UTF-8; strings of CEL always are, so it never matches
		l, _ = s.language("nothing", func() (automaton, error) { return s.newSearch(`[^\x00-\x{10FFFF}]`) })
	}
	return l
}

// UpTo returns the language of the texts of at most n runes.
func (s *Store) UpTo(n int) *Lang {
	l, _ := s.language("#"+strconv.Itoa(n), func() (automaton, error) { return upTo(n), nil })
	return l
}

// Enclose returns the language of the texts that become words of another language between a prefix and a suffix.
func (s *Store) Enclose(l *Lang, before, after string) *Lang {
	if before == "" && after == "" {
		return l
	}
	around, _ := s.language(strconv.Quote(before)+strconv.Quote(after)+l.name, func() (automaton, error) {
		return newAround(l, before, after), nil
	})
	around.regex = l.regex
	return around
}

// Fold returns the language of the texts that become words of another language once their ASCII letters are in lower
// case, or in upper case.
func (s *Store) Fold(l *Lang, upper bool) *Lang {
	f := folded{l, 'A', 'a'}
	if upper {
		f.from, f.to = 'a', 'A'
	}
	lang, _ := s.language(string(f.to)+"|"+l.name, func() (automaton, error) { return f, nil })
	lang.regex = l.regex
	return lang
}

// A search is a regular expression that may match anywhere, simulated with the states of the machine of package regexp.
type search struct {
	parsed *syntax.Regexp
	prog   *syntax.Prog
	states []searchState
	byText map[string]int
	work   *int  // is increased by the instructions that are visited
	visits int   // of reach
	seen   []int // by instruction: the last visit
}

type searchState struct {
	threads []uint32 // in order, each once
	before  rune     // a rune equivalent to the last one; -1: none
	done    bool     // found
}

func (s *Store) newSearch(pattern string) (*search, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	a := &search{parsed: parsed, prog: prog, byText: map[string]int{}, work: &s.work,
		seen: make([]int, len(prog.Inst))}
	a.number(searchState{before: -1})
	return a, nil
}

func (a *search) number(s searchState) int {
	if s.done {
		s.threads, s.before = nil, -1
	}
	text := strconv.AppendBool(nil, s.done)
	text = utf8.AppendRune(text, s.before+1)
	for _, t := range s.threads {
		text = append(strconv.AppendInt(text, int64(t), 32), ' ')
	}
	i, ok := a.byText[string(text)]
	if !ok {
		i = len(a.states)
		a.states = append(a.states, s)
		a.byText[string(text)] = i
	}
	return i
}

// reach returns the instructions that read a rune, reachable from all threads and from the start, if next is the next
// rune.
func (a *search) reach(s searchState, next rune) (reading []uint32, found bool) {
	flags := syntax.EmptyOpContext(s.before, next)
	a.visits++
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if a.seen[pc] == a.visits {
			return
		}
		a.seen[pc] = a.visits
		*a.work++
		switch i := &a.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(i.Out)
			visit(i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^flags == 0 {
				visit(i.Out)
			}
		case syntax.InstMatch:
			found = true
		case syntax.InstFail:
		default:
			reading = append(reading, pc)
		}
	}
	for _, pc := range s.threads {
		visit(pc)
	}
	visit(uint32(a.prog.Start))
	return reading, found
}

func (a *search) next(state int, r rune) int {
	s := a.states[state]
	if s.done {
		return state
	}
	reading, found := a.reach(s, r)
	to := searchState{done: found, before: likeness(r)}
	for _, pc := range reading {
		if i := &a.prog.Inst[pc]; i.MatchRune(r) {
			to.threads = append(to.threads, i.Out)
		}
	}
	slices.Sort(to.threads)
	to.threads = slices.Compact(to.threads)
	return a.number(to)
}

// likeness returns a rune that assertions treat like r.
func likeness(r rune) rune {
	switch {
	case r == '\n':
		return '\n'
	case syntax.IsWordChar(r):
		return 'a'
	}
	return ' '
}

func (a *search) accepts(state int) bool {
	s := a.states[state]
	if s.done {
		return true
	}
	_, found := a.reach(s, -1)
	return found
}

func (a *search) breaks() []rune {
	var all []rune
	for i := range a.prog.Inst {
		switch inst := &a.prog.Inst[i]; inst.Op {
		case syntax.InstRuneAnyNotNL:
			all = append(all, '\n', '\n'+1)
		case syntax.InstEmptyWidth:
			all = append(all, '\n', '\n'+1, '0', '9'+1, 'A', 'Z'+1, '_', '_'+1, 'a', 'z'+1)
		case syntax.InstRune, syntax.InstRune1:
			if len(inst.Rune) == 1 {
				r := inst.Rune[0]
				all = append(all, r, r+1)
				if syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
					for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
						all = append(all, other, other+1)
					}
				}
				continue
			}
			for j := 0; j+1 < len(inst.Rune); j += 2 {
				all = append(all, inst.Rune[j], inst.Rune[j+1]+1)
			}
		}
	}
	return all
}

// upTo counts runes.
type upTo int

func (n upTo) next(state int, _ rune) int { return min(state+1, int(n)+1) }
func (n upTo) accepts(state int) bool     { return state <= int(n) }
func (upTo) breaks() []rune               { return nil }

// around is the automaton of Enclose. Its states are those of the language, except for the first.
type around struct {
	*Lang
	start         int
	before, after string
}

func newAround(l *Lang, before, after string) around {
	return around{l, l.run(0, before), before, after}
}

func (a around) inner(state int) int {
	if state == 0 {
		return a.start
	}
	return state - 1
}

func (a around) next(state int, r rune) int { return a.Lang.next(a.inner(state), r) + 1 }
func (a around) accepts(state int) bool     { return a.Lang.accepts(a.run(a.inner(state), a.after)) }
func (a around) breaks() []rune             { return a.auto.breaks() }

// folded is the automaton of Fold.
type folded struct {
	*Lang
	from, to rune
}

func (f folded) next(state int, r rune) int {
	if r >= f.from && r < f.from+26 {
		r += f.to - f.from
	}
	return f.Lang.next(state, r)
}

func (f folded) accepts(state int) bool { return f.Lang.accepts(state) }

func (f folded) breaks() []rune {
	all := append(slices.Clone(f.auto.breaks()), f.from, f.from+26)
	for _, r := range f.auto.breaks() {
		if r >= f.to && r <= f.to+26 {
			all = append(all, r+f.from-f.to)
		}
	}
	return all
}

// alphabet returns one rune of each set of runes that all languages treat alike, common characters first.
func alphabet(langs []*Lang) []rune {
	breaks := []rune{0, utf8.MaxRune + 1, 0xd800, 0xe000, ' ', 0x7f, 0xa0}
	for _, l := range langs {
		breaks = append(breaks, l.auto.breaks()...)
	}
	slices.Sort(breaks)
	breaks = slices.Compact(breaks)
	type choice struct {
		r    rune
		rank int
	}
	var all []choice
	for i, from := range breaks[:len(breaks)-1] {
		to := breaks[i+1] - 1
		if from < 0 || from >= 0xd800 && from < 0xe000 || from > utf8.MaxRune {
			continue
		}
		best := choice{from, len(liked) + 1}
		if !unicode.IsPrint(from) {
			best.rank++
		}
		for rank, r := range liked {
			if r >= from && r <= to {
				best = choice{r, rank}
				break
			}
		}
		all = append(all, best)
	}
	slices.SortStableFunc(all, func(a, b choice) int { return a.rank - b.rank })
	runes := make([]rune, len(all))
	for i, c := range all {
		runes[i] = c.r
	}
	return runes
}

var liked = []rune("abcdefghijklmnopqrstuvwxyz0123456789-./:_ABCDEFGHIJKLMNOPQRSTUVWXYZ@+*=,;")
