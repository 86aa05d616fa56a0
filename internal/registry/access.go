package registry

import (
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/celgate/celgate/internal/tree"
)

const rbacGroup = "rbac.authorization.k8s.io"

func (j *judge) role(object, _ *place) { j.policyRules(object, true) }

func (j *judge) clusterRole(object, _ *place) {
	j.policyRules(object, false)
	aggregation := object.member("aggregationRule")
	if !aggregation.has() {
		return
	}
	selectors := aggregation.member("clusterRoleSelectors")
	if selectors.size() == 0 {
		j.require(&selectors, "at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	for i := range selectors.size() {
		at := selectors.item(i)
		j.forgive("selector of roles", func() { j.labelSelector(&at) })
		if _, readable := at.selects(&place{}); !readable {
			j.invalid(&at, nil, "invalid label selector.")
		}
	}
}

func (j *judge) policyRules(object *place, namespaced bool) {
	rules := object.member("rules")
	for i := range rules.size() {
		at := rules.item(i)
		verbs, urls, groups, resources, names := at.member("verbs"), at.member("nonResourceURLs"),
			at.member("apiGroups"),
			at.member("resources"), at.member("resourceNames")
		if verbs.size() == 0 {
			j.declare(func() { j.require(&verbs, "") })
		}
		if urls.size() > 0 {
			if namespaced {
				j.invalid(&urls, urls.value, "namespaced rules cannot apply to non-resource URLs")
			}
			if groups.size()+resources.size()+names.size() > 0 {
				j.invalid(&urls, urls.value, "rules cannot apply to both regular resources and non-resource URLs")
			}
			continue
		}
		if groups.size() == 0 {
			j.require(&groups, "resource rules must supply at least one api group")
		}
		if resources.size() == 0 {
			j.require(&resources, "resource rules must supply at least one resource")
		}
	}
}

func (j *judge) roleBinding(object, old *place) { j.binding(object, old, "Role", "ClusterRole") }

func (j *judge) clusterRoleBinding(object, old *place) { j.binding(object, old, "ClusterRole") }

// binding judges the role and the subjects of a binding; kinds are those of roles.
func (j *judge) binding(object, old *place, kinds ...string) {
	ref, subjects := object.member("roleRef"), object.member("subjects")
	group, kind, name := ref.member("apiGroup"), ref.member("kind"), ref.member("name")
	namespaced := len(kinds) > 1
	if group.text() != rbacGroup {
		j.unknownValue(&group, group.text(), rbacGroup)
	}
	known := false
	for _, of := range kinds {
		known = known || kind.text() == of
	}
	if !known {
		j.unknownValue(&kind, kind.text(), kinds...)
	}
	if name.text() == "" {
		j.declare(func() { j.require(&name, "") })
	} else {
		j.eachText(&name, content.IsPathSegmentName(name.text()))
	}
	for i := range subjects.size() {
		at := subjects.item(i)
		j.subject(&at, namespaced)
	}
	if old == nil {
		return
	}
	if before := old.member("roleRef"); !tree.Equal(ref.value, before.value) {
		shown := struct{ APIGroup, Kind, Name string }{group.text(), kind.text(), name.text()}
		j.invalid(&ref, shown, "field is immutable")
	}
}

func (j *judge) subject(p *place, namespaced bool) {
	kind, name, group, namespace := p.member("kind"), p.member("name"), p.member("apiGroup"), p.member("namespace")
	if name.text() == "" {
		j.declare(func() { j.require(&name, "") })
	}
	switch kind.text() {
	case "ServiceAccount":
		if name.text() != "" {
			j.dnsSubdomain(&name)
		}
		if group.text() != "" {
			j.unknownValue(&group, group.text(), "")
		}
		if !namespaced && namespace.text() == "" {
			j.require(&namespace, "")
		}
	case "User", "Group":
		if group.text() != rbacGroup {
			j.unknownValue(&group, group.text(), rbacGroup)
		}
	default:
		j.unknownValue(&kind, kind.text(), "ServiceAccount", "User", "Group")
	}
}
