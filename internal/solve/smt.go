package solve

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Script is a question for Solve in SMT-LIB 2.6, the language of other solvers. Booleans, integers and strings become
// constants of the sorts Bool, Int and String, languages become terms of the sort RegLan. A node of the graph of
// formulas that has parts becomes a function without arguments, so the script is about as large as the graph.
//
// Characters of SMT-LIB are the numbers up to 0x2FFFF, and surrogates are among them; those of Go end at 0x10FFFF,
// without surrogates. The answers are the same, because NewScript refuses languages that would show the difference.
type Script struct {
	Text string

	store  *Store
	roots  []Formula
	values map[string]func(m *Model, value sexpr) error // by the name of a constant
}

// ErrUnwritable reports a formula that SMT-LIB cannot express, or only with a very long text.
var ErrUnwritable = errors.New("the formula cannot be written in SMT-LIB")

const (
	mostSMTText   = 16 << 20 // bytes of a script
	mostSMTRegex  = 1 << 20  // bytes of one language
	endOfSMTRunes = 0x30000  // characters of SMT-LIB are below

	// A language of a script treats all characters from here on alike, and there are no more strings than characters
	// from here to endOfSMTRunes: then a model has no need for other characters.
	alikeFrom = 0x2f000
)

// NewScript writes the question whether formulas and all assumptions are satisfiable. The error is ErrUnwritable.
func (s *Store) NewScript(formulas ...Formula) (*Script, error) {
	q := &Script{store: s, roots: append(slices.Clone(s.facts), formulas...),
		values: map[string]func(*Model, sexpr) error{}}
	w := &scriptWriter{Script: q, languages: map[*Lang]string{}}
	w.line("(set-option :produce-models true)")
	w.line("(set-logic QF_SLIA)")
	for _, i := range s.nodesOf(q.roots...) {
		if err := w.node(i); err != nil {
			return nil, err
		}
		if w.text.Len() > mostSMTText {
			return nil, fmt.Errorf("%w: it is too large", ErrUnwritable)
		}
	}
	for _, f := range q.roots {
		w.line("(assert " + w.literal(f) + ")")
	}
	w.line("(check-sat)")
	if len(w.order) > 0 {
		w.line("(get-value (" + strings.Join(w.order, " ") + "))")
	}
	if w.texts > endOfSMTRunes-alikeFrom {
		return nil, fmt.Errorf("%w: it has too many strings", ErrUnwritable)
	}
	q.Text = w.text.String()
	return q, nil
}

// A scriptWriter writes a script.
type scriptWriter struct {
	*Script
	text      strings.Builder
	order     []string // the names of constants
	texts     int      // how many of them are strings
	languages map[*Lang]string
}

func (w *scriptWriter) line(text string) {
	w.text.WriteString(text)
	w.text.WriteByte('\n')
}

// node writes the declarations of one node. Those of its parts are already there.
func (w *scriptWriter) node(i int) error {
	var term string
	switch n := w.store.nodes[i]; n.kind {
	case boolean:
		w.declare("b"+strconv.Itoa(i), "Bool", func(m *Model, v sexpr) error {
			m.bools[i] = v.atom == "true"
			return nil
		})
		return nil
	case conjunction:
		term = "(and " + w.literal(n.a) + " " + w.literal(n.b) + ")"
	case difference:
		x, y := w.number(Int(n.x)), w.number(Int(n.y))
		switch {
		case n.y == 0:
			term = "(<= " + x + " " + numeralOf(n.c) + ")"
		default:
			term = "(<= (- " + x + " " + y + ") " + numeralOf(n.c) + ")"
		}
	case membership:
		var err error
		if term, err = w.member(n.lang, w.string(Text(n.x))); err != nil {
			return err
		}
	case equality:
		term = "(= " + w.string(Text(n.x)) + " " + w.string(Text(n.y)) + ")"
	default:
		return nil
	}
	w.line("(define-fun n" + strconv.Itoa(i) + " () Bool " + term + ")")
	return nil
}

func (w *scriptWriter) literal(f Formula) string {
	switch {
	case f == True:
		return "true"
	case f == False:
		return "false"
	}
	name := "n" + strconv.Itoa(f.node())
	if w.store.nodes[f.node()].kind == boolean {
		name = "b" + strconv.Itoa(f.node())
	}
	if f.isNegated() {
		return "(not " + name + ")"
	}
	return name
}

// declare declares a constant, once.
func (w *scriptWriter) declare(name, sort string, read func(*Model, sexpr) error) (isNew bool) {
	if w.values[name] != nil {
		return false
	}
	w.values[name] = read
	w.order = append(w.order, name)
	w.line("(declare-const " + name + " " + sort + ")")
	return true
}

// number returns the term of an integer.
func (w *scriptWriter) number(x Int) string {
	if x == 0 {
		return "0"
	}
	name := "i" + strconv.Itoa(int(x))
	isNew := w.declare(name, "Int", func(m *Model, v sexpr) (err error) {
		m.ints[x], err = v.number()
		return err
	})
	if isNew {
		b := w.store.ints[x]
		w.line("(assert (<= " + numeralOf(b.least) + " " + name + " " + numeralOf(b.most) + "))")
	}
	return name
}

