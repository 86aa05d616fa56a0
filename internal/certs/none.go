//go:build nocerts

package certs

// Known is false: callers report what they leave out.
const Known = false

const misuse = "certs: this program does not read certificates"

// CheckPair must not be called.
func CheckPair(_, _ []byte) error { panic(misuse) }

// CheckAuthorities must not be called.
func CheckAuthorities([]byte) error { panic(misuse) }

// Organizations must not be called.
func Organizations([]byte) ([]string, error) { panic(misuse) }
