package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A fake is an API server of objects in memory: it lists, watches, and refuses updates of objects that have changed
// meanwhile.
type fake struct {
	url string

	minor string // of its version

	mu       sync.Mutex
	texts    map[string]string // documents by path
	version  int
	objects  map[string]map[string]any // by path
	watchers map[string][]chan map[string]any
	gone     map[string]int // status of a collection that cannot be read
	reads    []string       // paths of single objects that were read
}

func startFake(t *testing.T) (*fake, *Client) {
	t.Helper()
	f := &fake{minor: "33+", texts: map[string]string{}, objects: map[string]map[string]any{},
		watchers: map[string][]chan map[string]any{}, gone: map[string]int{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.CloseClientConnections)
	f.url = server.URL
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(
		`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: own}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}`,
		f.url,
	)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := Connect(kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	return f, client
}

// put creates or changes an object and notifies the watches.
func (f *fake) put(path string, object map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(path, object)
}

func (f *fake) store(path string, object map[string]any) {
	f.version++
	metadata := object["metadata"].(map[string]any)
	metadata["resourceVersion"] = strconv.Itoa(f.version)
	kind := "ADDED"
	if f.objects[path] != nil {
		kind = "MODIFIED"
	}
	f.objects[path] = object
	f.tell(path, kind, object)
}

func (f *fake) remove(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object := f.objects[path]
	delete(f.objects, path)
	f.tell(path, "DELETED", object)
}

func (f *fake) tell(path, kind string, object map[string]any) {
	for collection, watchers := range f.watchers {
		if isWithin(collection, path) {
			for _, w := range watchers {
				w <- map[string]any{"type": kind, "object": object}
			}
		}
	}
}

// isWithin reports that a path is of an object of a collection over all namespaces.
func isWithin(collection, path string) bool {
	prefix, resource := collection[:strings.LastIndex(collection, "/")], collection[strings.LastIndex(collection, "/"):]
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && strings.Contains(rest, resource+"/") &&
		(strings.HasPrefix(rest, resource+"/") || strings.HasPrefix(rest, "/namespaces/"))
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
			"code": code, "reason": reason})
	}
	var body map[string]any
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			fail(400, "BadRequest")
			return
		}
	}
	f.mu.Lock()
	if code := f.gone[r.URL.Path]; code != 0 {
		f.mu.Unlock()
		fail(code, map[int]string{403: "Forbidden", 404: "NotFound"}[code])
		return
	}
	path := r.URL.Path
	switch {
	case path == "/version":
		fmt.Fprintf(w, `{"major":"1","minor":%q}`, f.minor)
	case f.texts[path] != "":
		fmt.Fprint(w, f.texts[path])
	case path == "/api" || path == "/apis" || path == "/openapi/v3":
		fmt.Fprint(w, `{}`)
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/subjectaccessreviews"):
		spec := body["spec"].(map[string]any)
		if spec["user"] == "slow" {
			f.mu.Unlock()
			<-r.Context().Done()
			return
		}
		body["status"] = map[string]any{"allowed": spec["user"] == "dev", "reason": "asked"}
		_ = json.NewEncoder(w).Encode(body)
	case r.Method == http.MethodPost:
		path += "/" + body["metadata"].(map[string]any)["name"].(string)
		if f.objects[path] != nil {
			f.mu.Unlock()
			fail(409, "AlreadyExists")
			return
		}
		f.store(path, body)
		_ = json.NewEncoder(w).Encode(body)
	case r.Method == http.MethodPut:
		if old := f.objects[path]; old == nil ||
			old["metadata"].(map[string]any)["resourceVersion"] != body["metadata"].(map[string]any)["resourceVersion"] {
			f.mu.Unlock()
			fail(409, "Conflict")
			return
		}
		f.store(path, body)
		_ = json.NewEncoder(w).Encode(body)
	case r.URL.Query().Get("sendInitialEvents") != "": // as servers before 1.32
		f.mu.Unlock()
		fail(422, "Invalid")
		return
	case r.URL.Query().Get("watch") != "":
		events := make(chan map[string]any, 100)
		f.watchers[path] = append(f.watchers[path], events)
		since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		for of, object := range f.objects { // changed since the list
			version, _ := strconv.Atoi(object["metadata"].(map[string]any)["resourceVersion"].(string))
			if isWithin(path, of) && version > since {
				events <- map[string]any{"type": "MODIFIED", "object": object}
			}
		}
		f.mu.Unlock()
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		for {
			select {
			case <-r.Context().Done():
				f.mu.Lock()
				f.watchers[path] = slices.DeleteFunc(f.watchers[path],
					func(c chan map[string]any) bool { return c == events })
				f.mu.Unlock()
				return
			case e := <-events:
				_ = json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			}
		}
	case f.objects[path] != nil:
		f.reads = append(f.reads, path)
		_ = json.NewEncoder(w).Encode(f.objects[path])
	case isObject(path):
		f.reads = append(f.reads, path)
		f.mu.Unlock()
		fail(404, "NotFound")
		return
	default:
		items := []any{}
		for of, object := range f.objects {
			if isWithin(path, of) {
				items = append(items, object)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version)},
			"items": items,
		})
	}
	f.mu.Unlock()
}

