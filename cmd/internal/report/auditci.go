package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/policy"
)

// auditCSV writes a line for each finding, for spreadsheets.
type auditCSV struct{ w *csv.Writer }

var auditColumns = []string{
	"verdict", "stuck", "asked", "apiVersion", "kind", "namespace", "name", "creates", "policyKind", "policy",
	"binding", "param", "field", "message", "reason", "source",
}

func newAuditCSV(w io.Writer) (*auditCSV, error) {
	c := &auditCSV{csv.NewWriter(w)}
	return c, c.w.Write(auditColumns)
}

func (c *auditCSV) Write(_ *Audited, findings []AuditFinding) error {
	for _, f := range findings {
		asks := make([]string, len(f.Asked))
		for i, a := range f.Asked {
			asks[i] = string(a)
		}
		cells := []string{
			string(f.Verdict), strconv.FormatBool(f.IsStuck()), strings.Join(asks, " "), f.Object.APIVersion,
			f.Object.Kind, f.Object.Namespace, f.Object.Name,
			f.Made, string(f.PolicyKind), f.Policy, f.Binding, f.Param, f.field(), f.Message, f.Reason,
			f.Source.String(),
		}
		for i, cell := range cells {
			cells[i] = text(cell)
		}
		if err := c.w.Write(cells); err != nil {
			return err
		}
	}
	return nil
}

// text prevents a spreadsheet from reading a cell as a formula.
func text(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}

func (c *auditCSV) Close() error {
	c.w.Flush()
	return c.w.Error()
}

// maxListed is the number of findings that formats list at the end; counts include all of them.
const maxListed = 5000

// A listing keeps the first findings, and the worst verdicts before others.
type listing struct {
	findings []AuditFinding
	counts   [8]int // by the rank of the verdict
	left     int    // findings that are not listed
}

func (l *listing) add(findings []AuditFinding) {
	for i := range findings {
		rank := findings[i].Verdict.rank()
		if len(l.findings) >= maxListed {
			l.left++
			if !slices.ContainsFunc(l.counts[rank+1:], func(n int) bool { return n > 0 }) {
				continue
			}
			less := slices.IndexFunc(l.findings,
				func(f AuditFinding) bool { return f.Verdict.rank() > rank }) // replaces a less severe one
			l.counts[l.findings[less].Verdict.rank()]--
			l.findings = slices.Delete(l.findings, less, less+1)
		}
		l.counts[rank]++
		l.findings = append(l.findings, findings[i].detach())
	}
}

// failures are the first objects that could not be evaluated.
type failures struct {
	failed []failedObject
}

type failedObject struct {
	AuditObject
	Failure
}

func (f *failures) note(of *Audited) {
	if of.Failure != nil && len(f.failed) < maxErrors {
		f.failed = append(f.failed, failedObject{of.Object.detach(),
			Failure{Message: strings.Clone(of.Failure.Message), Hint: of.Failure.Hint}})
	}
}

// finding returns the SARIF form of a finding.
func (f *AuditFinding) finding() finding {
	out := finding{level: check.Note, rule: cmp.Or(f.Policy, "refused"), title: string(f.Verdict),
		place: f.Object.place(), cause: f.Place}
	if f.Source.File != "" {
		out.place = f.Source
	}
	switch f.Verdict {
	case AuditRefused, AuditDenied:
		out.level = check.Error
	case AuditWarned, AuditIgnored:
		out.level = check.Warning
	}
	lines := []string{fmt.Sprintf("%s %s: %s", f.subjectText(), f.Verdict, f.Message)}
	if f.IsStuck() {
		lines = append(lines, "stuck: every update of the object is denied until the violation is fixed")
	}
	lines = append(lines, f.Diff...)
	if f.Policy != "" {
		lines = append(lines, origin(f.Policy, f.Binding, f.Param))
	}
	out.message = strings.Join(lines, "\n")
	return out
}

// place returns the position of an object in a file, or for one of a cluster a name that looks like a path.
func (o AuditObject) place() policy.Position {
	if o.Place.File != "" {
		return o.Place
	}
	return policy.Position{File: strings.ReplaceAll("cluster/"+cmp.Or(o.Namespace, "-")+"/"+o.Kind+"/"+o.Name, ":",
		"%3A")}
}

// subjectText names the subject of a finding.
func (f *AuditFinding) subjectText() string {
	if f.Only != "" {
		g := *f
		g.Only = ""
		return g.subjectText() + ", only in the " + f.Only
	}
	if f.Made != "" {
		return f.Made + " of " + f.Object.String()
	}
	return f.Object.String()
}

// auditSARIF writes the findings for code scanning; policies are the rules.
type auditSARIF struct {
	listing
	failures
	w     io.Writer
	audit *Audit
}

func (s *auditSARIF) Write(of *Audited, findings []AuditFinding) error {
	s.add(findings)
	s.note(of)
	return nil
}

