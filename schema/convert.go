package schema

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/tree"
)

// Convert returns obj in another version of its kind, in the form in which the server would write it: without members
// that the version does not have, and with those that it always writes. It does not apply defaults. obj is not changed;
// the result may share parts with it.
//
// For a custom resource only the apiVersion changes, as conversion strategy None does; the caller must prune for the
// other version. The error is the reason why the conversion is not possible: the two are not versions of one kind, a
// value has the wrong type for its version, or a conversion webhook would have to be called.
func (r *Registry) Convert(obj map[string]any, to GroupVersionKind) (map[string]any, error) {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	if apiVersion == "" || kind == "" {
		return nil, errors.New("an object without apiVersion and kind cannot be converted")
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	from := gv.WithKind(kind)
	if from == to {
		return obj, nil
	}
	source, target := r.byKind[from], r.byKind[to]
	if source == nil || target == nil || source.Storage != target.Storage {
		return nil, fmt.Errorf("%s cannot be converted to %s: they are not versions of one kind", name(from), name(to))
	}
	if target.Definition != nil {
		return convertCustom(obj, target)
	}
	sourceType, targetType := r.Type(from), r.Type(to)
	if sourceType == nil || targetType == nil {
		return nil, fmt.Errorf("%s cannot be converted to %s: a type is not known", name(from), name(to))
	}
	out := maps.Clone(obj)
	if reshape := reshapes[conversion{from: from, to: to}]; reshape != nil {
		// Members unknown to the source version are dropped first, so that reshape finds values of the expected types.
		clean, err := conform(obj, sourceType)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name(from), err)
		}
		if out, err = reshape(r, clean.(map[string]any)); err != nil {
			return nil, fmt.Errorf("%s to %s: %w", name(from), name(to), err)
		}
	}
	out["apiVersion"] = to.GroupVersion().String()
	out["kind"] = to.Kind
	converted, err := conform(out, targetType)
	if err != nil {
		return nil, fmt.Errorf("%s to %s: %w", name(from), name(to), err)
	}
	return converted.(map[string]any), nil
}

// name returns a kind as in messages: "autoscaling/v1 HorizontalPodAutoscaler".
func name(kind GroupVersionKind) string { return kind.GroupVersion().String() + " " + kind.Kind }

// convertCustom applies conversion strategy None (as apiextensions-apiserver pkg/apiserver/conversion/nop_converter.go
// v0.37.2).
func convertCustom(obj map[string]any, target *Resource) (map[string]any, error) {
	spec := node{value: target.Definition}.child("spec")
	strategy, err := spec.child("conversion").optionalText("strategy")
	if err != nil {
		return nil, err
	}
	if strategy == "Webhook" {
		return nil, fmt.Errorf("%v %v cannot be converted to %s: the CustomResourceDefinition %q converts with a webhook, which cannot be called here",
			obj["apiVersion"],
			obj["kind"],
			target.GroupVersion(),
			tree.Object(target.Definition).Name(),
		)
	}
	out := maps.Clone(obj)
	out["apiVersion"] = target.GroupVersion().String()
	return out, nil
}

type conversion struct{ from, to GroupVersionKind }

// A reshape returns a copy of an object with members moved to their places in another version. The object has the exact
// types of its version and may be changed.
type reshape func(r *Registry, obj map[string]any) (map[string]any, error)

// reshapes are the conversions between versions that differ in more than the presence of members (the hand-written
// ones in k8s.io/kubernetes pkg/apis/*/*/conversion.go v1.37.2).
var reshapes = allReshapes()

