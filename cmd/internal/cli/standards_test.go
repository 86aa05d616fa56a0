package cli_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/cmd/internal/cli"
)

var corpus = flag.String("standards", "",
	"a folder with a folder for each policy: policy.yaml, binding.yaml and test.yaml, a Pod that the policy denies")

// A standard is a rule of the Pod Security Standards, about a Pod's spec or about each of its containers: x.
type standard struct {
	name      string
	container bool
	holds     string   // in CEL
	good, bad []string // parts of the spec, or of a container
}

// contextual is a rule about a member of the securityContext that both a Pod and a container have.
func contextual(name, member, holds string, good, bad []string) []standard {
	expr := strings.ReplaceAll(holds, "M", "x.?securityContext."+member)
	var all []standard
	for _, container := range []bool{false, true} {
		s := standard{name: name, container: container, holds: expr}
		for _, g := range good {
			s.good = append(s.good, "securityContext: "+g)
		}
		for _, b := range bad {
			s.bad = append(s.bad, "securityContext: "+b)
		}
		all = append(all, s)
	}
	return all
}

// standards are the rules of both levels, Baseline and Restricted.
func standards() []standard {
	all := []standard{
		{"host-network", false, "!x.?hostNetwork.orValue(false)", []string{"hostNetwork: false"}, []string{"hostNetwork: true"}},
		{"host-pid", false, "!x.?hostPID.orValue(false)", []string{"hostPID: false"}, []string{"hostPID: true"}},
		{"host-ipc", false, "!x.?hostIPC.orValue(false)", nil, []string{"hostIPC: true"}},
		{"host-path", false, "x.?volumes.orValue([]).all(v, !has(v.hostPath))",
			[]string{"volumes: [{name: v, emptyDir: {}}]", "volumes: [{name: v}]"},
			[]string{"volumes: [{name: v, emptyDir: {}}, {name: w, hostPath: {path: /}}]"}},
		{"volume-types", false, "x.?volumes.orValue([]).all(v, has(v.configMap) || has(v.csi) || has(v.downwardAPI) || " +
			"has(v.emptyDir) || has(v.ephemeral) || has(v.persistentVolumeClaim) || has(v.projected) || has(v.secret))",
			[]string{"volumes: [{name: v, secret: {secretName: s}}, {name: w}]", "volumes: []"},
			[]string{"volumes: [{name: v, nfs: {server: s, path: /}}]"}},
		{"sysctls", false, "x.?securityContext.?sysctls.orValue([]).all(s, s.name in ['kernel.shm_rmid_forced', " +
			"'net.ipv4.ip_local_port_range', 'net.ipv4.tcp_syncookies', 'net.ipv4.ping_group_range'])",
			[]string{"securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}"},
			[]string{"securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}"}},
		{"privileged", true, "!x.?securityContext.?privileged.orValue(false)",
			[]string{"securityContext: {privileged: false}"}, []string{"securityContext: {privileged: true}"}},
		{"privilege-escalation", true, "!x.?securityContext.?allowPrivilegeEscalation.orValue(true)",
			[]string{"securityContext: {allowPrivilegeEscalation: false}"},
			[]string{"securityContext: {}", "securityContext: {allowPrivilegeEscalation: true}"}},
		{"capabilities-add", true, "x.?securityContext.?capabilities.?add.orValue([]).all(c, c in ['CHOWN', 'KILL', " +
			"'NET_BIND_SERVICE', 'SETUID', 'SETGID'])",
			[]string{"securityContext: {capabilities: {add: [KILL]}}"},
			[]string{"securityContext: {capabilities: {add: [KILL, SYS_ADMIN]}}"}},
		{"capabilities-add-bind", true, "x.?securityContext.?capabilities.?add.orValue([]).all(c, c == 'NET_BIND_SERVICE')",
			[]string{"securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}"},
			[]string{"securityContext: {capabilities: {add: [KILL]}}"}},
		{"capabilities-drop-all", true, "x.?securityContext.?capabilities.?drop.orValue([]).exists(c, c == 'ALL')",
			[]string{"securityContext: {capabilities: {drop: [KILL, ALL]}}"},
			[]string{"securityContext: {capabilities: {drop: [KILL]}}", "image: other"}},
		{"proc-mount", true, "x.?securityContext.?procMount.orValue('Default') == 'Default'",
			[]string{"securityContext: {procMount: Default}"}, []string{"securityContext: {procMount: Unmasked}"}},
		{"host-ports", true, "x.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)",
			[]string{"ports: [{containerPort: 80}]"}, []string{"ports: [{containerPort: 80}, {containerPort: 81, hostPort: 81}]"}},
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle.?postStart", "lifecycle.?preStop"} {
		for _, handler := range []string{"httpGet", "tcpSocket"} {
			part := func(host string) string {
				body := fmt.Sprintf("{%s: {port: 80%s}}", handler, host)
				if within, member, nested := strings.Cut(probe, ".?"); nested {
					return fmt.Sprintf("%s: {%s: %s}", within, member, body)
				}
				return probe + ": " + body
			}
			all = append(all, standard{
				name: strings.ToLower(strings.ReplaceAll(probe, ".?", "-") + "-" + handler), container: true,
				holds: fmt.Sprintf("x.?%s.?%s.?host.orValue('') in ['', 'localhost', '127.0.0.1']", probe, handler),
				good:  []string{part(""), part(", host: localhost")}, bad: []string{part(", host: example.com")},
			})
		}
	}
	for _, more := range [][]standard{
		contextual("run-as-user", "?runAsUser", "M.orValue(1) != 0", []string{"{runAsUser: 7}"}, []string{"{runAsUser: 0}"}),
		contextual("run-as-nonroot", "?runAsNonRoot", "M.orValue(false)", []string{"{runAsNonRoot: true}"},
			[]string{"{}", "{runAsNonRoot: false}"}),
		contextual("seccomp", "?seccompProfile.?type", "M.orValue('RuntimeDefault') != 'Unconfined'",
			[]string{"{seccompProfile: {type: Localhost, localhostProfile: p}}"}, []string{"{seccompProfile: {type: Unconfined}}"}),
		contextual("seccomp-restricted", "?seccompProfile.?type", "M.orValue('') in ['RuntimeDefault', 'Localhost']",
			[]string{"{seccompProfile: {type: RuntimeDefault}}"}, []string{"{}", "{seccompProfile: {type: Unconfined}}"}),
		contextual("selinux-type", "?seLinuxOptions.?type", "M.orValue('') in ['', 'container_t', 'container_init_t', 'container_kvm_t']",
			[]string{"{seLinuxOptions: {type: container_t}}"}, []string{"{seLinuxOptions: {type: unconfined_t}}"}),
		contextual("selinux-user", "?seLinuxOptions.?user", "M.orValue('') == ''", nil, []string{"{seLinuxOptions: {user: root}}"}),
		contextual("selinux-role", "?seLinuxOptions.?role", "M.orValue('') == ''", nil, []string{"{seLinuxOptions: {role: sysadm_r}}"}),
		contextual("host-process", "?windowsOptions.?hostProcess", "!M.orValue(false)",
			[]string{"{windowsOptions: {hostProcess: false}}"}, []string{"{windowsOptions: {hostProcess: true}}"}),
		contextual("apparmor", "?appArmorProfile.?type", "M.orValue('RuntimeDefault') != 'Unconfined'",
			[]string{"{appArmorProfile: {type: RuntimeDefault}}"}, []string{"{appArmorProfile: {type: Unconfined}}"}),
	} {
		all = append(all, more...)
	}
	return all
}

