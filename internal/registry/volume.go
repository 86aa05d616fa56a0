package registry

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A volumeSource is a source of volumes, in the server's order, and the member that the server names if a volume has
// two.
type volumeSource struct {
	member, named string
	judge         func(*judge, *place)
}

var volumeSources []volumeSource

func init() {
	volumeSources = []volumeSource{
		{"hostPath", "hostPath", (*judge).hostPath}, {"gitRepo", "gitRepo", (*judge).gitRepo},
		{"gcePersistentDisk", "gcePersistentDisk", func(j *judge, p *place) {
			p.name = "persistentDisk" // as the server names it here
			j.disk(p, "pdName")
		}},
		{"awsElasticBlockStore", "awsElasticBlockStore", func(j *judge, p *place) { j.disk(p, "volumeID") }},
		{"secret", "secret", func(j *judge, p *place) { j.files(p, "secretName") }}, {"nfs", "nfs", (*judge).nfs},
		{"iscsi", "iscsi", (*judge).iscsi}, {"glusterfs", "glusterfs", requiring("endpoints", "path")},
		{"flocker", "flocker", (*judge).flocker},
		{"persistentVolumeClaim", "persistentVolumeClaim", requiring("claimName")},
		{"rbd", "rbd", (*judge).rbd}, {"cinder", "cinder", (*judge).cinder}, {"cephfs", "cephFS", (*judge).cephFS},
		{"quobyte", "quobyte", (*judge).quobyte},
		{"downwardAPI", "downwarAPI", func(j *judge, p *place) {
			mode, items := p.member("defaultMode"), p.member("items")
			j.fileMode(&mode)
			for i := range items.size() {
				at := items.item(i)
				j.downwardFile(p, &at)
			}
		}},
		{"fc", "fc", (*judge).fibreChannel}, {"flexVolume", "flexVolume", (*judge).flexVolume},
		{"configMap", "configMap", func(j *judge, p *place) { j.files(p, "name") }},
		{"azureFile", "azureFile", requiring("secretName", "shareName")},
		{"vsphereVolume", "vsphereVolume", requiring("volumePath")},
		{"photonPersistentDisk", "photonPersistentDisk", requiring("pdID")},
		{"portworxVolume", "portworxVolume", requiring("volumeID")}, {"azureDisk", "azureDisk", (*judge).azureDisk},
		{"storageos", "storageos", (*judge).storageOS},
		{"projected", "projected", (*judge).projection},
		{"scaleIO", "scaleIO", requiring("gateway", "system", "volumeName")}, {"csi", "csi", (*judge).csi},
		{"ephemeral", "ephemeral", (*judge).ephemeral},
		{"image", "image", func(j *judge, p *place) {
			reference, policy := p.member("reference"), p.member("pullPolicy")
			if reference.text() == "" {
				j.forgive("reference of an image volume", func() { j.require(&reference, "") })
			}
			j.needsOneOf(&policy, "Always", "IfNotPresent", "Never")
		}},
	}
}

