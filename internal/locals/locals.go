// Package locals defines the names of a scope in expressions, beside the names of all expressions of a policy.
package locals

import (
	"strings"

	"github.com/celgate/celgate/internal/pattern"
)

// The names.
const (
	Scope    = "scope"    // of a validation: the value
	OldScope = "oldScope" // of a validation: the value in oldObject
	Item     = "item"     // of a mutation: the value
	Key      = "key"      // of a mutation: the key or index of the value
)

// ItemType is the name of the type of the value in a mutation.
const ItemType = "Item"

// Whole is the member of scopePath with the whole path of a value.
const Whole = "field"

// Path is the name of a part of the path of a value: [Whole], or a key or an index that the scope names.
func Path(part string) string { return "scopePath." + part }

// Join makes one text of names, of which two can be compared.
func Join(names ...string) string { return strings.Join(names, ",") }

// Names are the names in a text of [Join].
func Names(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}

var identifier = pattern.New(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// IsIdentifier reports whether name is an identifier of CEL and none of its reserved words.
func IsIdentifier(name string) bool {
	switch name {
	case "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
		"import", "let", "loop", "package", "namespace", "return", "var", "void", "while":
		return false
	}
	return identifier().MatchString(name)
}
