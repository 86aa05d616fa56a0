package bound

import (
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/common/types/ref"
)

// A Pattern is the size of a regular expression, known before it is compiled. CEL's cost counts its characters, and
// `x{1000}` is a thousand instructions.
type Pattern struct {
	Spare int64 // bytes while it is compiled and used
	chars int64
	extra int64 // instructions beyond one for each character
	fold  int64 // steps for parsing it
}

// Constants of regexp of Go 1.26, measured by TestPatterns.
const (
	characterBytes = 450 // of the parsed tree, the program and the state of a match, for a character
	// of these, for an instruction of a repetition; regexp compiles at most 3.3 million
	instructionBytes = 300
	stateBytes       = 24      // of an instruction and a position in the text, remembered by a match
	mostStates       = 1 << 18 // of these
	mostInstructions = 3_360_000
	foldSteps        = 5           // for a character of a case-insensitive class
	longFold         = 100_000_000 // limit of steps for parsing a pattern to predict its size
	groupBytes       = 16          // of the start and the end of a group
	categoryBytes    = 7000        // of the ranges of \pL
	// instructions processed for a character of a text in one step; few are alive at a time
	instructionSteps = 16
)

// PatternOf examines a regular expression. It parses only patterns that take at most most bytes to parse.
func PatternOf(pattern string, most int64) Pattern {
	n := int64(len(pattern))
	p := Pattern{chars: n, Spare: n*characterBytes + int64(
		strings.Count(pattern, `\p`)+strings.Count(pattern, `\P`))*categoryBytes}
	p.fold = FoldingSteps(pattern)
	if p.Spare <= most && strings.Contains(pattern, "{") {
		if p.fold > longFold {
			p.extra = mostInstructions
		} else if re, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			p.extra = max(0, instructions(re)-n)
		}
		p.Spare = add(p.Spare, mul(p.extra, instructionBytes))
	}
	// A match may be at every instruction at once, and has the positions of all groups for each.
	p.Spare = add(p.Spare, mul(add(n, p.extra), groups(pattern)*groupBytes))
	return p
}

// groups returns an upper bound of the capturing groups of a pattern.
func groups(pattern string) int64 {
	capture, other := strings.Count(pattern, "("), strings.Count(pattern, "(?")
	return int64(capture - other + strings.Count(pattern, "(?P<") + strings.Count(pattern, "(?<"))
}

// IsSmall reports whether a pattern compiles quickly and may stay compiled while its policy is in force.
func (p Pattern) IsSmall() bool { return p.Spare <= 256<<10 && p.fold <= Steps(10*time.Millisecond) }

// Steps returns the time of a match with a text beyond its cost, for a compiled pattern.
func (p Pattern) Steps(text string) int64 { return mul(p.extra, int64(len(text))) / instructionSteps }

// MatchSize returns the size of a match with a text, including compilation.
func (p Pattern) MatchSize(text string) Size {
	return Size{Spare: add(p.Spare, p.states(text)), Steps: add(p.fold, p.Steps(text))}
}

// states returns the memory in which a match remembers instructions and positions in a text, for a program of up to 500
// instructions.
func (p Pattern) states(text string) int64 {
	return stateBytes * min(mul(add(p.chars, p.extra), int64(len(text))+1), mostStates)
}

