package solve

import (
	"math/big"
	"math/rand/v2"
	"regexp"
	"testing"
)

func TestNumerals(t *testing.T) {
	s, rng := NewStore(), rand.New(rand.NewPCG(1, 1))
	isNumeral := regexp.MustCompile(`^[+-]?[0-9]+$`)
	bounds := []int64{0, 1, -1, 9, 10, 99, 100, -10, 12345, -12345, 9223372036854775807, -9223372036854775808}
	for range 40_000 {
		most := big.NewInt(bounds[rng.IntN(len(bounds))])
		word := ""
		if rng.IntN(2) == 0 {
			word = new(big.Int).Add(most, big.NewInt(rng.Int64N(5)-2)).String()
		} else {
			for range rng.IntN(8) {
				word += string("+-0019257a"[rng.IntN(10)])
			}
		}
		if rng.IntN(4) == 0 {
			word = "00" + word
		}
		n, _ := new(big.Int).SetString(word, 10)
		want := isNumeral.MatchString(word) && n.Cmp(most) <= 0
		if got := s.Numerals(most).Has(word); got != want {
			t.Fatalf("%q is up to %s: %v", word, most, got)
		}
	}
}
