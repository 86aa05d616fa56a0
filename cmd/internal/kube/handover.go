package kube

import (
	admissionv1 "k8s.io/api/admission/v1"

	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A Handover is the input of a migration from celgate's own group to the server's.
type Handover struct {
	Own     []map[string]any                       // policies and bindings of celgate's own group, the policies first
	Dialect []map[string]any                       // objects of the dialect, which no server enforces
	Native  map[policy.Ref]map[string]any          // the server's objects
	Served  map[string]schema.GroupVersionResource // the resources of the server's kinds, by name
}

// Handover reads the objects of both groups.
func (s *Snapshot) Handover(ctx context.Context) (*Handover, error) {
	h := &Handover{Native: map[policy.Ref]map[string]any{}}
	own, err := s.client.servedResources(ctx, policy.OwnGroup, []string{ownVersion.Version, dialectVersion.Version})
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		return nil, errors.New("the cluster does not serve policies of the group " + policy.OwnGroup)
	}
	if h.Served, err = s.client.servedResources(ctx, nativeGroup, nativeVersions); err != nil {
		return nil, err
	}
	for _, resource := range dialectOwn {
		of, ok := own[resource]
		if !ok {
			continue
		}
		list, err := s.client.list(ctx, of, "")
		if err != nil {
			return nil, err
		}
		h.Dialect = append(h.Dialect, list...)
	}
	for _, resource := range []string{mirrored[0], mirrored[2], mirrored[1], mirrored[3]} {
		list, err := s.client.list(ctx, own[resource], "")
		if err != nil {
			return nil, err
		}
		h.Own = append(h.Own, list...)
		if of, ok := h.Served[resource]; ok {
			if list, err = s.client.list(ctx, of, ""); err != nil {
				return nil, err
			}
			for _, object := range list {
				h.Native[policy.RefOf(object)] = object
			}
		}
	}
	return h, nil
}

// Manifest returns the native object that replaces one of celgate's own: in the version that the server serves, without
// the members that the cluster or celgate set. It is nil if the server does not serve the kind.
func (h *Handover) Manifest(own map[string]any) map[string]any {
	u := unstructured.Unstructured{Object: own}
	kind, binds := policy.KindOf(u.GetKind())
	resource := resourcesOf[kind].policies
	if binds {
		resource = resourcesOf[kind].bindings
	}
	served, ok := h.Served[resource]
	if !ok {
		return nil
	}
	metadata := map[string]any{"name": u.GetName()}
	if labels := u.GetLabels(); len(labels) > 0 {
		metadata["labels"] = texts(labels)
	}
	annotations := u.GetAnnotations()
	for key := range annotations {
		if key == "kubectl.kubernetes.io/last-applied-configuration" || strings.HasPrefix(key, "celgate.dev/") {
			delete(annotations, key)
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = texts(annotations)
	}
	return map[string]any{
		"apiVersion": served.GroupVersion().String(), "kind": u.GetKind(), "metadata": metadata, "spec": own["spec"],
	}
}

func texts(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// probeTime is the longest time that a server may need to enforce a new policy.
const probeTime = 15 * time.Second

// Probe finds out whether the server enforces native policies of a kind. It creates a policy with a binding that
// matches one ConfigMap name in a namespace, tries to create that ConfigMap in a dry run, and removes both objects.
// They match nothing else in the cluster. The server's metrics have the answer, too, but not every user may read them.
func (s *Snapshot) Probe(ctx context.Context, h *Handover, kind policy.Kind, namespace string) (acts bool, err error) {
	of := resourcesOf[kind]
	policies, bindings := h.Served[of.policies], h.Served[of.bindings]
	if policies.Resource == "" || bindings.Resource == "" {
		return false, nil
	}
	name := "celgate-probe-" + utilrand.String(10)
	spec := map[string]any{
		"failurePolicy": "Ignore",
		"matchConstraints": map[string]any{
			"namespaceSelector": map[string]any{
				"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}},
			"resourceRules": []any{map[string]any{
				"resourceNames": []any{name}, "apiGroups": []any{""}, "apiVersions": []any{"v1"},
				"operations": []any{"CREATE"}, "resources": []any{"configmaps"},
			}},
		},
	}
	bind := map[string]any{"policyName": name}
	if kind == policy.Validating {
		spec["validations"] = []any{map[string]any{"expression": "false", "message": name}}
		bind["validationActions"] = []any{"Deny"}
	} else {
		spec["reinvocationPolicy"] = "Never"
		spec["mutations"] = []any{map[string]any{"patchType": "ApplyConfiguration",
			"applyConfiguration": map[string]any{
				"expression": `Object{metadata: Object.metadata{labels: {"celgate-probe": "` + name + `"}}}`,
			}}}
	}
	for _, object := range []struct {
		resource schema.GroupVersionResource
		kind     string
		spec     map[string]any
	}{{policies, string(kind), spec}, {bindings, kind.Binding(), bind}} {
		client := s.client.dynamic.Resource(object.resource)
		_, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": object.resource.GroupVersion().String(), "kind": object.kind,
			"metadata": map[string]any{"name": name,
				"labels": map[string]any{"app.kubernetes.io/managed-by": "celgate"}}, "spec": object.spec,
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("probe: %w", err)
		}
		defer func() { // also after an interrupt
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
			defer cancel()
			if failed := client.Delete(ctx, name, metav1.DeleteOptions{}); failed != nil &&
				!apierrors.IsNotFound(failed) {
				err = errors.Join(err, fmt.Errorf("remove the probe %s %s: %w", object.kind, name, failed))
			}
		}()
	}
	configMap := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace}}
	trial := Trial{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Operation: admissionv1.Create, Namespace: namespace, Name: name, Object: configMap}
	for end := time.Now().Add(probeTime); ; sleep(ctx, 200*time.Millisecond) {
		answer, err := s.Try(ctx, trial)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil && wording.Denier(err.Error()) == name:
			return true, nil
		case err != nil:
			return false, fmt.Errorf("probe: %w", err)
		case (&unstructured.Unstructured{Object: answer}).GetLabels()["celgate-probe"] == name:
			return true, nil
		case time.Now().After(end):
			return false, nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
