package celgate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// immortal are the namespaces that cannot be deleted.
var immortal = map[string]bool{metav1.NamespaceDefault: true, metav1.NamespaceSystem: true,
	metav1.NamespacePublic: true}

// lifecycleRefusal returns the answer of the admission plugin NamespaceLifecycle, which runs before all policies, if it
// refuses the request (as pkg/admission/plugin/namespace/lifecycle/admission.go v0.37.2). An unknown namespace is not
// refused.
func (e *Engine) lifecycleRefusal(ctx context.Context, req *Request) *metav1.Status {
	ofNamespace := req.Kind.GroupKind() == namespaceKind.GroupKind()
	switch {
	case req.Operation == Delete && ofNamespace && immortal[req.Name]:
		return &apierrors.NewForbidden(req.Resource.GroupResource(), req.Name,
			errors.New("this namespace may not be deleted")).ErrStatus
	case req.Operation != Create || ofNamespace || req.Namespace == "" || isAccessReview(req):
		return nil
	}
	namespace, err := e.cluster.Get(ctx, namespaceKind, "", req.Namespace)
	if err != nil {
		return nil
	}
	if namespace == nil {
		return &apierrors.NewNotFound(apischema.GroupResource{Resource: "namespaces"}, req.Namespace).ErrStatus
	}
	if status, _ := namespace["status"].(map[string]any); status["phase"] != "Terminating" {
		return nil
	}
	refused := apierrors.NewForbidden(
		req.Resource.GroupResource(),
		req.displayName(),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated",
			req.Namespace)).ErrStatus
	refused.Details.Causes = append(refused.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", req.Namespace),
		Field: "metadata.namespace",
	})
	return &refused
}

// isAccessReview reports whether the request is an access review: refusing it would reveal facts about a namespace.
func isAccessReview(req *Request) bool {
	return req.Resource.Group == "authorization.k8s.io" && req.Resource.Resource == "localsubjectaccessreviews"
}
