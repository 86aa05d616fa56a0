package serve

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// metrics are the metrics of a server. Those of checks have the names and labels of kube-apiserver's own
// (pkg/admission/plugin/policy/{validating,mutating}/metrics v0.37.2), with celgate in place of apiserver.
type metrics struct {
	registry  *prometheus.Registry
	checks    map[policy.Kind]*prometheus.CounterVec
	times     map[policy.Kind]*prometheus.HistogramVec
	answers   *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	loads     *prometheus.CounterVec
	loading   prometheus.Histogram
	compiling prometheus.Histogram
	loaded    prometheus.Gauge
	attempted prometheus.Gauge
	policies  *prometheus.GaugeVec
	leader    prometheus.Gauge
	shadow    *prometheus.CounterVec
	mutations map[policy.Kind]*prometheus.CounterVec
	rules     *ruleMetrics // nil: not requested

	definitions, bindings *prometheus.GaugeVec

	set         func() *policy.Set // in force
	known, gone map[named]bool     // owners of series, and those removed last

	costs              *prometheus.HistogramVec
	slowest, costliest peak

	answered          *memo[answerLabels, prometheus.Counter]
	durations, costOf *memo[webhook.Phase, prometheus.Observer]
	checked           *memo[check, checkSeries]
	mutated           *memo[mutationResult, prometheus.Counter]
}

func newMetrics(l *loader) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), checks: map[policy.Kind]*prometheus.CounterVec{},
		times: map[policy.Kind]*prometheus.HistogramVec{}, mutations: map[policy.Kind]*prometheus.CounterVec{},
		set:       l.currentSet,
		slowest:   peak{of: func(t *celgate.Timing) int64 { return int64(t.Elapsed) }},
		costliest: peak{of: func(t *celgate.Timing) int64 { return t.Cost }},
	}
	m.memorize()
	m.addChecks()
	m.answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "celgate", Subsystem: "webhook", Name: "requests_total",
		Help: "Answered requests, by phase, HTTP status and whether the admission request was allowed.",
	}, []string{"phase", "code", "allowed"})
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "celgate", Subsystem: "webhook", Name: "request_duration_seconds",
		Help:    "Time from the first byte of a request to its answer, by phase.",
		Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5, 10},
	}, []string{"phase"})
	m.costs = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "celgate", Subsystem: "webhook", Name: "request_cost_units",
		Help:    "CEL cost units of all policies for one request, by phase; --limits cost-per-request bounds it.",
		Buckets: []float64{100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000},
	}, []string{"phase"})
	m.addLoads()
	m.leader = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "leader", Help: "1 for the replica that writes to the cluster.",
	})
	m.shadow = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "celgate", Subsystem: "shadow", Name: "disagreements_total",
		Help: "With --shadow: effects that policies would have had beyond the API server's own, by policy and effect: change, deny or fail.",
	}, []string{"policy", "would"})
	if l.RuleMetrics {
		m.rules = newRuleMetrics(m.registry)
	}
	m.registry.MustRegister(m.definitions, m.bindings, m.shadow, m.answers, m.duration, m.costs,
		m.loads, m.loading, m.compiling, m.loaded, m.policies,
		m.leader, readyGauge(l), failingGauge(l), trouble{l, m}, m.attempted,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// addChecks adds the metrics of policies.
func (m *metrics) addChecks() {
	for kind, subsystem := range map[policy.Kind]string{
		policy.Validating: "validating_admission_policy", policy.Mutating: "mutating_admission_policy",
		policy.Admission: "admission_policy",
	} {
		labels := []string{"policy", "policy_binding", "error_type"}
		if kind != policy.Mutating {
			labels = append(labels, "enforcement_action")
		}
		if kind == policy.Admission {
			labels = append(labels, "phase")
		}
		m.checks[kind] = prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "celgate", Subsystem: subsystem, Name: "check_total",
			Help: "Evaluations of policies, by policy and binding.",
		}, labels)
		m.times[kind] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "celgate", Subsystem: subsystem, Name: "check_duration_seconds",
			Help:    "Time of a policy with a binding in one request, for all its params.",
			Buckets: []float64{0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1, 1},
		}, labels)
		m.mutations[kind] = prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "celgate", Subsystem: subsystem, Name: "mutations_total",
			Help: "Mutations in requests, by policy, binding, mutation (its name, or its index) and result: changed, would_change, evaluated (without effect), skipped (by its condition), denied or error.",
		}, []string{"policy", "policy_binding", "mutation", "result"})
		m.registry.MustRegister(m.checks[kind], m.times[kind])
		if kind != policy.Validating {
			m.registry.MustRegister(m.mutations[kind])
		}
	}
}

