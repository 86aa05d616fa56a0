package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/prove"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A Proof is the answer to a claim about policies.
type Proof struct {
	Claim string // a sentence
	*prove.Result
	Old, New string               // the names of the sets; for a claim about one set Old is empty
	Reasons  map[int]blame.Reason // for the outcomes of the old decision
	NewTold  map[int]blame.Reason // for the outcomes of the new one
	Types    *schema.Registry     // for the order of the members of objects
	About    Subject
	Policies []string // in the order of the old decision, if it is about their order
	Error    *ProofError
}

// A ProofError is the expression that a claim is about, and its error in the example.
type ProofError struct {
	Policy  *policy.Policy
	Binding string
	Param   string // its name; empty without one
	Part    policy.Part
	Message string // the server's text; empty without an example
	Err     error  // with that text; nil if the server does not report it
	Reason  blame.Reason
}

// A Subject determines what an example shows.
type Subject string

// The subjects of claims.
const (
	AboutSets    Subject = ""           // two sets of validating policies: one denies a request, the other admits it
	AboutResults Subject = "results"    // validating policies deny the result of mutating ones
	AboutAgain   Subject = "second run" // a mutating policy changes its own result
	AboutOrder   Subject = "order"      // the results of two mutating policies depend on their order
	AboutErrors  Subject = "errors"     // an expression is an error
)

// ProofFormats returns the formats of [WriteProofs].
func ProofFormats() []string { return []string{"text", "json", "github"} }

// WriteProofs writes proofs in a format.
func WriteProofs(format string, w io.Writer, o Options, all []Proof) error {
	switch format {
	case "text":
		t, err := newText(w, o)
		for _, p := range all {
			t.proof(p)
		}
		if err != nil {
			return err
		}
		return t.flush()
	case "json":
		return writeProofsJSON(w, o, all)
	case "github":
		return writeProofsGitHub(w, o, all)
	}
	return fmt.Errorf("unknown output format %q: one of %s", format, strings.Join(ProofFormats(), ", "))
}

// WriteVacuities writes the parts of policies without an effect.
func WriteVacuities(format string, w io.Writer, o Options, all *prove.Vacuities) error {
	if format == "json" {
		list := struct {
			APIVersion string          `json:"apiVersion"`
			Kind       string          `json:"kind"`
			Rejected   []jsonRejection `json:"rejected,omitempty"`
			Solver     *jsonOpinion    `json:"solver,omitempty"`
			Items      []jsonVacuity   `json:"items"`
		}{APIVersion: APIVersion, Kind: "VacuityList", Rejected: refusedOf(o.Rejected), Solver: jsonOpinionOf(all.Opinion),
			Items: []jsonVacuity{}}
		for _, v := range all.Found {
			list.Items = append(list.Items,
				jsonVacuity{v.Policy, v.Binding, v.Expr.Field, v.Expr.Locate(v.From).String(), v.Part(), v.Message})
		}
		return encode(w, list)
	}
	if format == "github" {
		return writeVacuitiesGitHub(w, o, all.Found)
	}
	t, err := newText(w, o)
	if err != nil {
		return err
	}
	for _, v := range all.Found {
		t.head(yellow, "vacuous", vacuousPart(v)+" "+v.Message, policy.Position{})
		b := block{label: "proved", style: green, message: "policy " + v.Policy, expr: v.Expr}
		if v.Binding != "" {
			b.message += ", binding " + v.Binding
		}
		switch {
		case v.To > 0:
			b.mark = mark{v.From, v.To}
		case !v.Expr.IsZero():
			b.mark = markOf(v.Expr, policy.Position{}, nil)
		}
		t.blocksOf([]block{b})
	}
	t.blocksOf(opinionBlocks(all.Opinion))
	return t.flush()
}

// vacuousPart names the part of a policy without an effect.
func vacuousPart(v prove.Vacuity) string {
	if v.Expr.IsZero() {
		return "binding " + v.Binding
	}
	return v.Expr.Field
}

type jsonVacuity struct {
	Policy  string `json:"policy"`
	Binding string `json:"binding,omitempty"`
	Field   string `json:"field,omitempty"`
	Place   string `json:"place,omitempty"`
	Part    string `json:"part,omitempty"`
	Message string `json:"message"`
}

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

var answerWords = map[prove.Answer]struct {
	word  string
	style style
}{prove.Proved: {"proved", green}, prove.Counterexample: {"counterexample", red},
	prove.NotFound: {"not found", yellow}, prove.Undecided: {"undecided", yellow},
	prove.Disputed: {"disputed", red}}

