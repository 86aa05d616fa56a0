package prepare

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/celgate/celgate/internal/certs"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// A warner collects the server's warnings about one object.
type warner struct {
	minor string
	texts []string
}

func (w *warner) add(format string, args ...any) {
	w.texts = append(w.texts, fmt.Sprintf(format, args...))
}

// say adds a warning about a field.
func (w *warner) say(at *place, format string, args ...any) {
	w.texts = append(w.texts, at.String()+": "+fmt.Sprintf(format, args...))
}

func (w *warner) ip(at *place, v any) {
	if quirks.IsBefore(w.minor, "1.33") {
		w.olderIP(at, text(v))
		return
	}
	if ip := text(v); netutils.ParseIPSloppy(ip) != nil { // otherwise the registry refuses the object
		w.texts = append(w.texts, validation.GetWarningsForIP(field.NewPath(at.String()), ip)...)
	}
}

func (w *warner) cidr(at *place, v any) {
	if quirks.IsBefore(w.minor, "1.33") {
		w.olderCIDR(at, text(v))
		return
	}
	cidr := text(v)
	if _, _, err := netutils.ParseCIDRSloppy(cidr); err == nil { // otherwise the registry refuses the object
		w.texts = append(w.texts, validation.GetWarningsForCIDR(field.NewPath(at.String()), cidr)...)
	}
}

// Warnings returns the warnings of the registry of a minor about the object of a request as [ObjectToValidate] returns
// it, before validating policies see it: the functions WarningsOnCreate and WarningsOnUpdate in k8s.io/kubernetes
// v1.37.2 pkg/registry/*/*/strategy.go, and those of custom resources.
//
// Left out are those of CustomResourceDefinitions about formats, and of webhook configurations about virtual resources.
func Warnings(in Input, minor string) []string { return asOf(minor, warningsBy(in, minor)) }

// warningsBy returns the warnings, some of them in the words of the newest minor.
func warningsBy(in Input, minor string) []string {
	if in.Resource == nil {
		return nil
	}
	w := &warner{minor: minor}
	if in.Resource.Definition != nil {
		if in.Object != nil && (in.Operation == create || in.Operation == update) && in.SubResource == "" {
			w.finalizers(in)
		}
		return w.texts
	}
	group := in.Resource.GroupResource()
	warn := warnings[schema.GroupResource{Group: group.Group,
		Resource: strings.TrimSuffix(group.Resource+"/"+in.SubResource, "/")}]
	if warn == nil {
		return nil
	}
	switch {
	case in.Operation == "DELETE" && warn.delete != nil:
		warn.delete(w, in)
	case in.Object == nil:
	case in.Operation == create && group.Resource == "pods" && in.SubResource == "":
		if in.Before != nil {
			w.warnUnconfined(in.Before)
		}
		warn.create(w, in.Object)
	case in.Operation == create && warn.create != nil:
		warn.create(w, in.Object)
	case in.Operation == update && warn.update != nil:
		warn.update(w, in.Object, in.Old)
	}
	return w.texts
}

// HasKeyPair reports whether a Secret holds a key pair, which the registry reads.
func HasKeyPair(secret map[string]any) bool { return secret["type"] == "kubernetes.io/tls" }

// A warning computes the warnings about the objects of one resource.
type warning struct {
	create func(w *warner, o map[string]any)
	update func(w *warner, o, old map[string]any)
	delete func(w *warner, in Input)
}

// warnAlways warns about new and changed objects alike.
func warnAlways(warn func(w *warner, o map[string]any)) *warning {
	return &warning{create: warn, update: func(w *warner, o, _ map[string]any) { warn(w, o) }}
}

// workload warns about an object with a Pod template at a path. If named is set, its name is also used for Pods.
func workload(named bool, path ...string) *warning {
	var in *place
	for _, name := range path {
		in = in.Child(name)
	}
	warn := func(w *warner, o map[string]any) { w.template(mapAt(o, path...), in) }
	return &warning{
		create: func(w *warner, o map[string]any) {
			if named {
				w.podName(o)
			}
			warn(w, o)
		},
		update: func(w *warner, o, old map[string]any) {
			if generation(o) != generation(old) {
				warn(w, o)
			}
		},
	}
}

func generation(o map[string]any) any {
	if n := mapAt(o, "metadata")["generation"]; n != nil {
		return n
	}
	return int64(0)
}

