//go:build race

package conformance

// raced: the race detector makes tests ten times slower.
const raced = true
