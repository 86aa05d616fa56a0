package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/celgate/celgate/internal/tree"
)

// podTemplate is the path of the Pod template in most workloads.
const podTemplate = "spec.template"

// podPrefix returns the prefix of the generated names of a controller's Pods (as getPodsPrefix in
// pkg/controller/controller_utils.go v1.37.2).
func podPrefix(name string) string {
	if len(validation.NameIsDNSSubdomain(name+"-", true)) > 0 {
		return name
	}
	return name + "-"
}

// waitingReason explains why a workload with the given number of replicas does not create a Pod.
func waitingReason(replicas int64) string {
	if replicas == 0 {
		return "replicas is 0"
	}
	return ""
}

// skippedAnnotations are the annotations of a Deployment that its ReplicaSets do not get (as annotationsToSkip in
// pkg/controller/deployment/util/deployment_util.go v1.37.2).
var skippedAnnotations = []string{
	"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision",
	"deployment.kubernetes.io/revision-history", "deployment.kubernetes.io/desired-replicas",
	"deployment.kubernetes.io/max-replicas", "deprecated.deployment.rollback.to",
}

// As getNewReplicaSet in pkg/controller/deployment/sync.go v1.37.2.
func deploymentChildren(w tree.Object) []Child {
	const uniqueLabel = "pod-template-hash"
	spec := w.At("spec")
	template := spec.At("template")
	hash := hashOf(template)
	labels := template.At("metadata", "labels").With(map[string]any{uniqueLabel: hash})
	replicas := spec.Number("replicas", 1)
	surge := int64(0)
	if strategy := spec.At("strategy"); strategy.Text("type") != "Recreate" {
		surge = maxSurge(strategy.At("rollingUpdate"), replicas)
	}
	annotations := maps.Clone(map[string]any(w.At("metadata", "annotations")))
	if annotations == nil {
		annotations = map[string]any{}
	}
	for _, skipped := range skippedAnnotations {
		delete(annotations, skipped)
	}
	annotations["deployment.kubernetes.io/revision"] = revisionOf(w)
	annotations["deployment.kubernetes.io/desired-replicas"] = strconv.FormatInt(replicas, 10)
	annotations["deployment.kubernetes.io/max-replicas"] = strconv.FormatInt(replicas+surge, 10)
	selector := spec.At("selector")
	made := map[string]any{
		"replicas": replicas,
		"selector": selector.With(map[string]any{
			"matchLabels": selector.At("matchLabels").With(map[string]any{uniqueLabel: hash})}),
		"template": template.With(map[string]any{
			"metadata": template.Metadata().With(map[string]any{"labels": labels})}),
	}
	if ready := spec.Number("minReadySeconds", 0); ready != 0 {
		made["minReadySeconds"] = ready
	}
	metadata := map[string]any{
		"name": replicaSetName(w.Name(), hash), "labels": labels, "annotations": annotations,
		"ownerReferences": []any{ownerReference(w)},
	}
	if namespace := w.Namespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	child := Child{
		Object:     map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": made},
		Controller: "deployment-controller",
	}
	if spec["paused"] == true {
		child.Waiting = "the Deployment is paused"
	}
	return []Child{child}
}

// replicaSetName mirrors generateReplicaSetName in pkg/controller/deployment/sync.go v1.37.2.
func replicaSetName(deployment, hash string) string {
	longest := apivalidation.DNS1123SubdomainMaxLength - len("-") - len(hash)
	if len(deployment) > longest {
		deployment = deployment[:longest]
	}
	return deployment + "-" + hash
}

// revisionOf returns the revision of the current ReplicaSet of a Deployment: the one that the controller has written,
// if it has processed the Deployment.
func revisionOf(w tree.Object) string {
	if w.At("status").Number("observedGeneration", 0) > 0 {
		if revision := w.Annotation("deployment.kubernetes.io/revision"); revision != "" {
			return revision
		}
	}
	return "1"
}

