package live

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/conformance/spoil"
	"github.com/celgate/celgate/schema/builtin"
)

var (
	wholeCount = flag.Int("whole", 300, "objects with a spoiled field for a server with all of its plugins")
	podFiles   = flag.String("pods", "", "a pattern of further files with Pods for PodSecurity")
)

// wholeWorld is what the plugins of a server look at.
const wholeWorld = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: baseline, pod-security.kubernetes.io/warn: restricted}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
imagePullSecrets: [{name: registry}]
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: shop}
spec:
  limits:
  - {type: Container, default: {cpu: 200m, memory: 1Gi}, defaultRequest: {cpu: 100m}, max: {memory: 4Gi}}
  - {type: PersistentVolumeClaim, max: {storage: 100Gi}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 100
globalDefault: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: csi.example.com
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: front, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}
spec: {controller: example.com/front}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: sandbox
overhead: {podFixed: {cpu: 10m}}
`

// anything is a policy in force without which there would be nothing to ask.
const anything = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: anything}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*"]}]}
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: anything}
spec: {policyName: anything, validationActions: [Deny]}
`

// TestWhole compares answers with those of a server that has all of its plugins: valid objects of which one field is
// spoiled. An answer is that of the server, or it names the part of the server that was not asked.
func TestWhole(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	valid, err := spoil.Objects()
	if err != nil {
		t.Fatal(err)
	}
	more, err := spoil.MoreObjects()
	if err != nil {
		t.Fatal(err)
	}
	valid = append(valid, more...)
	whole := startWhole(t)
	createAll(t, whole, anything)
	createAll(t, whole, wholeWorld)
	r := rand.New(rand.NewPCG(*spoiledSeed, 1))
	// What celgate takes for the state of the cluster would change the answers to other objects, but not those of the
	// server to dry runs.
	var alone, together asked
	kinds := map[string]bool{}
	for i := range *wholeCount {
		object := valid[i%len(valid)]
		kind := apischema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string))
		typ := types.Type(kind)
		if typ == nil {
			t.Fatalf("%s is not known", kind)
		}
		spoiled, which := object, "nothing spoiled"
		if i >= len(valid) {
			spoiled, which = spoil.Spoil(r, object, typ)
		}
		metadata, _ := spoiled["metadata"].(map[string]any)
		if name, _ := metadata["name"].(string); name == "" {
			continue // celgate does not take it for a manifest
		}
		if types.ResourceFor(kind).Namespaced {
			metadata["namespace"] = "shop"
		}
		to := &alone
		if slices.Contains(ofState, kind.Kind) {
			to = &together
		}
		to.add(t, kind.Kind+" with "+which, spoiled)
		kinds[kind.String()] = true
	}
	counts := map[string]int{}
	for _, it := range append(alone.ask(t, whole), together.ask(t, whole)...) {
		answer := it.Confirmed
		text := strings.Join(answer.Differences, "\n")
		switch {
		case answer.Same:
			counts["the same answer"]++
			if !it.Response.Allowed {
				counts["of those, refusals"]++
			}
		case answer.Unasked != "":
			counts["not asked: "+answer.Unasked]++
		case strings.HasPrefix(text, "the server refuses it in other words"):
			counts["refused in other words"]++
			t.Logf("worded otherwise: %s\n%.500s\ncelgate: %.500s", it.what, text, it.Response.Status.Message)
		case isNamed(it.Unchecked, text):
			counts["a part that was not asked, and said so"]++
		default:
			counts["unexplained"]++
			t.Errorf("%s\n%.700s\nunchecked: %q\n%s", it.what, text, it.Unchecked, it.manifest)
		}
	}
	t.Logf("%d objects of %d kinds", len(alone.manifests)+len(together.manifests), len(kinds))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[name], name)
	}
	if len(kinds) < 50 {
		t.Errorf("only %d kinds", len(kinds))
	}
}

