package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed page.html audit.html suite.html
var pageFiles embed.FS

// pages are the pages, which share their style and their script.
var pages = template.Must(template.ParseFS(pageFiles, "*.html"))

// auditHTML writes one page that needs nothing else.
type auditHTML struct {
	listing
	failures
	w     io.Writer
	audit *Audit
}

func newAuditHTML(w io.Writer, a *Audit) *auditHTML { return &auditHTML{w: w, audit: a} }

func (h *auditHTML) Write(of *Audited, findings []AuditFinding) error {
	h.add(findings)
	h.note(of)
	return nil
}

// A trend is how a count has changed.
type trend struct{ Text, Class string }

// trendOf compares a count of what is bad with an earlier one.
func trendOf(now, before int) *trend {
	switch {
	case now > before:
		return &trend{fmt.Sprintf("+%d", now-before), "up"}
	case now < before:
		return &trend{fmt.Sprintf("−%d", before-now), "down"}
	}
	return &trend{"±0", "soft"}
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
	Counts  []int
}

type htmlFinding struct {
	Verdict                       AuditVerdict
	Stuck                         bool
	About, Place, Policy, Message string
}

type htmlObject struct {
	Object, Message, Place string
	Findings               int
	Stuck                  bool
}

func (h *auditHTML) Close() error {
	a := h.audit
	last := a.Last
	page := struct {
		Summary, Last  string
		Tiles          []htmlTile
		Groups         []htmlGroup
		Columns        []AuditVerdict
		Namespaces     []htmlNamespace
		Worst, Failed  []htmlObject
		Verdicts       []AuditVerdict
		Findings       []htmlFinding
		Left           int
		Notes, Sayings []string
	}{Summary: a.Summary(), Left: h.left, Notes: a.notes(), Sayings: a.sayings()}
	for _, r := range a.rejected {
		page.Notes = append([]string{"rejected by the server: " + r.Ref.String()}, page.Notes...)
	}
	t := a.totals
	var before AuditTotals
	if last != nil {
		before, page.Last = last.Totals(), last.File
	}
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
		if last != nil {
			tile.Trend = trendOf(c.now, c.before)
			if c.name == "objects" {
				tile.Trend.Class = "soft"
			}
		}
		page.Tiles = append(page.Tiles, tile)
	}
	groups := a.sorted()
	byNamespace := map[string]map[AuditVerdict]int{}
	for _, g := range groups {
		page.Groups = append(page.Groups, a.htmlGroup(g))
		if !slices.Contains(page.Columns, g.verdict) {
			page.Columns = append(page.Columns, g.verdict)
		}
		for name, n := range g.namespaces {
			if byNamespace[name] == nil {
				byNamespace[name] = map[AuditVerdict]int{}
			}
			byNamespace[name][g.verdict] += n
		}
	}
	for name, counts := range byNamespace {
		row := htmlNamespace{Name: namespaceText(name)}
		for _, v := range page.Columns {
			row.Counts = append(row.Counts, counts[v])
		}
		page.Namespaces = append(page.Namespaces, row)
	}
	slices.SortFunc(page.Namespaces, func(x, y htmlNamespace) int {
		if c := slices.Compare(y.Counts, x.Counts); c != 0 {
			return c
		}
		return strings.Compare(x.Name, y.Name)
	})
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
			htmlFinding{f.Verdict, f.Stuck(), f.about(), f.Object.Place.String(), f.Policy, f.Message})
	}
	return pages.ExecuteTemplate(h.w, "audit.html", page)
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
		Story: first.Story, Who: "the server, whatever policies say",
	}
	if out.Message == falseExpression {
		out.Message = "false: " + strings.Join(strings.Fields(first.Expr.Src), " ")
	}
	if g.policy != "" {
		out.Who = origin(g.policy, g.binding, "")
	}
	if a.Last != nil {
		out.Trend = trendOf(g.objects, a.Last.groups[lastKey{g.verdict, g.policy, g.binding, g.field, g.made}])
	}
	if out.More < 0 {
		out.More = 0
	}
	for _, line := range first.Diff {
		class := "soft"
		switch line[:min(1, len(line))] {
		case "+":
			class = "add"
		case "-":
			class = "del"
		}
		out.Diff = append(out.Diff, htmlLine{line, class})
	}
	for _, n := range g.byNamespace() {
		out.Namespaces = append(out.Namespaces, htmlNamespace{Name: namespaceText(n.name), Objects: n.objects})
	}
	for i := range g.examples {
		out.Examples = append(out.Examples, g.examples[i].subject())
	}
	return out
}
