package registry

import (
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// contradicts reports whether two objects have different values for a member that both have. A member of only one of
// them is not a contradiction: an update may be an apply, which leaves out members, and a stored object may lack those
// that the server fills in.
func contradicts(now, before any) bool {
	switch now := now.(type) {
	case nil:
		return false
	case map[string]any:
		old, ok := before.(map[string]any)
		if !ok {
			return before != nil
		}
		for member, value := range now {
			if contradicts(value, old[member]) {
				return true
			}
		}
		return false
	case []any:
		old, ok := before.([]any)
		if !ok {
			return before != nil
		}
		for i, item := range now {
			if contradicts(item, counterpart(item, i, now, old)) {
				return true
			}
		}
		return false
	}
	return before != nil && !tree.Equal(now, before)
}

// counterpart returns the corresponding item of another list: the one of its name, or at its index if the lists have
// the same length; nil if there is none.
func counterpart(item any, i int, list, others []any) any {
	members, _ := item.(map[string]any)
	if name, ok := members["name"].(string); ok {
		for _, other := range others {
			if of, _ := other.(map[string]any); of["name"] == name {
				return other
			}
		}
		return nil
	}
	if len(list) == len(others) {
		return others[i]
	}
	return nil
}

// keeps requires members not to contradict those of the stored object.
func (j *judge) keeps(now, before *place, members ...string) {
	for _, member := range members {
		a, b := now.member(member), before.member(member)
		if contradicts(a.value, b.value) {
			j.invalid(&a, shownText(a.value), "field is immutable")
		}
	}
}

// shownText returns a value in the form in which the server prints it if it has a Go type of its own.
func shownText(value any) any {
	if text, ok := value.(string); ok {
		return word(text)
	}
	return value
}

// podUpdate judges the changes of a Pod by an update.
func (j *judge) podUpdate(object, old *place) {
	spec, before := object.member("spec"), old.member("spec")
	j.annotationUpdate(object, old)
	for _, member := range []string{"containers", "initContainers"} {
		now, then := spec.member(member), before.member(member)
		if now.size() != then.size() {
			j.forbidden(&now, "pod updates may not add or remove containers")
			return
		}
	}
	deadline, oldDeadline := spec.member("activeDeadlineSeconds"), before.member("activeDeadlineSeconds")
	if deadline.has() && oldDeadline.has() && oldDeadline.number() < deadline.number() {
		j.invalid(&deadline, deadline.number(), "must be less than or equal to previous value")
		return
	}
	gates, oldGates := spec.member("schedulingGates"), before.member("schedulingGates")
	for i := range gates.size() {
		gate := gates.item(i)
		if name := gate.member("name"); !oldGates.hasItem("name", name.text()) {
			j.forbidden(&name, "only deletion is allowed, but found new scheduling gate '"+name.text()+"'")
		}
	}
	free := []string{"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds",
		"serviceAccount", "deprecatedServiceAccount"}
	if oldGates.size() > 0 {
		free = append(free, "nodeSelector", "affinity")
	}
	if contradicts(withoutImages(spec.value, free), withoutImages(before.value, free)) {
		j.forbidden(&spec, "pod updates may not change fields other than `spec.containers[*].image`,"+
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"+
			"`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)")
	}
}

// annotationUpdate requires a Pod to keep annotations that only new Pods may have.
func (j *judge) annotationUpdate(object, old *place) {
	metadata, oldMetadata := object.member("metadata"), old.member("metadata")
	annotations, oldAnnotations := metadata.member("annotations"), oldMetadata.member("annotations")
	for _, key := range annotations.keys() {
		what := "AppArmor annotations"
		switch {
		case key == mirror:
			what = "mirror pod annotation"
		case !strings.HasPrefix(key, apparmorOfContainer):
			continue
		}
		switch now, then := annotations.key(key), oldAnnotations.key(key); {
		case !then.has():
			j.forbidden(&now, "may not add "+what)
		case now.text() != then.text():
			j.forbidden(&now, "may not remove or update "+what)
		}
	}
}

// withoutImages returns the spec of a Pod without the images of its containers and without members.
func withoutImages(value any, members []string) any {
	spec, _ := value.(map[string]any)
	out := tree.Object(spec).Without(members...)
	for _, member := range []string{"containers", "initContainers"} {
		list, ok := out[member].([]any)
		if !ok {
			continue
		}
		bare := make([]any, len(list))
		for i, c := range list {
			container, _ := c.(map[string]any)
			bare[i] = tree.Object(container).Without("image")
		}
		out[member] = bare
	}
	return out
}

// claimUpdate judges the changes of a PersistentVolumeClaim by an update.
func (j *judge) claimUpdate(object, old *place) {
	spec, before, status := object.member("spec"), old.member("spec"), old.member("status")
	phase, capacity := status.member("phase"), status.member("capacity")
	resources, oldResources := spec.member("resources"), before.member("resources")
	requests, oldRequests := resources.member("requests"), oldResources.member("requests")
	size, oldSize, real := requests.member("storage"), oldRequests.member("storage"), capacity.member("storage")
	free := []string{"resources"}
	if phase.text() == "Bound" {
		free = append(free, "volumeAttributesClassName")
	}
	was := before.value
	if class := before.member("storageClassName"); !class.has() {
		free = append(free, "storageClassName")
	}
	now, _ := spec.value.(map[string]any)
	then, _ := was.(map[string]any)
	changed := contradicts(tree.Object(now).Without(free...), tree.Object(then).Without(free...)) ||
		phase.text() != "Bound" && contradicts(requests.value, oldRequests.value)
	if changed {
		j.forbidden(&spec,
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")
	}
	q, oldQ, realQ := size.quantity(), oldSize.quantity(), real.quantity()
	if q.Cmp(oldQ) < 0 && q.Cmp(realQ) <= 0 {
		root := spec.member("resources")
		all := root.member("requests")
		at := all.member("storage")
		j.forbidden(&at, "field can not be less than status.capacity")
	}
	mode, oldMode := spec.member("volumeMode"), before.member("volumeMode")
	if contradicts(mode.value, oldMode.value) {
		root := place{}
		at := place{above: &root, name: "volumeMode"}
		j.invalid(&at, shownText(mode.value), "field is immutable")
	}
}

// jobUpdate judges the changes of a Job by an update; the template of a suspended Job may change.
func (j *judge) jobUpdate(spec, before *place) {
	completions, oldCompletions := spec.member("completions"), before.member("completions")
	mode, parallelism := spec.member("completionMode"), spec.member("parallelism")
	elastic := mode.text() == "Indexed" && completions.number() == parallelism.number()
	if contradicts(completions.value, oldCompletions.value) && !elastic {
		j.invalid(&completions, completions.value, "field is immutable")
	}
	j.sameSelector(&place{above: spec, name: "selector", value: spec.member("selector").value}, before)
	if suspended := before.member("suspend"); !suspended.isTrue() {
		j.keeps(spec, before, "template")
	}
	j.keeps(spec, before, "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
}

// addressUpdate requires a Service to keep its addresses.
func (j *judge) addressUpdate(spec, before *place) {
	kind, oldKind, ips, oldIPs := spec.member("type"), before.member("type"), spec.member("clusterIPs"),
		before.member("clusterIPs")
	if kind.text() == "ExternalName" || oldKind.text() == "ExternalName" {
		return
	}
	now, then := ips.texts(), oldIPs.texts()
	for i := range min(len(now), len(then)) {
		if now[i] != then[i] {
			at := ips.item(i)
			j.invalid(&at, ips.value, "may not change once set")
			if len(now) != len(then) {
				return
			}
		}
	}
}
