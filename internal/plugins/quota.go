package plugins

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var quotaKind = schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}

// counted are the resources in quotas that count objects of a resource, besides count/RESOURCE.GROUP.
var counted = map[string][]string{
	"pods":                   {"pods", "cpu", "memory", "ephemeral-storage", "requests.", "limits.", "hugepages-"},
	"services":               {"services"},
	"secrets":                {"secrets"},
	"configmaps":             {"configmaps"},
	"persistentvolumeclaims": {"persistentvolumeclaims", "requests.storage"},
	"replicationcontrollers": {"replicationcontrollers"},
	"resourcequotas":         {"resourcequotas"},
}

// Quotas lists the quotas of the namespace that would count the object of a request once it is otherwise admitted. The
// usage of quotas is not known here.
func (c *Chain) Quotas(ctx context.Context, r Request) (unchecked []string) {
	if !c.Has("ResourceQuota") || r.Namespace == "" || r.Operation != create && r.Operation != update ||
		r.SubResource != "" || r.Resource.Resource == "namespaces" {
		return nil
	}
	quotas, err := c.cluster.List(ctx, quotaKind, r.Namespace)
	if err != nil {
		return []string{"ResourceQuota (" + err.Error() + ")"}
	}
	for _, quota := range quotas {
		var counts []string
		for name := range tree.Object(quota).At("spec", "hard") {
			if countsFor(name, r.Resource.GroupResource()) {
				counts = append(counts, name)
			}
		}
		if len(counts) > 0 {
			slices.Sort(counts)
			unchecked = append(unchecked, fmt.Sprintf("ResourceQuota (%s counts %s)", tree.Object(quota).Name(),
				strings.Join(counts, ", ")))
		}
	}
	return unchecked
}

// countsFor reports whether a resource of a quota counts objects of a resource.
func countsFor(name string, of schema.GroupResource) bool {
	if name == "count/"+of.String() {
		return true
	}
	if of.Group != "" {
		return false
	}
	return slices.ContainsFunc(counted[of.Resource], func(known string) bool {
		return name == known || strings.HasSuffix(known, ".") && strings.HasPrefix(name, known) &&
			!strings.HasPrefix(name, "requests.storage") || strings.HasSuffix(known, "-") && strings.HasPrefix(name, known) ||
			of.Resource == "services" && strings.HasPrefix(name, "services.") ||
			of.Resource == "persistentvolumeclaims" && strings.Contains(name, ".storageclass.storage.k8s.io/")
	})
}
