package celgate_test

import (
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// TestNamespaceLifecycle sends requests that the server refuses before policies run, and some that it does not refuse.
func TestNamespaceLifecycle(t *testing.T) {
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := state.New(types, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "leaving"},
		"status": map[string]any{"phase": "Terminating"},
	})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := celgate.New(&policy.Set{}, celgate.Options{Types: types, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(op celgate.Operation, namespace string) *celgate.Request {
		object := map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "web", "namespace": namespace},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web"}}}}
		r := &celgate.Request{
			Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			Name:     "web", Namespace: namespace, Operation: op, Object: object,
		}
		if op == celgate.Update {
			r.OldObject = object
		}
		return r
	}
	exec := pod(celgate.Connect, "nope")
	exec.Kind.Kind, exec.SubResource = "PodExecOptions", "exec"
	exec.Object = map[string]any{"apiVersion": "v1", "kind": "PodExecOptions"}
	gone := &celgate.Request{
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Namespace"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		Name:     "default", Namespace: "default", Operation: celgate.Delete,
		OldObject: map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": "default"}},
	}
	for _, c := range []struct {
		name    string
		request *celgate.Request
		code    int32 // 0: allowed
		message string
	}{
		{"there", pod(celgate.Create, "default"), 0, ""},
		{"missing", pod(celgate.Create, "nope"), 404, `namespaces "nope" not found`},
		{"missing, update", pod(celgate.Update, "nope"), 0, ""},
		{"missing, connect", exec, 0, ""},
		{"terminating", pod(celgate.Create, "leaving"), 403,
			`pods "web" is forbidden: unable to create new content in namespace leaving because it is being terminated`},
		{"terminating, update", pod(celgate.Update, "leaving"), 0, ""},
		{"immortal", gone, 403, `namespaces "default" is forbidden: this namespace may not be deleted`},
	} {
		p, err := engine.Prepare(t.Context(), c.request)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for phase, decide := range map[string]func() (*celgate.Decision, error){
			"admit":    func() (*celgate.Decision, error) { return engine.Admit(t.Context(), p) },
			"mutate":   func() (*celgate.Decision, error) { return engine.Mutate(t.Context(), p) },
			"validate": func() (*celgate.Decision, error) { return engine.Validate(t.Context(), p) },
		} {
			d, err := decide()
			switch {
			case err != nil:
				t.Errorf("%s, %s: %v", c.name, phase, err)
			case d.Allowed != (c.code == 0):
				t.Errorf("%s, %s: allowed is %v, status %v", c.name, phase, d.Allowed, d.Status)
			case c.code != 0 && (d.Status.Code != c.code || d.Status.Message != c.message):
				t.Errorf("%s, %s: %d %s", c.name, phase, d.Status.Code, d.Status.Message)
			}
		}
	}
}
