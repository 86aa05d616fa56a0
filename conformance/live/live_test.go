// Package live tests the answers of celgate about a live cluster: a real kube-apiserver that enforces admission
// policies, and celgate beside it, which must give the same answers.
package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
)

var (
	api     *server.Server
	program string // path of celgate
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "celgate-live-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if program, err = server.Celgate(context.Background(), folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if api, err = server.Start(context.Background(), server.Options{AuditLevel: "RequestResponse"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := api.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// A result is one run of celgate.
type result struct {
	code           int
	stdout, stderr string
}

// celgate runs the program with manifests on standard input. Admission plugins are those of api, which has none of them
// on that change objects.
func celgate(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	if args[0] == "apply" || args[0] == "explain" || args[0] == "diff" {
		if !slices.Contains(args, "--confirm") {
			args = append([]string{args[0], "--admission-plugins=-*"}, args[1:]...)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// kubeconfigAs returns a kubeconfig of another user.
func kubeconfigAs(t *testing.T, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, api.KubeconfigAs(user, "default"))
	return path
}

// objects reads YAML documents.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	trees, err := conformance.Documents([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return trees
}

var plurals = map[string]string{
	"Namespace": "namespaces", "ConfigMap": "configmaps", "Deployment": "deployments", "Widget": "widgets",
	"StatefulSet": "statefulsets", "DaemonSet": "daemonsets", "ReplicaSet": "replicasets",
	"Service": "services", "ServiceAccount": "serviceaccounts", "Role": "roles", "CronJob": "cronjobs", "Pod": "pods",
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings",
	"CustomResourceDefinition": "customresourcedefinitions", "APIService": "apiservices",
	"LimitRange": "limitranges", "ResourceQuota": "resourcequotas", "Secret": "secrets",
	"PriorityClass": "priorityclasses", "StorageClass": "storageclasses", "IngressClass": "ingressclasses",
	"Ingress": "ingresses", "PersistentVolumeClaim": "persistentvolumeclaims", "PersistentVolume": "persistentvolumes",
	"RuntimeClass":                     "runtimeclasses",
	"MutatingWebhookConfiguration":     "mutatingwebhookconfigurations",
	"ValidatingWebhookConfiguration":   "validatingwebhookconfigurations",
	"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
	"AdmissionPolicy":                  "admissionpolicies",
	"AdmissionPolicyBinding":           "admissionpolicybindings",
	"AdmissionPolicyLibrary":           "admissionpolicylibraries",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"MutatingAdmissionPolicy":          "mutatingadmissionpolicies",
	"MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings",
}

// pathOf is where an object is; namespaced ones without a namespace are in default.
func pathOf(tree map[string]any) string {
	metadata := tree["metadata"].(map[string]any)
	kind, version := tree["kind"].(string), tree["apiVersion"].(string)
	path := "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	switch kind {
	case "ConfigMap", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Widget", "Role", "RoleBinding", "Service", "ServiceAccount", "CronJob",
		"Pod", "LimitRange", "ResourceQuota", "Secret", "Ingress", "PersistentVolumeClaim":
		namespace, _ := metadata["namespace"].(string)
		if namespace == "" {
			namespace = "default"
		}
		path += "/namespaces/" + namespace
	}
	return path + "/" + plurals[kind] + "/" + metadata["name"].(string)
}

// keep applies objects for good: a namespace that was deleted does not come back without a controller.
func keep(t *testing.T, text string) {
	t.Helper()
	for _, tree := range objects(t, text) {
		path := pathOf(tree)
		answer, err := api.Do(t.Context(), server.Apply(path, tree))
		if err != nil {
			t.Fatal(err)
		}
		if status := answer.Status(); status != nil {
			t.Fatalf("%s: %s", path, status.Message)
		}
		if tree["kind"] == "CustomResourceDefinition" {
			awaitServed(t, tree)
		}
	}
}

// awaitServed waits until the server serves the kind of a definition.
func awaitServed(t *testing.T, definition map[string]any) {
	t.Helper()
	spec := definition["spec"].(map[string]any)
	names := spec["names"].(map[string]any)
	for _, v := range spec["versions"].([]any) {
		version := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		path := fmt.Sprintf("/apis/%s/%s/%s", spec["group"], version["name"], names["plural"])
		eventually(t, func() string {
			answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			if answer.Code == http.StatusNotFound {
				return path + " is not served"
			}
			return ""
		})
	}
}

// put applies objects and removes them when the test ends.
func put(t *testing.T, text string) {
	t.Helper()
	keep(t, text)
	for _, tree := range objects(t, text) {
		path := pathOf(tree)
		t.Cleanup(func() {
			if _, err := api.Do(context.Background(), server.Call{Method: http.MethodDelete, Path: path}); err != nil {
				t.Error(err)
			}
		})
	}
}

// try reports whether a server would create an object.
func try(t *testing.T, on *server.Server, tree map[string]any) *server.Answer {
	t.Helper()
	path := pathOf(tree)
	answer, err := on.Do(t.Context(), server.Call{
		Method: http.MethodPost, Path: path[:strings.LastIndex(path, "/")], Body: tree,
		Query: map[string][]string{"dryRun": {"All"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func eventually(t *testing.T, problem func() string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		p := problem()
		if p == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(p)
		}
	}
}

// A decision is the compared part of an answer: the verdict, and the final object.
type decision struct {
	Response struct {
		Allowed bool
		Status  struct {
			Code            int
			Reason, Message string
		}
		Warnings []string
	}
	Object map[string]any
}

func decide(t *testing.T, manifest string, args ...string) decision {
	t.Helper()
	r := celgate(t, manifest, append([]string{"apply", "-o", "json"}, append(args, "-")...)...)
	var list struct{ Items []decision }
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list.Items) != 1 || r.stderr != "" {
		t.Fatalf("%v: %+v", err, r)
	}
	return list.Items[0]
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
