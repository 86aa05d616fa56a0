package prepare

import (
	"math"
	"strings"
	"time"
)

// A rule completes an object of one Go type after its members were completed: the defaults that exist as Go code in
// k8s.io/kubernetes v1.37.2 pkg/apis/*/v*/defaults.go, at the feature gates of that version. The server runs the rule
// of a type before those of its members; the rules below write out everything that they add, so that the order does not
// matter.
//
// in holds the members as given: an empty list counts as given in Go, but is not written.
type rule func(o *members, in map[string]any)

const (
	core              = "k8s.io/api/core/v1."
	registration      = "k8s.io/api/admissionregistration/"
	resources         = "k8s.io/api/resource/"
	flowcontrol       = "k8s.io/api/flowcontrol/"
	rbac              = "k8s.io/api/rbac/"
	storage           = "k8s.io/api/storage/"
	apiextensions     = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1."
	apiregistration   = "k8s.io/kube-aggregator/pkg/apis/apiregistration/"
	rbacGroup         = "rbac.authorization.k8s.io"
	namespaceNameNote = "kubernetes.io/metadata.name"
)

// defaultAbsent sets a pointer member that is missing.
func defaultAbsent(name string, v any) rule {
	return func(o *members, _ map[string]any) { o.fill(name, v) }
}

// defaultEmpty sets a string member that is empty.
func defaultEmpty(name, v string) rule {
	return func(o *members, _ map[string]any) { o.fillText(name, v) }
}

// all applies rules in order.
func all(rules ...rule) rule {
	return func(o *members, in map[string]any) {
		for _, r := range rules {
			r(o, in)
		}
	}
}

