package report

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/replay"
	"github.com/celgate/celgate/schema"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion is the version of the JSON output.
const APIVersion = "celgate.dev/v1alpha1"

// jsonWriter writes a DecisionList. Items are written as they come; errors follow at the end, when all of them are
// known.
type jsonWriter struct {
	w      io.Writer
	buf    bytes.Buffer
	items  int
	errors []jsonError

	skipped []jsonError
	text    *textWriter // counts
}

type jsonRejection struct {
	Object jsonObject     `json:"object"`
	Status *metav1.Status `json:"status"`
}

type jsonObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

type jsonItem struct {
	Source    *jsonSource    `json:"source,omitempty"`
	CreatedBy *jsonCreator   `json:"createdBy,omitempty"`
	Request   jsonRequest    `json:"request"`
	Response  jsonResponse   `json:"response"`
	Mutated   bool           `json:"mutated"`
	Object    map[string]any `json:"object"`
	Outcomes  []jsonOutcome  `json:"outcomes"`
	Cost      int64          `json:"cost"` // of all policies
	Notes     []jsonNote     `json:"notes"`
	Unchecked []string       `json:"unchecked"` // parts of the server that were not simulated
	Replay    *jsonReplay    `json:"replay,omitempty"`

	Confirmed *jsonConfirmation `json:"confirmed,omitempty"` // by a live server
}

// A jsonConfirmation is the answer of a live server to a dry run of the request.
type jsonConfirmation struct {
	Same        bool     `json:"same"`
	Differences []string `json:"differences"`
	Unasked     string   `json:"unasked,omitempty"` // the reason why it was not called, or did not answer
}

// A jsonReplay has the changes of a second run of the mutating policies, and those that did not survive the first.
type jsonReplay struct {
	Idempotent bool        `json:"idempotent"`
	Survives   bool        `json:"survives"`
	Denied     string      `json:"denied,omitempty"`
	Again      []jsonAgain `json:"again"`
	Lost       []jsonLoss  `json:"lost"`
}

type jsonBy struct {
	Policy  string `json:"policy"`
	Binding string `json:"binding"`
	Param   string `json:"param"`
}

type jsonAgain struct {
	jsonBy
	Fields []string `json:"fields"`
}

type jsonLoss struct {
	jsonBy
	Field    string  `json:"field"`
	UndoneBy *jsonBy `json:"undoneBy,omitempty"`
	Message  string  `json:"message"`
}

func replayOf(r *replay.Result) *jsonReplay {
	if r == nil {
		return nil
	}
	all := &jsonReplay{r.IsIdempotent(), r.Survives(), r.Denied, []jsonAgain{}, []jsonLoss{}}
	for _, c := range r.Again {
		all.Again = append(all.Again, jsonAgain{jsonBy(c.By), c.Paths})
	}
	for _, l := range r.Lost {
		loss := jsonLoss{jsonBy: jsonBy(l.By), Field: l.Path, Message: l.String()}
		if l.Thief.Policy != "" {
			thief := jsonBy(l.Thief)
			loss.UndoneBy = &thief
		}
		all.Lost = append(all.Lost, loss)
	}
	return all
}

// A jsonCreator is the workload for which a controller would create the object of an item.
type jsonCreator struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// creator returns the workload whose controller creates the object; nil for others.
func (it Item) creator() *jsonCreator {
	if it.CreatedBy == nil {
		return nil
	}
	return &jsonCreator{it.CreatedBy.Kind, it.CreatedBy.Name}
}

// A jsonSource is the position of the manifest or review of an item.
type jsonSource struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// A jsonRequest has the member names of admission.k8s.io/v1 AdmissionRequest.
type jsonRequest struct {
	UID                string                      `json:"uid"`
	Kind               metav1.GroupVersionKind     `json:"kind"`
	Resource           metav1.GroupVersionResource `json:"resource"`
	SubResource        string                      `json:"subResource"`
	RequestKind        metav1.GroupVersionKind     `json:"requestKind"`
	RequestResource    metav1.GroupVersionResource `json:"requestResource"`
	RequestSubResource string                      `json:"requestSubResource"`
	Name               string                      `json:"name"`
	Namespace          string                      `json:"namespace"`
	Operation          celgate.Operation           `json:"operation"`
	UserInfo           jsonUser                    `json:"userInfo"`
	DryRun             bool                        `json:"dryRun"`
}

