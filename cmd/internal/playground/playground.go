// Package playground answers the questions of a page in a browser: the decisions of policies about manifests, and the
// mistakes in the policies. It takes texts and returns the values to show, so the page itself does not know about
// policies.
//
// A [Session] keeps compiled policies: they are compiled once while the user edits a manifest.
package playground

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

// The names of the texts, to which places refer.
const (
	PolicyFile = "policy.yaml"
	StateFile  = "state.yaml"
	ObjectFile = "objects.yaml"
	OldFile    = "old.yaml"
)

// An Ask is the input of the page.
type Ask struct {
	Policies string `json:"policies"` // and bindings: YAML or JSON, like all texts
	State    string `json:"state"`    // the existing objects of the cluster
	Objects  string `json:"objects"`  // the manifests or AdmissionReviews to decide about
	Old      string `json:"old"`      // the same objects before an update; empty: those in the state

	Minor       string   `json:"minor"`     // such as "1.37"; empty: the newest
	Operation   string   `json:"operation"` // empty: CREATE, or UPDATE of an existing object
	Subresource string   `json:"subresource"`
	User        string   `json:"user"` // empty: a user without permissions
	Groups      []string `json:"groups"`
	DryRun      bool     `json:"dryRun"`
}

// An Answer is the output about the objects.
type Answer struct {
	Standing
	Items []Item `json:"items"`
}

// A Standing tells which parts of the texts do not take part in an answer.
type Standing struct {
	Problems []Problem `json:"problems"` // of invalid texts
	Refused  []Refusal `json:"refused"`  // policies and bindings that a server refuses
	Idle     []string  `json:"idle"`     // policies without a binding
}

// A Refusal is a policy or binding that is not in force, with the server's message.
type Refusal struct {
	Subject string `json:"subject"`
	Message string `json:"message"`
}

// An Item is the answer for one object.
type Item struct {
	Subject string `json:"subject"` // "CREATE Deployment shop/web"
	Place   Place  `json:"place"`
	Verdict string `json:"verdict"` // denied, warned, audited, mutated, ok, or failed without an answer

	// Text is the output of celgate apply for the object, without Changes, in the colours of a terminal.
	Text string `json:"text"`

	// Explanation is an item of celgate explain -o json; null without an answer.
	Explanation json.RawMessage `json:"explanation"`

	Changes []Change `json:"changes"`
	Object  string   `json:"object"` // YAML, the final object in the view of the server; empty: none
	Marks   []Mark   `json:"marks"`  // expressions that deny, warn or fail
}

// A Change is the result of one run of a mutating policy.
type Change struct {
	By    string `json:"by"`
	Hunks []Hunk `json:"hunks"`
}

// A Hunk is the difference in one map or list, line by line with "- " and "+ ".
type Hunk struct {
	Path  string   `json:"path"`
	Lines []string `json:"lines"`
}

// A Mark is a message at a place of a text.
type Mark struct {
	Place
	Severity string `json:"severity"` // error, warning or info
	Message  string `json:"message"`
}

// A Session answers one question at a time. The zero value is ready for use by a single goroutine.
type Session struct {
	policies policies
	around   around
	engine   *celgate.Engine
	made     engineKey
	answers  map[answerKey][]Item // of the last question
}

// Ask answers for the objects. The error is an error in the question: an unknown minor.
func (s *Session) Ask(ctx context.Context, ask Ask) (*Answer, error) {
	w, err := s.world(&ask)
	if err != nil {
		return nil, err
	}
	return &Answer{w.standing(), append([]Item{}, s.answer(ctx, w, &ask)...)}, nil
}

// standing returns the parts of the texts that do not take part.
func (w *world) standing() Standing {
	s := Standing{Problems: append([]Problem{}, w.problems...), Refused: []Refusal{}, Idle: []string{}}
	for _, r := range w.engine.Rejections() {
		refusal := Refusal{Subject: r.Ref.String()}
		if r.Status != nil {
			refusal.Message = r.Status.Message
		}
		s.Refused = append(s.Refused, refusal)
	}
	for _, p := range w.set.Policies {
		if !w.set.Binds(p.Ref()) {
			s.Idle = append(s.Idle, p.Ref().String())
		}
	}
	return s
}

// A Checked is the output of celgate check about the policies, and their coverage by the objects.
type Checked struct {
	Diagnostics []Diagnostic `json:"diagnostics"`
	Coverage    *Coverage    `json:"coverage"`
}

// A Diagnostic is a problem that a check found.
type Diagnostic struct {
	Mark
	Code       string `json:"code"`
	Suggestion string `json:"suggestion"`
	Subject    string `json:"subject"` // the policy or binding
	Field      string `json:"field"`
}

// Check checks the policies, and counts which of their outcomes the objects reach.
func (s *Session) Check(ctx context.Context, ask Ask) (*Checked, error) {
	w, err := s.world(&ask)
	if err != nil {
		return nil, err
	}
	found, err := check.Run(ctx, check.Input{Set: w.set, Types: w.types, KubeVersion: w.minor,
		State: manifest.Trees(w.state)}, check.Analyzers()...)
	if err != nil {
		return nil, err
	}
	checked := &Checked{Diagnostics: []Diagnostic{}}
	for _, d := range found {
		if d.Ignored != "" {
			continue
		}
		severity := string(d.Severity)
		if d.Severity == check.Note {
			severity = "info"
		}
		message := strings.Join(append([]string{d.Message}, d.Example...), "\n")
		checked.Diagnostics = append(checked.Diagnostics, Diagnostic{
			Mark: Mark{Place: ask.span(d.Position, d.Expr, d.From, d.To), Severity: severity, Message: message},
			Code: d.Code, Suggestion: d.Suggestion, Subject: d.Ref.String(), Field: d.Field,
		})
	}
	checked.Coverage, err = w.coverage(ctx, &ask)
	return checked, err
}

// Minors returns the known Kubernetes minors, the newest first.
func Minors() []string {
	all := builtin.Minors()
	newest := make([]string, len(all))
	for i, minor := range all {
		newest[len(all)-1-i] = minor
	}
	if len(all) > 0 && all[0] == celgate.Newest {
		return all
	}
	return newest
}

// A Problem describes an invalid document.
type Problem struct {
	Mark
	Hint string `json:"hint"`
}

func (a *Ask) problem(at policy.Position, message, hint string) Problem {
	return Problem{Mark{Place: a.place(at), Severity: "error", Message: message}, hint}
}
