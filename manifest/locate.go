package manifest

import (
	"sync"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/policy"
)

// places returns the values of s.Text with their positions. The text is parsed on the first call.
func (s *Source) places() *layout.Node {
	s.parse.Do(func() { s.tree = layoutOf(s.Text, s.json) })
	return s.tree
}

// layoutOf returns the values of text, as far as they can be found: the library that reports positions may not
// understand a text that kubectl's library understands.
func layoutOf(text string, json bool) *layout.Node {
	lay := layout.YAML
	if json {
		lay = layout.JSON
	}
	root, _ := lay(text) // locating a value does not need the rest
	return root
}

// locator is the Locator of the value at path.
type locator struct {
	source *Source
	path   string

	find  sync.Once
	spans layout.Spans
	at    int
}

// Locate implements policy.Locator. An offset beyond the text stands for its end.
func (l *locator) Locate(offset int) policy.Position {
	if l.source == nil {
		return policy.Position{}
	}
	l.find.Do(func() {
		at, value := l.source.places().Find(l.path)
		l.at, l.spans = at, value.Spans(l.source.Text)
	})
	at := l.at
	if len(l.spans) > 0 {
		at = l.spans.Offset(max(offset, 0))
	}
	return l.source.positionAt(at)
}
