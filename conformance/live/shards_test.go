package live

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// shardPolicies are about the objects of the namespaces of the test alone.
const shardPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: shards-owner}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {celgate-test: shards}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], resources: [configmaps, namespaces], operations: [CREATE, UPDATE]}
  validations:
  - expression: "'owner' in object.metadata.?labels.orValue({})"
    messageExpression: object.metadata.name + ' has no owner'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: shards-owner}
spec: {policyName: shards-owner, validationActions: [Deny]}
`

// sortedCSV returns the lines of a CSV report in a stable order.
func sortedCSV(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, strings.Join(row, ","))
	}
	slices.Sort(lines)
	return lines
}

// TestAuditShards audits the cluster with four processes at once, one of which is killed and repeated: together they
// find the same as one process. The parts are in a directory, and in ConfigMaps.
func TestAuditShards(t *testing.T) {
	var given strings.Builder
	for i, objects := range []int{40, 700, 3, 120, 90, 0, 5} {
		namespace := fmt.Sprintf("shards-%d", i)
		keep(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {celgate-test: shards}}}",
			namespace))
		for j := range objects {
			labels := "{}"
			if j%3 == 0 {
				labels = "{owner: x}"
			}
			fmt.Fprintf(&given, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c-%03d, namespace: %s, labels: %s}}\n",
				j, namespace, labels)
		}
	}
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shards-parts}}")
	put(t, given.String()[len("---\n"):])
	folder := t.TempDir()
	policies := filepath.Join(folder, "policies.yaml")
	write(t, policies, shardPolicies)
	inParts := filepath.Join(folder, "kubeconfig")
	write(t, inParts, api.KubeconfigAs("", "shards-parts"))

	args := []string{"audit", "--kubeconfig=" + inParts, "-p", policies}
	whole := filepath.Join(folder, "whole.csv")
	if r := celgate(t, "", append(args, "-o", "csv="+whole)...); r.code != 1 {
		t.Fatalf("%+v", r)
	}
	want := sortedCSV(t, whole)
	if len(want) < 600 {
		t.Fatalf("only %d findings", len(want))
	}
	for parts, begun := range map[string]func(*testing.T) bool{
		filepath.Join(folder, "parts"): func(*testing.T) bool {
			_, err := os.Stat(filepath.Join(folder, "parts", "deal.json"))
			return err == nil
		},
		"configmaps:shards-run": func(t *testing.T) bool {
			answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet,
				Path: "/api/v1/namespaces/shards-parts/configmaps/shards-run-deal"})
			return err == nil && answer.Code == http.StatusOK
		},
	} {
		t.Run(filepath.Base(parts), func(t *testing.T) {
			merged := filepath.Join(t.TempDir(), "merged.csv")
			shard := func(i int) []string {
				return append(slices.Clone(args), fmt.Sprintf("--shard=%d/4", i), "--parts="+parts, "-o", "csv="+merged)
			}
			victim := exec.CommandContext(t.Context(), program, shard(0)...)
			var said strings.Builder
			victim.Stderr = &said
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(20 * time.Second); !begun(t) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if err := victim.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := victim.Wait(); !errors.As(err, &exit) ||
				exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("it was not killed: %v\n%s", err, said.String())
			}
			var all sync.WaitGroup
			results := make([]result, 4)
			for i := range results {
				all.Go(func() { results[i] = celgate(t, "", shard(i)...) })
			}
			all.Wait()
			for i, r := range results {
				if r.code > 1 {
					t.Fatalf("part %d: %+v", i, r)
				}
			}
			got := sortedCSV(t, merged)
			if !slices.Equal(got, want) {
				t.Errorf("%d findings by parts, %d by one process", len(got), len(want))
			}
			if r := celgate(t, "", shard(1)...); r.code != 1 || !strings.Contains(r.stderr, "has been done already") {
				t.Errorf("a part that is repeated: %+v", r)
			}
			if got := sortedCSV(t, merged); !slices.Equal(got, want) {
				t.Errorf("%d findings after a part was repeated, not %d", len(got), len(want))
			}
		})
	}
}

// TestInstallAudit applies the output of celgate install --audit to the cluster, and audits with the permissions of its
// role: they are exactly sufficient for the CronJob.
func TestInstallAudit(t *testing.T) {
	folder := t.TempDir()
	policies := filepath.Join(folder, "policies.yaml")
	write(t, policies, shardPolicies+`---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: installed}