// isObject reports that a path names one object: its parts behind the version, and a namespace, are two.
func isObject(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		parts = parts[3:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) == 2
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func configMap(name, value string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"},
		"data": map[string]any{"v": value},
	}
}

var configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

func withParams(kind string) *policy.Set {
	return &policy.Set{Policies: []*policy.Policy{
		{Name: "p", ParamKind: &policy.ParamKind{APIVersion: "v1", Kind: kind}}}}
}

// failingWatches are the resources whose watches do not work.
func failingWatches(w *World) string {
	var names []string
	for _, each := range w.Watches() {
		if each.Err != nil {
			names = append(names, each.Resource)
		}
	}
	return strings.Join(names, " ")
}

func TestWorld(t *testing.T) {
	f, client := startFake(t)
	f.put("/api/v1/namespaces/default", map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "default"}})
	f.put("/api/v1/namespaces/default/configmaps/a", configMap("a", "1"))
	f.gone["/apis/policy.celgate.dev/v1/mutatingadmissionpolicies"] = 404
	f.gone["/api/v1/secrets"] = 403
	w, err := client.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w.Minor() != "1.33" || w.CheckSynced() != nil {
		t.Error(w.Minor(), w.CheckSynced())
	}
	if _, err := w.Types(); err != nil {
		t.Fatal(err)
	}

	// A namespace comes from the watch, or from the server if it is newer than that.
	if ns, err := w.Get(t.Context(), namespaceKind, "", "default"); ns == nil || err != nil {
		t.Error(ns, err)
	}
	if ns, err := w.Get(t.Context(), namespaceKind, "", "none"); ns != nil || err != nil {
		t.Error(ns, err)
	}
	if want := []string{"/api/v1/namespaces/none"}; !slices.Equal(f.reads, want) {
		t.Errorf("read %v, not %v", f.reads, want)
	}

	// Params are watched while a policy names their kind.
	if _, err := w.List(t.Context(), configMapKind, ""); err == nil || err.Error() != "configmaps are not watched" {
		t.Error(err)
	}
	if err := w.Follow(t.Context(), withParams("ConfigMap")); err != nil {
		t.Fatal(err)
	}
	value := func() any {
		all, err := w.List(t.Context(), configMapKind, "default")
		if err != nil || len(all) == 0 {
			return err
		}
		return all[0]["data"].(map[string]any)["v"]
	}
	if got := value(); got != "1" {
		t.Error(got)
	}
	f.put("/api/v1/namespaces/default/configmaps/a", configMap("a", "2"))
	eventually(t, "the change is not seen", func() bool { return value() == "2" })
	f.remove("/api/v1/namespaces/default/configmaps/a")
	eventually(t, "the deletion is not seen", func() bool { return value() == nil })

	// Unreadable objects are reported, and do not block.
	err = w.Follow(t.Context(), withParams("Secret"))
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	if err == nil || !strings.Contains(err.Error(), "watch secrets") || w.ParamError(secret) == nil ||
		failingWatches(w) != "secrets" {
		t.Error(err, w.ParamError(secret), w.Watches())
	}
	if _, err := w.List(t.Context(), secret, ""); err == nil {
		t.Error("no error")
	}
	if w.watchOf(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}) != nil {
		t.Error("ConfigMaps are still watched")
	}

	// Policies of celgate's own group.
	const path = "/apis/policy.celgate.dev/v1/mutatingadmissionpolicybindings/b"
	binding := func(generation float64, annotation string) map[string]any {
		return map[string]any{
			"apiVersion": "policy.celgate.dev/v1", "kind": "MutatingAdmissionPolicyBinding",
			"metadata": map[string]any{"name": "b", "uid": "u", "generation": generation,
				"annotations": map[string]any{policy.DisabledAnnotation: annotation}},
			"spec": map[string]any{"policyName": "p"}, "status": map[string]any{},
		}
	}
	changed := func() bool {
		select {
		case <-w.Changes():
			return true
		case <-time.After(300 * time.Millisecond):
			return false
		}
	}
	changed() // the first state
	f.put(path, binding(1, "false"))
	if !changed() {
		t.Error("no change")
	}
	sources, set := w.Sources()
	if len(sources) != 1 || len(set.Bindings) != 1 || set.Bindings[0].PolicyName != "p" {
		t.Errorf("%+v %+v", sources, set)
	}
	f.put(path, binding(1, "false"))
	if changed() {
		t.Error("a status is no change")
	}
	f.put(path, binding(1, "true"))
	if !changed() {
		t.Error("an annotation is a change")
	}
	if sources, set := w.Sources(); len(sources) != 1 || len(set.Bindings) != 0 {
		t.Errorf("%+v %+v", sources, set)
	}
	if _, same := w.Reread(sources[0]); !same {
		t.Error("not the same")
	}
	f.put(path, binding(2, "true"))
	eventually(t, "the next generation is not seen", func() bool { _, same := w.Reread(sources[0]); return !same })
}