// volumes judges the volumes of a Pod and returns the valid ones by name.
func (j *judge) volumes(list *place, podName string) map[string]map[string]any {
	valid := make(map[string]map[string]any, list.size())
	created := map[string]bool{}
	for i := range list.size() {
		at := list.item(i)
		if name := at.member("name"); podName != "" && hasMember(&at, "ephemeral") {
			created[podName+"-"+name.text()] = true
		}
	}
	for i := range list.size() {
		at := list.item(i)
		name := at.member("name")
		before := len(j.found)
		j.volumeSource(&at, podName)
		if j.needs(&name) {
			j.dnsLabel(&name)
		}
		if valid[name.text()] != nil {
			j.duplicate(&name, name.text())
		}
		if len(j.found) == before {
			valid[name.text()], _ = at.value.(map[string]any)
		}
		claim := at.member("persistentVolumeClaim")
		if claimName := claim.member("claimName"); claim.has() && created[claimName.text()] {
			j.invalid(&claimName, claimName.text(),
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
	return valid
}

func hasMember(p *place, name string) bool {
	member := p.member(name)
	return member.has()
}

func (j *judge) volumeSource(at *place, podName string) {
	members, _ := at.value.(map[string]any)
	sources := 0
	if empty := at.member("emptyDir"); empty.has() {
		sources++
		limit := empty.member("sizeLimit")
		if q := limit.quantity(); q.Sign() < 0 {
			j.forbidden(&limit, "SizeLimit field must be a valid resource quantity")
		}
	}
	for i := range volumeSources {
		s := &volumeSources[i]
		if members[s.member] == nil {
			continue
		}
		source := at.member(s.member)
		if sources++; sources > 1 {
			source.name = s.named
			j.forbidden(&source, "may not specify more than 1 volume type")
			continue
		}
		if s.judge != nil {
			s.judge(j, &source)
		}
		if name := at.member("name"); s.member == "ephemeral" && podName != "" && name.text() != "" {
			claim := podName + "-" + name.text()
			for _, message := range validation.IsDNS1123Subdomain(claim) {
				j.invalid(&name, name.text(), fmt.Sprintf("PVC name %q: %v", claim, message))
			}
		}
	}
	if sources == 0 {
		j.require(at, "must specify a volume type")
	}
}

func (j *judge) hostPath(p *place) {
	path, kind := p.member("path"), p.member("type")
	if !j.needs(&path) {
		return
	}
	j.withoutBacksteps(&path)
	known := []string{"", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
		"Socket"}
	if kind.has() && !slices.Contains(known, kind.text()) {
		j.addUnknown(&kind, kind.text(), known...)
	}
}

func (j *judge) nfs(p *place) {
	server, at := p.member("server"), p.member("path")
	j.needs(&server)
	j.needs(&at)
	if !path.IsAbs(at.text()) {
		j.invalid(&at, at.text(), "must be an absolute path")
	}
}

// files judges a volume of the keys of a ConfigMap or Secret; member has its name.
func (j *judge) files(p *place, member string) {
	name, mode, items := p.member(member), p.member("defaultMode"), p.member("items")
	j.needs(&name)
	j.fileMode(&mode)
	for i := range items.size() {
		at := items.item(i)
		j.keyToPath(&at)
	}
}

func (j *judge) keyToPath(p *place) {
	key, path, mode := p.member("key"), p.member("path"), p.member("mode")
	j.needs(&key)
	j.needs(&path)
	j.localPath(&path)
	j.fileMode(&mode)
}

// downwardFile judges a file with information about the Pod. The server's errors are about the volume, p.
func (j *judge) downwardFile(p, file *place) {
	of := *p
	of.value = file.value
	path, field, resource, mode := of.member("path"), of.member("fieldRef"), of.member("resourceFieldRef"),
		of.member("mode")
	j.needs(&path)
	j.localPath(&path)
	switch {
	case field.has():
		j.fieldRef(&field, volumeFields)
		if resource.has() {
			j.invalid(&of, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case resource.has():
		j.resourceFieldRef(&resource, true)
	default:
		j.require(&of, "one of fieldRef and resourceFieldRef is required")
	}
	j.fileMode(&mode)
}

func (j *judge) projection(p *place) {
	mode, sources := p.member("defaultMode"), p.member("sources")
	j.fileMode(&mode)
	paths := map[string]bool{}
	take := func(path, shown string) {
		if paths[path] {
			j.invalid(p, shown, "conflicting duplicate paths")
		}
		paths[path] = path != ""
	}
	for i := range sources.size() {
		at := sources.item(i)
		count := 0
		for _, kind := range []string{"secret", "configMap"} {
			source := at.member(kind)
			if !source.has() {
				continue
			}
			count++
			name, items := source.member("name"), source.member("items")
			j.needs(&name)
			for k := range items.size() {
				item := items.item(k)
				j.keyToPath(&item)
				path := item.member("path")
				take(path.text(), name.text())
			}
		}
		if source := at.member("downwardAPI"); source.has() {
			count++
			items := source.member("items")
			for k := range items.size() {
				item := items.item(k)
				j.downwardFile(&source, &item)
				path := item.member("path")
				take(path.text(), path.text())
			}
		}
		if source := at.member("serviceAccountToken"); source.has() {
			count++
			j.tokenFile(p, &source)
		}
		if source := at.member("clusterTrustBundle"); source.has() {
			count++
			j.trustBundle(&source)
			path := source.member("path")
			if paths[path.text()] {
				j.invalid(p, path.text(), "conflicting duplicate paths")
			}
			paths[path.text()] = true
		}
		if source := at.member("podCertificate"); source.has() {
			count++
			j.podCertificate(&source, func(path string) { take(path, path) })
		}
		if count > 1 {
			j.forbidden(&at, "may not specify more than 1 volume type per source")
		}
	}
}

func (j *judge) tokenFile(volume, p *place) {
	expiry := p.member("expirationSeconds")
	switch n := expiry.number(); {
	case !expiry.has():
		j.require(&expiry, "")
	case n < 10*60:
		j.invalid(&expiry, n, "may not specify a duration less than 10 minutes")
	case n > 1<<32:
		j.invalid(&expiry, n, "may not specify a duration larger than 2^32 seconds")
	}
	given, below := p.member("path"), volume.member("path")
	below.value = given.value
	if j.needs(&below) {
		j.forgive("token path", func() { j.localPath(&below) })
	}
}

// trustBundle judges a file of trusted certificates.
func (j *judge) trustBundle(p *place) {
	name, signer, selector, path := p.member("name"), p.member("signerName"), p.member("labelSelector"),
		p.member("path")
	switch {
	case name.has() && signer.has():
		j.invalid(p, p.value, "only one of name and signerName may be used")
	case name.has():
		if name.text() == "" {
			j.require(&name, "must be a valid object name")
		}
		for _, message := range checkBundleName(name.text()) {
			j.invalid(&name, name.text(), "not a valid clustertrustbundlename: "+message)
		}
		if selector.has() {
			j.invalid(&selector, selector.selector(), "labelSelector must be unset if name is specified")
		}
	case signer.has():
		if signer.text() == "" {
			j.require(&signer, "must be a valid signer name")
		}
		j.signerName(&signer)
		j.labelSelector(&selector)
	default:
		j.require(p, "either name or signerName must be specified")
	}
	j.needs(&path)
	j.localPath(&path)
}

// checkBundleName returns what is wrong with the name of a ClusterTrustBundle, which may begin with that of a signer.
func checkBundleName(name string) []string {
	at := strings.LastIndex(name, ":")
	if at == 0 {
		return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
	}
	if at > 0 && strings.Contains(name[:at], "/") {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s:",
			strings.ReplaceAll(name[:at], ":", "/"), strings.ReplaceAll(name[:at], "/", ":"))}
	}
	return validation.IsDNS1123Subdomain(name[at+1:])
}

// signerName requires the name of a signer of certificates, a domain and a path.
func (j *judge) signerName(p *place) {
	const maxPath = validation.DNS1123SubdomainMaxLength + 1 + validation.DNS1123LabelMaxLength
	if !j.needs(p) {
		return
	}
	text := p.text()
	domain, path, ok := strings.Cut(text, "/")
	if !ok || strings.Contains(path, "/") {
		j.invalid(p, text, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
		return
	}
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		j.tooLong(p, validation.DNS1123SubdomainMaxLength)
	}
	each := func(part string, check func(string) []string) {
		for label := range strings.SplitSeq(part, ".") {
			if messages := check(label); len(messages) > 0 {
				for _, message := range messages {
					j.invalid(p, part, fmt.Sprintf("validating label %q: %s", label, message))
				}
				return
			}
		}
	}
	each(domain, validation.IsDNS1123Label)
	if !strings.Contains(domain, ".") {
		j.invalid(p, domain, "should be a domain with at least two segments separated by dots")
	}
	each(path, validation.IsDNS1123Subdomain)
	if most := validation.DNS1123SubdomainMaxLength + 1 + maxPath; len(text) > most {
		j.tooLong(p, most)
	}
}

// podCertificate judges the files of a certificate for the Pod; take notes each path.
func (j *judge) podCertificate(p *place, take func(path string)) {
	signer, annotations, key, expiry := p.member("signerName"), p.member("userAnnotations"), p.member("keyType"),
		p.member("maxExpirationSeconds")
	j.signerName(&signer)
	given, _ := annotations.value.(map[string]any)
	for _, name := range annotations.keys() {
		j.add(validation.IsDomainPrefixedKey(annotations.path(), strings.ToLower(name))...)
	}
	if metavalidation.ValidateAnnotationsSize(texts(given)) != nil {
		j.tooLong(&annotations, metavalidation.TotalAnnotationSizeLimitB)
	}
	known := []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}
	if !slices.Contains(known, key.text()) {
		j.addUnknown(&key, key.text(), known...)
	}
	const day, least = 24 * 60 * 60, 60 * 60
	most := int64(91 * day)
	if domain, _, _ := strings.Cut(signer.text(), "/"); strings.HasSuffix("."+domain, ".kubernetes.io") {
		most = day
	}
	j.restrict(&expiry, least, math.MaxInt64, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", least))
	j.restrict(&expiry, math.MinInt64, most, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most))
	files := 0
	for _, member := range []string{"credentialBundlePath", "keyPath", "certificateChainPath"} {
		if path := p.member(member); path.text() != "" {
			files++
			j.localPath(&path)
			take(path.text())
		}
	}
	if files == 0 {
		j.require(p, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}

func (j *judge) csi(p *place) {
	driver, secret := p.member("driver"), p.member("nodePublishSecretRef")
	j.driverName(&driver)
	if secret.has() {
		if name := secret.member("name"); j.needs(&name) {
			at := p.member("name")
			at.value = name.value
			j.dnsSubdomain(&at)
		}
	}
}

func (j *judge) driverName(p *place) {
	if !j.needs(p) {
		return
	}
	if len(p.text()) > 63 {
		j.tooLong(p, 63)
	}
	j.eachText(p, validation.IsDNS1123Subdomain(strings.ToLower(p.text())))
}

func (j *judge) ephemeral(p *place) {
	template := p.member("volumeClaimTemplate")
	if !template.has() {
		j.require(&template, "")
		return
	}
	metadata, spec := template.member("metadata"), template.member("spec")
	annotations, labels := metadata.member("annotations"), metadata.member("labels")
	j.annotations(&annotations)
	j.labels(&labels)
	for _, member := range []string{"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion",
		"generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
		"finalizers", "managedFields"} {
		if at := metadata.member(member); at.size() > 0 || at.text() != "" || at.number() != 0 ||
			at.has() && member == "deletionGracePeriodSeconds" {
			j.forbidden(&at, "cannot be set")
		}
	}
	j.claim(&spec)
}

// claim judges the spec of a PersistentVolumeClaim.
func (j *judge) claim(spec *place) {
	modes, selector := spec.member("accessModes"), spec.member("selector")
	if modes.size() == 0 {
		j.require(&modes, "at least 1 access mode is required")
	}
	j.forgive("selector of a claim", func() { j.labelSelector(&selector) })
	known := []string{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"}
	alone, others := false, false
	for _, mode := range modes.texts() {
		switch {
		case !slices.Contains(known, mode):
			j.addUnknown(&modes, mode, known...)
		case mode == "ReadWriteOncePod":
			alone = true
		default:
			others = true
		}
	}
	if alone && others {
		j.forbidden(&modes, "may not use ReadWriteOncePod with other access modes")
	}
	resources := spec.member("resources")
	requests := resources.member("requests")
	given, shown := requests.member("storage"), resources.key("storage")
	if !given.has() {
		j.require(&shown, "")
	} else if q := given.quantity(); q.Sign() <= 0 {
		j.invalid(&shown, q.String(), "must be greater than zero")
	}
	class, mode := spec.member("storageClassName"), spec.member("volumeMode")
	if class.text() != "" {
		j.dnsSubdomain(&class)
	}
	if mode.has() && mode.text() != "Block" && mode.text() != "Filesystem" {
		j.addUnknown(&mode, mode.text(), "Block", "Filesystem")
	}
	source, ref := spec.member("dataSource"), spec.member("dataSourceRef")
	j.dataSource(&source)
	j.dataSource(&ref)
	namespace := ref.member("namespace")
	switch { // the server prints the path of the field instead of its value
	case !source.has() || !ref.has():
	case namespace.text() != "":
		j.invalid(spec, struct{}{}, "may not be specified when dataSourceRef.namespace is specified")
	case source.member("apiGroup").value != ref.member("apiGroup").value ||
		source.member("kind").value != ref.member("kind").value ||
		source.member("name").value != ref.member("name").value:
		j.invalid(spec, struct{}{}, "must match dataSourceRef")
	}
	attributes := spec.member("volumeAttributesClassName")
	if attributes.text() != "" && !j.lacks("VolumeAttributesClass") {
		j.dnsSubdomain(&attributes)
	}
}

func (j *judge) dataSource(p *place) {
	if !p.has() {
		return
	}
	name, kind, group := p.member("name"), p.member("kind"), p.member("apiGroup")
	j.needs(&name)
	j.needs(&kind)
	if group.text() == "" && kind.text() != "PersistentVolumeClaim" {
		j.invalid(p, kind.text(), "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	}
	if group.text() != "" {
		j.forgive("group of a data source", func() { j.dnsSubdomain(&group) })
	}
}
