package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// An answer is the result for one document.
type answer struct {
	report.Item
	doc  *manifest.Document
	edit *rewrite.Edit // the effect of mutations on the document; nil if they do not change it
	text string        // the document with the edit applied, unless it is an item of a List

	followed []report.Item // the objects that controllers would create from the object
}

// A writing is an output of manifests.
type writing interface {
	add(answer) error
	// flush writes everything at once: the output may be piped, and must not end in the middle.
	flush(io.Writer) error
}

// manifests are the documents as their authors wrote them, with mutations applied.
type manifests struct {
	out    bytes.Buffer
	source *manifest.Source // not written yet
	edits  []rewrite.Edit   // of the objects of source
	text   string           // the edited source, if it is already known
}

func (m *manifests) add(a answer) error {
	if a.doc.Source != m.source {
		if err := m.end(); err != nil {
			return err
		}
		m.begin(a.doc.Source)
	}
	switch m.text = a.text; {
	case a.edit != nil && a.text == "":
		m.edits = append(m.edits, *a.edit)
	}
	return nil
}

// begin writes the separator between the document and the one before.
func (m *manifests) begin(next *manifest.Source) {
	switch {
	case m.source == nil || next.File == m.source.File:
		m.out.WriteString(next.Lead)
	default:
		if written := m.out.Bytes(); len(written) > 0 && written[len(written)-1] != '\n' {
			m.out.WriteByte('\n')
		}
		if !strings.HasPrefix("\n"+next.Lead, "\n---") {
			m.out.WriteString("---\n")
		}
		m.out.WriteString(next.Lead)
	}
	m.source = next
}

// end writes the document.
func (m *manifests) end() error {
	if m.source == nil {
		return nil
	}
	text := cmp.Or(m.text, m.source.Text)
	if len(m.edits) > 0 {
		var err error
		if text, err = rewrite.Text(text, m.edits); err != nil {
			return err
		}
	}
	m.edits = nil
	m.out.WriteString(text)
	m.out.WriteString(m.source.Tail)
	return nil
}

func (m *manifests) flush(w io.Writer) error {
	if err := m.end(); err != nil {
		return err
	}
	if written := m.out.Bytes(); len(written) > 0 && written[len(written)-1] != '\n' {
		m.out.WriteByte('\n')
	}
	_, err := m.out.WriteTo(w)
	return err
}

// serverView is the objects as the server would store them.
type serverView struct {
	types   *schema.Registry
	json    bool
	out     bytes.Buffer
	objects []map[string]any // JSON
}

func (v *serverView) add(a answer) error {
	if a.Decision == nil {
		return nil // skipped
	}
	switch object := a.Decision.Object; {
	case object == nil:
	case v.json:
		v.objects = append(v.objects, object)
	default:
		if v.out.Len() > 0 {
			v.out.WriteString("---\n")
		}
		v.out.WriteString(rewrite.YAML(object, v.types.Type(tree.Object(object).Kind())))
	}
	return nil
}

func (v *serverView) flush(w io.Writer) error {
	if !v.json {
		_, err := v.out.WriteTo(w)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}{"v1", "List", append([]map[string]any{}, v.objects...)})
}

// asides writes the rest of the report, in the text format, on standard error: denials, warnings and notes.
type asides struct{ report.Writer }

func (c *console) newAsides(color string, set *policy.Set, rejected []report.Rejection) (asides, error) {
	side := *c
	side.stdout = c.stderr
	colored, err := side.usesColor(color)
	if err != nil {
		return asides{}, err
	}
	w, err := report.New("text", c.stderr, report.Options{Set: set, Rejected: rejected, Color: colored,
		Width: side.width(), Quiet: true})
	return asides{w}, err
}

func (w asides) Write(it report.Item) error {
	if it.Failure != nil {
		return nil
	}
	if d := it.Decision; d.Allowed && len(d.Warnings)+len(d.Notes) == 0 {
		return nil
	}
	return w.Writer.Write(it)
}

// Close does not write the summary, which would count only the objects written.
func (w asides) Close() error { return nil }

// edit computes the effect of mutations on a document, without that of admission plugins, which the server repeats.
func (d *decider) edit(ctx context.Context, a *answer) (err error) {
	doc, request, before, after := a.doc, a.Request, a.Request.Object, a.Decision.MutatedObject
	if after == nil {
		return nil
	}
	kind := d.world.types.Type(request.Kind)
	for _, f := range slices.Backward(a.Decision.Fillings()) {
		after = rewrite.Object(rewrite.Mutation{Author: f.Before, Before: f.After, After: after, Type: kind})
		if tree.IsSame(f.After, before) {
			before = f.Before
		}
	}
	bare, err := d.world.bare()
	if err != nil {
		return err
	}
	object := rewrite.Object(rewrite.Mutation{
		Author: doc.Object, Before: before, After: after, Type: kind,
		Prepare: func(object map[string]any) (map[string]any, error) {
			again := *request
			again.Object = object
			next, err := bare.Prepare(ctx, &again)
			if err != nil {
				return nil, err
			}
			return next.Request().Object, nil
		},
	})
	a.edit = &rewrite.Edit{Item: doc.Item, Old: doc.Object, New: object, Type: kind}
	if doc.Item == "" {
		a.text, err = rewrite.Text(doc.Source.Text, []rewrite.Edit{*a.edit})
	}
	return err
}

// shownChanges returns the changes without members that the server itself fills in.
func (d *decider) shownChanges(changes []celgate.Change) []celgate.Change {
	out := slices.Clone(changes)
	for i, c := range out {
		kind := tree.Object(c.After).Kind()
		out[i].After = rewrite.Object(rewrite.Mutation{
			Author: c.Before, Before: c.Before, After: c.After, Type: d.world.types.Type(kind),
			Prepare: func(object map[string]any) (map[string]any, error) {
				return prepare.Normalise(object, d.world.types, kind)
			},
		})
	}
	return out
}

// withhold prints the reason why manifests are not printed.
func (a *apply) withhold(denied, all int) {
	if denied > 0 {
		a.say(fmt.Sprintf("%d of %s denied; manifests are not printed", denied, plural(all, "object", "objects")), "")
		return
	}
	a.say("manifests are not printed, because some could not be evaluated", "")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