// wrappings are manifests around the template of a Pod, by kind. NAME and POD are placeholders.
var wrappings = map[string]string{
	"Deployment":            `{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME}, spec: {selector: {matchLabels: {a: b}}, template: POD}}`,
	"ReplicaSet":            `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: NAME}, spec: {selector: {matchLabels: {a: b}}, template: POD}}`,
	"StatefulSet":           `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: NAME}, spec: {serviceName: s, selector: {matchLabels: {a: b}}, template: POD}}`,
	"DaemonSet":             `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: NAME}, spec: {selector: {matchLabels: {a: b}}, template: POD}}`,
	"ReplicationController": `{apiVersion: v1, kind: ReplicationController, metadata: {name: NAME}, spec: {template: POD}}`,
	"Job":                   `{apiVersion: batch/v1, kind: Job, metadata: {name: NAME}, spec: {template: POD}}`,
	"CronJob":               `{apiVersion: batch/v1, kind: CronJob, metadata: {name: NAME}, spec: {schedule: "0 5 * * *", jobTemplate: {spec: {template: POD}}}}`,
}

// TestStandardsOfTemplates evaluates policies of the Pod Security Standards for Pods and for workloads that wrap them:
// the Pods of the workloads are denied by exactly the policies that deny the Pods.
func TestStandardsOfTemplates(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	var policies strings.Builder
	deniedBy := map[string]string{} // the policy that must deny a Pod, or must not
	pods := map[string]string{}     // specs by name
	n := 0
	add := func(name, lists, holds string) {
		fmt.Fprintf(&policies, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: %[2]q}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, fmt.Sprintf("%s.all(x, %s)", lists, holds))
		n++
	}
	pod := func(policy, verdict string, i int, spec string) {
		if strings.Contains(spec, "Unmasked") {
			spec = "hostUsers: false, " + spec // or the server refuses it
		}
		if strings.Contains(spec, "hostProcess: true") {
			spec = "hostNetwork: true, " + spec // likewise, and if not all containers are processes of the host
			if strings.Contains(spec, "initContainers:") {
				spec = "securityContext: {windowsOptions: {hostProcess: true}}, " + spec
			}
		}
		name := fmt.Sprintf("%s-%s-%d", strings.ReplaceAll(policy, ".", "-"), verdict, i) // as a StatefulSet may be called
		deniedBy[name], pods[name] = policy, spec
	}
	for _, s := range standards() {
		parts := map[string]string{"pod": "[object.spec]"}
		if s.container {
			parts = map[string]string{
				"containers": "object.spec.containers", "init": "object.spec.?initContainers.orValue([])",
				"ephemeral": "object.spec.?ephemeralContainers.orValue([])",
			}
		}
		for part, lists := range parts {
			policy := s.name + "." + part
			add(policy, lists, s.holds)
			for verdict, fragments := range map[string][]string{"good": s.good, "bad": s.bad} {
				for i, f := range fragments {
					if s.container && !strings.HasPrefix(f, "image:") {
						f = "image: i, " + f
					}
					switch part {
					case "pod":
						pod(policy, verdict, i, "containers: [{name: c, image: i}], "+f)
					case "containers":
						pod(policy, verdict, i, "containers: [{name: c, "+f+"}]")
					case "init":
						pod(policy, verdict, i, "containers: [{name: c, image: i}], initContainers: [{name: i, restartPolicy: Always, "+f+"}]")
					}
				}
			}
		}
	}
	if n < 84 {
		t.Errorf("only %d policies", n)
	}
	var manifests strings.Builder
	for name, spec := range pods {
		fmt.Fprintf(&manifests, "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {a: b}}, spec: {restartPolicy: Never, %s}}\n",
			name, spec)
		for kind, wrapping := range wrappings {
			restart := ""
			if strings.HasSuffix(kind, "Job") {
				restart = "restartPolicy: Never, "
			}
			template := fmt.Sprintf("{metadata: {labels: {a: b}}, spec: {%s%s}}", restart, spec)
			fmt.Fprintf(&manifests, "---\n%s\n", strings.NewReplacer("NAME", name, "POD", template).Replace(wrapping))
		}
	}
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(policies.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	alone, made := deniedPods(t, manifests.String(), "-p", path)
	for name, policy := range deniedBy {
		if bad := strings.Contains(name, "-bad-"); slices.Contains(alone[name], policy) != bad {
			t.Errorf("Pod %s {%s}: denied by %s", name, pods[name], alone[name])
		}
		compareMade(t, name, alone[name], made[name])
	}
	t.Logf("%d policies, %d Pods, each in %d workloads", n, len(pods), len(wrappings))
}

