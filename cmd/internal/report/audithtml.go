package report

import (
	"io"
	"slices"
	"strings"
	"time"
)

// auditHTML writes one self-contained page.
type auditHTML struct {
	listing
	failures
	w     io.Writer
	audit *Audit
}

func newAuditHTML(w io.Writer, a *Audit) *auditHTML {
	a.tells = true
	return &auditHTML{w: w, audit: a}
}

func (h *auditHTML) Write(of *Audited, findings []AuditFinding) error {
	h.add(findings)
	h.note(of)
	return nil
}

type htmlTile struct {
	Name, Class string
	Count       int
	Trend       *trend
}

type htmlLine struct{ Text, Class string }

type htmlGroup struct {
	Verdict                           AuditVerdict
	Objects, Stuck, Unstable, More    int
	Trend                             *trend
	Made, Message, Who, Place, Source string
	Story                             []string
	Diff                              []htmlLine
	Namespaces                        []htmlNamespace
	Examples                          []string
}

type htmlNamespace struct {
	Name    string
	Objects int
	Counts  []htmlCount
}

type htmlCount struct {
	Objects int
	Trend   *trend
}

type htmlFinding struct {
	Verdict                       AuditVerdict
	Stuck                         bool
	About, Place, Policy, Message string
	Rule                          string // the position of the expression or policy to blame
	Story                         []string
	Diff                          []htmlLine
}

type htmlObject struct {
	Object, Message, Place string
	Findings               int
	Stuck                  bool
}

// An htmlPage is the input of auditPage.
type htmlPage struct {
	Summary, About string
	Last           string
	Gone           []htmlGone
	Tiles          []htmlTile
	Groups         []htmlGroup
	Columns        []AuditVerdict
	Namespaces     []htmlNamespace
	Worst, Failed  []htmlObject
	Verdicts       []AuditVerdict
	Findings       []htmlFinding
	Left           int
	Notes, Sayings []string
}

func (h *auditHTML) Close() error {
	a := h.audit
	last := a.Last
	page := htmlPage{
		Summary: a.Summary(), About: a.describe(), Left: h.left, Notes: a.notesAndUnchecked(), Sayings: a.sortedNotes(),
	}
	for _, r := range a.rejected {
		page.Notes = append([]string{"rejected by the server: " + r.Ref.String()}, page.Notes...)
	}
	t := a.totals
	var before AuditTotals
	if last != nil {
		before, page.Last = last.Totals(), last.File
		if when := last.timeText(); when != "" {
			page.Last += " of " + when
		}
	}
	page.Tiles = a.htmlTiles(t, before)
	for _, g := range a.goneGroups() {
		page.Gone = append(page.Gone, htmlGone{g.Verdict, g.headline()})
	}
	groups := a.sortedGroups()
	for _, g := range groups {
		page.Groups = append(page.Groups, a.htmlGroup(g))
	}
	page.Columns, page.Namespaces = a.htmlNamespaces(groups)
	for _, o := range a.worst {
		page.Worst = append(page.Worst, htmlObject{Object: o.object.String(), Place: o.object.Place.String(),
			Findings: o.findings, Stuck: o.stuck})
	}
	for _, f := range h.failed {
		page.Failed = append(page.Failed, htmlObject{Object: f.String(), Message: f.Message, Place: f.Place.String()})
	}
	slices.SortStableFunc(h.findings, func(f, g AuditFinding) int { return f.Verdict.rank() - g.Verdict.rank() })
	for i := range h.findings {
		f := &h.findings[i]
		if !slices.Contains(page.Verdicts, f.Verdict) {
			page.Verdicts = append(page.Verdicts, f.Verdict)
		}
		page.Findings = append(page.Findings,
			htmlFinding{f.Verdict, f.IsStuck(), f.subjectText(), f.Source.String(), f.Policy, f.Message,
				f.Place.String(), f.Story, htmlDiff(f.Diff)})
	}
	return writePage(h.w, auditPage(&page))
}