// FoldingSteps returns the steps for parsing the case-insensitive classes of a regular expression: (?i)[B-𞥂] is read
// character by character. It counts everything that looks like a range, also in the text of an expression.
func FoldingSteps(pattern string) (steps int64) {
	if !strings.Contains(pattern, "(?") {
		return 0
	}
	const first, last = 'A', 0x1e943 // of the characters with another case
	for i := strings.IndexByte(pattern, '-'); i >= 0; {
		rest := pattern[i+1:]
		to, _ := utf8.DecodeRuneInString(rest)
		from, _ := utf8.DecodeLastRuneInString(pattern[:i])
		if strings.Contains(pattern[max(0, i-len(`\x{10FFFF}`)):i], `\`) {
			from = first
		}
		if to == '\\' {
			to = last
		}
		steps += foldSteps * max(0, int64(min(to, last))-int64(max(from, first)))
		next := strings.IndexByte(rest, '-')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return steps
}

// instructions estimates the number of instructions of a compiled regular expression, within a few for each of its
// characters.
func instructions(re *syntax.Regexp) int64 {
	switch re.Op {
	case syntax.OpLiteral:
		return int64(len(re.Rune))
	case syntax.OpRepeat:
		once := instructions(re.Sub[0])
		if re.Max < 0 {
			return add(2, mul(max(1, int64(re.Min)), once))
		}
		return add(mul(int64(re.Max), once), int64(re.Max-re.Min))
	}
	n := int64(0)
	switch re.Op {
	case syntax.OpCapture, syntax.OpStar:
		n = 2
	case syntax.OpPlus, syntax.OpQuest:
		n = 1
	case syntax.OpAlternate:
		n = int64(len(re.Sub)) - 1
	case syntax.OpConcat:
	default:
		n = 1
	}
	for _, sub := range re.Sub {
		n = add(n, instructions(sub))
	}
	return n
}

// readMatch returns the arguments of a match, a text and a pattern that is not compiled yet, and examines the pattern
// once.
func readMatch(m *Meter, args []ref.Val) (s, pattern string, takes Pattern, ok bool) {
	s, ok = text(args, 0)
	pattern, isText := text(args, 1)
	if !ok || !isText {
		return s, "", Pattern{}, false
	}
	return s, pattern, PatternOf(pattern, m.limits().Bytes), true
}

// chargeMatch charges matches and find.
func chargeMatch(m *Meter, args []ref.Val) error {
	s, pattern, takes, ok := readMatch(m, args)
	if !ok {
		return nil
	}
	if err := m.Charge(takes.MatchSize(s)); err != nil || m == nil || !takes.isHeavy(s) {
		return err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil
	}
	return m.try(func(look func()) { search(re, s, look) })
}

// ChargeMatch charges a match with a constant pattern, which is compiled already.
func (m *Meter) ChargeMatch(p Pattern, re *regexp.Regexp, text string) error {
	if err := m.Charge(Size{Spare: p.states(text), Steps: p.Steps(text)}); err != nil {
		return err
	}
	if m == nil || !p.isHeavy(text) {
		return nil
	}
	return m.try(func(look func()) { search(re, text, look) })
}

// shortText is the length of a text in which finding all matches cannot take long: each match may read the rest of it
// once.
const shortText = 512

// chargeFindAll charges findAll, which may find a match for each byte and one more. A match of `a|a.*b` reads to the
// end of the text before it takes one character.
func chargeFindAll(m *Meter, args []ref.Val) error {
	s, pattern, takes, ok := readMatch(m, args)
	if !ok {
		return nil
	}
	size, left := takes.MatchSize(s), limit(args, 2)
	size.Bytes = slot * min(int64(len(s))+1, left)
	size.Steps = add(size.Steps, int64(len(s)))
	if err := m.Charge(size); err != nil || m == nil || len(s) <= shortText || left == 0 {
		return err
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil
	}
	return m.try(func(look func()) {
		if takes.isHeavy(s) {
			search(re, s, look)
		}
		_ = re.ReplaceAllStringFunc(s, func(string) string { // the only one that reports each match
			look()
			if left--; left == 0 {
				panic(errEnough)
			}
			return ""
		})
	})
}

// IsLight reports whether a match is so fast that it need not be charged.
func (p Pattern) IsLight(text string) bool { return mul(int64(len(text)), p.chars+p.extra) < 100_000 }

// isHeavy reports whether a match can take longer than some tens of milliseconds: every instruction may be processed
// for every character.
func (p Pattern) isHeavy(text string) bool { return mul(int64(len(text)), p.chars+p.extra) > 4_000_000 }

// search finds the first match, and calls look now and then.
func search(re *regexp.Regexp, text string, look func()) {
	re.FindReaderIndex(&lookingReader{Reader: strings.NewReader(text), look: look})
}

// A lookingReader calls look before each few characters. A program of regexp has at most some 50,000 instructions here,
// so that these take milliseconds.
type lookingReader struct {
	*strings.Reader
	n    int
	look func()
}

func (r *lookingReader) ReadRune() (rune, int, error) {
	if r.n++; r.n%16 == 0 {
		r.look()
	}
	return r.Reader.ReadRune()
}

var (
	errEnough = errors.New("as many matches as requested")
	errDone   = errors.New("evaluation stopped: the request has ended")
)

// tried is the factor by which a tried call may exceed its limit of time, because the machine may be busy.
const tried = 10

// try does the work of a call whose time cannot be predicted and that cannot be stopped, in a way that checks the time.
// If it takes too long, the call is not made.
func (m *Meter) try(do func(look func())) (err error) {
	defer func() {
		switch reason := recover(); reason {
		case nil, errEnough:
		case errDone:
			m.stopped, err = errDone, errDone
		default:
			if e, is := reason.(*Error); is {
				m.stopped, m.refused, err = e, true, e
				return
			}
			panic(reason)
		}
	}()
	start, limits := time.Now(), m.limits()
	look := func() {
		select {
		case <-m.Done:
			panic(errDone)
		default:
			runtime.Gosched() // for goroutines that answer requests
		}
		if took := time.Since(start); took > tried*Time(limits.Steps) {
			panic(&Error{Size: Size{Steps: Steps(took)}, Limits: limits})
		}
	}
	look()
	do(look)
	return nil
}

// DoWatched does work that is not charged and that checks its context now and then, such as loops of cel-go: with
// errors in them they take time quadratic in their length. It has the time limit of try.
func (m *Meter) DoWatched(ctx context.Context, do func(context.Context) error) error {
	if m == nil {
		return do(ctx)
	}
	limits := m.limits()
	most := tried * Time(limits.Steps)
	late := &Error{Size: Size{Steps: Steps(most)}, Limits: limits}
	ctx, cancel := context.WithTimeoutCause(ctx, most, late)
	defer cancel()
	err := do(ctx)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		m.stopped, m.refused = late, true
	}
	return err
}
