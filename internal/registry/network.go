package registry

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"
)

func (j *judge) ingress(object, old *place) {
	spec, metadata := object.member("spec"), object.member("metadata")
	rules, backend, tls, class := spec.member("rules"), spec.member("defaultBackend"), spec.member("tls"),
		spec.member("ingressClassName")
	if rules.size() == 0 && !backend.has() {
		j.invalid(&spec, rules.value, "either `defaultBackend` or `rules` must be specified")
	}
	if backend.has() {
		j.backend(&backend)
	}
	for i := range rules.size() {
		at := rules.item(i)
		j.ingressRule(&at)
	}
	for i := range tls.size() {
		at := tls.item(i)
		hosts, secret := at.member("hosts"), at.member("secretName")
		for k := range hosts.size() {
			host := hosts.item(k)
			j.hostName(&host)
		}
		if secret.text() != "" {
			j.forgive("secret of an ingress", func() { j.dnsSubdomain(&secret) })
		}
	}
	if class.has() {
		j.dnsSubdomain(&class)
	}
	annotations := metadata.member("annotations")
	const name = "kubernetes.io/ingress.class"
	given := annotations.key(name)
	if old == nil && given.has() && class.has() && given.text() != class.text() {
		root := place{}
		all := place{above: &root, name: "annotations"}
		at := place{above: &all, name: name}
		j.invalid(&at, given.text(), "must match `ingressClassName` when both are specified")
	}
}

func (j *judge) ingressRule(p *place) {
	host, http := p.member("host"), p.member("http")
	if text := host.text(); text != "" {
		if netutils.ParseIPSloppy(text) != nil {
			j.invalid(&host, text, "must be a DNS name, not an IP address")
		}
		j.hostName(&host)
	}
	if !http.has() {
		return
	}
	judgePaths := func() {
		paths := http.member("paths")
		if paths.size() == 0 {
			j.require(&paths, "")
		}
		for i := range paths.size() {
			at := paths.item(i)
			j.ingressPath(&at)
		}
	}
	if strings.Contains(host.text(), "*") {
		j.forgive("rule of a wildcard", judgePaths)
		return
	}
	judgePaths()
}

func (j *judge) ingressPath(p *place) {
	kind, path, backend := p.member("pathType"), p.member("path"), p.member("backend")
	if !kind.has() {
		j.require(&kind, "pathType must be specified")
		return
	}
	text := path.text()
	switch kind.text() {
	case "Exact", "Prefix":
		if !strings.HasPrefix(text, "/") {
			j.invalid(&path, text, "must be an absolute path")
		}
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(text, part) {
				j.invalid(&path, text, fmt.Sprintf("must not contain '%s'", part))
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(text, end) {
				j.invalid(&path, text, fmt.Sprintf("cannot end with '%s'", end))
			}
		}
	case "ImplementationSpecific":
		if text != "" && !strings.HasPrefix(text, "/") {
			j.invalid(&path, text, "must be an absolute path")
		}
	default:
		j.addUnknown(&kind, kind.text(), "Exact", "ImplementationSpecific", "Prefix")
	}
	j.backend(&backend)
}

func (j *judge) backend(p *place) {
	resource, service := p.member("resource"), p.member("service")
	switch {
	case resource.has() && service.has():
		j.invalid(p, "", "cannot set both resource and service backends")
	case resource.has():
		j.objectReference(&resource)
	case service.has():
		name, port := service.member("name"), service.member("port")
		portName, number := port.member("name"), port.member("number")
		if j.needs(&name) {
			j.serviceName(&name)
		}
		switch {
		case portName.text() != "" && number.number() != 0:
			j.invalid(p, "", "cannot set both port name & port number")
		case portName.text() != "":
			j.portName(&portName)
		case number.number() != 0:
			j.portNumber(&number)
		default:
			j.require(p, "port name or number is required")
		}
	default:
		j.invalid(p, "", "resource or service backend is required")
	}
}

// objectReference judges a group, kind and name.
func (j *judge) objectReference(p *place) {
	group, kind, name := p.member("apiGroup"), p.member("kind"), p.member("name")
	if group.has() {
		j.dnsSubdomain(&group)
	}
	j.needsSegment(&kind)
	j.needsSegment(&name)
}

