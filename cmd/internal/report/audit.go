package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// An Ask is a question about an existing object.
type Ask string

// Questions.
const (
	AskCreate Ask = "create" // may a user create another one like it?
	AskUpdate Ask = "update" // may it be updated, without any change?
	AskDelete Ask = "delete" // may it be deleted?
	AskMake   Ask = "make"   // may controllers create its children?
)

// An AuditVerdict is a policy's answer to a question.
type AuditVerdict string

// Verdicts, the worst first.
const (
	AuditRefused AuditVerdict = "refused" // by the server, regardless of policies
	AuditDenied  AuditVerdict = "denied"
	AuditWarned  AuditVerdict = "warned"
	AuditAudited AuditVerdict = "audited"
	AuditChanged AuditVerdict = "changed" // a mutating policy would change the object
	AuditIgnored AuditVerdict = "ignored" // an error that failurePolicy Ignore ignores
)

var auditVerdicts = []struct {
	verdict AuditVerdict
	style   style
}{{AuditRefused, red}, {AuditDenied, red}, {AuditWarned, yellow}, {AuditAudited, cyan}, {AuditChanged, blue},
	{AuditIgnored, bold}}

func (v AuditVerdict) rank() int {
	for i, known := range auditVerdicts {
		if known.verdict == v {
			return i
		}
	}
	return len(auditVerdicts)
}

// An AuditObject is an existing object.
type AuditObject struct {
	APIVersion, Kind, Namespace, Name string
	UID, ResourceVersion              string          // empty: unknown
	Place                             policy.Position // of its manifest; zero: from a cluster
}

// String names the object, by its kind if it has no name.
func (o AuditObject) String() string {
	if o.Name == "" {
		return o.Kind
	}
	return o.Kind + " " + o.name()
}

func (o AuditObject) name() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// An Asked is a question with its answer.
type Asked struct {
	Ask   Ask
	Item  Item
	Again []celgate.Change // the changes that the mutating policies make to their own result
}

// An Audited is an object with the answers about it.
type Audited struct {
	Object  AuditObject
	Answers []Asked
	Failure *Failure // the reason why the object could not be audited; nil: it was
	Past    *Past    // the repeated request; nil: an existing object
	Notes   []string // about parts that were not audited

	TakenOver bool           // not audited again, because it has not changed since an earlier report
	Found     []AuditFinding // of that report
}

// A Past is a request of an audit log.
type Past struct {
	ID, User, Time string
	Sub            string // the subresource
	Was            string // the recorded result: allowed, denied (by an admission policy), failed or unknown
}

// Recorded results of requests.
const (
	WasAllowed = "allowed"
	WasDenied  = "denied"
	WasFailed  = "failed"
	WasUnknown = "unknown" // the log does not have it
)

// An AuditFinding is one policy's finding about an object. Equal answers to several questions are one finding.
type AuditFinding struct {
	Object  AuditObject
	Verdict AuditVerdict
	Asked   []Ask
	Made    string          // the kind of an object that a controller would create; empty: about the object itself
	Source  policy.Position // of the object, or of the template of the created one; zero: not from a file

	PolicyKind             policy.Kind
	Policy, Binding, Param string
	Expr                   policy.Expr // to blame; zero: none
	Place                  policy.Position
	Message, Reason        string
	IsError                bool // not a verdict

	Story    []string // the values that decided, for examples
	Diff     []string // of the changes: lines that begin with "-", "+" or "@"
	Unstable bool     // the policy changes its own result again

	Past *Past  // that of [Audited]
	Only string // the only side with the finding, files or cluster; empty: no comparison

	err   error    // of a failed evaluation
	asked *Asked   // the first question with this answer; nil: kept, or from a report
	first []string // the story of the first similar finding in the report
}

// IsStuck reports whether the finding prevents all updates of the object.
func (f *AuditFinding) IsStuck() bool {
	return f.Past == nil && (f.Verdict == AuditDenied || f.Verdict == AuditRefused) &&
		slices.Contains(f.Asked, AskUpdate)
}

// field returns the server's path of the expression to blame.
func (f *AuditFinding) field() string { return f.Expr.Field }

// undecided are the expressions whose verdicts are left out, because they depend on unknown facts.
type undecided map[undecidedKey]bool

type undecidedKey struct {
	kind          policy.Kind
	policy, field string
}

func undecidedOf(limits []needs.Limit) undecided {
	u := undecided{}
	for _, l := range limits {
		if l.Need == needs.User || l.Need == needs.Authorizer {
			u[undecidedKey{l.Kind, l.Policy, l.Field}] = true
		}
	}
	return u
}

