package bound

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types/ref"
)

// A Pattern is what a regular expression takes, known before it is compiled. Costs of CEL count its characters, and
// `x{1000}` is a thousand instructions.
type Pattern struct {
	Spare int64 // bytes while it is compiled and used
	extra int64 // instructions beyond those that its characters stand for
}

// Of regexp of Go 1.26, measured by TestPatterns.
const (
	characterBytes   = 450  // of the parsed tree, the program and the state of a match, for a character
	instructionBytes = 600  // of those, for an instruction that a repetition makes
	categoryBytes    = 7000 // of the ranges of \pL
	instructionSteps = 16   // instructions that are looked at for a character of a text in one step; few are alive at a time
)

// PatternOf looks at a regular expression. It parses only what does not take more than most bytes to parse.
func PatternOf(pattern string, most int64) Pattern {
	n := int64(len(pattern))
	p := Pattern{Spare: n*characterBytes + int64(strings.Count(pattern, `\p`)+strings.Count(pattern, `\P`))*categoryBytes}
	if p.Spare > most || !strings.Contains(pattern, "{") {
		return p
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return p
	}
	p.extra = max(0, instructions(re)-n)
	p.Spare = add(p.Spare, mul(p.extra, instructionBytes))
	return p
}

// Small reports whether a pattern may stay compiled for as long as its policy is in force.
func (p Pattern) Small() bool { return p.Spare <= 256<<10 }

// Steps is what a match with a text takes beyond its cost, once the pattern is compiled.
func (p Pattern) Steps(text string) int64 { return mul(p.extra, int64(len(text))) / instructionSteps }

// Over is what a match with a text takes, with all that comes before it.
func (p Pattern) Over(text string) Size {
	return Size{Spare: p.Spare, Steps: p.Steps(text)}
}

// instructions is about how many a regular expression is compiled to.
func instructions(re *syntax.Regexp) int64 {
	n := int64(1)
	switch re.Op {
	case syntax.OpLiteral:
		return int64(len(re.Rune))
	case syntax.OpRepeat:
		times := int64(re.Max)
		if times < 0 {
			times = int64(re.Min) + 1
		}
		return add(n, mul(times, add(n, instructions(re.Sub[0]))))
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		n = 2
	}
	for _, sub := range re.Sub {
		n = add(n, instructions(sub))
	}
	return n
}

func predictMatch(args []ref.Val, _ int64) Size {
	s, ok := text(args, 0)
	pattern, ok1 := text(args, 1)
	if !ok || !ok1 {
		return Size{}
	}
	return PatternOf(pattern, Served.Bytes).Over(s)
}

// predictFindAll does not look for the matches, of which there may be one for each byte and one more.
func predictFindAll(args []ref.Val, most int64) Size {
	size := predictMatch(args, most)
	s, ok := text(args, 0)
	if !ok {
		return Size{}
	}
	size.Bytes = slot * min(int64(len(s))+1, limit(args, 2))
	size.Steps = add(size.Steps, int64(len(s)))
	return size
}

// shortText is so short that looking for every match in it cannot take long: each may look at the rest of it once.
const shortText = 512

// chargeFindAll charges findAll, and tries it where that could take long: a match of `a|a.*b` reads to the end of the text
// before it takes one character. Nothing else can tell, and nothing can stop the call itself.
func chargeFindAll(m *Meter, args []ref.Val) (err error) {
	if err := m.Charge(predictFindAll(args, 0)); err != nil || m == nil || m.Done == nil {
		return err
	}
	s, _ := text(args, 0)
	pattern, ok := text(args, 1)
	if !ok || len(s) <= shortText {
		return nil
	}
	re, invalid := regexp.Compile(pattern)
	if invalid != nil {
		return nil
	}
	left := limit(args, 2)
	defer func() {
		switch reason := recover(); reason {
		case nil, errEnough:
		case errDone:
			m.stopped = errDone
			err = errDone
		default:
			panic(reason)
		}
	}()
	_ = re.ReplaceAllStringFunc(s, func(string) string { // of what looks for all matches, this tells when it has found one
		select {
		case <-m.Done:
			panic(errDone)
		default:
		}
		if left--; left <= 0 {
			panic(errEnough)
		}
		return ""
	})
	return nil
}

var (
	errDone   = errors.New("evaluation stopped: nobody waits for it any more")
	errEnough = errors.New("as many matches as were asked for")
)
