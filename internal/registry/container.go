package registry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A pod is the context of the rules of containers.
type pod struct {
	volumes   map[string]map[string]any // the valid ones, by name
	claims    []string                  // names of resource claims, sorted
	grace     *int64                    // terminationGracePeriodSeconds
	os        string                    // "" if unset
	namesOS   bool
	restart   string // restartPolicy
	hostUsers bool
}

// eachContainer calls visit for all containers of the spec of a Pod, in the server's order.
func eachContainer(spec *place, visit func(c *place)) {
	for _, member := range []string{"initContainers", "containers", "ephemeralContainers"} {
		list := spec.member(member)
		for i := range list.size() {
			c := list.item(i)
			visit(&c)
		}
	}
}

// container judges the members that all sorts of containers have (pkg/apis/core/validation/validation.go of v1.37.2,
// the source of all rules for Pods).
func (j *judge) container(c *place, of *pod) {
	name, image, policy := c.member("name"), c.member("image"), c.member("terminationMessagePolicy")
	if j.needs(&name) {
		j.dnsLabel(&name)
	}
	j.needs(&image)
	j.needsOneOf(&policy, "File", "FallbackToLogsOnError")
	ports, env, from := c.member("ports"), c.member("env"), c.member("envFrom")
	mounts, devices := c.member("volumeMounts"), c.member("volumeDevices")
	j.containerPorts(&ports)
	for i := range env.size() {
		at := env.item(i)
		j.variable(&at)
	}
	j.variablesFrom(&from)
	j.mounts(&mounts, &devices, c, of)
	j.devices(&devices, &mounts, of)
	pull, resources := c.member("imagePullPolicy"), c.member("resources")
	j.needsOneOf(&pull, "Always", "IfNotPresent", "Never")
	j.containerResources(&resources, of.claims)
	resize, security := c.member("resizePolicy"), c.member("securityContext")
	j.resizePolicy(&resize, of)
	j.containerSecurity(&security, of)
}

var protocols = []string{"SCTP", "TCP", "UDP"}

func (j *judge) containerPorts(ports *place) {
	seen := map[string]bool{}
	for i := range ports.size() {
		at := ports.item(i)
		name, number, host, protocol := at.member("name"), at.member("containerPort"), at.member("hostPort"),
			at.member("protocol")
		if text := name.text(); text != "" {
			switch messages := validation.IsValidPortName(text); {
			case len(messages) > 0:
				j.each(&name, name.value, messages)
			case seen[text]:
				j.duplicate(&name, text)
			default:
				seen[text] = true
			}
		}
		if number.number() == 0 {
			j.require(&number, "")
		} else {
			j.portNumber(&number)
		}
		if host.number() != 0 {
			j.portNumber(&host)
		}
		j.needsOneOf(&protocol, protocols...)
	}
}

// hostPorts requires ports of a host to be distinct.
func (j *judge) hostPorts(containers *place, from, to int) {
	var seen map[string]bool
	for i := from; i < to; i++ {
		c := containers.item(i)
		ports := c.member("ports")
		for k := range ports.size() {
			at := ports.item(k)
			host, protocol, ip := at.member("hostPort"), at.member("protocol"), at.member("hostIP")
			if host.number() == 0 {
				continue
			}
			text := protocol.text() + "/" + ip.text() + "/" + strconv.FormatInt(host.number(), 10)
			if seen[text] {
				j.duplicate(&host, text)
			}
			if seen == nil {
				seen = map[string]bool{}
			}
			seen[text] = true
		}
	}
}

