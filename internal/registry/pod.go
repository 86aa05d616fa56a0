package registry

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/celgate/celgate/internal/pattern"
)

// podObject judges a Pod.
func (j *judge) podObject(object, old *place) {
	metadata, spec := object.member("metadata"), object.member("spec")
	name, annotations := metadata.member("name"), metadata.member("annotations")
	j.podAnnotations(&annotations, &spec)
	j.podSpec(&spec, podOf{name: name.text(), isPod: true})
	if grace := spec.member("terminationGracePeriodSeconds"); grace.has() {
		j.nonnegative(&grace)
	}
	for _, member := range []string{"containers", "initContainers"} {
		list := spec.member(member)
		for i := range list.size() {
			at := list.item(i)
			if image := at.member("image"); image.text() != strings.TrimSpace(image.text()) {
				j.invalid(&image, image.text(), "must not have leading or trailing whitespace")
			}
		}
	}
	if old != nil {
		j.podUpdate(object, old)
		return
	}
	if ephemeral := spec.member("ephemeralContainers"); ephemeral.size() > 0 {
		j.forbidden(&ephemeral, "cannot be set on create")
	}
	node, gates := spec.member("nodeName"), spec.member("schedulingGates")
	if node.text() != "" && gates.size() > 0 {
		j.forbidden(&node, "cannot be set until all schedulingGates have been cleared")
	}
	j.compareProfiles(&annotations, &spec)
}

// podTemplate judges the template of a workload; some claims among its volumes come from elsewhere.
func (j *judge) podTemplate(p *place, of podOf) {
	metadata, spec := p.member("metadata"), p.member("spec")
	labels, annotations := metadata.member("labels"), metadata.member("annotations")
	shownLabels, shownAnnotations := p.member("labels"), p.member("annotations")
	shownLabels.value, shownAnnotations.value = labels.value, annotations.value
	j.labels(&shownLabels)
	j.annotations(&shownAnnotations)
	j.podAnnotations(&shownAnnotations, &spec)
	j.podSpec(&spec, of)
	j.compareProfiles(&shownAnnotations, &spec)
	if ephemeral := spec.member("ephemeralContainers"); ephemeral.size() > 0 {
		j.forbidden(&ephemeral, "ephemeral containers not allowed in pod template")
	}
}

const mirror = "kubernetes.io/config.mirror"

// podAnnotations judges annotations with a meaning for Pods, except for that of tolerations, which a field has replaced
// in 1.6. That the token of an account needs the name of one is not judged: a plugin of nearly all servers fills it in.
func (j *judge) podAnnotations(p, spec *place) {
	values, _ := p.value.(map[string]any)
	if value, ok := values[mirror].(string); ok {
		if node := spec.member("nodeName"); node.text() == "" {
			at := p.key(mirror)
			j.invalid(&at, value, "must set spec.nodeName if mirror pod annotation is set")
		}
	}
	const cost = "controller.kubernetes.io/pod-deletion-cost"
	if value, ok := values[cost].(string); ok {
		_, err := strconv.ParseInt(value, 10, 32)
		if err != nil || value[0] == '+' || value[0] == '0' && value != "0" {
			at := p.key(cost)
			j.forgive(cost, func() { j.invalid(&at, value, "must be a 32bit integer") })
		}
	}
	j.profileAnnotations(p, spec)
}

// podOf describes the owner of the spec of a Pod.
type podOf struct {
	name    string // of the Pod; "" for templates
	isPod   bool
	claims  []string // names of volumes that a StatefulSet claims for each Pod
	anyHost bool     // hostname and subdomain are not judged, as in a StatefulSet
}

