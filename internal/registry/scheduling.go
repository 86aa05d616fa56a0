package registry

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// affinity judges the affinity of a Pod.
func (j *judge) affinity(p *place) {
	if node := p.member("nodeAffinity"); node.has() {
		required, preferred := node.member("requiredDuringSchedulingIgnoredDuringExecution"),
			node.member("preferredDuringSchedulingIgnoredDuringExecution")
		if required.has() {
			terms := required.member("nodeSelectorTerms")
			if terms.size() == 0 {
				j.require(&terms, "must have at least one node selector term")
			}
			for i := range terms.size() {
				at := terms.item(i)
				j.nodeTerm(&at, true)
			}
		}
		for i := range preferred.size() {
			at := preferred.item(i)
			weight, term := at.member("weight"), at.member("preference")
			j.weight(&weight)
			j.nodeTerm(&term, false)
		}
	}
	for _, name := range []string{"podAffinity", "podAntiAffinity"} {
		pods := p.member(name)
		if !pods.has() {
			continue
		}
		required, preferred := pods.member("requiredDuringSchedulingIgnoredDuringExecution"),
			pods.member("preferredDuringSchedulingIgnoredDuringExecution")
		for i := range required.size() {
			at := required.item(i)
			j.podTerm(&at)
		}
		for i := range preferred.size() {
			at := preferred.item(i)
			weight, term := at.member("weight"), at.member("podAffinityTerm")
			j.weight(&weight)
			j.podTerm(&term)
		}
	}
}

func (j *judge) weight(p *place) {
	if n := p.number(); n <= 0 || n > 100 {
		j.invalid(p, n, "must be in the range 1-100")
	}
}

