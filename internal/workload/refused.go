package workload

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celgate/celgate/internal/tree"
)

// refusalOf explains why the API server does not store a workload, judging only its template and selector; "" if they
// are valid (as ValidateDeploymentSpec, ValidateJobSpec and others in pkg/apis v1.37.2).
func refusalOf(w tree.Object) string {
	kind := w.Text("kind")
	if kind == "CronJob" { // the Job reports it
		return ""
	}
	template := w.At("spec", "template")
	if len(template.At("spec").List("containers")) == 0 {
		return "the template of the " + kind + " does not have containers"
	}
	if len(template.At("spec").List("ephemeralContainers")) > 0 {
		return "the template of the " + kind + " has ephemeral containers"
	}
	allowed := []string{"Always"}
	if kind == "Job" {
		allowed = []string{"OnFailure", "Never"}
	}
	restarts := template.At("spec").Text("restartPolicy")
	if restarts == "" {
		restarts = "Always"
	}
	if !slices.Contains(allowed, restarts) {
		return fmt.Sprintf("the template of the %s has restartPolicy %s", kind, restarts)
	}
	if kind == "Job" { // the server generates its selector
		return ""
	}
	selector, err := selectorOf(w)
	switch {
	case err != nil:
		return fmt.Sprintf("the selector of the %s is wrong: %v", kind, err)
	case selector.Empty():
		return "the selector of the " + kind + " is empty"
	case !selector.Matches(labelsOf(template)):
		return "the selector of the " + kind + " does not match the labels of its template"
	}
	return ""
}

// selectorOf returns the selector of a workload; the selector of a ReplicationController is a map of labels.
func selectorOf(w tree.Object) (labels.Selector, error) {
	given := map[string]any(w.At("spec", "selector"))
	if w.Text("kind") == "ReplicationController" {
		given = map[string]any{"matchLabels": given}
	}
	text, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(text, &selector); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&selector)
}

func labelsOf(o tree.Object) labels.Set {
	set := labels.Set{}
	for key, value := range o.Labels() {
		set[key], _ = value.(string)
	}
	return set
}
