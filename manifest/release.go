package manifest

import "github.com/celgate/celgate/internal/yamlscan"

// Release frees the object except for its identity, so that many documents need little memory. [Document.Restore]
// decodes the text again. Items of Lists, which share a text, and JSON, which may be one of many values in a line, keep
// their objects.
func (d *Document) Release() {
	if d.Source == nil || d.Item != "" || d.Source.json || d.released {
		return
	}
	metadata, ok := d.Object["metadata"].(map[string]any)
	if !ok {
		return
	}
	named := map[string]any{}
	for _, member := range []string{"name", "generateName", "namespace"} {
		if v, ok := metadata[member].(string); ok {
			named[member] = v
		}
	}
	d.Object = map[string]any{"apiVersion": d.Object["apiVersion"], "kind": d.Object["kind"], "metadata": named}
	d.released = true
}

// Restore decodes a released object again. It may be called for any document, by one goroutine at a time.
func (d *Document) Restore() {
	if !d.released {
		return
	}
	var again decoder
	source := &Source{File: d.Source.File, Line: d.Source.Line, Text: d.Source.Text}
	again.yamlChunk(source, yamlscan.Look(source.Text))
	for _, r := range again.out {
		if r.document != nil { // the object as decoded before
			d.Object, d.released = r.document.Object, false
			return
		}
	}
}
