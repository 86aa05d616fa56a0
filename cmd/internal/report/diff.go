package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/delta"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/policy"
)

// A Comparison is a request with the answers of two sets of policies.
type Comparison struct {
	Old, New Item // without a request: it is not made on this side, because its parent is denied
	delta.Difference

	Causes []celgate.Quirk // known reasons of the difference, for two versions of Kubernetes only
	Made   map[string]any  // the object, if it was generated for the policies; nil: it was given
}

// Item returns the answer of the new set, or else that of the old one.
func (c Comparison) Item() Item {
	if c.New.Request != nil {
		return c.New
	}
	return c.Old
}

// A DiffWriter renders comparisons.
type DiffWriter interface {
	// Write renders one comparison. They come in the order of the requests.
	Write(Comparison) error

	// Close renders the differences between the sets, if requested, and the end of the report.
	Close() error
}

// DiffOptions configure the output of comparisons.
type DiffOptions struct {
	Old, New  Options        // with the sets; the other options are those of New
	Names     [2]string      // of the sets
	Structure []delta.Object // differences between the sets
	Compared  bool           // the sets were compared
	Requests  bool           // there are requests
	Summary   bool           // counts of requests instead of requests
	Proofs    []Proof        // that each set denies what the other one denies; nil: not asked
}

// DiffFormats are the formats of [NewDiff].
func DiffFormats() []string { return []string{"text", "json", "github"} }

// NewDiff returns a writer of a format.
func NewDiff(format string, w io.Writer, o DiffOptions) (DiffWriter, error) {
	tally := diffTally{noted: map[string]bool{}, counts: map[delta.Change]int{}, parts: map[transition]int{}}
	both := o.New
	for _, r := range o.Old.Rejected {
		if !slices.ContainsFunc(both.Rejected,
			func(x Rejection) bool { return x.Kind == r.Kind && x.Name == r.Name && x.Place == r.Place }) {
			both.Rejected = append(slices.Clip(both.Rejected), r)
		}
	}
	switch format {
	case "text":
		t, err := newText(w, both)
		return &diffText{textWriter: t, old: newTextWriter(io.Discard, o.Old), diff: o, seen: tally}, err
	case "json":
		return &diffJSON{w: w, o: o, diffTally: tally, items: []jsonComparison{}}, nil
	case "github":
		g := &diffGitHub{w: w, text: &diffText{textWriter: newTextWriter(io.Discard, o.New),
			old: newTextWriter(io.Discard, o.Old), diff: o, seen: tally}}
		for _, r := range both.Rejected {
			if err := writeGitHub(w, rejectionFindings(r)...); err != nil {
				return nil, err
			}
		}
		return g, nil
	}
	return nil, fmt.Errorf("unknown output format %q: one of %s", format, strings.Join(DiffFormats(), ", "))
}

// A diffTally counts requests by result, and the transitions of each part of a policy.
type diffTally struct {
	notes       []string // assumptions behind answers, each once, with the first request
	noted       map[string]bool
	total, same int
	counts      map[delta.Change]int
	parts       map[transition]int
}

// A transition is the old and the new effect of a part of a policy.
type transition struct {
	kind         policy.Kind
	policy, part string
	old, now     string
}

func (d *diffTally) count(c Comparison) {
	d.total++
	for _, it := range []Item{c.Old, c.New} {
		if it.Decision == nil {
			continue
		}
		for _, n := range it.Decision.Notes {
			if d.noted[n.Message] {
				continue
			}
			d.noted[n.Message] = true
			d.notes = append(d.notes, strings.TrimSpace(it.subject())+": "+n.Message)
		}
	}
	if len(c.Changes) == 0 {
		d.same++
		return
	}
	d.counts[c.Changes[0]]++
	for _, p := range c.Pairs {
		e := p.Entry()
		d.parts[transition{e.Kind, e.Policy, e.Part, verbOf(p.Old), verbOf(p.New)}]++
	}
}

// verbOf names the effect of an entry.
func verbOf(e *delta.Entry) string {
	if e == nil {
		return "nothing"
	}
	return e.Does
}

// transitions returns the transitions, the most frequent first.
func (d *diffTally) transitions() []transition {
	all := slices.Collect(maps.Keys(d.parts))
	slices.SortFunc(all, func(a, b transition) int {
		return cmp.Or(cmp.Compare(d.parts[b], d.parts[a]), strings.Compare(a.policy, b.policy),
			strings.Compare(a.part, b.part),
			strings.Compare(a.old, b.old),
			strings.Compare(a.now, b.now),
		)
	})
	return all
}