// findings returns the findings about an object, the worst first.
func (a *Audit) findings(of *Audited) []AuditFinding {
	var all []AuditFinding
	for n := range of.Answers {
		asked := &of.Answers[n]
		for _, f := range a.answerFindings(of.Object, asked) {
			f.Past = of.Past
			i := slices.IndexFunc(all, func(g AuditFinding) bool { return g.hasAnswerOf(&f) })
			if i < 0 {
				all = append(all, f)
				continue
			}
			if !slices.Contains(all[i].Asked, asked.Ask) {
				all[i].Asked = append(all[i].Asked, asked.Ask)
			}
			all[i].Unstable = all[i].Unstable || f.Unstable
		}
	}
	slices.SortStableFunc(all, func(f, g AuditFinding) int {
		return cmp.Or(f.Verdict.rank()-g.Verdict.rank(), strings.Compare(f.Policy, g.Policy),
			strings.Compare(f.Binding, g.Binding))
	})
	return all
}

// hasAnswerOf reports whether both findings are the same answer to two questions.
func (f *AuditFinding) hasAnswerOf(g *AuditFinding) bool {
	return f.Verdict == g.Verdict && f.PolicyKind == g.PolicyKind && f.Policy == g.Policy && f.Binding == g.Binding &&
		f.Param == g.Param &&
		f.field() == g.field() &&
		f.Made == g.Made &&
		(f.Verdict == AuditChanged || f.Message == g.Message)
}

var actionVerdicts = map[policy.Action]AuditVerdict{policy.Deny: AuditDenied, policy.Warn: AuditWarned,
	policy.Audit: AuditAudited}

func (a *Audit) answerFindings(object AuditObject, asked *Asked) []AuditFinding {
	it := asked.Item
	d := it.Decision
	if d == nil {
		return nil
	}
	made := ""
	if asked.Ask == AskMake {
		made = it.kind().Kind
	}
	source := object.Place
	if made != "" && source.IsValid() && it.Place.IsValid() {
		source = it.Place
	}
	var all []AuditFinding
	add := func(f AuditFinding) {
		f.Object, f.Asked, f.Made, f.Source, f.asked = object, []Ask{asked.Ask}, made, source, asked
		all = append(all, f)
	}
	left := false // true if some were left out
	for _, v := range d.Violations {
		if a.undecided[undecidedKey{v.Kind, v.Policy, v.Expr.Field}] {
			left = true
			continue
		}
		add(AuditFinding{
			Verdict: actionVerdicts[severityOf(v)], PolicyKind: v.Kind, Policy: v.Policy, Binding: v.Binding,
			Param: v.Param,
			Expr:  v.Expr, Place: placeOfExpr(v.Expr), Message: headline(v.Message, v.Err, v.Expr),
			Reason: string(v.Reason), IsError: v.IsError, err: v.Err,
		})
	}
	for _, o := range d.Outcomes {
		if o.Verdict != celgate.Error || a.undecided[undecidedKey{o.Kind, o.Policy, o.Field()}] {
			continue
		}
		verdict := AuditIgnored
		if refuses(d, o) {
			verdict = AuditDenied
		} else if slices.ContainsFunc(d.Violations, func(v celgate.Violation) bool {
			return v.IsError && v.Policy == o.Policy &&
				(v.Binding == "" || v.Binding == o.Binding && v.Param == o.Param)
		}) {
			continue
		}
		add(AuditFinding{
			Verdict: verdict, PolicyKind: o.Kind, Policy: o.Policy, Binding: o.Binding, Param: o.Param, Expr: *o.Expr,
			Place:   placeOfExpr(*o.Expr),
			Message: headline(o.Message, o.Err, *o.Expr), IsError: true, err: o.Err,
		})
	}
	if !d.Allowed && d.Status != nil && !left &&
		!slices.ContainsFunc(all, func(f AuditFinding) bool { return f.Verdict == AuditDenied }) {
		add(AuditFinding{Verdict: AuditRefused, Message: d.Status.Message, Reason: string(d.Status.Reason)})
	}
	if made == "" {
		a.changes(asked, add)
	}
	return all
}