// warnings are the warnings by resource or, for a subresource, resource/subresource.
var warnings = map[schema.GroupResource]*warning{
	{Resource: "pods"}: {create: func(w *warner, o map[string]any) {
		if wrong := validation.IsDNS1123Label(text(mapAt(o, "metadata")["name"])); len(wrong) > 0 {
			w.add("metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "+
				"a DNS label is recommended: %v", wrong)
		}
		w.template(o, nil)
	}},
	{Resource: "pods/status"}: {update: func(w *warner, o, _ map[string]any) {
		for _, name := range []string{"podIPs", "hostIPs"} {
			for i, ip := range objects(mapAt(o, "status")[name]) {
				w.ip((*place)(nil).Child("status").Child(name).Index(i).Child("ip"), ip["ip"])
			}
		}
	}},
	{Resource: "podtemplates"}: workload(false, "template"),
	{Resource: "replicationcontrollers"}: {
		create: workload(true, "spec", "template").create,
		update: func(w *warner, o, old map[string]any) {
			if generation(o) != generation(old) { // the server checks the old template
				w.template(mapAt(old, "spec", "template"), (*place)(nil).Child("spec").Child("template"))
			}
		},
	},
	{Group: "apps", Resource: "deployments"}: workload(true, "spec", "template"),
	{Group: "apps", Resource: "replicasets"}: workload(true, "spec", "template"),
	{Group: "apps", Resource: "daemonsets"}: {
		create: workload(false, "spec", "template").create,
		update: func(w *warner, o, old map[string]any) {
			if mapAt(o, "metadata", "annotations")[templateGeneration] != mapAt(old, "metadata",
				"annotations")[templateGeneration] {
				w.template(mapAt(o, "spec", "template"), (*place)(nil).Child("spec").Child("template"))
			}
		},
	},
	{Group: "apps", Resource: "statefulsets"}: {
		create: func(w *warner, o map[string]any) {
			w.template(mapAt(o, "spec", "template"), (*place)(nil).Child("spec").Child("template"))
			w.statefulSet(mapAt(o, "spec"))
		},
		update: func(w *warner, o, old map[string]any) {
			if generation(o) != generation(old) {
				w.template(mapAt(o, "spec", "template"), (*place)(nil).Child("spec").Child("template"))
			}
			w.statefulSet(mapAt(o, "spec"), "Spec")
		},
	},
	{Group: "batch", Resource: "jobs"}: {
		create: func(w *warner, o map[string]any) {
			w.podName(o)
			w.job(mapAt(o, "spec"), (*place)(nil).Child("spec"))
		},
		update: func(w *warner, o, old map[string]any) {
			if generation(o) != generation(old) {
				w.job(mapAt(o, "spec"), (*place)(nil).Child("spec"))
			}
		},
		delete: func(w *warner, in Input) {
			if in.Options["propagationPolicy"] == nil && in.Options["orphanDependents"] == nil {
				w.add("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them " +
					"or set propagationPolicy=Orphan to suppress this warning",
				)
			}
		},
	},
	{Group: "batch", Resource: "cronjobs"}: {
		create: func(w *warner, o map[string]any) {
			w.podName(o)
			w.job(mapAt(o, "spec", "jobTemplate", "spec"), (*place)(nil).Child("spec").Child("jobTemplate").Child("spec"))
		},
		update: func(w *warner, o, old map[string]any) {
			if generation(o) != generation(old) {
				w.job(mapAt(o, "spec", "jobTemplate", "spec"),
					(*place)(nil).Child("spec").Child("jobTemplate").Child("spec"))
			}
			if strings.Contains(text(mapAt(o, "spec")["schedule"]), "TZ") {
				w.add("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
					"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
			}
		},
	},
	{Resource: "services"}:        warnAlways((*warner).service),
	{Resource: "services/status"}: {update: loadBalancer},
	{Resource: "endpoints"}: warnAlways(func(w *warner, o map[string]any) {
		if mapAt(o, "metadata", "labels")["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
			return
		}
		for i, subset := range objects(o["subsets"]) {
			for _, name := range []string{"addresses", "notReadyAddresses"} {
				for j, address := range objects(subset[name]) {
					w.ip((*place)(nil).Child("subsets").Index(i).Child(name).Index(j).Child("ip"), address["ip"])
				}
			}
		}
	}),
	{Group: "discovery.k8s.io", Resource: "endpointslices"}: {
		create: func(w *warner, o map[string]any) {
			if o["addressType"] == "FQDN" {
				w.add("spec.addressType: FQDN endpoints are deprecated")
			}
			w.endpointSlice(o)
		},
		update: func(w *warner, o, _ map[string]any) { w.endpointSlice(o) },
	},
	{Resource: "secrets"}: warnAlways(func(w *warner, o map[string]any) {
		if !HasKeyPair(o) || !certs.Known { // without certs, the decision reports it
			return
		}
		part := func(name string) []byte {
			b, _ := base64.StdEncoding.DecodeString(text(mapAt(o, "data")[name]))
			return b
		}
		if err := certs.CheckPair(part("tls.crt"), part("tls.key")); err != nil {
			w.add("%s", err)
		}
	}),
	{Resource: "serviceaccounts"}: {
		create: func(w *warner, o map[string]any) { w.mountableSecrets(o, nil) },
		update: (*warner).mountableSecrets,
	},
	{Resource: "nodes"}: warnAlways(func(w *warner, o map[string]any) {
		spec := mapAt(o, "spec")
		if spec["configSource"] != nil {
			w.add("spec.configSource: the feature is removed")
		}
		if text(spec["externalID"]) != "" {
			w.add("spec.externalID: this field is deprecated, and is unused by Kubernetes")
		}
		for i, cidr := range list(spec["podCIDRs"]) {
			w.cidr((*place)(nil).Child("spec").Child("podCIDRs").Index(i), cidr)
		}
	}),
	{Resource: "persistentvolumes"}: warnAlways((*warner).volume),
	{Resource: "persistentvolumeclaims"}: warnAlways(func(w *warner, o map[string]any) {
		w.warnAnnotation(o, nil, "volume.beta.kubernetes.io/storage-class",
			`deprecated since v1.8; use "storageClassName" attribute instead`)
		w.claim(mapAt(o, "spec"), (*place)(nil).Child("spec"))
	}),
	{Resource: "resourcequotas"}: {create: (*warner).warnQuota},
	{Group: "networking.k8s.io", Resource: "ingresses"}: {create: func(w *warner, o map[string]any) {
		const class = "kubernetes.io/ingress.class"
		if _, set := mapAt(o, "metadata", "annotations")[class]; set && mapAt(o, "spec")["ingressClassName"] == nil {
			w.add("annotation %q is deprecated, please use 'spec.ingressClassName' instead", class)
		}
	}},
	{Group: "networking.k8s.io", Resource: "ingresses/status"}: {update: loadBalancer},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}: warnAlways(func(w *warner, o map[string]any) {
		for _, way := range [][2]string{{"ingress", "from"}, {"egress", "to"}} {
			for i, rule := range objects(mapAt(o, "spec")[way[0]]) {
				for j, peer := range objects(rule[way[1]]) {
					block := mapAt(peer, "ipBlock")
					in := (*place)(nil).Child("spec").Child(way[0]).Index(i).Child(way[1]).Index(j).Child("ipBlock")
					w.cidr(in.Child("cidr"), block["cidr"])
					for k, except := range list(block["except"]) {
						w.cidr(in.Child("except").Index(k), except)
					}
				}
			}
		}
	}),
	{Group: "node.k8s.io", Resource: "runtimeclasses"}: warnAlways(func(w *warner, o map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(mapAt(o, "scheduling", "nodeSelector"))) {
			if why := deprecatedLabels[key]; why != "" {
				w.add("scheduling.nodeSelector: %s", why)
			}
		}
	}),
	{Group: "resource.k8s.io", Resource: "resourceslices"}: warnAlways(func(w *warner, o map[string]any) {
		if driver := text(mapAt(o, "spec")["driver"]); driver != strings.ToLower(driver) {
			w.add("spec.driver: driver names should be lowercase; %q contains uppercase characters", driver)
		}
	}),
	{Group: "storage.k8s.io", Resource: "storageclasses"}: warnAlways(func(w *warner, o map[string]any) {
		for i, topology := range objects(o["allowedTopologies"]) {
			for j, e := range objects(topology["matchLabelExpressions"]) {
				if why := deprecatedLabels[text(e["key"])]; why != "" {
					w.say((*place)(nil).Child("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(
						j).Child("key"), "%s", why)
				}
			}
		}
	}),
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}: warnAlways(func(w *warner, o map[string]any) {
		topology := mapAt(o, "nodeTopology")
		w.expressions(topology, false, (*place)(nil).Child("nodeTopology"))
		for _, label := range slices.Sorted(maps.Keys(mapAt(topology, "matchLabels"))) {
			if why := deprecatedLabels[label]; why != "" {
				w.say((*place)(nil).Child("nodeTopology").Child("matchLabels").Child(label), "%s", why)
			}
		}
	}),
	{Group: "storage.k8s.io", Resource: "csidrivers"}: {
		create: func(w *warner, o map[string]any) { w.tokenRequests(mapAt(o, "spec")) },
		update: func(w *warner, o, old map[string]any) {
			if !tree.Equal(list(mapAt(o, "spec")["tokenRequests"]), list(mapAt(old, "spec")["tokenRequests"])) {
				w.tokenRequests(mapAt(o, "spec"))
			}
		},
	},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: {
		create: func(w *warner, o map[string]any) { w.texts = append(w.texts, objectSets(o)...) },
		update: func(w *warner, o, old map[string]any) {
			before := objectSets(old)
			for _, text := range objectSets(o) {
				if !slices.Contains(before, text) {
					w.texts = append(w.texts, text)
				}
			}
		},
	},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       reservedName,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: reservedName,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         reservedName,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   reservedName,
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   reservedName,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     reservedName,
}

