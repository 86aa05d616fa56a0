// Package controllers compares the children that package workload derives with the objects that a real
// kube-controller-manager creates.
package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/workload"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"

	_ "embed"
)

//go:embed testdata/workloads.yaml
var workloads []byte

// A cluster is a server with the controllers of workloads, and a namespace for them.
type cluster struct {
	*testing.T
	*server.Server
	types *schema.Registry
}

// TestChildren creates each workload, waits for the objects that the controllers create for it, recursively, and
// compares each object with the one that package workload derives from the stored parent. The derived object is created
// in a dry run, so that both have the server's defaults.
func TestChildren(t *testing.T) {
	s, err := server.Start(t.Context(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	if err := s.StartControllers(t.Context(), "deployment-controller", "replicaset-controller",
		"replicationcontroller-controller",
		"statefulset-controller", "daemonset-controller", "job-controller", "cronjob-controller",
		"serviceaccount-controller"); err != nil {
		t.Fatal(err)
	}
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t, s, types}
	c.create("/api/v1/nodes", map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{
		"name": "node", "labels": map[string]any{"kubernetes.io/os": "linux"},
	}})
	docs, problems := manifest.Read(bytes.NewReader(workloads), "workloads.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	stored := make([]map[string]any, len(docs))
	for i, d := range docs {
		stored[i] = c.create(c.collection(d.Object, "default"), d.Object)
	}
	rows, compared := 0, 0
	for _, w := range stored {
		rows++
		t.Run(w["kind"].(string)+" "+name(w), func(t *testing.T) {
			compared += (&cluster{t, s, types}).compare(w)
		})
	}
	t.Logf("%d workloads, %d children compared", rows, compared)
	if rows < 30 || compared < 50 {
		t.Errorf("%d workloads and %d children are too few", rows, compared)
	}
}

// compare compares the children of a stored object, recursively, and returns their number.
func (c *cluster) compare(parent map[string]any) int {
	c.Helper()
	n := 0
	for _, child := range workload.Children(parent) {
		path := c.collection(child.Object, "default")
		actual := c.find(path, parent, child)
		if child.Waiting != "" {
			if actual != nil {
				c.Errorf("%s exists, though %s", name(actual), child.Waiting)
			}
			n++
			continue
		}
		if actual == nil {
			c.Errorf("the controller made no %s", child.Object["kind"])
			continue
		}
		if by := c.creators(path, actual); !slices.Contains(by, "system:serviceaccount:kube-system:"+child.Controller) {
			c.Errorf("%s was created by one of %q, not by %s", name(actual), by, child.Controller)
		}
		want, got := comparable(c.T, actual), comparable(c.T, c.dryRun(path, child.Object))
		if diff := cmp.Diff(want, got); diff != "" {
			c.Errorf("%s: -controller +ours\n%s", name(actual), diff)
		}
		n += 1 + c.compare(actual)
	}
	return n
}

// find waits for a child of a parent; if none is expected, it waits only briefly.
func (c *cluster) find(path string, parent map[string]any, child workload.Child) map[string]any {
	c.Helper()
	patience := 90 * time.Second // a CronJob begins a minute after it was created at the latest
	if child.Waiting != "" {
		patience = time.Second
	}
	uid := parent["metadata"].(map[string]any)["uid"]
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		items, _ := c.get(path)["items"].([]any)
		var found []map[string]any
		for _, item := range items {
			object := item.(map[string]any)
			if isChild(object, uid, child) {
				found = append(found, object)
			}
		}
		if len(found) > 0 {
			// Of several the first: by ordinal or index, which is in the name or its prefix.
			slices.SortFunc(found, func(a, b map[string]any) int { return strings.Compare(name(a), name(b)) })
			// Lists leave these out.
			found[0]["apiVersion"], found[0]["kind"] = child.Object["apiVersion"], child.Object["kind"]
			return found[0]
		}
		if time.Now().After(end) {
			return nil
		}
	}
}

// isChild reports whether an object belongs to a parent. The claims of a StatefulSet have names and no owners.
func isChild(object map[string]any, parent any, child workload.Child) bool {
	if child.Object["kind"] == "PersistentVolumeClaim" {
		return name(object) == name(child.Object)
	}
	owners, _ := object["metadata"].(map[string]any)["ownerReferences"].([]any)
	return slices.ContainsFunc(owners, func(o any) bool { return o.(map[string]any)["uid"] == parent })
}

// creators are the users whose requests may have created an object: the audit log does not contain generated names.
func (c *cluster) creators(path string, object map[string]any) []string {
	c.Helper()
	resource := path[strings.LastIndexByte(path, '/')+1:]
	who, err := c.CreatorsOf(resource, "default", name(object))
	if err == nil && len(who) == 0 {
		who, err = c.CreatorsOf(resource, "default", "")
	}
	if err != nil {
		c.Fatal(err)
	}
	return who
}

