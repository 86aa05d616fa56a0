package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celgate/celgate/schema"
)

// Reports are objects that a program replaces as a whole set.
type Reports struct {
	Client     *Client
	Namespaced schema.GroupVersionResource
	Cluster    schema.GroupVersionResource
	Labels     map[string]string // of all reports
	Name       string            // of all reports; other objects with the labels are not celgate's

	// In selects the namespaces that are kept up to date, "" for the cluster; nil: all. Reports in others are left
	// alone.
	In func(namespace string) bool
}

// Write makes the reports in the cluster equal to the given ones, and removes other reports of the same name. It
// returns the numbers of written and removed ones. A namespace that is deleted in the meantime is not an error.
func (r *Reports) Write(ctx context.Context, objects []map[string]any) (written, removed int, err error) {
	keep := map[string]bool{}
	for _, tree := range objects {
		object := &unstructured.Unstructured{Object: tree}
		if r.In != nil && !r.In(object.GetNamespace()) {
			continue
		}
		keep[object.GetNamespace()] = true
		resource := r.Namespaced
		if object.GetNamespace() == "" {
			resource = r.Cluster
		}
		options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
		_, err := r.Client.dynamic.Resource(resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(),
			object, options)
		switch {
		case apierrors.IsNotFound(err) && !r.isServed(ctx, resource):
			return written, removed, fmt.Errorf("the cluster does not serve %s: %w", resource.GroupResource(), err)
		case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, "NamespaceTerminating"):
		case err != nil:
			return written, removed, err
		default:
			written++
		}
	}
	for _, resource := range []schema.GroupVersionResource{r.Namespaced, r.Cluster} {
		selector := labels.SelectorFromSet(r.Labels).String()
		options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
		for {
			list, err := r.Client.dynamic.Resource(resource).List(ctx, options)
			if err != nil {
				return written, removed, err
			}
			for _, item := range list.Items {
				in := item.GetNamespace()
				if item.GetName() != r.Name || keep[in] || r.In != nil && !r.In(in) {
					continue
				}
				err := r.Client.dynamic.Resource(resource).Namespace(item.GetNamespace()).Delete(ctx, item.GetName(),
					metav1.DeleteOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return written, removed, err
				}
				removed++
			}
			if options.Continue = list.GetContinue(); options.Continue == "" {
				break
			}
		}
	}
	return written, removed, nil
}

// isServed reports whether the cluster serves a resource.
func (r *Reports) isServed(ctx context.Context, resource schema.GroupVersionResource) bool {
	_, err := r.Client.dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	return !apierrors.IsNotFound(err) || errors.Is(err, context.Canceled)
}