func (j *judge) variable(at *place) {
	if name := at.member("name"); j.needs(&name) {
		j.variableName(&name)
	}
	from := at.member("valueFrom")
	if !from.has() {
		return
	}
	field, resource, config, secret, file := from.member("fieldRef"), from.member("resourceFieldRef"),
		from.member("configMapKeyRef"),
		from.member("secretKeyRef"), from.member("fileKeyRef")
	sources := 0
	if field.has() {
		sources++
		j.fieldRef(&field, variableFields)
	}
	if resource.has() {
		sources++
		j.resourceFieldRef(&resource, false)
	}
	for _, ref := range []*place{&config, &secret} {
		if ref.has() {
			sources++
			j.keyRef(ref)
		}
	}
	if file.has() {
		sources++
		j.fileKeyRef(&file)
	}
	switch value := at.member("value"); {
	case sources == 0 && j.lacks("EnvFiles"):
		j.invalid(&from, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`")
	case sources == 0:
		j.invalid(&from, "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case value.text() != "":
		j.invalid(&from, "", "may not be specified when `value` is not empty")
	case sources > 1:
		j.invalid(&from, "", "may not have more than one field specified at a time")
	}
}

var (
	variableFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
		"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	volumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
		"metadata.uid"}
	podFields = append([]string{"metadata.annotations", "metadata.labels", "status.phase", "spec.restartPolicy",
		"spec.schedulerName", "spec.host"}, variableFields...)
	resourceFields = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
		"requests.ephemeral-storage", "requests.memory"}
)

// fieldRef judges a reference to a field of the Pod, which must be a known one.
func (j *judge) fieldRef(p *place, known []string) {
	version, at := p.member("apiVersion"), p.member("fieldPath")
	if !j.needs(&version) || !j.needs(&at) {
		return
	}
	text := at.text()
	if version.text() != "v1" {
		j.invalid(&at, text, fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", version.text()))
		return
	}
	if name, subscript, ok := splitSubscript(text); ok {
		switch name {
		case "metadata.annotations":
			j.qualifiedName(p, strings.ToLower(subscript))
		case "metadata.labels":
			j.qualifiedName(p, subscript)
		default:
			j.invalid(&at, text, fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s",
				text))
		}
		return
	}
	if !slices.Contains(podFields, text) {
		j.invalid(&at, text, fmt.Sprintf("error converting fieldPath: field label not supported: %s", text))
		return
	}
	if text == "spec.host" {
		text = "spec.nodeName"
	}
	if !slices.Contains(known, text) {
		j.addUnknown(&at, text, known...)
	}
}

// splitSubscript splits a text such as metadata.labels['app'].
func splitSubscript(text string) (name, subscript string, ok bool) {
	text, ok = strings.CutSuffix(text, "']")
	if !ok {
		return "", "", false
	}
	name, subscript, ok = strings.Cut(text, "['")
	return name, subscript, ok && name != ""
}

func (j *judge) resourceFieldRef(p *place, inVolume bool) {
	container, resource, divisor := p.member("containerName"), p.member("resource"), p.member("divisor")
	name := resource.text()
	pages := strings.HasPrefix(name, "requests."+hugePages) || strings.HasPrefix(name, "limits."+hugePages)
	switch {
	case inVolume && container.text() == "":
		j.require(&container, "")
	case name == "":
		j.require(&resource, "")
	case !pages && !slices.Contains(resourceFields, name):
		j.addUnknown(&resource, name, resourceFields...)
	}
	q := divisor.quantity()
	if q.IsZero() {
		return
	}
	what := ""
	switch {
	case name == "limits.cpu" || name == "requests.cpu":
		if text := q.String(); text != "1m" && text != "1" {
			j.invalid(&divisor, name, "only divisor's values 1m and 1 are supported with the cpu resource")
		}
		return
	case name == "limits.memory" || name == "requests.memory":
		what = "memory"
	case name == "limits.ephemeral-storage" || name == "requests.ephemeral-storage":
		what = "local ephemeral storage"
	case pages:
		what = "hugepages"
	default:
		return
	}
	units := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	if !slices.Contains(units, q.String()) {
		j.invalid(&divisor, name, fmt.Sprintf("only divisor's values %s are supported with the %s resource",
			strings.Join(units, ", "), what))
	}
}

// keyRef judges a reference to a key of a ConfigMap or Secret.
func (j *judge) keyRef(p *place) {
	name, key := p.member("name"), p.member("key")
	j.dnsSubdomain(&name)
	if j.needs(&key) {
		j.each(&key, key.value, validation.IsConfigMapKey(key.text()))
	}
}

// variableName requires the name of an environment variable.
func (j *judge) variableName(p *place) {
	switch {
	case j.lacks("RelaxedEnvironmentVariableValidation"):
		j.each(p, p.value, validation.IsEnvVarName(p.text()))
	case !isPlainWord(p.text()):
		j.each(p, p.value, validation.IsRelaxedEnvVarName(p.text()))
	}
}

func (j *judge) fileKeyRef(p *place) {
	key, volume, path := p.member("key"), p.member("volumeName"), p.member("path")
	if j.needs(&key) {
		j.variableName(&key)
	}
	if j.needs(&volume) {
		j.dnsLabel(&volume)
	}
	if j.needs(&path) {
		j.withoutBacksteps(&path)
	}
}

// envFiles requires the files of variables to be in volumes of the Pod that begin empty.
func (j *judge) envFiles(spec, volumes *place) {
	eachContainer(spec, func(c *place) {
		env := c.member("env")
		for i := range env.size() {
			at := env.item(i)
			from := at.member("valueFrom")
			file := from.member("fileKeyRef")
			if !file.has() {
				continue
			}
			name := file.member("volumeName")
			var source *place
			for k := range volumes.size() {
				volume := volumes.item(k)
				if own := volume.member("name"); own.text() == name.text() {
					source = &volume
				}
			}
			switch {
			case source == nil:
				j.notFound(&name, name.text(), "")
			case !hasMember(source, "emptyDir"):
				j.invalid(&name, name.text(), "referenced volume must be of type emptyDir")
			}
		}
	})
}

func (j *judge) variablesFrom(list *place) {
	for i := range list.size() {
		at := list.item(i)
		if prefix := at.member("prefix"); prefix.text() != "" {
			j.variableName(&prefix)
		}
		config, secret := at.member("configMapRef"), at.member("secretRef")
		sources := 0
		for _, ref := range []*place{&config, &secret} {
			if !ref.has() {
				continue
			}
			sources++
			if name := ref.member("name"); j.needs(&name) && !isPlainName(name.text()) {
				j.each(&name, name.value, validation.IsDNS1123Subdomain(strings.TrimSuffix(name.text(), "-")))
			}
		}
		switch {
		case sources == 0:
			j.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`")
		case sources > 1:
			j.invalid(list, "", "may not have more than one field specified at a time")
		}
	}
}

