package prepare

import (
	"github.com/celgate/celgate/internal/shape"
)

// Members of features that are off by default are dropped from written objects, unless the stored object already uses
// the feature: the functions dropDisabled… in k8s.io/kubernetes v1.37.2 pkg/api/*/util.go and
// pkg/registry/*/*/strategy.go. The tables of a minor say which features are off.

// A feature is one that some minor has off by default; a value may be a set of features.
type feature uint64

const (
	atomicWriteVolumeUserFields feature = 1 << iota
	clusterTrustBundleProjection
	containerRestartRules
	containerStopSignals
	csiVolumeHealth
	customResourceFieldSelectors
	draConsumableCapacity
	draDerivedAttributes
	draDeviceBindingConditions
	draDeviceCompatibilityGroups
	draDeviceTaints
	draExtendedResource
	draListTypeAttributes
	draNodeAllocatableResources
	draOptionalNodeOperations
	draPartitionableDevices
	draPartitionableDevicesType
	dynamicResourceAllocation
	emptyDirVolumeMode
	envFiles
	evictionRequestAPI
	genericWorkload
	grpcContainerProbeTLS
	h2cContainerProbe
	hostnameOverride
	imageVolume
	imageVolumeWithDigest
	jobManagedBy
	jobSuccessPolicy
	podLevelResources
	podObservedGeneration
	podVerticalScaling
	podVerticalScalingPreemption
	leaseStrategy  // CoordinatedLeaderElection,
	leasePreferred // same feature, separate by member
	matchLabelKeysInPodAffinity
	maxUnavailableStatefulSet
	mutableAllocatableCount
	nodeDeclaredFeatures
	podCertificateRequest
	procMountType
	recoverVolumeExpansion
	recursiveReadOnlyMounts
	scalingTolerance
	seLinuxChangePolicy
	supplementalGroupsPolicy
	terminatingReplicas
	trafficDistribution
	userNamespaces
	volumeAttributesClass
	volumeBindMountOptions
	volumeLimitScaling
	workloadWithJob
)

// switches are the server's names of the features.
var switches = map[feature]string{
	atomicWriteVolumeUserFields:  "AtomicWriteVolumeUserFields",
	clusterTrustBundleProjection: "ClusterTrustBundleProjection",
	containerRestartRules:        "ContainerRestartRules",
	containerStopSignals:         "ContainerStopSignals",
	csiVolumeHealth:              "CSIVolumeHealth",
	customResourceFieldSelectors: "CustomResourceFieldSelectors",
	draConsumableCapacity:        "DRAConsumableCapacity",
	draDerivedAttributes:         "DRADerivedAttributes",
	draDeviceBindingConditions:   "DRADeviceBindingConditions",
	draDeviceCompatibilityGroups: "DRADeviceCompatibilityGroups",
	draDeviceTaints:              "DRADeviceTaints",
	draExtendedResource:          "DRAExtendedResource",
	draListTypeAttributes:        "DRAListTypeAttributes",
	draNodeAllocatableResources:  "DRANodeAllocatableResources",
	draOptionalNodeOperations:    "DRAOptionalNodeOperations",
	draPartitionableDevices:      "DRAPartitionableDevices",
	draPartitionableDevicesType:  "DRAPartitionableDevicesType",
	dynamicResourceAllocation:    "DynamicResourceAllocation",
	emptyDirVolumeMode:           "EmptyDirVolumeMode",
	envFiles:                     "EnvFiles",
	evictionRequestAPI:           "EvictionRequestAPI",
	genericWorkload:              "GenericWorkload",
	grpcContainerProbeTLS:        "GRPCContainerProbeTLS",
	h2cContainerProbe:            "H2CContainerProbe",
	hostnameOverride:             "HostnameOverride",
	imageVolume:                  "ImageVolume",
	imageVolumeWithDigest:        "ImageVolumeWithDigest",
	jobManagedBy:                 "JobManagedBy",
	jobSuccessPolicy:             "JobSuccessPolicy",
	podLevelResources:            "PodLevelResources",
	podObservedGeneration:        "PodObservedGenerationTracking",
	podVerticalScaling:           "InPlacePodVerticalScaling",
	podVerticalScalingPreemption: "InPlacePodVerticalScalingSchedulerPreemption",
	leaseStrategy:                "CoordinatedLeaderElection",
	leasePreferred:               "CoordinatedLeaderElection",
	matchLabelKeysInPodAffinity:  "MatchLabelKeysInPodAffinity",
	maxUnavailableStatefulSet:    "MaxUnavailableStatefulSet",
	mutableAllocatableCount:      "MutableCSINodeAllocatableCount",
	nodeDeclaredFeatures:         "NodeDeclaredFeatures",
	podCertificateRequest:        "PodCertificateRequest",
	procMountType:                "ProcMountType",
	recoverVolumeExpansion:       "RecoverVolumeExpansionFailure",
	recursiveReadOnlyMounts:      "RecursiveReadOnlyMounts",
	scalingTolerance:             "HPAConfigurableTolerance",
	seLinuxChangePolicy:          "SELinuxChangePolicy",
	supplementalGroupsPolicy:     "SupplementalGroupsPolicy",
	terminatingReplicas:          "DeploymentReplicaSetTerminatingReplicas",
	trafficDistribution:          "ServiceTrafficDistribution",
	userNamespaces:               "UserNamespacesSupport",
	volumeAttributesClass:        "VolumeAttributesClass",
	volumeBindMountOptions:       "VolumeBindMountOptions",
	volumeLimitScaling:           "VolumeLimitScaling",
	workloadWithJob:              "WorkloadWithJob",
}