func (j *judge) podSpec(spec *place, part podOf) {
	grace, volumes, claims := spec.member("terminationGracePeriodSeconds"), spec.member("volumes"),
		spec.member("resourceClaims")
	restart, system, users := spec.member("restartPolicy"), spec.member("os"), spec.member("hostUsers")
	systemName := system.member("name")
	if !grace.has() {
		j.require(&grace, "")
	}
	of := &pod{restart: restart.text(), os: systemName.text(), namesOS: system.has(), hostUsers: users.value != false}
	if n, ok := grace.value.(int64); ok {
		of.grace = &n
	}
	if len(part.claims) > 0 {
		volumes.value = withClaims(volumes.value, part.claims)
	}
	of.volumes = j.volumes(&volumes, part.name)
	of.claims = j.podClaims(&claims)
	containers, initial := spec.member("containers"), spec.member("initContainers")
	j.containers(&containers, of)
	j.initContainers(&initial, &containers, of)
	j.ephemeralContainers(spec, of)
	if resources := spec.member("resources"); resources.has() {
		j.podResources(&resources, spec, of)
	}
	network := spec.member("hostNetwork")
	if network.isTrue() {
		j.networkPorts(&containers, part.isPod)
	}
	dns, selector := spec.member("dnsPolicy"), spec.member("nodeSelector")
	j.needsOneOf(&restart, "Always", "OnFailure", "Never")
	j.needsOneOf(&dns, "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
	j.labels(&selector)
	security, share, pid := spec.member("securityContext"), spec.member("shareProcessNamespace"), spec.member("hostPID")
	j.podSecurity(&security, spec)
	if share.isTrue() && pid.isTrue() {
		j.invalid(&share, true, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	affinity, config := spec.member("affinity"), spec.member("dnsConfig")
	if affinity.has() {
		j.affinity(&affinity)
	}
	j.dnsConfig(&config, dns.text())
	readiness, gates, spread := spec.member("readinessGates"), spec.member("schedulingGates"),
		spec.member("topologySpreadConstraints")
	for i := range readiness.size() {
		at := readiness.item(i)
		kind := at.member("conditionType")
		j.qualifiedName(&kind, kind.text())
	}
	j.schedulingGates(&gates)
	j.spreadConstraints(&spread)
	j.hostProcesses(spec)
	if users.value == false {
		j.hostUsers(spec)
	}
	j.podNames(spec, part)
	j.podRuntime(spec, &system, &systemName)
	j.envFiles(spec, &volumes)
}

// overhead judges the overhead of a Pod, by the rules for limits.
func (j *judge) overhead(p *place, amounts any) {
	of := place{above: p.above, name: p.name, value: map[string]any{"limits": amounts}}
	j.requirements(&of, j.containerResourceName)
}

// withClaims returns volumes of the claims of a StatefulSet, before the other volumes of the Pod with other names.
func withClaims(volumes any, claims []string) any {
	var all []any
	for i, name := range claims {
		if !slices.Contains(claims[:i], name) {
			all = append(all, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name}})
		}
	}
	list, _ := volumes.([]any)
	for _, v := range list {
		volume, _ := v.(map[string]any)
		if name, _ := volume["name"].(string); !slices.Contains(claims, name) {
			all = append(all, v)
		}
	}
	return all
}

// podClaims judges the resource claims of a Pod and returns their names.
func (j *judge) podClaims(list *place) []string {
	var names []string
	for i := range list.size() {
		at := list.item(i)
		name, claim, template := at.member("name"), at.member("resourceClaimName"),
			at.member("resourceClaimTemplateName")
		switch {
		case name.text() == "":
			j.require(&name, "")
		case slices.Contains(names, name.text()):
			j.duplicate(&name, name.text())
		default:
			j.dnsLabel(&name)
			names = append(names, name.text())
		}
		if claim.has() && template.has() {
			j.invalid(&at, shownClaim{name.text(), claim.value, template.value},
				"at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
		}
		if !claim.has() && !template.has() {
			j.invalid(&at, shownClaim{name.text(), claim.value, template.value},
				"must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
		}
		if claim.has() {
			j.dnsSubdomain(&claim)
		}
		if template.has() {
			j.dnsSubdomain(&template)
		}
	}
	slices.Sort(names)
	return names
}

// A shownClaim is a resource claim of a Pod in the form in which the server prints it.
type shownClaim struct {
	Name                      string
	ResourceClaimName         any
	ResourceClaimTemplateName any
}

func (j *judge) containers(list *place, of *pod) {
	if list.size() == 0 {
		j.require(list, "")
		return
	}
	seen := make(map[string]bool, list.size())
	for i := range list.size() {
		at := list.item(i)
		name, lifecycle := at.member("name"), at.member("lifecycle")
		j.container(&at, of)
		if seen[name.text()] {
			j.duplicate(&name, name.text())
		}
		seen[name.text()] = true
		if lifecycle.has() {
			j.lifecycle(&lifecycle, of)
		}
		j.probes(&at, of)
		j.restartRules(&at, false)
	}
	j.hostPorts(list, 0, list.size())
}

func (j *judge) initContainers(list, containers *place, of *pod) {
	if list.size() == 0 {
		return
	}
	seen := map[string]bool{}
	for i := range containers.size() {
		at := containers.item(i)
		name := at.member("name")
		seen[name.text()] = true
	}
	for i := range list.size() {
		at := list.item(i)
		name, policy, lifecycle := at.member("name"), at.member("restartPolicy"), at.member("lifecycle")
		j.container(&at, of)
		j.restartRules(&at, true)
		if seen[name.text()] {
			j.duplicate(&name, name.text())
		} else if name.text() != "" {
			seen[name.text()] = true
		}
		j.hostPorts(list, i, i+1)
		stays := policy.text() == "Always"
		if stays {
			if lifecycle.has() {
				j.lifecycle(&lifecycle, of)
			}
			j.probes(&at, of)
			continue
		}
		for _, member := range []string{"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"} {
			if p := at.member(member); p.has() {
				j.forbidden(&p, "may not be set for init containers without restartPolicy=Always")
			}
		}
		resize := at.member("resizePolicy")
		for k := range resize.size() {
			item := resize.item(k)
			if restart := item.member("restartPolicy"); restart.text() == "RestartContainer" {
				j.forgive("resize policy", func() {
					j.invalid(&restart, word(restart.text()),
						"must not be set to 'RestartContainer' for non-sidecar initContainers")
				})
			}
		}
	}
}

// ephemeralContainers judges ephemeral containers, even in a template, which must not have any: the server does so,
// too.
func (j *judge) ephemeralContainers(spec *place, of *pod) {
	list := spec.member("ephemeralContainers")
	if list.size() == 0 {
		return
	}
	others, seen := map[string]bool{}, map[string]bool{}
	for _, member := range []string{"containers", "initContainers"} {
		containers := spec.member(member)
		for i := range containers.size() {
			at := containers.item(i)
			name := at.member("name")
			others[name.text()], seen[name.text()] = true, true
		}
	}
	const detail = "cannot be set for an Ephemeral Container"
	for i := range list.size() {
		at := list.item(i)
		name, target, image := at.member("name"), at.member("targetContainerName"), at.member("image")
		j.container(&at, of)
		if image.text() != strings.TrimSpace(image.text()) {
			j.invalid(&image, image.text(), "must not have leading or trailing whitespace")
		}
		if seen[name.text()] {
			j.duplicate(&name, name.text())
		}
		seen[name.text()] = true
		if target.text() != "" && !others[target.text()] {
			j.notFound(&target, target.text(), "")
		}
		for _, member := range []string{"ports", "resources", "lifecycle", "livenessProbe", "readinessProbe",
			"startupProbe",
			"resizePolicy", "restartPolicy", "restartPolicyRules"} {
			if p := at.member(member); p.size() > 0 || p.text() != "" {
				j.forbidden(&p, detail)
			}
		}
		mounts := at.member("volumeMounts")
		for k := range mounts.size() {
			mount := mounts.item(k)
			for _, member := range []string{"subPath", "subPathExpr"} {
				if p := mount.member(member); p.text() != "" {
					j.forbidden(&p, detail)
				}
			}
		}
	}
}

// podResources judges limits and requests at the level of the Pod.
func (j *judge) podResources(p, spec *place, of *pod) {
	if of.os == "windows" {
		j.forbidden(p, "may not be set for a windows pod")
		return
	}
	if claims := p.member("claims"); claims.has() {
		j.forbidden(&claims, "claims may not be set for Resources at pod-level")
	}
	j.requirements(p, func(at *place) {
		if j.resourceName(at) && at.name != "cpu" && at.name != "memory" && !strings.HasPrefix(at.name, hugePages) {
			j.addUnknown(at, at.name, "cpu", hugePages, "memory")
		}
	})
	j.compareResources(p, spec)
}

// networkPorts requires the host ports of containers on the host's network to equal their ports.
func (j *judge) networkPorts(containers *place, isPod bool) {
	for i := range containers.size() {
		c := containers.item(i)
		ports := c.member("ports")
		for k := range ports.size() {
			at := ports.item(k)
			host, own := at.member("hostPort"), at.member("containerPort")
			if (isPod || host.number() != 0) && host.number() != own.number() {
				j.invalid(&host, host.number(), "must match `containerPort` when `hostNetwork` is true")
			}
		}
	}
}

const maxSysctl = 253

var sysctl = pattern.New(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func (j *judge) podSecurity(p, spec *place) {
	if p.size() == 0 {
		return
	}
	fsGroup, user, group, others := p.member("fsGroup"), p.member("runAsUser"), p.member("runAsGroup"),
		p.member("supplementalGroups")
	j.groupID(&fsGroup)
	j.userID(&user)
	j.groupID(&group)
	for i := range others.size() {
		at := others.item(i)
		j.groupID(&at)
	}
	sysctls := p.member("sysctls")
	j.sysctls(&sysctls, spec)
	change, seccomp, apparmor := p.member("fsGroupChangePolicy"), p.member("seccompProfile"),
		p.member("appArmorProfile")
	if change.has() && change.text() != "Always" && change.text() != "OnRootMismatch" {
		j.addUnknown(&change, change.text(), "Always", "OnRootMismatch")
	}
	windows := p.member("windowsOptions")
	j.seccomp(&seccomp)
	j.windowsOptions(&windows)
	j.apparmor(&apparmor)
	groups, label := p.member("supplementalGroupsPolicy"), p.member("seLinuxChangePolicy")
	if groups.has() && groups.text() != "Merge" && groups.text() != "Strict" {
		j.addUnknown(&groups, groups.text(), "Merge", "Strict")
	}
	known := []string{"MountOption", "Recursive"}
	if j.lacks("SELinuxMount") {
		known = known[1:]
	}
	if label.has() && !slices.Contains(known, label.text()) {
		j.forgive("change of SELinux labels", func() { j.addUnknown(&label, label.text(), known...) })
	}
}

func (j *judge) sysctls(list, spec *place) {
	seen := map[string]bool{}
	network, ipc := spec.member("hostNetwork"), spec.member("hostIPC")
	for i := range list.size() {
		at := list.item(i)
		name := at.member("name")
		text := name.text()
		switch {
		case text == "":
			j.require(&name, "")
		case len(text) > maxSysctl || !sysctl().MatchString(text):
			j.invalid(&name, text, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, sysctl))
		case seen[text]:
			j.duplicate(&name, text)
		}
		seen[text] = true
		j.forgive("sysctl of the host", func() {
			switch dotted := strings.ReplaceAll(text, "/", "."); {
			case network.isTrue() && strings.HasPrefix(dotted, "net."):
				j.invalid(&name, text, "may not be specified when 'hostNetwork' is true")
			case ipc.isTrue() && isOfIPC(dotted):
				j.invalid(&name, text, "may not be specified when 'hostIPC' is true")
			}
		})
	}
}

func isOfIPC(name string) bool {
	return name == "kernel.sem" || strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") ||
		strings.HasPrefix(name, "fs.mqueue.")
}

func (j *judge) dnsConfig(p *place, policy string) {
	servers, searches, options := p.member("nameservers"), p.member("searches"), p.member("options")
	if policy == "None" {
		if !p.has() {
			j.require(p, "must provide `dnsConfig` when `dnsPolicy` is None")
			return
		}
		if servers.size() == 0 {
			j.require(&servers, "must provide at least one DNS nameserver when `dnsPolicy` is None")
			return
		}
	}
	if servers.size() > 3 {
		j.invalid(&servers, servers.value, "must not have more than 3 nameservers")
	}
	for i := range servers.size() {
		at := servers.item(i)
		j.ipAddress(&at)
	}
	if searches.size() > 32 {
		j.invalid(&searches, searches.value, "must not have more than 32 search paths")
	}
	if searches.size() > 0 && len(strings.Join(searches.texts(), " ")) > 2048 {
		j.invalid(&searches, searches.value,
			"must not have more than 2048 characters (including spaces) in the search list")
	}
	for i, search := range searches.texts() {
		if search == "." {
			continue
		}
		at := searches.item(i)
		at.value = strings.TrimSuffix(search, ".")
		j.eachText(&at, validation.IsDNS1123SubdomainWithUnderscore(at.text()))
	}
	for i := range options.size() {
		at := options.item(i)
		if name := at.member("name"); name.text() == "" {
			j.require(&at, "must not be empty")
		}
	}
}

func (j *judge) schedulingGates(list *place) {
	seen := map[string]bool{}
	for i := range list.size() {
		at := list.item(i)
		name := at.member("name")
		j.qualifiedName(&at, name.text())
		if seen[name.text()] {
			j.duplicate(&at, name.text())
		}
		seen[name.text()] = true
	}
}

// hostUsers judges a Pod with its own user namespace.
func (j *judge) hostUsers(spec *place) {
	const detail = "when `hostUsers` is false"
	if network := spec.member("hostNetwork"); network.isTrue() && j.lacks("UserNamespacesHostNetworkSupport") {
		j.forgive("network of a user namespace", func() { j.forbidden(&network, detail) })
	}
	for _, of := range []struct{ member, shown string }{{"hostPID", "HostPID"}, {"hostIPC", "HostIPC"}} {
		if p := spec.member(of.member); p.isTrue() {
			p.name = of.shown
			j.forbidden(&p, detail)
		}
	}
	j.forgive("devices in a user namespace", func() {
		eachContainer(spec, func(c *place) {
			if devices := c.member("volumeDevices"); devices.size() > 0 {
				j.forbidden(&devices, detail)
			}
		})
	})
}

// podNames judges the host name of a Pod, and the names in its spec.
func (j *judge) podNames(spec *place, part podOf) {
	if override := spec.member("hostnameOverride"); override.has() {
		qualified, network := spec.member("setHostnameAsFQDN"), spec.member("hostNetwork")
		if qualified.isTrue() {
			j.forbidden(&override, "may not be specified when setHostnameAsFQDN is true")
		}
		if network.isTrue() {
			j.forbidden(&override, "may not be specified when hostNetwork is true")
		}
		if len(override.text()) > 64 {
			j.tooLong(&override, 64)
		}
		j.dnsSubdomain(&override)
	}
	for _, member := range []string{"serviceAccountName", "nodeName"} {
		if p := spec.member(member); p.text() != "" {
			j.dnsSubdomain(&p)
		}
	}
	if deadline := spec.member("activeDeadlineSeconds"); deadline.has() {
		j.restrict(&deadline, 1, math.MaxInt32, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	if part.anyHost {
		return
	}
	for _, member := range []string{"hostname", "subdomain"} {
		if p := spec.member(member); p.text() != "" {
			j.dnsLabel(&p)
		}
	}
}

// podRuntime judges the members about running a Pod.
func (j *judge) podRuntime(spec, system, systemName *place) {
	tolerations, aliases := spec.member("tolerations"), spec.member("hostAliases")
	j.tolerations(&tolerations)
	for i := range aliases.size() {
		at := aliases.item(i)
		ip, names := at.member("ip"), at.member("hostnames")
		j.ipAddress(&ip)
		for k := range names.size() {
			name := names.item(k)
			j.dnsSubdomain(&name)
		}
	}
	priority, runtime := spec.member("priorityClassName"), spec.member("runtimeClassName")
	if priority.text() != "" {
		j.dnsSubdomain(&priority)
	}
	if runtime.has() {
		j.dnsSubdomain(&runtime)
	}
	if preemption := spec.member("preemptionPolicy"); preemption.has() {
		j.needsOneOf(&preemption, "PreemptLowerPriority", "Never")
	}
	if overhead := spec.member("overhead"); overhead.has() {
		j.overhead(&overhead, overhead.value)
	}
	if !system.has() {
		return
	}
	switch systemName.text() {
	case "":
		j.require(systemName, "")
	case "linux", "windows":
		j.systemFields(spec, systemName.text())
	default:
		j.addUnknown(system, systemName.text(), "linux", "windows")
	}
}
