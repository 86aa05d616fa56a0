package kube

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/schema"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// A Secret is shared by all replicas.
type Secret struct {
	Client    *Client
	Namespace string
	Name      string
	Type      string // empty: Opaque
}

// Read returns the content of the Secret and its resourceVersion; nil if it does not exist.
func (s *Secret) Read(ctx context.Context) (map[string][]byte, string, error) {
	object, err := s.Client.dynamic.Resource(secrets).Namespace(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	return content(object)
}

// Create makes the Secret, and returns its content: another replica's if that was faster.
func (s *Secret) Create(ctx context.Context, members map[string][]byte) (map[string][]byte, string, error) {
	object, err := s.Client.dynamic.Resource(secrets).Namespace(s.Namespace).Create(ctx, s.object(members, ""),
		metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return s.Read(ctx)
	}
	if err != nil {
		return nil, "", err
	}
	return content(object)
}

// Update replaces the content of a version of the Secret.
func (s *Secret) Update(ctx context.Context, members map[string][]byte, version string) error {
	_, err := s.Client.dynamic.Resource(secrets).Namespace(s.Namespace).Update(ctx, s.object(members, version),
		metav1.UpdateOptions{})
	return err
}

func (s *Secret) object(members map[string][]byte, version string) *unstructured.Unstructured {
	encoded := make(map[string]any, len(members))
	for name, value := range members {
		encoded[name] = base64.StdEncoding.EncodeToString(value)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": cmp.Or(s.Type, "Opaque"),
		"metadata": map[string]any{
			"name": s.Name, "namespace": s.Namespace,
			"labels": map[string]any{"app.kubernetes.io/managed-by": "celgate"},
		},
		"data": encoded,
	}}
	if version != "" {
		object.SetResourceVersion(version)
	}
	return object
}

func content(object *unstructured.Unstructured) (map[string][]byte, string, error) {
	encoded, _, err := unstructured.NestedStringMap(object.Object, "data")
	if err != nil {
		return nil, "", err
	}
	members := make(map[string][]byte, len(encoded))
	for name, text := range encoded {
		if members[name], err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, "", fmt.Errorf("member %s of Secret %s: %w", name, object.GetName(), err)
		}
	}
	return members, object.GetResourceVersion(), nil
}
