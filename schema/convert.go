package schema

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Convert returns obj in another version of its kind, in the form in which the server would write it: members that the
// version does not have are gone, those that it always writes are there. Nothing is defaulted. obj is not changed;
// the result may share parts with it.
//
// A custom resource only gets the other apiVersion, as conversion strategy None says; what the other version prunes
// is the caller's job. The error says why there is no such conversion: the kind is unknown, the two are no versions of
// one kind, or a conversion webhook would have to be called.
func (r *Registry) Convert(obj map[string]any, to GroupVersionKind) (map[string]any, error) {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
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
		return nil, fmt.Errorf("%s cannot be converted to %s: they are no versions of one kind", from, to)
	}
	if target.Custom != nil {
		return convertCustom(obj, target)
	}
	out := maps.Clone(obj)
	out["apiVersion"] = to.GroupVersion().String()
	out["kind"] = to.Kind
	return out, nil
}

// convertCustom does what conversion strategy None does (as apiextensions-apiserver
// pkg/apiserver/conversion/nop_converter.go v0.37.2).
func convertCustom(obj map[string]any, target *Resource) (map[string]any, error) {
	spec := node{value: target.Custom.Definition}.child("spec")
	strategy, err := spec.child("conversion").optionalText("strategy")
	if err != nil {
		return nil, err
	}
	if strategy == "Webhook" {
		return nil, fmt.Errorf("%s to %s: the CustomResourceDefinition %q converts with a webhook, which cannot be called here",
			obj["apiVersion"], target.GroupVersionKind(), definitionName(target.Custom.Definition))
	}
	out := maps.Clone(obj)
	out["apiVersion"] = target.GroupVersion().String()
	return out, nil
}