func (c *cluster) collection(object map[string]any, namespace string) string {
	c.Helper()
	group, version, found := strings.Cut(object["apiVersion"].(string), "/")
	if !found {
		group, version = "", group
	}
	r := c.types.ResourceFor(schema.GroupVersionKind{Group: group, Version: version, Kind: object["kind"].(string)})
	if r == nil {
		c.Fatalf("no resource for %v", object["kind"])
	}
	root := "/apis/" + group
	if group == "" {
		root = "/api"
	}
	return fmt.Sprintf("%s/%s/namespaces/%s/%s", root, version, namespace, r.Resource)
}

func (c *cluster) get(path string) map[string]any {
	c.Helper()
	return c.do(server.Call{Method: http.MethodGet, Path: path})
}

func (c *cluster) create(path string, object map[string]any) map[string]any {
	c.Helper()
	return c.do(server.Call{Method: http.MethodPost, Path: path, Body: object})
}

// dryRun returns the object that the server would create.
func (c *cluster) dryRun(path string, object map[string]any) map[string]any {
	c.Helper()
	call := server.Call{Method: http.MethodPost, Path: path, Body: object, Query: url.Values{"dryRun": {"All"}}}
	taken := name(object)
	if taken == "" {
		return c.do(call)
	}
	// The real object has the name, so the dry run uses another name, which is replaced afterwards.
	text, err := json.Marshal(object)
	if err != nil {
		c.Fatal(err)
	}
	call.Body = json.RawMessage(strings.Replace(string(text), `"name":"`+taken+`"`, `"name":"`+taken+`x"`, 1))
	if text, err = json.Marshal(c.do(call)); err != nil {
		c.Fatal(err)
	}
	var made map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"`+taken+`x"`, `"`+taken+`"`)),
		&made); err != nil {
		c.Fatal(err)
	}
	return made
}

func (c *cluster) do(call server.Call) map[string]any {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	answer, err := c.Do(ctx, call)
	if err != nil {
		c.Fatal(err)
	}
	if status := answer.Status(); status != nil {
		c.Fatalf("%s %s: %s", call.Method, call.Path, status.Message)
	}
	object, err := answer.Object()
	if err != nil {
		c.Fatal(err)
	}
	return object
}

func name(object map[string]any) string {
	s, _ := object["metadata"].(map[string]any)["name"].(string)
	return s
}

// These fields differ between two runs of one controller.
var (
	made = []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"}
	// hash is one that a controller makes of a template, as a value or at the end of a name.
	hash    = regexp.MustCompile(`[bcdfghjklmnpqrstvwxz2456789]{6,10}$`)
	minutes = regexp.MustCompile(`-[0-9]{8}$`)
)

// comparable returns an object without the fields that differ between two runs: uids, times, versions, the random end
// of a generated name, the hash of a template, the minute for which a Job is scheduled, and the status.
func comparable(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var copied map[string]any
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	delete(copied, "status")
	metadata := copied["metadata"].(map[string]any)
	for _, member := range made {
		delete(metadata, member)
	}
	labels, _ := metadata["labels"].(map[string]any)
	hashes := []string{}
	for _, label := range []string{"pod-template-hash", "controller-revision-hash"} {
		if value, ok := labels[label].(string); ok {
			hashes = append(hashes, hash.FindString(value))
		}
	}
	if prefix, ok := metadata["generateName"].(string); ok {
		metadata["name"] = prefix + "RANDOM"
	}
	if copied["kind"] == "PersistentVolumeClaim" {
		delete(metadata, "ownerReferences") // its StatefulSet adds it later, if the retention policy requires it
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		if at, ok := annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].(string); ok {
			// the time zone
			annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] = at[len("2006-01-02T15:04:05"):]
		}
	}
	if text, err = json.Marshal(copied); err != nil {
		t.Fatal(err)
	}
	masked := string(text)
	for _, h := range hashes {
		if h != "" {
			masked = strings.ReplaceAll(masked, h, "HASH")
		}
	}
	if at := minutes.FindString(name(copied)); copied["kind"] == "Job" && at != "" {
		masked = strings.ReplaceAll(masked, at, "-MINUTES")
	}
	masked = regexp.MustCompile(`"(batch\.kubernetes\.io/)?controller-uid":"[^"]*"|"uid":"[^"]*"`).
		ReplaceAllString(masked, `"uid":"UID"`)
	var result map[string]any
	if err := json.Unmarshal([]byte(masked), &result); err != nil {
		t.Fatal(err)
	}
	return result
}