// offOf returns those of the features that are off in the minor of a type.
func (f feature) offOf(t *shape.Type) (off feature) {
	for one := feature(1); one <= f; one <<= 1 {
		if f&one != 0 && t.LacksFeature(switches[one]) {
			off |= one
		}
	}
	return off
}

// gates are, by Go type, the members of features that may be off. They never change after initialisation.
var gates = func() map[string]map[string]feature {
	all := map[string]map[string]feature{
		core + "PodSpec": {"evictionResponders": evictionRequestAPI,
			"schedulingGroup": genericWorkload, "workloadRef": genericWorkload,
			"hostUsers": userNamespaces, "hostnameOverride": hostnameOverride, "resources": podLevelResources,
			"resourceClaims": dynamicResourceAllocation},
		core + "PodSecurityContext": {"supplementalGroupsPolicy": supplementalGroupsPolicy,
			"seLinuxChangePolicy": seLinuxChangePolicy},
		core + "Container": {"resizePolicy": podVerticalScaling, "restartPolicyRules": containerRestartRules},
		core + "EphemeralContainer": {"resizePolicy": podVerticalScaling,
			"restartPolicyRules": containerRestartRules},
		core + "SecurityContext":      {"procMount": procMountType},
		core + "ResourceRequirements": {"claims": dynamicResourceAllocation},
		core + "EnvVarSource":         {"fileKeyRef": envFiles},
		core + "PodAffinityTerm": {"matchLabelKeys": matchLabelKeysInPodAffinity,
			"mismatchLabelKeys": matchLabelKeysInPodAffinity},
		core + "Volume":      {"image": imageVolume},
		core + "ServiceSpec": {"trafficDistribution": trafficDistribution},
		core + "PodStatus": {"nodeAllocatableResourceClaimStatuses": draNodeAllocatableResources,
			"volumeHealth": csiVolumeHealth, "resourceClaimStatuses": dynamicResourceAllocation,
			"observedGeneration": podObservedGeneration},
		core + "PodCondition":      {"observedGeneration": podObservedGeneration},
		core + "VolumeMountStatus": {"volumeStatus": imageVolumeWithDigest},
		core + "Lifecycle":         {"stopSignal": containerStopSignals},
		core + "GRPCAction":        {"mode": grpcContainerProbeTLS},
		core + "HTTPGetAction":     {"protocol": h2cContainerProbe},
		core + "VolumeMount": {"bindMountOptions": volumeBindMountOptions,
			"recursiveReadOnly": recursiveReadOnlyMounts},
		core + "EmptyDirVolumeSource":          {"mode": emptyDirVolumeMode},
		core + "KeyToPath":                     {"user": atomicWriteVolumeUserFields},
		core + "DownwardAPIVolumeFile":         {"user": atomicWriteVolumeUserFields},
		core + "ServiceAccountTokenProjection": {"user": atomicWriteVolumeUserFields},
		core + "ClusterTrustBundleProjection":  {"user": atomicWriteVolumeUserFields},
		core + "PodCertificateProjection":      {"user": atomicWriteVolumeUserFields},
		core + "SecretVolumeSource":            {"defaultUser": atomicWriteVolumeUserFields},
		core + "ConfigMapVolumeSource":         {"defaultUser": atomicWriteVolumeUserFields},
		core + "DownwardAPIVolumeSource":       {"defaultUser": atomicWriteVolumeUserFields},
		core + "ProjectedVolumeSource":         {"defaultUser": atomicWriteVolumeUserFields},
		core + "NodeSpec":                      {"podPreemptionPolicy": podVerticalScalingPreemption},
		core + "NodeStatus": {"features": supplementalGroupsPolicy, "runtimeHandlers": recursiveReadOnlyMounts,
			"declaredFeatures": nodeDeclaredFeatures},
		core + "VolumeProjection": {"clusterTrustBundle": clusterTrustBundleProjection,
			"podCertificate": podCertificateRequest},
		storage + "v1.CSIDriverSpec": {"preventPodSchedulingIfMissing": volumeLimitScaling,
			"nodeAllocatableUpdatePeriodSeconds": mutableAllocatableCount},
		storage + "v1.CSINodeStatus": {"storageHealth": csiVolumeHealth},

		"k8s.io/api/apps/v1.DeploymentStatus":                 {"terminatingReplicas": terminatingReplicas},
		"k8s.io/api/apps/v1.ReplicaSetStatus":                 {"terminatingReplicas": terminatingReplicas},
		"k8s.io/api/apps/v1.RollingUpdateStatefulSetStrategy": {"maxUnavailable": maxUnavailableStatefulSet},

		"k8s.io/api/autoscaling/v2.HPAScalingRules": {"tolerance": scalingTolerance},

		"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.CustomResourceDefinitionVersion": {
			"selectableFields": customResourceFieldSelectors},

		"k8s.io/api/batch/v1.JobSpec":          {"scheduling": workloadWithJob},
		"k8s.io/api/coordination/v1.LeaseSpec": {"strategy": leaseStrategy, "preferredHolder": leasePreferred},
	}
	device := map[string]feature{"nodeAllocatableResources": draNodeAllocatableResources, "taints": draDeviceTaints,
		"consumesCounters": draPartitionableDevices, "nodeName": draPartitionableDevices,
		"nodeSelector": draPartitionableDevices, "allNodes": draPartitionableDevices,
		"bindsToNode": draDeviceBindingConditions, "bindingConditions": draDeviceBindingConditions,
		"bindingFailureConditions": draDeviceBindingConditions, "allowMultipleAllocations": draConsumableCapacity}
	for _, version := range [...]string{"v1.", "v1beta2.", "v1beta1."} {
		for name, members := range map[string]map[string]feature{
			"ResourceSliceSpec": {"partitionTypeAttribute": draPartitionableDevicesType,
				"skipNodeOperations": draOptionalNodeOperations, "sharedCounters": draPartitionableDevices,
				"perDeviceNodeSelection": draPartitionableDevices},
			"Device": device, "BasicDevice": device,
			"DeviceCapacity":           {"requestPolicy": draConsumableCapacity},
			"DeviceClassSpec":          {"extendedResourceName": draExtendedResource},
			"DeviceCounterConsumption": {"compatibilityGroups": draDeviceCompatibilityGroups},
			"DeviceAttribute": {"bools": draListTypeAttributes, "ints": draListTypeAttributes,
				"strings": draListTypeAttributes, "versions": draListTypeAttributes},
			"DeviceRequest": {"derivedAttributes": draDerivedAttributes,
				"capacity": draConsumableCapacity},
			"ExactDeviceRequest": {"derivedAttributes": draDerivedAttributes, "capacity": draConsumableCapacity},
			"DeviceSubRequest":   {"derivedAttributes": draDerivedAttributes, "capacity": draConsumableCapacity},
			"DeviceRequestAllocationResult": {"skipNodeOperations": draOptionalNodeOperations,
				"shareID": draConsumableCapacity, "consumedCapacity": draConsumableCapacity,
				"bindingConditions":        draDeviceBindingConditions,
				"bindingFailureConditions": draDeviceBindingConditions},
			"AllocatedDeviceStatus": {"shareID": draConsumableCapacity},
			"AllocationResult":      {"allocationTimestamp": draDeviceBindingConditions},
		} {
			all[resources+version+name] = members
		}
	}
	return all
}()

