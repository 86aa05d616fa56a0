package plugins

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var priorityKind = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}

var priority = &plugin{name: "Priority", on: true, admit: setPriority, validate: checkPriorityClass,
	concerns: either(requests("", "pods", create, update), requests("scheduling.k8s.io", "priorityclasses", create, update),
		requests("scheduling.k8s.io", "podgroups", create), requests("scheduling.k8s.io", "compositepodgroups", create))}

// systemPriorities are the priorities of the classes that every server creates.
var systemPriorities = map[string]int64{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

// setPriority is admitPod of plugin/pkg/admission/priority/admission.go.
func setPriority(c *call) error {
	switch {
	case c.Resource.Resource == "priorityclasses":
		return nil
	case c.Resource.Resource != "pods":
		return c.leave("")
	}
	spec := c.spec()
	if c.Operation == update {
		old := tree.Object(c.Old).At("spec")
		kept := map[string]any{}
		for _, member := range []string{"priority", "preemptionPolicy"} {
			if spec[member] == nil && old[member] != nil {
				kept[member] = old[member]
			}
		}
		if len(kept) > 0 {
			c.setSpec(kept)
		}
		return nil
	}
	name := spec.Text("priorityClassName")
	value, preemption, err := int64(0), "PreemptLowerPriority", error(nil)
	if name == "" {
		var class tree.Object
		if class, err = c.defaultPriority(""); class != nil {
			name, value, preemption = class.Name(), class.Number("value", 0), class.Text("preemptionPolicy")
		}
	} else {
		value, preemption, err = c.priorityOf(name)
	}
	if err != nil {
		return err
	}
	if given, ok := spec["priority"].(int64); ok && given != value {
		return c.forbid("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", given, value)
	}
	set := map[string]any{"priority": value}
	if name != "" {
		set["priorityClassName"] = name
	}
	if preemption != "" {
		if given := spec.Text("preemptionPolicy"); given != "" && given != preemption {
			return c.forbid("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", given, preemption)
		}
		set["preemptionPolicy"] = preemption
	}
	c.setSpec(set)
	return nil
}

// priorityOf returns the value and the preemption policy of a PriorityClass.
func (c *call) priorityOf(name string) (value int64, preemption string, err error) {
	system, isSystem := systemPriorities[name]
	class, err := c.cluster.Get(c.ctx, priorityKind, "", name)
	switch {
	case err != nil:
		return 0, "", c.leave(err.Error())
	case class == nil && isSystem:
		return system, "PreemptLowerPriority", nil
	case class == nil && !c.complete:
		return 0, "", c.leave(c.describeUnknown(priorityKind, "", name))
	case class == nil:
		return 0, "", c.forbid("no PriorityClass with name %v was found", name)
	}
	return tree.Object(class).Number("value", 0), tree.Object(class).Text("preemptionPolicy"), nil
}

// defaultPriority returns the default PriorityClass, the one with the lowest value if there are several; nil if there
// is none. It ignores the class with the given name.
func (c *call) defaultPriority(besides string) (tree.Object, error) {
	classes, err := c.list(priorityKind, "")
	if err != nil {
		return nil, err
	}
	var found tree.Object
	for _, class := range classes {
		o := tree.Object(class)
		if o["globalDefault"] == true && o.Name() != besides &&
			(found == nil || found.Number("value", 0) > o.Number("value", 0)) {
			found = o
		}
	}
	return found, nil
}

// checkPriorityClass refuses a second default class.
func checkPriorityClass(c *call) error {
	if c.Resource.Resource != "priorityclasses" || c.Object["globalDefault"] != true {
		return nil
	}
	class, err := c.defaultPriority(tree.Object(c.Object).Name())
	if err != nil || class == nil {
		return err
	}
	return c.forbid("PriorityClass %v is already marked as default. Only one default can exist", class.Name())
}

// tolerateOutage is plugin/pkg/admission/defaulttolerationseconds/admission.go.
func tolerateOutage(c *call) error {
	list := c.spec().List("tolerations")
	added := slices.Clone(list)
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		if !slices.ContainsFunc(list, func(t any) bool {
			toleration, _ := t.(map[string]any)
			o := tree.Object(toleration)
			effect, of := o.Text("effect"), o.Text("key")
			return (of == key || of == "") && (effect == "NoExecute" || effect == "")
		}) {
			added = append(added, map[string]any{"key": key, "operator": "Exists", "effect": "NoExecute",
				"tolerationSeconds": int64(300)})
		}
	}
	if len(added) > len(list) {
		c.setSpec(map[string]any{"tolerations": added})
	}
	return nil
}