// AnswerWord returns the word of an answer, such as "not found".
func AnswerWord(a prove.Answer) string { return answerWords[a].word }

func (t *textWriter) proof(p Proof) {
	word := answerWords[p.Answer]
	claim := p.Claim
	switch p.Answer {
	case prove.Counterexample:
		claim = "not true: " + claim
	case prove.NotFound:
		claim = "no counterexample within the bounds of lists: " + claim
	}
	t.head(word.style, word.word, claim, policy.Position{})
	var blocks []block
	if p.Found != nil {
		blocks = t.exampleBlocks(p)
	}
	for _, r := range p.Result.Reasons {
		b := block{label: "because", style: yellow, message: r.Message, policy: r.Policy}
		if !r.Expr.IsZero() {
			b.expr, b.mark = r.Expr, markOf(r.Expr, policy.Position{}, nil)
			if r.To > r.From {
				b.mark = mark{r.From, r.To}
			}
		}
		if r.Policy != "" {
			b.footers = []string{"policy " + r.Policy}
		}
		blocks = append(blocks, b)
	}
	if p.Answer != prove.Counterexample && (len(p.Cases) > 0 || p.Answer == prove.Proved) {
		blocks = append(blocks, block{label: "asked", style: bold, message: casesIn(p.Cases)})
	}
	t.blocksOf(append(blocks, opinionBlocks(p.Opinion)...))
}

// opinionBlocks shows what a second solver says.
func opinionBlocks(o prove.Opinion) []block {
	if o.Solver == "" {
		return nil
	}
	style := green
	if o.Open > 0 {
		style = yellow
	}
	return []block{{label: o.Solver, style: style, message: opinionText(o)}}
}

func opinionText(o prove.Opinion) string {
	var parts []string
	switch all := o.Agreed + o.Alone + o.Open; {
	case o.Agreed == all && all > 0:
		parts = append(parts, "agrees")
	case o.Agreed > 0:
		parts = append(parts, fmt.Sprintf("agrees about %d of %d questions", o.Agreed, all))
	}
	if o.Alone > 0 {
		parts = append(parts, fmt.Sprintf("decides %d that celgate's solver does not", o.Alone))
	}
	if o.Open > 0 {
		parts = append(parts, fmt.Sprintf("does not decide %d: %s", o.Open, o.Reason))
	}
	return cmp.Or(strings.Join(parts, "; "), "disagrees")
}

// exampleBlocks shows a request with both answers.
func (t *textWriter) exampleBlocks(p Proof) []block {
	f := p.Found
	item := Item{Request: f.Request, Prepared: f.Old.Prepared, Decision: f.Old.Decision, Reasons: p.Reasons}
	out := []block{{label: "request", style: bold, message: item.subject() + " in " + p.Case.Resource.GroupVersion().String() +
		userText(f.Request)}}
	switch p.About {
	case AboutSets:
		out = append(out, t.answerBlocks(p, item)...)
	case AboutErrors:
		out = append(out, p.errorBlock())
	default:
		out = append(out, t.mutationBlocks(p, item)...)
	}
	show := func(label string, object map[string]any) {
		if object != nil {
			out = append(out, block{label: label, style: bold, message: "as its author writes it",
				diff: yamlLines(object, p.Types.Type(tree.Object(object).Kind()))})
		}
	}
	show("old object", f.Request.OldObject)
	show("object", f.Request.Object)
	for _, o := range f.Existing() {
		show("existing object", o)
	}
	return out
}

// answerBlocks shows the answers of two sets of validating policies.
func (t *textWriter) answerBlocks(p Proof, item Item) []block {
	f := p.Found
	b := t.violationBlock(item, *f.Old.Decision.Denial)
	if p.Old != "" {
		b.label += " by " + p.Old
	} else {
		b.label, b.message, b.footers, b.hint = "the claim", "fails", nil, ""
	}
	return []block{b, {label: "admitted by " + p.New, style: green, message: ignoredText(f.New.Decision)}}
}

// errorBlock shows the error of an expression.
func (p Proof) errorBlock() block {
	e := p.Error
	b := block{label: "error", style: red, message: headline(e.Message, e.Err, e.Part.Expr), err: e.Err, expr: e.Part.Expr,
		mark: markOf(e.Part.Expr, policy.Position{}, e.Err), policy: e.Policy.Name,
		footers: []string{origin(e.Policy.Name, e.Binding, e.Param), e.effect()}}
	if len(e.Reason.Expr.Src) > 0 {
		b = b.addReason(e.Reason, nil)
	}
	b.hint = hintFor(failing{message: e.Message, err: e.Err, expr: b.expr, request: p.Found.Request, param: e.Param})
	return b
}

