//go:build !race

package conformance

const raced = false
