package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

const fieldManager = "celgate"

var configurations = map[string]schema.GroupVersionResource{
	"MutatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "mutatingwebhookconfigurations"},
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingwebhookconfigurations"},
}

// ApplyConfiguration applies a webhook configuration. Fields that others have set stay.
func (c *Client) ApplyConfiguration(ctx context.Context, configuration map[string]any) error {
	object := &unstructured.Unstructured{Object: configuration}
	_, err := c.dynamic.Resource(configurations[object.GetKind()]).
		Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// HasConfigurations reports whether both webhook configurations of a name exist.
func (c *Client) HasConfigurations(ctx context.Context, name string) (bool, error) {
	for _, resource := range configurations {
		_, err := c.dynamic.Resource(resource).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// A Condition is a condition in the status of a policy.
type Condition struct {
	Type    string
	True    bool
	Reason  string
	Message string
}

// A Status is the status of a policy or binding.
type Status struct {
	Conditions []Condition

	// TypeChecking holds the warnings of the API server's type checker; nil for kinds that it does not check.
	TypeChecking *TypeChecking

	Order int64 // the place of a mutating policy among those in force, from 1; 0: none

	Reads, Writes, Why []string // of a mutating policy of the dialect; Why: reasons for its place

	// The remaining fields are for policies of the dialect.
	ParamKind     *MatchedKind // nil: none
	MatchedKinds  []MatchedKind
	EstimatedCost []EstimatedCost
}

// TypeChecking has the shape of the same member in the status of a native policy.
type TypeChecking struct {
	ExpressionWarnings []ExpressionWarning
}

// An ExpressionWarning is one warning about an expression.
type ExpressionWarning struct{ FieldRef, Warning string }

// A MatchedKind is a kind that a policy matches, with the generation of its definition; 0: built in.
type MatchedKind struct {
	APIVersion, Kind string
	Generation       int64
}

func (k MatchedKind) tree() map[string]any {
	tree := map[string]any{"apiVersion": k.APIVersion, "kind": k.Kind}
	if k.Generation > 0 {
		tree["generation"] = k.Generation
	}
	return tree
}

// An EstimatedCost is the highest estimated cost of a policy against a budget of Limit CEL cost units.
type EstimatedCost struct {
	Of           string // such as "validations" or "mutations[0]"
	Units, Limit int64
}

// maxListed bounds each list of a status.
const maxListed = 100

func toList(texts []string) []any {
	var list []any
	for i, text := range texts {
		if i == maxListed {
			return append(list, fmt.Sprintf("… and %d more", len(texts)-maxListed))
		}
		list = append(list, text)
	}
	return list
}

// addDialect adds the members that only policies of the dialect have.
func (is *Status) addDialect(status map[string]any) {
	if is.ParamKind != nil {
		status["paramKind"] = is.ParamKind.tree()
	}
	var kinds, costs []any
	for _, kind := range is.MatchedKinds[:min(len(is.MatchedKinds), maxListed)] {
		kinds = append(kinds, kind.tree())
	}
	for _, c := range is.EstimatedCost {
		costs = append(costs, map[string]any{"of": c.Of, "units": c.Units, "limit": c.Limit})
	}
	if kinds != nil {
		status["matchedKinds"], status["matchedKindsTotal"] = kinds, int64(len(is.MatchedKinds))
	}
	if costs != nil {
		status["estimatedCost"] = costs
	}
}

// WriteStatus writes the status of an object unless it is equal. It is not an error if the object is gone.
func (c *Client) WriteStatus(ctx context.Context, s Source, is Status) error {
	conditions := is.Conditions
	object := unstructured.Unstructured{Object: s.Object}
	generation := object.GetGeneration()
	old, _ := s.Object["status"].(map[string]any)
	oldConditions, _ := old["conditions"].([]any)
	last := map[string]map[string]any{}
	for _, c := range oldConditions {
		if c, ok := c.(map[string]any); ok {
			name, _ := c["type"].(string)
			last[name] = c
		}
	}
	list := make([]any, len(conditions))
	for i, condition := range conditions {
		state := "False"
		if condition.True {
			state = "True"
		}
		since := metav1.Now().UTC().Format("2006-01-02T15:04:05Z")
		if before := last[condition.Type]; before["status"] == state {
			since, _ = before["lastTransitionTime"].(string)
		}
		list[i] = map[string]any{
			"type": condition.Type, "status": state, "reason": condition.Reason, "message": condition.Message,
			"observedGeneration": generation, "lastTransitionTime": since,
		}
	}
	status := map[string]any{"observedGeneration": generation, "conditions": list}
	if is.TypeChecking != nil {
		checked := map[string]any{}
		var warnings []any
		for _, w := range is.TypeChecking.ExpressionWarnings {
			warnings = append(warnings, map[string]any{"fieldRef": w.FieldRef, "warning": w.Warning})
		}
		if warnings != nil {
			checked["expressionWarnings"] = warnings
		}
		status["typeChecking"] = checked
	}
	if is.Order > 0 {
		status["order"] = is.Order
	}
	for member, texts := range map[string][]string{"reads": is.Reads, "writes": is.Writes, "why": is.Why} {
		if len(texts) > 0 {
			status[member] = toList(texts)
		}
	}
	is.addDialect(status)
	if tree.Equal(status, old) {
		return nil
	}
	metadata := map[string]any{"name": object.GetName(), "uid": string(object.GetUID())}
	if object.GetNamespace() != "" {
		metadata["namespace"] = object.GetNamespace()
	}
	_, err := c.dynamic.Resource(ownResource(s.Resource)).Namespace(object.GetNamespace()).
		ApplyStatus(ctx, object.GetName(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": s.Object["apiVersion"], "kind": s.Object["kind"],
			"metadata": metadata,
			"status":   status,
		}}, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the name belongs to another object by now
		return nil
	}
	return err
}