// effect describes what the server does because of the error.
func (e *ProofError) effect() string {
	switch {
	case e.Part.Use == policy.UseMessageExpression:
		return "the denial does not have this message"
	case e.Policy.FailurePolicy == policy.Ignore && e.Policy.Kind == policy.Mutating:
		return "failurePolicy Ignore: the object stays as it is"
	case e.Policy.FailurePolicy == policy.Ignore:
		return "failurePolicy Ignore: the error changes nothing"
	case e.Part.Use == policy.UseVariable:
		return "it is an error of the expressions that read it"
	}
	return "failurePolicy Fail makes the error a violation"
}

// mutationBlocks shows what mutating policies make of a request.
func (t *textWriter) mutationBlocks(p Proof, item Item) (out []block) {
	f := p.Found
	of := p.Types.Type(f.Request.Kind)
	changes := func(label, message string, before, after map[string]any) {
		b := block{label: label, style: bold, message: message, diff: hunkLines(rewrite.Diff(before, after, of))}
		if len(b.diff) == 0 {
			b.message += " (nothing)"
		}
		out = append(out, b)
	}
	before := f.Old.Prepared.Request().Object
	failure := func(label, message string, d *celgate.Decision) {
		b := block{label: label, style: red, message: message + " is denied"}
		if d.Status != nil {
			b.message += ": " + d.Status.Message
		}
		out = append(out, b)
	}
	switch p.About {
	case AboutResults:
		if after := f.Old.Decision.MutatedObject; after != nil {
			changes("changed by", p.Old, before, after)
		}
		b := t.violationBlock(item, *f.Old.Decision.Denial)
		b.label += " by " + p.New
		out = append(out, b)
	case AboutAgain:
		once := f.Old.Decision.MutatedObject
		changes("changed by", "the first run", before, once)
		if again := f.New.Decision; !again.Allowed {
			failure("not admitted", "the second run", again)
		} else {
			changes("changed by", "the second run", once, again.Object)
		}
	case AboutOrder:
		for _, order := range []struct {
			names []string
			asked prove.Asked
		}{{p.Policies, f.Old}, {[]string{p.Policies[1], p.Policies[0]}, f.New}} {
			names := strings.Join(order.names, ", then ")
			if !order.asked.Decision.Allowed {
				failure("not admitted", names, order.asked.Decision)
				continue
			}
			changes("changed by", names, before, order.asked.Decision.Object)
		}
	}
	return out
}

func userText(r *celgate.Request) string {
	if r.UserInfo.Username == celgate.DefaultUser && len(r.UserInfo.Groups) == 0 {
		return ""
	}
	text := " by " + r.UserInfo.Username
	if len(r.UserInfo.Groups) > 0 {
		text += " of " + strings.Join(r.UserInfo.Groups, ", ")
	}
	return text
}

// ignoredText describes the validations that admitted a request.
func ignoredText(d *celgate.Decision) string {
	passed, failed := 0, 0
	for _, o := range d.Outcomes {
		switch {
		case o.Verdict == celgate.Error:
			failed++
		case o.Rule != nil && o.Verdict == celgate.Admit:
			passed++
		}
	}
	switch {
	case failed > 0:
		return "failurePolicy Ignore: an error is ignored"
	case passed == 0:
		return "none of its validations applies"
	case passed == 1:
		return "1 validation holds"
	}
	return fmt.Sprintf("%d validations hold", passed)
}

// casesIn lists cases, grouped by resource.
func casesIn(all []prove.Case) string {
	var order []string
	operations := map[string][]string{}
	for _, c := range all {
		name := strings.TrimPrefix(c.String(), c.Operation+" ")
		if operations[name] == nil {
			order = append(order, name)
		}
		operations[name] = append(operations[name], c.Operation)
	}
	for i, name := range order {
		order[i] = strings.Join(operations[name], ", ") + " of " + name
	}
	const most = 6
	if n := len(order); n > most {
		order = append(order[:most], fmt.Sprintf("%d more", n-most))
	}
	if len(order) == 0 {
		return "nothing: the rules do not name a known resource"
	}
	return strings.Join(order, "; ")
}

