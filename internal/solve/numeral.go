package solve

import "math/big"

// Numerals returns the language of the decimal integers up to a number: digits, perhaps after a sign.
func (s *Store) Numerals(most *big.Int) *Lang {
	l, _ := s.language("<="+most.String(), func() (automaton, error) {
		return numeral{new(big.Int).Abs(most).String(), most.Sign()}, nil
	})
	return l
}

// numeral is the automaton of Numerals: it compares the digits after leading zeros with those of the bound. Its states
// are one of four, and then the numbers of a scan.
type numeral struct {
	digits string // of the absolute value of the bound
	sign   int    // of the bound
}

// A scan is the part of a numeral that was read.
type scan struct {
	negative bool
	length   int // the number of digits after leading zeros, at most one more than the bound has
	order    int // of these digits, and as many of the bound: -1, 0 or 1
}

const (
	startOfNumeral = iota
	afterPlus
	afterMinus
	notNumeral
	firstScan
)

func (a numeral) number(s scan) int {
	n := (s.length*3+s.order+1)*2 + firstScan
	if s.negative {
		n++
	}
	return n
}

func (a numeral) scan(state int) scan {
	n := state - firstScan
	return scan{negative: n%2 == 1, length: n / 6, order: n/2%3 - 1}
}

func (a numeral) next(state int, r rune) int {
	isDigit := r >= '0' && r <= '9'
	s := scan{negative: state == afterMinus}
	switch {
	case state == startOfNumeral && r == '+':
		return afterPlus
	case state == startOfNumeral && r == '-':
		return afterMinus
	case state == notNumeral || !isDigit:
		return notNumeral
	case state >= firstScan:
		s = a.scan(state)
	}
	switch {
	case s.length == 0 && r == '0' || s.length > len(a.digits):
	case s.length == len(a.digits):
		s.length++
	default:
		if d := rune(a.digits[s.length]); s.order == 0 && r != d {
			s.order = 1
			if r < d {
				s.order = -1
			}
		}
		s.length++
	}
	return a.number(s)
}

func (a numeral) accepts(state int) bool {
	if state < firstScan {
		return false
	}
	s := a.scan(state)
	length := len(a.digits)
	if a.sign == 0 {
		length = 0
	}
	order := s.order // of the absolute values
	switch {
	case s.length < length:
		order = -1
	case s.length > length:
		order = 1
	case a.sign == 0:
		order = 0
	}
	isZero := s.length == 0
	switch {
	case s.negative && !isZero && a.sign >= 0:
		return true
	case s.negative && !isZero:
		return order >= 0
	}
	return a.sign >= 0 && order <= 0
}

func (numeral) breaks() []rune {
	all := []rune{'+', '+' + 1, '-', '-' + 1}
	for r := '0'; r <= '9'+1; r++ {
		all = append(all, r)
	}
	return all
}
