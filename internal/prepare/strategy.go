package prepare

import (
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// A strategy is the work of the registry of a resource on its objects between the mutating and the validating phase:
// the functions PrepareForCreate, PrepareForUpdate and Canonicalize in k8s.io/kubernetes v1.37.2
// pkg/registry/*/*/strategy.go, at the feature gates of that version.
type strategy struct {
	generation bool     // starts at 1
	counted    []string // a change of one of these members increases the generation
	status     bool     // cannot be set on create, and changes only through the subresource
	keeps      keeping  // metadata that the status subresource cannot change
	sets       []string // members of the status that update may change

	// keptBy are the other parts that an update cannot change, by subresource.
	keptBy map[string][]Kept

	// gated are members of the spec that belong to features that may be off. Unlike those of gates, templates in other
	// kinds keep them.
	gated map[string]feature

	create func(o *members, in Input)
	update func(o *members, in Input) // also for subresources
}

// keeping names the metadata members that a status update takes from the stored object.
type keeping uint8

const (
	keepNone   keeping = iota
	keepLabels         // labels only
	keepLocal          // labels, annotations, finalizers and owner references
	keepMost           // members that metav1.ResetObjectMetaForStatus resets
	keepAll
)

var keptMembers = [...][]string{
	keepNone:   nil,
	keepLabels: {"labels"},
	keepLocal:  {"labels", "annotations", "finalizers", "ownerReferences"},
	keepMost: {"deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers",
		"ownerReferences"},
}

var (
	bySpec = []string{"spec"}
	// specAndStatus is the common form.
	specAndStatus = strategy{generation: true, counted: bySpec, status: true}

	attributesClass = map[string]feature{"volumeAttributesClassName": volumeAttributesClass}
)

// strategies are the strategies by resource; a missing one only sets the metadata that every object has.
var strategies = map[schema.GroupResource]strategy{
	{Group: "apps", Resource: "daemonsets"}: {generation: true, counted: bySpec, status: true,
		create: startTemplateGeneration, update: countTemplateGeneration},
	{Group: "apps", Resource: "deployments"}: {generation: true, counted: bySpec, status: true, keeps: keepLabels,
		update: countAnnotations},
	{Group: "apps", Resource: "replicasets"}:  specAndStatus,
	{Group: "apps", Resource: "statefulsets"}: specAndStatus,

	{Group: "batch", Resource: "cronjobs"}: specAndStatus,
	{Group: "batch", Resource: "jobs"}: {generation: true, counted: bySpec, status: true, create: selectJobPods,
		gated: map[string]feature{"managedBy": jobManagedBy, "successPolicy": jobSuccessPolicy}},

	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {generation: true, counted: bySpec, status: true,
		create: createScaler, update: updateScaler},
	{Group: "policy", Resource: "poddisruptionbudgets"}: specAndStatus,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}: {generation: true,
		counted: []string{"addressType", "endpoints", "ports"}, create: dropTopology, update: updateSlice},

	{Group: "networking.k8s.io", Resource: "ingresses"}:       specAndStatus,
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:  {generation: true, counted: bySpec},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}: {generation: true, counted: bySpec},
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:    {status: true, keeps: keepMost},

	{Resource: "namespaces"}: {status: true, create: createNamespace, update: updateNamespace,
		keptBy: map[string][]Kept{"": {{Path: []string{"spec", "finalizers"}}}, "finalize": {{Path: pathOfStatus}}}},
	{Resource: "nodes"}: {create: createNode, update: updateNode,
		keptBy: map[string][]Kept{"": {{Path: pathOfStatus}}}},
	{Resource: "limitranges"}: {create: nameLimitRange},
	{Resource: "persistentvolumes"}: {status: true, create: createVolume, update: updateVolume,
		gated: attributesClass},
	{Resource: "persistentvolumeclaims"}: {status: true, create: sameDataSources, update: updateClaim,
		gated: attributesClass},
	{Resource: "pods"}: {generation: true, status: true, create: createPod, update: updatePod,
		keptBy: map[string][]Kept{"status": {{Path: []string{"metadata", "ownerReferences"}}},
			"ephemeralcontainers": keptByPods("ephemeralContainers")}},
	{Resource: "podtemplates"}:           {generation: true, counted: []string{"template"}},
	{Resource: "replicationcontrollers"}: specAndStatus,
	{Resource: "resourcequotas"}:         {status: true},
	{Resource: "serviceaccounts"}:        {create: nameSecrets, update: nameSecrets},
	{Resource: "services"}: {status: true, create: createService, update: updateService,
		sets: []string{"loadBalancer"}},

	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}: {generation: true,
		counted: bySpec, status: true, keeps: keepMost},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: {generation: true,
		counted: bySpec},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}: {generation: true,
		counted: bySpec},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}: {generation: true,
		counted: bySpec},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: {generation: true,
		counted: []string{"webhooks"}},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}: {generation: true,
		counted: []string{"webhooks"}},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: {generation: true,
		counted: bySpec, status: true, create: storeVersion, update: storeVersion, sets: []string{"storedVersions"}},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}: {status: true,
		keeps: keepLocal, create: availableLocally},

	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {status: true, create: createSigningRequest,
		update: updateSigningRequest, keptBy: map[string][]Kept{"": {{Path: pathOfSpec}},
			"approval": {{Path: pathOfSpec}, {Path: pathOfStatus, Except: []string{"conditions"}}}}},
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}: {status: true, keeps: keepMost},

	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}: {generation: true,
		counted: bySpec, status: true, keeps: keepAll},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: {generation: true,
		counted: bySpec, status: true, keeps: keepAll},

	{Group: "resource.k8s.io", Resource: "deviceclasses"}: {generation: true, counted: bySpec},
	{Group: "resource.k8s.io", Resource: "devicetaintrules"}: {generation: true, counted: bySpec,
		status: true, keeps: keepMost},
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:             {status: true, keeps: keepMost},
	{Group: "resource.k8s.io", Resource: "resourcepoolstatusrequests"}: {status: true, keeps: keepMost},
	{Group: "resource.k8s.io", Resource: "resourceslices"}:             {generation: true, counted: bySpec},

	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:    {generation: true},
	{Group: "scheduling.k8s.io", Resource: "podgroups"}:          {status: true, keeps: keepMost},
	{Group: "scheduling.k8s.io", Resource: "compositepodgroups"}: {status: true, keeps: keepMost},

	{Group: "storage.k8s.io", Resource: "csidrivers"}:                        {counted: bySpec},
	{Group: "storage.k8s.io", Resource: "csinodes"}:                          {status: true, keeps: keepMost},
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:                 {status: true, keeps: keepMost},
	{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}: {status: true, keeps: keepMost},
}