// maxSurge returns the number of Pods that a rollout may add: a number, or a percentage of the replicas that is rounded
// up.
func maxSurge(rolling tree.Object, replicas int64) int64 {
	var surge intstr.IntOrString
	switch v := rolling["maxSurge"].(type) {
	case int64:
		return v
	case string:
		surge = intstr.FromString(v)
	default:
		surge = intstr.FromString("25%")
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&surge, int(replicas), true)
	if err != nil {
		return 0
	}
	return int64(n)
}

func replicaSetChildren(w tree.Object) []Child {
	return []Child{podOf(w, "replicaset-controller")}
}

func replicationControllerChildren(w tree.Object) []Child {
	return []Child{podOf(w, "replication-controller")}
}

// podOf returns the Pod of a workload that does not change its template.
func podOf(w tree.Object, controller string) Child {
	return Child{
		Object: podFrom(w.At("spec", "template"), w, w.Name()), Controller: controller, Template: podTemplate,
		Waiting: waitingReason(w.At("spec").Number("replicas", 1)),
	}
}

// statefulSetChildren mirrors newStatefulSetPod and others in pkg/controller/statefulset/stateful_set_utils.go v1.37.2.
// Claims precede the Pod that uses them.
func statefulSetChildren(w tree.Object) []Child {
	const controller = "statefulset-controller"
	spec, template := w.At("spec"), w.At("spec", "template")
	ordinal := strconv.FormatInt(spec.At("ordinals").Number("start", 0), 10)
	name := w.Name() + "-" + ordinal
	waiting := waitingReason(spec.Number("replicas", 1))
	selected := map[string]any(spec.At("selector", "matchLabels"))

	var all []Child
	var volumes []any
	claimed := map[string]bool{}
	for i, item := range spec.List("volumeClaimTemplates") {
		claim, _ := item.(map[string]any)
		volume := tree.Object(claim).Name()
		claimed[volume] = true
		claimName := volume + "-" + name
		volumes = append(volumes, map[string]any{"name": volume,
			"persistentVolumeClaim": map[string]any{"claimName": claimName}})
		metadata := tree.Object(claim).Metadata().With(map[string]any{"name": claimName})
		if namespace := w.Namespace(); namespace != "" {
			metadata["namespace"] = namespace
		}
		if labels := tree.Object(claim).At("metadata", "labels").With(selected); len(labels) > 0 {
			metadata["labels"] = labels
		}
		all = append(all, Child{
			Object: tree.Object(claim).With(map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
				"metadata": metadata}),
			Controller: controller, Template: fmt.Sprintf("spec.volumeClaimTemplates[%d]", i), Waiting: waiting,
		})
	}
	for _, v := range template.At("spec").List("volumes") {
		if volume, _ := v.(map[string]any); !claimed[tree.Object(volume).Text("name")] {
			volumes = append(volumes, v)
		}
	}

	pod := podFrom(template, w, w.Name())
	metadata := tree.Object(pod).Metadata()
	metadata["name"] = name
	metadata["labels"] = metadata.At("labels").With(map[string]any{
		"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": ordinal,
		"controller-revision-hash": w.Name() + "-" + hashOf(template),
	})
	podSpec := template.At("spec").With(map[string]any{"hostname": name})
	if service := spec.Text("serviceName"); service != "" {
		podSpec["subdomain"] = service
	} else {
		delete(podSpec, "subdomain")
	}
	if len(volumes) > 0 {
		podSpec["volumes"] = volumes
	}
	pod["spec"] = podSpec
	return append(all, Child{Object: pod, Controller: controller, Template: podTemplate, Waiting: waiting})
}

// nodeName is a placeholder for the node of a Pod of a DaemonSet.
const nodeName = "node"