// diffText writes for people.
type diffText struct {
	*textWriter
	old  *textWriter // knows the positions of the old set
	diff DiffOptions
	seen diffTally
}

var changeStyles = map[delta.Change]style{
	delta.NewlyDenied: red, delta.NewlyChanged: blue, delta.NewlyWarned: yellow, delta.NewlyAudited: cyan,
	delta.NoLongerDenied: green, delta.NoLongerChanged: green, delta.NoLongerWarned: green,
	delta.NoLongerAudited: green, delta.Otherwise: bold,
}

func (t *diffText) Write(c Comparison) error {
	t.seen.count(c)
	if len(c.Changes) == 0 || t.diff.Summary {
		return nil
	}
	it := c.Item()
	words := make([]string, len(c.Changes))
	for i, change := range c.Changes {
		words[i] = string(change)
	}
	word, s := strings.Join(words, ", "), changeStyles[c.Changes[0]]
	blocks := t.differenceBlocks(c)
	told := storyIn(word, blocks)
	if first, again := t.told[told]; again && len(blocks) > 0 {
		t.headAs(s, word, it.subject(), it.Place, first)
		return t.flush()
	}
	t.told[told] = it.subject()
	t.head(s, word, it.subject(), it.Place)
	t.blocksOf(blocks)
	return t.flush()
}

var entryStyles = map[string]style{delta.Denies: red, delta.Warns: yellow, delta.Audits: cyan, delta.Mutates: blue,
	delta.Ignores: yellow, delta.Annotates: cyan}

// differenceBlocks returns the differences between two answers.
func (t *diffText) differenceBlocks(c Comparison) []block {
	var out []block
	mutating := 0
	for _, p := range c.Pairs {
		if p.Entry().Does == delta.Mutates {
			mutating++
		}
	}
	for _, p := range c.Pairs {
		if p.Entry().Does == delta.Mutates {
			b := block{label: "now changed by", now: delta.Mutates, style: blue,
				message: origin(p.Entry().Policy, p.Entry().Binding, p.Entry().Param), policy: p.Entry().Policy}
			if p.New == nil {
				b.label, b.now, b.style = "no longer changed by", "", green
			}
			switch {
			case mutating == 1 && len(c.Object) > 0:
				b.diff = hunkLines(c.Object)
			case p.New != nil:
				b.diff = hunkLines(p.New.Hunks)
			}
			out = append(out, b)
			continue
		}
		switch {
		case p.New == nil:
			b := t.old.entryBlock(c.Old, p.Old)
			b.label, b.style = "no longer "+p.Old.Does, green
			out = append(out, b)
		case p.Old == nil:
			b := t.entryBlock(c.New, p.New)
			b.label, b.now = "now "+p.New.Does, p.New.Does
			out = append(out, b)
		default:
			b := t.entryBlock(c.New, p.New)
			b.label, b.now = "now "+p.New.Does, p.New.Does
			switch {
			case p.Old.Does == p.New.Does:
				b.footers = append(b.footers, "before: "+p.Old.Message)
			case p.Old.Message == p.New.Message:
				b.footers = append(b.footers, p.Old.Does+" before")
			default:
				b.footers = append(b.footers, p.Old.Does+" before: "+p.Old.Message)
			}
			out = append(out, b)
		}
	}
	if len(c.Object) > 0 && mutating != 1 {
		b := block{label: "object", style: bold,
			message: "the stored object with " + t.diff.Names[0] + ", and with " + t.diff.Names[1],
			diff:    hunkLines(c.Object)}
		out = append(out, b)
	}
	for _, q := range c.Causes {
		b := block{label: "because", style: bold, message: q.Title}
		if q.Issue != "" {
			b.footers = []string{q.Issue}
		}
		out = append(out, b)
	}
	if c.Made != nil {
		var lines []string
		typ := t.diff.Old.Types.Type(c.Item().Kind)
		for line := range strings.SplitSeq(strings.TrimRight(rewrite.YAML(c.Made, typ), "\n"), "\n") {
			lines = append(lines, "  "+line)
		}
		out = append(out, block{label: madeLabel, style: bold, message: "generated from the fields that the policy matches and reads",
			diff: lines})
	}
	if c.Old.Request == nil || c.New.Request == nil {
		which := t.diff.Names[0]
		if c.New.Request == nil {
			which = t.diff.Names[1]
		}
		out = append(out, block{label: "note", style: bold,
			message: "not created with " + which + ": the object behind it is denied"})
	}
	return out
}