// tolerateResources is plugin/pkg/admission/extendedresourcetoleration/admission.go.
func tolerateResources(c *call) error {
	extended := map[string]bool{}
	for _, list := range []string{"containers", "initContainers"} {
		for _, each := range c.spec().List(list) {
			container, _ := each.(map[string]any)
			for name := range tree.Object(container).At("resources", "requests") {
				if isExtended(name) {
					extended[name] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extended)) {
		wanted := map[string]any{"key": name, "operator": "Exists", "effect": "NoSchedule"}
		var next []any
		updated := false
		for _, each := range c.spec().List("tolerations") {
			toleration, _ := each.(map[string]any)
			o := tree.Object(toleration)
			if o.Text("key") == name && o.Text("operator") == "Exists" && o.Text("effect") == "NoSchedule" &&
				o.Text("value") == "" {
				each, updated = wanted, true
			}
			next = append(next, each)
		}
		if !updated {
			next = append(next, wanted)
		}
		c.setSpec(map[string]any{"tolerations": next})
	}
	return nil
}

// isExtended reports whether a resource is an extended one, as pkg/apis/core/helper/helpers.go does.
func isExtended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/") &&
		!strings.HasPrefix(name, "requests.") && len(validation.IsQualifiedName("requests."+name)) == 0
}

// taintNode is plugin/pkg/admission/nodetaint/admission.go.
func taintNode(c *call) error {
	const key, effect = "node.kubernetes.io/not-ready", "NoSchedule"
	taints := c.spec().List("taints")
	for _, each := range taints {
		taint, _ := each.(map[string]any)
		if o := tree.Object(taint); o.Text("key") == key && o.Text("effect") == effect {
			return nil
		}
	}
	c.setSpec(map[string]any{"taints": append(slices.Clip(taints), map[string]any{"key": key, "effect": effect})})
	return nil
}

var nodeKind = schema.GroupVersionKind{Version: "v1", Kind: "Node"}

// topologyLabels are those that Pods get from their nodes.
var topologyLabels = []string{"topology.kubernetes.io/zone", "topology.kubernetes.io/region"}

// nodeOf returns the node that a Pod or a Binding names; empty: none.
func nodeOf(r *Request) string {
	if r.SubResource == "" {
		return tree.Object(r.Object).At("spec").Text("nodeName")
	}
	if target := tree.Object(r.Object).At("target"); target.Text("kind") == nodeKind.Kind {
		return target.Text("name")
	}
	return ""
}

// labelByNode is plugin/pkg/admission/podtopologylabels/admission.go.
func labelByNode(c *call) error {
	node, err := c.get(nodeKind, "", nodeOf(c.Request))
	if err != nil {
		return err
	}
	added := map[string]any{}
	for _, key := range topologyLabels {
		if value, has := tree.Object(node).Labels()[key]; has {
			added[key] = value
		}
	}
	if len(added) > 0 {
		metadata := tree.Object(c.answer.Object).Metadata()
		c.answer.Object = tree.Object(c.answer.Object).WithMetadata(
			metadata.With(map[string]any{"labels": metadata.At("labels").With(added)}))
	}
	return nil
}
