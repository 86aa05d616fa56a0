package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/celgate/celgate/internal/needs"
)

// A ClusterReportKind is a kind of objects in which a cluster keeps reports.
type ClusterReportKind struct {
	APIVersion       string
	Kind, Plural     string // of the reports in namespaces
	Cluster, Plurals string // of the report about the cluster
	topLevel         bool   // the source and the limit are members of the report, not of each result
}

// Supported kinds.
var (
	OpenReports = ClusterReportKind{"openreports.io/v1alpha1", "Report", "reports", "ClusterReport", "clusterreports",
		true}
	PolicyReports = ClusterReportKind{"wgpolicyk8s.io/v1alpha2", "PolicyReport", "policyreports", "ClusterPolicyReport",
		"clusterpolicyreports", false}
)

// Limits of one report: an object of a cluster has at most 1.5 MiB. The counts in it include all results.
const (
	maxResults       = 500
	maxResultMessage = 1024
)

// ReportName is the default name of reports.
const ReportName = "celgate-audit"

// ReportLabels are the labels of celgate's reports.
var ReportLabels = map[string]string{"app.kubernetes.io/managed-by": "celgate", "app.kubernetes.io/component": "audit"}

// ClusterReports are the reports that a cluster keeps: one for each namespace with findings, and one about the cluster,
// which also lists the policies that were not audited.
type ClusterReports struct {
	audit *Audit
	kind  ClusterReportKind
	name  string // of all reports
	now   time.Time
	in    map[string]*clusterReport // by namespace; "": the cluster
}

type clusterReport struct {
	counts  map[string]int64
	results []any
}

// NewClusterReports returns empty reports of a kind. They have the same name in all namespaces.
func NewClusterReports(a *Audit, kind ClusterReportKind, name string, now time.Time) *ClusterReports {
	return &ClusterReports{audit: a, kind: kind, name: name, now: now, in: map[string]*clusterReport{}}
}

func (c *ClusterReports) reportOf(namespace string) *clusterReport {
	r := c.in[namespace]
	if r == nil {
		r = &clusterReport{counts: map[string]int64{}}
		c.in[strings.Clone(namespace)] = r
	}
	return r
}

// Write adds an object to the report of its namespace.
func (c *ClusterReports) Write(of *Audited, findings []AuditFinding) error {
	namespace := of.Object.Namespace
	if of.Failure != nil {
		c.reportOf(namespace).add("error", map[string]any{"policy": "celgate", "message": of.Failure.Message,
			"resources": []any{of.Object.reference()}}, c)
		return nil
	}
	for i := range findings {
		c.reportOf(namespace).add(findings[i].result(), findings[i].toReport(), c)
	}
	return nil
}

// result returns the word of reports for a verdict.
func (f *AuditFinding) result() string {
	switch f.Verdict {
	case AuditRefused, AuditDenied:
		return "fail"
	case AuditIgnored:
		return "error"
	}
	return "warn"
}

var reportSeverities = map[AuditVerdict]string{AuditRefused: "high", AuditDenied: "high", AuditWarned: "medium",
	AuditAudited: "low", AuditChanged: "info", AuditIgnored: "medium"}

func (f *AuditFinding) toReport() map[string]any {
	asks := make([]string, len(f.Asked))
	for i, a := range f.Asked {
		asks[i] = string(a)
	}
	properties := map[string]any{"asked": strings.Join(asks, ","), "verdict": string(f.Verdict)}
	for name, value := range map[string]string{"binding": f.Binding, "param": f.Param, "creates": f.Made} {
		if value != "" {
			properties[name] = value
		}
	}
	if f.IsStuck() {
		properties["stuck"] = "true"
	}
	if f.Unstable {
		properties["unstable"] = "true"
	}
	category := "Admission"
	if f.Verdict == AuditChanged {
		category = "Drift"
	}
	result := map[string]any{
		"policy": cmp.Or(f.Policy, "kube-apiserver"), "category": category, "severity": reportSeverities[f.Verdict],
		"scored":  f.Verdict == AuditDenied,
		"message": f.Message, "resources": []any{f.Object.reference()}, "properties": properties,
	}
	if f.field() != "" {
		result["rule"] = f.field()
	}
	return result
}

