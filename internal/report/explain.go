package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// An Explanation is an answer with the story behind it.
type Explanation struct {
	Item
	Matches     []celgate.Match
	Evaluations []Evaluation // in the order in which they ran
}

// An Evaluation is one evaluation of one expression.
type Evaluation struct {
	Policy   *policy.Policy
	Expr     policy.Expr
	Variable string // the name of the variable that the expression is of
	Value    string
	Failed   bool
	Steps    []celgate.Step
	From, To int // of the part that decided
}

// ExplanationFormats are the names that [Explain] takes.
func ExplanationFormats() []string { return []string{"json", "text"} }

// Explain writes explanations.
func Explain(format string, w io.Writer, all []Explanation, o Options) error {
	if format == "json" {
		return explainJSON(w, all)
	}
	t := &textWriter{
		w: w, o: o, p: palette(o.Color), counts: map[string]int{}, matched: map[source]bool{},
		places: map[source]policy.Position{}, notes: map[string]bool{}, spaced: true,
	}
	for i, e := range all {
		if e.Failure != nil {
			continue
		}
		if i > 0 {
			t.gap()
		}
		t.explain(e)
	}
	return t.flush()
}

// A told is one policy with one binding and param in the story.
type told struct {
	match    celgate.Match
	outcomes []celgate.Outcome
	evals    [][]Evaluation // beside outcomes: variables, then the expression itself
}

// story arranges matches, outcomes and evaluations.
func story(e Explanation) []*told {
	rest := map[*policy.Policy][]Evaluation{}
	byName := map[string]*policy.Policy{}
	for _, x := range e.Evaluations {
		rest[x.Policy] = append(rest[x.Policy], x)
		byName[string(x.Policy.Kind)+" "+x.Policy.Name] = x.Policy
	}
	// take removes the evaluations up to that of an outcome's expression.
	take := func(o celgate.Outcome) []Evaluation {
		p := byName[string(o.Kind)+" "+o.Policy]
		for i, x := range rest[p] {
			if x.Variable == "" && x.Expr.Field == o.Field {
				var taken []Evaluation
				for _, v := range rest[p][:i] {
					if v.Variable != "" {
						taken = append(taken, v)
					}
				}
				taken = append(taken, x)
				rest[p] = rest[p][i+1:]
				return taken
			}
		}
		return nil
	}
	var all []*told
	used := make([]bool, len(e.Decision.Outcomes))
	for _, m := range e.Matches {
		one := &told{match: m}
		param, first := "", true
		for i, o := range e.Decision.Outcomes {
			if used[i] || o.Kind != m.Kind || o.Policy != m.Policy || o.Binding != m.Binding {
				continue
			}
			if first {
				param, first = o.Param, false
			}
			if o.Param != param {
				continue
			}
			used[i] = true
			one.outcomes = append(one.outcomes, o)
			one.evals = append(one.evals, take(o))
		}
		all = append(all, one)
	}
	return all
}

var outcomeWords = map[celgate.Verdict]string{
	celgate.Admit: "holds", celgate.Denied: "fails", celgate.Error: "error", celgate.Skip: "skips the policy",
}

func (t *textWriter) explain(e Explanation) {
	word, s := verdictOf(e.Decision)
	subject := string(e.Request.Operation) + " " + e.kind().Kind + " " + e.name()
	if sub := e.Request.SubResource; sub != "" {
		subject += " (" + sub + ")"
	}
	t.head(s, word, subject, e.Place)
	for _, one := range story(e) {
		m := one.match
		t.gap()
		name := m.Policy
		if m.Binding != "" {
			param := ""
			if len(one.outcomes) > 0 {
				param = one.outcomes[0].Param
			}
			name = origin(m.Policy, m.Binding, param)
		} else {
			name = "policy " + name
		}
		t.line(t.p.paint(bold, string(m.Kind)+": ") + printable(strings.TrimPrefix(name, "policy ")))
		switch {
		case m.Err != nil && len(one.outcomes) == 0:
			t.block(block{label: "error", style: red, message: m.Err.Error()})
			continue
		case !m.Matched && m.Err == nil:
			t.block(block{label: "not for this request", style: dim, message: m.Reason})
		}
		changed := func(second bool) {
			for _, c := range e.Changes {
				if m.Kind == policy.Mutating && c.Policy == m.Policy && c.Binding == m.Binding && c.Second == second {
					t.blocksOf(t.changeBlocks(Item{Changes: []celgate.Change{c}}))
				}
			}
		}
		second, seen := false, map[string]bool{}
		for i, o := range one.outcomes {
			if m.Kind == policy.Mutating && seen[o.Field] && !second {
				second = true
				changed(false)
				t.line(indent + t.p.paint(bold, "in the second pass, after the object changed:"))
			}
			seen[o.Field] = true
			t.told(o, one.evals[i])
		}
		if !second {
			changed(false)
		}
		changed(true)
	}
	t.gap()
	switch d := e.Decision; {
	case d.Allowed:
		t.line("allowed")
	case d.Status != nil:
		t.line(t.p.paint(red, "denied: ") + printable(fmt.Sprintf("%d %s: %s", d.Status.Code, d.Status.Reason, d.Status.Message)))
	}
	for _, w := range e.Decision.Warnings {
		t.block(block{label: "warning", style: yellow, message: w})
	}
	for _, n := range e.Decision.Notes {
		t.block(block{label: "note", style: cyan, message: n.Message})
	}
}

