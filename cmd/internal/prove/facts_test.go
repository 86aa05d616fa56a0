package prove

import (
	"context"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/storable"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// TestRegistered asks the registry about objects without one of the members that it is said to require, and with an
// empty one.
func TestRegistered(t *testing.T) {
	r := room(t)
	engine, err := celgate.New(&policy.Set{}, celgate.Options{KubeVersion: r.KubeVersion, Types: r.Types})
	if err != nil {
		t.Fatal(err)
	}
	isStored := func(object map[string]any) bool {
		request, err := engine.RequestFor(context.Background(), object, celgate.As{})
		if err != nil {
			return false
		}
		d, err := engine.Admit(context.Background(), request)
		return err == nil && d.Allowed
	}
	tested := map[string]int{}
	for _, kind := range []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"},
		{Version: "v1", Kind: "PersistentVolumeClaim"}, {Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "apps", Version: "v1", Kind: "DaemonSet"},
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "batch", Version: "v1", Kind: "CronJob"}} {
		made := func() map[string]any {
			object := map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
				"metadata": map[string]any{"name": "a", "namespace": "default"}}
			storable.Complete(object, kind)
			if kind.Kind == "Pod" {
				spec, _ := object["spec"].(map[string]any)
				spec["initContainers"] = []any{map[string]any{"name": "i", "image": "a"}}
			}
			return object
		}
		if !isStored(made()) {
			t.Errorf("%s: is not stored", kind.Kind)
		}
		n := newMachine(map[string]int{}, map[string][]string{}).newNode("object", "object", r.Types.Type(kind), true)
		eachMember(made(), n, func(path []any, of *node, name string) {
			if !of.m.isRegistered(of.typ, name) {
				return
			}
			tested[of.typ.Name+"."+name]++
			for _, empty := range []any{nil, "", []any{}, map[string]any{}} {
				object := made()
				holder, _ := at(object, path).(map[string]any)
				if holder[name] = empty; empty == nil {
					delete(holder, name)
				}
				if isStored(object) {
					t.Errorf("%s: is stored with %v at %v %s", kind.Kind, empty, path, name)
				}
			}
		})
	}
	for _, fact := range storable.Facts() {
		if fact.Rule == storable.Required && tested[fact.Type+"."+fact.Member] == 0 {
			t.Errorf("%s is not tested", fact)
		}
	}
}

// eachMember visits the members of an object with the nodes of their structs.
func eachMember(v any, n *node, visit func(path []any, of *node, name string)) {
	var walk func(v any, n *node, path []any)
	walk = func(v any, n *node, path []any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				if p := n.member(name); p != nil {
					visit(path, n, name)
					walk(inner, p.node, append(path[:len(path):len(path)], name))
				}
			}
		case []any:
			for i, inner := range v {
				walk(inner, n.m.newNode("", "", n.typ.Elem, true), append(path[:len(path):len(path)], i))
			}
		}
	}
	walk(v, n, nil)
}

// at returns the value at a path.
func at(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			v = v.(map[string]any)[step]
		case int:
			v = v.([]any)[step]
		}
	}
	return v
}