// deniedPods evaluates manifests and returns the policies that deny each Pod, by name, and each Pod of a workload, by
// the name of the workload and its kind.
func deniedPods(t *testing.T, manifests string, args ...string) (alone map[string][]string,
	made map[string]map[string][]string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Main(append([]string{"apply", "-o", "json", "-"}, args...), strings.NewReader(manifests), &stdout, &stderr)
	var list struct {
		Items []struct {
			CreatedBy *struct{ Kind, Name string }
			Request   struct {
				Kind struct{ Kind string }
				Name string
			}
			Outcomes []struct{ Policy, Verdict string }
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil || code != 1 || stderr.Len() > 0 {
		t.Fatalf("%v: %d %s", err, code, stderr.String())
	}
	alone, made = map[string][]string{}, map[string]map[string][]string{}
	for _, it := range list.Items {
		if it.Request.Kind.Kind != "Pod" {
			continue
		}
		denied := []string{}
		for _, o := range it.Outcomes {
			if o.Verdict == "Deny" {
				denied = append(denied, o.Policy)
			}
		}
		slices.Sort(denied)
		denied = slices.Compact(denied)
		if it.CreatedBy == nil {
			alone[it.Request.Name] = denied
			continue
		}
		_, name, _ := strings.Cut(it.CreatedBy.Name, "/")
		if made[name] == nil {
			made[name] = map[string][]string{}
		}
		made[name][it.CreatedBy.Kind] = denied
	}
	return alone, made
}

// compareMade compares the answers for the Pods of all workloads that wrap a Pod with the answers for the Pod.
func compareMade(t *testing.T, name string, alone []string, made map[string][]string) {
	t.Helper()
	kinds := slices.Sorted(maps.Keys(made))
	if want := slices.Sorted(maps.Keys(wrappings)); !slices.Equal(kinds, want) {
		t.Fatalf("Pods of %s are followed from %v, not %v", name, kinds, want)
	}
	for kind, denied := range made {
		if !slices.Equal(denied, alone) {
			t.Errorf("Pod of %s %s: denied by %s, and the Pod alone by %s", kind, name, denied, alone)
		}
	}
}

// A corpusCase is a folder of a corpus: a policy and a Pod that it denies.
type corpusCase struct {
	policy, bindings string // files
	name             string // of the policy
	created          bool   // the policy denies the Pod when it is created: no rule is for a subresource, which shows it later
	pod              map[string]any
}

// corpusCases reads the folders of a corpus.
func corpusCases(t *testing.T, folder string) []corpusCase {
	t.Helper()
	read := func(path string) map[string]any {
		text, err := os.ReadFile(path)
		tree := map[string]any{}
		if err = cmp.Or(err, yaml.Unmarshal(text, &tree)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return tree
	}
	var all []corpusCase
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "policy.yaml" {
			return err
		}
		beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
		var p admission.ValidatingAdmissionPolicy
		text, err := os.ReadFile(path)
		if err = cmp.Or(err, yaml.UnmarshalStrict(text, &p)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, corpusCase{policy: path, bindings: beside("binding.yaml"), name: p.Name,
			pod: read(beside("test.yaml")),
			created: !slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r admission.NamedRuleWithOperations) bool {
				return strings.Contains(strings.Join(r.Resources, " "), "/")
			})})
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d policies in %s: %v", len(all), folder, err)
	}
	return all
}

