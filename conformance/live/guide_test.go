package live

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// TestGuide follows the guide "Before you switch Warn to Deny" in a cluster: after the switch, the server gives the
// answers that celgate predicts before it.
func TestGuide(t *testing.T) {
	folder := t.TempDir()
	text, err := os.ReadFile("../../docs/guide/warn-to-deny.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{} // by the guide, by the command
	for _, b := range regexp.MustCompile("(?ms)^```([a-z]+)(?: (\\S+))?\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if b[2] != "" {
			path := filepath.Join(folder, b[2])
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			write(t, path, b[3])
		}
		command := ""
		for line := range strings.Lines(b[3]) {
			if after, ok := strings.CutPrefix(line, "$ "); ok {
				command = strings.TrimSpace(after)
				if strings.HasPrefix(command, "sed ") { // a file is derived from another one
					cmd := exec.CommandContext(t.Context(), "sh", "-c", "mkdir -p next && "+command)
					cmd.Dir = folder
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
			} else if command != "" && b[1] == "console" {
				said[command] += line
			}
		}
	}
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = folder
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if stderr.Len() > 0 {
			t.Fatalf("%v: %v\n%s", args, err, stderr.String())
		}
		return string(out)
	}
	ask := func(method, path string, body map[string]any) *server.Answer {
		t.Helper()
		answer, err := api.Do(t.Context(), server.Call{Method: method, Path: path, Body: body,
			Query: map[string][]string{"dryRun": {"All"}}})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	collection := func(tree map[string]any) string { return filepath.Dir(pathOf(tree)) }
	template := func(tree map[string]any) map[string]any { // the Pod that a controller would create
		spec := tree["spec"].(map[string]any)
		if job, ok := spec["jobTemplate"].(map[string]any); ok {
			spec = job["spec"].(map[string]any)
		}
		in := tree["metadata"].(map[string]any)["namespace"]
		return map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "made-", "namespace": in},
			"spec": spec["template"].(map[string]any)["spec"],
		}
	}
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: ops}}")

	// The cluster of the guide: the objects of its dump run, and the policy warns.
	dump := objects(t, read("dump/cluster.yaml"))[0]["items"].([]any)
	for _, item := range dump {
		tree := item.(map[string]any)
		delete(tree["metadata"].(map[string]any), "uid")
		manifest, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		put(t, string(manifest))
	}
	web, report := objects(t, read("manifests/web.yaml"))[0], objects(t, read("manifests/report.yaml"))[0]
	pod := dump[0].(map[string]any)
	copied := func() map[string]any {
		metadata := pod["metadata"].(map[string]any)
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": pod["spec"],
			"metadata": map[string]any{"name": "copy", "namespace": metadata["namespace"]}}
	}
	put(t, read("policies/latest-images.yaml"))
	eventually(t, func() string {
		if a := ask(http.MethodPost, collection(pod), copied()); len(a.Warnings) != 1 || a.Code != http.StatusCreated {
			return "the policy does not warn"
		}
		return ""
	})
	if a := ask(http.MethodPost, collection(report), report); len(a.Warnings) > 0 {
		t.Errorf("whoever writes the CronJob is warned: %v", a.Warnings)
	}

	// The output of celgate for the cluster is the output in the guide for files.
	live := "--kubeconfig=" + api.Kubeconfig
	if got, want := run("diff", live, "--admission-plugins=-*", "cluster", "next/latest-images.yaml", "manifests"),
		said["celgate diff policies next manifests"]; got != want || want == "" {
		t.Errorf("%s\nbut the guide says\n%s", got, want)
	}
	audit := run("audit", live, "-p", "next/latest-images.yaml", "-o", "csv")
	for _, line := range []string{
		"denied,false,create,v1,Pod,ops,shell,,", "denied,false,make,apps/v1,Deployment,shop,cache,Pod,",
	} {
		if !strings.Contains(audit, "\n"+line) {
			t.Errorf("%q is not in\n%s", line, audit)
		}
	}

	// The switch.
	for _, path := range []string{"next/latest-images.yaml", "next/latest-images-templates.yaml"} {
		put(t, read(path))
	}
	eventually(t, func() string {
		denied := ask(http.MethodPost, collection(pod), copied())
		warned := ask(http.MethodPost, collection(report), report)
		if denied.Code == http.StatusCreated || len(warned.Warnings) == 0 {
			return "the policies are not in force"
		}
		return ""
	})
	answer := func(name string, a *server.Answer, allowed bool, warning string) {
		t.Helper()
		status, warnings := a.Status(), strings.Join(a.Warnings, "\n")
		if (status == nil) != allowed || status != nil && !strings.Contains(status.Message, "no image latest") ||
			(warnings != "") != (warning != "") || !strings.Contains(warnings, warning) {
			t.Errorf("%s: %v, warnings %q", name, status, a.Warnings)
		}
	}
	answer("web", ask(http.MethodPost, collection(web), web), true, "")
	answer("a Pod of web", ask(http.MethodPost, "/api/v1/namespaces/shop/pods", template(web)), true, "")
	answer("report", ask(http.MethodPost, collection(report), report), true, "Pods with one will be refused")
	answer("a Pod of report", ask(http.MethodPost, "/api/v1/namespaces/shop/pods", template(report)), false, "")
	answer("a copy of shell", ask(http.MethodPost, collection(pod), copied()), false, "")
	answer("a Pod of cache", ask(http.MethodPost, "/api/v1/namespaces/shop/pods", template(dump[1].(map[string]any))), false, "")
	stored := ask(http.MethodGet, pathOf(pod), nil)
	tree, err := stored.Object()
	if err != nil {
		t.Fatal(err)
	}
	answer("shell as it is", ask(http.MethodPut, pathOf(pod), tree), true, "")
}