func (j *judge) nodeTerm(p *place, required bool) {
	expressions, fields := p.member("matchExpressions"), p.member("matchFields")
	for i := range expressions.size() {
		at := expressions.item(i)
		key, operator, values := at.member("key"), at.member("operator"), at.member("values")
		switch operator.text() {
		case "In", "NotIn":
			if values.size() == 0 {
				j.require(&values, "must be specified when `operator` is 'In' or 'NotIn'")
			}
		case "Exists", "DoesNotExist":
			if values.size() > 0 {
				j.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
			}
		case "Gt", "Lt":
			if values.size() != 1 {
				j.require(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'")
			}
		default:
			j.invalid(&operator, word(operator.text()), "not a valid selector operator")
		}
		j.labelName(&key)
		if !required {
			continue
		}
		for k := range values.size() {
			if value := values.item(k); value.text() != "" && !isPlainWord(value.text()) {
				j.forgive("value of a node affinity", func() {
					j.eachText(&value, validation.IsValidLabelValue(value.text()))
				})
			}
		}
	}
	for i := range fields.size() {
		at := fields.item(i)
		key, operator, values := at.member("key"), at.member("operator"), at.member("values")
		switch operator.text() {
		case "In", "NotIn":
			if values.size() != 1 {
				j.require(&values, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
			}
		default:
			j.invalid(&operator, word(operator.text()), "not a valid selector operator")
		}
		if key.text() != "metadata.name" {
			j.invalid(&key, key.text(), "not a valid field selector key")
			continue
		}
		for k := range values.size() {
			value := values.item(k)
			j.dnsSubdomain(&value)
		}
	}
}

func (j *judge) podTerm(p *place) {
	for _, name := range []string{"labelSelector", "namespaceSelector"} {
		if selector := p.member(name); selector.has() {
			j.forgive("selector of a Pod affinity", func() { j.labelSelector(&selector) })
		}
	}
	namespaces, shown := p.member("namespaces"), p.member("namespace")
	for i := range namespaces.size() {
		at := namespaces.item(i)
		shown.value = at.value
		j.dnsLabel(&shown)
	}
	match, mismatch, selector := p.member("matchLabelKeys"), p.member("mismatchLabelKeys"), p.member("labelSelector")
	if match.size()+mismatch.size() > 0 {
		j.labelKeys(p, &match, &mismatch, &selector)
	}
	topology := p.member("topologyKey")
	if topology.text() == "" {
		j.require(&topology, "can not be empty")
	}
	j.labelName(&topology)
}

// labelKeys judges the keys whose values a term takes from the Pod.
func (j *judge) labelKeys(p, match, mismatch, selector *place) {
	for _, list := range []*place{match, mismatch} {
		if list.size() == 0 {
			continue
		}
		if !selector.has() {
			j.forbidden(list, "must not be specified when labelSelector is not set")
			continue
		}
		for i := range list.size() {
			at := list.item(i)
			j.labelName(&at)
		}
	}
	if of := selector.selector(); of != nil {
		j.repeatedKeys(p, match.texts(), of)
	}
	for i, key := range match.texts() {
		if slices.Contains(mismatch.texts(), key) {
			at := match.item(i)
			j.invalid(&at, key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}

// repeatedKeys requires keys that a selector names twice not to be among those of a term.
func (j *judge) repeatedKeys(p *place, keys []string, selector *metav1.LabelSelector) {
	seen := map[string]bool{}
	for key := range selector.MatchLabels {
		seen[key] = true
	}
	for _, e := range selector.MatchExpressions {
		if i := slices.Index(keys, e.Key); i >= 0 && seen[e.Key] {
			at := place{above: p, index: i, step: toItem}
			j.invalid(&at, e.Key, "exists in both matchLabelKeys and labelSelector")
		}
		seen[e.Key] = true
	}
}

var taintEffects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

func (j *judge) tolerations(list *place) {
	for i := range list.size() {
		at := list.item(i)
		key, operator, value, effect, seconds := at.member("key"), at.member("operator"), at.member("value"),
			at.member("effect"),
			at.member("tolerationSeconds")
		if key.text() != "" {
			j.labelName(&key)
		} else if operator.text() != "Exists" {
			j.invalid(&operator, word(operator.text()),
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if seconds.has() && effect.text() != "NoExecute" {
			j.invalid(&effect, word(effect.text()), "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		switch operator.text() {
		case "Equal", "":
			if messages := validation.IsValidLabelValue(value.text()); len(messages) > 0 {
				j.invalid(&operator, value.text(), strings.Join(messages, ";"))
			}
		case "Exists":
			if value.text() != "" {
				j.invalid(&operator, value.text(), "value must be empty when `operator` is 'Exists'")
			}
		case "Lt", "Gt":
			j.comparison(&value)
		default:
			j.addUnknown(&operator, operator.text(), "Equal", "Exists")
		}
		j.oneOf(&effect, taintEffects...)
	}
}

func (j *judge) spreadConstraints(list *place) {
	for i := range list.size() {
		at := list.item(i)
		skew, topology, when := at.member("maxSkew"), at.member("topologyKey"), at.member("whenUnsatisfiable")
		if skew.number() <= 0 {
			j.invalid(&skew, skew.number(), "must be greater than zero")
		}
		if topology.text() == "" {
			j.require(&topology, "can not be empty")
		}
		if text := when.text(); text != "DoNotSchedule" && text != "ScheduleAnyway" {
			j.addUnknown(&when, text, "DoNotSchedule", "ScheduleAnyway")
		}
		for k := i + 1; k < list.size(); k++ {
			other := list.item(k)
			otherTopology, otherWhen := other.member("topologyKey"), other.member("whenUnsatisfiable")
			if otherTopology.text() == topology.text() && otherWhen.text() == when.text() {
				shown := at.member("{topologyKey, whenUnsatisfiable}")
				j.duplicate(&shown, fmt.Sprintf("{%v, %v}", topology.text(), when.text()))
				break
			}
		}
		if domains := at.member("minDomains"); domains.has() {
			if domains.number() <= 0 {
				j.invalid(&domains, domains.number(), "must be greater than zero")
			}
			if when.text() != "DoNotSchedule" {
				j.invalid(&domains, domains.number(),
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %s", when.text()))
			}
		}
		for _, name := range []string{"nodeAffinityPolicy", "nodeTaintsPolicy"} {
			if policy := at.member(name); policy.has() && policy.text() != "Honor" && policy.text() != "Ignore" {
				j.addUnknown(&policy, policy.text(), "Honor", "Ignore")
			}
		}
		keys, selector := at.member("matchLabelKeys"), at.member("labelSelector")
		if keys.size() > 0 {
			none := place{}
			j.forgive("label keys of a spread", func() { j.labelKeys(&at, &keys, &none, &selector) })
		}
		if selector.has() {
			j.forgive("selector of a spread", func() { j.labelSelector(&selector) })
		}
	}
}
