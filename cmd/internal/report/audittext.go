package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/celgate/celgate/internal/needs"
)

// An AuditWriter renders the results of an audit.
type AuditWriter interface {
	// Write renders the findings about one object, perhaps none.
	Write(of *Audited, findings []AuditFinding) error

	// Close renders the end of the report, after all objects.
	Close() error
}

// AuditFormats are the formats of [NewAuditWriter].
func AuditFormats() []string {
	return []string{"text", "json", "html", "junit", "sarif", "csv", "openreports", "policyreport", "metrics"}
}

// NewAuditWriter returns a writer of a format for an audit.
func NewAuditWriter(format string, w io.Writer, a *Audit, o Options) (AuditWriter, error) {
	switch format {
	case "text":
		return &auditText{newTextWriter(w, o), a}, nil
	case "json":
		return newAuditJSON(w, a)
	case "html":
		return newAuditHTML(w, a), nil
	case "junit":
		return &auditJUnit{w: w, audit: a}, nil
	case "sarif":
		return &auditSARIF{w: w, audit: a}, nil
	case "csv":
		return newAuditCSV(w)
	case "openreports":
		return &reportsWriter{NewClusterReports(a, OpenReports, ReportName, time.Now()), w}, nil
	case "policyreport":
		return &reportsWriter{NewClusterReports(a, PolicyReports, ReportName, time.Now()), w}, nil
	case "metrics":
		return &auditMetrics{w, a, time.Now()}, nil
	}
	return nil, fmt.Errorf("unknown output format %q: one of %s", format, strings.Join(AuditFormats(), ", "))
}

// auditText writes for people: a block for each policy, binding and reason, the worst objects, the parts that were not
// audited, and the totals.
type auditText struct {
	*textWriter
	audit *Audit
}

func (t *auditText) Write(*Audited, []AuditFinding) error { return nil }

func (t *auditText) Close() error {
	for _, r := range t.audit.rejected {
		t.head(red, "rejected", r.Ref.String(), r.Place)
		t.blocksOf(rejectionBlocks(r))
	}
	for _, g := range t.audit.sortedGroups() {
		t.writeGap()
		for _, l := range Wrap(escapeControls(g.headline(t.audit.trend(g))), t.o.Width) {
			t.line(t.p.paint(auditVerdicts[g.verdict.rank()].style, l))
		}
		t.blocksOf([]block{t.groupBlock(g)})
	}
	if len(t.audit.worst) > 0 {
		t.writeGap()
		t.line(t.p.paint(bold, "objects with most denials"))
		for _, o := range t.audit.worst {
			line := fmt.Sprintf("%s by %s", o.object, plural(o.findings, "reason", "reasons"))
			if o.stuck {
				line += ", stuck"
			}
			if o.object.Place.IsValid() {
				line += "  " + o.object.Place.String()
			}
			t.item(line)
		}
	}
	if gone := t.audit.goneGroups(); len(gone) > 0 {
		t.writeGap()
		t.line(t.p.paint(bold, "no longer found"))
		for _, g := range gone {
			t.item(g.headline())
		}
	}
	if notes := t.audit.notesAndUnchecked(); len(notes) > 0 {
		t.writeGap()
		t.line(t.p.paint(bold, "not audited"))
		for _, n := range notes {
			t.item(n)
		}
	}
	if said := t.audit.sortedNotes(); len(said) > 0 {
		t.writeGap()
		t.line(t.p.paint(bold, "notes"))
		for _, n := range said {
			t.writeHanging("  ", "", 0, n, plain, 2)
		}
	}
	t.writeGap()
	t.writeHanging("", "", 0, t.audit.Summary(), bold, 0)
	return t.flush()
}

// headline names the number of objects and the policy of a group. The trend may be nil.
func (g *auditGroup) headline(since *trend) string {
	s := fmt.Sprintf("%d %s", g.objects, g.verdict)
	if g.made != "" {
		s = fmt.Sprintf("%ss of %s %s", g.made, plural(g.objects, "object", "objects"), g.verdict)
	}
	if since != nil {
		s += " (" + since.Text + ")"
	}
	if g.stuck > 0 {
		s += fmt.Sprintf(", %d stuck", g.stuck)
	}
	if g.unstable > 0 {
		s += fmt.Sprintf(", %d again by a second run", g.unstable)
	}
	switch {
	case g.policy == "":
		return s + " by the server, regardless of policies"
	case g.verdict == AuditAudited:
		return s + " (validationActions Audit) by " + origin(g.policy, g.binding, "")
	}
	return s + " by " + origin(g.policy, g.binding, "")
}