// changes adds the changes that mutating policies would make. Changes of a new Pod are not findings: mutations are
// meant for new Pods.
func (a *Audit) changes(asked *Asked, add func(AuditFinding)) {
	for _, c := range asked.Item.Changes {
		if c.Second {
			continue // part of the first pass of the same policy, or reported as unstable
		}
		f := AuditFinding{Verdict: AuditChanged, PolicyKind: c.Kind, Policy: c.Policy, Binding: c.Binding,
			Param: c.Param}
		for _, p := range a.set.Policies {
			if p.Kind == c.Kind && p.Name == c.Policy {
				f.Place = p.Position
			}
		}
		var paths []string
		for _, h := range rewrite.Diff(c.Before, c.After, Options{Types: a.types}.typeOf(c.After)) {
			if h.Path != "" {
				f.Diff = append(f.Diff, "@ "+h.Path)
			}
			for _, line := range h.Lines {
				if member, _, ok := strings.Cut(line[min(2, len(line)):], ":"); ok &&
					!strings.ContainsAny(member, " -") {
					paths = append(paths, strings.TrimPrefix(h.Path+"."+member, "."))
				} else if !strings.HasPrefix(line[min(2, len(line)):], " ") {
					paths = append(paths, cmp.Or(h.Path, "the object"))
				}
			}
			f.Diff = append(f.Diff, h.Lines...)
		}
		slices.Sort(paths)
		if paths = slices.Compact(paths); len(paths) > 3 {
			paths = append(paths[:3], fmt.Sprintf("%d more", len(paths)-3))
		}
		f.Message = "would change " + strings.Join(paths, ", ")
		if more := len(f.Diff) - longestDiff; more > 1 {
			f.Diff = append(f.Diff[:longestDiff:longestDiff], fmt.Sprintf("  and %d more lines", more))
		}
		f.Unstable = slices.ContainsFunc(asked.Again,
			func(again celgate.Change) bool { return again.Policy == c.Policy && again.Binding == c.Binding })
		add(f)
	}
}

func placeOfExpr(e policy.Expr) policy.Position { return e.Locate(0) }

// An Unread is a part of a cluster that could not be read.
type Unread struct{ What, Message string }

// An Audit accumulates findings. Its size does not grow with the number of objects: it counts, and keeps a few examples
// of each group.
type Audit struct {
	set       *policy.Set
	types     *schema.Registry
	limits    []needs.Limit
	undecided undecided
	rejected  []Rejection
	top       int

	Unread []Unread // parts that could not be read

	About string    // the source of the objects for a reader, such as names of files
	Began time.Time // start time

	Log  bool         // of an audit log
	Last *StoredAudit // for the comparison; nil: none

	Beside    *Beside // a comparison of files with a cluster; nil: not one
	PolicySet string  // a hash of the policies and bindings in force
	Basis     string  // a hash of the other inputs of answers, except the objects; empty: unknown
	Shard     *Shard  // nil: all objects

	// Reasons returns the reasons of outcomes, by index. It is called for the first finding of each group; may be nil.
	Reasons func(Item) map[int]blame.Reason

	tells   bool                 // the values behind single findings are needed
	told    map[AuditVerdict]int // findings with values
	totals  AuditTotals
	groups  map[groupKey]*auditGroup
	worst   []offender
	matched map[policy.Ref]bool // policies that matched an object, without a binding
	said    map[string]int      // notes, with the number of answers
	lacking map[string]int      // objects by the names of parts of the server that were not simulated for them
	left    map[string]int      // requests of a log that cannot be repeated, by reason
	read    map[string]string   // resource versions, see ReadTo
	passed  map[string]int      // pairs of an object and a policy without a finding, by namespace
}

// AuditTotals are counts of objects.
type AuditTotals struct {
	Objects int `json:"objects"` // that policies match
	// of these, those whose findings come from an earlier report
	TakenOver int `json:"takenOver,omitempty"`
	Skipped   int `json:"skipped"`  // that no policy matches, neither them nor their children
	Failed    int `json:"failed"`   // that could not be evaluated
	Requests  int `json:"requests"` // evaluated requests
	Refused   int `json:"refused"`
	Denied    int `json:"denied"`
	Stuck     int `json:"stuck"` // that cannot be updated
	Warned    int `json:"warned"`
	Audited   int `json:"audited"`
	Changed   int `json:"changed"`
	Unstable  int `json:"unstable"` // that a second run changes again
	Ignored   int `json:"ignored"`

	// Of the requests of an audit log.
	NewlyDenied  int `json:"newlyDenied,omitempty"`  // previously allowed
	NewlyAllowed int `json:"newlyAllowed,omitempty"` // previously denied by an admission policy
	Agreed       int `json:"agreed,omitempty"`       // with the recorded answer
	Unanswered   int `json:"unanswered,omitempty"`   // without a recorded answer
}