// daemonSetChildren mirrors CreatePodTemplate and others in pkg/controller/daemon/util/daemonset_util.go v1.37.2.
func daemonSetChildren(w tree.Object) []Child {
	template := w.At("spec", "template")
	pod := podFrom(template, w, w.Name())
	metadata := tree.Object(pod).Metadata()
	labels := map[string]any{"controller-revision-hash": hashOf(template)}
	// apps/v1 has this annotation in place of the field templateGeneration of old versions.
	if generation := w.Annotation(
		"deprecated.daemonset.template.generation"); generation != "" {
		labels["pod-template-generation"] = generation
	}
	metadata["labels"] = metadata.At("labels").With(labels)
	spec := template.At("spec")
	pod["spec"] = spec.With(map[string]any{
		"tolerations": daemonTolerations(spec),
		"affinity":    nodeAffinity(spec.At("affinity")),
	})
	return []Child{{Object: pod, Controller: "daemon-set-controller", Template: podTemplate}}
}

// daemonTolerations returns the tolerations of the template and those of every Pod of a DaemonSet.
func daemonTolerations(spec tree.Object) []any {
	type taint struct{ key, effect string }
	taints := []taint{
		{"node.kubernetes.io/not-ready", "NoExecute"}, {"node.kubernetes.io/unreachable", "NoExecute"},
		{"node.kubernetes.io/disk-pressure", "NoSchedule"}, {"node.kubernetes.io/memory-pressure", "NoSchedule"},
		{"node.kubernetes.io/pid-pressure", "NoSchedule"}, {"node.kubernetes.io/unschedulable", "NoSchedule"},
	}
	if spec["hostNetwork"] == true {
		taints = append(taints, taint{"node.kubernetes.io/network-unavailable", "NoSchedule"})
	}
	tolerations := slices.Clone(spec.List("tolerations"))
	for _, t := range taints {
		added := map[string]any{"key": t.key, "operator": "Exists", "effect": t.effect}
		// A toleration of the same taint is replaced at its position (as AddOrUpdateTolerationInPodSpec in
		// pkg/apis/core/v1/helper/helpers.go v1.37.2).
		i := slices.IndexFunc(tolerations, func(item any) bool {
			have, _ := item.(map[string]any)
			o := tree.Object(have)
			return o.Text("key") == t.key && o.Text("effect") == t.effect && o.Text("operator") == "Exists" &&
				o.Text("value") == ""
		})
		if i >= 0 {
			tolerations[i] = added
		} else {
			tolerations = append(tolerations, added)
		}
	}
	return tolerations
}

// nodeAffinity returns an affinity for a single node.
func nodeAffinity(affinity tree.Object) map[string]any {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	terms := []any{map[string]any{"matchFields": []any{
		map[string]any{"key": "metadata.name", "operator": "In", "values": []any{nodeName}},
	}}}
	node := affinity.At("nodeAffinity")
	return affinity.With(map[string]any{
		"nodeAffinity": node.With(map[string]any{
			required: node.At(required).With(map[string]any{"nodeSelectorTerms": terms})}),
	})
}