// madeLabel is the label of generated objects.
const madeLabel = "specimen"

// entryBlock returns one effect of a policy, with the expression and the values behind it.
func (t *textWriter) entryBlock(it Item, e *delta.Entry) block {
	s := entryStyles[e.Does]
	switch {
	case e.Violation != nil:
		b := t.violationBlock(it, *e.Violation)
		b.style = s
		return b
	case e.Policy == "":
		return block{style: s, message: e.Message}
	case e.Expr.IsZero():
		return block{style: s, message: e.Message, policy: e.Policy, footers: []string{"policy " + e.Policy}}
	}
	b := block{style: s, message: headline(e.Message, e.Err, e.Expr), err: e.Err, expr: e.Expr, policy: e.Policy,
		footers: []string{origin(e.Policy, e.Binding, e.Param)}}
	b.mark = markOf(e.Expr, policy.Position{}, e.Err)
	for i, o := range it.Decision.Outcomes {
		if o.Kind == e.Kind && o.Policy == e.Policy && o.Binding == e.Binding && o.Param == e.Param &&
			o.Expr.Field == e.Expr.Field {
			return b.addReasons(it, i)
		}
	}
	return b
}

// hunkLines returns the lines of a diff.
func hunkLines(hunks []rewrite.Hunk) []string {
	var lines []string
	for _, h := range hunks {
		if h.Path != "" {
			lines = append(lines, "@ "+h.Path)
		}
		lines = append(lines, h.Lines...)
	}
	if more := len(lines) - longestDiff; more > 1 {
		lines = append(lines[:longestDiff], fmt.Sprintf("  and %d more lines", more))
	}
	return lines
}

func (t *diffText) Close() error {
	if t.blocks && !t.spaced {
		t.line("")
	}
	if t.diff.Compared {
		t.structure()
	}
	if len(t.diff.Proofs) > 0 {
		if t.diff.Compared {
			t.line("")
		}
		for _, p := range t.diff.Proofs {
			t.proof(p)
		}
		if t.diff.Requests && !t.spaced {
			t.line("")
		}
	}
	if all := t.seen.transitions(); len(all) > 0 {
		for _, x := range all {
			of := x.policy + " " + x.part
			if x.policy == "" {
				of = "the API server"
			}
			lead := fmt.Sprintf("%5d  %-22s", t.seen.parts[x], x.old+" → "+x.now)
			t.writeHanging("", lead, utf8.RuneCountInString(lead), strings.TrimSpace(of), bold, 30)
		}
		t.line("")
	}
	if t.diff.Requests {
		for _, n := range t.seen.notes {
			t.writeTitled(bold, "note", n)
		}
		if len(t.seen.notes) > 0 {
			t.line("")
		}
		t.line(t.summarise())
	}
	return t.flush()
}

// summarise counts the requests by result.
func (t *diffText) summarise() string {
	var parts []string
	for _, c := range delta.Changes() {
		if n := t.seen.counts[c]; n > 0 {
			parts = append(parts, t.p.paint(changeStyles[c], fmt.Sprintf("%d %s", n, c)))
		}
	}
	if t.seen.same > 0 {
		parts = append(parts, fmt.Sprintf("%d the same", t.seen.same))
	}
	return strings.TrimSuffix(t.p.paint(bold, plural(t.seen.total, "request", "requests"))+": "+strings.Join(parts,
		", "), ": ")
}

// structure writes the differences between the sets.
func (t *diffText) structure() {
	styles := map[delta.Made]style{delta.Added: green, delta.Removed: red, delta.Changed: yellow}
	counts := map[delta.Made]int{}
	for _, o := range t.diff.Structure {
		counts[o.Made]++
		t.head(styles[o.Made], string(o.Made), o.Ref.String(), o.Position)
		if o.Made == delta.Removed {
			continue
		}
		for _, p := range o.Parts {
			t.line(indent + p.Name)
			for _, s := range p.Old {
				t.writeHanging(indent+indent, t.p.paint(red, "-"), 1, s, red, 2)
			}
			for _, s := range p.New {
				t.writeHanging(indent+indent, t.p.paint(green, "+"), 1, s, green, 2)
			}
		}
		t.line("")
	}
	if len(t.diff.Structure) == 0 {
		t.line("the policies and bindings say the same")
	} else {
		if !t.spaced {
			t.line("")
		}
		var parts []string
		for _, m := range []delta.Made{delta.Added, delta.Removed, delta.Changed} {
			if counts[m] > 0 {
				parts = append(parts, t.p.paint(styles[m], fmt.Sprintf("%d %s", counts[m], m)))
			}
		}
		t.line(t.p.paint(bold, plural(len(t.diff.Structure), "policy or binding",
			"policies and bindings")) + ": " + strings.Join(parts, ", "))
	}
}

