package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate/schema"
)

var subjectAccessReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1",
	Resource: "subjectaccessreviews"}

// askTime bounds the wait for an answer. The caller may hold something that others wait for, and may outlive the
// deadline of its request.
const askTime = 5 * time.Second

// authorize sends a SubjectAccessReview. An evaluation error comes with the decision, as from the server's own
// authorizers.
func (c *Client) authorize(ctx context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: reviewSpec(attr)}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	tree["apiVersion"], tree["kind"] = authorizationv1.SchemeGroupVersion.String(), "SubjectAccessReview"
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := c.dynamic.Resource(subjectAccessReviews).
		Create(ctx, &unstructured.Unstructured{Object: tree}, metav1.CreateOptions{})
	if err != nil {
		return authorizer.DecisionNoOpinion, "", &unansweredError{err}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, review); err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	if text := review.Status.EvaluationError; text != "" {
		err = errors.New(text)
	}
	switch {
	case review.Status.Allowed:
		return authorizer.DecisionAllow, review.Status.Reason, err
	case review.Status.Denied:
		return authorizer.DecisionDeny, review.Status.Reason, err
	}
	return authorizer.DecisionNoOpinion, review.Status.Reason, err
}

// An unansweredError means that the server did not answer, in contrast to an error of its authorizers.
type unansweredError struct{ err error }

func (e *unansweredError) Error() string { return fmt.Sprintf("ask the API server: %v", e.err) }
func (e *unansweredError) Unwrap() error { return e.err }

func reviewSpec(attr authorizer.Attributes) authorizationv1.SubjectAccessReviewSpec {
	var spec authorizationv1.SubjectAccessReviewSpec
	if who := attr.GetUser(); who != nil {
		spec.User, spec.UID, spec.Groups = who.GetName(), who.GetUID(), who.GetGroups()
		for k, v := range who.GetExtra() {
			if spec.Extra == nil {
				spec.Extra = map[string]authorizationv1.ExtraValue{}
			}
			spec.Extra[k] = v
		}
	}
	if !attr.IsResourceRequest() {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: attr.GetPath(), Verb: attr.GetVerb()}
		return spec
	}
	resource := &authorizationv1.ResourceAttributes{
		Namespace: attr.GetNamespace(), Verb: attr.GetVerb(), Group: attr.GetAPIGroup(), Version: attr.GetAPIVersion(),
		Resource: attr.GetResource(), Subresource: attr.GetSubresource(), Name: attr.GetName(),
	}
	// A selector narrows the question, so its unreadable parts are left out.
	fields, _ := attr.GetFieldSelector()
	for _, f := range fields {
		requirement := metav1.FieldSelectorRequirement{Key: f.Field, Operator: metav1.FieldSelectorOpIn,
			Values: []string{f.Value}}
		if f.Operator == selection.NotEquals || f.Operator == selection.NotIn {
			requirement.Operator = metav1.FieldSelectorOpNotIn
		}
		if resource.FieldSelector == nil {
			resource.FieldSelector = &authorizationv1.FieldSelectorAttributes{}
		}
		resource.FieldSelector.Requirements = append(resource.FieldSelector.Requirements, requirement)
	}
	labels, _ := attr.GetLabelSelector()
	for _, l := range labels {
		operator, ok := labelOperators[l.Operator()]
		if !ok {
			continue
		}
		if resource.LabelSelector == nil {
			resource.LabelSelector = &authorizationv1.LabelSelectorAttributes{}
		}
		resource.LabelSelector.Requirements = append(resource.LabelSelector.Requirements,
			metav1.LabelSelectorRequirement{
				Key: l.Key(), Operator: operator, Values: l.ValuesUnsorted(),
			},
		)
	}
	spec.ResourceAttributes = resource
	return spec
}

var labelOperators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals:       metav1.LabelSelectorOpIn,
	selection.DoubleEquals: metav1.LabelSelectorOpIn,
	selection.In:           metav1.LabelSelectorOpIn,
	selection.NotEquals:    metav1.LabelSelectorOpNotIn,
	selection.NotIn:        metav1.LabelSelectorOpNotIn,
	selection.Exists:       metav1.LabelSelectorOpExists,
	selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}
