// Package layout finds where values stand in a text: which bytes of a YAML or JSON document a key, a list item, a
// scalar and each character of its decoded text come from.
//
// There is one walk for all who ask. The library says which values there are and where they begin; the walk goes
// through the text beside it and finds where they end. Where the two do not meet, the walk goes on where the library
// is, and the error says so. Who only wants to point at a value leaves that error alone; who wants to change the text
// must not.
package layout