// reservedName warns about objects with reserved names: new ones are refused.
var reservedName = &warning{update: func(w *warner, o, _ map[string]any) {
	const suffix = ".static.k8s.io"
	if strings.HasSuffix(text(mapAt(o, "metadata")["name"]), suffix) {
		w.add("metadata.name: names ending with %q are reserved for static manifest-based configurations "+
			"and cannot be managed via the API", suffix)
	}
}}

// deprecatedLabels are deprecated labels of nodes, as in pkg/api/node/util.go.
var deprecatedLabels = map[string]string{
	"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"app.kubernetes.io/created-by":                  `deprecated since v1.9`,
	"scheduler.alpha.kubernetes.io/preferAvoidPods": `deprecated since v1.22; use Taints and Tolerations instead`,
	"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
}

// expressions warns about labels of nodes in matchExpressions, and about values that are not valid label values.
func (w *warner) expressions(in map[string]any, values bool, path *place) {
	for i, e := range objects(in["matchExpressions"]) {
		path := path.Child("matchExpressions").Index(i)
		if key := text(e["key"]); deprecatedLabels[key] != "" {
			w.say(path.Child("key"), "%s is %s", key, deprecatedLabels[key])
		}
		if !values {
			continue
		}
		for j, v := range list(e["values"]) {
			for _, wrong := range validation.IsValidLabelValue(text(v)) {
				w.say(path.Child("values").Index(j), "%s is invalid, %s", v, wrong)
			}
		}
	}
}

