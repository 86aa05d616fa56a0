package prepare

import (
	"fmt"
	"slices"
	"strings"
)

// Allocation by the storage of Services before validation, and the members that their strategy drops, as
// k8s.io/kubernetes v1.37.2 pkg/registry/core/service: storage/storage.go (beginCreate, beginUpdate, defaultOnRead),
// storage/alloc.go and strategy.go. The cluster is assumed to be IPv4 only unless a Service requires more: refusals of
// such a cluster are not detected.

const (
	ipv4, ipv6                     = "IPv4", "IPv6"
	singleStack, dualStack, either = "SingleStack", "RequireDualStack", "PreferDualStack"
	headless                       = "None"
)

func createService(o *members, in Input) {
	o.edit("spec", func(s *members) {
		if ip := s.text("clusterIP"); ip != "" && size(s.m["clusterIPs"]) == 0 {
			s.set("clusterIPs", []any{ip})
		}
		chooseFamilies(s, nil)
		a := allocator{in: in}
		a.addresses(s)
		a.sharedPorts(s)
		if healthCheck(s.m) {
			a.healthCheckPort(s)
		}
	})
}

// readService completes a stored Service as it is read: one written by an old server has fewer members
// (defaultOnReadService).
func readService(s *members) {
	if ip := s.text("clusterIP"); ip != "" && size(s.m["clusterIPs"]) == 0 {
		s.set("clusterIPs", []any{ip})
	}
	if !clusterIP(s.m) {
		s.drop("internalTrafficPolicy")
		return
	}
	if size(s.m["ipFamilies"]) > 0 {
		return
	}
	var families []any
	switch ips, _ := s.m["clusterIPs"].([]any); {
	case s.text("clusterIP") != headless:
		for _, ip := range ips {
			families = append(families, familyOf(ip))
		}
	case size(s.m["selector"]) == 0:
		families = []any{ipv4, ipv6}
	default:
		families = []any{ipv4}
	}
	switch len(families) {
	case 0:
		return
	case 1:
		s.set("ipFamilyPolicy", singleStack)
	case 2:
		s.set("ipFamilyPolicy", dualStack)
	}
	s.set("ipFamilies", families)
}

func updateService(o *members, in Input) {
	if in.SubResource != "" {
		return
	}
	old := mapAt(in.Old, "spec")
	o.edit("spec", func(s *members) {
		keepAllocated(s, old)
		samePlural(s, old)
		chooseFamilies(s, old)
		a := allocator{in: in}
		a.newAddresses(s, old)
		a.newPorts(s, old)
		if healthCheck(s.m) && !healthCheck(old) {
			a.healthCheckPort(s)
		}
		dropOfType(s, old)
	})
	if !isBalanced(mapAt(o.m, "spec")) {
		o.edit("status", func(s *members) { s.set("loadBalancer", map[string]any{}) })
	}
}

// keepAllocated copies the allocated values of the stored Service that the client omitted (patchAllocatedValues).
func keepAllocated(s *members, old map[string]any) {
	keep := func(name string) {
		if v := old[name]; v != nil {
			s.fill(name, v)
		}
	}
	if clusterIP(old) && clusterIP(s.m) {
		keep("clusterIP")
		keep("clusterIPs")
	}
	if allocatesPorts(old) && allocatesPorts(s.m) {
		stored, ports, used := map[int64]bool{}, map[string]int64{}, map[int64]bool{0: true}
		(&members{m: old}).each("ports", func(p *members) {
			ports[p.text("name")] = number(p)
			stored[number(p)] = true
		})
		s.each("ports", func(p *members) { used[number(p)] = used[number(p)] || stored[number(p)] })
		s.each("ports", func(p *members) {
			if port := ports[p.text("name")]; !used[port] {
				p.fillNumber("nodePort", port)
			}
		})
	}
	if healthCheck(old) && healthCheck(s.m) {
		keep("healthCheckNodePort")
	}
}

// samePlural updates spec.clusterIPs to spec.clusterIP if the client changed only the latter (normalizeClusterIPs).
func samePlural(s *members, old map[string]any) {
	one, was := s.text("clusterIP"), (&members{m: old}).text("clusterIP")
	if size(old["clusterIPs"]) > 0 && size(s.m["clusterIPs"]) == 0 && one == was {
		s.set("clusterIPs", old["clusterIPs"])
	}
	switch {
	case one == was || !equal(s.m["clusterIPs"], old["clusterIPs"]):
	case one == "":
		s.drop("clusterIPs")
	default:
		s.set("clusterIPs", []any{one})
	}
}