// rules are the rules by Go type. They never change after initialisation.
var rules = map[string]rule{
	core + "ReplicationController":         all(oneReplica, templateLabels(true)),
	core + "Volume":                        volume,
	core + "Container":                     container,
	core + "EphemeralContainer":            container,
	core + "Service":                       service,
	core + "Pod":                           pod,
	core + "PodStatus":                     podStatus,
	core + "PodSpec":                       podSpec,
	core + "Probe":                         probe,
	core + "SecretVolumeSource":            defaultAbsent("defaultMode", int64(0o644)),
	core + "ConfigMapVolumeSource":         defaultAbsent("defaultMode", int64(0o644)),
	core + "DownwardAPIVolumeSource":       defaultAbsent("defaultMode", int64(0o644)),
	core + "ProjectedVolumeSource":         defaultAbsent("defaultMode", int64(0o644)),
	core + "ServiceAccountTokenProjection": defaultAbsent("expirationSeconds", int64(3600)),
	core + "Secret":                        defaultEmpty("type", "Opaque"),
	core + "PersistentVolume": func(o *members, _ map[string]any) {
		o.edit("status", func(s *members) { s.fillText("phase", "Pending") })
		o.edit("spec", func(s *members) {
			s.fillText("persistentVolumeReclaimPolicy", "Retain")
			s.fill("volumeMode", "Filesystem")
		})
	},
	core + "PersistentVolumeClaim": func(o *members, _ map[string]any) {
		o.edit("status", func(s *members) { s.fillText("phase", "Pending") })
	},
	core + "PersistentVolumeClaimSpec": defaultAbsent("volumeMode", "Filesystem"),
	core + "Endpoints": func(o *members, _ map[string]any) {
		o.each("subsets", func(s *members) {
			s.each("ports", func(p *members) { p.fillText("protocol", "TCP") })
		})
	},
	core + "HTTPGetAction": all(defaultEmpty("path", "/"), defaultEmpty("scheme", "HTTP")),
	core + "Namespace": func(o *members, _ map[string]any) {
		o.edit("metadata", func(meta *members) {
			if name := meta.text("name"); name != "" {
				meta.label(namespaceNameNote, name)
			}
		})
	},
	core + "NamespaceStatus": defaultEmpty("phase", "Active"),
	core + "NodeStatus": func(o *members, in map[string]any) {
		if capacity := o.m["capacity"]; in["allocatable"] == nil && capacity != nil {
			o.set("allocatable", capacity)
		}
	},
	core + "ObjectFieldSelector":  defaultEmpty("apiVersion", "v1"),
	core + "LimitRangeItem":       limitRangeItem,
	core + "HostPathVolumeSource": defaultAbsent("type", ""),

	// Newer minors declare these.
	core + "ISCSIVolumeSource":           defaultEmpty("iscsiInterface", "default"),
	core + "ISCSIPersistentVolumeSource": defaultEmpty("iscsiInterface", "default"),
	core + "AzureDiskVolumeSource": all(defaultAbsent("cachingMode", "ReadWrite"), defaultAbsent("kind", "Shared"),
		defaultAbsent("fsType", "ext4"), defaultAbsent("readOnly", false)),
	core + "RBDVolumeSource":               blockDevice,
	core + "RBDPersistentVolumeSource":     blockDevice,
	core + "ScaleIOVolumeSource":           scaleIO,
	core + "ScaleIOPersistentVolumeSource": scaleIO,

	"k8s.io/api/apps/v1.Deployment":  deployment,
	"k8s.io/api/apps/v1.DaemonSet":   daemonSet,
	"k8s.io/api/apps/v1.StatefulSet": statefulSet,
	"k8s.io/api/apps/v1.ReplicaSet":  oneReplica,

	"k8s.io/api/batch/v1.Job": all(job, templateLabels(false)),
	"k8s.io/api/batch/v1.CronJob": func(o *members, _ map[string]any) {
		o.edit("spec", func(s *members) {
			s.fillText("concurrencyPolicy", "Allow")
			s.fill("suspend", false)
			s.fill("successfulJobsHistoryLimit", int64(3))
			s.fill("failedJobsHistoryLimit", int64(1))
		})
	},
	"k8s.io/api/batch/v1.PodFailurePolicyOnPodConditionsPattern": defaultEmpty("status", "True"),

	"k8s.io/api/autoscaling/v1.HorizontalPodAutoscalerSpec":     defaultAbsent("minReplicas", int64(1)),
	"k8s.io/api/autoscaling/v2.HorizontalPodAutoscalerSpec":     scalerSpec,
	"k8s.io/api/autoscaling/v2.HorizontalPodAutoscalerBehavior": scalerBehavior,

	"k8s.io/api/authentication/v1.TokenRequestSpec": defaultAbsent("expirationSeconds", int64(3600)),
	"k8s.io/api/discovery/v1.EndpointPort":          all(defaultAbsent("name", ""), defaultAbsent("protocol", "TCP")),
	"k8s.io/api/networking/v1.NetworkPolicyPort":    defaultAbsent("protocol", "TCP"),
	"k8s.io/api/networking/v1.NetworkPolicySpec":    networkPolicySpec,
	"k8s.io/api/networking/v1.IngressClassSpec": func(o *members, _ map[string]any) {
		o.edit("parameters", func(p *members) { p.fill("scope", "Cluster") })
	},

	rbac + "v1.ClusterRoleBinding": roleBinding,
	rbac + "v1.RoleBinding":        roleBinding,
	rbac + "v1.Subject": func(o *members, _ map[string]any) {
		if kind := o.text("kind"); kind == "User" || kind == "Group" {
			o.fillText("apiGroup", rbacGroup)
		}
	},

	"k8s.io/api/scheduling/v1.PriorityClass":      defaultAbsent("preemptionPolicy", "PreemptLowerPriority"),
	"k8s.io/api/scheduling/v1beta1.PriorityClass": defaultAbsent("preemptionPolicy", "PreemptLowerPriority"),

	storage + "v1.StorageClass":      storageClass,
	storage + "v1beta1.StorageClass": storageClass,
	storage + "v1.CSIDriverSpec":     csiDriverSpec,

	resources + "v1.ExactDeviceRequest":      deviceCount,
	resources + "v1.DeviceSubRequest":        deviceCount,
	resources + "v1.DeviceTaint":             setTimeAdded,
	resources + "v1beta2.ExactDeviceRequest": deviceCount,
	resources + "v1beta2.DeviceSubRequest":   deviceCount,
	resources + "v1beta2.DeviceTaint":        setTimeAdded,
	resources + "v1beta1.DeviceRequest": func(o *members, in map[string]any) {
		if o.text("deviceClassName") != "" {
			deviceCount(o, in)
		}
	},
	resources + "v1beta1.DeviceSubRequest":               deviceCount,
	resources + "v1beta1.DeviceTaint":                    setTimeAdded,
	resources + "v1alpha3.DeviceTaint":                   setTimeAdded,
	resources + "v1alpha3.ResourcePoolStatusRequestSpec": defaultAbsent("limit", int64(100)),

	flowcontrol + "v1.FlowSchemaSpec":       precedence,
	flowcontrol + "v1.QueuingConfiguration": queuingConfiguration,
	flowcontrol + "v1.ExemptPriorityLevelConfiguration": all(defaultAbsent("nominalConcurrencyShares", int64(0)),
		defaultAbsent("lendablePercent", int64(0))),
	flowcontrol + "v1.LimitedPriorityLevelConfiguration": all(defaultAbsent("nominalConcurrencyShares", int64(30)),
		defaultAbsent("lendablePercent", int64(0))),

	registration + "v1.ValidatingWebhook":                  webhook,
	registration + "v1.MutatingWebhook":                    all(webhook, defaultAbsent("reinvocationPolicy", "Never")),
	registration + "v1.RuleWithOperations":                 defaultAbsent("scope", "*"),
	registration + "v1.NamedRuleWithOperations":            defaultAbsent("scope", "*"),
	registration + "v1.ServiceReference":                   defaultAbsent("port", int64(443)),
	registration + "v1.MatchResources":                     matchResources,
	registration + "v1.ValidatingAdmissionPolicySpec":      defaultAbsent("failurePolicy", "Fail"),
	registration + "v1.MutatingAdmissionPolicySpec":        defaultAbsent("failurePolicy", "Fail"),
	registration + "v1beta1.NamedRuleWithOperations":       defaultAbsent("scope", "*"),
	registration + "v1beta1.MatchResources":                matchResources,
	registration + "v1beta1.ValidatingAdmissionPolicySpec": defaultAbsent("failurePolicy", "Fail"),
	registration + "v1beta1.MutatingAdmissionPolicySpec":   defaultAbsent("failurePolicy", "Fail"),
	registration + "v1alpha1.NamedRuleWithOperations":      defaultAbsent("scope", "*"),
	registration + "v1alpha1.MatchResources":               matchResources,
	registration + "v1alpha1.ParamRef":                     defaultAbsent("parameterNotFoundAction", "Deny"),
	registration + "v1alpha1.MutatingAdmissionPolicySpec":  defaultAbsent("failurePolicy", "Fail"),

	apiextensions + "CustomResourceDefinition":   customResourceDefinition,
	apiextensions + "ServiceReference":           defaultAbsent("port", int64(443)),
	apiregistration + "v1.ServiceReference":      defaultAbsent("port", int64(443)),
	apiregistration + "v1beta1.ServiceReference": defaultAbsent("port", int64(443)),
}

