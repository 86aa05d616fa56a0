package differ

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/manifest"
)

// A Case is a policy with its binding.
type Case struct {
	Policy  map[string]any
	Binding map[string]any
}

// An answer is everything that can be seen of one side's decision.
type answer struct {
	Status   *metav1.Status    `json:"status,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Audit    map[string]string `json:"auditAnnotations,omitempty"`
	Object   map[string]any    `json:"object,omitempty"` // mutating policies that allow
	Panic    string            `json:"panic,omitempty"`  // of the server's side
}

// AddWarning notes a warning; the server sends equal texts once.
func (a *answer) AddWarning(_, text string) {
	if !slices.Contains(a.Warnings, text) {
		a.Warnings = append(a.Warnings, text)
	}
}

// Accepted lists the accepted differences, each with its reason. settle, sameAnswers and isOneOfSeveral implement the
// rules; the only others are those of [conformance.Strip].
var Accepted = []string{
	"Where the server walks a Go map or its cache of params, its own answer varies; celgate's is to be one of those that it gives.",
	"The atomic members that an ApplyConfiguration may not touch, and several problems of one, are listed in the order of a Go map.",
	"An error that quotes a list of lists which an expression made shows the inner ones as CEL writes them on the server, `&{[[1, 2]]}`, and as Go does in celgate, `&{[[1 2]]}`.",
	"An error that quotes a struct of a built-in object in Go's notation, `&{{...}}`, shows every field of the Go type on the server, those of the JSON object in celgate; and memory has other addresses.",
	"The place in the source that names a scheme depends on how the server was built.",
	"A panic of the server becomes status 500 with a text of its HTTP layer, or no answer at all.",
	"metadata.managedFields of a new object, which celgate does not compute: live it gets those that the server made.",
	"What a live server makes anew for each request in the texts of an answer: uids and the time.",
	"Whether two structs of different Go types, such as a configMapKeyRef and a secretKeyRef, are equal: on the server they are not, in celgate if their members are. " +
		"Nor does celgate take quantities in two notations (`1024`, `1Ki`) inside of two structs for equal, as the server does. Neither is generated.",
}

// settle returns the answer without accepted differences.
func (a *answer) settle() *answer {
	s := *a
	s.Object = prepare.Reread(a.Object) // JSON knows neither a list without memory nor a float without a fraction
	if a.Status != nil {
		s.Status = conformance.Strip(a.Status)
		s.Status.Message = settledText(s.Status.Message)
		if s.Status.Details != nil {
			for i := range s.Status.Details.Causes {
				s.Status.Details.Causes[i].Message = settledText(s.Status.Details.Causes[i].Message)
			}
		}
	}
	if len(a.Audit) == 0 {
		s.Audit = nil
	}
	return &s
}

var (
	schemePlace = regexp.MustCompile(`in scheme \\?"[^"\\]*\\?"`)
	goStruct    = regexp.MustCompile(`got &\{\{[^\n]*`)
	goList      = regexp.MustCompile(`got &\{\[\[[^\n]*?\]\]\}`)
	address     = regexp.MustCompile(`\b0x[0-9a-f]+\b`)
	problems    = regexp.MustCompile(`(\n  [^\n]*)+`)
	atomics     = regexp.MustCompile(`(may not mutate atomic arrays, maps or structs: )(.*)`)
)

func settledText(text string) string {
	text = schemePlace.ReplaceAllString(text, "in scheme")
	text = problems.ReplaceAllStringFunc(text, func(found string) string {
		lines := strings.Split(found, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	})
	text = goStruct.ReplaceAllString(text, "got &{{}}")
	text = goList.ReplaceAllStringFunc(text, func(found string) string { return strings.ReplaceAll(found, ", ", " ") })
	text = address.ReplaceAllString(text, "0x")
	return atomics.ReplaceAllStringFunc(text, func(found string) string {
		parts := atomics.FindStringSubmatch(found)
		paths := strings.Split(parts[2], ", ")
		slices.Sort(paths)
		return parts[1] + strings.Join(paths, ", ")
	})
}

// sameAnswers compares two settled answers.
func sameAnswers(server, ours *answer) bool {
	if server.Panic != "" {
		// The server's handler answers a panic with status 500; its text is that of the HTTP layer.
		return ours.Status != nil && ours.Status.Code == 500
	}
	return reflect.DeepEqual(server, ours)
}

// difference shows how two answers differ.
func difference(server, ours *answer) string {
	var out strings.Builder
	for _, side := range []struct {
		sign string
		*answer
	}{{"- server ", server}, {"+ celgate", ours}} {
		rest := *side.answer
		rest.Object = nil
		text, _ := json.Marshal(rest)
		fmt.Fprintf(&out, "%s %s\n", side.sign, text)
	}
	if server.Object != nil && ours.Object != nil {
		out.WriteString(cmp.Diff(server.Object, ours.Object))
	}
	return out.String()
}

// engineOf compiles a case on celgate's side. The error of a policy that may not be written is errRejected.
func (w *World) engineOf(c *Case) (*celgate.Engine, error) {
	bundle := manifest.NewBundle(manifest.DocumentsOf([]map[string]any{c.Policy, c.Binding})...)
	if err := bundle.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errRejected, err)
	}
	e, err := celgate.New(&bundle.Set, celgate.Options{Types: w.types, Cluster: w.cluster})
	if err != nil {
		return nil, err
	}
	if rejected := e.Rejections(); len(rejected) > 0 {
		return nil, fmt.Errorf("%w: %s", errRejected, rejected[0].Status.Message)
	}
	return e, nil
}

var errRejected = errors.New("the server would not store it")

// askEngine returns celgate's answer.
func askEngine(ctx context.Context, e *celgate.Engine, c *Case, r *request) (*answer, error) {
	mutating := c.Policy["kind"] == "MutatingAdmissionPolicy"
	decide := e.Validate
	if mutating {
		decide = e.Mutate
	}
	d, err := decide(ctx, celgate.AssumePrepared(r.Request))
	if err != nil {
		return nil, err
	}
	a := &answer{Status: d.Status, Audit: d.AuditAnnotations}
	for _, text := range d.WarningTexts() {
		a.AddWarning("", text)
	}
	if d.Allowed != (d.Status == nil) {
		return nil, fmt.Errorf("allowed is %v with status %v", d.Allowed, d.Status)
	}
	if mutating && d.Allowed && r.Operation != celgate.Delete {
		a.Object = d.Object
	}
	return a, nil
}