type jsonUser struct {
	Username string                                 `json:"username"`
	UID      string                                 `json:"uid,omitempty"`
	Groups   []string                               `json:"groups"`
	Extra    map[string]authenticationv1.ExtraValue `json:"extra,omitempty"`
}

// A jsonResponse has the member names of admission.k8s.io/v1 AdmissionResponse.
type jsonResponse struct {
	Allowed          bool              `json:"allowed"`
	Status           *metav1.Status    `json:"status,omitempty"`
	Warnings         []string          `json:"warnings"`
	AuditAnnotations map[string]string `json:"auditAnnotations"`
}

type jsonOutcome struct {
	Policy  string          `json:"policy"`
	Binding string          `json:"binding"`
	Param   string          `json:"param"`
	Field   string          `json:"field"`
	Scope   string          `json:"scope,omitempty"`      // the path of the value that the expression was evaluated for
	Rule    string          `json:"validation,omitempty"` // the name of the validation
	Verdict celgate.Verdict `json:"verdict"`
	Message string          `json:"message"`
	Cost    int64           `json:"cost"`
	Source  *jsonSource     `json:"source,omitempty"` // of the field of the manifest to blame
	Values  []jsonValue     `json:"values,omitempty"` // behind a failed validation or an error
}

type jsonNote struct {
	Quirk   string `json:"quirk"`
	Message string `json:"message"`
}

type jsonError struct {
	Place   string      `json:"place"`
	Object  *jsonObject `json:"object,omitempty"`
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"`
}

func newJSON(w io.Writer, o Options) (*jsonWriter, error) {
	j := &jsonWriter{w: w, text: newTextWriter(io.Discard, o)}
	rejected := make([]jsonRejection, 0, len(o.Rejected))
	for _, r := range o.Rejected {
		rejected = append(rejected, jsonRejection{jsonObject{r.APIVersion, r.Kind, r.Name}, r.Status})
	}
	j.buf.WriteString("{\n  \"apiVersion\": \"" + APIVersion + "\",\n  \"kind\": \"DecisionList\",\n  \"rejected\": ")
	if err := j.value(rejected, "  "); err != nil {
		return nil, err
	}
	j.buf.WriteString(",\n  \"items\": [")
	return j, j.flush()
}

func (j *jsonWriter) Write(it Item) error {
	j.text.count(it)
	if it.Failure != nil && it.Failure.Skipped {
		j.skipped = append(j.skipped, errorOf(it))
		return nil
	}
	if it.Failure != nil {
		j.errors = append(j.errors, errorOf(it))
		return nil
	}
	if err := j.item(sourcedItem(it)); err != nil {
		return err
	}
	return j.flush()
}

// item appends one of the items.
func (j *jsonWriter) item(v any) error {
	if j.items > 0 {
		j.buf.WriteByte(',')
	}
	j.items++
	j.buf.WriteString("\n    ")
	return j.value(v, "    ")
}

// endItems ends the items, and appends the failures.
func (j *jsonWriter) endItems() error {
	if j.items > 0 {
		j.buf.WriteString("\n  ")
	}
	j.buf.WriteByte(']')
	if len(j.errors) == 0 {
		return nil
	}
	j.buf.WriteString(",\n  \"errors\": ")
	return j.value(j.errors, "  ")
}

func (j *jsonWriter) Close() error {
	if err := j.endItems(); err != nil {
		return err
	}
	if len(j.skipped) > 0 {
		j.buf.WriteString(",\n  \"skipped\": ")
		if err := j.value(j.skipped, "  "); err != nil {
			return err
		}
	}
	if why := j.text.unenforcedReason(); why != "" {
		j.buf.WriteString(",\n  \"unenforced\": ")
		if err := j.value(why, "  "); err != nil {
			return err
		}
	}
	j.buf.WriteString("\n}\n")
	return j.flush()
}