// string returns the term of a string.
func (w *scriptWriter) string(x Text) string {
	name := "t" + strconv.Itoa(int(x))
	if w.declare(name, "String", func(m *Model, v sexpr) (err error) {
		m.texts[x], err = v.text()
		return err
	}) {
		w.texts++
	}
	return name
}

// numeralOf returns the term of a number.
func numeralOf(n int64) string {
	if n < 0 {
		return "(- " + strconv.FormatInt(n, 10)[1:] + ")"
	}
	return strconv.FormatInt(n, 10)
}

// quoteSMT returns the term of a constant string.
func quoteSMT(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"':
			b.WriteString(`""`)
		case r < ' ' || r > '~' || r == '\\':
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// A sexpr is an expression of SMT-LIB: an atom, a constant string or a list.
type sexpr struct {
	atom     string
	isString bool // the atom is the value of a string
	isList   bool
	list     []sexpr
}

// readSexpr reads an expression, and returns the rest of the text.
func readSexpr(text string) (v sexpr, rest string, err error) {
	text = strings.TrimLeft(text, " \t\r\n")
	switch {
	case text == "" || text[0] == ')':
		return sexpr{}, "", errors.New("an expression is missing")
	case text[0] == '(':
		v.isList = true
		for rest = text[1:]; ; {
			rest = strings.TrimLeft(rest, " \t\r\n")
			if strings.HasPrefix(rest, ")") {
				return v, rest[1:], nil
			}
			var item sexpr
			if item, rest, err = readSexpr(rest); err != nil {
				return sexpr{}, "", err
			}
			v.list = append(v.list, item)
		}
	case text[0] == '"':
		var b strings.Builder
		for rest = text[1:]; ; {
			part, after, closed := strings.Cut(rest, `"`)
			b.WriteString(part)
			if !closed {
				return sexpr{}, "", errors.New("a string does not end")
			}
			if rest = after; !strings.HasPrefix(rest, `"`) {
				return sexpr{atom: b.String(), isString: true}, rest, nil
			}
			b.WriteByte('"')
			rest = rest[1:]
		}
	}
	end := strings.IndexAny(text, " \t\r\n()\"")
	if end < 0 {
		end = len(text)
	}
	return sexpr{atom: text[:end]}, text[end:], nil
}

func (v sexpr) number() (int64, error) {
	if v.isList && len(v.list) == 2 && v.list[0].atom == "-" {
		return strconv.ParseInt("-"+v.list[1].atom, 10, 64)
	}
	return strconv.ParseInt(v.atom, 10, 64)
}

// text returns the value of a string. Its escapes are those of SMT-LIB: \u{1F4A9} and \u00e4. A surrogate becomes
// another character, which no language of a script tells from it.
func (v sexpr) text() (string, error) {
	if !v.isString {
		return "", errors.New("a string is missing")
	}
	var b strings.Builder
	for rest := v.atom; rest != ""; {
		before, after, found := strings.Cut(rest, `\u`)
		b.WriteString(before)
		if !found {
			break
		}
		digits := after[:min(4, len(after))]
		rest = after[len(digits):]
		if strings.HasPrefix(after, "{") {
			digits, rest, _ = strings.Cut(after[1:], "}")
		}
		r, err := strconv.ParseUint(digits, 16, 20)
		if err != nil {
			return "", fmt.Errorf("a string has an unknown escape: \\u%s", after)
		}
		if r >= 0xd800 && r < 0xe000 {
			r += 0xe000 - 0xd800
		}
		b.WriteRune(rune(r))
	}
	return b.String(), nil
}

// Read reads the output of a solver: it returns a model, nil if the formulas are unsatisfiable. An error says why the
// output is not an answer. Every model is checked: it satisfies the formulas.
func (q *Script) Read(output string) (*Model, error) {
	verdict, rest, err := readSexpr(output)
	switch {
	case err != nil:
		return nil, errors.New("the output has no answer")
	case verdict.atom == "unsat":
		return nil, nil
	case verdict.isList && len(verdict.list) == 2 && verdict.list[0].atom == "error":
		return nil, errors.New(verdict.list[1].atom)
	case verdict.atom != "sat":
		return nil, errors.New("the answer is " + verdict.atom)
	}
	m := &Model{store: q.store, bools: map[int]bool{}, ints: map[Int]int64{}, texts: map[Text]string{}}
	var values sexpr
	if len(q.values) > 0 {
		if values, _, err = readSexpr(rest); err != nil {
			return nil, fmt.Errorf("the model is not complete: %w", err)
		}
	}
	for _, pair := range values.list {
		if len(pair.list) != 2 || q.values[pair.list[0].atom] == nil {
			return nil, errors.New("the model has an unknown constant")
		}
		if err := q.values[pair.list[0].atom](m, pair.list[1]); err != nil {
			return nil, fmt.Errorf("the model's %s: %w", pair.list[0].atom, err)
		}
	}
	if slices.Contains(q.store.Evaluate(m, q.roots...), false) {
		return nil, errors.New("the model does not satisfy the formula")
	}
	return m, nil
}
