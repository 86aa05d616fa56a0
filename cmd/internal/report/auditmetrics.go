package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// auditMetrics writes the counts in the text format of Prometheus, as a textfile collector reads it.
type auditMetrics struct {
	w     io.Writer
	audit *Audit
	now   time.Time
}

func (m *auditMetrics) Write(*Audited, []AuditFinding) error { return nil }

func (m *auditMetrics) Close() error {
	if _, err := m.w.Write(m.audit.Metrics(m.now)); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// Metrics returns the counts of an audit that began at a time, in the text format of Prometheus. It writes that format
// itself: the client library brings along a web server, which programs that never listen would link too.
func (a *Audit) Metrics(now time.Time) []byte {
	var all gauges
	set := func(name, help string, value int) { all.add(name, help).add(value) }
	t := a.totals
	set("timestamp_seconds", "Start time of the audit.", int(now.Unix()))
	set("asked_objects", "Objects that policies match.", t.Objects)
	set("failed_objects", "Objects that could not be evaluated.", t.Failed)
	set("unread", "Parts of the cluster that could not be read.", len(a.Unread))
	set("policies", "Policies in force.", len(a.set.Policies))
	set("unaudited_policies", "Policies that cannot be evaluated for stored objects.", a.CountUnasked())
	set("rejected", "Policies and bindings that the server would not store.", len(a.rejected))
	objects := all.add("objects", "Objects by the verdict of policies or the server; an object may have several.",
		"verdict")
	for verdict, n := range map[string]int{
		string(AuditRefused): t.Refused, string(AuditDenied): t.Denied, "stuck": t.Stuck, string(AuditWarned): t.Warned,
		string(AuditAudited): t.Audited, string(AuditChanged): t.Changed, "unstable": t.Unstable,
		string(AuditIgnored): t.Ignored,
	} {
		objects.add(n, verdict)
	}
	findings := all.add("findings", "Objects with a finding, by policy, binding, what is found, what a controller would "+
		"create of the object, and namespace.", "binding", "creates", "namespace", "policy", "verdict")
	stuck := all.add("stuck_findings", "Objects that nobody may update, by policy and binding.", "binding", "policy")
	for _, g := range a.groups {
		for namespace, n := range g.namespaces {
			findings.add(n, g.binding, g.made, namespace, g.policy, string(g.verdict))
		}
		if g.stuck > 0 {
			stuck.add(g.stuck, g.binding, g.policy)
		}
	}
	return all.text()
}

// gauges are metrics with one value for each combination of their labels.
type gauges []*gauge

type gauge struct {
	name, help string
	labels     []string
	values     map[string]int // by the labels as they are written
}

func (all *gauges) add(name, help string, labels ...string) *gauge {
	g := &gauge{"celgate_audit_" + name, help, labels, map[string]int{}}
	*all = append(*all, g)
	return g
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// add adds to the value for labels, which is zero before.
func (g *gauge) add(value int, labels ...string) {
	var pairs []string
	for i, label := range labels {
		pairs = append(pairs, g.labels[i]+`="`+labelEscapes.Replace(label)+`"`)
	}
	key := ""
	if len(pairs) > 0 {
		key = "{" + strings.Join(pairs, ",") + "}"
	}
	g.values[key] += value
}

// text returns the metrics that have values, by name.
func (all gauges) text() []byte {
	var text bytes.Buffer
	slices.SortFunc(all, func(a, b *gauge) int { return strings.Compare(a.name, b.name) })
	for _, g := range all {
		if len(g.values) == 0 {
			continue
		}
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %[1]s gauge\n", g.name, g.help)
		for _, key := range slices.Sorted(maps.Keys(g.values)) {
			text.WriteString(g.name + key + " " + strconv.FormatFloat(float64(g.values[key]), 'g', -1, 64) + "\n")
		}
	}
	return text.Bytes()
}