func (o AuditObject) reference() map[string]any {
	r := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name}
	for member, value := range map[string]string{"namespace": o.Namespace, "uid": o.UID,
		"resourceVersion": o.ResourceVersion} {
		if value != "" {
			r[member] = value
		}
	}
	return r
}

// add counts a result, and lists it if there is room.
func (r *clusterReport) add(result string, of map[string]any, c *ClusterReports) {
	r.counts[result]++
	if len(r.results) >= maxResults {
		return
	}
	message, _ := of["message"].(string)
	for len(message) > maxResultMessage || !utf8.ValidString(message) {
		if len(message) > maxResultMessage {
			message = message[:maxResultMessage]
		}
		message = strings.ToValidUTF8(message, "")
	}
	of["message"] = strings.Clone(message)
	of["result"], of["source"] = result, "celgate"
	of["timestamp"] = map[string]any{"seconds": c.now.Unix(), "nanos": int64(0)}
	r.results = append(r.results, deepClone(of))
}

// deepClone copies a tree with its strings, which may be parts of larger ones.
func deepClone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = deepClone(member)
		}
	case []any:
		for i, item := range v {
			v[i] = deepClone(item)
		}
	case string:
		return strings.Clone(v)
	}
	return v
}

// Objects returns the reports, ordered by namespace, the one of the cluster first. Empty reports of namespaces are left
// out.
func (c *ClusterReports) Objects() []map[string]any {
	cluster := c.reportOf("")
	for _, l := range c.audit.limits {
		if l.Whole && !slices.ContainsFunc(cluster.results,
			func(r any) bool { return r.(map[string]any)["policy"] == l.Policy }) {
			cluster.add("skip", map[string]any{"policy": l.Policy, "rule": l.Field,
				"message": "not audited: " + needText(l)}, c)
		}
	}
	for _, u := range c.audit.Unread {
		cluster.add("error", map[string]any{"policy": "celgate", "message": u.What + ": " + u.Message}, c)
	}
	var all []map[string]any
	for _, namespace := range slices.Sorted(maps.Keys(c.in)) {
		r := c.in[namespace]
		if len(r.results) == 0 {
			continue
		}
		metadata := map[string]any{"name": c.name, "labels": labelsTree()}
		object := map[string]any{"apiVersion": c.kind.APIVersion, "kind": c.kind.Cluster, "metadata": metadata,
			"results": r.results}
		if namespace != "" {
			object["kind"] = c.kind.Kind
			metadata["namespace"] = namespace
		}
		summary := map[string]any{"pass": int64(c.audit.passed[namespace])}
		for _, name := range []string{"fail", "warn", "error", "skip"} {
			summary[name] = r.counts[name]
		}
		object["summary"] = summary
		if c.kind.topLevel {
			object["source"] = "celgate"
			object["configuration"] = map[string]any{"limits": map[string]any{"maxResults": int64(maxResults)}}
		}
		all = append(all, object)
	}
	return all
}

func labelsTree() map[string]any {
	labels := map[string]any{}
	for name, value := range ReportLabels {
		labels[name] = value
	}
	return labels
}

func needText(l needs.Limit) string {
	for _, note := range auditNotes {
		if note.need == l.Need && note.whole == l.Whole {
			return note.text
		}
	}
	return string(l.Need)
}

// reportsWriter writes the reports as a list for kubectl.
type reportsWriter struct {
	*ClusterReports
	w io.Writer
}

func (r *reportsWriter) Close() error {
	enc := json.NewEncoder(r.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	items := toNonNil(r.Objects())
	if err := enc.Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}); err != nil {
		return fmt.Errorf("write reports: %w", err)
	}
	return nil
}
