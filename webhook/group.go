package webhook

import "github.com/celgate/celgate/policy"

// Group is the API group of celgate's own kinds: see [policy.OwnGroup].
const Group = policy.OwnGroup

const nativeVersion = "admissionregistration.k8s.io/v1"

// Native returns the native object that an object of [Group] stands for: see [policy.Native].
func Native(object map[string]any) map[string]any { return policy.Native(object) }
