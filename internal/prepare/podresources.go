package prepare

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The class of a new pod, and the defaults of its pod-level resources (k8s.io/kubernetes v1.37.2 pkg/api/pod/util.go
// DefaultPodLevelResources, pkg/apis/core/helper/qos).

// defaultPodResources completes spec.resources, unless it is empty, from the sums of the containers.
func defaultPodResources(spec *members) {
	given := mapAt(spec.m, "resources")
	if size(given["requests"])+size(given["limits"]) == 0 {
		return
	}
	spec.edit("resources", func(r *members) {
		limits := sumContainers(spec.m, "limits")
		for name := range limits {
			if !strings.HasPrefix(name, hugePages) || mapAt(r.m, "requests")[name] != nil {
				delete(limits, name)
			}
		}
		r.merge("limits", formatQuantities(limits))

		requests := sumContainers(spec.m, "requests")
		maps.DeleteFunc(requests, func(name string, _ resource.Quantity) bool {
			return name != "cpu" &&
				name != "memory"
		})
		r.merge("requests", formatQuantities(requests))
		own := map[string]any{}
		for name, v := range mapAt(r.m, "limits") {
			if podLevel(name) {
				own[name] = v
			}
		}
		r.merge("requests", own)

		limits = sumContainers(spec.m, "limits")
		missing := map[string]any{}
		for name, v := range mapAt(r.m, "requests") {
			limit, ok := limits[name]
			if !ok || !podLevel(name) || !allContainersLimit(spec.m, name) {
				continue
			}
			if request := amount(v); request.Cmp(limit) > 0 {
				limit = request
			}
			missing[name] = limit.String()
		}
		r.merge("limits", missing)
	})
}

const hugePages = "hugepages-"

// podLevel reports whether a resource may be set for a pod as a whole.
func podLevel(name string) bool {
	return name == "cpu" || name == "memory" || strings.HasPrefix(name, hugePages)
}

// allContainersLimit reports whether every container limits a resource.
func allContainersLimit(spec map[string]any, name string) bool {
	for _, list := range [...]string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range containersIn(spec, list) {
			if _, ok := mapAt(c, "resources", "limits")[name]; !ok {
				return false
			}
		}
	}
	return true
}

func containersIn(spec map[string]any, list string) []map[string]any {
	items, _ := spec[list].([]any)
	all := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if c, ok := item.(map[string]any); ok {
			all = append(all, c)
		}
	}
	return all
}

// sumContainers returns the resources of all containers of a pod: those that run at the same time are added, and init
// containers, which run one after the other, count as their maximum.
func sumContainers(spec map[string]any, which string) map[string]resource.Quantity {
	total, sidecars, first := map[string]resource.Quantity{}, map[string]resource.Quantity{},
		map[string]resource.Quantity{}
	for _, c := range containersIn(spec, "containers") {
		addAmounts(total, mapAt(c, "resources", which))
	}
	for _, c := range containersIn(spec, "initContainers") {
		own := mapAt(c, "resources", which)
		need := map[string]resource.Quantity{}
		if c["restartPolicy"] == "Always" {
			addAmounts(total, own)
			addAmounts(sidecars, own)
			need = sidecars
		} else {
			addAmounts(need, own)
			addAmounts(need, formatQuantities(sidecars))
		}
		raise(first, need)
	}
	raise(total, first)
	return total
}

func addAmounts(sum map[string]resource.Quantity, list map[string]any) {
	for name, v := range list {
		q := amount(v)
		if value, ok := sum[name]; ok {
			value.Add(q)
			q = value
		}
		sum[name] = q
	}
}

func raise(list, to map[string]resource.Quantity) {
	for name, q := range to {
		if value, ok := list[name]; !ok || q.Cmp(value) > 0 {
			list[name] = q.DeepCopy()
		}
	}
}

func formatQuantities(list map[string]resource.Quantity) map[string]any {
	out := make(map[string]any, len(list))
	for name, q := range list {
		out[name] = q.String()
	}
	return out
}

func amount(v any) resource.Quantity {
	text, _ := v.(string)
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// QualityOfService returns the class of a Pod with this spec: Guaranteed, Burstable or BestEffort.
func QualityOfService(spec map[string]any) string {
	own := mapAt(spec, "resources")
	for _, which := range [...]string{"requests", "limits"} {
		for name := range mapAt(own, which) {
			if podLevel(name) {
				return resourceClass(own)
			}
		}
	}
	class := ""
	for _, list := range [...]string{"initContainers", "containers"} {
		for _, c := range containersIn(spec, list) {
			switch own := resourceClass(mapAt(c, "resources")); class {
			case "", own:
				class = own
			default:
				return "Burstable"
			}
		}
	}
	if class == "" {
		return "BestEffort"
	}
	return class
}

func resourceClass(r map[string]any) string {
	if size(r["requests"])+size(r["limits"]) == 0 {
		return "BestEffort"
	}
	class := ""
	for _, name := range [...]string{"cpu", "memory"} {
		request, limit := amount(mapAt(r, "requests")[name]), amount(mapAt(r, "limits")[name])
		own := "Guaranteed"
		switch {
		case request.Cmp(limit) != 0:
			return "Burstable"
		case request.IsZero():
			own = "BestEffort"
		}
		if class != "" && class != own {
			return "Burstable"
		}
		class = own
	}
	return class
}