// apply runs the strategy on an object whose metadata is complete.
func (s strategy) apply(o *members, in Input) {
	switch {
	case in.Operation == create && in.SubResource == "":
		if s.status {
			s.resetStatus(o, in)
		}
		if s.counts(in) {
			o.edit("metadata", func(meta *members) { meta.set("generation", int64(1)) })
		}
		s.dropGated(o, in.typ(), nil)
		if s.create != nil {
			s.create(o, in)
		}
	case in.Operation == update && in.Old != nil:
		for _, k := range s.listKept(in.Resource, in.SubResource) {
			k.keep(o, in.Old)
		}
		if in.SubResource == "scale" {
			return
		}
		s.dropGated(o, in.typ(), in.Old)
		if s.update != nil {
			s.update(o, in)
		}
		if in.SubResource == "" {
			for _, name := range s.counted {
				if !equal(o.m[name], in.Old[name]) {
					o.count(in.Old)
					break
				}
			}
		}
	}
}

// dropGated drops the members of features that are off, unless the stored object uses them.
func (s strategy) dropGated(o *members, t *shape.Type, old map[string]any) {
	dropGated(t, o, old)
	was := mapAt(old, "spec")
	for name, f := range s.gated {
		if was[name] == nil && f.offOf(t) != 0 {
			o.edit("spec", func(spec *members) { spec.drop(name) })
		}
	}
}

// counts reports whether objects have a generation.
func (s strategy) counts(in Input) bool {
	if in.Resource != nil && in.Resource.GroupResource() == (schema.GroupResource{Resource: "pods"}) {
		return in.podsCount()
	}
	return s.generation
}

// podsCount reports whether Pods have a generation: they have one in the minors in which their status can observe it.
func (in Input) podsCount() bool {
	status := in.typ().Field("status")
	return status != nil && status.Type.Field("observedGeneration") != nil
}

// complete adds the members that the registry set when a stored object was created, unless the object has them.
func (s strategy) complete(o *members, in Input) {
	given := mapAt(o.m, "status")
	if s.counts(in) {
		o.edit("metadata", func(meta *members) { meta.fillNumber("generation", 1) })
	}
	if s.create == nil {
		return
	}
	s.create(o, in)
	if len(given) > 0 {
		o.edit("status", func(status *members) {
			for name, v := range given {
				status.set(name, v)
			}
		})
	}
}

// resetStatus writes the zero status of the kind, as Go encodes it.
func (s strategy) resetStatus(o *members, in Input) {
	var field *shape.Field
	if t := in.typ(); t != nil {
		field = t.Field("status")
	}
	if in.Resource.Definition != nil || field == nil {
		o.drop("status")
		return
	}
	p := pass{}
	if status, keep, _ := p.field(field, nil, nil); keep {
		o.set("status", status)
	} else {
		o.drop("status")
	}
}

// take replaces a member by that of another object.
func (o *members) take(name string, from map[string]any) {
	if v, ok := from[name]; ok {
		o.set(name, v)
	} else {
		o.drop(name)
	}
}

// count sets the generation that follows that of the stored object.
func (o *members) count(old map[string]any) {
	n, _ := mapAt(old, "metadata")["generation"].(int64)
	o.edit("metadata", func(meta *members) {
		if n+1 == 0 {
			meta.drop("generation")
		} else {
			meta.set("generation", n+1)
		}
	})
}

// equal compares two trees of JSON as the server compares objects.
func equal(a, b any) bool {
	return tree.Semantic(a, b, func(any, any) bool { return false })
}