func allReshapes() map[conversion]reshape {
	all := map[conversion]reshape{
		{from: hpa("v1"), to: hpa("v2")}: autoscalerFromV1,
		{from: hpa("v2"), to: hpa("v1")}: autoscalerToV1,
		{from: coreEvent, to: event}:     rename(eventNames),
		{from: event, to: coreEvent}:     rename(inverse(eventNames)),
	}
	const dra = "resource.k8s.io"
	for _, version := range []string{"v1", "v1beta2"} {
		for kind, ways := range map[string][2]reshape{
			"ResourceClaim":         {requestsAt("spec").fromV1beta1, requestsAt("spec").toV1beta1},
			"ResourceClaimTemplate": {requestsAt("spec", "spec").fromV1beta1, requestsAt("spec", "spec").toV1beta1},
			"ResourceSlice":         {sliceFromV1beta1, sliceToV1beta1},
		} {
			old := GroupVersionKind{Group: dra, Version: "v1beta1", Kind: kind}
			new := GroupVersionKind{Group: dra, Version: version, Kind: kind}
			all[conversion{from: old, to: new}] = ways[0]
			all[conversion{from: new, to: old}] = ways[1]
		}
	}
	return all
}

// Events: the two groups have other names for the same members.

var (
	coreEvent = GroupVersionKind{Version: "v1", Kind: "Event"}
	event     = GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"}

	eventNames = map[string]string{
		"involvedObject":     "regarding",
		"message":            "note",
		"source":             "deprecatedSource",
		"firstTimestamp":     "deprecatedFirstTimestamp",
		"lastTimestamp":      "deprecatedLastTimestamp",
		"count":              "deprecatedCount",
		"reportingComponent": "reportingController",
	}
)

func inverse(names map[string]string) map[string]string {
	out := make(map[string]string, len(names))
	for k, v := range names {
		out[v] = k
	}
	return out
}

func rename(names map[string]string) reshape {
	return func(_ *Registry, obj map[string]any) (map[string]any, error) {
		for from, to := range names {
			if v, ok := obj[from]; ok {
				obj[to] = v
				delete(obj, from)
			}
		}
		return obj, nil
	}
}

// Dynamic resource allocation: v1beta1 requests have the members of "exactly" themselves, and its devices have those of
// a device in "basic".

// requestsAt is the path of a ResourceClaimSpec.
type claimPath []string

func requestsAt(path ...string) claimPath { return path }

func (p claimPath) requests(obj map[string]any) []any {
	for _, step := range append(p, "devices") {
		obj = object(obj[step])
	}
	return list(obj["requests"])
}

// requestMembers are the members of a v1beta1 request that belong to "exactly" in later versions.
var requestMembers = []string{"deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations",
	"capacity", "derivedAttributes"}

func (p claimPath) fromV1beta1(_ *Registry, obj map[string]any) (map[string]any, error) {
	for _, item := range p.requests(obj) {
		request := object(item)
		exactly := map[string]any{}
		for _, member := range requestMembers {
			if v, ok := request[member]; ok && v != "" {
				exactly[member] = v
			}
			delete(request, member)
		}
		if len(exactly) > 0 {
			request["exactly"] = exactly
		}
	}
	return obj, nil
}

func (p claimPath) toV1beta1(_ *Registry, obj map[string]any) (map[string]any, error) {
	for _, item := range p.requests(obj) {
		request := object(item)
		maps.Copy(request, object(request["exactly"]))
		delete(request, "exactly")
	}
	return obj, nil
}

func sliceFromV1beta1(_ *Registry, obj map[string]any) (map[string]any, error) {
	for _, item := range list(object(obj["spec"])["devices"]) {
		device := object(item)
		maps.Copy(device, object(device["basic"]))
		delete(device, "basic")
	}
	return obj, nil
}

func sliceToV1beta1(_ *Registry, obj map[string]any) (map[string]any, error) {
	devices := list(object(obj["spec"])["devices"])
	for i, item := range devices {
		basic := object(item)
		devices[i] = map[string]any{"name": basic["name"], "basic": basic}
		delete(basic, "name")
	}
	return obj, nil
}

// object and list return values of a conformed object; missing ones and null are empty.

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	items, _ := v.([]any)
	return items
}
