// Package layout finds the positions of values in a text: the bytes of a YAML or JSON document that a key, a list item,
// a scalar and each character of its decoded text come from.
//
// One walk serves all callers. The library names the values and their starts; the walk reads the text in parallel and
// finds their ends. If the two disagree, the walk continues at the position of the library and returns an error. A
// caller that only points at values may ignore the error; a caller that changes the text must not.
package layout