// warnAnnotation warns about an annotation that was replaced.
func (w *warner) warnAnnotation(o map[string]any, path *place, key, why string) {
	if _, set := mapAt(o, "metadata", "annotations")[key]; set {
		w.say(path.Child("metadata").Child("annotations").Key(key), "%s", why)
	}
}

func (w *warner) podName(o map[string]any) {
	if wrong := validation.IsDNS1123Label(text(mapAt(o, "metadata")["name"])); len(wrong) > 0 {
		w.add("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "+
			"a DNS label is recommended: %v", wrong)
	}
}

func (w *warner) job(spec map[string]any, path *place) {
	completions, _ := spec["completions"].(int64)
	parallelism, _ := spec["parallelism"].(int64)
	if spec["completionMode"] == "Indexed" && completions > 100_000 && parallelism > 10_000 {
		w.add("%s: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail", path)
	}
	w.template(mapAt(spec, "template"), path.Child("template"))
}

// statefulSet warns about claims; below is the path below each claim that the server wrongly reports for updates.
func (w *warner) statefulSet(spec map[string]any, below ...string) {
	for i, claim := range objects(spec["volumeClaimTemplates"]) {
		path := (*place)(nil).Child("spec").Child("volumeClaimTemplates").Index(i)
		for _, name := range below {
			path = path.Child(name)
		}
		w.claim(mapAt(claim, "spec"), path)
	}
	if limit, ok := spec["revisionHistoryLimit"].(int64); ok && limit < 0 {
		w.add("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
}

func (w *warner) service(o map[string]any) {
	const hints, mode = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
	if _, set := mapAt(o, "metadata", "annotations")[hints]; set {
		w.add("annotation %s is deprecated, please use %s instead", hints, mode)
	}
	spec := mapAt(o, "spec")
	external := list(spec["externalIPs"])
	kind, clusterIP := text(spec["type"]), text(spec["clusterIP"])
	path := (*place)(nil).Child("spec")
	if clusterIP != "" && clusterIP != "None" {
		addresses := list(spec["clusterIPs"])
		if addresses == nil {
			addresses = []any{clusterIP}
		}
		for i, ip := range addresses {
			w.ip(path.Child("clusterIPs").Index(i), ip)
		}
	}
	headless := kind == "ClusterIP" && clusterIP == "None"
	if headless {
		if text(spec["loadBalancerIP"]) != "" {
			w.add("spec.loadBalancerIP is ignored for headless services")
		}
		if len(external) > 0 {
			w.add("spec.externalIPs is ignored for headless services")
		}
		if spec["sessionAffinity"] != "None" {
			w.add("spec.SessionAffinity is ignored for headless services")
		}
	}
	for i, ip := range external {
		w.ip(path.Child("externalIPs").Index(i), ip)
	}
	if len(external) > 0 && !headless && kind != "ExternalName" {
		w.add("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	w.ip(path.Child("loadBalancerIP"), spec["loadBalancerIP"])
	for i, cidr := range list(spec["loadBalancerSourceRanges"]) {
		w.cidr(path.Child("loadBalancerSourceRanges").Index(i), cidr)
	}
	if kind == "ExternalName" && len(external) > 0 {
		w.add("spec.externalIPs is ignored when spec.type is %q", kind)
	}
	if kind != "ExternalName" && text(spec["externalName"]) != "" {
		w.add("spec.externalName is ignored when spec.type is not %q", "ExternalName")
	}
	if spec["trafficDistribution"] == "PreferClose" {
		w.add("spec.trafficDistribution: %q is deprecated; use %q", "PreferClose", "PreferSameZone")
	}
}

func loadBalancer(w *warner, o, _ map[string]any) {
	for i, ingress := range objects(mapAt(o, "status", "loadBalancer")["ingress"]) {
		w.ip((*place)(nil).Child("status").Child("loadBalancer").Child("ingress").Index(i), ingress["ip"])
	}
}

func (w *warner) endpointSlice(o map[string]any) {
	switch mapAt(o, "metadata", "labels")["endpointslice.kubernetes.io/managed-by"] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return
	}
	for i, endpoint := range objects(o["endpoints"]) {
		for j, address := range list(endpoint["addresses"]) {
			w.ip((*place)(nil).Child("endpoints").Index(i).Child("addresses").Index(j), address)
		}
	}
}

func (w *warner) mountableSecrets(o, old map[string]any) {
	const annotation = "kubernetes.io/enforce-mountable-secrets"
	if _, before := mapAt(old, "metadata", "annotations")[annotation]; before {
		return
	}
	if _, set := mapAt(o, "metadata", "annotations")[annotation]; set {
		w.add("metadata.annotations[%s]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets", annotation)
	}
}

// lostVolumes are removed plugins, in the order in which the server checks them.
var lostVolumes = map[string]string{
	"photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
	"gitRepo":              "deprecated in v1.11, and disabled by default in v1.33+",
	"scaleIO":              "deprecated in v1.16, non-functional in v1.22+",
	"flocker":              "deprecated in v1.22, non-functional in v1.25+",
	"storageos":            "deprecated in v1.22, non-functional in v1.25+",
	"quobyte":              "deprecated in v1.22, non-functional in v1.25+",
	"glusterfs":            "deprecated in v1.25, non-functional in v1.26+",
	"cephfs":               "deprecated in v1.28, non-functional in v1.31+",
	"rbd":                  "deprecated in v1.28, non-functional in v1.31+",
}

// pathsOfVolumes are their names in paths, if different.
var pathsOfVolumes = map[string]string{"storageos": "storageOS"}

func (w *warner) warnLost(volume map[string]any, path *place, names ...string) {
	for _, name := range names {
		if volume[name] == nil {
			continue
		}
		shown := name
		if other := pathsOfVolumes[name]; other != "" {
			shown = other
		}
		w.say(path.Child(shown), "%s", lostVolumes[name])
	}
}

func (w *warner) volume(o map[string]any) {
	w.warnAnnotation(o, nil, "volume.beta.kubernetes.io/storage-class",
		`deprecated since v1.8; use "storageClassName" attribute instead`)
	w.warnAnnotation(o, nil, "volume.beta.kubernetes.io/mount-options",
		`deprecated since v1.31; use "mountOptions" attribute instead`)
	spec := mapAt(o, "spec")
	if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
		w.add("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. " +
			"Instead, the recommended approach is to use dynamic provisioning.")
	}
	for i, term := range objects(mapAt(spec, "nodeAffinity", "required")["nodeSelectorTerms"]) {
		w.expressions(term, false, (*place)(nil).Child("spec").Child("nodeAffinity").Child("required").Child(
			"nodeSelectorTerms").Index(i))
	}
	w.warnLost(spec, (*place)(nil).Child("spec"), "cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs",
		"rbd")
}

// claim warns about the sizes in a PersistentVolumeClaimSpec.
func (w *warner) claim(spec map[string]any, path *place) {
	for _, which := range []string{"requests", "limits"} {
		w.fraction(mapAt(spec, "resources", which), "storage", path.Child("resources").Child(which))
	}
}

// fraction warns about an amount that is not a whole number.
func (w *warner) fraction(amounts map[string]any, name string, path *place) {
	if amounts[name] == nil {
		return
	}
	if q, err := resource.ParseQuantity(fmt.Sprint(amounts[name])); err == nil && q.MilliValue()%1000 != 0 {
		w.say(path.Key(name), "fractional byte value %q is invalid, must be an integer", q.String())
	}
}

func (w *warner) warnQuota(o map[string]any) {
	hard := mapAt(o, "spec", "hard")
	amountOf := func(name string) (q resource.Quantity, found bool) {
		if hard[name] == nil {
			return q, false
		}
		q, err := resource.ParseQuantity(fmt.Sprint(hard[name]))
		return q, err == nil
	}
	for _, name := range []string{"cpu", "memory", "storage", "ephemeral-storage"} {
		requests, limits := "requests."+name, "limits."+name
		request, found := amountOf(requests)
		if !found && (name == "cpu" || name == "memory") {
			if request, found = amountOf(name); found {
				requests = name
			}
		}
		if limit, limited := amountOf(limits); found && limited && request.Cmp(limit) > 0 {
			w.add("ResourceQuota %s (%s) should be less than %s (%s)", requests, request.String(), limits,
				limit.String())
		}
	}
}

func (w *warner) tokenRequests(spec map[string]any) {
	if len(list(spec["tokenRequests"])) > 0 && spec["serviceAccountTokenInSecrets"] == nil {
		w.add("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true " +
			"to prevent possible logging of tokens in volume attributes")
	}
}

// finalizers warns about new finalizers of custom objects (pkg/registry/customresource/validator.go of
// apiextensions-apiserver v0.37.2).
func (w *warner) finalizers(in Input) {
	old := list(mapAt(in.Old, "metadata")["finalizers"])
	var added []string
	for _, v := range list(mapAt(in.Object, "metadata")["finalizers"]) {
		if !slices.Contains(old, v) {
			added = append(added, text(v))
		}
	}
	slices.Sort(added)
	for _, name := range slices.Compact(added) {
		for _, wrong := range validation.IsQualifiedName(name) {
			w.add("metadata.finalizers: %q: %s", name, wrong)
		}
		switch {
		case strings.Contains(name, "/"), name == "orphan", name == "foregroundDeletion", name == "kubernetes":
		case strings.Contains(name, "."):
			w.add("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) "+
				"to avoid accidental conflicts with other finalizer writers", name)
		default:
			w.add("metadata.finalizers: %q: prefer a domain-qualified finalizer name "+
				"to avoid accidental conflicts with other finalizer writers", name)
		}
	}
}

// objectSets returns the warnings about sets of objects or lists in the schemas of a CustomResourceDefinition.
func objectSets(crd map[string]any) []string {
	found := map[string]bool{}
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if of := mapAt(v, "items")["type"]; v["x-kubernetes-list-type"] == "set" && (of == "object" || of == "array") {
				found[fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply "+
					"or CEL validation rules", of)] = true
			}
			for name, inner := range v {
				if name != "default" && name != "example" && name != "enum" {
					visit(inner)
				}
			}
		case []any:
			for _, inner := range v {
				visit(inner)
			}
		}
	}
	for _, v := range objects(mapAt(crd, "spec")["versions"]) {
		visit(mapAt(v, "schema", "openAPIV3Schema"))
	}
	return slices.Sorted(maps.Keys(found))
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// objects returns the objects of a list; other items are nil.
func objects(v any) []map[string]any {
	items := list(v)
	all := make([]map[string]any, len(items))
	for i, item := range items {
		all[i], _ = item.(map[string]any)
	}
	return all
}