// jobChildren mirrors manageJob in pkg/controller/job/job_controller.go and indexed_job_utils.go v1.37.2.
func jobChildren(w tree.Object) []Child {
	const (
		finalizer = "batch.kubernetes.io/job-tracking"
		index     = "batch.kubernetes.io/job-completion-index"
	)
	spec, template := w.At("spec"), w.At("spec", "template")
	pod := podFrom(template, w, w.Name())
	metadata := tree.Object(pod).Metadata()
	finalizers := metadata.List("finalizers")
	if !slices.Contains(finalizers, any(finalizer)) {
		metadata["finalizers"] = append(slices.Clip(finalizers), finalizer)
	}
	if spec.Text("completionMode") == "Indexed" {
		metadata["labels"] = metadata.At("labels").With(map[string]any{index: "0"})
		annotations := map[string]any{index: "0"}
		if spec["backoffLimitPerIndex"] != nil {
			annotations["batch.kubernetes.io/job-index-failure-count"] = "0"
		}
		metadata["annotations"] = metadata.At("annotations").With(annotations)
		metadata["generateName"] = indexedPrefix(w.Name(), 0)
		indexed := template.At("spec").With(map[string]any{"hostname": w.Name() + "-0"})
		for _, member := range []string{"initContainers", "containers"} {
			if containers := tree.Object(indexed).List(member); len(containers) > 0 {
				indexed[member] = withIndex(containers, index)
			}
		}
		pod["spec"] = indexed
	}
	child := Child{Object: pod, Controller: "job-controller", Template: podTemplate}
	switch {
	case spec["suspend"] == true:
		child.Waiting = "the Job is suspended"
	case spec.Number("parallelism", 1) == 0:
		child.Waiting = "parallelism is 0"
	case spec.Text("managedBy") != "" && spec.Text("managedBy") != "kubernetes.io/job-controller":
		child.Waiting = "the Job is managed by " + spec.Text("managedBy")
	}
	return []Child{child}
}

// indexedPrefix returns the prefix of the generated name of a Pod with an index.
func indexedPrefix(job string, index int) string {
	const longest = 63 - 5 // of a generated name, without the random part
	suffix := "-" + strconv.Itoa(index) + "-"
	if len(job)+len(suffix) > longest {
		job = job[:longest-len(suffix)]
	}
	return job + suffix
}

// withIndex adds the variable with the index of the Pod to containers.
func withIndex(containers []any, label string) []any {
	const variable = "JOB_COMPLETION_INDEX"
	all := slices.Clone(containers)
	for i, item := range all {
		container, _ := item.(map[string]any)
		env := tree.Object(container).List("env")
		if slices.ContainsFunc(env, func(v any) bool { e, _ := v.(map[string]any); return e["name"] == variable }) {
			continue
		}
		all[i] = tree.Object(container).With(map[string]any{"env": append(slices.Clip(env), map[string]any{
			"name":      variable,
			"valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.labels['" + label + "']"}},
		})})
	}
	return all
}

// cronJobChildren mirrors getJobFromTemplate2 in pkg/controller/cronjob/utils.go v1.37.2. The scheduled time of the Job
// is the minute in which the CronJob was created.
func cronJobChildren(w tree.Object) []Child {
	const template = "spec.jobTemplate"
	scheduled, err := time.Parse(time.RFC3339, w.Metadata().Text("creationTimestamp"))
	if err != nil {
		scheduled = time.Unix(0, 0)
	}
	scheduled = scheduled.Truncate(time.Minute).UTC()
	if zone, err := time.LoadLocation(w.At("spec").Text("timeZone")); err == nil {
		scheduled = scheduled.In(zone)
	}
	job := w.At("spec", "jobTemplate")
	metadata := metadataFrom(job, w)
	delete(metadata, "finalizers") // the controller does not copy them
	metadata["name"] = fmt.Sprintf("%s-%d", w.Name(), scheduled.Unix()/60)
	metadata["annotations"] = tree.Object(metadata).At("annotations").With(map[string]any{
		"batch.kubernetes.io/cronjob-scheduled-timestamp": scheduled.Format(time.RFC3339),
	})
	child := Child{
		Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
			"spec": map[string]any(job.At("spec"))},
		Controller: "cronjob-controller", Template: template,
	}
	if w.At("spec")["suspend"] == true {
		child.Waiting = "the CronJob is suspended"
	}
	return []Child{child}
}

// alphabet is the set of characters in the hashes of controllers.
const alphabet = "bcdfghjklmnpqrstvwxz2456789"

// encode writes digits in the alphabet (as SafeEncodeString in apimachinery's util/rand).
func encode(digits string) string {
	return strings.Map(func(r rune) rune { return rune(alphabet[int(r)%len(alphabet)]) }, digits)
}
