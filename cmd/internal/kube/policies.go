package kube

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// nativeGroup is the group of the kinds that kube-apiserver enforces itself.
const nativeGroup = "admissionregistration.k8s.io"

// nativeVersions are all versions of the native kinds, the best first.
var nativeVersions = []string{"v1", "v1beta1", "v1alpha1"}

// Policies reads the policies and bindings in force: those that the server itself enforces, and those of celgate's own
// group. Of two with the same kind and name the server's wins, as in [World.Sources]. Objects of celgate's own group
// are returned as objects of admissionregistration.k8s.io/v1, or of the dialect.
func (s *Snapshot) Policies(ctx context.Context) ([]map[string]any, error) {
	own, err := s.client.servedResources(ctx, policy.OwnGroup, []string{ownVersion.Version, dialectVersion.Version})
	if err != nil {
		return nil, err
	}
	native, err := s.client.servedResources(ctx, nativeGroup, nativeVersions)
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	for _, resource := range slices.Concat(mirrored, dialectOwn) {
		names := map[string]bool{}
		for _, group := range []map[string]schema.GroupVersionResource{native, own} {
			if group[resource].Resource == "" {
				continue
			}
			list, err := s.client.list(ctx, group[resource], "")
			if err != nil {
				return nil, fmt.Errorf("policies: %w", err)
			}
			for _, object := range list {
				if !names[tree.Object(object).Path()] &&
					!(group[resource].Group == policy.OwnGroup && (isDisabled(object) || isWithheld(object))) {
					all = append(all, policy.Native(object))
				}
				names[tree.Object(object).Path()] = true
			}
		}
	}
	return all, nil
}

// servedResources returns the resources of a group, each in the first of the versions that serves it.
func (c *Client) servedResources(ctx context.Context, group string, versions []string) (
	map[string]schema.GroupVersionResource, error) {
	found := map[string]schema.GroupVersionResource{}
	for _, version := range versions {
		resources, err := c.resourcesOf(ctx, schema.GroupVersion{Group: group, Version: version})
		if err != nil {
			return nil, err
		}
		for _, r := range resources {
			if found[r.Resource].Resource == "" {
				found[r.Resource] = r.GroupVersionResource
			}
		}
	}
	return found, nil
}

// isDisabled reports whether an annotation disables an object of celgate's own group.
func isDisabled(object map[string]any) bool {
	return tree.Object(object).Annotation(policy.DisabledAnnotation) == "true"
}

// Reasons of the condition Ready of an object of celgate's own group that is valid but withheld.
const (
	AuthorUnknown = "AuthorUnknown" // its author's right to read its params was not checked
	SecretParams  = "SecretParams"  // its params are Secrets
)

// isWithheld reports whether the status of an object of celgate's own group has one of these reasons.
func isWithheld(object map[string]any) bool {
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Ready" &&
			(condition["reason"] == AuthorUnknown || condition["reason"] == SecretParams)
	})
}
