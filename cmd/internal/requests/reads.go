package requests

import (
	"strings"

	"github.com/celgate/celgate/policy"
)

// ReadsUser reports whether expressions of a policy read the user of the request.
func ReadsUser(p *policy.Policy) bool {
	for e := range p.Expressions() {
		if strings.Contains(e.Src, "request.userInfo") || strings.Contains(e.Src, "authorizer") {
			return true
		}
	}
	return false
}

// ReadNamespaces reports whether policies or bindings read the namespaces of objects.
func ReadNamespaces(set *policy.Set) bool {
	selects := func(m *policy.MatchResources) bool {
		return m != nil && m.NamespaceSelector != nil &&
			len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) > 0
	}
	for _, b := range set.Bindings {
		if selects(b.MatchResources) {
			return true
		}
	}
	for _, p := range set.Policies {
		if selects(p.MatchConstraints) {
			return true
		}
		for e := range p.Expressions() {
			if strings.Contains(e.Src, "namespaceObject") {
				return true
			}
		}
	}
	return false
}