func (s *auditSARIF) Close() error {
	var all []finding
	for _, r := range s.audit.rejected {
		all = append(all, rejectionFindings(r)...)
	}
	used := map[string]bool{}
	for i := range s.findings {
		all = append(all, s.findings[i].finding())
	}
	for _, f := range s.failed {
		all = append(all, finding{level: check.Error, rule: "not-run", title: "not decided", place: f.place(),
			message: f.String() + ": " + f.Message})
	}
	for _, n := range s.audit.notes() {
		all = append(all, finding{level: check.Warning, rule: "not-audited", title: "not audited",
			message: "not audited: " + n})
	}
	if note := s.audit.uncheckedNote(); note != "" {
		all = append(all, finding{level: check.Note, rule: uncheckedRule.ID, title: unchecked, message: "not audited: " + note})
	}
	if s.left > 0 {
		all = append(all, finding{level: check.Warning, rule: "not-audited", title: "not listed",
			message: fmt.Sprintf("%d more findings are not listed here; -o json has all", s.left)})
	}
	for _, f := range all {
		used[f.rule] = true
	}
	var rules []sarifRule
	for _, r := range append(slices.Clone(otherRules),
		sarifRule{ID: "not-audited", Short: sarifText{"not evaluated by the audit"}}) {
		if used[r.ID] {
			rules = append(rules, r)
			delete(used, r.ID)
		}
	}
	for _, p := range s.audit.set.Policies {
		if used[p.Name] {
			rules = append(rules, sarifRule{ID: p.Name, Short: sarifText{"policy " + p.Name}})
			delete(used, p.Name)
		}
	}
	return writeSARIF(s.w, "audit", rules, all)
}

// auditJUnit writes a suite for each policy, with a case for each binding and namespace with findings, or a single case
// for a policy without findings.
type auditJUnit struct {
	w     io.Writer
	audit *Audit
	failures
}

func (j *auditJUnit) Write(of *Audited, _ []AuditFinding) error {
	j.note(of)
	return nil
}

func (j *auditJUnit) Close() error {
	out := junit{Name: "celgate audit"}
	for _, r := range j.audit.rejected {
		c := junitCase{Name: r.Ref.String()}
		for _, f := range rejectionFindings(r) {
			c.Errors = append(c.Errors, f.junit())
		}
		out.add("policies", r.Place, 0, c)
	}
	groups := j.audit.sortedGroups()
	for _, p := range j.audit.sortedPolicies() {
		said := false
		for _, g := range groups {
			if g.policy != p.Name || g.kind != p.Kind {
				continue
			}
			said = true
			for _, n := range g.countNamespaces() {
				out.add(p.Name, p.Position, 0, g.junit(n))
			}
		}
		if said {
			continue
		}
		c := junitCase{Name: "no object is denied or changed"}
		switch {
		case j.audit.isUnasked(p):
			c = junitCase{Name: "not audited",
				Skipped: &junitMessage{Message: "the policy depends on facts that stored objects do not contain", Type: "not-audited"}}
		case slices.Contains(j.audit.idle(), p.Name):
			c = junitCase{Name: "no object matches",
				Skipped: &junitMessage{Message: "the policy did not match any object", Type: "unmatched"}}
		}
		out.add(p.Name, p.Position, 0, c)
	}
	for _, g := range groups {
		if g.policy == "" {
			for _, n := range g.countNamespaces() {
				out.add("the server", policy.Position{}, 0, g.junit(n))
			}
		}
	}
	if note := j.audit.uncheckedNote(); note != "" {
		out.add("the server", policy.Position{}, 0,
			junitCase{Name: "not audited", Skipped: &junitMessage{Message: note, Type: uncheckedRule.ID}})
	}
	for _, f := range j.failed {
		out.add("objects", f.Place, 0, junitCase{Name: f.String(),
			Errors: []junitMessage{{f.Message, "not-run", f.Hint}}})
	}
	for _, u := range j.audit.Unread {
		out.add("the cluster", policy.Position{}, 0,
			junitCase{Name: u.What, Errors: []junitMessage{{u.Message, "unread", ""}}})
	}
	return out.write(j.w)
}

// sortedPolicies returns the policies in force by name.
func (a *Audit) sortedPolicies() []*policy.Policy {
	all := slices.Clone(a.set.Policies)
	slices.SortStableFunc(all, func(p, q *policy.Policy) int { return strings.Compare(p.Name, q.Name) })
	return all
}

// junit returns the case of one namespace. Denials fail.
func (g *auditGroup) junit(n namespaceCount) junitCase {
	where := cmp.Or(n.name, "no namespace")
	if g.made != "" {
		where += ", " + g.made + "s of workloads"
	}
	c := junitCase{Name: strings.Join(strings.Fields(
		fmt.Sprint(g.verdict, " ", g.binding, " ", g.field, " in ", where)), " ")}
	lines := []string{plural(n.objects, "object", "objects") + " " + string(g.verdict) + ": " + g.messages[0]}
	for _, e := range g.examples {
		if e.Object.Namespace == n.name {
			lines = append(lines, e.subject())
		}
	}
	message := strings.Join(lines, "\n")
	if g.verdict == AuditDenied || g.verdict == AuditRefused {
		c.Failures = []junitMessage{{lines[0], cmp.Or(g.policy, "refused"), message}}
	} else {
		c.Output = message
	}
	return c
}
