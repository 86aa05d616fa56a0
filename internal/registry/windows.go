package registry

import (
	"fmt"
	"strings"

	"github.com/celgate/celgate/internal/pattern"
)

const maxCredentialSpec = 64 << 10 // bytes

func (j *judge) windowsOptions(p *place) {
	if !p.has() {
		return
	}
	name, spec, user := p.member("gmsaCredentialSpecName"), p.member("gmsaCredentialSpec"), p.member("runAsUserName")
	if name.has() {
		j.dnsSubdomain(&name)
	}
	switch size := len(spec.text()); {
	case !spec.has():
	case size == 0:
		j.invalid(&spec, "", "gmsaCredentialSpec cannot be an empty string")
	case size > maxCredentialSpec:
		j.invalid(&spec, spec.text(), fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxCredentialSpec>>10))
	}
	if user.has() {
		j.windowsUser(&user)
	}
}

var (
	controls      = pattern.New(`[[:cntrl:]]`)
	netBIOSDomain = pattern.New(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	dnsDomain     = pattern.New(
		`^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)
	dotsAndSpaces = pattern.New(`^[. ]+$`)
)

// windowsUser judges the name of a user of Windows, before which a domain and a backslash may be.
func (j *judge) windowsUser(p *place) {
	const maxDomain, maxUser = 256, 104
	const notInUser = `"/\:;|=,+*?<>@[]`
	text := p.text()
	invalid := func(detail string) { j.invalid(p, text, "runAsUserName"+detail) }
	switch {
	case text == "":
		invalid(" cannot be an empty string")
		return
	case controls().MatchString(text):
		invalid(" cannot contain control characters")
		return
	case strings.Count(text, `\`) > 1:
		invalid(" cannot contain more than one backslash")
		return
	}
	domain, user, hasDomain := strings.Cut(text, `\`)
	if !hasDomain {
		domain, user = "", text
	}
	if len(domain) >= maxDomain {
		invalid(fmt.Sprintf("'s Domain length must be under %d characters", maxDomain))
	}
	if hasDomain && !netBIOSDomain().MatchString(domain) && !dnsDomain().MatchString(domain) {
		invalid("'s Domain doesn't match the NetBios nor the DNS format")
	}
	switch {
	case user == "":
		invalid("'s User cannot be empty")
	case len(user) > maxUser:
		invalid(fmt.Sprintf("'s User length must not be longer than %d characters", maxUser))
	}
	if dotsAndSpaces().MatchString(user) {
		invalid("'s User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, notInUser) {
		invalid("'s User cannot contain the following characters: " + notInUser)
	}
}

// hostProcess returns whether a Pod or container asks for processes of a Windows host, its own value or none.
func hostProcess(p *place) place {
	security := p.member("securityContext")
	options := security.member("windowsOptions")
	return options.member("hostProcess")
}

// hostProcesses judges a Pod whose containers are processes of a Windows host. Whether the server allows them, which
// depends on one of its flags, is left out.
func (j *judge) hostProcesses(spec *place) {
	ofPod := hostProcess(spec)
	all, of := 0, 0
	eachContainer(spec, func(c *place) {
		all++
		own := hostProcess(c)
		if ofPod.has() && own.has() && own.value != ofPod.value {
			j.invalid(&own, own.value, fmt.Sprintf(
				"pod hostProcess value must be identical if both are specified, was %v", ofPod.value))
		}
		if own.isTrue() || !own.has() && ofPod.isTrue() {
			of++
		}
	})
	if of == 0 {
		return
	}
	if of != all {
		j.invalid(spec, "",
			"If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if network := spec.member("hostNetwork"); !network.isTrue() {
		j.invalid(&network, false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}

// Members that are only for Linux.
var (
	linuxOfSecurity = []string{"appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy",
		"sysctls", "runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"}
	linuxOfPod       = []string{"hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"}
	linuxOfContainer = []string{"appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities",
		"readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"}
)

// systemFields forbids members of a Pod that are for another operating system than its own.
func (j *judge) systemFields(spec *place, system string) {
	none := func(p *place, detail string, members ...string) {
		for _, member := range members {
			at := p.member(member)
			isUnset := member == "sysctls" && at.size() == 0 || (member == "hostPID" || member == "hostIPC") && !at.isTrue()
			if at.has() && !isUnset {
				j.forbidden(&at, detail)
			}
		}
	}
	security := spec.member("securityContext")
	if system == "linux" {
		const detail = "windows options cannot be set for a linux pod"
		none(&security, detail, "windowsOptions")
		eachContainer(spec, func(c *place) {
			own := c.member("securityContext")
			none(&own, detail, "windowsOptions")
		})
		return
	}
	const detail = "cannot be set for a windows pod"
	none(&security, detail, linuxOfSecurity...)
	none(spec, detail, linuxOfPod...)
	eachContainer(spec, func(c *place) {
		own := c.member("securityContext")
		none(&own, detail, linuxOfContainer...)
	})
}