func (j *judge) mounts(mounts, devices, c *place, of *pod) {
	seen := map[string]bool{}
	for i := range mounts.size() {
		at := mounts.item(i)
		name, path := at.member("name"), at.member("mountPath")
		j.needs(&name)
		source, known := of.volumes[name.text()]
		if !known {
			j.notFound(&name, name.text(), "")
		}
		j.needs(&path)
		if seen[path.text()] {
			j.invalid(&path, path.text(), "must be unique")
		}
		seen[path.text()] = true
		if devices.hasItem("name", name.text()) {
			j.invalid(&name, name.text(), "must not already exist in volumeDevices")
		}
		if devices.hasItem("devicePath", path.text()) {
			j.invalid(&path, path.text(), "must not already exist as a path in volumeDevices")
		}
		sub, expression := at.member("subPath"), at.member("subPathExpr")
		below := mounts.member("subPath")
		if sub.text() != "" {
			j.descendingPath(&below, &sub)
		}
		if expression.text() != "" {
			if sub.text() != "" {
				j.invalid(&expression, expression.text(), "subPathExpr and subPath are mutually exclusive")
			}
			below = mounts.member("subPathExpr")
			j.descendingPath(&below, &expression)
		}
		j.propagation(mounts, &at, c)
		j.recursiveReadOnly(mounts, &at)
		options := at.member("bindMountOptions")
		j.bindOptions(&options)
		if options.size() > 0 && source["image"] != nil {
			j.invalid(&options, options.value, "bindMountOptions may not be used with image volumes")
		}
	}
}

