package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/policy"
)

// A StoredAudit is a report of celgate audit -o json. Its findings, which may be many, are read on demand.
type StoredAudit struct {
	File     string
	open     func() (io.ReadCloser, error)
	rejected []jsonRejection
	errors   []jsonError
	summary  jsonSummary
	groups   map[lastKey]int
}

// A lastKey identifies similar findings of two audits.
type lastKey struct {
	verdict                         AuditVerdict
	policy, binding, field, creates string
}

// ReadAudit reads a report without its findings. open is called again for these.
func ReadAudit(file string, open func() (io.ReadCloser, error)) (*StoredAudit, error) {
	s := &StoredAudit{File: file, open: open, groups: map[lastKey]int{}}
	kind, complete := "", false
	seen := map[json.Token]bool{}
	err := s.members(func(name json.Token, dec *json.Decoder) (err error) {
		if seen[name] {
			return fmt.Errorf("it has %v twice", name)
		}
		seen[name] = true
		switch name {
		case "kind":
			err = dec.Decode(&kind)
		case "rejected":
			err = dec.Decode(&s.rejected)
		case "findings":
			for range list[json.RawMessage](dec, &err) {
			}
		case "errors":
			err = dec.Decode(&s.errors)
		case "summary":
			complete = true
			err = dec.Decode(&s.summary)
		default:
			var other json.RawMessage
			err = dec.Decode(&other)
		}
		return err
	})
	switch {
	case err != nil:
	case kind != "AuditReport":
		err = s.wrapError(fmt.Errorf("its kind is %q", kind))
	case !complete:
		err = s.wrapError(errors.New("it does not have a summary"))
	}
	for _, g := range s.summary.Groups {
		s.groups[lastKey{g.Verdict, g.Policy, g.Binding, g.Field, g.Creates}] += g.Objects
	}
	return s, err
}

