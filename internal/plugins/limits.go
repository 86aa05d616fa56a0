package plugins

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var limitKind = schema.GroupVersionKind{Version: "v1", Kind: "LimitRange"}

// limitRanger is plugin/pkg/admission/limitranger/admission.go.
var limitRanger = &plugin{name: "LimitRanger", on: true, admit: setLimits, validate: checkLimits,
	concerns: either(newPod, requests("", "persistentvolumeclaims", create, update), subresource("", "pods", "resize", update))}

// limitRanges returns the LimitRanges of the namespace; none for an object that is being deleted.
func (c *call) limitRanges() ([]map[string]any, error) {
	if tree.Object(c.Old).Metadata()["deletionTimestamp"] != nil {
		return nil, nil
	}
	return c.list(limitKind, c.Namespace)
}

// setLimits adds default requests and limits to containers.
func setLimits(c *call) error {
	if !newPod(c.Request) {
		return nil
	}
	ranges, err := c.limitRanges()
	for _, each := range ranges {
		requests, limits := map[string]any{}, map[string]any{}
		for _, item := range tree.Object(each).At("spec").List("limits") {
			limit, _ := item.(map[string]any)
			if o := tree.Object(limit); o.Text("type") == "Container" {
				maps.Copy(requests, o.At("defaultRequest"))
				maps.Copy(limits, o.At("default"))
			}
		}
		var said []string
		for _, list := range []struct{ member, what string }{{"containers", "container"}, {"initContainers", "init container"}} {
			containers := c.spec().List(list.member)
			if len(containers) == 0 {
				continue
			}
			next := slices.Clone(containers)
			for i, container := range containers {
				of, _ := container.(map[string]any)
				var texts []string
				next[i], texts = withDefaults(of, requests, limits, list.what)
				said = append(said, texts...)
			}
			c.setSpec(map[string]any{list.member: next})
		}
		if len(said) > 0 {
			c.annotate("kubernetes.io/limit-ranger", "LimitRanger plugin set: "+strings.Join(said, "; "))
		}
	}
	return err
}

// withDefaults returns a container with missing requests and limits added, and a description of these.
func withDefaults(container tree.Object, requests, limits map[string]any, what string) (map[string]any, []string) {
	var said []string
	resources := container.At("resources")
	for _, of := range []struct {
		member, what string
		defaults     map[string]any
	}{{"requests", "request", requests}, {"limits", "limit", limits}} {
		given := resources.At(of.member)
		var added []string
		for _, name := range slices.Sorted(maps.Keys(of.defaults)) {
			if given[name] == nil {
				given = given.With(map[string]any{name: of.defaults[name]})
				added = append(added, name)
			}
		}
		if len(added) > 0 {
			resources = resources.With(map[string]any{of.member: map[string]any(given)})
			said = append(said, fmt.Sprintf("%s %s for %s %s", strings.Join(added, ", "), of.what, what, container.Text("name")))
		}
	}
	if len(said) == 0 {
		return container, nil
	}
	return container.With(map[string]any{"resources": map[string]any(resources)}), said
}

// checkLimits refuses values below the minimum, above the maximum or beyond the ratio. The server reports several
// reasons in random order; here they are sorted by name.
func checkLimits(c *call) error {
	ranges, err := c.limitRanges()
	if err != nil || len(ranges) == 0 {
		return err
	}
	if c.SubResource != "" {
		return c.leave("")
	}
	var pod corev1.Pod
	var claim corev1.PersistentVolumeClaim
	into := any(&pod)
	if c.Resource.Resource != "pods" {
		into = &claim
	}
	if err := c.read(c.Object, into); err != nil {
		return err
	}
	for _, each := range ranges {
		var limits corev1.LimitRange
		if err := c.read(each, &limits); err != nil {
			return err
		}
		var errs []error
		for i := range limits.Spec.Limits {
			limit := &limits.Spec.Limits[i]
			switch {
			case c.Resource.Resource != "pods":
				if limit.Type == corev1.LimitTypePersistentVolumeClaim {
					errs = append(errs, checkClaim(limit, claim.Spec.Resources.Requests)...)
				}
			case limit.Type == corev1.LimitTypeContainer:
				for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
					errs = append(errs, checkUse(limit, container.Resources.Requests, container.Resources.Limits)...)
				}
			case limit.Type == corev1.LimitTypePod:
				errs = append(errs, checkUse(limit, podUse(&pod, requestsOf), podUse(&pod, limitsOf))...)
			}
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return c.forbid("%w", err)
		}
	}
	return nil
}

