// Package report renders decisions: text for people, JSON for programs, JUnit, SARIF and annotations for tools.
//
// A [Writer] receives the items in the order of the input and writes each at once, so that a run over many objects
// shows its first answer early and needs little memory.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/replay"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Writer renders the results of one run.
type Writer interface {
	// Write renders one item. Items come in the order of the input.
	Write(Item) error

	// Close renders the end of the report. It does not close the underlying writer.
	Close() error
}

// An Item is one request and its answer. Exactly one of Decision and Failure is set.
type Item struct {
	Place    policy.Position   // of the manifest or review
	Request  *celgate.Request  // nil if it could not be made
	Prepared *celgate.Prepared // nil if the server refuses the object
	Decision *celgate.Decision
	Failure  *Failure
	Changes  []celgate.Change // the changes of each mutating policy

	Replay *replay.Result // the effect of a second run of the mutating policies; nil: not run

	Confirmation *Confirmation // the answer of a live server; nil: not requested

	Reasons map[int]blame.Reason               // reasons of outcomes, by index; not of all
	Locate  func(field string) policy.Position // the position of a field in the manifest; nil: unknown
	// Misread returns the words of the manifest that YAML reads as booleans; may be nil.
	Misread func() []policy.Problem

	CreatedBy *Creator // the parent for which a controller would create this object; nil: the object was given

	Kind schema.GroupVersionKind // with a Failure: of the object, as far as known
	Name string                  // with a Failure: "namespace/name" or "name"
}

// A Confirmation compares a decision with the answer of a live server to a dry run of the request.
type Confirmation struct {
	Unasked     string   // the reason why there is no answer; empty: there is one
	Differences []string // from the answer; empty: none
	Refused     bool     // the server refuses a request that the decision allows
}

// IsSame reports whether the server answers as the decision does.
func (c *Confirmation) IsSame() bool { return c.Unasked == "" && len(c.Differences) == 0 }

// A Creator is a workload whose objects controllers create.
type Creator struct {
	Kind string
	Name string // "namespace/name" or "name"
}

// kind returns the kind of the object of the item.
func (it Item) kind() schema.GroupVersionKind {
	if it.Request != nil {
		return it.Request.Kind
	}
	return it.Kind
}

// name returns "namespace/name" or "name"; a name that the server will generate ends in an asterisk.
func (it Item) name() string {
	if it.Request == nil {
		return it.Name
	}
	return NameOf(it.Request)
}

// NameOf returns "namespace/name" or "name" of the object of a request.
func NameOf(r *celgate.Request) string {
	name := r.Name
	if name == "" {
		if prefix := tree.Object(r.Object).Metadata().Text("generateName"); prefix != "" {
			name = prefix + "*"
		}
	}
	if r.Namespace != "" && !(r.Kind.Group == "" && r.Kind.Kind == "Namespace") {
		return r.Namespace + "/" + name
	}
	return name
}

// subject names the request: its operation if that is not CREATE, kind, name and subresource.
func (it Item) subject() string {
	if it.CreatedBy != nil {
		return it.kind().Kind + " of " + it.CreatedBy.Kind + " " + it.CreatedBy.Name
	}
	subject := it.kind().Kind + " " + it.name()
	if it.Request == nil {
		return subject
	}
	if op := it.Request.Operation; op != celgate.Create {
		subject = string(op) + " " + subject
	}
	if sub := it.Request.SubResource; sub != "" {
		subject += " (" + sub + ")"
	}
	return subject
}

// A Failure is the reason why there is no decision.
type Failure struct {
	Message string
	Hint    string // empty: none
	Skipped bool   // on purpose: no policy can match the object
}

// A Rejection is a policy or binding that the server would refuse to store.
type Rejection struct {
	APIVersion string
	policy.Ref
	Place    policy.Position
	Status   *metav1.Status
	Problems []Problem // with positions; empty: only the status is known
}

// A Problem is one reason of a [Rejection].
type Problem struct {
	Field    string
	Message  string
	Expr     policy.Expr     // zero: no expression is to blame
	Position policy.Position // inside the expression, if any
	Hint     string          // advice from reading the file; empty: derived from the message
}

// Options configure a report.
type Options struct {
	Set      *policy.Set // the policies and bindings in force; nil: unknown
	Rejected []Rejection
	Types    *schema.Registry // orders the members in diffs; nil: by name

	Color bool
	Width int  // of the terminal, in columns; 0: lines are not wrapped
	Quiet bool // leave out objects whose only result is ok or changes

	Compact bool // one line for each object
	Summary bool // a table by policy and namespace instead of objects

	Objects bool // show whole objects instead of changes
}

// Join returns a writer to several writers.
func Join(writers ...Writer) Writer {
	if len(writers) == 1 {
		return writers[0]
	}
	return joined(writers)
}

type joined []Writer

func (all joined) Write(it Item) error {
	for _, w := range all {
		if err := w.Write(it); err != nil {
			return err
		}
	}
	return nil
}

func (all joined) Close() error {
	for _, w := range all {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Formats are the formats of [New].
func Formats() []string { return []string{"text", "json", "junit", "sarif", "github"} }

// NewText returns the writer of the format text. A program that requires no other one links this one alone.
func NewText(w io.Writer, o Options) (Writer, error) { return newText(w, o) }

// New returns a writer of a format.
func New(format string, w io.Writer, o Options) (Writer, error) {
	switch format {
	case "text":
		return newText(w, o)
	case "json":
		return newJSON(w, o)
	case "junit":
		return newJUnit(w, o), nil
	case "sarif":
		return newSARIF(w, o), nil
	case "github":
		return newGitHub(w, o)
	}
	return nil, fmt.Errorf("unknown output format %q: one of %s", format, strings.Join(Formats(), ", "))
}
