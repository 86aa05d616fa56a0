// Package rewrite changes manifests in the text of their authors.
//
// A mutation is known as two JSON trees in the server's view, before and after. Neither is the author's: defaults are
// filled in and values are canonical. [Object] carries the difference over to the author's own tree (merge.go), leaving
// out members that the server fills in itself (trim.go). [Text] then changes the author's text to mean the new tree,
// with few changes to its bytes: package layout finds the values of the text with their extents, edits are inserted in
// the style of the surrounding text (edit.go, render.go), and all other bytes stay.
//
// A wrong result, which only a defect here could cause, is never returned: the text is read again and compared, and a
// value whose text cannot be edited is written anew.
package rewrite
