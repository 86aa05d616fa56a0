package registry

import (
	"fmt"
	"strings"
)

// Annotations that name the profiles of a Pod, or with a prefix those of a container; fields have replaced them.
const (
	seccompOfPod        = "seccomp.security.alpha.kubernetes.io/pod"
	seccompOfContainer  = "container.seccomp.security.alpha.kubernetes.io/"
	apparmorOfContainer = "container.apparmor.security.beta.kubernetes.io/"
	localProfile        = "localhost/"
)

// profileAnnotations judges the annotations of a Pod that name profiles.
func (j *judge) profileAnnotations(p, spec *place) {
	if p.size() == 0 {
		return
	}
	pod := func(key string) bool { return key == seccompOfPod }
	container := func(key string) bool { return strings.HasPrefix(key, seccompOfContainer) }
	for _, concerns := range []func(string) bool{pod, container} {
		for _, key := range p.keys() {
			if concerns(key) {
				at := p.key(key)
				at.step = toMember // the server's path
				j.seccompAnnotation(&at)
			}
		}
	}
	for _, key := range p.keys() {
		name, ok := strings.CutPrefix(key, apparmorOfContainer)
		if !ok {
			continue
		}
		at, exists := p.key(key), false
		eachContainer(spec, func(c *place) {
			own := c.member("name")
			exists = exists || own.text() == name
		})
		if !exists {
			j.invalid(&at, name, "container not found")
		}
		switch text := at.text(); {
		case text == "", text == "runtime/default", text == "unconfined", strings.HasPrefix(text, localProfile):
		default:
			j.invalid(&at, text, fmt.Sprintf("invalid AppArmor profile name: %q", text))
		}
	}
}

func (j *judge) seccompAnnotation(p *place) {
	switch text := p.text(); text {
	case "runtime/default", "docker/default", "unconfined":
	default:
		file, ok := strings.CutPrefix(text, localProfile)
		if !ok {
			j.invalid(p, text, "must be a valid seccomp profile")
			return
		}
		at := *p
		at.value = file
		j.descendingPath(&at, &at)
	}
}

// compareProfiles requires the fields of profiles to say the same as the annotations.
func (j *judge) compareProfiles(annotations, spec *place) {
	if annotations.size() == 0 {
		return
	}
	security, system := spec.member("securityContext"), spec.member("os")
	seccomp, apparmor := security.member("seccompProfile"), security.member("appArmorProfile")
	given := annotations.key(seccompOfPod)
	j.compareProfile(&seccomp, &seccomp, &given, "seccomp", "docker/default")
	eachContainer(spec, func(c *place) {
		own, name := c.member("securityContext"), c.member("name")
		profile, given := own.member("seccompProfile"), annotations.key(seccompOfContainer+name.text())
		j.compareProfile(&profile, &profile, &given, "seccomp", "docker/default")
	})
	if name := system.member("name"); name.text() == "windows" {
		return
	}
	eachContainer(spec, func(c *place) {
		own, name := c.member("securityContext"), c.member("name")
		profile, given := own.member("appArmorProfile"), annotations.key(apparmorOfContainer+name.text())
		of := &profile
		if !profile.has() {
			of = &apparmor
		}
		j.compareProfile(&profile, of, &given, "apparmor")
	})
}

// compareProfile requires a profile to be that of an annotation. The errors are about p. standard are further texts for
// the default of the runtime.
func (j *judge) compareProfile(p, profile, annotation *place, what string, standard ...string) {
	if !profile.has() || !annotation.has() {
		return
	}
	kind, file := profile.member("type"), profile.member("localhostProfile")
	shownKind, shownFile := p.member("type"), p.member("localhostProfile")
	text := annotation.text()
	same := true
	switch kind.text() {
	case "Unconfined":
		same = text == "unconfined"
	case "RuntimeDefault":
		same = text == "runtime/default" || len(standard) > 0 && text == standard[0]
	case "Localhost":
		name, ok := strings.CutPrefix(text, localProfile)
		if same = ok; ok && (!file.has() || file.text() != name) {
			j.forbidden(&shownFile, what+" profile in annotation and field must match")
		}
	}
	if !same {
		j.forbidden(&shownKind, what+" type in annotation and field must match")
	}
}
