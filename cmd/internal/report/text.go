package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
)

// textWriter writes for people: one line for an object without findings, and below the line of any other object a block
// for each violation.
type textWriter struct {
	w   io.Writer
	o   Options
	p   palette
	buf bytes.Buffer

	counts map[string]int

	created       int            // objects that controllers would create
	createdCounts map[string]int // by status
	total         int
	inForce       int                 // policies
	matched       map[policy.Ref]bool // policies that matched an object, without a binding
	places        map[policy.Ref]policy.Position
	notes         map[string]bool  // already shown
	told          map[story]string // the first object with each story
	table         table
	spaced        bool // the last line written is empty
	blocks        bool // something other than a plain line was written
}

// Words for the results of an object, in the order of the summary.
const (
	wordOK      = "ok"
	wordMutated = "mutated"
	wordAudited = "audited"
	wordWarned  = "warned"
	wordDenied  = "denied"
	wordSkipped = "skipped"
	wordNotRun  = "not run"
)

var words = []struct {
	word  string
	style style
}{{wordOK, green}, {wordMutated, blue}, {wordAudited, cyan}, {wordWarned, yellow}, {wordDenied, red},
	{wordSkipped, bold}, {wordNotRun, red}}

// A block is one message about an object or a rejected policy.
type block struct {
	label   string
	style   style
	message string
	expr    policy.Expr
	mark    mark
	place   policy.Position // without an expression
	footers []string
	hint    string
	policy  string   // to blame; empty: none
	field   string   // of the object, to blame; empty: unknown
	item    string   // of a list, to blame; empty: none
	diff    []string // lines that begin with "-" or "+", and paths
	now     string   // a new effect of a policy that the old answer lacks; empty: another difference
	audit   string   // the key of an audit annotation; empty: not an audit annotation
	err     error    // of the message
}

func newText(w io.Writer, o Options) (*textWriter, error) {
	t := newTextWriter(w, o)
	for _, r := range o.Rejected {
		t.head(red, "rejected", r.Ref.String(), r.Place)
		t.blocksOf(rejectionBlocks(r))
	}
	return t, t.flush()
}

// newTextWriter returns a writer that has not written anything yet.
func newTextWriter(w io.Writer, o Options) *textWriter {
	t := &textWriter{
		w: w, o: o, p: palette(o.Color),
		counts: map[string]int{}, createdCounts: map[string]int{}, matched: map[policy.Ref]bool{},
		places: map[policy.Ref]policy.Position{}, notes: map[string]bool{}, told: map[story]string{}, table: table{},
		spaced: true,
	}
	if o.Set != nil {
		t.inForce = len(o.Set.Policies)
		for _, p := range o.Set.Policies {
			t.places[p.Ref()] = p.Position
		}
		for b := range o.Set.EachBinding() {
			t.places[b.Ref()] = b.Position
		}
	}
	return t
}

func (t *textWriter) Write(it Item) error {
	word, style, blocks := t.count(it)
	t.table.add(it)
	if it.Failure != nil { // standard error has more about objects that were not run
		if !t.o.Summary && !(t.o.Quiet && word == wordOK) {
			t.head(style, word, it.subject(), it.Place)
			t.blocksOf(blocks)
		}
		return t.flush()
	}
	if t.o.Summary || t.o.Quiet && (word == wordOK || word == wordMutated) && isMerelyMutated(it.Decision, blocks) {
		return nil
	}
	if it.CreatedBy != nil && word == wordOK && len(blocks) == 0 {
		return nil // not a document of the author
	}
	if t.o.Compact {
		t.compact(style, word, it, blocks)
		return t.flush()
	}
	notes := notesIn(blocks)
	told := storyIn(word, blocks)
	first, again := t.told[told]
	switch {
	case again && it.CreatedBy != nil && word == wordOK && len(blocks) == 1 && blocks[0].label == unchecked:
		return nil // already shown with another object
	case again && len(blocks) > len(notes):
		t.headAs(style, word, it.subject(), it.Place, first)
		blocks = notes // the new ones
	default:
		t.told[told] = it.subject()
		t.head(style, word, it.subject(), it.Place)
	}
	t.blocksOf(blocks)
	return t.flush()
}

