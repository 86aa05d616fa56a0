// Package lcs compares two lists of lines by their longest common subsequence.
package lcs

// A Step is how a comparison goes on.
type Step int

// The steps.
const (
	Keep Step = iota // both lists have the line
	Drop             // only the first has it
	Add              // only the second has it
)

// A Comparison is that of two lists.
type Comparison struct {
	a, b   []string
	common [][]int32 // [i][j] is the length of the longest common subsequence of a[i:] and b[j:]
}

// Compare compares two lists.
func Compare(a, b []string) *Comparison {
	c := &Comparison{a, b, make([][]int32, len(a)+1)}
	for i := range c.common {
		c.common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				c.common[i][j] = c.common[i+1][j+1] + 1
			} else {
				c.common[i][j] = max(c.common[i+1][j], c.common[i][j+1])
			}
		}
	}
	return c
}

// Next returns how to go on from line i of the first list and line j of the second; false at the end of both.
func (c *Comparison) Next(i, j int) (Step, bool) {
	switch {
	case i == len(c.a) && j == len(c.b):
		return Keep, false
	case i < len(c.a) && j < len(c.b) && c.a[i] == c.b[j]:
		return Keep, true
	case j == len(c.b) || i < len(c.a) && c.common[i+1][j] >= c.common[i][j+1]:
		return Drop, true
	}
	return Add, true
}