func TestAuthorize(t *testing.T) {
	_, client := startFake(t)
	for name, want := range map[string]authorizer.Decision{"dev": authorizer.DecisionAllow,
		"other": authorizer.DecisionNoOpinion} {
		got, reason, err := client.authorize(t.Context(), authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: name, Extra: map[string][]string{"k": {"v"}}}, Verb: "get", Resource: "pods",
			ResourceRequest: true,
		})
		if got != want || reason != "asked" || err != nil {
			t.Errorf("%s: %v %q %v", name, got, reason, err)
		}
	}
}

// TestAuthorizeSlowly calls a server that does not answer, with a context that never ends.
func TestAuthorizeSlowly(t *testing.T) {
	t.Parallel()
	_, client := startFake(t)
	start := time.Now()
	got, _, err := client.authorize(context.WithoutCancel(t.Context()), authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "slow"}, Verb: "get", Resource: "pods", ResourceRequest: true,
	})
	var unanswered *unansweredError
	if got != authorizer.DecisionNoOpinion || !errors.As(err, &unanswered) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v %v", got, err)
	}
	if took := time.Since(start); took > askTime+10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestSecret(t *testing.T) {
	_, client := startFake(t)
	s := &Secret{Client: client, Namespace: "own", Name: "celgate"}
	if members, _, err := s.Read(t.Context()); members != nil || err != nil {
		t.Fatal(members, err)
	}
	_, version, err := s.Create(t.Context(), map[string][]byte{"k": {0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	if members, _, err := s.Create(t.Context(), map[string][]byte{"k": {2}}); err != nil ||
		string(members["k"]) != "\x00\x01" {
		t.Error("the other replica was first", members, err)
	}
	if err := s.Update(t.Context(), map[string][]byte{"k": {3}}, version); err != nil {
		t.Error(err)
	}
	if err := s.Update(t.Context(), map[string][]byte{"k": {4}}, version); err == nil {
		t.Error("an update of an old version")
	}
}
