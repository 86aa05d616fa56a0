package prepare

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/celgate/celgate/internal/shape"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Registries of single kinds, beyond the common strategy.

const templateGeneration = "deprecated.daemonset.template.generation"

func startTemplateGeneration(o *members, _ Input) {
	o.annotations(func(notes *members) {
		if n, _ := strconv.ParseInt(notes.text(templateGeneration), 10, 64); n < 1 {
			notes.set(templateGeneration, "1")
		}
	})
}

func countTemplateGeneration(o *members, in Input) {
	text, _ := mapAt(in.Old, "metadata", "annotations")[templateGeneration].(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	if !equal(mapAt(o.m, "spec")["template"], mapAt(in.Old, "spec")["template"]) {
		n++
	}
	o.annotations(func(notes *members) { notes.set(templateGeneration, strconv.FormatInt(n, 10)) })
}

// countAnnotations increases the generation of a Deployment whose annotations change.
func countAnnotations(o *members, in Input) {
	if in.SubResource == "" && !equal(mapAt(o.m, "metadata")["annotations"], mapAt(in.Old, "metadata")["annotations"]) {
		o.count(in.Old)
	}
}

// generatedLabels are the labels that the registry adds to the pods of a Job, as legacy and qualified names of one
// value each.
var generatedLabels = [...]struct{ short, long string }{
	{"job-name", "batch.kubernetes.io/job-name"},
	{"controller-uid", "batch.kubernetes.io/controller-uid"},
}

// selectJobPods adds a selector to a Job without one, which selects its pods by the Job's uid.
func selectJobPods(o *members, in Input) {
	meta := members{m: mapAt(o.m, "metadata")}
	if mapAt(o.m, "spec")["manualSelector"] == true {
		return
	}
	labels := map[string]any{}
	for i, v := range [...]string{meta.text("name"), meta.text("uid")} {
		labels[generatedLabels[i].short], labels[generatedLabels[i].long] = v, v
	}
	o.edit("spec", func(s *members) {
		s.edit("template", func(t *members) {
			t.fill("metadata", map[string]any{})
			t.edit("metadata", func(meta *members) { meta.merge("labels", labels) })
		})
		s.fill("selector", map[string]any{})
		s.edit("selector", func(selector *members) {
			selector.merge("matchLabels", map[string]any{"batch.kubernetes.io/controller-uid": meta.text("uid")})
		})
	})
	if in.SharesLabels {
		o.edit("metadata", func(meta *members) { meta.merge("labels", labels) })
	}
}

// sharesLabels reports whether SetDefaults_Job (pkg/apis/batch/v1/defaults.go) makes the labels of a Job and of its
// template one map: the template has labels, even an empty map, and the Job does not.
func sharesLabels(t *shape.Type, obj map[string]any) bool {
	return t.Name == jobType && size(mapAt(obj, "metadata")["labels"]) == 0 &&
		mapAt(obj, "spec", "template", "metadata", "labels") != nil
}

const jobType = "k8s.io/api/batch/v1.Job"

// keepJobPods adds the selector and the labels that were generated for the stored Job to an updated one, if the client
// omitted the selector: the server would refuse it without them, so clients do not send it like that.
func keepJobPods(o *members, in Input, shares bool) {
	if in.typ().Name != jobType || in.Old == nil {
		return
	}
	spec, old := mapAt(o.m, "spec"), mapAt(in.Old, "spec")
	if spec["selector"] != nil || spec["manualSelector"] == true || old["selector"] == nil {
		return
	}
	stored := mapAt(old, "template", "metadata", "labels")
	labels := map[string]any{}
	for _, name := range generatedLabels {
		for _, name := range [...]string{name.short, name.long} {
			if v, ok := stored[name]; ok {
				labels[name] = v
			}
		}
	}
	o.edit("spec", func(s *members) {
		s.set("selector", old["selector"])
		s.edit("template", func(t *members) {
			t.fill("metadata", map[string]any{})
			t.edit("metadata", func(meta *members) { meta.merge("labels", labels) })
		})
	})
	if own := mapAt(in.Old, "metadata", "labels"); shares && own[generatedLabels[0].long] != nil {
		o.edit("metadata", func(meta *members) { meta.merge("labels", labels) })
	}
}

// propagateDryRun turns the deletion of an Eviction into a dry run, like its own request
// (pkg/registry/core/pod/storage/eviction.go).
func propagateDryRun(o *members, in Input) {
	if !in.DryRun {
		return
	}
	o.edit("deleteOptions", func(options *members) {
		if size(options.m["dryRun"]) == 0 {
			options.set("dryRun", []any{"All"})
		}
	})
}

// completeTokenRequest sets the ServiceAccount in a TokenRequest (pkg/registry/core/serviceaccount/storage/token.go).
// Its uid, which it has from 1.34 on, is the one that [ReadStored] makes up; the audience is the default of a server.
func completeTokenRequest(o *members, in Input) {
	o.edit("metadata", func(meta *members) {
		meta.fillText("name", in.Name)
		account := Input{Resource: in.Resource, Namespace: in.Namespace,
			Object: map[string]any{"metadata": map[string]any{"name": meta.m["name"]}}}
		if !writesUnsetTimes(in.typ()) { // from 1.34 on
			meta.fillText("uid", uid(account))
		}
		meta.set("creationTimestamp", in.timestamp())
	})
	o.edit("spec", func(s *members) {
		if size(s.m["audiences"]) == 0 {
			s.set("audiences", []any{"https://kubernetes.default.svc"})
		}
	})
}

// dropTopology drops members that the EndpointSlices of discovery.k8s.io/v1beta1 had.
func dropTopology(o *members, _ Input) {
	o.each("endpoints", func(e *members) { e.drop("deprecatedTopology") })
}

func updateSlice(o *members, in Input) {
	if !equal(mapAt(o.m, "metadata")["labels"], mapAt(in.Old, "metadata")["labels"]) {
		o.count(in.Old)
	}
	if equal(o.m["endpoints"], in.Old["endpoints"]) {
		return
	}
	// The label that once held the name of an endpoint's node is copied to nodeName, if the stored object had it.
	known := map[string]bool{}
	hostname := func(e *members) string {
		name, _ := mapAt(e.m, "deprecatedTopology")["kubernetes.io/hostname"].(string)
		return name
	}
	(&members{m: in.Old}).each("endpoints", func(e *members) { known[hostname(e)] = true })
	o.each("endpoints", func(e *members) {
		if name := hostname(e); known[name] && len(validation.IsDNS1123Subdomain(name)) == 0 {
			e.fill("nodeName", name)
		}
		e.drop("deprecatedTopology")
	})
}

func createNamespace(o *members, _ Input) {
	o.fill("spec", map[string]any{})
	o.edit("spec", func(s *members) {
		finalizers, _ := s.m["finalizers"].([]any)
		if !slices.Contains(finalizers, any("kubernetes")) {
			s.set("finalizers", append(slices.Clone(finalizers), "kubernetes"))
		}
	})
	o.set("status", map[string]any{"phase": "Active"})
	labelNamespace(o)
}

// labelNamespace repeats the default of the label for a generated name.
func labelNamespace(o *members) {
	o.fill("metadata", map[string]any{})
	o.edit("metadata", func(meta *members) { meta.label(namespaceNameNote, meta.text("name")) })
}

func updateNamespace(o *members, _ Input) { labelNamespace(o) }

// createNode drops the configuration that nodes no longer have.
func createNode(o *members, _ Input) {
	o.edit("spec", func(s *members) { s.drop("configSource") })
	o.edit("status", func(s *members) { s.drop("config") })
}

// updateNode drops the configuration that nodes no longer have, unless the stored object has it.
func updateNode(o *members, in Input) {
	switch in.SubResource {
	case "":
		if mapAt(in.Old, "spec")["configSource"] == nil {
			o.edit("spec", func(s *members) { s.drop("configSource") })
		}
	case "status":
		if mapAt(in.Old, "status")["config"] == nil {
			o.edit("status", func(s *members) { s.drop("config") })
		}
	}
}

// nameLimitRange sets the name of a LimitRange without one.
func nameLimitRange(o *members, in Input) {
	o.edit("metadata", func(meta *members) { meta.fillText("name", uid(in)) })
}

// Annotations in which autoscaling/v1 keeps members of the spec and the status of later versions.
var (
	scalerSpecNotes   = [...]string{scalerNote + "metrics", scalerNote + "behavior"}
	scalerStatusNotes = [...]string{scalerNote + "current-metrics", scalerNote + "conditions"}
)

func createScaler(o *members, _ Input) {
	o.annotations(func(notes *members) {
		for _, name := range scalerStatusNotes {
			notes.drop(name)
		}
	})
}

func updateScaler(o *members, in Input) {
	if in.Resource.Version != "v1" {
		return
	}
	kept := scalerStatusNotes
	if in.SubResource == "status" {
		kept = scalerSpecNotes
	}
	old := mapAt(in.Old, "metadata", "annotations")
	o.annotations(func(notes *members) {
		for _, name := range kept {
			notes.take(name, old)
		}
	})
	if in.SubResource == "" {
		given := mapAt(o.m, "metadata", "annotations")
		for _, name := range scalerSpecNotes {
			if !equal(given[name], old[name]) {
				o.count(in.Old)
			}
		}
	}
}

// updateVolume maintains the time of the last change of the phase.
func updateVolume(o *members, in Input) {
	if in.SubResource != "status" {
		return
	}
	old := mapAt(in.Old, "status")
	o.edit("status", func(s *members) {
		given, was := s.m["lastPhaseTransitionTime"], old["lastPhaseTransitionTime"]
		switch same := equal(s.m["phase"], old["phase"]); {
		case same && given == nil && was != nil:
			s.set("lastPhaseTransitionTime", was)
		case !same && (given == nil || equal(given, was)):
			s.set("lastPhaseTransitionTime", in.timestamp())
		}
	})
}

func createVolume(o *members, in Input) {
	o.set("status", map[string]any{"phase": "Pending", "lastPhaseTransitionTime": in.timestamp()})
}

// sameDataSources fills one of spec.dataSource and spec.dataSourceRef from the other, and drops a data source of a kind
// that older servers ignored (pkg/api/persistentvolumeclaim/util.go).
func sameDataSources(o *members, in Input) {
	o.edit("spec", func(s *members) {
		old := mapAt(in.Old, "spec")
		inUse := old["dataSource"] != nil || old["dataSourceRef"] != nil
		if namespace, _ := mapAt(s.m, "dataSourceRef")["namespace"].(string); namespace != "" &&
			old["dataSourceRef"] == nil {
			s.drop("dataSourceRef") // the feature CrossNamespaceVolumeDataSource is off
		}
		if !inUse && s.m["dataSourceRef"] == nil && !claimOrSnapshot(mapAt(s.m, "dataSource")) {
			s.drop("dataSource")
		}
		source, ref := mapAt(s.m, "dataSource"), mapAt(s.m, "dataSourceRef")
		namespace, _ := ref["namespace"].(string)
		switch {
		case source != nil && ref == nil:
			s.set("dataSourceRef", typedReference(source))
		case source == nil && ref != nil && namespace == "":
			s.set("dataSource", typedReference(ref))
		}
	})
}

func claimOrSnapshot(source map[string]any) bool {
	kind, _ := source["kind"].(string)
	group, _ := source["apiGroup"].(string)
	return kind == "PersistentVolumeClaim" && group == "" ||
		kind == "VolumeSnapshot" && group == "snapshot.storage.k8s.io"
}

// typedReference writes a missing apiGroup as null.
func typedReference(from map[string]any) map[string]any {
	return map[string]any{"apiGroup": from["apiGroup"], "kind": from["kind"], "name": from["name"]}
}

func updateClaim(o *members, in Input) {
	switch in.SubResource {
	case "":
		sameDataSources(o, in)
	case "status":
		was := mapAt(in.Old, "status")
		dropNew := func(names ...string) {
			o.edit("status", func(s *members) {
				for _, name := range names {
					if was[name] == nil {
						s.drop(name)
					}
				}
			})
		}
		dropNew("healthStatus") // the feature CSIVolumeHealth is off
		if volumeAttributesClass.offOf(in.typ()) != 0 {
			dropNew("currentVolumeAttributesClassName", "modifyVolumeStatus")
		}
		if recoverVolumeExpansion.offOf(in.typ()) != 0 {
			dropNew("allocatedResources", "allocatedResourceStatuses")
		}
	}
}

func createPod(o *members, in Input) {
	status := map[string]any{"phase": "Pending"}
	if size(mapAt(o.m, "spec")["schedulingGates"]) > 0 {
		status["conditions"] = []any{map[string]any{
			"type": "PodScheduled", "status": "False", "lastProbeTime": nil, "lastTransitionTime": in.timestamp(),
			"reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
	meta := mapAt(o.m, "metadata")
	labels, annotations := mapAt(meta, "labels"), mapAt(meta, "annotations")
	o.edit("spec", func(s *members) {
		selectOwnLabels(s, labels)
		confine(s, annotations)
		defaultPodResources(s)
	})
	status["qosClass"] = QualityOfService(mapAt(o.m, "spec"))
	if given := text(mapAt(in.Object, "status")["qosClass"]); given != "" && in.keepsQuality() {
		status["qosClass"] = given
	}
	o.set("status", status)
}

// keepsQuality reports whether a new Pod keeps the class that it was sent with: in the minors before 1.37, whose status
// has no volumeHealth.
func (in Input) keepsQuality() bool {
	status := in.typ().Field("status")
	return status != nil && status.Type.Field("volumeHealth") == nil
}

// restoresQuality reports whether an update of the status that leaves out the class of a Pod keeps it: from 1.32 on,
// where a Pod as a whole has resources.
func (in Input) restoresQuality() bool {
	spec := in.typ().Field("spec")
	return spec != nil && spec.Type.Field("resources") != nil
}

// confine turns the annotations of AppArmor profiles into fields, as applyAppArmorVersionSkew of
// pkg/registry/core/pod/strategy.go v1.37.2 does. The registry refuses a Pod with other values in these annotations.
func confine(spec *members, annotations map[string]any) {
	if runsOnWindows(spec.m) {
		return
	}
	ofPod := mapAt(spec.m, "securityContext")["appArmorProfile"]
	for _, list := range [...]string{"initContainers", "containers"} { // a new Pod does not have ephemeral ones
		spec.each(list, func(container *members) {
			annotation, annotated := annotations[containerAppArmor+text(container.m["name"])].(string)
			profile := profileOf(annotation)
			if !annotated || profile == nil || mapAt(container.m, "securityContext")["appArmorProfile"] != nil ||
				equal(profile, ofPod) {
				return
			}
			if container.m["securityContext"] == nil {
				container.set("securityContext", map[string]any{})
			}
			container.edit("securityContext", func(c *members) { c.set("appArmorProfile", profile) })
		})
	}
}

// warnUnconfined warns about annotations of AppArmor profiles, whether or not confine can turn them into fields: it
// reads the original Pod.
func (w *warner) warnUnconfined(pod map[string]any) {
	spec, annotations := mapAt(pod, "spec"), mapAt(pod, "metadata", "annotations")
	if runsOnWindows(spec) {
		return
	}
	ofPod := mapAt(spec, "securityContext")["appArmorProfile"]
	for _, name := range [...]string{"initContainers", "containers", "ephemeralContainers"} {
		for _, container := range objects(spec[name]) {
			key := containerAppArmor + text(container["name"])
			annotation, annotated := annotations[key].(string)
			if !annotated || mapAt(container, "securityContext")["appArmorProfile"] != nil {
				continue
			}
			if profile := profileOf(annotation); profile == nil || !equal(profile, ofPod) {
				w.warnAnnotation(pod, nil, key, `deprecated since v1.30; use the "appArmorProfile" field instead`)
			}
		}
	}
}

func runsOnWindows(podSpec map[string]any) bool { return mapAt(podSpec, "os")["name"] == "windows" }

// profileOf returns the AppArmor profile of an annotation; nil for an invalid one.
func profileOf(annotation string) any {
	switch local, isLocal := strings.CutPrefix(annotation, "localhost/"); {
	case annotation == "unconfined":
		return map[string]any{"type": "Unconfined"}
	case annotation == "runtime/default":
		return map[string]any{"type": "RuntimeDefault"}
	case isLocal && local != "" && strings.TrimSpace(local) == local:
		return map[string]any{"type": "Localhost", "localhostProfile": local}
	}
	return nil
}

// selectOwnLabels adds the pod's own labels to the selectors that name their keys.
func selectOwnLabels(spec *members, labels map[string]any) {
	term := func(t *members) {
		matchKeys(t, "matchLabelKeys", "In", labels)
		matchKeys(t, "mismatchLabelKeys", "NotIn", labels)
	}
	spec.edit("affinity", func(a *members) {
		for _, name := range [...]string{"podAffinity", "podAntiAffinity"} {
			a.edit(name, func(p *members) {
				p.each("preferredDuringSchedulingIgnoredDuringExecution",
					func(w *members) { w.edit("podAffinityTerm", term) })
				p.each("requiredDuringSchedulingIgnoredDuringExecution", term)
			})
		}
	})
	spec.each("topologySpreadConstraints", func(c *members) { matchKeys(c, "matchLabelKeys", "In", labels) })
}

func matchKeys(t *members, keys, operator string, labels map[string]any) {
	list, _ := t.m[keys].([]any)
	t.edit("labelSelector", func(selector *members) {
		given, _ := selector.m["matchExpressions"].([]any)
		terms := slices.Clone(given)
		for _, key := range list {
			name, _ := key.(string)
			if v, ok := labels[name]; ok {
				terms = append(terms, map[string]any{"key": name, "operator": operator, "values": []any{v}})
			}
		}
		if len(terms) > len(given) {
			selector.set("matchExpressions", terms)
		}
	})
}

func updatePod(o *members, in Input) {
	old := mapAt(in.Old, "spec")
	switch in.SubResource {
	case "":
		if r := old["resources"]; r != nil {
			o.edit("spec", func(s *members) { s.fill("resources", r) })
		}
	case "status":
		o.edit("metadata", func(m *members) { m.drop("deletionTimestamp") })
		status := mapAt(in.Old, "status")
		o.edit("status", func(s *members) {
			for _, name := range [...]string{"qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus",
				"nodeAllocatableResourceClaimStatuses", "observedGeneration"} {
				if v := status[name]; v != nil && (name != "qosClass" || in.restoresQuality()) {
					s.fill(name, v)
				}
			}
			keepObserved(s, status)
		})
		return
	case "resize":
		resizePod(o, in)
		o.edit("spec", func(s *members) {
			if r := old["resources"]; r != nil {
				s.fill("resources", r)
			}
			defaultPodResources(s)
		})
	}
	if in.podsCount() && !equal(o.m["spec"], in.Old["spec"]) {
		o.count(in.Old)
	}
}

// keepObserved sets the observed generation of a pod's conditions without one to that of the stored condition of the
// same type; of several, the next in order.
func keepObserved(status *members, old map[string]any) {
	observed := map[string][]any{}
	(&members{m: old}).each("conditions", func(c *members) {
		observed[c.text("type")] = append(observed[c.text("type")], c.m["observedGeneration"])
	})
	status.each("conditions", func(c *members) {
		kind := c.text("type")
		if len(observed[kind]) == 0 {
			return
		}
		if v := observed[kind][0]; v != nil {
			c.fill("observedGeneration", v)
		}
		observed[kind] = observed[kind][1:]
	})
}

// resizePod undoes all changes of a pod except those of the resources and resize policies of its containers. It does
// nothing if containers were added, removed, renamed or moved; the server then refuses the request.
func resizePod(o *members, in Input) {
	spec, old := mapAt(o.m, "spec"), mapAt(in.Old, "spec")
	lists := map[string]any{}
	for _, name := range [...]string{"containers", "initContainers"} {
		new, _ := spec[name].([]any)
		was, _ := old[name].([]any)
		if len(new) != len(was) {
			return
		}
		merged := make([]any, 0, len(new))
		for i := range new {
			from, _ := new[i].(map[string]any)
			onto, _ := was[i].(map[string]any)
			if !equal(from["name"], onto["name"]) {
				merged = new
				break
			}
			c := members{m: onto}
			c.take("resources", from)
			c.take("resizePolicy", from)
			merged = append(merged, c.m)
		}
		lists[name] = merged
		if len(merged) == 0 {
			lists[name] = spec[name]
		}
	}
	for _, k := range keptByPods("resources") {
		k.keep(o, in.Old)
	}
	o.edit("spec", func(s *members) {
		for name := range lists {
			s.take(name, lists)
			if s.m[name] == nil && name == "initContainers" {
				s.drop(name)
			}
		}
		if s.m["resources"] == nil {
			s.drop("resources")
		}
	})
}

// nameSecrets drops everything but the names of a ServiceAccount's secrets.
func nameSecrets(o *members, in Input) {
	o.each("secrets", func(s *members) {
		for field := range s.m {
			if field != "name" {
				s.drop(field)
			}
		}
	})
}

// storeVersion adds the storage version of a CustomResourceDefinition to status.storedVersions.
func storeVersion(o *members, in Input) {
	if in.SubResource != "" {
		return
	}
	version := storageVersion(o.m)
	if version == nil {
		return
	}
	o.edit("status", func(s *members) {
		stored, _ := s.m["storedVersions"].([]any)
		same := func(v any) bool { return equal(v, version["name"]) }
		if !slices.ContainsFunc(stored, same) {
			s.set("storedVersions", append(slices.Clone(stored), version["name"]))
		}
	})
}

// availableLocally marks an APIService of the server itself as available.
func availableLocally(o *members, in Input) {
	if mapAt(o.m, "spec", "service") != nil {
		return
	}
	o.set("status", map[string]any{"conditions": []any{map[string]any{
		"type": "Available", "status": "True", "lastTransitionTime": in.timestamp(),
		"reason": "Local", "message": "Local APIServices are always available",
	}}})
}

// createSigningRequest sets the user of the request.
func createSigningRequest(o *members, in Input) {
	if in.exists {
		return
	}
	o.set("status", map[string]any{})
	o.edit("spec", func(s *members) {
		for _, name := range [...]string{"username", "uid", "groups", "extra"} {
			s.drop(name)
		}
		user := in.User
		if user.Username != "" {
			s.set("username", user.Username)
		}
		if user.UID != "" {
			s.set("uid", user.UID)
		}
		if len(user.Groups) > 0 {
			s.set("groups", texts(user.Groups))
		}
		if len(user.Extra) > 0 {
			extra := make(map[string]any, len(user.Extra))
			for key, values := range user.Extra {
				extra[key] = texts(values)
			}
			s.set("extra", extra)
		}
	})
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}

func updateSigningRequest(o *members, in Input) {
	switch in.SubResource {
	case "status":
		keepConditions(o, in, "Approved")
		keepConditions(o, in, "Denied")
		stampConditions(o, in)
	case "approval":
		stampConditions(o, in)
	}
}

// keepConditions keeps the stored conditions of a type, unless some were added or removed.
func keepConditions(o *members, in Input, kind string) {
	var stored []map[string]any
	(&members{m: mapAt(in.Old, "status")}).each("conditions", func(c *members) {
		if c.m["type"] == kind {
			stored = append(stored, c.m)
		}
	})
	count := 0
	o.edit("status", func(s *members) {
		s.each("conditions", func(c *members) {
			if c.m["type"] == kind {
				count++
			}
		})
		if count != len(stored) {
			return
		}
		s.each("conditions", func(c *members) {
			if c.m["type"] == kind {
				c.m, c.owned = stored[0], true
				stored = stored[1:]
			}
		})
	})
}

// stampConditions fills in the times of a signing request's conditions.
func stampConditions(o *members, in Input) {
	old := members{m: mapAt(in.Old, "status")}
	o.edit("status", func(s *members) {
		s.each("conditions", func(c *members) {
			c.fill("lastUpdateTime", in.timestamp())
			if c.m["lastTransitionTime"] != nil {
				return
			}
			since := any(in.timestamp())
			old.each("conditions", func(was *members) {
				if equal(was.m["type"], c.m["type"]) && equal(was.m["status"], c.m["status"]) &&
					was.m["lastTransitionTime"] != nil {
					since = was.m["lastTransitionTime"]
				}
			})
			c.set("lastTransitionTime", since)
		})
	})
}

func (in Input) timestamp() string {
	now := in.Now
	if now.IsZero() {
		now = time.Now()
	}
	return now.UTC().Format(time.RFC3339)
}