// verify reads the findings, too, and reports invalid or missing ones.
func (s *StoredAudit) verify() error {
	n := 0
	err := s.members(func(name json.Token, dec *json.Decoder) (err error) {
		if name != "findings" {
			var other json.RawMessage
			return dec.Decode(&other)
		}
		for j := range list[jsonFinding](dec, &err) {
			n++
			if !j.Verdict.isKnown() {
				return fmt.Errorf("findings[%d] has the verdict %q", n-1, j.Verdict)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for i, g := range s.summary.Groups {
		if !g.Verdict.isKnown() {
			return s.wrapError(fmt.Errorf("summary.groups[%d] has the verdict %q", i, g.Verdict))
		}
	}
	if listed := s.summary.Findings; listed != nil && *listed != n {
		return s.wrapError(fmt.Errorf("it has %s, but its summary counts %d", plural(n, "finding", "findings"), *listed))
	}
	return nil
}

func (v AuditVerdict) isKnown() bool { return v.rank() < len(auditVerdicts) }

func (s *StoredAudit) wrapError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early")
	}
	return fmt.Errorf("%s is not a report of celgate audit -o json: %w", s.File, err)
}

// members calls visit for each member of the report; visit must read its value.
func (s *StoredAudit) members(visit func(name json.Token, dec *json.Decoder) error) error {
	file, err := s.open()
	if err != nil {
		return err
	}
	defer file.Close()
	dec := json.NewDecoder(bufio.NewReader(file))
	if t, err := dec.Token(); err != nil {
		return s.wrapError(err)
	} else if t != json.Delim('{') {
		return s.wrapError(errors.New("it is not an object"))
	}
	for dec.More() {
		name, err := dec.Token()
		if err == nil {
			err = visit(name, dec)
		}
		if err != nil {
			return s.wrapError(err)
		}
	}
	if _, err := dec.Token(); err != nil { // the end of the object
		return s.wrapError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return s.wrapError(errors.New("there is more data after it"))
	}
	return nil
}

// A span is a part of a file.
type span struct{ from, to int64 }

// list reads the items of a list one by one, with their positions in the file, including the separator before them.
func list[T any](dec *json.Decoder, err *error) iter.Seq2[T, span] {
	return func(yield func(T, span) bool) {
		var t json.Token
		if t, *err = dec.Token(); *err != nil || t == nil { // null has no items
			return
		}
		if t != json.Delim('[') {
			*err = fmt.Errorf("it has %v instead of a list", t)
			return
		}
		for dec.More() {
			var item T
			from := dec.InputOffset()
			if *err = dec.Decode(&item); *err != nil || !yield(item, span{from, dec.InputOffset()}) {
				return
			}
		}
		_, *err = dec.Token()
	}
}

// PolicySet is the hash of the policies and bindings, and Basis that of all other inputs of answers except the objects;
// empty: unknown.
func (s *StoredAudit) PolicySet() string { return s.summary.PolicySet }

// Basis is that of [Audit].
func (s *StoredAudit) Basis() string { return s.summary.Basis }

// Shard is the part of an audit that the report covers; nil: the whole.
func (s *StoredAudit) Shard() *Shard { return s.summary.Shard }

// Log reports whether it is about the requests of an audit log.
func (s *StoredAudit) Log() bool {
	t := s.summary.Totals
	return s.summary.Log || len(s.summary.Left) > 0 || t.NewlyDenied+t.NewlyAllowed+t.Agreed+t.Unanswered > 0
}

// describeReport names the subject of a report for a reader.
func describeReport(log bool, beside *Beside, shard *Shard) string {
	switch {
	case log:
		return "the requests of an audit log"
	case beside != nil:
		return "a comparison of files with a cluster"
	case shard != nil:
		return "part " + shard.String() + " of the objects"
	}
	return "objects that exist"
}

// Compare compares the audit with an earlier report. It is an error if they have different subjects.
func (a *Audit) Compare(last *StoredAudit) error {
	then, now := describeReport(last.Log(), last.summary.Beside, last.Shard()), describeReport(a.Log, a.Beside, a.Shard)
	if then != now {
		return fmt.Errorf("%s is about %s, and this audit is about %s", last.File, then, now)
	}
	a.Last = last
	return nil
}

// Read returns the resource versions at which resources were read, by resource.
func (s *StoredAudit) Read() map[string]string { return s.summary.Read }

// Totals returns the counts of the report.
func (s *StoredAudit) Totals() AuditTotals { return s.summary.Totals }

// Complete reports whether everything could be read and evaluated.
func (s *StoredAudit) Complete() bool { return len(s.summary.Unread)+s.summary.Totals.Failed == 0 }

// FailedObjects returns the objects that could not be evaluated, as far as the report lists them.
func (s *StoredAudit) FailedObjects() []AuditObject {
	all := make([]AuditObject, len(s.errors))
	for i, e := range s.errors {
		all[i] = e.toAudited().Object
	}
	return all
}

func (e jsonError) toAudited() *Audited {
	of := &Audited{Failure: &Failure{Message: e.Message, Hint: e.Hint}}
	if e.Object != nil {
		of.Object = AuditObject{APIVersion: e.Object.APIVersion, Kind: e.Object.Kind, Name: e.Object.Name}
		if namespace, name, found := strings.Cut(e.Object.Name, "/"); found {
			of.Object.Namespace, of.Object.Name = namespace, name
		}
	}
	return of
}

// objects yields the findings about each object.
func (s *StoredAudit) objects(err *error) iter.Seq[[]AuditFinding] {
	return func(yield func([]AuditFinding) bool) {
		var of []AuditFinding
		exprs := s.expressions()
		stop := errors.New("enough")
		*err = s.members(func(name json.Token, dec *json.Decoder) (err error) {
			if name != "findings" {
				var other json.RawMessage
				return dec.Decode(&other)
			}
			for j := range list[jsonFinding](dec, &err) {
				f := j.finding(exprs)
				if len(of) > 0 && !of[0].sameSubject(&f) {
					if !yield(of) {
						return stop
					}
					of = nil
				}
				of = append(of, f)
			}
			return err
		})
		if errors.Is(*err, stop) {
			*err = nil
		} else if *err == nil && len(of) > 0 {
			yield(of)
		}
	}
}

func (f *AuditFinding) sameSubject(g *AuditFinding) bool {
	x, y := f.Object, g.Object
	// The template of a child is elsewhere in the file.
	x.Place, y.Place = policy.Position{File: x.Place.File}, policy.Position{File: y.Place.File}
	return x == y && (f.Past == nil) == (g.Past == nil) && (f.Past == nil || *f.Past == *g.Past)
}

// An exprKey names an expression of a policy.
type exprKey struct {
	kind          policy.Kind
	policy, field string
}

// A blamed is an expression with the values that decided about the first object.
type blamed struct {
	expr   policy.Expr
	values []string
}

func (s *StoredAudit) expressions() map[exprKey]blamed {
	all := map[exprKey]blamed{}
	for _, g := range s.summary.Groups {
		key := exprKey{g.Kind, g.Policy, g.Field}
		if _, known := all[key]; known && len(g.Values) == 0 {
			continue
		}
		e := policy.Expr{Src: g.Expression, Field: g.Field}
		if g.Place != nil {
			e.Place = at(g.Place.position())
		}
		all[key] = blamed{e, g.Values}
	}
	return all
}

// An at is the position of an expression of which only the beginning is known.
type at policy.Position

// Locate implements policy.Locator.
func (a at) Locate(int) policy.Position { return policy.Position(a) }

func (p *jsonPlace) position() policy.Position {
	if p == nil {
		return policy.Position{}
	}
	return policy.Position{File: p.File, Line: p.Line, Column: p.Column}
}

func (o jsonAuditObject) object() AuditObject {
	return AuditObject{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.ResourceVersion}
}

// finding is the inverse of [AuditFinding.json].
func (j *jsonFinding) finding(exprs map[exprKey]blamed) AuditFinding {
	f := AuditFinding{
		Object: j.Object.object(), Verdict: j.Verdict, Asked: j.Asked, Made: j.Creates, PolicyKind: j.Kind,
		Policy: j.Policy, Binding: j.Binding, Param: j.Param, Place: j.Place.position(), Message: j.Message,
		Reason: j.Reason, IsError: j.Error, Diff: j.Diff, Unstable: j.Unstable, Only: j.Only,
	}
	if j.Source != nil {
		f.Source = policy.Position{File: j.Source.File, Line: j.Source.Line, Column: 1}
		f.Object.Place = f.Source
	}
	f.Story = j.Values
	if p := j.Past; p != nil {
		f.Past = &Past{p.AuditID, p.User, p.Time, p.SubResource, p.Was}
	}
	if known, ok := exprs[exprKey{j.Kind, j.Policy, j.Field}]; ok && j.Field != "" {
		f.Expr, f.first = known.expr, known.values
	} else {
		f.Expr.Field = j.Field
	}
	return f
}

// A Shard is one part of an audit.
type Shard struct {
	Index int    `json:"index"` // from 0
	Of    int    `json:"of"`
	Deal  string `json:"deal,omitempty"` // a hash of the deal, which identifies the audit
}

// String returns the form of the flag --shard.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// MergedAudit returns an empty audit for the findings of several reports; after making writers, the caller lets it
// absorb each. The reports must be all parts of one audit, each once.
func MergedAudit(parts []*StoredAudit, top int) (*Audit, error) {
	if len(parts) == 0 {
		return nil, errors.New("the reports to merge are missing")
	}
	first := parts[0]
	for _, p := range parts {
		if p.PolicySet() != first.PolicySet() {
			return nil, fmt.Errorf("%s and %s are of different policies", first.File, p.File)
		}
		if !p.isBeside(first) {
			return nil, fmt.Errorf("%s and %s are not parts of one audit", first.File, p.File)
		}
		if err := p.verify(); err != nil {
			return nil, err
		}
	}
	if err := areAll(parts); err != nil {
		return nil, err
	}
	set := &policy.Set{}
	for _, p := range first.summary.InForce {
		set.Policies = append(set.Policies, &policy.Policy{Kind: p.Kind, Name: p.Policy, Position: p.Place.position()})
	}
	var limits []needs.Limit
	for _, l := range first.summary.NotAudited {
		limits = append(limits, needs.Limit{Kind: l.Kind, Policy: l.Policy, Need: l.Need, Field: l.Field,
			Place: l.Place.position(), Of: l.Detail, Whole: l.Whole})
	}
	var rejected []Rejection
	for _, r := range first.rejected {
		rejected = append(rejected, Rejection{APIVersion: r.Object.APIVersion,
			Ref: policy.Ref{Kind: r.Object.Kind, Name: r.Object.Name}, Status: r.Status})
	}
	a := NewAudit(Options{Set: set, Rejected: rejected}, limits, top)
	a.PolicySet, a.Log, a.About = first.PolicySet(), first.Log(), first.summary.About
	for _, p := range parts {
		if t, err := time.Parse(time.RFC3339, p.summary.Time); err == nil && (a.Began.IsZero() || t.Before(a.Began)) {
			a.Began = t
		}
	}
	if beside := first.summary.Beside; beside != nil {
		copied := *beside
		a.Beside = &copied
	}
	if a.Basis = first.Basis(); slices.ContainsFunc(parts, func(p *StoredAudit) bool { return p.Basis() != a.Basis }) {
		a.Basis = "" // an input has changed between the parts
	}
	return a, nil
}

// isBeside reports whether both reports may be parts of one audit.
func (s *StoredAudit) isBeside(other *StoredAudit) bool {
	x, y := s.Shard(), other.Shard()
	if x == nil || y == nil {
		return x == y
	}
	return x.Of == y.Of && x.Deal == y.Deal && s.Log() == other.Log()
}

// areAll returns an error unless the reports are all parts of an audit, each once.
func areAll(parts []*StoredAudit) error {
	shard := parts[0].Shard()
	if shard == nil {
		if len(parts) > 1 {
			return fmt.Errorf("%s and %s are not parts of one audit", parts[0].File, parts[1].File)
		}
		return nil
	}
	by := map[int]*StoredAudit{}
	for _, p := range parts {
		i := p.Shard().Index
		if i < 0 || i >= shard.Of {
			return fmt.Errorf("%s is part %s, which does not exist", p.File, p.Shard())
		}
		if by[i] != nil {
			return fmt.Errorf("%s and %s are both part %s", by[i].File, p.File, p.Shard())
		}
		by[i] = p
	}
	for i := range len(parts) + 1 { // names the first missing one
		if by[i] == nil && i < shard.Of {
			return fmt.Errorf("part %s is missing", Shard{Index: i, Of: shard.Of})
		}
	}
	return nil
}

// Options returns the options of writers for a merged audit.
func (a *Audit) Options() Options { return Options{Set: a.set, Rejected: a.rejected, Types: a.types} }

// Absorb adds all findings and counts of a part.
func (a *Audit) Absorb(s *StoredAudit, write func(of *Audited, findings []AuditFinding) error) error {
	return a.absorb(s, nil, write)
}

// absorb adds counts and the chosen findings of a report.
func (a *Audit) absorb(s *StoredAudit, choose func([]AuditFinding) []AuditFinding,
	write func(of *Audited, findings []AuditFinding) error) error {
	var err error
	for findings := range s.objects(&err) {
		if choose != nil {
			if findings = choose(findings); len(findings) == 0 {
				continue
			}
		}
		of := &Audited{Object: findings[0].Object, Past: findings[0].Past}
		if i := slices.IndexFunc(findings, func(f AuditFinding) bool { return f.Made == "" }); i > 0 {
			of.Object = findings[i].Object // with its own position
		}
		a.tally(of.Object, findings)
		if err := write(of, findings); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for _, e := range s.errors {
		if err := write(e.toAudited(), nil); err != nil {
			return err
		}
	}
	from, to := s.summary.Totals, &a.totals
	for _, n := range []struct {
		to   *int
		from int
	}{
		{&to.Objects, from.Objects}, {&to.Skipped, from.Skipped}, {&to.Failed, from.Failed},
		{&to.Requests, from.Requests}, {&to.TakenOver, from.TakenOver}, {&to.NewlyDenied, from.NewlyDenied},
		{&to.NewlyAllowed, from.NewlyAllowed}, {&to.Agreed, from.Agreed}, {&to.Unanswered, from.Unanswered},
	} {
		*n.to += n.from
	}
	a.TakeOver(s)
	for _, u := range s.summary.Unread {
		if !slices.Contains(a.Unread, Unread(u)) {
			a.Unread = append(a.Unread, Unread(u))
		}
	}
	for text, n := range s.summary.Notes {
		a.said[text] += n
	}
	for name, n := range s.summary.Unchecked {
		a.lacking[name] += n
	}
	for reason, n := range s.summary.Left {
		a.left[reason] += n
	}
	for namespace, n := range s.summary.Passed {
		a.passed[namespace] += n
	}
	for resource, version := range s.summary.Read {
		a.ReadTo(resource, version)
	}
	return nil
}