// diffGitHub annotates the manifests of requests whose answers differ, and the policies responsible.
type diffGitHub struct {
	w    io.Writer
	text *diffText
}

func (g *diffGitHub) Write(c Comparison) error {
	g.text.seen.count(c)
	if len(c.Changes) == 0 {
		return nil
	}
	it := c.Item()
	var at policy.Position // of the preceding block
	for _, b := range g.text.differenceBlocks(c) {
		if b.label == "note" || b.label == madeLabel {
			continue
		}
		f := b.finding()
		switch f.level = check.Note; {
		case c.Changes[0].Fails() && (b.now == delta.Denies || b.now == delta.Mutates):
			f.level = check.Error
		case b.now != "":
			f.level = check.Warning
		}
		f.title, f.place = string(c.Changes[0]), it.placeOf(b)
		if b.now == "" && c.Old.Locate != nil {
			f.place = c.Old.placeOf(b)
		}
		if !f.place.IsValid() { // the object was generated
			if f.place = at; !b.expr.IsZero() {
				f.place = b.expr.Locate(0)
			}
		}
		at = f.place
		f.message = strings.TrimSpace(it.subject()) + ": " + b.label + ": " + f.message
		if len(b.diff) > 0 {
			f.message += "\n" + strings.Join(b.diff, "\n")
		}
		if err := writeGitHub(g.w, f); err != nil {
			return err
		}
	}
	return nil
}