// chooseFamilies sets spec.ipFamilyPolicy and spec.ipFamilies (initIPFamilyFields). old is nil for a new Service.
func chooseFamilies(s *members, old map[string]any) {
	if !clusterIP(s.m) || staysDualStack(s.m, old) {
		return
	}
	selectorless := s.text("clusterIP") == headless && size(s.m["selector"]) == 0
	was, _ := old["ipFamilyPolicy"].(string)
	switch {
	case was != "":
		s.fill("ipFamilyPolicy", was)
	case selectorless:
		s.fill("ipFamilyPolicy", dualStack)
	default:
		s.fill("ipFamilyPolicy", singleStack)
	}
	policy := s.text("ipFamilyPolicy")
	if old != nil && policy == singleStack {
		for _, name := range [...]string{"clusterIPs", "ipFamilies"} {
			if list, _ := s.m[name].([]any); len(list) > 1 && equal(list, old[name]) {
				s.set(name, list[:1:1])
			}
		}
	}
	if contradictsStack(s) {
		return
	}
	given, _ := s.m["ipFamilies"].([]any)
	families := slices.Clip(given)
	ips, _ := s.m["clusterIPs"].([]any)
	for i, ip := range ips {
		if ip == headless {
			break
		}
		if i >= len(families) {
			families = append(families, familyOf(ip))
		}
	}
	if len(families) == 0 {
		families = []any{ipv4}
	}
	if len(families) == 1 && (policy == dualStack || selectorless && policy != singleStack) {
		families = append(families, map[any]any{ipv4: ipv6, ipv6: ipv4}[families[0]])
	}
	if len(families) != len(given) {
		s.set("ipFamilies", families)
	}
}

// contradictsStack reports whether a Service has more than one address or family, but must not.
func contradictsStack(s *members) bool {
	return s.text("ipFamilyPolicy") == singleStack && max(size(s.m["clusterIPs"]), size(s.m["ipFamilies"])) > 1
}

// staysDualStack reports whether an update leaves a Service that prefers dual stack unchanged
// (isMatchingPreferDualStackClusterIPFields).
func staysDualStack(spec, old map[string]any) bool {
	return old != nil && spec["type"] == old["type"] && spec["ipFamilyPolicy"] == either &&
		(old["ipFamilyPolicy"] == nil || old["ipFamilyPolicy"] == either) &&
		equal(spec["clusterIPs"], old["clusterIPs"]) && equal(spec["ipFamilies"], old["ipFamilies"])
}

func familyOf(ip any) any {
	if text, _ := ip.(string); strings.Contains(text, ":") {
		return ipv6
	}
	return ipv4
}

// An allocator makes up the values that the server draws at random, the same for equal requests.
type allocator struct {
	in    Input
	drawn int            // number of ports
	taken map[int64]bool // ports of the Service
	last  int64          // the highest port that was allocated
}

// addresses allocates an address for each family without one (allocClusterIPs). It leaves addresses that the server
// refuses first.
func (a *allocator) addresses(s *members) {
	given, _ := s.m["clusterIPs"].([]any)
	first := s.text("clusterIP")
	if !clusterIP(s.m) || contradictsStack(s) || len(given) > 0 && (first == headless || first == "" || first != given[0]) {
		return
	}
	families, _ := s.m["ipFamilies"].([]any)
	ips := slices.Clone(given)
	for i, family := range families {
		if i == len(ips) {
			ips = append(ips, "")
		}
		if ips[i] == "" {
			ips[i] = a.address(family)
		}
	}
	if len(ips) == 0 {
		return
	}
	s.set("clusterIPs", ips)
	s.set("clusterIP", ips[0])
}

// newAddresses allocates the addresses that an update needs in addition to those of the stored Service
// (updateClusterIPs).
func (a *allocator) newAddresses(s *members, old map[string]any) {
	if staysDualStack(s.m, old) {
		return
	}
	stored, _ := old["clusterIPs"].([]any)
	families, _ := s.m["ipFamilies"].([]any)
	switch {
	case !clusterIP(old):
		a.addresses(s)
	case !clusterIP(s.m) || len(stored) > 0 && stored[0] == headless:
	case size(old["ipFamilies"]) == 1 && len(families) == 2:
		ips, _ := s.m["clusterIPs"].([]any)
		switch {
		case len(ips) == 1:
			s.set("clusterIPs", append(slices.Clip(ips), a.address(families[1])))
		case len(ips) > 1 && ips[1] == "":
			s.set("clusterIPs", []any{ips[0], a.address(families[1])})
		}
	}
}

func (a *allocator) address(family any) string {
	b := draw(a.in, "address")
	if family == ipv6 {
		return fmt.Sprintf("fd00:96::%x:%x", 1+int(b[0])<<8|int(b[1]), 1+int(b[2]))
	}
	return fmt.Sprintf("10.96.%d.%d", b[0], 1+b[1]%254)
}

// sharedPorts allocates the node ports of a new Service: ports with the same number share one (initNodePorts).
func (a *allocator) sharedPorts(s *members) {
	if !nodePort(s.m) {
		return
	}
	requested, known := map[any]int64{}, map[any]int64{} // by number of the port
	s.each("ports", func(p *members) {
		if port := p.m["port"]; requested[port] == 0 {
			requested[port] = number(p)
		}
	})
	s.each("ports", func(p *members) {
		port, n := p.m["port"], number(p)
		switch {
		case n == 0 && !allocatesPorts(s.m):
		case known[port] == 0 && requested[port] != 0:
			known[port] = requested[port]
			a.take(known[port])
			p.set("nodePort", known[port])
		case known[port] == 0:
			known[port] = a.port(s)
			p.set("nodePort", known[port])
		case n == 0:
			p.set("nodePort", known[port])
		case n != known[port]:
			a.take(n)
		}
	})
}

