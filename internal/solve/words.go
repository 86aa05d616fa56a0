package solve

import (
	"slices"
	"strconv"
	"strings"
)

// A member is the constraint that a string is a word of a language, or is not.
type member struct {
	lang *Lang
	not  bool
}

func (m member) has(word string) bool { return m.lang.Has(word) != m.not }

// found is the result of a search.
type found struct {
	word   string
	exists bool
	gaveUp bool
}

// mostStates is the maximum number of states of a product of automata that a search visits. A search takes from the
// budget of the store, too: as much as a clause for so many steps, or instructions of regular expressions.
const (
	mostStates    = 60_000
	stepsAsClause = 20
)

// wordIn returns the shortest word that satisfies all members.
func (s *Store) wordIn(all []member) found {
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.key(), b.key()) })
	var key strings.Builder
	for _, m := range all {
		key.WriteString(m.key() + "\x00")
	}
	f, ok := s.words[key.String()]
	if !ok {
		f = s.searchWord(all)
		if !f.gaveUp || s.budget >= 0 { // not for want of budget, of which there may be more later
			s.words[key.String()] = f
		}
	}
	if f.gaveUp {
		s.large = largestRegex(all)
	}
	return f
}

// largestRegex returns that of the members' regular expressions of which a search made most states; "": there is none.
func largestRegex(all []member) string {
	m := slices.MaxFunc(all, func(a, b member) int { return len(a.lang.final) - len(b.lang.final) })
	return m.lang.regex
}

func (m member) key() string { return strconv.FormatBool(m.not) + m.lang.name }

// searchWord searches the product of the automata, breadth first.
func (s *Store) searchWord(all []member) found {
	langs := make([]*Lang, len(all))
	for i, m := range all {
		langs[i] = m.lang
	}
	runes := alphabet(langs)
	type visit struct {
		states []int
		from   int
		r      rune
	}
	text := func(states []int) string {
		b := make([]byte, 0, 4*len(states))
		for _, state := range states {
			b = append(strconv.AppendInt(b, int64(state), 32), ' ')
		}
		return string(b)
	}
	queue := []visit{{states: make([]int, len(all)), from: -1}}
	seen := map[string]bool{text(queue[0].states): true}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		if accepts(all, at.states) {
			var word []rune
			for j := i; queue[j].from >= 0; j = queue[j].from {
				word = append(word, queue[j].r)
			}
			slices.Reverse(word)
			return found{word: string(word), exists: true}
		}
		if len(queue) > mostStates {
			return found{gaveUp: true}
		}
		s.work += len(runes) * len(all)
		if !s.spend(s.work / stepsAsClause) {
			return found{gaveUp: true}
		}
		s.work %= stepsAsClause
		for _, r := range runes {
			next := make([]int, len(all))
			for k, m := range all {
				next[k] = m.lang.next(at.states[k], r)
			}
			if key := text(next); !seen[key] {
				seen[key] = true
				queue = append(queue, visit{next, i, r})
			}
		}
	}
	return found{}
}

func accepts(all []member, states []int) bool {
	for i, m := range all {
		if m.lang.accepts(states[i]) == m.not {
			return false
		}
	}
	return true
}

// A textLiteral is a literal about strings.
type textLiteral struct {
	literal Formula
	x, y    Text // y of an equality
	member  member
	equal   bool // an equality
	not     bool // of an equality: the negation
}

// A textSolution is the result for literals about strings.
type textSolution struct {
	words     map[Text]string
	conflicts [][]Formula // conflicting literals
	gaveUp    bool
}

// solveTexts finds words that satisfy all literals.
func (s *Store) solveTexts(all []textLiteral) textSolution {
	words, failing, gaveUp := s.assign(all)
	out := textSolution{words: words, gaveUp: gaveUp}
	for _, literals := range failing {
		for i := 0; i < len(literals); { // a conflict without irrelevant literals
			_, fewer, gaveUp := s.assign(slices.Delete(slices.Clone(literals), i, i+1))
			if gaveUp || len(fewer) == 0 {
				i++
				continue
			}
			literals = fewer[0]
		}
		conflict := make([]Formula, len(literals))
		for i, l := range literals {
			conflict[i] = l.literal
		}
		out.conflicts = append(out.conflicts, conflict)
	}
	return out
}

