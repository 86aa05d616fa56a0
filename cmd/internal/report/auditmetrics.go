package report

import (
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// auditMetrics writes the counts in the text format of Prometheus, as a textfile collector reads it.
type auditMetrics struct {
	w     io.Writer
	audit *Audit
	now   time.Time
}

func (m *auditMetrics) Write(*Audited, []AuditFinding) error { return nil }

func (m *auditMetrics) Close() error {
	families, err := m.audit.Metrics(m.now).Gather()
	if err != nil {
		return err
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(m.w, family); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	return nil
}

// Metrics returns the counts of an audit that began at a time.
func (a *Audit) Metrics(now time.Time) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "celgate", Subsystem: "audit", Name: name,
			Help: help}, labels)
		registry.MustRegister(g)
		return g
	}
	set := func(name, help string, value int) {
		gauge(name, help).WithLabelValues().Set(float64(value))
	}
	t := a.totals
	gauge("timestamp_seconds", "Start time of the audit.").WithLabelValues().Set(float64(now.Unix()))
	set("asked_objects", "Objects that policies match.", t.Objects)
	set("failed_objects", "Objects that could not be evaluated.", t.Failed)
	set("unread", "Parts of the cluster that could not be read.", len(a.Unread))
	set("policies", "Policies in force.", len(a.set.Policies))
	set("unaudited_policies", "Policies that cannot be evaluated for stored objects.", a.CountUnasked())
	set("rejected", "Policies and bindings that the server would not store.", len(a.rejected))
	objects := gauge("objects", "Objects by the verdict of policies or the server; an object may have several.",
		"verdict")
	for verdict, n := range map[string]int{
		string(AuditRefused): t.Refused, string(AuditDenied): t.Denied, "stuck": t.Stuck, string(AuditWarned): t.Warned,
		string(AuditAudited): t.Audited, string(AuditChanged): t.Changed, "unstable": t.Unstable,
		string(AuditIgnored): t.Ignored,
	} {
		objects.WithLabelValues(verdict).Set(float64(n))
	}
	findings := gauge("findings", "Objects with a finding, by policy, binding, what is found, what a controller would "+
		"create of the object, and namespace.", "verdict", "policy", "binding", "creates", "namespace")
	stuck := gauge("stuck_findings", "Objects that nobody may update, by policy and binding.", "policy", "binding")
	for _, g := range a.groups {
		for namespace, n := range g.namespaces {
			findings.WithLabelValues(string(g.verdict), g.policy, g.binding, g.made, namespace).Add(float64(n))
		}
		if g.stuck > 0 {
			stuck.WithLabelValues(g.policy, g.binding).Add(float64(g.stuck))
		}
	}
	return registry
}