// newPorts allocates a node port for each port of an update without one (updateNodePorts).
func (a *allocator) newPorts(s *members, old map[string]any) {
	if !nodePort(s.m) {
		return
	}
	stored := map[int64]bool{}
	(&members{m: old}).each("ports", func(p *members) { stored[number(p)] = true })
	s.each("ports", func(p *members) {
		switch n := number(p); {
		case n == 0 && !allocatesPorts(s.m):
		case n == 0:
			p.set("nodePort", a.port(s))
		case !stored[n]:
			a.take(n)
		}
	})
}

func (a *allocator) healthCheckPort(s *members) {
	if n, _ := s.m["healthCheckNodePort"].(int64); n != 0 {
		a.take(n)
		return
	}
	s.set("healthCheckNodePort", a.port(s))
}

// take allocates a port that the client requests.
func (a *allocator) take(port int64) { a.last = max(a.last, port) }

// port draws a port of the server's range of node ports that the Service does not have yet. A dry run on the server
// does not draw: it counts on from the Service's ports, or from a number outside of the range
// (portallocator/operation.go AllocateNext).
func (a *allocator) port(s *members) int64 {
	const first, count = 30000, 2768
	if a.in.DryRun {
		if a.last == 0 {
			a.last = first + count
		}
		a.last++
		return a.last
	}
	if a.taken == nil {
		a.taken = map[int64]bool{}
		s.each("ports", func(p *members) { a.taken[number(p)] = true })
	}
	b := draw(a.in, fmt.Sprint("port ", a.drawn))
	a.drawn++
	n := int64(b[0])<<8 | int64(b[1])
	for a.taken[first+n%count] {
		n++
	}
	a.taken[first+n%count] = true
	return first + n%count
}

// dropOfType drops, when the type of a Service changes, members that only the old type needs and that the client did
// not change (strategy.go dropTypeDependentFields).
func dropOfType(s *members, old map[string]any) {
	if clusterIP(old) && !clusterIP(s.m) {
		if equal(s.m["clusterIP"], old["clusterIP"]) && equal(s.m["clusterIPs"], old["clusterIPs"]) {
			s.drop("clusterIP")
			s.drop("clusterIPs")
		}
		s.dropSame("ipFamilies", old)
		if s.text("ipFamilyPolicy") == (&members{m: old}).text("ipFamilyPolicy") {
			s.drop("ipFamilyPolicy")
		}
	}
	if nodePort(old) && !nodePort(s.m) && keepsNodePorts(s.m, old) {
		s.each("ports", func(p *members) { p.drop("nodePort") })
	}
	if healthCheck(old) && !healthCheck(s.m) {
		s.dropSame("healthCheckNodePort", old)
	}
	if isBalanced(old) && !isBalanced(s.m) {
		s.dropSame("allocateLoadBalancerNodePorts", old)
		s.dropSame("loadBalancerClass", old)
	}
	if external(old) && !external(s.m) {
		s.dropSame("externalTrafficPolicy", old)
	}
}

// dropSame drops a member that is equal in another object.
func (o *members) dropSame(name string, as map[string]any) {
	if equal(o.m[name], as[name]) {
		o.drop(name)
	}
}

func clusterIP(spec map[string]any) bool { return spec["type"] != "ExternalName" }

func nodePort(spec map[string]any) bool { return spec["type"] == "NodePort" || isBalanced(spec) }

func isBalanced(spec map[string]any) bool { return spec["type"] == "LoadBalancer" }

// allocatesPorts reports whether each port of a Service gets a node port.
func allocatesPorts(spec map[string]any) bool {
	return nodePort(spec) && !(isBalanced(spec) && spec["allocateLoadBalancerNodePorts"] == false)
}

func healthCheck(spec map[string]any) bool {
	return isBalanced(spec) && spec["externalTrafficPolicy"] == "Local"
}

// external reports whether a Service can be reached from outside (pkg/api/v1/service/util.go ExternallyAccessible).
func external(spec map[string]any) bool {
	return nodePort(spec) || spec["type"] == "ClusterIP" && size(spec["externalIPs"]) > 0
}

// number returns the node port of a port, or 0.
func number(port *members) int64 {
	n, _ := port.m["nodePort"].(int64)
	return n
}

func keepsNodePorts(spec, old map[string]any) bool {
	known := map[int64]bool{0: true}
	(&members{m: old}).each("ports", func(p *members) { known[number(p)] = true })
	all := true
	(&members{m: spec}).each("ports", func(p *members) { all = all && known[number(p)] })
	return all
}
