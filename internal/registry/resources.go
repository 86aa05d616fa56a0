package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

const hugePages = "hugepages-"

// standardResources do not need a domain.
var standardResources = []string{"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
	"requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas",
	"services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims", "storage",
	"requests.storage", "services.nodeports", "services.loadbalancers"}

// integerResources are counted in whole numbers, as are resources with a domain.
var integerResources = []string{"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
	"persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}

func isNative(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, "kubernetes.io/")
}

func isExtended(name string) bool {
	return !isNative(name) && !strings.HasPrefix(name, "requests.") &&
		len(validation.IsQualifiedName("requests."+name)) == 0
}

func mayOvercommit(name string) bool { return isNative(name) && !strings.HasPrefix(name, hugePages) }

// resourceName judges the name of a resource, the key of a place.
func (j *judge) resourceName(p *place) bool {
	before := len(j.found)
	if name := p.name; !isPlainKey(name) {
		j.each(p, word(name), validation.IsQualifiedName(name))
	}
	if name := p.name; len(j.found) == before && !strings.Contains(name, "/") && !strings.HasPrefix(name, hugePages) &&
		!strings.HasPrefix(name, "requests.hugepages-") && !slices.Contains(standardResources, name) {
		j.invalid(p, word(name), "must be a standard resource type or fully qualified")
	}
	return len(j.found) == before
}

func (j *judge) containerResourceName(p *place) {
	switch p.name {
	case "cpu", "memory", "ephemeral-storage":
		return
	}
	j.resourceName(p)
	switch name := p.name; {
	case !strings.Contains(name, "/"):
		if !strings.HasPrefix(name, hugePages) {
			j.invalid(p, word(name), "must be a standard resource for containers")
		}
	case !isNative(name) && !isExtended(name):
		j.invalid(p, word(name), "doesn't follow extended resource name standard")
	}
}

// amount judges the amount of a resource.
func (j *judge) amount(p *place, name string, q resource.Quantity) {
	if q.Sign() < 0 {
		j.invalid(p, q.String(), "must be greater than or equal to 0")
	}
	if (slices.Contains(integerResources, name) || isExtended(name)) && q.MilliValue()%1000 != 0 {
		j.invalid(p, p.value, "must be an integer")
	}
}

func (j *judge) hugePages(p *place, q resource.Quantity) {
	size, err := resource.ParseQuantity(strings.TrimPrefix(p.name, hugePages))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 || q.Value()%size.Value() != 0 {
		j.forgive("huge pages", func() {
			j.invalid(p, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), p.name))
		})
	}
}

// containerResources judges the resources of a container; claims are the names of the Pod's claims.
func (j *judge) containerResources(p *place, claims []string) {
	j.requirements(p, j.containerResourceName)
	list := p.member("claims")
	j.claimNames(&list, claims)
}

// requirements judges limits and requests; name judges their names.
func (j *judge) requirements(p *place, name func(*place)) {
	limits, requests := p.member("limits"), p.member("requests")
	compute, pages := false, false
	for _, key := range limits.keys() {
		at := limits.key(key)
		q := at.quantity()
		name(&at)
		j.amount(&at, key, q)
		if strings.HasPrefix(key, hugePages) {
			pages = true
			j.hugePages(&at, q)
		}
		compute = compute || key == "cpu" || key == "memory"
	}
	for _, key := range requests.keys() {
		at, limit := requests.key(key), limits.key(key)
		q := at.quantity()
		name(&at)
		j.amount(&at, key, q)
		if limit.has() {
			switch most := limit.quantity(); {
			case q.Cmp(most) != 0 && !mayOvercommit(key):
				j.invalid(&requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", key, most.String()))
			case q.Cmp(most) > 0:
				j.invalid(&requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", key,
					most.String()))
			}
		} else if !mayOvercommit(key) {
			j.require(&limits, "Limit must be set for non overcommitable resources")
		}
		if strings.HasPrefix(key, hugePages) {
			pages = true
			j.hugePages(&at, q)
		}
		compute = compute || key == "cpu" || key == "memory"
	}
	if pages && !compute {
		j.forbidden(p, "HugePages require cpu or memory")
	}
}