func (j *judge) ingressClass(object, old *place) {
	spec := object.member("spec")
	controller, parameters := spec.member("controller"), spec.member("parameters")
	if old != nil {
		before := old.member("spec")
		if was := before.member("controller"); was.text() != controller.text() {
			j.invalid(&controller, controller.text(), "field is immutable")
		}
	}
	if len(controller.text()) > 250 {
		j.tooLong(&controller, 250)
	}
	j.add(validation.IsDomainPrefixedPath(controller.path(), controller.text())...)
	if !parameters.has() {
		return
	}
	group, scope, namespace := parameters.member("apiGroup"), parameters.member("scope"), parameters.member("namespace")
	if group.has() {
		j.dnsSubdomain(&group)
	}
	for _, member := range []string{"kind", "name"} {
		if p := parameters.member(member); p.text() != "" {
			j.pathSegment(&p)
		} else {
			j.declare(func() { j.require(&p, "") })
		}
	}
	switch scope.text() {
	case "Cluster":
		if namespace.has() {
			j.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'")
		}
	case "Namespace":
		if namespace.has() {
			j.dnsLabel(&namespace)
		} else {
			j.require(&namespace, "`parameters.scope` is set to 'Namespace'")
		}
	default:
		if !scope.has() {
			j.require(&scope, "")
			return
		}
		j.unknownValue(&scope, scope.text(), "Cluster", "Namespace")
	}
}

func (j *judge) networkPolicy(object, _ *place) {
	spec := object.member("spec")
	selector, types := spec.member("podSelector"), spec.member("policyTypes")
	j.forgive("selector of a network policy", func() { j.labelSelector(&selector) })
	for _, of := range []struct{ rules, peers string }{{"ingress", "from"}, {"egress", "to"}} {
		rules := spec.member(of.rules)
		for i := range rules.size() {
			at := rules.item(i)
			ports, peers := at.member("ports"), at.member(of.peers)
			for k := range ports.size() {
				port := ports.item(k)
				j.policyPort(&port)
			}
			for k := range peers.size() {
				peer := peers.item(k)
				j.policyPeer(&peer)
			}
		}
	}
	if types.size() > 2 {
		j.invalid(&types, types.value, "may not specify more than two policyTypes")
		return
	}
	for i, text := range types.texts() {
		if text != "Ingress" && text != "Egress" {
			at := types.item(i)
			j.addUnknown(&at, text, "Ingress", "Egress")
		}
	}
}

func (j *judge) policyPort(p *place) {
	protocol, port, end := p.member("protocol"), p.member("port"), p.member("endPort")
	if known := []string{"TCP", "UDP", "SCTP"}; protocol.has() && !slices.Contains(known, protocol.text()) {
		j.addUnknown(&protocol, protocol.text(), known...)
	}
	switch port.value.(type) {
	case nil:
		if end.has() {
			j.invalid(&end, end.number(), "may not be specified when `port` is not specified")
		}
	case string:
		if end.has() {
			j.invalid(&end, end.number(), "may not be specified when `port` is non-numeric")
		}
		j.portName(&port)
	default:
		j.portNumber(&port)
		if end.has() {
			if end.number() < port.number() {
				j.invalid(&end, end.number(), "must be greater than or equal to `port`")
			}
			j.portNumber(&end)
		}
	}
}

func (j *judge) policyPeer(p *place) {
	block := p.member("ipBlock")
	peers := 0
	for _, member := range []string{"podSelector", "namespaceSelector"} {
		if selector := p.member(member); selector.has() {
			peers++
			j.forgive("selector of a network policy", func() { j.labelSelector(&selector) })
		}
	}
	if block.has() {
		peers++
		j.ipBlock(&block)
	}
	switch {
	case peers == 0:
		j.require(p, "must specify a peer")
	case peers > 1 && block.has():
		j.forbidden(p, "may not specify both ipBlock and another peer")
	}
}

func (j *judge) ipBlock(p *place) {
	cidr, except := p.member("cidr"), p.member("except")
	if cidr.text() == "" {
		j.declare(func() { j.require(&cidr, "") })
		return
	}
	j.forgive("network of a policy", func() { j.network(&cidr) })
	_, whole, err := netutils.ParseCIDRSloppy(cidr.text())
	if err != nil {
		return
	}
	for i, text := range except.texts() {
		at := except.item(i)
		j.forgive("network of a policy", func() { j.network(&at) })
		_, part, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		outer, _ := whole.Mask.Size()
		inner, _ := part.Mask.Size()
		if !whole.Contains(part.IP) || outer >= inner {
			j.invalid(&at, text, "must be a strict subset of `cidr`")
		}
	}
}
