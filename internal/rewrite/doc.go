// Package rewrite changes manifests in the text that their authors wrote.
//
// A mutation is known as two JSON trees in the server's view, before and after. Neither is what the author wrote:
// defaults are filled in and values are canonical. [Object] carries the difference over to the author's own tree
// (merge.go), leaving out what the server fills in itself (trim.go). [Text] then makes the author's text mean the new
// tree with the fewest changes to its bytes: package layout finds the values of the text with their extents, edits are
// inserted in the style of what surrounds them (edit.go, render.go), and all other bytes stay.
//
// A text that came out differently from what was meant, which only a defect here could cause, is never returned:
// the result is read again and compared, and a value whose text cannot be edited is written anew.
package rewrite
