package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// podOf are ten kinds with the place of their Pod, for policies of the shape that public ones have.
var podOf = []struct{ group, resource, kind, pod string }{
	{"''", "pods", "Pod", "object.spec"},
	{"apps", "deployments", "Deployment", "object.spec.template.spec"},
	{"apps", "replicasets", "ReplicaSet", "object.spec.template.spec"},
	{"apps", "daemonsets", "DaemonSet", "object.spec.template.spec"},
	{"apps", "statefulsets", "StatefulSet", "object.spec.template.spec"},
	{"batch", "jobs", "Job", "object.spec.template.spec"},
	{"batch", "cronjobs", "CronJob", "object.spec.jobTemplate.spec.template.spec"},
	{"''", "replicationcontrollers", "ReplicationController", "object.spec.template.spec"},
	{"''", "podtemplates", "PodTemplate", "object.template.spec"},
	{"''", "services", "Service", "object.spec.selector"},
}

// manyKinds is a policy over ten kinds: for each of some members of securityContext one line that asks every kind for it.
func manyKinds(members ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: many-kinds}\n" +
		"spec:\n  matchConstraints:\n    resourceRules:\n")
	for _, k := range podOf {
		fmt.Fprintf(&b, "    - {apiGroups: [%s], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [%s]}\n", k.group, k.resource)
	}
	b.WriteString("  validations:\n")
	for _, member := range members {
		var parts []string
		for _, k := range podOf {
			part := fmt.Sprintf("object.kind == '%[1]s' && has(%[2]s.securityContext) && has(%[2]s.securityContext.%[3]s)"+
				" && %[2]s.securityContext.%[3]s || has(%[2]s.containers) && %[2]s.containers.all(c, has(c.securityContext)"+
				" && has(c.securityContext.%[3]s) && c.securityContext.%[3]s)", k.kind, k.pod, member)
			parts = append(parts, part)
		}
		fmt.Fprintf(&b, "  - expression: >-\n      %s\n    message: not set\n", strings.Join(parts, " || "))
	}
	return b.String()
}

// BenchmarkManyKinds checks one policy of 17 kB.
func BenchmarkManyKinds(b *testing.B) {
	file := filepath.Join(b.TempDir(), "policy.yaml")
	text := manyKinds("runAsNonRoot", "privileged", "readOnlyRootFilesystem", "allowPrivilegeEscalation")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		run(b, file)
	}
}