// addLoads adds the metrics of loading policies.
func (m *metrics) addLoads() {
	m.loads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "celgate", Name: "policy_loads_total",
		Help: "Attempts to put a set of policies in force, by result: success or failure.",
	}, []string{"result"})
	m.loading = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "celgate", Name: "policy_load_duration_seconds",
		Help:    "Time to put a set of policies in force, including the wait for params that are new to it.",
		Buckets: []float64{0.001, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10},
	})
	m.compiling = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "celgate", Name: "policy_compile_duration_seconds", Help: "Time to compile a set of policies.",
		Buckets: []float64{0.001, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10},
	})
	m.loaded = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "policy_load_timestamp_seconds",
		Help: "Time at which the policies in force were put in force.",
	})
	m.attempted = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "policy_load_attempt_timestamp_seconds",
		Help: "Time at which policies were last loaded, successfully or not.",
	})
	m.policies = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "policies",
		Help: "Policies and bindings, by state: inforce, rejected, or withheld (the author's right to read the params is not known).",
	}, []string{"state"})
	m.definitions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "policy_definitions",
		Help: "Policies, by kind and state: active, rejected, or unbound (without a binding, so without effect).",
	}, []string{"kind", "state"})
	m.bindings = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "policy_bindings",
		Help: "Bindings, by kind, state (active or rejected) and action: deny, warn, audit, or apply of mutations. One with two actions counts in both.",
	}, []string{"kind", "state", "action"})
}

func readyGauge(l *loader) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "ready", Help: "1 when the server is ready: it knows its policies and the cluster.",
	}, func() float64 {
		if l.checkReady() != nil {
			return 0
		}
		return 1
	})
}

func failingGauge(l *loader) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "celgate", Name: "directory_failing",
		Help: "1 when --policy-dir has errors, so that the last good set is in force.",
	}, func() float64 {
		if l.directoryError() != nil {
			return 1
		}
		return 0
	})
}

// trouble are metrics of present and recent slow work.
type trouble struct {
	l *loader
	m *metrics
}

var (
	inFlightRequests = prometheus.NewDesc("celgate_webhook_requests_in_flight", "Requests in progress.",
		nil, nil)
	longestRequest = prometheus.NewDesc("celgate_webhook_longest_request_seconds",
		"Age of the oldest request in flight.", nil, nil)
	inFlightBytes = prometheus.NewDesc("celgate_webhook_bytes_in_flight",
		"Bytes of bodies that count against the bound, those of abandoned evaluations too.", nil, nil)
	slowestPolicy = prometheus.NewDesc("celgate_policy_slowest_seconds",
		"The longest time of a policy with a binding and a param in one request, of the last five to ten minutes.",
		[]string{"kind", "policy"}, nil)
	costliestPolicy = prometheus.NewDesc("celgate_policy_costliest_units",
		"The highest cost, in CEL units, of a policy with a binding and a param in one request, of the last five to ten minutes.",
		[]string{"kind", "policy"}, nil)
)

// Describe implements prometheus.Collector.
func (t trouble) Describe(all chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{inFlightRequests, longestRequest, inFlightBytes, slowestPolicy,
		costliestPolicy} {
		all <- desc
	}
}

// Collect implements prometheus.Collector.
func (t trouble) Collect(all chan<- prometheus.Metric) {
	n, longest := t.l.running.summarize()
	all <- prometheus.MustNewConstMetric(inFlightRequests, prometheus.GaugeValue, float64(n))
	all <- prometheus.MustNewConstMetric(longestRequest, prometheus.GaugeValue, longest.Seconds())
	all <- prometheus.MustNewConstMetric(inFlightBytes, prometheus.GaugeValue, float64(t.l.inFlight.Bytes()))
	if top := t.m.slowest.get(); top.Elapsed > 0 {
		all <- prometheus.MustNewConstMetric(slowestPolicy, prometheus.GaugeValue, top.Elapsed.Seconds(),
			string(top.Kind), top.Policy)
	}
	if top := t.m.costliest.get(); top.Cost > 0 {
		all <- prometheus.MustNewConstMetric(costliestPolicy, prometheus.GaugeValue, float64(top.Cost),
			string(top.Kind), top.Policy)
	}
}