// compact writes one line of any length.
func (t *textWriter) compact(s style, word string, it Item, blocks []block) {
	at := it.Place
	at.Column = 0
	line := t.p.paint(s, fmt.Sprintf("%-7s", word)) + "  " + escapeControls(it.subject()) + "  " + t.p.paint(dim,
		escapeControls(at.String()))
	if text := briefText(it, blocks); text != "" {
		line += "  " + escapeControls(strings.ReplaceAll(text, "\n", " "))
	}
	t.line(line)
}

// headAs writes the line of an object with the same story as another one.
func (t *textWriter) headAs(s style, word, subject string, place policy.Position, as string) {
	place.Column = 0
	lead, rest := fmt.Sprintf("%-7s", word), escapeControls(subject)+"  "
	tail := "as " + as
	if place.IsValid() {
		tail = place.String() + ", " + tail
	}
	tail = escapeControls(tail)
	if width := utf8.RuneCountInString(lead + "  " + rest + tail); t.o.Width == 0 || width <= t.o.Width {
		t.line(t.p.paint(s, lead) + "  " + rest + t.p.paint(dim, tail))
		return
	}
	t.head(s, word, subject, place)
	t.writeHanging("         ", t.p.paint(dim, "as"), 2, as, dim, 3)
}

// count counts an item and returns its word and blocks.
func (t *textWriter) count(it Item) (string, style, []block) {
	counts := t.counts
	if it.CreatedBy != nil {
		t.created++
		counts = t.createdCounts
	} else {
		t.total++
	}
	if it.Failure != nil {
		if it.Failure.Skipped {
			counts[wordSkipped]++
			if t.notes[it.Failure.Message] {
				return wordSkipped, bold, nil
			}
			t.notes[it.Failure.Message] = true
			return wordSkipped, bold, []block{
				{label: "note", style: bold, message: it.Failure.Message, hint: it.Failure.Hint}}
		}
		counts[wordNotRun]++
		return wordNotRun, red, nil
	}
	d := it.Decision
	for _, o := range d.Outcomes {
		t.matched[o.Kind.Ref(o.Policy)] = true
	}
	for _, v := range d.Violations {
		t.matched[v.Kind.Ref(v.Policy)] = true
	}
	word, s := verdictOf(d)
	counts[word]++
	return word, s, t.decisionBlocks(it)
}

func (t *textWriter) Close() error {
	if t.total == 0 && len(t.o.Rejected) == 0 {
		return nil
	}
	if t.blocks && !t.spaced {
		t.line("")
	}
	if t.o.Summary {
		if lines := t.table.lines(t.p); len(lines) > 0 {
			for _, l := range append(lines, "") {
				t.line(l)
			}
		}
	}
	for _, l := range t.summaryLines() {
		t.line(l)
	}
	return t.flush()
}

// summaryLines returns the summary, with as many clauses on each line as fit.
func (t *textWriter) summaryLines() []string {
	lines := []string{""}
	for clause := range strings.SplitAfterSeq(t.summary(), "; ") {
		last := &lines[len(lines)-1]
		if *last != "" && t.o.Width > 0 && visibleWidth(*last+strings.TrimRight(clause, " ")) > t.o.Width {
			*last = strings.TrimRight(*last, " ")
			lines = append(lines, clause)
			continue
		}
		*last += clause
	}
	return lines
}

// summary counts the results of the objects.
func (t *textWriter) summary() string {
	summary := t.p.paint(bold, plural(t.total, "object", "objects")) + t.tally(t.counts)
	if t.created > 0 {
		summary += "; " + plural(t.created, "object", "objects") + " of workloads" + t.tally(t.createdCounts)
	}
	if n := len(t.o.Rejected); n > 0 {
		summary += "; " + t.p.paint(red, strconv.Itoa(n)+" rejected")
	}
	switch n, why := len(t.matched), t.unenforcedReason(); {
	case t.o.Set == nil:
	case why != "":
		summary += "; " + why
	default:
		summary += fmt.Sprintf("; %d of %s matched", n, plural(t.inForce, "policy", "policies"))
	}
	return summary
}

