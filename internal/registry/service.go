package registry

import (
	"fmt"
	"net"
	"slices"
	"strings"

	netutils "k8s.io/utils/net"

	"github.com/celgate/celgate/internal/tree"
)

func (j *judge) service(object, old *place) {
	spec, metadata := object.member("spec"), object.member("metadata")
	kind, ports, ips, class := spec.member("type"), spec.member("ports"), spec.member("clusterIPs"),
		spec.member("loadBalancerClass")
	if kind.text() != "ExternalName" {
		if j.clusterIPs(&spec, &ips); len(j.found) > 0 {
			return // the server does not allocate any then, and looks at nothing else
		}
	}
	if old != nil {
		before := old.member("spec")
		oldKind, oldClass := before.member("type"), before.member("loadBalancerClass")
		if kind.text() == "LoadBalancer" && oldKind.text() == "LoadBalancer" &&
			!tree.Equal(class.value, oldClass.value) {
			j.invalid(&class, class.value, "may not change once set")
		}
		j.addressUpdate(&spec, &before)
	}
	headless := slices.Equal(ips.texts(), []string{"None"})
	j.topologyMode(&metadata)
	if ports.size() == 0 && !headless && kind.text() != "ExternalName" {
		j.require(&ports, "")
	}
	j.serviceType(&spec, kind.text(), headless)
	names := map[string]bool{}
	for i := range ports.size() {
		at := ports.item(i)
		j.servicePort(&at, ports.size() > 1, names)
	}
	selector := spec.member("selector")
	j.labels(&selector)
	j.sessionAffinity(&spec)
	external := spec.member("externalIPs")
	for i, ip := range external.texts() {
		at := external.item(i)
		before := len(j.found)
		j.forgive("external IPs", func() { j.ipAddress(&at) })
		if len(j.found) == before {
			j.endpointIP(&at, ip)
		}
	}
	j.needsOneOf(&kind, "ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
	j.portsOnce(&ports, kind.text())
	j.loadBalancer(&spec, &metadata, kind.text())
	j.traffic(&spec, kind.text())
}

func (j *judge) topologyMode(metadata *place) {
	const hints, mode = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
	annotations := metadata.member("annotations")
	a, b := annotations.key(hints), annotations.key(mode)
	if a.has() && b.has() && a.text() != b.text() {
		j.invalid(&b, b.text(), "must match annotations["+hints+"] when both are specified")
	}
}

func (j *judge) serviceType(spec *place, kind string, headless bool) {
	ips, families, policy, name := spec.member("clusterIPs"), spec.member("ipFamilies"), spec.member("ipFamilyPolicy"),
		spec.member("externalName")
	switch kind {
	case "LoadBalancer", "NodePort":
		if headless {
			at := ips.item(0)
			j.invalid(&at, "None", "may not be set to 'None' for "+kind+" services")
		}
	case "ExternalName":
		for _, p := range []*place{&ips, &families} {
			if p.size() > 0 {
				j.forbidden(p, "may not be set for ExternalName services")
			}
		}
		if policy.has() {
			j.forbidden(&policy, "may not be set for ExternalName services")
		}
		if cname := strings.TrimSuffix(name.text(), "."); cname == "" {
			j.require(&name, "")
		} else {
			name.value = cname
			j.dnsSubdomain(&name)
		}
	}
}

func (j *judge) servicePort(p *place, named bool, seen map[string]bool) {
	name, number, protocol, target, app := p.member("name"), p.member("port"), p.member("protocol"),
		p.member("targetPort"),
		p.member("appProtocol")
	switch text := name.text(); {
	case text != "":
		j.dnsLabel(&name)
		if seen[text] {
			j.duplicate(&name, text)
		}
		seen[text] = true
	case named:
		j.require(&name, "")
	}
	j.portNumber(&number)
	j.needsOneOf(&protocol, protocols...)
	j.port(&target)
	if app.has() {
		j.qualifiedName(&app, app.text())
	}
}

func (j *judge) sessionAffinity(spec *place) {
	affinity, config := spec.member("sessionAffinity"), spec.member("sessionAffinityConfig")
	j.needsOneOf(&affinity, "ClientIP", "None")
	switch affinity.text() {
	case "ClientIP":
		client := config.member("clientIP")
		timeout := client.member("timeoutSeconds")
		for _, p := range []*place{&config, &client, &timeout} {
			if !p.has() {
				j.require(p, "when session affinity type is ClientIP")
				return
			}
		}
		j.restrict(&timeout, 1, 86400, "must be greater than 0 and less than 86400")
	case "None":
		if config.has() {
			j.forbidden(&config, "must not be set when session affinity is None")
		}
	}
}

// clusterIPs judges the given addresses of a new Service.
func (j *judge) clusterIPs(spec, ips *place) {
	first, families, policy := spec.member("clusterIP"), spec.member("ipFamilies"), spec.member("ipFamilyPolicy")
	given := ips.texts()
	before := len(j.found)
	switch {
	case first.text() == "" && len(given) > 0:
		j.invalid(ips, ips.value, "must be empty when `clusterIP` is not specified")
	case len(given) > 0 && given[0] != first.text():
		j.invalid(ips, ips.value, "first value must match `clusterIP`")
	}
	seen := map[string]bool{}
	for i, family := range families.texts() {
		at := families.item(i)
		if family != "IPv4" && family != "IPv6" {
			j.addUnknown(&at, family, "IPv4", "IPv6")
		}
		if seen[family] {
			j.duplicate(&at, word(family))
		}
		seen[family] = true
	}
	known := []string{"PreferDualStack", "RequireDualStack", "SingleStack"}
	if policy.has() && !slices.Contains(known, policy.text()) {
		j.addUnknown(&policy, policy.text(), known...)
	}
	wrong := false
	for i, ip := range given {
		if i == 0 && ip == "None" {
			if len(given) > 1 {
				wrong = true
				j.invalid(ips, ips.value, "'None' must be the first and only value")
			}
			continue
		}
		at := ips.item(i)
		before := len(j.found)
		j.forgive("cluster IPs", func() { j.ipAddress(&at) })
		wrong = wrong || len(j.found) > before
	}
	if len(given) > 2 {
		j.invalid(ips, ips.value, "may only hold up to 2 values")
	}
	if wrong {
		return
	}
	if dual, err := netutils.IsDualStackIPStrings(given); len(given) > 1 && err == nil && !dual {
		j.invalid(ips, ips.value, "may specify no more than one IP for each IP family")
	}
	for i, family := range families.texts() {
		if i >= len(given) || given[i] == "None" {
			break
		}
		at := ips.item(i)
		if isSix := netutils.IsIPv6String(given[i]); isSix != (family == "IPv6") && (family == "IPv4" ||
			family == "IPv6") {
			j.invalid(&at, given[i], fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", family, i))
		}
	}
	if len(j.found) > before || policy.text() != "SingleStack" {
		return
	}
	for _, of := range []struct {
		size int
		what string
	}{{ips.size(), "cluster IPs"}, {families.size(), "IP families"}} {
		if of.size == 2 {
			j.invalid(&policy, policy.text(),
				"must be 'RequireDualStack' or 'PreferDualStack' when multiple "+of.what+" are specified")
		}
	}
}

// endpointIP requires an address that can receive traffic.
func (j *judge) endpointIP(p *place, text string) {
	ip := netutils.ParseIPSloppy(text)
	for _, of := range []struct {
		is   func(net.IP) bool
		text string
	}{
		{net.IP.IsUnspecified, fmt.Sprintf("may not be unspecified (%v)", text)},
		{net.IP.IsLoopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{net.IP.IsLinkLocalUnicast, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{net.IP.IsLinkLocalMulticast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if of.is(ip) {
			j.invalid(p, text, of.text)
		}
	}
}

// portsOnce requires ports to be distinct.
func (j *judge) portsOnce(ports *place, kind string) {
	if kind == "ClusterIP" {
		for i := range ports.size() {
			at := ports.item(i)
			if node := at.member("nodePort"); node.number() != 0 {
				j.forbidden(&node, "may not be used when `type` is 'ClusterIP'")
			}
		}
	}
	type key struct {
		protocol string
		number   int64
	}
	nodes, served := map[key]bool{}, map[key]bool{}
	for i := range ports.size() {
		at := ports.item(i)
		protocol, node := at.member("protocol"), at.member("nodePort")
		if of := (key{protocol.text(), node.number()}); of.number != 0 {
			if nodes[of] {
				j.duplicate(&node, of.number)
			}
			nodes[of] = true
		}
	}
	for i := range ports.size() {
		at := ports.item(i)
		protocol, number := at.member("protocol"), at.member("port")
		of := key{protocol.text(), number.number()}
		if served[of] {
			j.duplicate(&at, shownPort{Protocol: of.protocol, Port: of.number})
		}
		served[of] = true
	}
}

// A shownPort is a port of a Service in the form in which the server prints a duplicate.
type shownPort struct {
	Name        string
	Protocol    string
	AppProtocol *string
	Port        int64
	TargetPort  int64
	NodePort    int64
}

func (j *judge) loadBalancer(spec, metadata *place, kind string) {
	ranges, annotations := spec.member("loadBalancerSourceRanges"), metadata.member("annotations")
	only := "may only be used when `type` is 'LoadBalancer'"
	if ranges.size() > 0 {
		ranges.name = "LoadBalancerSourceRanges"
		if kind != "LoadBalancer" {
			j.forbidden(&ranges, only)
		}
		for i, text := range ranges.texts() {
			at := ranges.item(i)
			at.value = strings.TrimSpace(text)
			j.forgive("source ranges", func() { j.network(&at) })
		}
	} else if at := annotations.key("service.beta.kubernetes.io/load-balancer-source-ranges"); at.has() {
		if kind != "LoadBalancer" {
			j.forbidden(&at, only)
		}
		if text := strings.TrimSpace(at.text()); text != "" {
			for part := range strings.SplitSeq(text, ",") {
				at.value = strings.TrimSpace(part)
				j.forgive("annotation of source ranges", func() { j.network(&at) })
			}
		}
	}
	allocate, class := spec.member("allocateLoadBalancerNodePorts"), spec.member("loadBalancerClass")
	if allocate.has() && kind != "LoadBalancer" {
		j.forbidden(&allocate, only)
	}
	switch {
	case class.has() && kind == "LoadBalancer":
		j.qualifiedName(&class, class.text())
	case class.has():
		j.forbidden(&class, only)
	}
}

func (j *judge) traffic(spec *place, kind string) {
	outer, inner, check, distribution := spec.member("externalTrafficPolicy"), spec.member("internalTrafficPolicy"),
		spec.member("healthCheckNodePort"), spec.member("trafficDistribution")
	ips := spec.member("externalIPs")
	reachable := kind == "LoadBalancer" || kind == "NodePort" || kind == "ClusterIP" && ips.size() > 0
	switch text := outer.text(); {
	case !reachable:
		if text != "" {
			j.invalid(&outer, word(text), "may only be set for externally-accessible services")
		}
	default:
		j.needsOneOf(&outer, "Cluster", "Local")
	}
	if checked := kind == "LoadBalancer" && outer.text() == "Local"; !checked && check.number() != 0 {
		j.invalid(&check, check.number(),
			"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	} else if checked && check.number() != 0 {
		j.portNumber(&check)
	}
	switch {
	case inner.has():
		if text := inner.text(); text != "Cluster" && text != "Local" {
			j.addUnknown(&inner, text, "Cluster", "Local")
		}
	case kind == "NodePort" || kind == "LoadBalancer" || kind == "ClusterIP":
		j.require(&inner, "")
	}
	if distribution.has() {
		known := []string{"PreferClose", "PreferSameZone", "PreferSameNode"}
		if j.lacks("PreferSameTrafficDistribution") {
			known = known[:1]
		}
		if !slices.Contains(known, distribution.text()) {
			j.unknownValue(&distribution, distribution.text(), known...)
		}
	}
}

// Allocates reports whether a Service asks for addresses or ports that the server must still find free and in its
// ranges; old is the stored Service, nil for a new one. The registry has not allocated any for the Service yet.
func Allocates(service, old map[string]any) bool {
	given, had := claimedBy(service), claimedBy(old)
	for claim := range given {
		if !had[claim] {
			return true
		}
	}
	return false
}

// claimedBy returns the addresses and the ports of nodes that a Service names.
func claimedBy(service map[string]any) map[string]bool {
	claims := map[string]bool{}
	object := place{value: service}
	spec := object.member("spec")
	if kind := spec.member("type"); kind.text() == "ExternalName" {
		return claims
	}
	first, ips, health := spec.member("clusterIP"), spec.member("clusterIPs"), spec.member("healthCheckNodePort")
	for _, ip := range append(ips.texts(), first.text()) {
		if ip != "" && ip != "None" {
			claims[ip] = true
		}
	}
	ports := spec.member("ports")
	numbers := []int64{health.number()}
	for i := range ports.size() {
		at := ports.item(i)
		port := at.member("nodePort")
		numbers = append(numbers, port.number())
	}
	for _, n := range numbers {
		if n != 0 {
			claims[fmt.Sprint(n)] = true
		}
	}
	return claims
}
