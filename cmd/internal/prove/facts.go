package prove

import (
	"slices"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
)

// The facts in this file are defaults that the API server implements in Go and that do not depend on other members. The
// random objects of the tests must satisfy each of them.

// defaulted are the members that the server sets in every struct of a type (pkg/apis/core/v1/defaults.go and
// pkg/apis/apps/v1/defaults.go v1.37.2).
var defaulted = map[string][]string{
	"k8s.io/api/core/v1.PodSpec": {"restartPolicy", "dnsPolicy", "schedulerName", "securityContext",
		"terminationGracePeriodSeconds"},
	"k8s.io/api/core/v1.Container": {"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"},
	"k8s.io/api/core/v1.EphemeralContainer": {"imagePullPolicy", "terminationMessagePath",
		"terminationMessagePolicy"},
	"k8s.io/api/apps/v1.DeploymentSpec":  {"replicas", "revisionHistoryLimit", "progressDeadlineSeconds"},
	"k8s.io/api/apps/v1.StatefulSetSpec": {"replicas", "revisionHistoryLimit", "podManagementPolicy"},
	"k8s.io/api/core/v1.ServiceSpec":     {"type", "sessionAffinity"},
}

// registered are members that the registry requires in every stored object, and that are not empty there. Validating
// policies run after the registry, mutating ones before it: for them only the lists count.
var registered = map[string][]string{
	"k8s.io/api/core/v1.PodSpec":                   {"containers"},
	"k8s.io/api/core/v1.Container":                 {"name", "image"},
	"k8s.io/api/core/v1.PersistentVolumeClaimSpec": {"accessModes"},
	"k8s.io/api/apps/v1.DeploymentSpec":            {"selector"},
	"k8s.io/api/apps/v1.StatefulSetSpec":           {"selector"},
	"k8s.io/api/apps/v1.DaemonSetSpec":             {"selector"},
	"k8s.io/api/apps/v1.ReplicaSetSpec":            {"selector"},
}

// isRegistered reports whether a member is there and not empty.
func (m *machine) isRegistered(t *shape.Type, name string) bool {
	f := t.Field(name)
	return slices.Contains(registered[t.Name], name) && (!m.mutates || f.Type.Kind == shape.List)
}

func isDefaulted(t *shape.Type, name string) bool { return slices.Contains(defaulted[t.Name], name) }

// volumeType is a type for which the server sets the member emptyDir if it does not have another member.
const volumeType = "k8s.io/api/core/v1.Volume"

// assumeSource assumes that a volume has a source.
func (n *node) assumeSource() {
	var sources []solve.Formula
	for i := range n.typ.Fields {
		if f := &n.typ.Fields[i]; f.Pointer && f.Type.Kind == shape.Struct {
			sources = append(sources, n.member(f.Name).present)
		}
	}
	n.m.store.Assume(n.m.store.Any(sources...))
	for i, a := range sources {
		for _, b := range sources[:i] {
			n.m.wishes = append(n.m.wishes, n.m.store.Conjoin(a, b).Negate())
		}
	}
}
