package registry

import (
	"errors"
	"fmt"
	"slices"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

func (j *judge) disruptionBudget(object, _ *place) {
	spec := object.member("spec")
	least, most, selector, policy := spec.member("minAvailable"), spec.member("maxUnavailable"),
		spec.member("selector"),
		spec.member("unhealthyPodEvictionPolicy")
	if least.has() && most.has() {
		j.invalid(&spec, shownBudget{MinAvailable: least.value, Selector: selector.selector(),
			MaxUnavailable:             most.value,
			UnhealthyPodEvictionPolicy: policy.value}, "minAvailable and maxUnavailable cannot be both set")
	}
	for _, p := range []*place{&least, &most} {
		if p.has() {
			j.positiveIntOrPercent(p)
			j.notAbove100Percent(p)
		}
	}
	j.forgive("selector of a budget", func() { j.labelSelector(&selector) })
	if policy.has() && policy.text() != "AlwaysAllow" && policy.text() != "IfHealthyBudget" {
		j.addUnknown(&policy, policy.text(), "AlwaysAllow", "IfHealthyBudget")
	}
}

// A shownBudget is the spec of a PodDisruptionBudget in the form in which the server prints it.
type shownBudget struct {
	MinAvailable               any
	Selector                   any
	MaxUnavailable             any
	UnhealthyPodEvictionPolicy any
}

// autoscaler judges a HorizontalPodAutoscaler of autoscaling/v2.
func (j *judge) autoscaler(object, old *place) {
	version := object.member("apiVersion")
	spec := object.member("spec")
	least, most, target := spec.member("minReplicas"), spec.member("maxReplicas"), spec.member("scaleTargetRef")
	lowest := int64(1)
	if !j.lacks("HPAScaleToZero") {
		lowest = 0
	}
	j.declare(func() {
		if least.has() && least.number() < lowest {
			j.invalid(&least, least.number(), fmt.Sprintf("must be greater than or equal to %d", lowest))
		}
		switch n := most.number(); {
		case n == 0:
			j.require(&most, "")
		case n < 0:
			j.invalid(&most, n, "must be greater than or equal to 1")
		}
	})
	if least.has() && most.number() < least.number() {
		j.invalid(&most, most.number(), "must be greater than or equal to `minReplicas`")
	}
	kind := target.member("kind")
	unchanged := false
	if old != nil {
		before := old.member("spec")
		oldTarget := before.member("scaleTargetRef")
		unchanged = target.member("apiVersion").value == oldTarget.member("apiVersion").value &&
			kind.value == oldTarget.member("kind").value
	}
	j.scaleTarget(&target, true)
	if version := target.member("apiVersion"); !unchanged {
		j.groupVersion(&version, kind.text() == "ReplicationController")
	}
	if version.text() != "autoscaling/v2" {
		return // v1 has the rest in annotations
	}
	metrics, behavior := spec.member("metrics"), spec.member("behavior")
	scalable := false
	for i := range metrics.size() {
		at := metrics.item(i)
		kind := at.member("type")
		j.metric(&at)
		scalable = scalable || kind.text() == "Object" || kind.text() == "External"
	}
	if least.has() && least.number() == 0 && !scalable {
		j.forbidden(&metrics, "must specify at least one Object or External metric to support scaling to zero replicas")
	}
	for _, member := range []string{"scaleUp", "scaleDown"} {
		if rules := behavior.member(member); rules.has() {
			j.scalingRules(&rules)
		}
	}
}

// scaleTarget judges a reference to a scaled or described object; declared: a generated rule requires its members.
func (j *judge) scaleTarget(p *place, declared bool) {
	for _, member := range []string{"kind", "name"} {
		switch at := p.member(member); {
		case at.text() != "":
			j.pathSegment(&at)
		case declared:
			j.declare(func() { j.require(&at, "") })
		default:
			j.require(&at, "")
		}
	}
}

// groupVersion judges an apiVersion, which may need a group.
func (j *judge) groupVersion(p *place, withoutGroup bool) {
	gv, err := apischema.ParseGroupVersion(p.text())
	if err == nil && !withoutGroup && gv.Group == "" {
		err = errors.New("apiVersion must specify API group")
	}
	if err != nil {
		j.invalid(p, p.text(), err.Error())
	}
}

func (j *judge) scalingRules(p *place) {
	window, choice, policies, tolerance := p.member("stabilizationWindowSeconds"), p.member("selectPolicy"),
		p.member("policies"),
		p.member("tolerance")
	switch n := window.number(); {
	case n < 0:
		j.invalid(&window, n, "must be greater than or equal to zero")
	case n > 3600:
		j.invalid(&window, n, "must be less than or equal to 3600")
	}
	if known := []string{"Disabled", "Max", "Min"}; choice.has() && !slices.Contains(known, choice.text()) {
		j.addUnknown(&choice, choice.text(), known...)
	}
	if policies.size() == 0 {
		j.require(&policies, "must specify at least one Policy")
	}
	for i := range policies.size() {
		at := policies.item(i)
		kind, value, period := at.member("type"), at.member("value"), at.member("periodSeconds")
		if text := kind.text(); text != "Pods" && text != "Percent" {
			j.addUnknown(&kind, text, "Percent", "Pods")
		}
		if value.number() <= 0 {
			j.invalid(&value, value.number(), "must be greater than zero")
		}
		switch n := period.number(); {
		case n <= 0:
			j.invalid(&period, n, "must be greater than zero")
		case n > 1800:
			j.invalid(&period, n, "must be less than or equal to 1800")
		}
	}
	if q := tolerance.quantity(); q.Sign() < 0 {
		j.invalid(&tolerance, q.String(), "must be greater than or equal to 0")
	}
}

// metricSources are the members of a metric by its type, in the order in which the server checks them.
var metricSources = []struct{ kind, member string }{
	{"Object", "object"}, {"External", "external"}, {"Pods", "pods"}, {"Resource", "resource"},
	{"ContainerResource", "containerResource"},
}

func (j *judge) metric(p *place) {
	kind := p.member("type")
	known := []string{"ContainerResource", "External", "Object", "Pods", "Resource"}
	isKnown := slices.Contains(known, kind.text())
	if kind.text() == "" {
		j.require(&kind, "must specify a metric source type")
	}
	if !isKnown {
		j.addUnknown(&kind, kind.text(), known...)
	}
	var given []string
	expected := ""
	for _, source := range metricSources {
		if source.kind == kind.text() {
			expected = source.member
		}
		at := p.member(source.member)
		if !at.has() {
			continue
		}
		if given = append(given, source.member); len(given) == 1 {
			j.metricSource(&at, source.kind)
		}
	}
	if at := p.member(expected); expected != "" && !at.has() {
		j.require(&at, "must populate information for the given metric source")
	}
	if !isKnown {
		j.addUnknown(&kind, kind.text(), known...)
	}
	for _, member := range given {
		if at := p.member(member); len(given) != 1 && member != expected {
			j.forbidden(&at, "must populate the given metric source only")
		}
	}
}

func (j *judge) metricSource(p *place, kind string) {
	target := p.member("target")
	value, average, utilization := target.member("value"), target.member("averageValue"),
		target.member("averageUtilization")
	if kind == "Resource" || kind == "ContainerResource" {
		name, container := p.member("name"), p.member("container")
		switch {
		case name.text() == "":
			j.require(&name, "must specify a resource name")
		case kind == "ContainerResource":
			at := name
			at.name = name.text()
			before := len(j.found)
			j.containerResourceName(&at)
			for i := before; i < len(j.found); i++ {
				j.found[i].err.Field = name.path().String()
			}
		}
		if kind == "ContainerResource" {
			if container.text() == "" {
				j.require(&container, "must specify a container")
			} else {
				j.dnsLabel(&container)
			}
		}
		j.metricTarget(&target)
		if !utilization.has() && !average.has() {
			j.require(&utilization, "must set either a target raw value or a target utilization")
		}
		if utilization.has() && average.has() {
			j.forbidden(&average, "may not set both a target raw value and a target utilization")
		}
		return
	}
	if kind == "Object" {
		described := p.member("describedObject")
		j.scaleTarget(&described, false)
		version := described.member("apiVersion")
		j.forgive("version of a described object", func() { j.groupVersion(&version, true) })
	}
	metric := p.member("metric")
	if name := metric.member("name"); name.text() == "" {
		j.require(&name, "must specify a metric name")
	} else {
		j.pathSegment(&name)
	}
	j.metricTarget(&target)
	switch kind {
	case "Object":
		if !value.has() && !average.has() {
			j.require(&average, "must set either a target value or averageValue")
		}
	case "External":
		if !value.has() && !average.has() {
			j.require(&average, "must set either a target value for metric or a per-pod target")
		}
		if value.has() && average.has() {
			j.forbidden(&value, "may not set both a target value for metric and a per-pod target")
		}
	case "Pods":
		if !average.has() {
			j.require(&average, "must specify a positive target averageValue")
		}
	}
}

func (j *judge) metricTarget(p *place) {
	kind, utilization := p.member("type"), p.member("averageUtilization")
	if kind.text() == "" {
		j.require(&kind, "must specify a metric target type")
	}
	if known := []string{"Utilization", "Value", "AverageValue"}; !slices.Contains(known, kind.text()) {
		j.invalid(&kind, word(kind.text()), "must be either Utilization, Value, or AverageValue")
	}
	for _, member := range []string{"value", "averageValue"} {
		at := p.member(member)
		if q := at.quantity(); at.has() && q.Sign() != 1 {
			j.invalid(&at, q.String(), "must be positive")
		}
	}
	if utilization.has() && utilization.number() < 1 {
		j.invalid(&utilization, utilization.number(), "must be greater than 0")
	}
}
