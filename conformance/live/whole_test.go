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
	"k8s.io/apimachinery/pkg/util/validation"

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
	for _, object := range objects(t, wholeWorld) {
		create(t, whole, object)
	}
	r := rand.New(rand.NewPCG(*spoiledSeed, 1))
	var manifests, what []string
	kinds := map[string]bool{}
	for i := 0; len(manifests) < *wholeCount; i++ {
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
		text, err := json.Marshal(spoiled)
		if err != nil {
			t.Fatal(err)
		}
		manifests, what = append(manifests, string(text)), append(what, kind.Kind+" with "+which)
		kinds[kind.String()] = true
	}
	result := celgate(t, strings.Join(manifests, "\n---\n"), "apply", "--kubeconfig", whole.Kubeconfig, "--confirm",
		"--no-workloads", "-o", "json", "-")
	var list struct {
		Items []struct {
			confirmation
			Unchecked []string
			Error     string
		}
	}
	if err := json.Unmarshal([]byte(result.stdout), &list); err != nil || len(list.Items) != len(manifests) {
		t.Fatalf("%v: %d answers to %d\n%.2000s", err, len(list.Items), len(manifests), result.stderr)
	}
	counts := map[string]int{}
	for i, it := range list.Items {
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
			t.Logf("worded otherwise: %s\n%.500s\ncelgate: %.500s", what[i], text, it.Response.Status.Message)
		case isNamed(it.Unchecked, text):
			counts["a part that was not asked, and said so"]++
		default:
			counts["unexplained"]++
			t.Errorf("%s\n%.700s\nunchecked: %q %s\n%s", what[i], text, it.Unchecked, it.Error, manifests[i])
		}
	}
	t.Logf("%d objects of %d kinds", len(manifests), len(kinds))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[name], name)
	}
	if len(kinds) < 50 {
		t.Errorf("only %d kinds", len(kinds))
	}
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
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal(err)
	}
	tables := filepath.Join(strings.TrimSpace(string(module)), "test", "testdata")
	type expectation struct{ what, namespace string }
	var manifests []string
	var about []expectation // of each manifest
	levels := []string{"privileged", "baseline", "restricted"}
	versions := []string{"v1.25", "v1.37"}
	for _, level := range levels {
		for _, version := range versions {
			name := nameOfLevel(level, version)
			for _, object := range objects(t, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s, labels: {pod-security.kubernetes.io/enforce: %[2]s,
  pod-security.kubernetes.io/enforce-version: %[3]s, pod-security.kubernetes.io/warn: restricted}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: %[1]s}}
`, name, level, version)) {
				create(t, whole, object)
			}
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
			for _, level := range levels {
				for _, version := range versions {
					namespace := nameOfLevel(level, version)
					metadata, _ := object["metadata"].(map[string]any)
					metadata["namespace"] = namespace
					manifest, err := json.Marshal(object)
					if err != nil {
						t.Fatal(err)
					}
					manifests = append(manifests, string(manifest))
					about = append(about, expectation{strings.TrimPrefix(file, tables+"/"), namespace})
				}
			}
		}
	}
	result := celgate(t, strings.Join(manifests, "\n---\n"), "apply", "--kubeconfig", whole.Kubeconfig, "--confirm",
		"--no-workloads", "-o", "json", "-")
	var list struct{ Items []confirmation }
	if err := json.Unmarshal([]byte(result.stdout), &list); err != nil || len(list.Items) != len(manifests) {
		t.Fatalf("%v: %d answers to %d\n%.2000s", err, len(list.Items), len(manifests), result.stderr)
	}
	refused := 0
	for i, it := range list.Items {
		if !it.Confirmed.Same {
			t.Errorf("%s in %s: %+v\n%s", about[i].what, about[i].namespace, it.Confirmed, it.Response.Status.Message)
		}
		if !it.Response.Allowed {
			refused++
		}
		if parts := strings.Split(about[i].what, "/"); len(parts) == 4 &&
			about[i].namespace == nameOfLevel(parts[0], parts[1]) && it.Response.Allowed != (parts[2] == "pass") {
			t.Errorf("%s: allowed %v: %s", about[i].what, it.Response.Allowed, it.Response.Status.Message)
		}
	}
	t.Logf("%d Pods, %d answers, %d of them refusals", pods, len(manifests), refused)
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
	for _, part := range unchecked {
		switch {
		case strings.HasPrefix(part, "validation"):
			if strings.Contains(difference, " is invalid: ") {
				return true
			}
		default:
			name, _, _ := strings.Cut(part, " ")
			if errs := validation.IsDNS1123Subdomain(strings.ToLower(name)); errs == nil && name != "" {
				return true
			}
		}
	}
	return false
}