// fallbacks are values of members of features that are off: these members are set instead of dropped, and having the
// value does not count as use.
var fallbacks = map[feature]any{procMountType: "Default"}

// dropGated drops the members of features that are off, unless the stored object uses them.
func dropGated(t *shape.Type, o *members, old map[string]any) {
	off := usedFeatures(t, o.m).offOf(t)
	if off == 0 {
		return
	}
	if off &^= usedFeatures(t, old); off != 0 {
		strip(t, o, off)
	}
}

// usedFeatures returns the features whose members occur in v.
func usedFeatures(t *shape.Type, v any) (used feature) {
	switch v := v.(type) {
	case map[string]any:
		if t.Kind == shape.Map {
			if inner := elem(t); inner.Kind == shape.Struct {
				for _, member := range v {
					used |= usedFeatures(inner, member)
				}
			}
			return used
		}
		if t.Name == core+"PodSpec" && hasRestartPolicies(v) {
			used |= containerRestartRules
		}
		gated := gates[t.Name]
		for name, member := range v {
			if f := gated[name]; f != 0 && member != nil && member != fallbacks[f] {
				used |= f
			}
			if size(member) > 0 {
				if f := t.Field(name); f != nil {
					used |= usedFeatures(f.Type, member)
				}
			}
		}
	case []any:
		if inner := elem(t); t.Kind == shape.List && inner.Kind == shape.Struct {
			for _, item := range v {
				used |= usedFeatures(inner, item)
			}
		}
	}
	return used
}