var groupLabels = map[AuditVerdict]string{
	AuditRefused: "refused", AuditDenied: "denied", AuditWarned: "warning", AuditAudited: "audited",
	AuditChanged: "changed", AuditIgnored: "ignored error",
}

func (t *auditText) groupBlock(g *auditGroup) block {
	first := g.examples[0]
	b := block{label: groupLabels[g.verdict], style: auditVerdicts[g.verdict.rank()].style, message: first.Message,
		expr: first.Expr, diff: first.Diff}
	if first.IsError && g.verdict == AuditDenied {
		b.label = "error"
	}
	if first.Expr.IsZero() {
		b.place = first.Place
	}
	b.mark = markOf(first.Expr, first.Place, first.err)
	b.footers = slices.Clone(first.Story)
	for _, m := range g.messages[1:] {
		b.footers = append(b.footers, "also: "+m)
	}
	if g.more {
		b.footers = append(b.footers, "and other messages")
	}
	spread := g.countNamespaces()
	var in []string
	for i, n := range spread {
		if i == 8 && len(spread) > 9 {
			in = append(in, fmt.Sprintf("%d more namespaces", len(spread)-8))
			break
		}
		if n.name == "" {
			in = append(in, fmt.Sprintf("%d without a namespace", n.objects))
		} else {
			in = append(in, fmt.Sprintf("%d in %s", n.objects, n.name))
		}
	}
	b.footers = append(b.footers, strings.Join(in, ", "))
	const most = 3
	var subjects []string // an object may have several findings, for several values of a scope
	for _, e := range g.examples {
		if subject := e.subject(); !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	if g.objects > most {
		subjects = subjects[:min(len(subjects), most)]
	}
	b.footers = append(b.footers, subjects...)
	if n := g.objects - min(len(subjects), most); n > 0 {
		b.footers = append(b.footers, fmt.Sprintf("and %d more", n))
	}
	return b
}

// subject names the object of a finding and the questions that it answers.
func (f *AuditFinding) subject() string {
	s := f.Object.String()
	if f.Made != "" {
		s = f.Made + " of " + s
	} else {
		asks := make([]string, len(f.Asked))
		for i, ask := range f.Asked {
			asks[i] = string(ask)
		}
		s += " (" + strings.Join(asks, ", ") + ")"
	}
	if p := f.Past; p != nil {
		if p.Sub != "" {
			s += " " + p.Sub
		}
		s += " by " + p.User
		if p.Time != "" {
			s += " at " + p.Time
		}
		if p.Was == WasUnknown {
			s += ", whose answer is not in the log"
		} else {
			s += ", was " + p.Was
		}
	}
	if f.Param != "" {
		s += ", param " + f.Param
	}
	if f.Only != "" {
		s += ", only in the " + f.Only
	}
	if f.Source.IsValid() {
		s += "  " + f.Source.String()
	}
	return s
}

// An auditNote is a reason why policies were not audited, or only in part.
type auditNote struct {
	need  needs.Need
	whole bool
	text  string
	hint  string
}

var auditNotes = []auditNote{
	{needs.User, true, "decided by the user of the request", "--as names a user"},
	{needs.User, false, "in expressions that read the user of the request", "--as names a user"},
	{needs.Authorizer, true, "decided by the permissions of the user", "--as names a user"},
	{needs.Authorizer, false, "in expressions that read the permissions of the user", "--as names a user"},
	{needs.Delete, true, "about deletions alone", "--deletions asks about them"},
	{needs.Delete, false, "as far as deletions go", "--deletions asks about them"},
	{needs.OldObject, false, "for oldObject: the evaluated updates do not change the object", ""},
	{needs.Connect, true, "about CONNECT only, which stored objects cannot represent", ""},
	{needs.Connect, false, "for CONNECT, which stored objects cannot represent", ""},
	{needs.Subresource, true, "about requests to subresources alone", ""},
	{needs.Subresource, false, "for requests to subresources", ""},
}

// notes returns the parts that were not audited, with reasons.
func (a *Audit) notes() []string {
	var all []string
	for _, u := range a.Unread {
		all = append(all, u.What+": "+u.Message)
	}
	for _, note := range auditNotes {
		var names []string
		for _, l := range a.limits {
			if l.Need == note.need && l.Whole == note.whole && !slices.Contains(names, l.Policy) {
				names = append(names, l.Policy)
			}
		}
		if len(names) == 0 {
			continue
		}
		line := "in part, "
		if note.whole {
			line = ""
		}
		line += nameFew(names, "policy ", "policies ") + ", " + note.text
		if note.hint != "" {
			line += " (" + note.hint + ")"
		}
		all = append(all, line)
	}
	for _, reason := range slices.Sorted(maps.Keys(a.left)) {
		all = append(all, plural(a.left[reason], "request", "requests")+": "+reason)
	}
	if idle := a.idle(); len(idle) > 0 {
		all = append(all, "for want of an object that matches, "+nameFew(idle, "policy ", "policies "))
	}
	return all
}

// notesAndUnchecked returns the parts of policies and of the server that were not audited.
func (a *Audit) notesAndUnchecked() []string {
	all := a.notes()
	if note := a.uncheckedNote(); note != "" {
		all = append(all, note)
	}
	return all
}

// sortedNotes returns the notes of answers, the most frequent first.
func (a *Audit) sortedNotes() []string {
	texts := slices.SortedFunc(maps.Keys(a.said), func(x, y string) int {
		return cmp.Or(a.said[y]-a.said[x], strings.Compare(x, y))
	})
	const most = 20
	var all []string
	for i, text := range texts {
		if i == most {
			return append(all, fmt.Sprintf("and %d more", len(texts)-most))
		}
		all = append(all, text+" ("+plural(a.said[text], "answer", "answers")+")")
	}
	return all
}

// nameFew names the first few.
func nameFew(names []string, one, many string) string {
	slices.Sort(names)
	if len(names) == 1 {
		return one + names[0]
	}
	const most = 5
	if len(names) <= most+1 {
		return many + strings.Join(names, ", ")
	}
	return many + strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// Summary returns the totals in one line.
func (a *Audit) Summary() string {
	t := a.totals
	if b := a.Beside; b != nil {
		return fmt.Sprintf("%s only in the files, %d only in the cluster, and %d in both, which are left out; %s in force",
			plural(b.Files, "finding", "findings"), b.Cluster, b.Both, plural(len(a.set.Policies), "policy", "policies"))
	}
	things := [2]string{"object of kinds", "objects of kinds"}
	s := plural(t.Objects, "object", "objects") + ", "
	if a.Log {
		things, s = [2]string{"request", "requests"}, ""
	}
	s += plural(t.Requests, "request", "requests") + ": "
	var counts []string
	var before AuditTotals
	if a.Last != nil {
		before = a.Last.Totals()
	}
	add := func(n, before int, word string) {
		if n == 0 && before == 0 {
			return
		}
		said := fmt.Sprintf("%d %s", n, word)
		if a.Last != nil {
			said += " (" + trendOf(n, before).Text + ")"
		}
		counts = append(counts, said)
	}
	add(t.Refused, before.Refused, "refused")
	add(t.Denied, before.Denied, "denied")
	add(t.Stuck, before.Stuck, "stuck")
	add(t.Warned, before.Warned, "warned")
	add(t.Audited, before.Audited, "audited")
	add(t.Changed, before.Changed, "changed")
	add(t.Unstable, before.Unstable, "changed again by a second run")
	add(t.Ignored, before.Ignored, "with ignored errors")
	add(t.Failed, before.Failed, "not decided")
	add(t.NewlyDenied, before.NewlyDenied, "denied that were allowed")
	add(t.NewlyAllowed, before.NewlyAllowed, "allowed that were denied")
	add(t.Agreed, before.Agreed, "as they were")
	add(t.Unanswered, before.Unanswered, "without an answer in the log")
	if len(counts) == 0 {
		counts = []string{"no findings"}
	}
	s += strings.Join(counts, ", ")
	if t.TakenOver > 0 {
		s += fmt.Sprintf("; %d unchanged since the last report, which were not evaluated again", t.TakenOver)
	}
	if t.Skipped > 0 {
		s += "; " + plural(t.Skipped, things[0], things[1]) + " that no policy matches"
	}
	s += fmt.Sprintf("; %s in force", plural(len(a.set.Policies), "policy", "policies"))
	if n := a.CountUnasked(); n > 0 {
		s += fmt.Sprintf(", %d not auditable", n)
	}
	return s
}
