package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/prove"
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
}

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
func WriteVacuities(format string, w io.Writer, o Options, all []prove.Vacuity) error {
	if format == "json" {
		list := struct {
			APIVersion string        `json:"apiVersion"`
			Kind       string        `json:"kind"`
			Items      []jsonVacuity `json:"items"`
		}{APIVersion: APIVersion, Kind: "VacuityList", Items: []jsonVacuity{}}
		for _, v := range all {
			list.Items = append(list.Items,
				jsonVacuity{v.Policy, v.Binding, v.Expr.Field, v.Expr.Locate(0).String(), v.Message})
		}
		return encode(w, list)
	}
	if format == "github" {
		return writeVacuitiesGitHub(w, o, all)
	}
	t, err := newText(w, o)
	if err != nil {
		return err
	}
	for _, v := range all {
		t.head(yellow, "vacuous", vacuousPart(v)+" "+v.Message, policy.Position{})
		b := block{label: "proved", style: green, message: "policy " + v.Policy + ", binding " + v.Binding, expr: v.Expr}
		if !v.Expr.IsZero() {
			b.mark = markOf(v.Expr, policy.Position{}, nil)
		}
		t.blocksOf([]block{b})
	}
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
	Binding string `json:"binding"`
	Field   string `json:"field,omitempty"`
	Place   string `json:"place,omitempty"`
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
	prove.NotFound: {"not found", yellow}, prove.Undecided: {"undecided", yellow}}

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
	if p.Answer != prove.Counterexample {
		blocks = append(blocks, block{label: "asked", style: bold, message: casesIn(p.Cases)})
	}
	t.blocksOf(blocks)
}

// exampleBlocks shows a request with both answers.
func (t *textWriter) exampleBlocks(p Proof) []block {
	f := p.Found
	item := Item{Request: f.Request, Prepared: f.Old.Prepared, Decision: f.Old.Decision, Reasons: p.Reasons}
	out := []block{{label: "request", style: bold, message: item.subject() + " in " + p.Case.Resource.GroupVersion().String() +
		userText(f.Request)}}
	b := t.violationBlock(item, *f.Old.Decision.Denial)
	if p.Old != "" {
		b.label += " by " + p.Old
	} else {
		b.label, b.message, b.footers, b.hint = "the claim", "fails", nil, ""
	}
	out = append(out, b, block{label: "admitted by " + p.New, style: green, message: ignoredText(f.New.Decision)})
	show := func(label string, object map[string]any) {
		if object != nil {
			out = append(out, block{label: label, style: bold, message: "as its author writes it",
				diff: yamlLines(object, p.Types.Type(tree.Object(object).Kind()))})
		}
	}
	show("old object", f.Request.OldObject)
	show("object", f.Request.Object)
	for _, o := range f.Objects {
		if len(o) > 3 || len(tree.Object(o).Metadata()) > 1 { // more than a name
			show("existing object", o)
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
	passed := 0
	for _, o := range d.Outcomes {
		if o.Rule != nil && o.Verdict == celgate.Admit {
			passed++
		}
	}
	switch passed {
	case 0:
		return "none of its validations applies"
	case 1:
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
	Answer  prove.Answer      `json:"answer"`
	Cases   []string          `json:"cases"`
	Example *jsonExample      `json:"example,omitempty"`
	Reasons []jsonProofReason `json:"reasons,omitempty"`
	Tried   int               `json:"tried"`
}

type jsonExample struct {
	Request   jsonRequest      `json:"request"`
	Object    map[string]any   `json:"object"`
	OldObject map[string]any   `json:"oldObject"`
	Objects   []map[string]any `json:"objects"`
	Old       jsonResponse     `json:"old"`
	New       jsonResponse     `json:"new"`
	Policy    string           `json:"policy"`
	Field     string           `json:"field"`
}

type jsonProofReason struct {
	Policy  string `json:"policy,omitempty"`
	Field   string `json:"field,omitempty"`
	Place   string `json:"place,omitempty"`
	Message string `json:"message"`
}

func writeProofsJSON(w io.Writer, o Options, all []Proof) error {
	list := struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Rejected   []jsonRejection `json:"rejected,omitempty"`
		Items      []jsonProof     `json:"items"`
	}{APIVersion: APIVersion, Kind: "ProofList", Rejected: refusedOf(o.Rejected), Items: []jsonProof{}}
	for _, p := range all {
		out := jsonProof{Claim: p.Claim, Answer: p.Answer, Tried: p.Tried, Cases: []string{}}
		for _, c := range p.Cases {
			out.Cases = append(out.Cases, c.String())
		}
		for _, r := range p.Result.Reasons {
			out.Reasons = append(out.Reasons, jsonProofReason{r.Policy, r.Expr.Field, r.Expr.Locate(r.From).String(),
				r.Message})
		}
		if f := p.Found; f != nil {
			denial := f.Old.Decision.Denial
			old, now := itemOf(f.Request, f.Old.Decision), itemOf(f.Request, f.New.Decision)
			out.Example = &jsonExample{old.Request, f.Request.Object, f.Request.OldObject, toNonNil(f.Objects),
				old.Response, now.Response, denial.Policy, denial.Expr.Field}
		}
		list.Items = append(list.Items, out)
	}
	return encode(w, list)
}