func (j *judge) propagation(mounts, at, c *place) {
	given, below := at.member("mountPropagation"), mounts.member("mountPropagation")
	if !given.has() {
		return
	}
	known := []string{"Bidirectional", "HostToContainer", "None"}
	if !slices.Contains(known, given.text()) {
		j.addUnknown(&below, given.text(), known...)
	}
	security := c.member("securityContext")
	if privileged := security.member("privileged"); given.text() == "Bidirectional" && !privileged.isTrue() {
		j.forbidden(&below, "Bidirectional mount propagation is available only to privileged containers")
	}
}

func (j *judge) recursiveReadOnly(mounts, at *place) {
	given, below := at.member("recursiveReadOnly"), mounts.member("recursiveReadOnly")
	if !given.has() {
		return
	}
	switch given.text() {
	case "Disabled":
	case "Enabled", "IfPossible":
		if readOnly := at.member("readOnly"); !readOnly.isTrue() {
			j.forbidden(&below, "may only be specified when readOnly is true")
		}
		if propagation := at.member("mountPropagation"); propagation.has() && propagation.text() != "None" {
			j.forbidden(&below, "may only be specified when mountPropagation is None or not specified")
		}
	default:
		j.addUnknown(&below, given.text(), "Disabled", "Enabled", "IfPossible")
	}
}

func (j *judge) bindOptions(list *place) {
	known := []string{"noexec", "nodev", "nosuid"}
	slices.Sort(known)
	seen := map[string]bool{}
	for i, option := range list.texts() {
		at := list.item(i)
		if !slices.Contains(known, option) {
			j.addUnknown(&at, option, known...)
		}
		if seen[option] {
			j.duplicate(&at, option)
		}
		seen[option] = true
	}
}