var (
	blockDevice = all(defaultEmpty("pool", "rbd"), defaultEmpty("user", "admin"),
		defaultEmpty("keyring", "/etc/ceph/keyring"))
	scaleIO = all(defaultEmpty("storageMode", "ThinProvisioned"), defaultEmpty("fsType", "xfs"))
)

func oneReplica(o *members, _ map[string]any) {
	o.edit("spec", func(s *members) { s.fill("replicas", int64(1)) })
}

// templateLabels gives an object without labels those of its pod template, and a ReplicationController also its
// selector.
func templateLabels(selector bool) rule {
	return func(o *members, _ map[string]any) {
		labels := mapAt(o.m, "spec", "template", "metadata")["labels"]
		if size(labels) == 0 {
			return
		}
		if selector {
			o.edit("spec", func(s *members) {
				if size(s.m["selector"]) == 0 {
					s.set("selector", labels)
				}
			})
		}
		o.edit("metadata", func(meta *members) {
			if size(meta.m["labels"]) == 0 {
				meta.set("labels", labels)
			}
		})
	}
}

func pullPolicy(image string) string {
	if isLatest(image) {
		return "Always"
	}
	return "IfNotPresent"
}

func volume(o *members, _ map[string]any) {
	if len(o.m) == 0 || len(o.m) == 1 && o.m["name"] != nil { // without a source
		o.set("emptyDir", map[string]any{})
	}
	if !o.lacks(imageVolume) {
		o.edit("image", func(image *members) { image.fillText("pullPolicy", pullPolicy(image.text("reference"))) })
	}
}

