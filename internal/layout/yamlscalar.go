package layout

import (
	"strings"

	yaml2 "go.yaml.in/yaml/v2"
	yaml "go.yaml.in/yaml/v3"

	"github.com/celgate/celgate/internal/yamlscan"
)

// scalar finds the end of a scalar that starts at pos.
func (w *walker) scalar(v *Node, n *yaml.Node, indent int) {
	v.Text = n.Value
	defer func() { v.End = w.pos }()
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		if v.Form = Literal; n.Style&yaml.FoldedStyle != 0 {
			v.Form = Folded
		}
		w.block(indent)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		v.Form = Double
		for w.pos++; w.pos < len(w.text) && w.text[w.pos] != '"'; w.pos++ {
			if w.text[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos = min(w.pos+1, len(w.text))
	case n.Style&yaml.SingleQuotedStyle != 0:
		v.Form = Single
		for w.pos++; w.pos < len(w.text); w.pos++ {
			if w.text[w.pos] != '\'' {
				continue
			}
			if !strings.HasPrefix(w.text[w.pos:], "''") {
				break
			}
			w.pos++
		}
		w.pos = min(w.pos+1, len(w.text))
	default:
		w.walkPlain(n.Value)
	}
}

// walkPlain walks a plain scalar with folded line breaks.
func (w *walker) walkPlain(value string) {
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == ' ' || c == '\n' {
			rest := strings.TrimLeft(w.text[w.pos:], " \t")
			if c == '\n' || rest != "" && (rest[0] == '\n' || rest[0] == '\r') {
				for i+1 < len(value) && value[i+1] == '\n' {
					i++
				}
				w.pos = len(w.text) - len(strings.TrimLeft(w.text[w.pos:], " \t\r\n"))
				continue
			}
		}
		if w.peek() != c {
			w.fail()
			return
		}
		w.pos++
	}
}

// block moves to the end of a literal or folded block: behind its last non-blank line, or with "+" behind its last
// line.
func (w *walker) block(indent int) {
	keep, digit := false, 0
	for w.pos = min(w.pos+1, len(w.text)); w.pos < len(w.text) && strings.IndexByte("+-123456789", w.text[w.pos]) >= 0; w.pos++ {
		switch c := w.text[w.pos]; c {
		case '+':
			keep = true
		case '-':
		default:
			digit = int(c - '0')
		}
	}
	w.pos = lineEnd(w.text, w.pos)
	need := -1
	if digit > 0 {
		need = max(indent, 0) + digit
	}
	for next := w.pos; ; {
		if next == len(w.text) {
			break
		}
		at := next + breakAt(w.text, next)
		end := lineEnd(w.text, at)
		line := w.text[at:end]
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		blank := spaces == len(line)
		if !blank && need < 0 {
			if spaces <= indent {
				break
			}
			need = spaces
		}
		if !blank && spaces < need {
			break
		}
		if next = end; !blank || keep || need >= 0 && spaces > need {
			w.pos = end
		}
	}
}

// name reads a key of a mapping: its JSON form or, if that does not exist, its text.
func (e *Entry) name(k *yaml.Node) {
	if k.Kind == yaml.AliasNode {
		k = k.Alias
	}
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle |
		yaml.FoldedStyle | yaml.TaggedStyle
	e.Name = k.Value
	e.Merge = k.Kind == yaml.ScalarNode && k.Value == "<<" && (k.Style == 0 || k.Tag == "!!merge")
	e.Bad = k.Kind != yaml.ScalarNode
	if e.Bad || k.Style&quoted != 0 {
		return
	}
	if _, text := yamlscan.DecodePlain(k.Value).(string); text {
		return
	}
	var v any
	if yaml2.Unmarshal([]byte(k.Value), &v) != nil {
		return
	}
	if name, ok := yamlscan.Key(v); ok {
		e.Name = name
	}
	e.Bad = v == nil
}
