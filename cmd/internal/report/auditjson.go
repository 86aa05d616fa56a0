package report

import (
	"io"
	"time"

	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditJSON writes an AuditReport. Findings are written as they come; counts follow at the end.
type auditJSON struct {
	jsonWriter
	audit  *Audit
	listed int // number of findings
}

// maxErrors is the number of listed objects that could not be evaluated.
const maxErrors = 1000

type jsonFinding struct {
	Verdict  AuditVerdict    `json:"verdict"`
	Asked    []Ask           `json:"asked"`
	Stuck    bool            `json:"stuck"`
	Object   jsonAuditObject `json:"object"`
	Creates  string          `json:"creates,omitempty"` // the kind of the object that a controller would create
	Source   *jsonSource     `json:"source,omitempty"`
	Kind     policy.Kind     `json:"policyKind,omitempty"`
	Policy   string          `json:"policy,omitempty"`
	Binding  string          `json:"binding,omitempty"`
	Param    string          `json:"param,omitempty"`
	Field    string          `json:"field,omitempty"`
	Place    *jsonPlace      `json:"place,omitempty"` // of the expression or policy
	Message  string          `json:"message"`
	Reason   string          `json:"reason,omitempty"`
	Error    bool            `json:"error,omitempty"`
	Values   []string        `json:"values,omitempty"` // the values that decided
	Diff     []string        `json:"diff,omitempty"`
	Unstable bool            `json:"unstable,omitempty"`
	Past     *jsonPast       `json:"past,omitempty"`
	Only     string          `json:"only,omitempty"` // files or cluster
}

// A jsonPast is a request of an audit log.
type jsonPast struct {
	AuditID     string `json:"auditID"`
	User        string `json:"user"`
	Time        string `json:"time"`
	SubResource string `json:"subResource,omitempty"`
	Was         string `json:"was"`
}

type jsonPlace struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"`
}

func placeJSON(p policy.Position) *jsonPlace {
	if !p.IsValid() {
		return nil
	}
	return &jsonPlace{p.File, p.Line, p.Column}
}