// TestStandardsOfCorpus evaluates the policies of a corpus, all at once, for the Pods of the corpus and for workloads
// that wrap them: the Pods of the workloads are denied by exactly the policies that deny the Pods. make standards names
// the corpus.
func TestStandardsOfCorpus(t *testing.T) {
	if *corpus == "" {
		t.Skip("without -standards=DIR there is no corpus")
	}
	cases := corpusCases(t, *corpus)
	var manifests strings.Builder
	write := func(tree any) {
		text, err := json.Marshal(tree) // which is YAML
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&manifests, "---\n%s\n", text)
	}
	namespaces := map[string]bool{}
	args := []string{}
	for i, c := range cases {
		args = append(args, "-p", c.policy, "-p", c.bindings)
		metadata := c.pod["metadata"].(map[string]any)
		name := fmt.Sprintf("pod-%d", i)
		namespace := metadata["namespace"]
		namespaces[fmt.Sprint(namespace)] = true
		metadata["name"] = name
		labels, _ := metadata["labels"].(map[string]any)
		if labels == nil {
			labels = map[string]any{}
		}
		labels["a"] = "b"
		metadata["labels"] = labels
		write(c.pod)
		for kind, wrapping := range wrappings {
			var workload map[string]any
			template := map[string]any{"metadata": map[string]any{"labels": labels, "annotations": metadata["annotations"]},
				"spec": maps.Clone(c.pod["spec"].(map[string]any))}
			if strings.HasSuffix(kind, "Job") {
				template["spec"].(map[string]any)["restartPolicy"] = "Never"
			}
			text, err := json.Marshal(template)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(strings.NewReplacer("NAME", name, "POD", string(text)).Replace(wrapping)),
				&workload); err != nil {
				t.Fatal(err)
			}
			workload["metadata"].(map[string]any)["namespace"] = namespace
			write(workload)
		}
	}
	for namespace := range namespaces {
		write(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace,
			"labels": map[string]string{"pss.security.kolteq.com/enforce": "restricted"}}})
	}
	alone, made := deniedPods(t, manifests.String(), args...)
	denied, below := 0, 0
	for i, c := range cases {
		name := fmt.Sprintf("pod-%d", i)
		denied += len(alone[name])
		if !slices.Contains(alone[name], c.name) {
			if below++; c.created {
				t.Errorf("the Pod beside %s is denied by %s alone", c.policy, alone[name])
			}
		}
		compareMade(t, name, alone[name], made[name])
	}
	t.Logf("%d policies, %d of them about what is added to Pods later; %d Pods, each in %d kinds of workloads: "+
		"%d denials of Pods, and the same of the Pods of each kind", len(cases), below, len(cases), len(wrappings), denied)
}
