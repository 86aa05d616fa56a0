package lcs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestNext makes the second list of the first by the steps, and wants the fewest.
func TestNext(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{"", "", ""}, {"abc", "abc", "   "}, {"abc", "", "---"}, {"", "ab", "++"}, {"abc", "xbz", "-+ -+"},
		{"abcd", "acbd", " - + "},
	} {
		a, b := strings.Split(test.a, ""), strings.Split(test.b, "")
		if got := steps(t, a, b); got != test.want {
			t.Errorf("%s to %s: %q, want %q", test.a, test.b, got, test.want)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() []string {
		list := make([]string, random.IntN(12))
		for i := range list {
			list[i] = string(rune('a' + random.IntN(3)))
		}
		return list
	}
	for range 500 {
		a, b := draw(), draw()
		if got, most := strings.Count(steps(t, a, b), " "), longest(a, b); got != most {
			t.Fatalf("%v to %v: %d lines are kept of %d", a, b, got, most)
		}
	}
}

// steps follows a comparison and checks that it makes b of a.
func steps(t *testing.T, a, b []string) string {
	t.Helper()
	c := Compare(a, b)
	var out strings.Builder
	var made []string
	i, j := 0, 0
	for {
		step, more := c.Next(i, j)
		if !more {
			break
		}
		switch step {
		case Keep:
			made = append(made, a[i])
			i, j = i+1, j+1
		case Drop:
			i++
		case Add:
			made = append(made, b[j])
			j++
		}
		out.WriteByte(" -+"[step])
	}
	if !slices.Equal(made, b) {
		t.Fatalf("%v to %v makes %v", a, b, made)
	}
	return out.String()
}

// longest finds the length of the longest common subsequence by trying everything.
func longest(a, b []string) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	if a[0] == b[0] {
		return longest(a[1:], b[1:]) + 1
	}
	return max(longest(a[1:], b), longest(a, b[1:]))
}