// A groupKey identifies similar findings: of one policy, binding and reason.
type groupKey struct {
	verdict         AuditVerdict
	kind            policy.Kind
	policy, binding string
	field           string
	made            string
	message         string // for findings without a policy
}

// An auditGroup counts similar findings.
type auditGroup struct {
	groupKey
	objects, stuck, unstable int
	namespaces               map[string]int // by namespace of the objects; "" for cluster-scoped ones
	messages                 []string       // the first distinct ones
	more                     bool           // further messages exist
	examples                 []AuditFinding // the first findings
	last                     AuditObject
}

const (
	maxMessages = 3
	maxExamples = 5
	maxOffender = 1000
)

// An offender is an object with findings.
type offender struct {
	object   AuditObject
	findings int
	stuck    bool
}

// NewAudit returns an empty audit.
func NewAudit(o Options, limits []needs.Limit, top int) *Audit {
	return &Audit{set: o.Set, types: o.Types, rejected: o.Rejected, limits: limits, undecided: undecidedOf(limits),
		top:     min(max(top, 0), maxOffender),
		told:    map[AuditVerdict]int{},
		groups:  map[groupKey]*auditGroup{},
		matched: map[policy.Ref]bool{},
		said:    map[string]int{},
		lacking: map[string]int{},
		left:    map[string]int{},
		passed:  map[string]int{},
		read:    map[string]string{},
	}
}

// Totals returns the counts so far.
func (a *Audit) Totals() AuditTotals { return a.totals }

// ReadTo records the resource version at which a resource was read; of several the earliest counts.
func (a *Audit) ReadTo(resource, version string) {
	known, ok := a.read[resource]
	if older, comparable := IsOlder(version, known); !ok || comparable && older {
		a.read[resource] = version
	} else if !comparable {
		a.read[resource] = ""
	}
}

// IsOlder compares two resource versions. Those of objects that a server stores itself are increasing numbers.
func IsOlder(version, than string) (older, comparable bool) {
	x, err := strconv.ParseUint(version, 10, 64)
	y, errThan := strconv.ParseUint(than, 10, 64)
	return x < y, err == nil && errThan == nil
}

// TakeOver prepares for findings of an earlier report: policies that matched an object then count as matching.
func (a *Audit) TakeOver(s *StoredAudit) {
	for _, p := range s.summary.InForce {
		if !slices.Contains(s.summary.Unmatched, p.Policy) {
			a.matched[p.Kind.Ref(p.Policy)] = true
		}
	}
}

// Leave counts requests of a log that cannot be repeated.
func (a *Audit) Leave(reason string, n int) { a.left[reason] += n }

// CountLeft returns the number of requests of a log that cannot be repeated.
func (a *Audit) CountLeft() int {
	n := 0
	for _, of := range a.left {
		n += of
	}
	return n
}

// Skip counts an object that is not audited.
func (a *Audit) Skip() { a.totals.Skipped++ }

// Record counts an object and returns its findings.
func (a *Audit) Record(of *Audited) []AuditFinding {
	a.totals.Objects++
	if of.Failure != nil {
		a.totals.Failed++
		return nil
	}
	if of.TakenOver {
		a.totals.TakenOver++
		a.tally(of.Object, of.Found)
		return of.Found
	}
	note := func(text string) {
		if _, known := a.said[text]; known || len(a.said) < maxOffender {
			a.said[text]++
		}
	}
	for _, text := range of.Notes {
		note(text)
	}
	a.leave(of)
	failed := false
	for _, asked := range of.Answers {
		a.totals.Requests++
		d := asked.Item.Decision
		if d == nil {
			failed = true
			continue
		}
		for _, n := range d.Notes {
			note(n.Message)
		}
		for _, o := range d.Outcomes {
			a.matched[o.Kind.Ref(o.Policy)] = true
		}
		for _, v := range d.Violations {
			a.matched[v.Kind.Ref(v.Policy)] = true
		}
	}
	if failed {
		a.totals.Failed++
	}
	all := a.findings(of)
	if of.Past != nil && !failed {
		a.compare(of)
	}
	a.pass(of, all)
	a.tell(all)
	a.tally(of.Object, all)
	return all
}

