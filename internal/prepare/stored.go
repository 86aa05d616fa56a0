package prepare

import (
	"fmt"
	"slices"
	"time"

	"github.com/celgate/celgate/schema"
)

// ReadStored returns an existing object as the server reads it: canonical, and with the members that every stored
// object has. An object without a resourceVersion comes from a file, not from a server: it also gets missing metadata
// and members that the registry would have set, such as a uid, the phase of a Pod or the addresses of a Service. These
// values are made up, see [MadeUpMembers].
//
// The warnings are those of decoding; an error means that it cannot be decoded.
func ReadStored(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) (map[string]any, []string,
	error) {
	out, warnings, err := Canonical(obj, types, kind)
	if err != nil {
		return nil, nil, err
	}
	if resource := types.ResourceFor(kind); resource != nil && !fromServer(out) {
		out = complete(out, sharesLabels(types.Type(kind), obj), types, resource)
	}
	switch t := types.Type(kind); t.Name {
	case core + "Service":
		o := members{m: out}
		o.edit("spec", readService)
		out = o.m
	case scalerV1Type:
		out, err = throughStorage(out, types, kind)
	}
	return out, warnings, err
}

// Canonical returns an object in the form in which the server reads it from etcd: decoded and defaulted, without
// members that only the registry sets. Protocol buffers, the form of built-in kinds in etcd, do not have empty lists:
// an empty required list, such as the rules of a ClusterRole, becomes null. Warnings and error are those of
// [ReadStored].
func Canonical(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) (map[string]any, []string,
	error) {
	if types.Type(kind) == nil {
		return nil, nil, fmt.Errorf("unknown kind %s", kind)
	}
	return decode(obj, types, kind, true)
}

const scalerV1Type = "k8s.io/api/autoscaling/v1.HorizontalPodAutoscaler"

// throughStorage converts an object through its storage version, whose defaults it gets when it is read. Of the
// built-in kinds only that of autoscaling/v1 has a storage version with other defaults.
func throughStorage(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) (map[string]any, error) {
	storage := kind
	storage.Version = "v2"
	stored, err := types.Convert(obj, storage)
	if err == nil {
		stored, _, err = Canonical(stored, types, storage)
	}
	if err != nil {
		return nil, err
	}
	return types.Convert(stored, kind)
}

func fromServer(obj map[string]any) bool {
	meta := members{m: mapAt(obj, "metadata")}
	return meta.text("resourceVersion") != ""
}

// madeTime is the creation time of objects in files, long ago. madeVersion is their resourceVersion.
var madeTime = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

const madeVersion = "1"

// complete adds the members that a created object has.
func complete(obj map[string]any, sharesLabels bool, types *schema.Registry, resource *schema.Resource) map[string]any {
	t := types.Type(resource.GroupVersionKind())
	if t == nil || t.Field("metadata") == nil && !custom(t) {
		return obj
	}
	in := Input{
		Types: types, Resource: resource, Operation: create, Object: obj, Now: madeTime, SharesLabels: sharesLabels,
		exists: true,
	}
	o := members{m: obj}
	o.fill("metadata", map[string]any{})
	o.edit("metadata", func(meta *members) {
		in.Namespace = meta.text("namespace")
		meta.fill("creationTimestamp", in.timestamp())
		meta.fillText("uid", uid(in))
		meta.fillText("resourceVersion", madeVersion)
	})
	strategyOf(in).complete(&o, in)
	// these defaults are set when it is read
	if again, _, err := decode(o.m, types, resource.GroupVersionKind(), true); err == nil {
		return again
	}
	return o.m
}

// DeleteOptions returns the options of a DELETE of one object as policies see them. The registries complete the
// client's options: the grace period of a Pod (CheckGracefulDelete in pkg/registry/core/pod/strategy.go), a
// precondition on the uid of objects that are deleted in steps (Delete in
// pkg/registry/core/namespace/storage/storage.go and in pkg/registry/customresourcedefinition/etcd.go of
// apiextensions-apiserver), and a negative grace period becomes 1 (rest.BeforeDelete in k8s.io/apiserver).
func DeleteOptions(options, stored map[string]any, resource *schema.Resource) map[string]any {
	o := members{m: options}
	if n, _ := o.m["gracePeriodSeconds"].(int64); n < 0 {
		o.set("gracePeriodSeconds", int64(1))
	}
	switch resource.GroupResource() {
	case schema.GroupResource{Resource: "pods"}:
		setGracePeriod(&o, stored)
	case schema.GroupResource{Resource: "namespaces"},
		schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:
		o.fill("preconditions", map[string]any{})
		o.edit("preconditions", func(p *members) {
			if uid := mapAt(stored, "metadata")["uid"]; uid != nil {
				p.fill("uid", uid)
			}
		})
	}
	return o.m
}

// setGracePeriod sets the time that a Pod has to terminate: zero if it does not run on a node.
func setGracePeriod(options *members, pod map[string]any) {
	meta, spec, status := mapAt(pod, "metadata"), mapAt(pod, "spec"), mapAt(pod, "status")
	if meta["deletionTimestamp"] != nil {
		return
	}
	if node, _ := spec["nodeName"].(string); node == "" || status["phase"] == "Failed" ||
		status["phase"] == "Succeeded" {
		options.set("gracePeriodSeconds", int64(0))
		return
	}
	period, _ := spec["terminationGracePeriodSeconds"].(int64)
	if period < 0 {
		period = 1
	}
	options.fill("gracePeriodSeconds", period)
}

// MadeUpMembers returns the members of an object whose values this package has made up and that an expression may well
// compare with others: creationTimestamp of a stored object, clusterIP and nodePort of a Service.
func MadeUpMembers(obj map[string]any, resource *schema.Resource) []string {
	meta := members{m: mapAt(obj, "metadata")}
	in := Input{Resource: resource, Namespace: meta.text("namespace"), Object: obj, Now: madeTime}
	var found []string
	if meta.m["creationTimestamp"] == in.timestamp() && meta.m["resourceVersion"] == madeVersion {
		found = append(found, "creationTimestamp")
	}
	if resource.GroupResource() != (schema.GroupResource{Resource: "services"}) {
		return found
	}
	spec := members{m: mapAt(obj, "spec")}
	a := allocator{in: in, taken: map[int64]bool{}}
	ips, _ := spec.m["clusterIPs"].([]any)
	if slices.ContainsFunc(ips, func(ip any) bool { return ip == a.address(familyOf(ip)) }) {
		found = append(found, "clusterIP")
	}
	for range size(spec.m["ports"]) + 1 {
		a.port(&spec)
	}
	known, _ := spec.m["healthCheckNodePort"].(int64)
	made := a.taken[known]
	spec.each("ports", func(p *members) { made = made || a.taken[number(p)] })
	if made {
		found = append(found, "nodePort")
	}
	return found
}