// checkUse compares requests and limits with one limit of a LimitRange.
func checkUse(l *corev1.LimitRangeItem, requests, limits corev1.ResourceList) (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range sortedNames(l.Min) {
		want := l.Min[name]
		u := useOf(name, want, requests, limits)
		switch {
		case !u.requested:
			add("minimum %s usage per %s is %s.  No request is specified", name, l.Type, want.String())
		case u.r < u.w:
			add("minimum %s usage per %s is %s, but request is %s", name, l.Type, want.String(), u.request.String())
		case u.limited && u.m < u.w:
			add("minimum %s usage per %s is %s, but limit is %s", name, l.Type, want.String(), u.limit.String())
		}
	}
	for _, name := range sortedNames(l.Max) {
		want := l.Max[name]
		u := useOf(name, want, requests, limits)
		switch {
		case !u.limited:
			add("maximum %s usage per %s is %s.  No limit is specified", name, l.Type, want.String())
		case u.m > u.w:
			add("maximum %s usage per %s is %s, but limit is %s", name, l.Type, want.String(), u.limit.String())
		case u.requested && u.r > u.w:
			add("maximum %s usage per %s is %s, but request is %s", name, l.Type, want.String(), u.request.String())
		}
	}
	for _, name := range sortedNames(l.MaxLimitRequestRatio) {
		want := l.MaxLimitRequestRatio[name]
		u := useOf(name, want, requests, limits)
		switch {
		case !u.requested || u.r == 0:
			add("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, l.Type, want.String())
			continue
		case !u.limited || u.m == 0:
			add("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, l.Type, want.String())
			continue
		}
		ratio, shown, most := float64(u.m)/float64(u.r), float64(u.m)/float64(u.r), float64(want.Value())
		if want.Value() <= resource.MaxMilliValue {
			ratio, most = ratio*1000, float64(want.MilliValue())
		}
		if ratio > most {
			add("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, l.Type, want.String(), shown)
		}
	}
	return errs
}

// checkClaim compares the requests of a claim with one limit of a LimitRange.
func checkClaim(l *corev1.LimitRangeItem, requests corev1.ResourceList) (errs []error) {
	only := *l
	only.Max, only.MaxLimitRequestRatio = nil, nil
	errs = checkUse(&only, requests, nil)
	for _, name := range sortedNames(l.Max) {
		want := l.Max[name]
		switch u := useOf(name, want, requests, nil); {
		case !u.requested:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, l.Type, want.String()))
		case u.r > u.w:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, l.Type, want.String(),
				u.request.String()))
		}
	}
	return errs
}

// A use is the request and the limit of a resource, beside a value of a LimitRange.
type use struct {
	request, limit     resource.Quantity
	requested, limited bool
	r, m, w            int64 // request, limit and the LimitRange's value, as numbers of one precision
}

func useOf(name corev1.ResourceName, want resource.Quantity, requests, limits corev1.ResourceList) (u use) {
	u.request, u.requested = requests[name]
	u.limit, u.limited = limits[name]
	u.r, u.m, u.w = u.request.Value(), u.limit.Value(), want.Value()
	if max(u.r, u.m, u.w) <= resource.MaxMilliValue {
		u.r, u.m, u.w = u.request.MilliValue(), u.limit.MilliValue(), want.MilliValue()
	}
	return u
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

// podUse returns the resources that a Pod needs at any time: those of its containers together, or of an init container
// with the sidecars. Pod-level resources replace them.
func podUse(pod *corev1.Pod, of func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	total, beside, first := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		addTo(total, of(&pod.Spec.Containers[i].Resources))
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		uses := of(&container.Resources)
		now := corev1.ResourceList{}
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			addTo(total, uses)
			addTo(beside, uses)
			addTo(now, beside)
		} else {
			addTo(now, uses)
			addTo(now, beside)
		}
		raise(first, now)
	}
	raise(total, first)
	if pod.Spec.Resources != nil {
		for name, quantity := range of(pod.Spec.Resources) {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
				total[name] = quantity
			}
		}
	}
	return total
}

func addTo(list, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := list[name]
		sum.Add(quantity)
		list[name] = sum
	}
}

func raise(list, other corev1.ResourceList) {
	for name, quantity := range other {
		if now, ok := list[name]; !ok || quantity.Cmp(now) > 0 {
			list[name] = quantity
		}
	}
}