func container(o *members, _ map[string]any) {
	if o.text("imagePullPolicy") == "" {
		o.set("imagePullPolicy", pullPolicy(o.text("image")))
	}
	o.fillText("terminationMessagePath", "/dev/termination-log")
	o.fillText("terminationMessagePolicy", "File")
}

func service(o *members, _ map[string]any) {
	o.editAlone("spec", func(s *members) {
		s.fillText("sessionAffinity", "None")
		switch s.text("sessionAffinity") {
		case "None":
			s.drop("sessionAffinityConfig")
		case "ClientIP":
			if mapAt(s.m, "sessionAffinityConfig", "clientIP")["timeoutSeconds"] == nil {
				s.set("sessionAffinityConfig",
					map[string]any{"clientIP": map[string]any{"timeoutSeconds": int64(10800)}})
			}
		}
		s.fillText("type", "ClusterIP")
		s.each("ports", func(p *members) {
			p.fillText("protocol", "TCP")
			if target := p.m["targetPort"]; (target == int64(0) || target == "") && target != p.m["port"] {
				p.set("targetPort", p.m["port"])
			}
		})
		if external(s.m) {
			s.fillText("externalTrafficPolicy", "Cluster")
		}
		if nodePort(s.m) || s.m["type"] == "ClusterIP" {
			s.fill("internalTrafficPolicy", "Cluster")
		}
		if isBalanced(s.m) {
			s.fill("allocateLoadBalancerNodePorts", true)
		}
	})
	if !isBalanced(mapAt(o.m, "spec")) {
		return
	}
	o.edit("status", func(s *members) {
		s.edit("loadBalancer", func(l *members) {
			l.each("ingress", func(i *members) {
				if i.text("ip") != "" {
					i.fill("ipMode", "VIP")
				}
			})
		})
	})
}

// pod adds the defaults that a Pod has and a pod template does not.
func pod(o *members, _ map[string]any) {
	o.editAlone("spec", func(s *members) {
		if n, ok := s.m["terminationGracePeriodSeconds"].(int64); ok && n < 0 {
			s.set("terminationGracePeriodSeconds", int64(1))
		}
		s.fill("enableServiceLinks", true)
		host := s.m["hostNetwork"] == true
		for _, list := range [...]string{"containers", "initContainers"} {
			s.each(list, func(c *members) {
				c.edit("resources", requestLimits)
				if host {
					c.each("ports", func(p *members) {
						if port, _ := p.m["containerPort"].(int64); port != 0 {
							p.fillNumber("hostPort", port)
						}
					})
				}
			})
		}
	})
}

// requestLimits copies limits without a request to the requests.
func requestLimits(r *members) {
	limits, _ := r.m["limits"].(map[string]any)
	r.merge("requests", limits)
}

func podStatus(o *members, _ map[string]any) {
	ip := o.text("podIP")
	first := ""
	ips, _ := o.m["podIPs"].([]any)
	if len(ips) > 0 {
		entry, _ := ips[0].(map[string]any)
		first, _ = entry["ip"].(string)
	}
	switch {
	case ip == "" && len(ips) > 0:
		if first != "" {
			o.set("podIP", first)
		}
	case ip != "" && first != ip:
		o.set("podIPs", []any{map[string]any{"ip": ip}})
	}
}

func podSpec(o *members, _ map[string]any) {
	if account := o.text("serviceAccountName"); account == "" && o.text("serviceAccount") != "" {
		o.set("serviceAccountName", o.m["serviceAccount"])
	} else if account != o.text("serviceAccount") {
		o.set("serviceAccount", account)
	}
	o.fillText("dnsPolicy", "ClusterFirst")
	o.fillText("restartPolicy", "Always")
	if o.m["securityContext"] == nil {
		o.set("securityContext", map[string]any{})
	}
	o.fill("terminationGracePeriodSeconds", int64(30))
	o.fillText("schedulerName", "default-scheduler")
}

