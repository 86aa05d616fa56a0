package playground

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/order"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/cmd/internal/suite"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// words tell a user of the page how to supply missing input.
var words = requests.Words{
	State:       "to the state",
	Old:         "to the state, or to the old objects",
	Subresource: "subresource %s",
}

// An asking is one question with its world.
type asking struct {
	*world
	ask      *Ask
	recorder *report.Recorder
	follow   requests.Workloads
	all      []Item
	coverage *suite.Coverage // receives the outcomes, instead of items; nil: items
}

// answer answers for each document of the batch, and for the objects that controllers would create for it, if policies
// match them. Of the documents and requests of the last question it takes the last answers: a key changes one document.
func (s *Session) answer(ctx context.Context, w *world, ask *Ask) []Item {
	a := &asking{world: w, ask: ask, recorder: report.NewRecorder(w.set)}
	again := map[answerKey][]Item{}
	request := fmt.Sprintf("%q %q %q %q %q %t", ask.Old, ask.Operation, ask.Subresource, ask.User, ask.Groups, ask.DryRun)
	for d := range a.documents {
		key := answerKey{w.engine, d.Source.Line, d.Source.Text, d.Item, request}
		items, known := s.answers[key]
		if !known {
			before := len(a.all)
			a.document(ctx, d)
			items = slices.Clone(a.all[before:])
		} else {
			a.all = append(a.all, items...)
		}
		again[key] = items
	}
	s.answers = again
	return a.all
}

// An answerKey identifies everything that the answer about one document depends on.
type answerKey struct {
	engine     *celgate.Engine
	line       int
	text, item string
	request    string
}

// documents yields the documents of the batch to decide about.
func (a *asking) documents(yield func(*manifest.Document) bool) {
	for _, d := range a.batch {
		if !manifest.IsSuite(d.Object) && !yield(d) {
			return
		}
	}
}

func (a *asking) document(ctx context.Context, d *manifest.Document) {
	it := report.Item{Place: d.Position(), Kind: tree.Object(d.Object).Kind(), Name: tree.Object(d.Object).Name(),
		Misread: d.Misreadings}
	request, err := a.request(ctx, d)
	if err != nil {
		it.Failure = &report.Failure{Message: err.Error(), Hint: words.Hint(err)}
		a.add(it, nil, nil)
		return
	}
	place := d.Place
	if manifest.IsReview(d.Object) {
		place = nil
	}
	stored := a.decide(ctx, it, request, place)
	if stored != nil && a.follow.Follows(request, a.types, a.engine) {
		creator := &report.Creator{Kind: request.Kind.Kind, Name: report.NameOf(request)}
		a.children(ctx, report.Item{Place: it.Place, CreatedBy: creator}, stored, request, d.Place)
	}
}

// children answers for the objects that controllers create for a stored object, recursively.
func (a *asking) children(ctx context.Context, it report.Item, stored map[string]any, parent *celgate.Request,
	place func(string) policy.Locator) {
	children, err := a.follow.Children(stored)
	if err != nil {
		return // without --pods-of, only kinds with known templates are followed
	}
	for _, c := range children {
		request, err := a.follow.ChildRequest(c, parent, a.types)
		if err != nil {
			continue // a child is always of a built-in kind
		}
		at := func(field string) policy.Locator { return place(c.ParentPath(field)) }
		if made := a.decide(ctx, it, request, at); made != nil {
			a.children(ctx, it, made, request, at)
		}
	}
}

// request creates the request for a document.
func (a *asking) request(ctx context.Context, d *manifest.Document) (*celgate.Request, error) {
	if manifest.IsReview(d.Object) {
		return celgate.NewRequestFromReview(a.types, d.Object)
	}
	as := celgate.As{Operation: celgate.Operation(a.ask.Operation), Subresource: a.ask.Subresource,
		DryRun: a.ask.DryRun, User: a.ask.User, Groups: a.ask.Groups}
	if a.old != nil {
		as.Old = a.old.Get
	}
	r, err := celgate.NewRequest(ctx, a.types, a.stored, d.Object, as)
	if err == nil {
		r.UID = requests.UID(d, r)
	}
	return r, err
}

// decide answers a request, and returns the object in its stored form, nil if it would not be stored.
func (a *asking) decide(ctx context.Context, it report.Item, r *celgate.Request,
	place func(string) policy.Locator) map[string]any {
	it.Request = r
	fail := func(err error) map[string]any {
		it.Decision, it.Failure = nil, &report.Failure{Message: err.Error()}
		it.Kind, it.Name = r.Kind, report.NameOf(r)
		a.add(it, nil, nil)
		return nil
	}
	prepared, err := a.engine.Prepare(ctx, r)
	if err != nil {
		status, ok := requests.Refusal(err)
		if !ok {
			return fail(err)
		}
		it.Decision = &celgate.Decision{Status: status}
		a.add(it, nil, nil)
		return nil
	}
	it.Request, it.Prepared = prepared.Request(), prepared
	if a.coverage != nil {
		return a.cover(ctx, prepared)
	}
	a.recorder.Take()
	if it.Decision, err = a.engine.Explain(ctx, prepared, explain.Options{Trace: a.recorder.Trace}); err != nil {
		return fail(err)
	}
	events := a.recorder.Take()
	report.Resolve(events, it.Decision)
	it.Reasons = blame.Reasons(ctx, a.engine, prepared, it.Decision.Outcomes)
	if place != nil {
		it.Locate = func(field string) policy.Position { return place(field).Locate(0) }
	}
	a.note(ctx, &it)
	orders, err := report.OtherOrders(ctx, a.engine, prepared, events)
	if err != nil {
		return fail(err)
	}
	a.add(it, events, orders)
	if it.Decision.Allowed {
		return it.Decision.Object
	}
	return nil
}

