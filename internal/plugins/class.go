package plugins

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var runtimeKind = schema.GroupVersionKind{Group: "node.k8s.io", Version: "v1", Kind: "RuntimeClass"}

var runtimeClass = &plugin{name: "RuntimeClass", on: true, concerns: newPod, admit: setRuntime, validate: checkRuntime}

// runtime returns the RuntimeClass of the Pod; nil if it does not name one.
func (c *call) runtime() (map[string]any, error) {
	name := c.spec().Text("runtimeClassName")
	if name == "" {
		return nil, nil
	}
	class, err := c.get(runtimeKind, "", name)
	if err == nil && class == nil {
		return nil, c.forbid("pod rejected: RuntimeClass %q not found", name)
	}
	return class, err
}

// setRuntime is Admit of plugin/pkg/admission/runtimeclass/admission.go.
func setRuntime(c *call) error {
	class, err := c.runtime()
	if err != nil || class == nil {
		return err
	}
	if class["overhead"] != nil {
		fixed := tree.Object(class).At("overhead", "podFixed")
		if len(c.spec().At("overhead")) > 0 {
			if err := c.compareOverhead(class); err != nil {
				return err
			}
		}
		c.setSpec(map[string]any{"overhead": map[string]any(fixed)})
	}
	if class["scheduling"] == nil {
		return nil
	}
	if err := c.selectNodes(tree.Object(class).At("scheduling", "nodeSelector")); err != nil {
		return err
	}
	var scheduling nodev1.Scheduling
	if err := c.read(tree.Object(class).At("scheduling"), &scheduling); err != nil {
		return err
	}
	return c.tolerate(scheduling.Tolerations)
}

// selectNodes adds the node selector of a RuntimeClass. The server reports several conflicts in random order; here the
// order is by name.
func (c *call) selectNodes(by tree.Object) error {
	own := c.spec().At("nodeSelector")
	for _, key := range slices.Sorted(maps.Keys(by)) {
		if value, has := own[key]; has && value != by[key] {
			return c.forbid("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s",
				key, by[key], key, value)
		}
	}
	if len(by) > 0 {
		c.setSpec(map[string]any{"nodeSelector": own.With(by)})
	}
	return nil
}

// compareOverhead refuses a Pod whose overhead is not that of its RuntimeClass.
func (c *call) compareOverhead(class map[string]any) error {
	var of nodev1.RuntimeClass
	var pod corev1.Pod
	if err := c.read(class, &of); err != nil {
		return err
	}
	if err := c.read(map[string]any{"spec": map[string]any{"overhead": c.spec()["overhead"]}}, &pod); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(of.Overhead.PodFixed, pod.Spec.Overhead) {
		return c.forbid("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	}
	return nil
}

// checkRuntime is Validate.
func checkRuntime(c *call) error {
	class, err := c.runtime()
	switch {
	case err != nil:
		return err
	case class["overhead"] != nil:
		return c.compareOverhead(class)
	case c.spec()["overhead"] != nil:
		return c.forbid("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	}
	return nil
}