func (j *judge) devices(devices, mounts *place, of *pod) {
	names, paths := map[string]bool{}, map[string]bool{}
	for i := range devices.size() {
		at := devices.item(i)
		name, path := at.member("name"), at.member("devicePath")
		source, known := of.volumes[name.text()]
		j.needs(&name)
		if names[name.text()] {
			j.invalid(&name, name.text(), "must be unique")
		}
		switch {
		case !known:
			j.notFound(&name, name.text(), "")
		case source["persistentVolumeClaim"] == nil && source["ephemeral"] == nil:
			j.invalid(&name, name.text(),
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		j.needs(&path)
		if paths[path.text()] {
			j.invalid(&path, path.text(), "must be unique")
		}
		if slices.Contains(strings.Split(path.text(), "/"), "..") {
			j.invalid(&path, path.text(), "can not contain backsteps ('..')")
		} else {
			paths[path.text()] = true
		}
		if mounts.hasItem("name", name.text()) {
			j.invalid(&name, name.text(), "must not already exist in volumeMounts")
		}
		if mounts.hasItem("mountPath", path.text()) {
			j.invalid(&path, path.text(), "must not already exist as a path in volumeMounts")
		}
		if name.text() != "" {
			names[name.text()] = true
		}
	}
}

func (j *judge) resizePolicy(list *place, of *pod) {
	seen := map[string]bool{}
	for i := range list.size() {
		at := list.item(i)
		resource, policy := at.member("resourceName"), at.member("restartPolicy")
		if seen[resource.text()] {
			j.duplicate(&at, word(resource.text()))
		}
		seen[resource.text()] = true
		for _, p := range []struct {
			text  string
			known []string
		}{{resource.text(), []string{"cpu", "memory"}}, {policy.text(), []string{"NotRequired", "RestartContainer"}}} {
			switch {
			case p.text == "":
				j.require(list, "")
			case !slices.Contains(p.known, p.text):
				j.addUnknown(list, p.text, p.known...)
			}
		}
		if of.restart == "Never" && policy.text() != "NotRequired" {
			j.invalid(list, word(policy.text()), "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
		}
	}
}

// containerSecurity judges a securityContext. Whether the server allows privileged containers, which depends on one of
// its flags, is left out.
func (j *judge) containerSecurity(p *place, of *pod) {
	if !p.has() {
		return
	}
	user, group, mount := p.member("runAsUser"), p.member("runAsGroup"), p.member("procMount")
	j.userID(&user)
	j.groupID(&group)
	if mount.has() {
		if text := mount.text(); text != "Default" && text != "Unmasked" {
			j.addUnknown(&mount, text, "Default", "Unmasked")
		} else if text == "Unmasked" && of.hostUsers {
			j.invalid(&mount, word(text), "`hostUsers` must be false to use `Unmasked`")
		}
	}
	seccomp, apparmor := p.member("seccompProfile"), p.member("appArmorProfile")
	j.seccomp(&seccomp)
	privileged, escalation := p.member("privileged"), p.member("allowPrivilegeEscalation")
	if escalation.value == false && privileged.isTrue() {
		j.invalid(p, p.value, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
	}
	capabilities := p.member("capabilities")
	add := capabilities.member("add")
	if escalation.value == false && slices.Contains(add.texts(), "CAP_SYS_ADMIN") {
		j.forgive("system administration", func() {
			j.invalid(p, p.value, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
		})
	}
	windows := p.member("windowsOptions")
	j.windowsOptions(&windows)
	j.apparmor(&apparmor)
}

func (j *judge) seccomp(p *place) {
	if !p.has() {
		return
	}
	kind, profile := p.member("type"), p.member("localhostProfile")
	if kind.text() == "" {
		j.require(&kind, "type is required when seccompProfile is set")
	}
	j.oneOf(&kind, "Localhost", "RuntimeDefault", "Unconfined")
	switch {
	case kind.text() != "Localhost":
		if profile.has() {
			shown := struct{ Type, LocalhostProfile string }{kind.text(), profile.text()}
			j.invalid(&profile, shown, "can only be set when seccomp type is Localhost")
		}
	case !profile.has():
		j.require(&profile, "must be set when seccomp type is Localhost")
	default:
		j.descendingPath(&profile, &profile)
	}
}

func (j *judge) apparmor(p *place) {
	if !p.has() {
		return
	}
	kind, profile := p.member("type"), p.member("localhostProfile")
	switch kind.text() {
	case "Localhost":
		if !profile.has() {
			j.require(&profile, "must be set when AppArmor type is Localhost")
			return
		}
		switch trimmed := strings.TrimSpace(profile.text()); {
		case trimmed != profile.text():
			j.invalid(&profile, profile.text(), "must not be padded with whitespace")
		case trimmed == "":
			j.require(&profile, "must be set when AppArmor type is Localhost")
		}
		if len(profile.text()) > 4095 {
			j.tooLong(&profile, 4095)
		}
	case "RuntimeDefault", "Unconfined":
		if profile.has() {
			j.invalid(&profile, word(profile.text()), "can only be set when AppArmor type is Localhost")
		}
	case "":
		j.require(&kind, "type is required when appArmorProfile is set")
	default:
		j.addUnknown(&kind, kind.text(), "Localhost", "RuntimeDefault", "Unconfined")
	}
}

// probes judges the probes of a container.
func (j *judge) probes(c *place, of *pod) {
	for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		p := c.member(name)
		if !p.has() {
			continue
		}
		j.handler(&p, of)
		for _, member := range []string{"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
			"failureThreshold"} {
			at := p.member(member)
			j.nonnegative(&at)
		}
		grace, threshold := p.member("terminationGracePeriodSeconds"), p.member("successThreshold")
		if grace.has() && grace.number() <= 0 {
			j.invalid(&grace, grace.number(), "must be greater than 0")
		}
		switch {
		case name == "readinessProbe":
			if grace.has() {
				j.invalid(&grace, grace.number(), "must not be set for readinessProbes")
			}
		case threshold.number() != 1:
			j.invalid(&threshold, threshold.number(), "must be 1")
		}
	}
}

// lifecycle judges the hooks that run when a container starts and ends.
func (j *judge) lifecycle(p *place, of *pod) {
	start, stop, signal := p.member("postStart"), p.member("preStop"), p.member("stopSignal")
	if start.has() {
		j.handler(&start, of)
	}
	if stop.has() {
		j.handler(&stop, of)
	}
	if signal.has() && !of.namesOS {
		j.forbidden(&signal, "may not be set for containers with empty `spec.os.name`")
	}
}

// handler judges the single action of a probe or a hook.
func (j *judge) handler(p *place, of *pod) {
	handlers := 0
	for _, name := range []string{"exec", "httpGet", "tcpSocket", "grpc", "sleep"} {
		at := p.member(name)
		if !at.has() {
			continue
		}
		if handlers++; handlers > 1 {
			j.forbidden(&at, "may not specify more than 1 handler type")
			continue
		}
		port := at.member("port")
		switch name {
		case "exec":
			if command := at.member("command"); command.size() == 0 {
				j.require(&command, "")
			}
		case "httpGet":
			j.httpGet(&at)
		case "tcpSocket":
			j.port(&port)
		case "grpc":
			j.port(&port)
			if mode := at.member("mode"); mode.has() {
				j.oneOf(&mode, "Plaintext", "TLS")
			}
		case "sleep":
			seconds := at.member("seconds")
			least, said := int64(0), "must be non-negative and less than terminationGracePeriodSeconds (%d)"
			if j.lacks("PodLifecycleSleepActionAllowZero") {
				least, said = 1, "must be greater than 0 and less than terminationGracePeriodSeconds (%d)"
			}
			if n := seconds.number(); of.grace != nil && (n < least || n > *of.grace) {
				j.invalid(&at, n, fmt.Sprintf(said, *of.grace))
			}
		}
	}
	if handlers == 0 {
		j.require(p, "must specify a handler type")
	}
}

func (j *judge) httpGet(p *place) {
	path, port, scheme, headers := p.member("path"), p.member("port"), p.member("scheme"), p.member("httpHeaders")
	j.needs(&path)
	j.port(&port)
	if text := scheme.text(); text != "HTTP" && text != "HTTPS" {
		j.addUnknown(&scheme, text, "HTTP", "HTTPS")
	}
	for i := range headers.size() {
		at := headers.item(i)
		name := at.member("name")
		j.each(&headers, name.text(), validation.IsHTTPHeaderName(name.text()))
	}
}

// restartRules judges restartPolicy and restartPolicyRules of a container; first: it is an init container.
func (j *judge) restartRules(c *place, first bool) {
	policy, rules := c.member("restartPolicy"), c.member("restartPolicyRules")
	all := !j.lacks("RestartAllContainersOnContainerExits")
	switch {
	case policy.has() && !first && j.lacks("ContainerRestartPolicyRule"):
		j.forbidden(&policy, "may not be set for non-init containers")
		return
	case policy.has() && j.lacks("ContainerRestartPolicyRule"):
		if policy.text() != "Always" {
			j.addUnknown(&policy, policy.text(), "Always")
		}
		return
	case first && policy.text() == "Always" && !all:
		if rules.size() > 0 {
			j.forbidden(&rules, "restartPolicyRules are not allowed for init containers with restart policy Always")
		}
		return
	case policy.has():
		if known := []string{"Always", "Never", "OnFailure"}; !slices.Contains(known, policy.text()) {
			j.addUnknown(&policy, policy.text(), known...)
		}
	case rules.size() > 0:
		j.require(&policy, "must specify restartPolicy when restart rules are used")
		if first {
			return
		}
	default:
		return
	}
	if rules.size() > 20 {
		j.tooMany(&rules, 20)
	}
	for i := range rules.size() {
		at := rules.item(i)
		action, codes := at.member("action"), at.member("exitCodes")
		known := []string{"Restart", "RestartAllContainers"}
		if !all {
			known = known[:1]
		}
		if !slices.Contains(known, action.text()) {
			j.addUnknown(&action, action.text(), known...)
		}
		if !codes.has() {
			j.require(&codes, "must be specified")
			continue
		}
		operator, values := codes.member("operator"), codes.member("values")
		if known := []string{"In", "NotIn"}; !slices.Contains(known, operator.text()) {
			j.addUnknown(&operator, operator.text(), known...)
		}
		if values.size() > 255 {
			j.tooMany(&values, 255)
		}
	}
}

// comparison judges the number of a toleration with a comparison operator.
func (j *judge) comparison(p *place) {
	text := p.text()
	j.eachText(p, content.IsDecimalInteger(text))
	if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		j.invalid(p, text, err.Error())
	}
}
