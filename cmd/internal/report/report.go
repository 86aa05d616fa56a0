// Package report renders decisions: text for people, JSON for programs, JUnit, SARIF and annotations for what shows
// them to people.
//
// A [Writer] takes the items in the order of the input and writes each as it comes; nothing is held
// back until the end, so that a run over many objects shows its first answer at once and stays small.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/replay"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Writer renders the results of one run.
type Writer interface {
	// Write renders one item. Items come in the order of the input.
	Write(Item) error

	// Close renders what belongs at the end. It does not close the underlying writer.
	Close() error
}

// An Item is one request and its answer. Exactly one of Decision and Failure is set.
type Item struct {
	Place    policy.Position   // where the manifest or review begins
	Request  *celgate.Request  // nil if there was none to make
	Prepared *celgate.Prepared // nil if the server does not take the object
	Decision *celgate.Decision
	Failure  *Failure
	Changes  []celgate.Change // to show: what each mutating policy did

	Replay *replay.Result // what a second run of the mutating policies does; nil: nobody asked

	Reasons map[int]blame.Reason               // why outcomes came about, by their index; of some
	Locate  func(field string) policy.Position // the place of a field in the manifest; nil: unknown
	// Misread are the words of the manifest that YAML reads as booleans; nil: none.
	Misread func() []manifest.Misreading

	CreatedBy *Creator // the object that a controller would create this one for; nil: it was asked about itself

	Kind schema.GroupVersionKind // with a Failure: of the object, as far as known
	Name string                  // with a Failure: "namespace/name" or "name"
}

// A Creator is a workload of which controllers make objects.
type Creator struct {
	Kind string
	Name string // "namespace/name" or "name"
}

// kind returns the kind of the object that the item is about.
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

// NameOf returns "namespace/name" or "name" of what a request is about.
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

// A Failure says why there is no decision.
type Failure struct {
	Message string
	Hint    string // empty: none
	Skipped bool   // on purpose: no policy can be for the object
}

// A Rejection is a policy or binding that the server would refuse to store.
type Rejection struct {
	APIVersion string
	policy.Ref
	Place    policy.Position
	Status   *metav1.Status
	Problems []Problem // what is wrong, each with its place; empty: only the status is known
}

// A Problem is one reason of a [Rejection].
type Problem struct {
	Field    string
	Message  string
	Expr     policy.Expr     // zero when no expression is to blame
	Position policy.Position // inside the expression if there is one
	Hint     string          // what to do, where reading the file has told; empty: the message tells
}

// Options say how a report is written and what is known before the first item.
type Options struct {
	Set      *policy.Set // the policies and bindings in force; nil: unknown
	Rejected []Rejection
	Types    *schema.Registry // orders the members of what changed; nil: by name

	Color bool
	Width int  // of the terminal, in columns; 0: lines are not wrapped
	Quiet bool // leave out objects about which there is nothing to say but what was changed

	Compact bool // one line for each object
	Summary bool // no line for objects: how many of them, by policy and namespace

	Objects bool // show whole objects where only what changed would be
}

// Join returns a writer that writes everything to several writers.
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

// Formats are the names that [New] takes.
func Formats() []string { return []string{"text", "json", "junit", "sarif", "github"} }

// New returns the writer of a format.
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
