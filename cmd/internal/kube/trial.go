package kube

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/schema"
)

// A Trial is a request that is sent as a dry run.
type Trial struct {
	Resource        schema.GroupVersionResource
	SubResource     string
	Operation       admissionv1.Operation // CREATE, UPDATE or DELETE
	Namespace, Name string
	Object          map[string]any // nil on DELETE
}

// Try sends a request as a dry run and returns what the server would store, nil for a DELETE. The error is its answer.
func (s *Snapshot) Try(ctx context.Context, t Trial) (map[string]any, error) {
	client := s.client.dynamic.Resource(t.Resource).Namespace(t.Namespace)
	dry := []string{metav1.DryRunAll}
	var subresources []string
	if t.SubResource != "" {
		subresources = []string{t.SubResource}
	}
	object := &unstructured.Unstructured{Object: t.Object}
	var answer *unstructured.Unstructured
	var err error
	switch t.Operation {
	case admissionv1.Create:
		answer, err = client.Create(ctx, object, metav1.CreateOptions{DryRun: dry}, subresources...)
	case admissionv1.Update:
		answer, err = client.Update(ctx, object, metav1.UpdateOptions{DryRun: dry}, subresources...)
	case admissionv1.Delete:
		return nil, client.Delete(ctx, t.Name, metav1.DeleteOptions{DryRun: dry}, subresources...)
	default:
		return nil, fmt.Errorf("a request for %s cannot be a dry run", t.Operation)
	}
	if err != nil {
		return nil, err
	}
	return answer.Object, nil
}
