package solve

import (
	"fmt"
	"math/big"
)

// Numerals returns the language of the decimal integers up to a number: digits, perhaps after a sign.
func (s *Store) Numerals(most *big.Int) *Lang {
	digits := new(big.Int).Abs(most).String()
	var pattern string
	switch most.Sign() {
	case -1:
		pattern = "-0*" + numeralsFrom(digits)
	case 0:
		pattern = `-[0-9]+|\+?0+`
	case 1:
		pattern = `-[0-9]+|\+?(?:0+|0*` + numeralsUpTo(digits) + ")"
	}
	l, _ := s.Matching(`\A(?:` + pattern + `)\z`)
	return l
}

// numeralsUpTo returns the regular expression of the numerals from 1 up to a number, without leading zeros.
func numeralsUpTo(digits string) string {
	text := ""
	for i := len(digits) - 1; i >= 0; i-- { // the same digit and the rest, or a smaller one and any others
		least, rest := byte('0'), len(digits)-i-1
		if i == 0 {
			least = '1'
		}
		text = fmt.Sprintf("%c%s", digits[i], text)
		if digits[i] > least {
			text = fmt.Sprintf("(?:%s|[%c-%c][0-9]{%d})", text, least, digits[i]-1, rest)
		}
	}
	if len(digits) > 1 {
		text = fmt.Sprintf("(?:%s|[1-9][0-9]{0,%d})", text, len(digits)-2)
	}
	return text
}

// numeralsFrom returns the regular expression of the numerals from a number on, without leading zeros.
func numeralsFrom(digits string) string {
	text := ""
	for i := len(digits) - 1; i >= 0; i-- {
		text = fmt.Sprintf("%c%s", digits[i], text)
		if digits[i] < '9' {
			text = fmt.Sprintf("(?:%s|[%c-9][0-9]{%d})", text, digits[i]+1, len(digits)-i-1)
		}
	}
	return fmt.Sprintf("(?:%s|[1-9][0-9]{%d}[0-9]*)", text, len(digits))
}