// ofState are kinds that plugins and policies look at.
var ofState = []string{"Namespace", "LimitRange", "ResourceQuota", "ServiceAccount", "PriorityClass", "RuntimeClass",
	"StorageClass", "IngressClass", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Node",
	"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	"MutatingWebhookConfiguration"}

// asked are manifests for one run of celgate.
type asked struct{ what, manifests []string }

// An askedAnswer is the answer to one of them.
type askedAnswer struct {
	confirmation
	Unchecked      []string
	Source         struct{ Line int }
	what, manifest string
}

func (a *asked) add(t *testing.T, what string, object map[string]any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	a.what, a.manifests = append(a.what, what), append(a.manifests, string(text))
}

// ask lets celgate answer and the server confirm. Each manifest has an answer, or an error by its line.
func (a *asked) ask(t *testing.T, whole *server.Server) []askedAnswer {
	t.Helper()
	result := celgate(t, strings.Join(a.manifests, "\n---\n"), "apply", "--kubeconfig", whole.Kubeconfig, "--confirm",
		"--no-workloads", "-o", "json", "-")
	var list struct{ Items []askedAnswer }
	if err := json.Unmarshal([]byte(result.stdout), &list); err != nil {
		t.Fatalf("%v\n%.2000s", err, result.stderr)
	}
	known := map[int]bool{}
	for i := range list.Items {
		it := &list.Items[i]
		at := it.Source.Line / 2 // each manifest is a line, and so is what separates it from the next
		it.what, it.manifest, known[at] = a.what[at], a.manifests[at], true
	}
	for at, what := range a.what {
		if !known[at] && !strings.Contains(result.stderr, fmt.Sprintf("stdin:%d:", 2*at+1)) {
			t.Errorf("no answer: %s\n%s", what, a.manifests[at])
		}
	}
	return list.Items
}

// startWhole starts a server with all of its plugins, which ends with the test.
func startWhole(t *testing.T) *server.Server {
	t.Helper()
	whole, err := server.Start(t.Context(), server.Options{Plugins: server.Disturbing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := whole.Stop(); err != nil {
			t.Error(err)
		}
	})
	return whole
}

// TestPodSecurity compares the answers of PodSecurity in namespaces of several levels and versions: for the Pods of
// the tables of Kubernetes, which say what each level takes, and for further ones.
func TestPodSecurity(t *testing.T) {
	whole := startWhole(t)
	createAll(t, whole, anything)
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal(err)
	}
	tables := filepath.Join(strings.TrimSpace(string(module)), "test", "testdata")
	var all asked
	var namespaces []string // of each manifest
	levels := []string{"privileged", "baseline", "restricted"}
	versions := []string{"v1.25", "v1.37"}
	for _, level := range levels {
		for _, version := range versions {
			name := nameOfLevel(level, version)
			createAll(t, whole, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s, labels: {pod-security.kubernetes.io/enforce: %[2]s,
  pod-security.kubernetes.io/enforce-version: %[3]s, pod-security.kubernetes.io/warn: restricted}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: %[1]s}}
`, name, level, version))
		}
	}
	var files []string
	for _, pattern := range []string{filepath.Join(tables, "*", "v1.25", "*", "*.yaml"),
		filepath.Join(tables, "*", "v1.37", "*", "*.yaml"), *podFiles} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	pods := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects(t, string(text)) {
			if object["kind"] != "Pod" {
				continue
			}
			pods++
			metadata, _ := object["metadata"].(map[string]any)
			metadata["name"] = strings.ReplaceAll(metadata["name"].(string), "_", "-") // the tables are not sent to servers
			for _, level := range levels {
				for _, version := range versions {
					namespace := nameOfLevel(level, version)
					metadata["namespace"] = namespace
					all.add(t, strings.TrimPrefix(file, tables+"/"), object)
					namespaces = append(namespaces, namespace)
				}
			}
		}
	}
	list := all.ask(t, whole)
	if len(list) != len(all.manifests) {
		t.Fatalf("%d answers to %d", len(list), len(all.manifests))
	}
	refused := 0
	for i, it := range list {
		if !it.Confirmed.Same {
			t.Errorf("%s in %s: %+v\n%s", it.what, namespaces[i], it.Confirmed, it.Response.Status.Message)
		}
		if !it.Response.Allowed {
			refused++
		}
		if parts := strings.Split(it.what, "/"); len(parts) == 4 &&
			namespaces[i] == nameOfLevel(parts[0], parts[1]) && it.Response.Allowed != (parts[2] == "pass") {
			t.Errorf("%s: allowed %v: %s", it.what, it.Response.Allowed, it.Response.Status.Message)
		}
	}
	t.Logf("%d Pods, %d answers, %d of them refusals", pods, len(list), refused)
	if pods < 200 || refused < pods {
		t.Error("too few")
	}
}

// nameOfLevel is the namespace of a level in a version.
func nameOfLevel(level, version string) string {
	return level + "-" + strings.ReplaceAll(version, ".", "-")
}

// isNamed reports whether a difference comes from a part of the server that celgate named as not asked.
func isNamed(unchecked []string, difference string) bool {
	return strings.HasPrefix(difference, "the server refuses it: ") && slices.ContainsFunc(unchecked, func(part string) bool {
		name, _, _ := strings.Cut(part, " ")
		switch name {
		case "validation":
			return strings.Contains(difference, " is invalid: ")
		case "allocation":
			return strings.Contains(difference, "allocate") || strings.Contains(difference, "not in the valid range")
		}
		return strings.Contains(difference, name)
	})
}