type jsonProof struct {
	Claim   string            `json:"claim"`
	Policy  string            `json:"policy,omitempty"` // of the expression that the claim is about
	Field   string            `json:"field,omitempty"`
	Place   string            `json:"place,omitempty"`
	Answer  prove.Answer      `json:"answer"`
	Cases   []string          `json:"cases"`
	Example *jsonExample      `json:"example,omitempty"`
	Reasons []jsonProofReason `json:"reasons,omitempty"`
	Tried   int               `json:"tried"`
	Solver  *jsonOpinion      `json:"solver,omitempty"`
}

// A jsonOpinion counts the answers of a second solver.
type jsonOpinion struct {
	Name   string `json:"name"`
	Agreed int    `json:"agreed"`
	Alone  int    `json:"alone"`
	Open   int    `json:"open"`
	Reason string `json:"reason,omitempty"` // of an open question
}

func jsonOpinionOf(o prove.Opinion) *jsonOpinion {
	if o.Solver == "" {
		return nil
	}
	return &jsonOpinion{o.Solver, o.Agreed, o.Alone, o.Open, o.Reason}
}

type jsonExample struct {
	Request   jsonRequest      `json:"request"`
	Object    map[string]any   `json:"object"`
	OldObject map[string]any   `json:"oldObject"`
	Objects   []map[string]any `json:"objects"`
	Old       jsonResponse     `json:"old"`
	New       *jsonResponse    `json:"new,omitempty"`
	Policy    string           `json:"policy,omitempty"`
	Field     string           `json:"field,omitempty"`
	Error     string           `json:"error,omitempty"` // of an expression
	Results   *[2]jsonMutated  `json:"results,omitempty"`
}

// A jsonMutated is the object after a run of mutating policies, null if the run fails.
type jsonMutated struct {
	Object map[string]any `json:"object"`
}

type jsonProofReason struct {
	Policy  string `json:"policy,omitempty"`
	Field   string `json:"field,omitempty"`
	Place   string `json:"place,omitempty"`
	Message string `json:"message"`
}

// resultsOf returns the two objects that an example about mutations compares; nil: it compares answers.
func resultsOf(p Proof) *[2]jsonMutated {
	after := func(d *celgate.Decision) jsonMutated {
		if !d.Allowed {
			return jsonMutated{}
		}
		return jsonMutated{d.Object}
	}
	f := p.Found
	switch p.About {
	case AboutAgain:
		return &[2]jsonMutated{{f.Old.Decision.MutatedObject}, after(f.New.Decision)}
	case AboutOrder:
		return &[2]jsonMutated{after(f.Old.Decision), after(f.New.Decision)}
	}
	return nil
}

func writeProofsJSON(w io.Writer, o Options, all []Proof) error {
	list := struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Rejected   []jsonRejection `json:"rejected,omitempty"`
		Items      []jsonProof     `json:"items"`
	}{APIVersion: APIVersion, Kind: "ProofList", Rejected: refusedOf(o.Rejected), Items: []jsonProof{}}
	for _, p := range all {
		list.Items = append(list.Items, jsonProofOf(p))
	}
	return encode(w, list)
}

func jsonProofOf(p Proof) jsonProof {
	out := jsonProof{Claim: p.Claim, Answer: p.Answer, Tried: p.Tried, Cases: []string{},
		Solver: jsonOpinionOf(p.Opinion)}
	if e := p.Error; e != nil {
		out.Policy, out.Field, out.Place = e.Policy.Name, e.Part.Field, e.Part.Locate(0).String()
	}
	for _, c := range p.Cases {
		out.Cases = append(out.Cases, c.String())
	}
	for _, r := range p.Result.Reasons {
		out.Reasons = append(out.Reasons, jsonProofReason{r.Policy, r.Expr.Field, r.Expr.Locate(r.From).String(),
			r.Message})
	}
	if f := p.Found; f != nil {
		old := itemOf(f.Request, f.Old.Decision)
		out.Example = &jsonExample{Request: old.Request, Object: f.Request.Object, OldObject: f.Request.OldObject,
			Objects: toNonNil(f.Objects), Old: old.Response}
		if denial := f.Old.Decision.Denial; denial != nil && (p.About == AboutSets || p.About == AboutResults) {
			out.Example.Policy, out.Example.Field = denial.Policy, denial.Expr.Field
		}
		if f.New.Decision != nil {
			now := itemOf(f.Request, f.New.Decision)
			out.Example.New = &now.Response
		}
		if out.Example.Results = resultsOf(p); p.Error != nil {
			out.Example.Policy, out.Example.Field, out.Example.Error = out.Policy, out.Field, p.Error.Message
		}
	}
	return out
}
