package prepare

// updateService drops, when the type of a Service changes, what the old type needed, the new one does not, and the client
// left as it was (k8s.io/kubernetes v1.37.2 pkg/registry/core/service/strategy.go dropTypeDependentFields).
func updateService(o *members, in Input) {
	if in.SubResource != "" {
		return
	}
	old := at(in.Old, "spec")
	kind := ""
	o.within("spec", func(s *members) {
		kind = s.text("type")
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
		if nodePort(old) && !nodePort(s.m) && noNewNodePorts(s.m, old) {
			s.each("ports", func(p *members) { p.drop("nodePort") })
		}
		if healthCheck(old) && !healthCheck(s.m) {
			s.dropSame("healthCheckNodePort", old)
		}
		if balanced(old) && !balanced(s.m) {
			s.dropSame("allocateLoadBalancerNodePorts", old)
			s.dropSame("loadBalancerClass", old)
		}
		if external(old) && !external(s.m) {
			s.dropSame("externalTrafficPolicy", old)
		}
		keepAllocated(s, old)
	})
	if kind != "LoadBalancer" {
		o.within("status", func(s *members) { s.set("loadBalancer", map[string]any{}) })
	}
}

// keepAllocated gives a Service what was allocated for the stored one, where the client left it out
// (k8s.io/kubernetes v1.37.2 pkg/registry/core/service/storage: patchAllocatedValues, initIPFamilyFields).
func keepAllocated(s *members, old map[string]any) {
	keep := func(name string) {
		if v := old[name]; v != nil {
			s.fill(name, v)
		}
	}
	if clusterIP(old) && clusterIP(s.m) {
		keep("clusterIP")
		keep("clusterIPs")
		keep("ipFamilyPolicy")
		if equal(s.m["clusterIPs"], old["clusterIPs"]) {
			keep("ipFamilies")
		}
	}
	if nodePort(old) && nodePort(s.m) {
		ports, used := map[string]int64{}, map[int64]bool{0: true}
		(&members{m: old}).each("ports", func(p *members) { ports[p.text("name")] = number(p) })
		s.each("ports", func(p *members) { used[number(p)] = true })
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

// dropSame drops a member that is the same in another object.
func (o *members) dropSame(name string, as map[string]any) {
	if equal(o.m[name], as[name]) {
		o.drop(name)
	}
}

func clusterIP(spec map[string]any) bool { return spec["type"] != "ExternalName" }

func nodePort(spec map[string]any) bool { return spec["type"] == "NodePort" || balanced(spec) }

func balanced(spec map[string]any) bool { return spec["type"] == "LoadBalancer" }

func healthCheck(spec map[string]any) bool {
	return balanced(spec) && spec["externalTrafficPolicy"] == "Local"
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

func noNewNodePorts(spec, old map[string]any) bool {
	known := map[int64]bool{0: true}
	(&members{m: old}).each("ports", func(p *members) { known[number(p)] = true })
	all := true
	(&members{m: spec}).each("ports", func(p *members) { all = all && known[number(p)] })
	return all
}