func (g *diffGitHub) Close() error {
	for _, o := range g.text.diff.Structure {
		f := finding{level: check.Note, title: string(o.Made), place: o.Position, message: o.Ref.String()}
		for _, p := range o.Parts {
			if o.Made != delta.Changed {
				break
			}
			f.message += "\n" + p.Name
			for _, s := range p.Old {
				f.message += "\n- " + s
			}
			for _, s := range p.New {
				f.message += "\n+ " + s
			}
		}
		if err := writeGitHub(g.w, f); err != nil {
			return err
		}
	}
	if err := writeProofsGitHub(g.w, Options{Set: g.text.diff.New.Set, Types: g.text.diff.New.Types},
		g.text.diff.Proofs); err != nil {
		return err
	}
	if !g.text.diff.Requests {
		return nil
	}
	for _, n := range g.text.seen.notes {
		if _, err := fmt.Fprintln(g.w, "note: "+escapeControls(n)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(g.w, g.text.summarise())
	return err
}

// diffJSON writes a DecisionDiff.
type diffJSON struct {
	w io.Writer
	o DiffOptions
	diffTally
	items []jsonComparison
}

type jsonComparison struct {
	Source    *jsonSource     `json:"source,omitempty"`
	CreatedBy *jsonCreator    `json:"createdBy,omitempty"`
	Request   jsonRequest     `json:"request"`
	Changes   []string        `json:"changes"`
	Old       *jsonAnswer     `json:"old"` // null: the request is not made
	New       *jsonAnswer     `json:"new"`
	Policies  []jsonPair      `json:"policies"`
	Object    []string        `json:"object,omitempty"` // lines of a diff
	Causes    []jsonKubeCause `json:"causes,omitempty"`
	Made      any             `json:"made,omitempty"` // the object, if it was generated
}

type jsonKubeCause struct {
	Quirk string `json:"quirk"`
	Title string `json:"title"`
	Issue string `json:"issue,omitempty"`
}

type jsonAnswer struct {
	Response jsonResponse `json:"response"`
	Mutated  bool         `json:"mutated"`
}

type jsonPair struct {
	Kind   policy.Kind `json:"kind,omitempty"`
	Policy string      `json:"policy"` // empty: the API server itself
	Part   string      `json:"part,omitempty"`
	Old    *jsonEntry  `json:"old"` // null: nothing
	New    *jsonEntry  `json:"new"`
}

type jsonEntry struct {
	Does    string      `json:"does"`
	Binding string      `json:"binding,omitempty"`
	Param   string      `json:"param,omitempty"`
	Message string      `json:"message,omitempty"`
	Diff    []string    `json:"diff,omitempty"`
	Place   string      `json:"place,omitempty"`
	Values  []jsonValue `json:"values,omitempty"`
}

func (j *diffJSON) Write(c Comparison) error {
	j.count(c)
	if len(c.Changes) == 0 {
		return nil
	}
	it := c.Item()
	out := jsonComparison{Request: itemOf(it.Request, it.Decision).Request, Old: answerOf(c.Old), New: answerOf(c.New),
		Policies: []jsonPair{}}
	if it.Place.IsValid() {
		out.Source = &jsonSource{it.Place.File, it.Place.Line}
	}
	if it.CreatedBy != nil {
		out.CreatedBy = &jsonCreator{it.CreatedBy.Kind, it.CreatedBy.Name}
	}
	for _, change := range c.Changes {
		out.Changes = append(out.Changes, string(change))
	}
	for _, p := range c.Pairs {
		e := p.Entry()
		out.Policies = append(out.Policies, jsonPair{e.Kind, e.Policy, e.Part, entryOf(c.Old, p.Old),
			entryOf(c.New, p.New)})
	}
	for _, h := range c.Object {
		if h.Path != "" {
			out.Object = append(out.Object, "@ "+h.Path)
		}
		out.Object = append(out.Object, h.Lines...)
	}
	for _, q := range c.Causes {
		out.Causes = append(out.Causes, jsonKubeCause{q.ID, q.Title, q.Issue})
	}
	if c.Made != nil {
		out.Made = c.Made
	}
	j.items = append(j.items, out)
	return nil
}

func answerOf(it Item) *jsonAnswer {
	if it.Request == nil {
		return nil
	}
	item := itemOf(it.Request, it.Decision)
	return &jsonAnswer{item.Response, item.Mutated}
}

func entryOf(it Item, e *delta.Entry) *jsonEntry {
	if e == nil {
		return nil
	}
	out := &jsonEntry{Does: e.Does, Binding: e.Binding, Param: e.Param, Message: e.Message,
		Place: e.Expr.Locate(0).String()}
	for _, h := range e.Hunks {
		if h.Path != "" {
			out.Diff = append(out.Diff, "@ "+h.Path)
		}
		out.Diff = append(out.Diff, h.Lines...)
	}
	if e.Violation != nil {
		if r, ok := it.Reasons[blame.OutcomeOf(it.Decision, *e.Violation)]; ok {
			out.Values = valuesOf(r.Values)
		}
	}
	return out
}

type jsonMade struct {
	Change delta.Made `json:"change"`
	Kind   string     `json:"kind"`
	Name   string     `json:"name"`
	Place  string     `json:"place,omitempty"`
	Parts  []jsonPart `json:"parts"`
}

type jsonPart struct {
	Part string   `json:"part"`
	Old  []string `json:"old"`
	New  []string `json:"new"`
}

func (j *diffJSON) Close() error {
	list := struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Old        string           `json:"old"`
		New        string           `json:"new"`
		OldRefused []jsonRejection  `json:"oldRejected,omitempty"`
		NewRefused []jsonRejection  `json:"newRejected,omitempty"`
		Requests   int              `json:"requests"`
		Same       int              `json:"same"`
		Items      []jsonComparison `json:"items"`
		Notes      []string         `json:"notes,omitempty"`
		Policies   []jsonMade       `json:"policies,omitempty"`
		Proofs     []jsonProof      `json:"proofs,omitempty"`
	}{APIVersion: APIVersion, Kind: "DecisionDiff", Old: j.o.Names[0], New: j.o.Names[1], Requests: j.total,
		Same: j.same, Items: j.items, Notes: j.notes}
	list.OldRefused, list.NewRefused = refusedOf(j.o.Old.Rejected), refusedOf(j.o.New.Rejected)
	for _, o := range j.o.Structure {
		made := jsonMade{Change: o.Made, Kind: o.Kind, Name: o.Name, Place: o.Position.String(), Parts: []jsonPart{}}
		for _, p := range o.Parts {
			made.Parts = append(made.Parts, jsonPart{p.Name, toNonNil(p.Old), toNonNil(p.New)})
		}
		list.Policies = append(list.Policies, made)
	}
	for _, p := range j.o.Proofs {
		list.Proofs = append(list.Proofs, jsonProofOf(p))
	}
	enc := json.NewEncoder(j.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(list)
}

func refusedOf(all []Rejection) []jsonRejection {
	var out []jsonRejection
	for _, r := range all {
		out = append(out, jsonRejection{jsonObject{r.APIVersion, r.Kind, r.Name}, r.Status})
	}
	return out
}
