package registry

import (
	"net"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/pattern"
)

// requiring returns the rule that requires members of a volume source to be non-empty strings.
func requiring(members ...string) func(*judge, *place) {
	return func(j *judge, p *place) {
		for _, member := range members {
			at := p.member(member)
			j.needs(&at)
		}
	}
}

// secretRef requires the name of a Secret, if there is a reference to one.
func (j *judge) secretRef(p *place) {
	ref := p.member("secretRef")
	if name := ref.member("name"); ref.has() {
		j.needs(&name)
	}
}

func (j *judge) gitRepo(p *place) {
	repository, directory := p.member("repository"), p.member("directory")
	j.needs(&repository)
	j.descendingPath(&directory, &directory)
}

// disk judges a disk of which a partition may be mounted; member names the disk.
func (j *judge) disk(p *place, member string) {
	name, partition := p.member(member), p.member("partition")
	j.needs(&name)
	j.restrict(&partition, 0, 255, "must be between 1 and 255, inclusive") // 0 is the whole disk
}

// Forms of the names of iSCSI initiators and targets, by their first letters.
var iscsiNames = map[string]pattern.Regexp{
	"iqn": pattern.New(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": pattern.New(`^eui.[[:alnum:]]{16}$`),
	"naa": pattern.New(`^naa.[[:alnum:]]{32}$`),
}

func (j *judge) iscsiName(p *place) {
	text := p.text()
	switch form := iscsiNames[text[:min(3, len(text))]]; {
	case form == nil:
		j.invalid(p, text, "must be valid format starting with iqn, eui, or naa")
	case !form().MatchString(text):
		j.invalid(p, text, "must be valid format")
	}
}

func (j *judge) iscsi(p *place) {
	portal, iqn, lun, secret, initiator := p.member("targetPortal"), p.member("iqn"), p.member("lun"),
		p.member("secretRef"), p.member("initiatorName")
	j.needs(&portal)
	if j.needs(&iqn) {
		j.iscsiName(&iqn)
	}
	j.restrict(&lun, 0, 255, "must be between 0 and 255, inclusive")
	discovery, session := p.member("chapAuthDiscovery"), p.member("chapAuthSession")
	if (discovery.value == true || session.value == true) && !secret.has() {
		j.require(&secret, "")
	}
	if initiator.has() {
		shown := initiator
		shown.name = "initiatorname" // the server's path
		j.iscsiName(&shown)
	}
	volume := p.above.member("name")
	if initiator.has() && len(volume.text()+":"+portal.text()) > 64 {
		j.invalid(&volume, volume.text(), "Total length of <volume name>:<iscsi.targetPortal> must be under 64 "+
			"characters if iscsi.initiatorName is specified.")
	}
}

func (j *judge) flocker(p *place) {
	name, id := p.member("datasetName"), p.member("datasetUUID")
	if name.text() == "" && id.text() == "" {
		j.require(p, "one of datasetName and datasetUUID is required")
	}
	if name.text() != "" && id.text() != "" {
		j.invalid(p, "resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(name.text(), "/") {
		j.invalid(&name, name.text(), "must not contain '/'")
	}
}

func (j *judge) rbd(p *place) {
	monitors, image := p.member("monitors"), p.member("image")
	if monitors.size() == 0 {
		j.require(&monitors, "")
	}
	j.needs(&image)
}

func (j *judge) cephFS(p *place) {
	if monitors := p.member("monitors"); monitors.size() == 0 {
		j.require(&monitors, "")
	}
}

func (j *judge) cinder(p *place) {
	id := p.member("volumeID")
	j.needs(&id)
	j.secretRef(p)
}

func (j *judge) quobyte(p *place) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	registry, tenant, volume := p.member("registry"), p.member("tenant"), p.member("volume")
	switch {
	case registry.text() == "":
		j.require(&registry, pairs)
	case len(tenant.text()) > 64:
		j.require(&tenant, "must be a UUID and may not exceed a length of 64 characters")
	default:
		for pair := range strings.SplitSeq(registry.text(), ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				j.invalid(&registry, registry.text(), pairs)
			}
		}
	}
	j.needs(&volume)
}

func (j *judge) fibreChannel(p *place) {
	names, ids, lun := p.member("targetWWNs"), p.member("wwids"), p.member("lun")
	if names.size() == 0 && ids.size() == 0 {
		j.require(&names, "must specify either targetWWNs or wwids, but not both")
	}
	if names.size() == 0 {
		return
	}
	if ids.size() > 0 {
		j.invalid(&names, names.value, "targetWWNs and wwids can not be specified simultaneously")
	}
	if !lun.has() {
		j.require(&lun, "lun is required if targetWWNs is specified")
		return
	}
	j.restrict(&lun, 0, 255, "must be between 0 and 255, inclusive")
}

func (j *judge) flexVolume(p *place) {
	driver, options := p.member("driver"), p.member("options")
	j.needs(&driver)
	for _, key := range options.keys() {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			at := options.key(key)
			j.invalid(&at, key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (j *judge) azureDisk(p *place) {
	name, uri, caching, kind := p.member("diskName"), p.member("diskURI"), p.member("cachingMode"), p.member("kind")
	j.needs(&name)
	j.needs(&uri)
	for _, of := range []struct {
		at    *place
		known []string
	}{{&caching, []string{"None", "ReadOnly", "ReadWrite"}}, {&kind, []string{"Dedicated", "Managed", "Shared"}}} {
		if of.at.has() && !slices.Contains(of.known, of.at.text()) {
			j.addUnknown(of.at, of.at.text(), of.known...)
		}
	}
	switch managed := kind.text() == "Managed"; {
	case !kind.has():
	case managed && !strings.HasPrefix(uri.text(), "/subscriptions/"):
		j.addUnknown(&uri, uri.text(), "/subscriptions/{sub-id}/resourcegroups/{group-name}/"+
			"providers/microsoft.compute/disks/{disk-id}")
	case !managed && !strings.HasPrefix(uri.text(), "https://"):
		j.addUnknown(&uri, uri.text(), "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
	}
}

func (j *judge) storageOS(p *place) {
	name, namespace := p.member("volumeName"), p.member("volumeNamespace")
	if j.needs(&name) {
		j.dnsLabel(&name)
	}
	if namespace.text() != "" {
		j.dnsLabel(&namespace)
	}
	j.secretRef(p)
}