// tally lists the counts by status after a colon; empty without any.
func (t *textWriter) tally(counts map[string]int) string {
	var parts []string
	for _, w := range words {
		if n := counts[w.word]; n > 0 {
			parts = append(parts, t.p.paint(w.style, strconv.Itoa(n)+" "+w.word))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// unenforcedReason says why nothing was enforced in the whole run; "" if something was.
func (t *textWriter) unenforcedReason() string {
	switch {
	case t.o.Set == nil:
		return ""
	case t.inForce == 0:
		return "no policy in force"
	case len(t.matched) == 0:
		return "no policy matched"
	}
	return ""
}

// Word returns the word at the head of an answer: ok, mutated, audited, warned, denied, skipped or not run.
func Word(it Item) string {
	switch {
	case it.Failure == nil:
		word, _ := verdictOf(it.Decision)
		return word
	case it.Failure.Skipped:
		return wordSkipped
	}
	return wordNotRun
}

// verdictOf returns the strongest word for the result of an object.
func verdictOf(d *celgate.Decision) (string, style) {
	word := wordOK
	switch {
	case !d.Allowed:
		word = wordDenied
	case len(d.Warnings) > 0:
		word = wordWarned
	case len(d.Violations) > 0:
		word = wordAudited
	case d.Mutated:
		word = wordMutated
	}
	for _, w := range words {
		if w.word == word {
			return word, w.style
		}
	}
	return word, plain
}

// decisionBlocks returns the blocks of an object: violations, refusals without a policy, ignored errors, warnings,
// audit annotations and notes.
func (t *textWriter) decisionBlocks(it Item) []block {
	d := it.Decision
	denials := 0
	for _, v := range d.Violations {
		if severityOf(v) == policy.Deny {
			denials++
		}
	}
	var out []block
	first := true
	for _, v := range d.Violations {
		b := t.violationBlock(it, v)
		if severityOf(v) == policy.Deny && denials > 1 && first {
			b.footers = append(b.footers, "the API server reports only this denial: "+codeOf(d))
			first = false
		}
		out = append(out, b)
	}
	if !d.Allowed && denials == 0 && d.Status != nil {
		out = append(out, refusalBlock(it))
	}
	out = append(out, ignoredBlocks(it)...)
	out = append(out, t.changeBlocks(it)...)
	for _, w := range d.Warnings {
		if w.Violation == nil { // otherwise the block of the violation shows it
			out = append(out, block{label: "warning", style: yellow, message: w.Text})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.AuditAnnotations)) {
		if key != "validation.policy.admission.k8s.io/validation_failure" && key != ofEveryPod {
			out = append(out, block{label: "audit annotation " + key, audit: key, style: cyan, message: d.AuditAnnotations[key]})
		}
	}
	for _, n := range d.Notes {
		if !t.notes[n.Message] {
			t.notes[n.Message] = true
			out = append(out, block{label: "note", style: bold, message: n.Message})
		}
	}
	if c := it.Confirmation; c != nil {
		return append(out, confirmationBlocks(c)...)
	}
	if parts := uncheckedOf(d); len(parts) > 0 {
		out = append(out, block{label: unchecked, style: bold, message: strings.Join(parts, ", ")})
	}
	return out
}

// confirmationBlocks returns the differences from the answer of a live server.
func confirmationBlocks(c *Confirmation) (out []block) {
	if c.Unasked != "" {
		out = append(out, block{label: "not confirmed", style: bold, message: c.Unasked})
	}
	for _, text := range c.Differences {
		out = append(out, block{label: "differs", style: red, message: text})
	}
	return out
}

// ofEveryPod is the key of the audit annotation that every Pod gets; text leaves it out.
const ofEveryPod = "pod-security.kubernetes.io/enforce-policy"

// severityOf returns the strongest action of a violation. A violation without actions denies: it is an error before the
// bindings.
func severityOf(v celgate.Violation) policy.Action {
	for _, a := range []policy.Action{policy.Deny, policy.Warn, policy.Audit} {
		if slices.Contains(v.Actions, a) {
			return a
		}
	}
	return policy.Deny
}

var severities = map[policy.Action]struct {
	label, noun string
	style       style
}{
	policy.Deny:  {"denied", "denial", red},
	policy.Warn:  {"warning", "warning", yellow},
	policy.Audit: {"audit", "audit event", cyan},
}

func (t *textWriter) violationBlock(it Item, v celgate.Violation) block {
	s := severities[severityOf(v)]
	b := block{label: s.label, style: s.style, message: headline(v.Message, v.Err, v.Expr), err: v.Err, expr: v.Expr,
		policy: v.Policy}
	if v.Expr.IsZero() {
		by := v.Kind.Ref(v.Policy)
		if v.Binding != "" {
			by = v.Kind.BindingRef(v.Binding)
		}
		b.place = t.places[by]
	}
	b.mark = markOf(v.Expr, policy.Position{}, v.Err)
	b.footers = []string{origin(v.Policy, v.Binding, v.Param)}
	if v.Validation != "" {
		b.footers[0] = "validation " + v.Validation + " of " + b.footers[0]
	}
	if len(v.Actions) > 1 {
		b.footers = append(b.footers, "validationActions "+joinActions(v.Actions))
	}
	if v.IsError {
		b.label = "error"
		b.footers = append(b.footers, "failurePolicy Fail makes the error a "+s.noun)
	}
	b = b.addReasons(it, blame.OutcomeOf(it.Decision, v)).addPlace(it, v.Scope)
	if v.IsError {
		b.hint = hintFor(failing{message: v.Message, err: v.Err, expr: b.expr, request: it.Request, param: v.Param})
	} else {
		b.hint = falseHint(v.Expr.Src)
	}
	return b
}

// addReasons adds the values behind an outcome to a block.
func (b block) addReasons(it Item, outcome int) block {
	r, ok := it.Reasons[outcome]
	if !ok {
		return b
	}
	return b.addReason(r, nil)
}

// addPlace adds the position in the manifest of the value of a scope to a block.
func (b block) addPlace(it Item, scope string) block {
	if scope == "" {
		return b
	}
	if b.field == "" {
		b.field = scope
	}
	if it.Locate != nil {
		if at := it.Locate(scope); at.IsValid() {
			b.footers = append(b.footers, scope+" is at "+at.String())
		}
	}
	return b
}

// addReason marks the part of the expression that decided, and shows the values behind it above the other lines of the
// block. For an error in a variable it shows the variable.
func (b block) addReason(r blame.Reason, remark func(part string) string) block {
	lines := valueLines(r.Values, remark)
	if r.Variable != "" {
		used := b.expr.Field
		if at := b.expr.Locate(0); at.IsValid() {
			used += " at " + at.String()
		}
		lines = append(lines, r.Variable+" is used in "+used)
		b.expr = r.Expr
	}
	if whole := trimMark(r.Expr.Src); r.To == 0 || r.From <= whole.from && r.To >= whole.to {
		b.mark = markOf(r.Expr, policy.Position{}, b.err)
	} else {
		b.mark = mark{r.From, r.To}
	}
	b.field = r.Field()
	for _, v := range r.Values {
		if v.Item != "" && v.Of == 0 {
			b.item = v.Item
			break
		}
	}
	b.footers = append(lines, b.footers...)
	return b
}

// valueLines returns the values of parts of an expression, each in one line, with a remark if there is one. The item of
// a loop is shown when it changes.
func valueLines(steps []explain.Step, remark func(part string) string) []string {
	var lines []string
	item := ""
	for _, s := range steps {
		line := s.Text + " = " + s.Value
		if s.Error {
			line = s.Text + ": " + s.Value
		}
		switch {
		case s.Item == "" || s.Item == item:
		case s.Of > 0:
			line += fmt.Sprintf("   (%s, the last of %d)", s.Item, s.Of)
		default:
			line += "   (" + s.Item + ")"
		}
		item = s.Item
		if remark != nil {
			line += remark(s.Text)
		}
		lines = append(lines, line)
	}
	return lines
}

// refusalBlock describes a refusal other than a denial by a policy: before policies, or because of an error that
// failurePolicy does not cover.
func refusalBlock(it Item) block {
	d := it.Decision
	b := block{label: "denied", style: red, message: d.Status.Message, hint: refusalHint(it)}
	for i, o := range d.Outcomes {
		if refuses(d, o) {
			b.policy, b.expr, b.mark = o.Policy, *o.Expr, markOf(*o.Expr, policy.Position{}, o.Err)
			b.footers = []string{origin(o.Policy, o.Binding, o.Param),
				"the API server answers " + codeOf(d) + ", regardless of failurePolicy"}
			return b.addReasons(it, i)
		}
	}
	b.footers = []string{"the API server answers " + codeOf(d) + ", regardless of the policies"}
	return b
}

// refuses reports whether an outcome is the reason of a refusal without a denial.
func refuses(d *celgate.Decision, o celgate.Outcome) bool {
	var status *apierrors.StatusError // of the request, whatever failurePolicy says
	return !d.Allowed && d.Status != nil && errors.As(o.Err, &status)
}

// ignoredBlocks returns the errors that failurePolicy Ignore ignored.
func ignoredBlocks(it Item) []block {
	var out []block
	for i, o := range it.Decision.Outcomes {
		if o.Verdict != celgate.Error || refuses(it.Decision, o) ||
			slices.ContainsFunc(it.Decision.Violations, func(v celgate.Violation) bool {
				return v.IsError && v.Policy == o.Policy &&
					(v.Binding == "" || v.Binding == o.Binding && v.Param == o.Param)
			}) {
			continue
		}
		b := block{
			label: "ignored", style: bold, message: headline(o.Message, o.Err, *o.Expr), err: o.Err,
			policy: o.Policy, expr: *o.Expr, mark: markOf(*o.Expr, policy.Position{}, o.Err),
			footers: []string{origin(o.Policy, o.Binding, o.Param), "failurePolicy Ignore: the error changes nothing"},
		}.addReasons(it, i)
		b.hint = hintFor(failing{message: o.Message, err: o.Err, expr: b.expr, request: it.Request, param: o.Param})
		out = append(out, b)
	}
	return out
}

func rejectionBlocks(r Rejection) []block {
	var out []block
	for _, p := range r.Problems {
		b := block{
			label: "error", style: red, message: p.Message, expr: p.Expr, place: p.Position,
			mark: markOf(p.Expr, p.Position, nil),
			hint: cmp.Or(p.Hint, hintFor(failing{message: p.Message, expr: p.Expr})),
		}
		if p.Field != "" {
			b.footers = []string{p.Field}
		}
		out = append(out, b)
	}
	if len(out) == 0 && r.Status != nil {
		out = append(out, block{label: "error", style: red, message: r.Status.Message,
			hint: hintFor(failing{message: r.Status.Message})})
	}
	return out
}

// falseExpression is the message of a validation without one.
const falseExpression = "the expression is false"

// headline removes the part of a message that the excerpt below it shows.
func headline(message string, err error, e policy.Expr) string {
	if e.IsZero() {
		return message
	}
	failed, ok := err.(*celgate.ExpressionError) //nolint:errorlint // the context must be readable
	if ok && failed.Expr == e.Src {
		return failed.Err.Error()
	}
	if message == "failed expression: "+strings.TrimSpace(e.Src) {
		return falseExpression
	}
	return message
}

func origin(policyName, binding, param string) string {
	return "policy " + invocation(policyName, binding, param)
}

// invocation names a policy with its binding and param.
func invocation(policyName, binding, param string) string {
	s := policyName
	if binding != "" {
		s += ", binding " + binding
	}
	if param != "" {
		s += ", param " + param
	}
	return s
}

func codeOf(d *celgate.Decision) string {
	if d.Status == nil {
		return "a failure"
	}
	return fmt.Sprintf("%d %s", d.Status.Code, d.Status.Reason)
}

func refusalHint(it Item) string {
	st := it.Decision.Status
	if isMissingNamespace(st) {
		return giveNamespace
	}
	if path := wording.WrongBoolean(st.Message); path != "" && it.Misread != nil {
		for _, word := range it.Misread() {
			if word.Field == path ||
				strings.HasPrefix(word.Field, path+".") { // the message names only the map
				return word.Position.String() + ": " + word.Message
			}
		}
	}
	return ""
}

func joinActions(actions []policy.Action) string {
	s := make([]string, len(actions))
	for i, a := range actions {
		s[i] = string(a)
	}
	return strings.Join(s, ", ")
}

// head writes the line of an object. Text that does not fit goes below its name.
func (t *textWriter) head(s style, word, subject string, place policy.Position) {
	const margin = "         "
	room := 0
	if t.o.Width > 0 {
		room = max(t.o.Width-len(margin), 20)
	}
	lines := Wrap(escapeControls(subject), room)
	last := len(lines) - 1
	for i, l := range lines {
		lead := margin
		if i == 0 {
			lead = t.p.paint(s, fmt.Sprintf("%-7s", word)) + "  "
		}
		if i < last || place.File == "" {
			t.line(lead + l)
			continue
		}
		place.Column = 0
		at := escapeControls(place.String())
		if room > 0 && utf8.RuneCountInString(l)+2+utf8.RuneCountInString(at) > room {
			t.line(lead + l)
			t.line(margin + t.p.paint(dim, at))
		} else {
			t.line(lead + l + "  " + t.p.paint(dim, at))
		}
	}
}

// writeTitled writes a label at the margin and text after it; further lines of the text are indented.
func (t *textWriter) writeTitled(s style, label, text string) {
	t.writeHanging("", t.p.paint(s, label+":"), len(label)+1, text, plain, 2*len(indent))
}

// writeHanging writes a label of a given length and text after it, behind a margin; further lines of the text begin at
// a column behind the margin. A label that is too long has a line of its own.
func (t *textWriter) writeHanging(margin, label string, length int, text string, s style, column int) {
	room := 0
	if t.o.Width > 0 {
		room = max(t.o.Width-len(margin)-column, 20)
	}
	taken := max(0, length+1-column)
	if room > 0 && taken > room-20 && utf8.RuneCountInString(text)+taken > room {
		t.line(margin + label)
		label, taken = "", 0
	}
	for i, l := range Wrap(strings.Repeat("\x00", taken)+escapeControls(text), room) {
		l = t.p.paint(s, strings.TrimLeft(l, "\x00"))
		if i == 0 && label != "" {
			t.line(margin + label + " " + l)
		} else {
			t.line(margin + strings.Repeat(" ", column) + l)
		}
	}
}

// item writes an item of a list, whose further lines are indented deeper.
func (t *textWriter) item(text string) {
	width := 0
	if t.o.Width > 0 && len(indent)+utf8.RuneCountInString(text) > t.o.Width {
		width = max(t.o.Width-2*len(indent), 20)
	}
	for i, l := range Wrap(escapeControls(text), width) {
		if i > 0 {
			l = indent + l
		}
		t.line(indent + l)
	}
}

// blocksOf writes blocks with an empty line around each that has more than its message; the others follow each other
// directly.
func (t *textWriter) blocksOf(blocks []block) {
	large := func(b block) bool { return !b.expr.IsZero() || len(b.footers)+len(b.diff) > 0 }
	spread := slices.ContainsFunc(blocks, large)
	for i, b := range blocks {
		if large(b) || spread && i == 0 {
			t.writeGap()
		}
		t.block(b)
		if large(b) || spread && i == len(blocks)-1 {
			t.writeGap()
		}
	}
}

const indent = "  "

func (t *textWriter) block(b block) {
	width := t.o.Width
	if width > 0 {
		width = max(width-len(indent), 30)
	}
	message, column := plain, len(b.label)+2
	if len(b.footers) > 0 || !b.expr.IsZero() {
		message = bold
	}
	if width > 0 && column > width/3 {
		column = 2 * len(indent)
	}
	t.writeHanging(indent, t.p.paint(b.style, escapeControls(b.label)+":"), len(b.label)+1, b.message, message, column)
	for _, l := range b.diff {
		s := plain
		switch l[0] {
		case '-':
			s = red
		case '+':
			s = green
		case '@':
			s = cyan
		}
		t.line(indent + indent + t.p.paint(s, escapeControls(l)))
	}
	gutter := 1
	if !b.expr.IsZero() {
		var lines []string
		lines, gutter = t.p.excerpt(b.expr, b.mark, width)
		for _, l := range lines {
			t.line(indent + l)
		}
	} else if b.place.IsValid() {
		t.line(indent + strings.Repeat(" ", gutter) + t.p.paint(blue, "-->") + " " + escapeControls(b.place.String()))
	}
	footer := func(lead string, s style, text string) {
		room := 0
		if width > 0 {
			room = max(width-gutter-1-len(lead), 20)
		}
		for i, l := range Wrap(escapeControls(text), room) {
			if i == 0 {
				t.line(indent + strings.Repeat(" ", gutter+1) + t.p.paint(s, lead) + l)
			} else {
				t.line(indent + strings.Repeat(" ", gutter+1+len(lead)) + l)
			}
		}
	}
	for _, f := range b.footers {
		footer("= ", blue, f)
	}
	if b.hint != "" {
		footer("hint: ", bold, b.hint)
	}
}

// writeGap writes an empty line unless one was just written.
func (t *textWriter) writeGap() {
	t.blocks = true
	if !t.spaced {
		t.line("")
	}
}

func (t *textWriter) line(s string) {
	t.buf.WriteString(s)
	t.buf.WriteByte('\n')
	t.spaced = s == ""
}

func (t *textWriter) flush() error {
	_, err := t.w.Write(t.buf.Bytes())
	t.buf.Reset()
	return err
}
