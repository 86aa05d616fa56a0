package prove

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuantityPattern compares the pattern of quantities with the function that reads them.
func TestQuantityPattern(t *testing.T) {
	odd := regexp.MustCompile(oddQuantity)
	pattern, rng := regexp.MustCompile(quantityPattern), rand.New(rand.NewPCG(1, 1))
	parts := strings.Split("0|1|9|07|.|+|-|e|E|e3|e-9|e-10|n|u|m|k|K|M|G|T|P|i|Ki|Mi|Ti|Pi|Ei|x|00|5.|.5|"+
		"e0|E+5|9223372036854775807|e-9223372036854775808| ", "|")
	var words []string
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				words = append(words, a+b+c, a+b)
			}
		}
	}
	for range 50_000 {
		word := ""
		for range rng.IntN(6) {
			word += parts[rng.IntN(len(parts))]
		}
		words = append(words, word)
	}
	for _, word := range words {
		_, err := resource.ParseQuantity(word)
		if got := pattern.MatchString(word); got != (err == nil) && !odd.MatchString(word) {
			t.Fatalf("%q is a quantity: %v, and %v", word, got, err)
		}
	}
}