func probe(o *members, _ map[string]any) {
	o.fillNumber("timeoutSeconds", 1)
	o.fillNumber("periodSeconds", 10)
	o.fillNumber("successThreshold", 1)
	o.fillNumber("failureThreshold", 3)
}

func limitRangeItem(o *members, _ map[string]any) {
	if o.text("type") != "Container" {
		return
	}
	most, _ := o.m["max"].(map[string]any)
	least, _ := o.m["min"].(map[string]any)
	o.merge("default", most)
	limits, _ := o.m["default"].(map[string]any)
	o.merge("defaultRequest", limits)
	o.merge("defaultRequest", least)
}

func deployment(o *members, _ map[string]any) {
	o.editAlone("spec", func(s *members) {
		s.fill("replicas", int64(1))
		s.edit("strategy", func(u *members) {
			u.fillText("type", "RollingUpdate")
			if u.text("type") == "RollingUpdate" {
				u.fill("rollingUpdate", map[string]any{})
				u.edit("rollingUpdate", func(r *members) {
					r.fill("maxUnavailable", "25%")
					r.fill("maxSurge", "25%")
				})
			}
		})
		s.fill("revisionHistoryLimit", int64(10))
		s.fill("progressDeadlineSeconds", int64(600))
	})
}

func daemonSet(o *members, _ map[string]any) {
	o.editAlone("spec", func(s *members) {
		s.edit("updateStrategy", func(u *members) {
			u.fillText("type", "RollingUpdate")
			if u.text("type") == "RollingUpdate" {
				u.fill("rollingUpdate", map[string]any{})
				u.edit("rollingUpdate", func(r *members) {
					r.fill("maxUnavailable", int64(1))
					r.fill("maxSurge", int64(0))
				})
			}
		})
		s.fill("revisionHistoryLimit", int64(10))
	})
}

func statefulSet(o *members, _ map[string]any) {
	o.editAlone("spec", func(s *members) {
		s.fillText("podManagementPolicy", "OrderedReady")
		s.edit("updateStrategy", func(u *members) {
			if u.text("type") == "" {
				u.set("type", "RollingUpdate")
				u.fill("rollingUpdate", map[string]any{})
			}
			if u.text("type") == "RollingUpdate" {
				u.edit("rollingUpdate", func(r *members) {
					r.fill("partition", int64(0))
					if !o.lacks(maxUnavailableStatefulSet) {
						r.fill("maxUnavailable", int64(1))
					}
				})
			}
		})
		s.fill("persistentVolumeClaimRetentionPolicy", map[string]any{})
		s.edit("persistentVolumeClaimRetentionPolicy", func(r *members) {
			r.fillText("whenDeleted", "Retain")
			r.fillText("whenScaled", "Retain")
		})
		s.fill("replicas", int64(1))
		s.fill("revisionHistoryLimit", int64(10))
	})
}

func job(o *members, _ map[string]any) {
	o.editAlone("spec", func(s *members) {
		if s.m["completions"] == nil && s.m["parallelism"] == nil {
			s.set("completions", int64(1))
		}
		s.fill("parallelism", int64(1))
		if s.m["backoffLimitPerIndex"] != nil {
			s.fill("backoffLimit", int64(math.MaxInt32))
		}
		s.fill("backoffLimit", int64(6))
		s.fill("completionMode", "NonIndexed")
		s.fill("suspend", false)
		if s.m["podFailurePolicy"] != nil {
			s.fill("podReplacementPolicy", "Failed")
		}
		s.fill("podReplacementPolicy", "TerminatingOrFailed")
		s.fill("manualSelector", false)
	})
}

func scalerSpec(o *members, _ map[string]any) {
	o.fill("minReplicas", int64(1))
	if size(o.m["metrics"]) == 0 {
		o.set("metrics", []any{map[string]any{
			"type": "Resource",
			"resource": map[string]any{
				"name":   "cpu",
				"target": map[string]any{"type": "Utilization", "averageUtilization": int64(80)},
			},
		}})
	}
}

