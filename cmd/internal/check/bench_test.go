package check_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// A podKind is a kind with the place of its Pod.
type podKind struct{ group, resource, kind, pod string }

// tenKinds are for policies of the shape that public ones have.
var tenKinds = []podKind{
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

// manyKinds is a policy for many kinds: for some members of securityContext, one line selects the member of every kind.
func manyKinds(name string, podOf []podKind, members ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " + name + "}\n" +
		"spec:\n  matchConstraints:\n    resourceRules:\n",
	)
	for _, k := range podOf {
		fmt.Fprintf(&b, "    - {apiGroups: [%s], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [%s]}\n",
			k.group, k.resource)
	}
	b.WriteString("  validations:\n")
	for _, member := range members {
		var parts []string
		for _, k := range podOf {
			part := fmt.Sprintf("object.kind == '%[1]s' && has(%[2]s.securityContext) && has(%[2]s.securityContext.%[3]s)"+
				" && %[2]s.securityContext.%[3]s || has(%[2]s.containers) && %[2]s.containers.all(c, has(c.securityContext)"+
				" && has(c.securityContext.%[3]s) && c.securityContext.%[3]s)",
				k.kind,
				k.pod,
				member,
			)
			parts = append(parts, part)
		}
		fmt.Fprintf(&b, "  - expression: >-\n      %s\n    message: not set\n", strings.Join(parts, " || "))
	}
	return b.String()
}

var containerMembers = []string{"runAsNonRoot", "privileged", "readOnlyRootFilesystem", "allowPrivilegeEscalation"}

// peakHeap runs a function and returns the most bytes that the heap held meanwhile.
func peakHeap(do func()) (peak uint64) {
	runtime.GC()
	done, sampled := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		held := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				metrics.Read(held) // which does not stop the program, as runtime.ReadMemStats does
				most = max(most, held[0].Value.Uint64()+held[1].Value.Uint64())
			case <-done:
				sampled <- most
				return
			}
		}
	}()
	do()
	close(done)
	return <-sampled
}

// BenchmarkManyPolicies checks 449 policies at once: those of the examples, and generated ones over one to ten kinds.
func BenchmarkManyPolicies(b *testing.B) {
	var files []string
	count := 0
	err := filepath.WalkDir("../../../examples", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		if strings.Contains(path, "policy-change") { // which has policies of other files, changed
			return nil
		}
		text, err := os.ReadFile(path)
		if n := len(policyKind.FindAll(text, -1)); n > 0 {
			files, count = append(files, path), count+n
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; count < 449; i, count = i+1, count+1 {
		file := filepath.Join(b.TempDir(), "policy.yaml")
		kinds := tenKinds[:1+i%len(tenKinds)]
		text := manyKinds(fmt.Sprintf("generated-%d", i), kinds,
			containerMembers[:1+i/len(tenKinds)%len(containerMembers)]...)
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			b.Fatal(err)
		}
		files = append(files, file)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(peakHeap(func() { run(b, files...) }))/1e6, "peak-MB")
	}
}

var policyKind = regexp.MustCompile(`(?m)^kind: (Validating|Mutating)AdmissionPolicy$`)

// TestManyKindsMemory limits the memory for checking one policy of 17 kB for ten kinds.
func TestManyKindsMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(manyKinds("many-kinds", tenKinds, containerMembers...)), 0o666); err != nil {
		t.Fatal(err)
	}
	if peak := peakHeap(func() { run(t, file) }); peak > 100e6 {
		t.Errorf("the heap held %d bytes", peak)
	}
}

// BenchmarkManyKinds checks one policy of 17 kB.
func BenchmarkManyKinds(b *testing.B) {
	file := filepath.Join(b.TempDir(), "policy.yaml")
	text := manyKinds("many-kinds", tenKinds, containerMembers...)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		run(b, file)
	}
}
