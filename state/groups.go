package state

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Groups returns the groups that kube-apiserver sees for a user with some groups (kubectl --as and --as-group). Without
// groups, a service account gets those of service accounts. The result includes system:authenticated, or
// system:unauthenticated for system:anonymous. As pkg/endpoints/filters/impersonation v0.37.2. The argument does not
// change.
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