// claimNames judges the names of the Pod's claims that a container uses.
func (j *judge) claimNames(list *place, claims []string) {
	seen := map[string]bool{}
	for i := range list.size() {
		at := list.item(i)
		name, request := at.member("name"), at.member("request")
		if name.text() == "" {
			j.require(&at, "")
			continue
		}
		key := name.text()
		if seen[key] {
			j.duplicate(&at, key)
		} else {
			if request.text() != "" {
				j.dnsLabel(&request)
				key += "/" + request.text()
			}
			if seen[key] {
				j.duplicate(&at, key)
			} else if request.text() == "" {
				for other := range seen {
					if of, _, ok := strings.Cut(other, "/"); ok && of == key {
						j.duplicate(&at, key)
					}
				}
			}
			seen[key] = true
		}
		if !slices.Contains(claims, name.text()) {
			detail := "must be one of the names in pod.spec.resourceClaims"
			if len(claims) == 0 {
				detail += " which is empty"
			} else {
				detail += ": " + strings.Join(claims, ", ")
			}
			j.notFound(&at, name.text(), detail)
		}
	}
}

// sumOf returns what the containers of a Pod need of each resource by a member of their resources, at any time: all
// containers that stay, or one init container beside those before it that stay.
func sumOf(spec *place, member string) map[string]resource.Quantity {
	add := func(to map[string]resource.Quantity, c *place) {
		resources := c.member("resources")
		amounts := resources.member(member)
		for _, name := range amounts.keys() {
			at := amounts.key(name)
			q := to[name].DeepCopy()
			q.Add(at.quantity())
			to[name] = q
		}
	}
	sum, stay, most := map[string]resource.Quantity{}, map[string]resource.Quantity{}, map[string]resource.Quantity{}
	containers, initial := spec.member("containers"), spec.member("initContainers")
	for i := range containers.size() {
		c := containers.item(i)
		add(sum, &c)
	}
	for i := range initial.size() {
		c := initial.item(i)
		needed := stay
		if policy := c.member("restartPolicy"); policy.text() == "Always" {
			add(sum, &c)
			add(stay, &c)
		} else {
			needed = maps.Clone(stay)
			add(needed, &c)
		}
		raise(most, needed)
	}
	raise(sum, most)
	return sum
}

// raise makes quantities at least as great as others.
func raise(quantities, others map[string]resource.Quantity) {
	for name, q := range others {
		if had, ok := quantities[name]; !ok || q.Cmp(had) > 0 {
			quantities[name] = q
		}
	}
}

// compareResources requires the resources of a Pod, p, to suffice for its containers.
func (j *judge) compareResources(p, spec *place) {
	requests, limits, containers := p.member("requests"), p.member("limits"), spec.member("containers")
	suffices := func(list *place, member string, concerns func(name string) bool) {
		sums := sumOf(spec, member)
		for _, name := range slices.Sorted(maps.Keys(sums)) {
			at, sum := list.key(name), sums[name]
			if q := at.quantity(); at.has() && concerns(name) && sum.Cmp(q) > 0 {
				j.invalid(&at, q.String(), fmt.Sprintf("must be greater than or equal to aggregate container %s of %s",
					member, sum.String()))
			}
		}
	}
	suffices(&requests, "requests", func(string) bool { return true })
	suffices(&limits, "limits", func(name string) bool { return strings.HasPrefix(name, hugePages) })
	shown := p.member("containers")
	for i := range containers.size() {
		c := containers.item(i)
		own := c.member("resources")
		list := own.member("limits")
		for _, name := range list.keys() {
			at, most := list.key(name), limits.key(name)
			q, highest := at.quantity(), most.quantity()
			if most.has() && q.Cmp(highest) > 0 {
				below := place{above: &shown, index: i, step: toItem}
				of := below.key(name)
				at = of.member("limits") // the server's path
				j.invalid(&at, q.String(), "must be less than or equal to pod limits of "+highest.String())
			}
		}
	}
}