type jsonAuditObject struct {
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

func (o AuditObject) json() jsonAuditObject {
	return jsonAuditObject{o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID, o.ResourceVersion}
}

type jsonSummary struct {
	About      string           `json:"about,omitempty"` // the source of the objects
	Time       string           `json:"time,omitempty"`  // start time
	Totals     AuditTotals      `json:"totals"`
	Policies   int              `json:"policies"`         // in force
	InForce    []jsonInForce    `json:"inForce"`          // all policies in force
	PolicySet  string           `json:"policySet"`        // a hash of them and their bindings
	Basis      string           `json:"basis,omitempty"`  // a hash of the other inputs of answers, except the objects
	Beside     *Beside          `json:"beside,omitempty"` // counts of findings on one side only
	Shard      *Shard           `json:"shard,omitempty"`  // this part of an audit
	Log        bool             `json:"log,omitempty"`    // of the requests of an audit log
	Findings   *int             `json:"findings"`         // listed findings
	Groups     []jsonGroup      `json:"groups"`
	Worst      []jsonOffender   `json:"worst"`
	NotAudited []jsonNotAudited `json:"notAudited"`
	Unmatched  []string         `json:"unmatchedPolicies"`
	Unread     []jsonUnread     `json:"unread"`
	Notes      map[string]int   `json:"notes"`          // by number of answers
	Unchecked  map[string]int   `json:"unchecked"`      // objects by parts of the server that were not simulated
	Left       map[string]int   `json:"left,omitempty"` // requests of a log that cannot be repeated, by reason
	Passed     map[string]int   `json:"passed"`         // pairs of an object and a policy without a finding, by namespace

	// Read has the resource versions at which resources of a live cluster were read.
	Read map[string]string `json:"read,omitempty"`
}

type jsonInForce struct {
	Kind   policy.Kind `json:"policyKind"`
	Policy string      `json:"policy"`
	Place  *jsonPlace  `json:"place,omitempty"`
}

type jsonGroup struct {
	Verdict    AuditVerdict   `json:"verdict"`
	Kind       policy.Kind    `json:"policyKind,omitempty"`
	Policy     string         `json:"policy,omitempty"`
	Binding    string         `json:"binding,omitempty"`
	Field      string         `json:"field,omitempty"`
	Creates    string         `json:"creates,omitempty"`
	Expression string         `json:"expression,omitempty"` // to blame
	Place      *jsonPlace     `json:"place,omitempty"`      // of the expression
	Message    string         `json:"message"`              // of the first
	Objects    int            `json:"objects"`
	Stuck      int            `json:"stuck"`
	Unstable   int            `json:"unstable,omitempty"`
	Namespaces map[string]int `json:"namespaces"`
	Values     []string       `json:"values,omitempty"` // the values that decided about the first
}

type jsonOffender struct {
	Object   jsonAuditObject `json:"object"`
	Findings int             `json:"findings"`
	Stuck    bool            `json:"stuck"`
}

type jsonNotAudited struct {
	Kind   policy.Kind `json:"policyKind"`
	Policy string      `json:"policy"`
	Whole  bool        `json:"whole"` // none of the policy was audited
	Need   needs.Need  `json:"need"`
	Field  string      `json:"field"`
	Detail string      `json:"detail,omitempty"`
	Place  *jsonPlace  `json:"place,omitempty"`
}

type jsonUnread struct {
	What    string `json:"what"`
	Message string `json:"message"`
}

func newAuditJSON(w io.Writer, a *Audit) (*auditJSON, error) {
	a.tells = true
	j := &auditJSON{jsonWriter: jsonWriter{w: w}, audit: a}
	rejected := make([]jsonRejection, 0, len(a.rejected))
	for _, r := range a.rejected {
		status := r.Status
		if status == nil && len(r.Problems) > 0 {
			status = &metav1.Status{Status: metav1.StatusFailure, Message: r.Problems[0].Message}
		}
		rejected = append(rejected, jsonRejection{jsonObject{r.APIVersion, r.Kind, r.Name}, status})
	}
	j.buf.WriteString("{\n  \"apiVersion\": \"" + APIVersion + "\",\n  \"kind\": \"AuditReport\",\n  \"rejected\": ")
	if err := j.value(rejected, "  "); err != nil {
		return nil, err
	}
	j.buf.WriteString(",\n  \"findings\": [")
	return j, j.flush()
}

func (f *AuditFinding) json() jsonFinding {
	out := jsonFinding{
		Verdict: f.Verdict, Asked: f.Asked, Stuck: f.IsStuck(), Object: f.Object.json(), Creates: f.Made,
		Kind: f.PolicyKind, Policy: f.Policy,
		Binding: f.Binding, Param: f.Param, Field: f.field(), Place: placeJSON(f.Place), Message: f.Message,
		Reason: f.Reason, Error: f.IsError,
		Values: f.Story, Diff: f.Diff, Unstable: f.Unstable, Only: f.Only,
	}
	if p := f.Past; p != nil {
		out.Past = &jsonPast{p.ID, p.User, p.Time, p.Sub, p.Was}
	}
	if f.Source.IsValid() {
		out.Source = &jsonSource{f.Source.File, f.Source.Line}
	}
	return out
}

func (j *auditJSON) Write(of *Audited, findings []AuditFinding) error {
	if of.Failure != nil && len(j.errors) < maxErrors {
		o := of.Object
		j.errors = append(j.errors, jsonError{
			Place: o.Place.String(), Object: &jsonObject{o.APIVersion, o.Kind, o.name()}, Message: of.Failure.Message,
			Hint: of.Failure.Hint,
		})
	}
	j.listed += len(findings)
	for i := range findings {
		if err := j.item(findings[i].json()); err != nil {
			return err
		}
	}
	return j.flush()
}

func (j *auditJSON) Close() error {
	if err := j.endItems(); err != nil {
		return err
	}
	j.buf.WriteString(",\n  \"summary\": ")
	summary := j.audit.summary()
	summary.Findings = &j.listed
	if err := j.value(summary, "  "); err != nil {
		return err
	}
	j.buf.WriteString("\n}\n")
	return j.flush()
}

func (a *Audit) summary() jsonSummary {
	s := jsonSummary{
		Totals: a.totals, Policies: len(a.set.Policies), Groups: []jsonGroup{}, Worst: []jsonOffender{},
		NotAudited: []jsonNotAudited{},
		Unmatched:  toNonNil(a.idle()), Unread: []jsonUnread{}, Notes: a.said, Unchecked: a.lacking, Left: a.left,
		InForce: []jsonInForce{}, PolicySet: a.PolicySet, Basis: a.Basis, Beside: a.Beside, Shard: a.Shard, Log: a.Log,
		Passed: a.passed, Read: a.read, About: a.About,
	}
	if !a.Began.IsZero() {
		s.Time = a.Began.UTC().Format(time.RFC3339)
	}
	for _, p := range a.sortedPolicies() {
		s.InForce = append(s.InForce, jsonInForce{p.Kind, p.Name, placeJSON(p.Position)})
	}
	for _, g := range a.sortedGroups() {
		s.Groups = append(s.Groups, jsonGroup{
			g.verdict, g.kind, g.policy, g.binding, g.field, g.made, g.examples[0].Expr.Src,
			placeJSON(g.examples[0].Expr.Locate(0)), g.messages[0], g.objects, g.stuck, g.unstable, g.namespaces,
			g.examples[0].Story,
		})
	}
	for _, o := range a.worst {
		s.Worst = append(s.Worst, jsonOffender{o.object.json(), o.findings, o.stuck})
	}
	for _, l := range a.limits {
		s.NotAudited = append(s.NotAudited, jsonNotAudited{l.Kind, l.Policy, l.Whole, l.Need, l.Field, l.Of,
			placeJSON(l.Place)})
	}
	for _, u := range a.Unread {
		s.Unread = append(s.Unread, jsonUnread(u))
	}
	return s
}