// watch exposes the use of evaluations.
func (m *metrics) watch(evaluations *webhook.Evaluations, memory func() int64) {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "celgate", Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	counter := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "celgate", Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	m.registry.MustRegister(
		gauge("evaluations_running", "Evaluations of requests at the moment, abandoned ones included.",
			func() int64 { return evaluations.Counts().Running }),
		gauge("evaluations_waiting", "Evaluations that wait for the API server at the moment and have given their place to others.",
			func() int64 { return evaluations.Counts().Away }),
		gauge("evaluations_abandoned", "Evaluations that go on at the moment though their request was answered at its deadline.",
			func() int64 { return evaluations.Counts().Abandoned },
		),
		counter("evaluations_abandoned_total",
			"Requests that were answered at their deadline, before their evaluation had ended.",
			func() int64 { return evaluations.Counts().AbandonedTotal },
		),
		counter("evaluations_refused_total", "Requests that were refused because too many evaluations went on.",
			func() int64 { return evaluations.Counts().RefusedTotal }),
		gauge("evaluation_memory_bytes", "Memory that evaluations share, as much of it as is in use.", memory),
	)
}

// watches are metrics of the watches of a cluster.
type watches struct{ world *kube.World }

var (
	watchFailing = prometheus.NewDesc("celgate_watches_failing",
		"Watches that fail at the moment, those of params included.", nil, nil)
	watchObjects = prometheus.NewDesc("celgate_watch_objects", "Objects in the watch of a resource.",
		[]string{"resource"}, nil)
	watchHeard = prometheus.NewDesc(
		"celgate_watch_heard_timestamp_seconds",
		"When the watch of a resource last received something; the API server sends about once a minute, even if nothing changes.", []string{"resource"}, nil)
)

// Describe implements prometheus.Collector.
func (w watches) Describe(all chan<- *prometheus.Desc) {
	all <- watchFailing
	all <- watchObjects
	all <- watchHeard
}

// Collect implements prometheus.Collector.
func (w watches) Collect(all chan<- prometheus.Metric) {
	failing := 0
	for _, each := range w.world.Watches() {
		if each.Err != nil {
			failing++
		}
		all <- prometheus.MustNewConstMetric(watchObjects, prometheus.GaugeValue, float64(each.Objects), each.Resource)
		if !each.Heard.IsZero() {
			all <- prometheus.MustNewConstMetric(watchHeard, prometheus.GaugeValue,
				float64(each.Heard.UnixMilli())/1000, each.Resource)
		}
	}
	all <- prometheus.MustNewConstMetric(watchFailing, prometheus.GaugeValue, float64(failing))
}

// compare counts the comparisons with another webhook's answers.
func (m *metrics) compare(b *webhook.Beside) {
	compared := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "celgate", Subsystem: "shadow", Name: "webhook_comparisons_total",
		Help: "With --shadow-webhook: comparisons with the answers of another webhook, by phase and result.",
	}, []string{"phase", "result"})
	for phase := range b.URLs { // so that a phase without reviews shows as 0
		for _, result := range webhook.Agreements() {
			compared.WithLabelValues(string(phase), string(result))
		}
	}
	m.registry.MustRegister(compared)
	b.Observe = func(c webhook.Contrast) { compared.WithLabelValues(string(c.Phase), string(c.Result)).Inc() }
}

func (m *metrics) load(took time.Duration, err error) {
	m.loading.Observe(took.Seconds())
	m.attempted.SetToCurrentTime()
	if err != nil {
		m.loads.WithLabelValues("failure").Inc()
		return
	}
	m.loads.WithLabelValues("success").Inc()
	m.loaded.SetToCurrentTime()
}

// observe counts an answer.
func (m *metrics) observe(o webhook.Observation) {
	allowed := ""
	if o.Decision != nil {
		allowed = strconv.FormatBool(o.Decision.Allowed)
	}
	m.answered.get(answerLabels{o.Phase, o.Code, allowed}).Inc()
	m.durations.get(o.Phase).Observe(o.Elapsed.Seconds())
	for _, d := range o.Disagreements() {
		m.shadow.WithLabelValues(d.Policy, d.Would).Inc()
	}
	if o.Decision != nil {
		m.slowest.add(o.Decision.Timings())
		m.costliest.add(o.Decision.Timings())
		m.costOf.get(o.Phase).Observe(float64(o.Decision.Cost))
		for _, c := range checks(o.Decision) {
			of := m.checked.get(c)
			of.total.Inc()
			if took, ok := timeOf(c, o.Decision.Timings()); ok {
				of.times().Observe(took.Seconds())
			}
		}
		for r := range mutationResults(o.Decision, m.set()) {
			m.mutated.get(r).Inc()
		}
		if m.rules != nil {
			m.rules.observe(o.Decision, m.set())
		}
	}
}

