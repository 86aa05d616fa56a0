package prepare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	podSeccomp        = "seccomp.security.alpha.kubernetes.io/pod"
	containerSeccomp  = "container.seccomp.security.alpha.kubernetes.io/"
	containerAppArmor = "container.apparmor.security.beta.kubernetes.io/"
	useSeccompField   = `non-functional in v1.27+; use the "seccompProfile" field instead`
)

// A placedContainer is a container of a Pod with its place.
type placedContainer struct {
	members map[string]any
	path    *place
}

// containers returns the containers of a Pod in the order in which the server visits them.
func containers(spec map[string]any, path *place) []placedContainer {
	var all []placedContainer
	for _, name := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for i, c := range objects(spec[name]) {
			all = append(all, placedContainer{c, path.Child(name).Index(i)})
		}
	}
	return all
}

// template warns about a Pod, whose place is nil, or a Pod template, as warningsForPodSpecAndMeta of
// pkg/api/pod/warnings.go.
func (w *warner) template(o map[string]any, path *place) {
	spec, in := mapAt(o, "spec"), path.Child("spec")
	w.warnScheduling(spec, in)
	for _, old := range [][2]string{
		{"scheduler.alpha.kubernetes.io/critical-pod",
			`non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		w.warnAnnotation(o, path, old[0], old[1])
	}
	for i, v := range objects(spec["volumes"]) {
		at2 := in.Child("volumes").Index(i)
		w.warnLost(v, at2, "photonPersistentDisk", "gitRepo", "scaleIO", "flocker", "storageos", "quobyte", "glusterfs")
		w.claim(mapAt(v, "ephemeral", "volumeClaimTemplate", "spec"),
			at2.Child("ephemeral").Child("volumeClaimTemplate").Child("spec"))
		w.warnLost(v, at2, "cephfs", "rbd")
	}
	for _, v := range objects(spec["volumes"]) {
		w.overlaps(v)
	}
	w.warnRepeated(objects(spec["hostAliases"]), "ip", in.Child("hostAliases"))
	w.warnRepeated(objects(spec["imagePullSecrets"]), "name", in.Child("imagePullSecrets"))
	for i, secret := range objects(spec["imagePullSecrets"]) {
		if text(secret["name"]) == "" {
			w.say(in.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", "")
		}
	}
	for _, name := range []string{"memory", "ephemeral-storage"} {
		w.fraction(mapAt(spec, "overhead"), name, in.Child("overhead"))
	}
	if mapAt(spec, "securityContext")["seccompProfile"] == nil {
		w.warnAnnotation(o, path, podSeccomp, useSeccompField)
	}
	all := containers(spec, in)
	for _, c := range all {
		w.container(o, c, path)
	}
	w.ports(all)
	if seconds, ok := spec["terminationGracePeriodSeconds"].(int64); ok && seconds < 0 {
		w.say(in.Child("terminationGracePeriodSeconds"),
			"must be >= 0; negative values are invalid and will be treated as 1")
	}
	for _, kind := range []string{"podAffinity", "podAntiAffinity"} {
		affinity, at2 := mapAt(spec, "affinity", kind), in.Child("affinity").Child(kind)
		for i, term := range objects(affinity["requiredDuringSchedulingIgnoredDuringExecution"]) {
			w.nullSelector(term, at2.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i).Child(
				"labelSelector"))
		}
		for i, term := range objects(affinity["preferredDuringSchedulingIgnoredDuringExecution"]) {
			w.nullSelector(
				mapAt(term, "podAffinityTerm"),
				at2.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm").Child(
					"labelSelector"))
		}
	}
	for i, server := range list(mapAt(spec, "dnsConfig")["nameservers"]) {
		w.ip(in.Child("dnsConfig").Child("nameservers").Index(i), server)
	}
	for i, alias := range objects(spec["hostAliases"]) {
		w.ip(in.Child("hostAliases").Index(i).Child("ip"), alias["ip"])
	}
}

func (w *warner) nullSelector(term map[string]any, path *place) {
	if term["labelSelector"] == nil {
		w.say(path, "a null labelSelector results in matching no pod")
	}
}

// warnScheduling warns about labels of nodes.
func (w *warner) warnScheduling(spec map[string]any, in *place) {
	for _, key := range slices.Sorted(maps.Keys(mapAt(spec, "nodeSelector"))) {
		if why := deprecatedLabels[key]; why != "" {
			w.say(in.Child("nodeSelector").Key(key), "%s", why)
		}
	}
	affinity, path := mapAt(spec, "affinity", "nodeAffinity"), in.Child("affinity").Child("nodeAffinity")
	required := "requiredDuringSchedulingIgnoredDuringExecution"
	for i, term := range objects(mapAt(affinity, required)["nodeSelectorTerms"]) {
		w.expressions(term, false, path.Child(required).Child("nodeSelectorTerms").Index(i))
	}
	preferred := "preferredDuringSchedulingIgnoredDuringExecution"
	for i, term := range objects(affinity[preferred]) {
		w.expressions(mapAt(term, "preference"), true, path.Child(preferred).Index(i).Child("preference"))
	}
	for i, c := range objects(spec["topologySpreadConstraints"]) {
		path := in.Child("topologySpreadConstraints").Index(i)
		if key := text(c["topologyKey"]); deprecatedLabels[key] != "" {
			w.say(path.Child("topologyKey"), "%s is %s", key, deprecatedLabels[key])
		}
		w.nullSelector(c, path.Child("labelSelector"))
	}
}

// warnRepeated warns about the second of two items with the same value.
func (w *warner) warnRepeated(items []map[string]any, name string, path *place) {
	seen := map[string]bool{}
	for i, item := range items {
		v := text(item[name])
		if seen[v] {
			w.say(path.Index(i).Child(name), "duplicate %s %q", name, v)
		}
		seen[v] = true
	}
}

func (w *warner) container(o map[string]any, c placedContainer, template *place) {
	name := text(c.members["name"])
	security := mapAt(c.members, "securityContext")
	if security["seccompProfile"] == nil {
		w.warnAnnotation(o, template, containerSeccomp+name, useSeccompField)
	}
	if template != nil && security["appArmorProfile"] == nil {
		annotation, _ := mapAt(o, "metadata", "annotations")[containerAppArmor+name].(string)
		if pod := mapAt(o, "spec", "securityContext", "appArmorProfile"); pod == nil || !sameProfile(pod, annotation) {
			w.warnAnnotation(o, template, containerAppArmor+name,
				`deprecated since v1.30; use the "appArmorProfile" field instead`)
		}
	}
	for _, amount := range []string{"memory", "ephemeral-storage"} {
		for _, which := range []string{"limits", "requests"} {
			w.fraction(mapAt(c.members, "resources", which), amount, c.path.Child("resources").Child(which))
		}
	}
	seen := map[string]bool{}
	for i, env := range objects(c.members["env"]) {
		name, value := text(env["name"]), text(env["value"])
		reference := "$(" + name + ")"
		if seen[name] && (env["valueFrom"] != nil || value == reference || !strings.Contains(value, reference)) {
			w.say(c.path.Child("env").Index(i),
				"hides previous definition of %q, which may be dropped when using apply", name)
		}
		seen[name] = true
	}
}

// sameProfile reports whether an annotation for AppArmor equals a profile.
func sameProfile(profile map[string]any, annotation string) bool {
	localhost, isLocal := strings.CutPrefix(annotation, "localhost/")
	switch {
	case annotation == "runtime/default":
		return profile["type"] == "RuntimeDefault" && profile["localhostProfile"] == nil
	case annotation == "unconfined":
		return profile["type"] == "Unconfined" && profile["localhostProfile"] == nil
	case isLocal && localhost != "":
		return profile["type"] == "Localhost" && profile["localhostProfile"] == localhost
	}
	return false
}

// A port is a port of a container with its place.
type port struct {
	members map[string]any
	path    *place
}

func (p port) number(name string) int64 {
	n, _ := p.members[name].(int64)
	return n
}

// ports warns about conflicting ports of several containers, or of one.
func (w *warner) ports(all []placedContainer) {
	var every []port
	for _, c := range all {
		for i, p := range objects(c.members["ports"]) {
			every = append(every, port{p, c.path.Child("ports").Index(i)})
		}
	}
	if len(every) == 0 {
		return
	}
	type protocolPort struct {
		number   int64
		protocol string
	}
	same := map[protocolPort][]port{}
	for _, p := range every {
		host, ip := p.number("hostPort"), text(p.members["hostIP"])
		if ip != "" && host == 0 {
			w.add("%s: hostIP set without hostPort: {Name:%s HostPort:%d ContainerPort:%d Protocol:%s HostIP:%s}",
				p.path, text(p.members["name"]), host, p.number("containerPort"), text(p.members["protocol"]), ip)
		}
		key := protocolPort{p.number("containerPort"), text(p.members["protocol"])}
		for _, other := range same[key] {
			otherHost, otherIP := other.number("hostPort"), text(other.members["hostIP"])
			switch {
			case ip == otherIP && host == otherHost:
				w.say(p.path, "duplicate port definition with %s", other.path.String())
			case host == 0 || otherHost == 0:
				w.say(p.path, "overlapping port definition with %s", other.path.String())
			case host == otherHost && (ip == "") != (otherIP == ""):
				w.say(p.path, "dangerously ambiguous port definition with %s", other.path.String())
			}
		}
		same[key] = append(same[key], p)
	}
	named := map[string]*place{}
	for _, p := range every {
		name := text(p.members["name"])
		if name == "" {
			continue
		}
		if other, exists := named[name]; exists {
			w.say(p.path, "duplicate port name %q with %s, services and probes that select ports by name will use %s",
				name, other.String(), other.String())
			continue
		}
		named[name] = p.path
	}
}

// A mountedPath is the path of a file in a volume, and its source.
type mountedPath struct{ path, source string }

func (p mountedPath) String() string {
	if p.source == "" {
		return fmt.Sprintf("%q", p.path)
	}
	return fmt.Sprintf("%q (%s)", p.path, p.source)
}

// overlaps warns about files of a volume that hide one another.
func (w *warner) overlaps(v map[string]any) {
	name := text(v["name"])
	for _, of := range []struct{ member, shown string }{
		{"configMap", fmt.Sprintf("ConfigMap %q", text(mapAt(v, "configMap")["name"]))},
		{"secret", fmt.Sprintf("Secret %q", text(mapAt(v, "secret")["secretName"]))},
		{"downwardAPI", "DownwardAPI"},
	} {
		w.collisions(name, of.shown, paths(mapAt(v, of.member), ""), nil)
	}
	var before []mountedPath
	for _, source := range objects(mapAt(v, "projected")["sources"]) {
		if len(source) == 0 {
			w.add("volume %q (Projected) has no sources provided", name)
			continue
		}
		before = w.collisions(name, "Projected", pathsOf(source), before)
	}
}

// pathsOf returns the paths of one source of a projected volume.
func pathsOf(source map[string]any) []mountedPath {
	is := func(name string) bool { return source[name] != nil }
	switch {
	case is("configMap") && mapAt(source, "configMap")["items"] != nil:
		return paths(mapAt(source, "configMap"), fmt.Sprintf("ConfigMap %q", text(mapAt(source, "configMap")["name"])))
	case is("secret") && mapAt(source, "secret")["items"] != nil:
		return paths(mapAt(source, "secret"), fmt.Sprintf("Secret %q", text(mapAt(source, "secret")["name"])))
	case is("downwardAPI") && mapAt(source, "downwardAPI")["items"] != nil:
		return paths(mapAt(source, "downwardAPI"), "DownwardAPI")
	case is("serviceAccountToken"):
		return []mountedPath{{text(mapAt(source, "serviceAccountToken")["path"]), "ServiceAccountToken"}}
	case is("clusterTrustBundle"):
		bundle := mapAt(source, "clusterTrustBundle")
		name, ok := bundle["name"].(string)
		if !ok {
			name = text(bundle["signerName"])
		}
		return []mountedPath{{text(bundle["path"]), fmt.Sprintf("ClusterTrustBundle %q", name)}}
	case is("podCertificate"):
		var all []mountedPath
		for _, of := range [][2]string{
			{"certificateChainPath", "PodCertificate chain"},
			{"keyPath", "PodCertificate key"},
			{"credentialBundlePath", "PodCertificate credential bundle"},
		} {
			if path := text(mapAt(source, "podCertificate")[of[0]]); path != "" {
				all = append(all, mountedPath{path, of[1]})
			}
		}
		return all
	}
	return nil
}

func paths(of map[string]any, source string) []mountedPath {
	var all []mountedPath
	for _, item := range objects(of["items"]) {
		all = append(all, mountedPath{text(item["path"]), source})
	}
	return all
}

// collisions warns about paths that collide with earlier ones, and returns all of them.
func (w *warner) collisions(volume, shown string, paths, before []mountedPath) []mountedPath {
	for _, p := range paths {
		p.path = strings.TrimRight(p.path, "/")
		for _, other := range before {
			if p.path != "" && other.path != "" &&
				(strings.HasPrefix(other.path+"/", p.path+"/") || strings.HasPrefix(p.path+"/", other.path+"/")) {
				w.add("volume %q (%s): overlapping paths: %s with %s", volume, shown, p, other)
			}
		}
		before = append(before, p)
	}
	return before
}
