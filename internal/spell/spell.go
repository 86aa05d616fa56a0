// Package spell finds the word that was probably meant.
package spell

import "strings"

// Nearest returns the candidate that at most so many typing errors turn into s, the first of those with the fewest; ""
// if there is none.
func Nearest(s string, candidates []string, errors int) string {
	best, least := "", errors+1
	for _, c := range candidates {
		if d := Distance(s, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// Distance counts the letters to insert, remove or replace between two words, regardless of case.
func Distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