// note adds notes about assumptions of the answer.
func (a *asking) note(ctx context.Context, it *report.Item) {
	d, r := it.Decision, it.Request
	if note, err := order.Note(ctx, a.engine, it.Prepared, d); err == nil && note != nil {
		d.Notes = append(d.Notes, *note)
	}
	if note := requests.NoteSize(r); note != nil {
		d.Notes = append(d.Notes, *note)
	}
	if a.assumed[r.Namespace] && r.Kind != requests.Namespace && requests.ReadNamespaces(a.set) {
		d.Notes = append(d.Notes, celgate.Note{Message: fmt.Sprintf(
			"namespace %q is not in the state: it is assumed to exist without labels of its own", r.Namespace)})
	}
	if r.UserAssumed && slices.ContainsFunc(d.Outcomes, func(o celgate.Outcome) bool {
		p := a.set.Policy(o.Kind.Ref(o.Policy))
		return p != nil && requests.ReadsUser(p)
	}) {
		d.Notes = append(d.Notes, celgate.Note{Message: fmt.Sprintf(
			"policies depend on the user, which is %q without permissions and groups: name another", r.UserInfo.Username)})
	}
}

// add adds an answer to the page. It leaves out objects of controllers without a result.
func (a *asking) add(it report.Item, events []report.Event, orders []report.Order) {
	ran := slices.ContainsFunc(events, func(e report.Event) bool { return e.Op == explain.OpRun })
	if it.CreatedBy != nil && it.Decision != nil && it.Decision.Allowed && !ran {
		return
	}
	out := Item{Place: a.ask.place(it.Place), Verdict: report.Word(it), Subject: subjectOf(it),
		Explanation: json.RawMessage("null"), Changes: []Change{}, Marks: []Mark{}}
	about := report.Options{Set: a.set, Types: a.types, Color: true}
	out.Text = textOfItem(it, about)
	if it.Decision != nil {
		out.Explanation = explanationOf(report.Explanation{Item: it, Events: events, Orders: orders}, about)
		for _, c := range it.Decision.Changes {
			out.Changes = append(out.Changes, a.change(c))
		}
		for _, v := range it.Decision.Violations {
			if !v.Expr.IsZero() {
				out.Marks = append(out.Marks, a.mark(v))
			}
		}
		if object := it.Decision.Object; object != nil && it.Decision.Allowed {
			out.Object = rewrite.YAML(object, a.types.Type(tree.Object(object).Kind()))
		}
	}
	a.all = append(a.all, out)
}

func subjectOf(it report.Item) string {
	if it.Request == nil {
		return it.Kind.Kind + " " + it.Name
	}
	subject := string(it.Request.Operation) + " " + it.Request.Kind.Kind + " " + report.NameOf(it.Request)
	if sub := it.Request.SubResource; sub != "" {
		subject += " (" + sub + ")"
	}
	if by := it.CreatedBy; by != nil {
		subject += " of " + by.Kind + " " + by.Name
	}
	return subject
}

// textOfItem returns the output of celgate apply for one item.
func textOfItem(it report.Item, about report.Options) string {
	var text bytes.Buffer
	w, err := report.NewText(&text, about)
	if err == nil {
		err = w.Write(it)
	}
	if err != nil {
		return err.Error()
	}
	if it.Failure != nil { // a command line prints it on standard error
		text.WriteString("\n" + it.Failure.Message + "\n")
		if it.Failure.Hint != "" {
			text.WriteString("hint: " + it.Failure.Hint + "\n")
		}
	}
	return text.String()
}

// explanationOf returns the item of celgate explain -o json.
func explanationOf(e report.Explanation, about report.Options) json.RawMessage {
	if e.Failure == nil {
		if text, err := report.ExplanationJSON(e, about); err == nil {
			return text
		}
	}
	return json.RawMessage("null")
}

func (a *asking) change(c celgate.Change) Change {
	by := c.Policy
	if c.Binding != "" {
		by += ", binding " + c.Binding
	}
	if c.Param != "" {
		by += ", param " + c.Param
	}
	if c.Second {
		by += ", in the second pass"
	}
	out := Change{By: by, Hunks: []Hunk{}}
	kind := tree.Object(c.After).Kind()
	for _, h := range rewrite.Diff(c.Before, c.After, a.types.Type(kind)) {
		out.Hunks = append(out.Hunks, Hunk{h.Path, h.Lines})
	}
	return out
}

// mark marks the expression of a violation.
func (a *asking) mark(v celgate.Violation) Mark {
	m := Mark{Place: a.ask.span(v.Expr.Locate(0), v.Expr, 0, len(v.Expr.Src)), Severity: "warning",
		Message: cmp.Or(v.Message, "failed")}
	switch {
	case slices.Contains(v.Actions, policy.Deny) || v.IsError:
		m.Severity, m.Message = "error", "denied: "+m.Message
	case slices.Contains(v.Actions, policy.Warn):
		m.Message = "warning: " + m.Message
	default:
		m.Severity, m.Message = "info", "audited: "+m.Message
	}
	return m
}