func scalerBehavior(o *members, in map[string]any) {
	percent := map[string]any{"type": "Percent", "value": int64(100), "periodSeconds": int64(15)}
	pods := map[string]any{"type": "Pods", "value": int64(4), "periodSeconds": int64(15)}
	o.fill("scaleUp", map[string]any{})
	o.edit("scaleUp", func(r *members) {
		r.fill("stabilizationWindowSeconds", int64(0))
		r.fill("selectPolicy", "Max")
		if mapAt(in, "scaleUp")["policies"] == nil {
			r.set("policies", []any{pods, percent})
		}
	})
	o.fill("scaleDown", map[string]any{})
	o.edit("scaleDown", func(r *members) {
		r.fill("selectPolicy", "Max")
		if mapAt(in, "scaleDown")["policies"] == nil {
			r.set("policies", []any{percent})
		}
	})
}

func networkPolicySpec(o *members, _ map[string]any) {
	if size(o.m["policyTypes"]) > 0 {
		return
	}
	types := []any{"Ingress"}
	if size(o.m["egress"]) > 0 {
		types = append(types, "Egress")
	}
	o.set("policyTypes", types)
}

func roleBinding(o *members, _ map[string]any) {
	o.edit("roleRef", func(r *members) { r.fillText("apiGroup", rbacGroup) })
}

func storageClass(o *members, _ map[string]any) {
	o.fill("reclaimPolicy", "Delete")
	o.fill("volumeBindingMode", "Immediate")
}

func csiDriverSpec(o *members, _ map[string]any) {
	o.fill("attachRequired", true)
	for _, name := range [...]string{"podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"} {
		o.fill(name, false)
	}
	if o.typ.Field("preventPodSchedulingIfMissing") != nil && !o.lacks(volumeLimitScaling) {
		o.fill("preventPodSchedulingIfMissing", false)
	}
	o.fill("fsGroupPolicy", "ReadWriteOnceWithFSType")
	if size(o.m["volumeLifecycleModes"]) == 0 {
		o.set("volumeLifecycleModes", []any{"Persistent"})
	}
}

func deviceCount(o *members, _ map[string]any) {
	o.fillText("allocationMode", "ExactCount")
	if o.text("allocationMode") == "ExactCount" {
		o.fillNumber("count", 1)
	}
}

func setTimeAdded(o *members, in map[string]any) {
	if in["timeAdded"] == nil { // the zero time counts as given
		o.set("timeAdded", time.Now().UTC().Format(time.RFC3339))
	}
}

func precedence(o *members, _ map[string]any) { o.fillNumber("matchingPrecedence", 1000) }

func queuingConfiguration(o *members, _ map[string]any) {
	o.fillNumber("handSize", 8)
	o.fillNumber("queues", 64)
	o.fillNumber("queueLengthLimit", 50)
}

func matchResources(o *members, _ map[string]any) {
	o.fill("matchPolicy", "Equivalent")
	o.fill("namespaceSelector", map[string]any{})
	o.fill("objectSelector", map[string]any{})
}

func webhook(o *members, in map[string]any) {
	matchResources(o, in)
	o.fill("failurePolicy", "Fail")
	o.fill("timeoutSeconds", int64(10))
}

func customResourceDefinition(o *members, _ map[string]any) {
	o.edit("spec", func(s *members) {
		s.edit("names", func(n *members) {
			if kind := n.text("kind"); kind != "" {
				n.fillText("singular", strings.ToLower(kind))
				n.fillText("listKind", kind+"List")
			}
		})
		s.fill("conversion", map[string]any{"strategy": "None"})
	})
	version := storageVersion(o.m)
	if version == nil {
		return
	}
	o.edit("status", func(s *members) {
		if size(s.m["storedVersions"]) == 0 {
			s.set("storedVersions", []any{version["name"]})
		}
	})
}

// storageVersion returns the storage version of a CustomResourceDefinition, or nil.
func storageVersion(crd map[string]any) map[string]any {
	versions, _ := mapAt(crd, "spec")["versions"].([]any)
	for _, v := range versions {
		if version, ok := v.(map[string]any); ok && version["storage"] == true {
			return version
		}
	}
	return nil
}

// HasDefaults reports whether a Go type has defaults that exist only as Go code, apart from those that the rule of
// another type adds.
func HasDefaults(goType string) bool { return rules[goType] != nil }
