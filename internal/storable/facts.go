package storable

import (
	"cmp"
	"slices"
)

// A Rule is a property of stored objects of built-in kinds that does not depend on other members.
type Rule string

// The rules. A test in conformance/live asks a real server for each fact.
const (
	Defaulted Rule = "defaulted" // the server sets the member if it is absent
	Required  Rule = "required"  // the registry refuses objects without the member, and with an empty one
	Distinct  Rule = "distinct"  // the registry refuses two items of a list with the same keys
	Sourced   Rule = "sourced"   // an object has one of its pointers to structs
	Filled    Rule = "filled"    // the server adds at most declared defaults and the members of FilledBy
)

// A Fact is a rule about a Go type or one of its members.
type Fact struct {
	Rule   Rule
	Type   string // such as k8s.io/api/core/v1.PodSpec
	Member string // empty: it is about the type
}

// String describes the fact.
func (f Fact) String() string {
	if f.Member == "" {
		return string(f.Rule) + " " + f.Type
	}
	return string(f.Rule) + " " + f.Type + "." + f.Member
}

const (
	coreType = "k8s.io/api/core/v1."
	appsType = "k8s.io/api/apps/v1."
)

// defaulted are the members that the server sets in every struct of a type (pkg/apis/core/v1/defaults.go and
// pkg/apis/apps/v1/defaults.go v1.37.2).
var defaulted = map[string][]string{
	coreType + "PodSpec": {"restartPolicy", "dnsPolicy", "schedulerName", "securityContext",
		"terminationGracePeriodSeconds"},
	coreType + "Container": {"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"},
	coreType + "EphemeralContainer": {"imagePullPolicy", "terminationMessagePath",
		"terminationMessagePolicy"},
	appsType + "DeploymentSpec":  {"replicas", "revisionHistoryLimit", "progressDeadlineSeconds"},
	appsType + "StatefulSetSpec": {"replicas", "revisionHistoryLimit", "podManagementPolicy"},
	coreType + "ServiceSpec":     {"type", "sessionAffinity"},
}

// required are members that the registry requires in every stored object, and that are not empty there. Validating
// policies run after the registry.
var required = map[string][]string{
	coreType + "PodSpec":                   {"containers"},
	coreType + "Container":                 {"name", "image"},
	coreType + "PersistentVolumeClaimSpec": {"accessModes"},
	appsType + "DeploymentSpec":            {"selector"},
	appsType + "StatefulSetSpec":           {"selector"},
	appsType + "DaemonSetSpec":             {"selector"},
	appsType + "ReplicaSetSpec":            {"selector"},
}

// distinct are the types of items whose keys the registry requires to be distinct.
var distinct = []string{coreType + "Container", coreType + "EphemeralContainer", coreType + "Volume",
	coreType + "VolumeMount", coreType + "VolumeDevice"}

// sourced are types for which the server sets emptyDir if they do not have another member.
var sourced = []string{coreType + "Volume"}

// filled are the members that the server sets by Go code in structs that do not have them (defaults.go of package
// prepare).
var filled = map[string][]string{
	coreType + "Volume":        {"emptyDir"},
	coreType + "PodSpec":       podDefaults,
	coreType + "Container":     {"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"},
	coreType + "Probe":         {"timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"},
	coreType + "Secret":        {"type"},
	appsType + "ReplicaSet":    {},
	coreType + "ContainerPort": {"hostPort"},
	coreType + "EphemeralContainer": {"imagePullPolicy", "terminationMessagePath",
		"terminationMessagePolicy"},
	coreType + "PersistentVolumeClaimSpec":   {"volumeMode"},
	coreType + "PersistentVolumeClaimStatus": {"phase"},
	coreType + "PersistentVolumeStatus":      {"phase", "lastPhaseTransitionTime"},
	coreType + "ResourceRequirements":        {"requests"},
	coreType + "VolumeResourceRequirements":  {"requests"},
	appsType + "DeploymentSpec":              {"replicas", "revisionHistoryLimit", "progressDeadlineSeconds"},
	appsType + "DeploymentStrategy":          {"type", "rollingUpdate"},
	appsType + "RollingUpdateDeployment":     {"maxUnavailable", "maxSurge"},
	appsType + "DaemonSetSpec":               {"revisionHistoryLimit"},
	appsType + "DaemonSetUpdateStrategy":     {"type", "rollingUpdate"},
	appsType + "RollingUpdateDaemonSet":      {"maxUnavailable", "maxSurge"},
	appsType + "StatefulSetSpec": {"podManagementPolicy", "persistentVolumeClaimRetentionPolicy", "replicas",
		"revisionHistoryLimit"},
	appsType + "StatefulSetUpdateStrategy":                       {"type", "rollingUpdate"},
	appsType + "RollingUpdateStatefulSetStrategy":                {"partition", "maxUnavailable"},
	appsType + "StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted", "whenScaled"},
	appsType + "ReplicaSetSpec":                                  {"replicas"},
	"k8s.io/api/batch/v1.CronJobSpec": {"concurrencyPolicy", "suspend", "successfulJobsHistoryLimit",
		"failedJobsHistoryLimit"},
}

var podDefaults = []string{"restartPolicy", "dnsPolicy", "schedulerName", "securityContext",
	"terminationGracePeriodSeconds", "enableServiceLinks", "serviceAccountName", "serviceAccount"}

// Facts returns all facts.
func Facts() []Fact {
	var all []Fact
	add := func(rule Rule, members map[string][]string) {
		for name, list := range members {
			for _, member := range list {
				all = append(all, Fact{rule, name, member})
			}
		}
	}
	add(Defaulted, defaulted)
	add(Required, required)
	for _, name := range distinct {
		all = append(all, Fact{Rule: Distinct, Type: name})
	}
	for _, name := range sourced {
		all = append(all, Fact{Rule: Sourced, Type: name})
	}
	for name := range filled {
		all = append(all, Fact{Rule: Filled, Type: name})
	}
	slices.SortFunc(all, func(a, b Fact) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// Holds reports whether a rule is a fact about a type or one of its members.
func Holds(rule Rule, typ, member string) bool {
	switch rule {
	case Defaulted:
		return slices.Contains(defaulted[typ], member)
	case Required:
		return slices.Contains(required[typ], member)
	case Distinct:
		return slices.Contains(distinct, typ)
	case Sourced:
		return slices.Contains(sourced, typ)
	}
	_, known := filled[typ]
	return known
}

// FilledBy returns the members that the server may add to a struct of a type; not known: it may add any member.
func FilledBy(typ string) (members []string, known bool) {
	members, known = filled[typ]
	return members, known
}