spec:
  paramKind: {apiVersion: v1, kind: Service}
  matchConstraints:
    namespaceSelector: {matchLabels: {celgate-test: installed}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  validations:
  - expression: params == null || object.spec.containers.all(c, c.image.contains(":"))
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: installed}
spec:
  policyName: installed
  validationActions: [Deny]
  paramRef: {selector: {matchLabels: {celgate-test: installed}}, parameterNotFoundAction: Deny}
`)
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: installed, labels: {celgate-test: installed}}}")
	put(t, "{apiVersion: v1, kind: Service, metadata: {name: p, namespace: installed, labels: {celgate-test: installed}}, "+
		"spec: {ports: [{port: 1}]}}\n---\n"+deployment("installed", "web", 1)+
		"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: installed}}"+
		"\n---\n{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: installed}, "+
		"spec: {limits: [{type: Container, max: {cpu: 1}}]}}")
	put(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.install.example.com}
spec:
  group: install.example.com
  names: {kind: Cluster, plural: clusters, singular: cluster, listKind: ClusterList}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`)
	cluster := objects(t, `
apiVersion: install.example.com/v1
kind: Cluster
metadata: {name: many, namespace: installed}
spec:
  head: {template: {spec: {containers: [{name: c, image: "c:1"}]}}}
  workers:
  - {template: {spec: {containers: [{name: c, image: "c:1"}]}}}
  - {template: {spec: {containers: [{name: c, image: c}]}}}
`)[0]
	eventually(t, func() string {
		answer, err := api.Do(t.Context(), server.Call{Method: http.MethodPost,
			Path: "/apis/install.example.com/v1/namespaces/installed/clusters", Body: cluster})
		if err != nil || answer.Code != http.StatusCreated && answer.Code != http.StatusConflict {
			return fmt.Sprint(err, answer)
		}
		return ""
	})
	printed := celgate(t, "", "install", "--print", "--audit", "--kubeconfig", api.Kubeconfig, "-p", policies,
		"--shards=2", "--image=celgate:1", "--pods-of=Cluster.install.example.com=spec.head.template",
		"--pods-of=Cluster.install.example.com=spec.workers[*].template")
	if printed.code != 0 || printed.stderr != "" {
		t.Fatalf("%+v", printed)
	}
	keep(t, printed.stdout)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	write(t, kubeconfig, api.KubeconfigAs("system:serviceaccount:celgate-system:celgate-audit", "celgate-system"))

	var args []string // of the CronJob, as a Pod of it has them
	for _, tree := range objects(t, printed.stdout) {
		if tree["kind"] != "CronJob" {
			continue
		}
		template := tree["spec"].(map[string]any)["jobTemplate"].(map[string]any)["spec"].(map[string]any)["template"]
		containers := template.(map[string]any)["spec"].(map[string]any)["containers"].([]any)
		for _, arg := range containers[0].(map[string]any)["args"].([]any) {
			args = append(args, strings.NewReplacer("--in-cluster", "--kubeconfig="+kubeconfig,
				"/policies/policies.yaml", policies, "$(JOB_NAME)", "celgate-audit-1", "$(JOB_UID)",
				"5a1e0b5e-0000-4000-8000-000000000000").Replace(arg.(string)))
		}
	}
	shard := func(i int, more ...string) result {
		all := slices.Clone(args)
		for j, arg := range all {
			all[j] = strings.ReplaceAll(arg, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(i))
		}
		return celgate(t, "", append(all, more...)...)
	}
	eventually(t, func() string {
		if r := shard(0); r.code != 0 || !strings.Contains(r.stderr, "1 of 2 are") {
			return fmt.Sprintf("%+v", r)
		}
		return ""
	})
	r := shard(1)
	if r.code != 0 || r.stderr != "" || !strings.Contains(r.stdout, "Pods of 2 objects denied by policy installed") ||
		!strings.Contains(r.stdout, "2 in installed") || !strings.Contains(r.stdout, "LimitRanger (1 object)") ||
		!strings.Contains(r.stdout, "Pod of Cluster installed/many") || !strings.Contains(r.stdout, "2 policies in force") {
		t.Errorf("%+v", r)
	}

	// The role does not cover another policy.
	write(t, policies, strings.ReplaceAll(shardPolicies, "[configmaps, namespaces]", "[configmaps, secrets]"))
	r = celgate(t, "", "audit", "--kubeconfig="+kubeconfig, "-p", policies)
	if r.code != 2 || !strings.Contains(r.stderr, "secrets is forbidden") {
		t.Errorf("%+v", r)
	}
}