// value appends v, indented as a member at the given depth. Characters such as < stay readable.
func (j *jsonWriter) value(v any, indent string) error {
	enc := json.NewEncoder(&j.buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent(indent, "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	j.buf.Truncate(j.buf.Len() - 1) // the newline that Encode adds
	return nil
}

func (j *jsonWriter) flush() error {
	_, err := j.w.Write(j.buf.Bytes())
	j.buf.Reset()
	return err
}

// sourcedItem returns an item with its position, and the values behind its outcomes.
func sourcedItem(it Item) jsonItem {
	item := itemOf(it.Request, it.Decision)
	item.Replay = replayOf(it.Replay)
	if c := it.Confirmation; c != nil {
		item.Confirmed = &jsonConfirmation{c.IsSame(), toNonNil(c.Differences), c.Unasked}
	}
	if it.Place.IsValid() {
		item.Source = &jsonSource{it.Place.File, it.Place.Line}
	}
	item.CreatedBy = it.creator()
	for i, r := range it.Reasons {
		o := &item.Outcomes[i]
		if o.Verdict == celgate.Admit {
			continue
		}
		o.Values = valuesOf(r.Values)
		if at := it.placeOf(block{field: r.Field()}); r.Field() != "" && at != it.Place {
			o.Source = &jsonSource{at.File, at.Line}
		}
	}
	return item
}

func itemOf(r *celgate.Request, d *celgate.Decision) jsonItem {
	kind, resource := metav1.GroupVersionKind(r.Kind), metav1.GroupVersionResource(r.Resource)
	it := jsonItem{
		Request: jsonRequest{
			UID:  r.UID,
			Kind: kind, Resource: resource, SubResource: r.SubResource,
			RequestKind: kind, RequestResource: resource, RequestSubResource: r.SubResource,
			Name: r.Name, Namespace: r.Namespace, Operation: r.Operation,
			UserInfo: jsonUser{r.UserInfo.Username, r.UserInfo.UID, toNonNil(r.UserInfo.Groups), r.UserInfo.Extra},
			DryRun:   r.DryRun,
		},
		Response: jsonResponse{
			Allowed: d.Allowed, Status: d.Status,
			Warnings: toNonNil(d.WarningTexts()), AuditAnnotations: d.AuditAnnotations,
		},
		Mutated:  d.Mutated,
		Object:   d.Object,
		Outcomes: make([]jsonOutcome, 0, len(d.Outcomes)),
		Cost:     d.Cost,
		Notes:    make([]jsonNote, 0, len(d.Notes)),

		Unchecked: toNonNil(d.UncheckedParts()),
	}
	if it.Response.AuditAnnotations == nil {
		it.Response.AuditAnnotations = map[string]string{}
	}
	for _, o := range d.Outcomes {
		it.Outcomes = append(it.Outcomes, jsonOutcome{
			Policy: o.Policy, Binding: o.Binding, Param: o.Param,
			Field: o.Field(), Scope: o.Scope, Rule: o.Validation(),
			Verdict: o.Verdict, Message: o.Message, Cost: o.Cost,
		})
	}
	for _, n := range d.Notes {
		it.Notes = append(it.Notes, noteOf(n))
	}
	return it
}

func noteOf(n celgate.Note) jsonNote {
	if n.Quirk == nil {
		return jsonNote{Message: n.Message}
	}
	return jsonNote{n.Quirk.ID, n.Message}
}

func errorOf(it Item) jsonError {
	e := jsonError{Place: it.Place.String(), Message: it.Failure.Message, Hint: it.Failure.Hint}
	if kind := it.kind(); kind != (schema.GroupVersionKind{}) {
		e.Object = &jsonObject{kind.GroupVersion().String(), kind.Kind, it.name()}
	}
	return e
}

func toNonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