// leave counts the parts of the server that were not simulated for an object.
func (a *Audit) leave(of *Audited) {
	var names []string
	for _, asked := range of.Answers {
		if asked.Item.Decision == nil {
			continue
		}
		for _, part := range uncheckedOf(asked.Item.Decision) {
			if name := partName(part); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if _, known := a.lacking[name]; known || len(a.lacking) < maxOffender {
			increment(a.lacking, name, 1)
		}
	}
}

// uncheckedNote names the parts of the server that were not simulated, with the number of objects; empty: none.
func (a *Audit) uncheckedNote() string {
	one, many := "object", "objects"
	if a.Log {
		one, many = "request", "requests"
	}
	names := slices.SortedFunc(maps.Keys(a.lacking), func(x, y string) int {
		return cmp.Or(a.lacking[y]-a.lacking[x], strings.Compare(x, y))
	})
	for i, name := range names {
		names[i] = name + " (" + plural(a.lacking[name], one, many) + ")"
	}
	if len(names) == 0 {
		return ""
	}
	return "parts of the server: " + strings.Join(names, ", ")
}

// tell finds the values behind single findings, for as many of each verdict as are listed.
func (a *Audit) tell(all []AuditFinding) {
	if !a.tells || a.Reasons == nil {
		return
	}
	of := map[*Asked]map[int]blame.Reason{}
	for i := range all {
		f := &all[i]
		if f.asked == nil || f.Verdict == AuditChanged || a.told[f.Verdict] >= maxListed {
			continue
		}
		a.told[f.Verdict]++
		f.Story = f.story(func(it Item) map[int]blame.Reason {
			if _, known := of[f.asked]; !known {
				of[f.asked] = a.Reasons(it)
			}
			return of[f.asked]
		})
	}
}

// pass counts the policies that match an object and do not have a finding about it.
func (a *Audit) pass(of *Audited, findings []AuditFinding) {
	seen := map[policy.Ref]bool{}
	for i := range findings {
		seen[findings[i].PolicyKind.Ref(findings[i].Policy)] = true
	}
	for _, asked := range of.Answers {
		if asked.Item.Decision == nil {
			continue
		}
		for _, o := range asked.Item.Decision.Outcomes {
			s := o.Kind.Ref(o.Policy)
			if !seen[s] && !a.undecided[undecidedKey{o.Kind, o.Policy, o.Field()}] {
				seen[s] = true
				increment(a.passed, of.Object.Namespace, 1)
			}
		}
	}
}

// increment increments a count. It copies a new key, which may be part of a larger text.
func increment(counts map[string]int, key string, n int) {
	if _, known := counts[key]; !known {
		key = strings.Clone(key)
	}
	counts[key] += n
}

// tally counts the findings about an object.
func (a *Audit) tally(object AuditObject, all []AuditFinding) {
	var has [6]bool
	stuck, unstable, bad := false, false, 0
	for i := range all {
		f := &all[i]
		has[f.Verdict.rank()] = true
		stuck, unstable = stuck || f.IsStuck(), unstable || f.Unstable
		if f.Verdict == AuditDenied || f.Verdict == AuditRefused {
			bad++
		}
		a.count(f)
	}
	t := &a.totals
	for i, n := range []*int{&t.Refused, &t.Denied, &t.Warned, &t.Audited, &t.Changed, &t.Ignored} {
		if has[i] {
			*n++
		}
	}
	if stuck {
		t.Stuck++
	}
	if unstable {
		t.Unstable++
	}
	a.offend(object, bad, stuck)
}

// compare compares the recorded answer of a request with the new one.
func (a *Audit) compare(of *Audited) {
	allowed := of.Answers[0].Item.Decision.Allowed
	switch was := of.Past.Was; {
	case was == WasAllowed && !allowed:
		a.totals.NewlyDenied++
	case was == WasDenied && allowed:
		a.totals.NewlyAllowed++
	case was == WasUnknown:
		a.totals.Unanswered++
	case was != WasFailed:
		a.totals.Agreed++
	}
}

// count adds a finding to its group.
func (a *Audit) count(f *AuditFinding) {
	key := groupKey{f.Verdict, f.PolicyKind, f.Policy, f.Binding, f.field(), f.Made, ""}
	if f.Policy == "" {
		key.message = strings.Clone(f.Message)
		if len(a.groups) > maxOffender {
			key.message = "" // texts of the server may contain names of objects, which would make groups unbounded
		}
	}
	g := a.groups[key]
	if g == nil {
		g = &auditGroup{groupKey: key, namespaces: map[string]int{}}
		a.groups[key] = g
	}
	if !slices.Contains(g.messages, f.Message) {
		if len(g.messages) < maxMessages {
			g.messages = append(g.messages, strings.Clone(f.Message))
		} else {
			g.more = true
		}
	}
	if len(g.examples) < maxExamples {
		kept := f.detach()
		switch {
		case len(g.examples) > 0 || len(kept.Story) > 0:
		case a.Reasons != nil && f.asked != nil && f.Verdict != AuditChanged:
			kept.Story = f.story(a.Reasons)
		default:
			kept.Story = f.first
		}
		g.examples = append(g.examples, kept)
	}
	if g.objects > 0 && g.last == f.Object { // a finding with another param
		return
	}
	g.last = f.Object
	g.objects++
	increment(g.namespaces, f.Object.Namespace, 1)
	if f.IsStuck() {
		g.stuck++
	}
	if f.Unstable {
		g.unstable++
	}
}

// story returns the values that decided.
func (f *AuditFinding) story(reasons func(Item) map[int]blame.Reason) []string {
	if f.asked.Item.Request == nil {
		return nil
	}
	d := f.asked.Item.Decision
	i := slices.IndexFunc(d.Outcomes, func(o celgate.Outcome) bool {
		return o.Kind == f.PolicyKind && o.Policy == f.Policy && o.Binding == f.Binding && o.Param == f.Param &&
			o.Field() == f.field() && o.Verdict != celgate.Admit
	})
	if i < 0 {
		return nil
	}
	if r, ok := reasons(f.asked.Item)[i]; ok {
		return valueLines(r.Values, nil)
	}
	return nil
}

// detach returns a copy that does not keep the text of the file in memory.
func (f *AuditFinding) detach() AuditFinding {
	k := *f
	k.asked = nil
	k.Asked = slices.Clone(f.Asked)
	k.Object = f.Object.detach()
	k.Param, k.Message = strings.Clone(f.Param), strings.Clone(f.Message)
	k.Diff = slices.Clone(f.Diff)
	for i, line := range k.Diff {
		k.Diff[i] = strings.Clone(line)
	}
	k.Story = slices.Clone(f.Story)
	return k
}

func (o AuditObject) detach() AuditObject {
	for _, s := range []*string{&o.APIVersion, &o.Kind, &o.Namespace, &o.Name, &o.UID, &o.ResourceVersion} {
		*s = strings.Clone(*s)
	}
	return o
}

// offend keeps the objects with most findings; of two the first one.
func (a *Audit) offend(object AuditObject, findings int, stuck bool) {
	if findings == 0 || a.top == 0 {
		return
	}
	i := len(a.worst)
	for i > 0 && a.worst[i-1].findings < findings {
		i--
	}
	if i >= a.top {
		return
	}
	a.worst = slices.Insert(a.worst, i, offender{object.detach(), findings, stuck})
	a.worst = a.worst[:min(len(a.worst), a.top)]
}

// sortedGroups returns the groups, the worst and largest first.
func (a *Audit) sortedGroups() []*auditGroup {
	all := make([]*auditGroup, 0, len(a.groups))
	for _, g := range a.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(g, h *auditGroup) int {
		return cmp.Or(g.verdict.rank()-h.verdict.rank(), h.objects-g.objects, strings.Compare(g.policy, h.policy),
			strings.Compare(g.binding, h.binding),
			strings.Compare(g.field, h.field),
			strings.Compare(g.made, h.made),
			strings.Compare(g.message, h.message),
		)
	})
	return all
}

// A namespaceCount is the number of objects of a namespace in a group.
type namespaceCount struct {
	name    string
	objects int
}

func (g *auditGroup) countNamespaces() []namespaceCount {
	var all []namespaceCount
	for name, n := range g.namespaces {
		all = append(all, namespaceCount{name, n})
	}
	slices.SortFunc(all, func(x, y namespaceCount) int {
		return cmp.Or(y.objects-x.objects, strings.Compare(x.name, y.name))
	})
	return all
}

// idle returns the audited policies that did not match any object, sorted.
func (a *Audit) idle() []string {
	var names []string
	for _, p := range a.set.Policies {
		if !a.matched[p.Ref()] && !a.isUnasked(p) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// CountUnasked returns the number of policies that cannot be audited.
func (a *Audit) CountUnasked() int {
	n := 0
	for _, p := range a.set.Policies {
		if a.isUnasked(p) {
			n++
		}
	}
	return n
}

func (a *Audit) isUnasked(p *policy.Policy) bool {
	return slices.ContainsFunc(a.limits, func(l needs.Limit) bool {
		return l.Whole && l.Kind == p.Kind &&
			l.Policy == p.Name
	})
}
