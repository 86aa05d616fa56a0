package state

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Groups returns the groups that kube-apiserver sees for a user who is named with some groups (kubectl --as and
// --as-group): those of a service account when none are named, and system:authenticated, or system:unauthenticated for
// system:anonymous. As pkg/endpoints/filters/impersonation v0.37.2. The argument is not changed.
func Groups(username string, named []string) []string {
	groups := slices.Clone(named)
	if namespace, _, err := serviceaccount.SplitUsername(username); err == nil && len(groups) == 0 {
		groups = serviceaccount.MakeGroupNames(namespace)
	}
	switch {
	case username == user.Anonymous:
		if !slices.Contains(groups, user.AllUnauthenticated) {
			groups = append(groups, user.AllUnauthenticated)
		}
	case !slices.Contains(groups, user.AllAuthenticated) && !slices.Contains(groups, user.AllUnauthenticated):
		groups = append(groups, user.AllAuthenticated)
	}
	return groups
}
