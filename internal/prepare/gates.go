package prepare

import (
	"github.com/celgate/celgate/internal/shape"
)

// Members that belong to features that are off at their defaults are dropped from what is written, unless the stored
// object uses the feature already: the functions dropDisabled… in k8s.io/kubernetes v1.37.2 pkg/api/*/util.go
// and pkg/registry/*/*/strategy.go. Which features are off is for the tables of a minor to say.

// A feature is one that a minor may have off; features are a set.
type feature uint32

const (
	atomicWriteVolumeUserFields feature = 1 << iota
	clusterTrustBundleProjection
	containerStopSignals
	csiVolumeHealth
	draDerivedAttributes
	draDeviceCompatibilityGroups
	draListTypeAttributes
	draNodeAllocatableResources
	draOptionalNodeOperations
	draPartitionableDevicesType
	emptyDirVolumeMode
	evictionRequestAPI
	genericWorkload
	grpcContainerProbeTLS
	h2cContainerProbe
	imageVolumeWithDigest
	podVerticalScalingPreemption
	leaseStrategy  // CoordinatedLeaderElection,
	leasePreferred // which is told apart by member
	maxUnavailableStatefulSet
	podCertificateRequest
	volumeBindMountOptions
	volumeLimitScaling
	workloadWithJob
)

// switches are the names by which the server knows the features.
var switches = map[feature]string{
	atomicWriteVolumeUserFields:  "AtomicWriteVolumeUserFields",
	clusterTrustBundleProjection: "ClusterTrustBundleProjection",
	containerStopSignals:         "ContainerStopSignals",
	csiVolumeHealth:              "CSIVolumeHealth",
	draDerivedAttributes:         "DRADerivedAttributes",
	draDeviceCompatibilityGroups: "DRADeviceCompatibilityGroups",
	draListTypeAttributes:        "DRAListTypeAttributes",
	draNodeAllocatableResources:  "DRANodeAllocatableResources",
	draOptionalNodeOperations:    "DRAOptionalNodeOperations",
	draPartitionableDevicesType:  "DRAPartitionableDevicesType",
	emptyDirVolumeMode:           "EmptyDirVolumeMode",
	evictionRequestAPI:           "EvictionRequestAPI",
	genericWorkload:              "GenericWorkload",
	grpcContainerProbeTLS:        "GRPCContainerProbeTLS",
	h2cContainerProbe:            "H2CContainerProbe",
	imageVolumeWithDigest:        "ImageVolumeWithDigest",
	podVerticalScalingPreemption: "InPlacePodVerticalScalingSchedulerPreemption",
	leaseStrategy:                "CoordinatedLeaderElection",
	leasePreferred:               "CoordinatedLeaderElection",
	maxUnavailableStatefulSet:    "MaxUnavailableStatefulSet",
	podCertificateRequest:        "PodCertificateRequest",
	volumeBindMountOptions:       "VolumeBindMountOptions",
	volumeLimitScaling:           "VolumeLimitScaling",
	workloadWithJob:              "WorkloadWithJob",
}

// offOf returns those of the features that are off at the minor of a type.
func (f feature) offOf(t *shape.Type) (off feature) {
	for one := feature(1); one <= f; one <<= 1 {
		if f&one != 0 && t.LacksFeature(switches[one]) {
			off |= one
		}
	}
	return off
}

// gates name, by Go type, the members of features that may be off. It is never written after initialisation.
var gates = func() map[string]map[string]feature {
	all := map[string]map[string]feature{
		core + "PodSpec": {"evictionResponders": evictionRequestAPI,
			"schedulingGroup": genericWorkload},
		core + "PodStatus": {"nodeAllocatableResourceClaimStatuses": draNodeAllocatableResources,
			"volumeHealth": csiVolumeHealth},
		core + "VolumeMountStatus":             {"volumeStatus": imageVolumeWithDigest},
		core + "Lifecycle":                     {"stopSignal": containerStopSignals},
		core + "GRPCAction":                    {"mode": grpcContainerProbeTLS},
		core + "HTTPGetAction":                 {"protocol": h2cContainerProbe},
		core + "VolumeMount":                   {"bindMountOptions": volumeBindMountOptions},
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
		core + "VolumeProjection": {"clusterTrustBundle": clusterTrustBundleProjection,
			"podCertificate": podCertificateRequest},
		storage + "v1.CSIDriverSpec": {"preventPodSchedulingIfMissing": volumeLimitScaling},
		storage + "v1.CSINodeStatus": {"storageHealth": csiVolumeHealth},

		"k8s.io/api/apps/v1.RollingUpdateStatefulSetStrategy": {"maxUnavailable": maxUnavailableStatefulSet},

		"k8s.io/api/batch/v1.JobSpec":          {"scheduling": workloadWithJob},
		"k8s.io/api/coordination/v1.LeaseSpec": {"strategy": leaseStrategy, "preferredHolder": leasePreferred},
	}
	for _, version := range [...]string{"v1.", "v1beta2.", "v1beta1."} {
		for name, members := range map[string]map[string]feature{
			"ResourceSliceSpec": {"partitionTypeAttribute": draPartitionableDevicesType,
				"skipNodeOperations": draOptionalNodeOperations},
			"Device":                   {"nodeAllocatableResources": draNodeAllocatableResources},
			"BasicDevice":              {"nodeAllocatableResources": draNodeAllocatableResources},
			"DeviceCounterConsumption": {"compatibilityGroups": draDeviceCompatibilityGroups},
			"DeviceAttribute": {"bools": draListTypeAttributes, "ints": draListTypeAttributes,
				"strings": draListTypeAttributes, "versions": draListTypeAttributes},
			"DeviceRequest":                 {"derivedAttributes": draDerivedAttributes},
			"ExactDeviceRequest":            {"derivedAttributes": draDerivedAttributes},
			"DeviceSubRequest":              {"derivedAttributes": draDerivedAttributes},
			"DeviceRequestAllocationResult": {"skipNodeOperations": draOptionalNodeOperations},
		} {
			all[resources+version+name] = members
		}
	}
	return all
}()

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
		gated := gates[t.Name]
		for name, member := range v {
			if gated != nil && member != nil {
				used |= gated[name]
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
	gated := gates[t.Name]
	for name, member := range o.m {
		if gated[name]&off != 0 {
			o.drop(name)
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
				o.drop(name) // it held nothing else
			}
		case []any:
			if inner.Kind == shape.List {
				o.each(name, func(m *members) { strip(elem(inner), m, off) })
			}
		}
	}
}