// assign returns words that satisfy literals, or sets of conflicting literals.
func (s *Store) assign(all []textLiteral) (words map[Text]string, failing [][]textLiteral, gaveUp bool) {
	leader := map[Text]Text{}
	var find func(x Text) Text
	find = func(x Text) Text {
		if up, ok := leader[x]; ok && up != x {
			up = find(up)
			leader[x] = up
			return up
		}
		leader[x] = x
		return x
	}
	for _, l := range all {
		find(l.x)
		if l.equal {
			find(l.y)
			if !l.not {
				leader[find(l.x)] = find(l.y)
			}
		}
	}
	classes := map[Text]*class{}
	var order []*class
	of := func(x Text) *class {
		x = find(x)
		if classes[x] == nil {
			classes[x] = &class{apart: map[*class]bool{}}
			order = append(order, classes[x])
		}
		return classes[x]
	}
	for _, l := range all {
		c := of(l.x)
		c.literals = append(c.literals, l)
		switch {
		case !l.equal:
			c.members = append(c.members, l.member)
		case l.not:
			other := of(l.y)
			if other == c {
				failing = append(failing, append(c.equalities(all, find), l))
				continue
			}
			c.apart[other], other.apart[c] = true, true
		}
	}
	for x := range leader {
		of(x).texts = append(of(x).texts, x)
	}
	if failing != nil {
		return nil, failing, false
	}
	for _, c := range order {
		slices.Sort(c.texts)
		slices.SortFunc(c.members, func(a, b member) int { return strings.Compare(a.key(), b.key()) })
		c.members = slices.Compact(c.members)
		f := s.choose(c, nil)
		if f.gaveUp {
			return nil, nil, true
		}
		if !f.exists {
			failing = append(failing, c.literals)
		}
		c.word = f.word
	}
	if failing != nil {
		return nil, failing, false
	}
	if ok, gaveUp := s.separate(order); gaveUp || !ok {
		return nil, [][]textLiteral{all}, gaveUp
	}
	words = map[Text]string{}
	for _, c := range order {
		for _, x := range c.texts {
			words[x] = c.word
		}
	}
	return words, nil, false
}

// A class is a set of equal strings.
type class struct {
	texts    []Text
	literals []textLiteral
	members  []member
	apart    map[*class]bool
	word     string
}

// equalities returns the equalities between the texts of a class.
func (c *class) equalities(all []textLiteral, find func(Text) Text) []textLiteral {
	at := find(c.literals[0].x)
	return slices.DeleteFunc(slices.Clone(all),
		func(l textLiteral) bool { return !l.equal || l.not || find(l.x) != at })
}

// choose returns a word for a class outside of an excluded set: the preferred word of one of its texts, if possible.
func (s *Store) choose(c *class, but []string) found {
	for _, x := range c.texts {
		wish := s.hints[x]
		if wish != "" && !slices.Contains(but, wish) &&
			!slices.ContainsFunc(c.members, func(m member) bool { return !m.has(wish) }) {
			return found{word: wish, exists: true}
		}
	}
	members := slices.Clone(c.members)
	for _, word := range but {
		members = append(members, member{s.Word(word), true})
	}
	return s.wordIn(members)
}

// separate assigns different words to classes that must differ. A class needs at most as many candidate words as there
// are classes, because one of them is always free.
func (s *Store) separate(all []*class) (ok, gaveUp bool) {
	var open []*class
	for _, c := range all {
		if len(c.apart) > 0 {
			open = append(open, c)
		}
	}
	words := map[*class][]string{}
	for _, c := range open {
		for len(words[c]) <= len(c.apart) {
			f := s.choose(c, words[c])
			if f.gaveUp {
				return false, true
			}
			if !f.exists {
				break
			}
			words[c] = append(words[c], f.word)
		}
	}
	slices.SortStableFunc(open, func(a, b *class) int { return len(words[a]) - len(words[b]) })
	tries := 0
	var place func(i int) bool
	place = func(i int) bool {
		if i == len(open) {
			return true
		}
		if tries++; tries > mostStates {
			gaveUp = true
			return false
		}
		c := open[i]
		for _, word := range words[c] {
			taken := slices.ContainsFunc(open[:i], func(o *class) bool { return c.apart[o] && o.word == word })
			if taken {
				continue
			}
			c.word = word
			if place(i + 1) {
				return true
			}
			if gaveUp || len(words[c]) > len(c.apart) { // another word is always free
				return false
			}
		}
		return false
	}
	return place(0), gaveUp
}