// htmlTiles returns the numbers at the top of the page, with those of an earlier audit.
func (a *Audit) htmlTiles(t, before AuditTotals) (tiles []htmlTile) {
	for _, c := range []struct {
		name, class string
		now, before int
		always      bool
	}{
		{"objects", "", t.Objects, before.Objects, true}, {"refused", "refused", t.Refused, before.Refused, false},
		{"denied", "denied", t.Denied, before.Denied, true}, {"stuck", "denied", t.Stuck, before.Stuck, true},
		{"warned", "warned", t.Warned, before.Warned, true}, {"audited", "audited", t.Audited, before.Audited, false},
		{"changed", "changed", t.Changed, before.Changed, true},
		{"unstable", "changed", t.Unstable, before.Unstable, false},
		{"ignored errors", "ignored", t.Ignored, before.Ignored, false},
		{"not decided", "denied", t.Failed, before.Failed, false},
		{"newly denied", "denied", t.NewlyDenied, before.NewlyDenied, false},
		{"newly allowed", "changed", t.NewlyAllowed, before.NewlyAllowed, false},
	} {
		if c.now == 0 && !c.always && c.before == 0 {
			continue
		}
		tile := htmlTile{Name: c.name, Class: c.class, Count: c.now}
		if a.Last != nil {
			tile.Trend = trendOf(c.now, c.before)
			if c.name == "objects" {
				tile.Trend.Class = "soft"
			}
		}
		tiles = append(tiles, tile)
	}
	return tiles
}

type htmlGone struct {
	Verdict AuditVerdict
	Text    string
}

// describe names the source and the time of the audit.
func (a *Audit) describe() string {
	var parts []string
	if a.About != "" {
		parts = append(parts, a.About)
	}
	if !a.Began.IsZero() {
		parts = append(parts, clock(a.Began))
	}
	return strings.Join(parts, ", ")
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// htmlNamespaces returns the findings of each namespace by verdict, now and in the last report.
func (a *Audit) htmlNamespaces(groups []*auditGroup) (columns []AuditVerdict, rows []htmlNamespace) {
	type counts map[AuditVerdict]int
	now, before := map[string]counts{}, map[string]counts{}
	add := func(to map[string]counts, verdict AuditVerdict, namespaces map[string]int) {
		for name, n := range namespaces {
			for _, m := range []map[string]counts{now, before} {
				if m[name] == nil {
					m[name] = counts{}
				}
			}
			to[name][verdict] += n
		}
		if !slices.Contains(columns, verdict) {
			columns = append(columns, verdict)
		}
	}
	for _, g := range groups {
		add(now, g.verdict, g.namespaces)
	}
	if a.Last != nil {
		for _, g := range a.Last.summary.Groups {
			add(before, g.Verdict, g.Namespaces)
		}
	}
	slices.SortFunc(columns, func(v, w AuditVerdict) int { return v.rank() - w.rank() })
	for name := range now {
		row := htmlNamespace{Name: namespaceText(name)}
		for _, v := range columns {
			c := htmlCount{Objects: now[name][v]}
			if c.Objects != before[name][v] && a.Last != nil {
				c.Trend = trendOf(c.Objects, before[name][v])
			}
			row.Counts = append(row.Counts, c)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(x, y htmlNamespace) int {
		for i := range columns {
			if c := y.Counts[i].Objects - x.Counts[i].Objects; c != 0 {
				return c
			}
		}
		return strings.Compare(x.Name, y.Name)
	})
	return columns, rows
}

func namespaceText(name string) string {
	if name == "" {
		return "no namespace"
	}
	return name
}

func (a *Audit) htmlGroup(g *auditGroup) htmlGroup {
	first := g.examples[0]
	out := htmlGroup{
		Verdict: g.verdict, Objects: g.objects, Stuck: g.stuck, Unstable: g.unstable, More: g.objects - len(g.examples),
		Made:    g.made,
		Message: first.Message, Place: first.Place.String(), Source: strings.TrimSpace(first.Expr.Src),
		Story: first.Story, Who: "the server, regardless of policies",
	}
	if out.Message == falseExpression {
		out.Message = "false: " + strings.Join(strings.Fields(first.Expr.Src), " ")
	}
	if g.policy != "" {
		out.Who = origin(g.policy, g.binding, "")
	}
	out.Trend = a.trend(g)
	if out.More < 0 {
		out.More = 0
	}
	out.Diff = htmlDiff(first.Diff)
	for _, n := range g.countNamespaces() {
		out.Namespaces = append(out.Namespaces, htmlNamespace{Name: namespaceText(n.name), Objects: n.objects})
	}
	for i := range g.examples {
		out.Examples = append(out.Examples, g.examples[i].subject())
	}
	return out
}

func htmlDiff(lines []string) (all []htmlLine) {
	for _, line := range lines {
		class := "soft"
		switch line[:min(1, len(line))] {
		case "+":
			class = "add"
		case "-":
			class = "del"
		}
		all = append(all, htmlLine{line, class})
	}
	return all
}