// strip drops the members of features.
func strip(t *shape.Type, o *members, off feature) {
	if off&imageVolume != 0 && t.Name == core+"PodSpec" {
		dropImageVolumes(o)
	}
	if off&containerRestartRules != 0 && t.Name == core+"PodSpec" {
		dropRestartPolicies(o)
	}
	gated := gates[t.Name]
	for name, member := range o.m {
		if f := gated[name]; f&off != 0 {
			if v, has := fallbacks[f]; has {
				o.set(name, v)
			} else {
				o.drop(name)
			}
			continue
		}
		inner := elem(t)
		if t.Kind == shape.Struct {
			f := t.Field(name)
			if f == nil {
				continue
			}
			inner = f.Type
		}
		switch member := member.(type) {
		case map[string]any:
			o.edit(name, func(m *members) { strip(inner, m, off) })
			if name == "lifecycle" && len(member) > 0 && size(o.m[name]) == 0 {
				o.drop(name) // its only member
			}
		case []any:
			if inner.Kind == shape.List {
				o.each(name, func(m *members) { strip(elem(inner), m, off) })
			}
		}
	}
}

// dropImageVolumes drops the volumes of images and their mounts.
func dropImageVolumes(podSpec *members) {
	dropped := map[string]bool{}
	podSpec.filter("volumes", func(volume *members) bool {
		if volume.m["image"] == nil {
			return true
		}
		dropped[volume.text("name")] = true
		return false
	})
	for _, containers := range containersOf {
		podSpec.each(containers, func(c *members) {
			c.filter("volumeMounts", func(mount *members) bool { return !dropped[mount.text("name")] })
		})
	}
}

// containersOf are the members of a PodSpec that hold containers.
var containersOf = [...]string{"containers", "initContainers", "ephemeralContainers"}

// needsRules reports a restartPolicy of a container that is a part of ContainerRestartRules: every one but that which
// makes an init container a sidecar.
func needsRules(containers string, policy any) bool {
	return policy != nil && (containers != "initContainers" || policy != "Always")
}

func hasRestartPolicies(podSpec map[string]any) bool {
	for _, member := range containersOf {
		list, _ := podSpec[member].([]any)
		for _, c := range list {
			if container, _ := c.(map[string]any); needsRules(member, container["restartPolicy"]) {
				return true
			}
		}
	}
	return false
}

// dropRestartPolicies drops what hasRestartPolicies finds
// (dropContainerRestartRules in k8s.io/kubernetes v1.34.4 pkg/api/pod/util.go).
func dropRestartPolicies(podSpec *members) {
	for _, member := range containersOf {
		podSpec.each(member, func(c *members) {
			if needsRules(member, c.m["restartPolicy"]) {
				c.drop("restartPolicy")
			}
		})
	}
}

// IsGated reports whether the server may drop a member of a type because its feature is off.
func IsGated(t *shape.Type, name string) bool {
	f := gates[t.Name][name]
	return f != 0 && f.offOf(t) != 0
}