// answerLabels are the labels of an answer.
type answerLabels struct {
	phase   webhook.Phase
	code    int
	allowed string
}

// A checkSeries is the metrics of a check.
type checkSeries struct {
	total prometheus.Counter
	times func() prometheus.Observer // made when the first time is known
}

// memorize makes the metrics of requests be found without their labels.
func (m *metrics) memorize() {
	m.answered = newMemo(func(a answerLabels) prometheus.Counter {
		return m.answers.WithLabelValues(string(a.phase), strconv.Itoa(a.code), a.allowed)
	})
	m.durations = newMemo(func(phase webhook.Phase) prometheus.Observer {
		return m.duration.WithLabelValues(string(phase))
	})
	m.costOf = newMemo(func(phase webhook.Phase) prometheus.Observer {
		return m.costs.WithLabelValues(string(phase))
	})
	m.checked = newMemo(func(c check) checkSeries {
		labels := []string{c.policy, c.binding, c.errorType}
		if c.kind != policy.Mutating {
			labels = append(labels, c.action)
		}
		if c.kind == policy.Admission {
			labels = append(labels, string(c.phase))
		}
		return checkSeries{m.checks[c.kind].WithLabelValues(labels...), sync.OnceValue(func() prometheus.Observer {
			return m.times[c.kind].WithLabelValues(labels...)
		})}
	})
	m.mutated = newMemo(func(r mutationResult) prometheus.Counter {
		return m.mutations[r.kind].WithLabelValues(r.policy, r.binding, r.mutation, r.result)
	})
}

// A check is one policy with one binding in one request.
type check struct {
	kind                               policy.Kind
	phase                              policy.Phase // of an AdmissionPolicy
	policy, binding, errorType, action string
}

const noError = "no_error"

// isOf reports whether a check is of a policy with a binding.
func (c *check) isOf(kind policy.Kind, name, binding string) bool {
	return c.policy == name && c.binding == binding && c.kind == kind
}

// timeOf sums the times of all params and passes.
func timeOf(c check, all []celgate.Timing) (took time.Duration, known bool) {
	for i := range all {
		if t := &all[i]; c.isOf(t.Kind, t.Policy, t.Binding) {
			took, known = took+t.Elapsed, true
		}
	}
	return took, known
}

// checks returns the distinct checks of a decision: with the enforcement of their violations, or allow without any.
// They are so few that a map would not be faster.
func checks(d *celgate.Decision) []check {
	all := make([]check, 0, len(d.Timings())+len(d.Violations))
	for i := range d.Violations {
		v := &d.Violations[i]
		c := check{kind: v.Kind, policy: v.Policy, binding: v.Binding, phase: phaseOf(v.Kind, v.Phase)}
		// As on the server, a failed validation is an error, too; its message is the author's.
		if c.errorType = invalidError; v.IsError {
			c.errorType = errorType(v.Err)
		}
		for _, action := range v.Actions {
			if c.action = strings.ToLower(string(action)); !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	denied := len(all) // the following ones pass, with the last error that failurePolicy Ignore ignored
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		known := slices.IndexFunc(all, func(c check) bool { return c.isOf(o.Kind, o.Policy, o.Binding) })
		switch failed := errorType(o.Err); {
		case known < 0 && slices.ContainsFunc(d.Violations, func(v celgate.Violation) bool { // without actions
			return v.Policy == o.Policy && v.Binding == o.Binding && v.Kind == o.Kind
		}):
		case known < 0:
			all = append(all, check{o.Kind, phaseOf(o.Kind, o.Phase), o.Policy, o.Binding, failed, "allow"})
		case known >= denied && failed != noError:
			all[known].errorType = failed
		}
	}
	return all
}

// phaseOf returns the phase as the label of a check: only an AdmissionPolicy has more than one.
func phaseOf(kind policy.Kind, phase policy.Phase) policy.Phase {
	if kind == policy.Admission {
		return phase
	}
	return ""
}

const (
	invalidError = "invalid_error"
	compileError = "compile_error"
	outOfBudget  = "out_of_budget"
)

// errorType returns the server's label for an error. Only a budget that several expressions share counts as exceeded;
// one expression beyond its own limit counts as any other error.
func errorType(err error) string {
	if err == nil {
		return noError
	}
	var one *celgate.ExpressionError
	switch {
	case errors.Is(err, celgate.ErrCompile):
		return compileError
	case errors.Is(err, celgate.ErrBudget) && !errors.As(err, &one):
		return outOfBudget
	}
	return invalidError
}