// told writes one outcome with the values behind it.
func (t *textWriter) told(o celgate.Outcome, evals []Evaluation) {
	b := block{label: outcomeWords[o.Verdict], message: o.Field}
	switch o.Verdict {
	case celgate.Admit:
		b.style = green
	case celgate.Denied, celgate.Error:
		b.style = red
	case celgate.Skip:
		b.style = yellow
	}
	if o.Message != "" {
		b.message += ": " + headline(o.Message, o.Expr)
	}
	for i, x := range evals {
		if i < len(evals)-1 {
			b.footers = append(b.footers, "variables."+x.Variable+" = "+x.Value)
			continue
		}
		if o.Verdict != celgate.Admit {
			b.expr, b.mark = o.Expr, mark{x.From, x.To}
		}
		for _, s := range x.Steps {
			if strings.HasPrefix(s.Text, "variables.") && hasLine(b.footers, s.Text+" = ") {
				continue
			}
			line := s.Text + " = " + s.Value
			if s.Error {
				line = s.Text + ": " + s.Value
			}
			if s.Last {
				line += "   (of the last item)"
			}
			b.footers = append(b.footers, line)
		}
	}
	t.block(b)
}

func hasLine(lines []string, prefix string) bool {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			return true
		}
	}
	return false
}

type jsonExplanation struct {
	Request  jsonRequest   `json:"request"`
	Allowed  bool          `json:"allowed"`
	Message  string        `json:"message,omitempty"`
	Policies []jsonStory   `json:"policies"`
	Changes  []jsonChanged `json:"changes,omitempty"`
}

type jsonStory struct {
	Kind        policy.Kind `json:"kind"`
	Policy      string      `json:"policy"`
	Binding     string      `json:"binding,omitempty"`
	Matched     bool        `json:"matched"`
	By          string      `json:"by,omitempty"`
	Reason      string      `json:"reason,omitempty"`
	Error       string      `json:"error,omitempty"`
	Expressions []jsonTold  `json:"expressions,omitempty"`
}

type jsonTold struct {
	Field   string          `json:"field"`
	Verdict celgate.Verdict `json:"verdict"`
	Message string          `json:"message,omitempty"`
	Cost    int64           `json:"cost"`
	Values  []jsonValue     `json:"values,omitempty"`
}

type jsonValue struct {
	Expression string `json:"expression"`
	Value      string `json:"value"`
	Error      bool   `json:"error,omitempty"`
	LastItem   bool   `json:"lastItem,omitempty"`
}

type jsonChanged struct {
	Policy  string         `json:"policy"`
	Binding string         `json:"binding"`
	Second  bool           `json:"second,omitempty"`
	Before  map[string]any `json:"before"`
	After   map[string]any `json:"after"`
}

func explainJSON(w io.Writer, all []Explanation) error {
	items := []jsonExplanation{}
	for _, e := range all {
		if e.Failure != nil {
			continue
		}
		item := jsonExplanation{Request: itemOf(e.Request, e.Decision).Request, Allowed: e.Decision.Allowed, Policies: []jsonStory{}}
		if e.Decision.Status != nil {
			item.Message = e.Decision.Status.Message
		}
		for _, one := range story(e) {
			m := one.match
			s := jsonStory{Kind: m.Kind, Policy: m.Policy, Binding: m.Binding, Matched: m.Matched, By: m.By, Reason: m.Reason}
			if m.Err != nil {
				s.Error = m.Err.Error()
			}
			for i, o := range one.outcomes {
				x := jsonTold{Field: o.Field, Verdict: o.Verdict, Message: o.Message, Cost: o.Cost}
				for j, v := range one.evals[i] {
					if j < len(one.evals[i])-1 {
						x.Values = append(x.Values, jsonValue{Expression: "variables." + v.Variable, Value: v.Value, Error: v.Failed})
						continue
					}
					for _, step := range v.Steps {
						x.Values = append(x.Values, jsonValue{step.Text, step.Value, step.Error, step.Last})
					}
				}
				s.Expressions = append(s.Expressions, x)
			}
			item.Policies = append(item.Policies, s)
		}
		for _, c := range e.Decision.Changes {
			item.Changes = append(item.Changes, jsonChanged{c.Policy, c.Binding, c.Second, c.Before, c.After})
		}
		items = append(items, item)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"apiVersion": "celgate.dev/v1alpha1", "kind": "ExplanationList", "items": items})
}
