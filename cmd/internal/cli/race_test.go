//go:build race

package cli_test

// raced: the race detector makes tests ten times slower.
const raced = true
