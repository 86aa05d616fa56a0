// Package recipes sends every request in the suites of the recipes to a real kube-apiserver with their native forms in
// force: celgate must give the same answers, including texts and objects.
package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/corpus"
	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/patch/mergepatch"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

type object = map[string]any

// A request is a case, or a row of its table with the fields of the case that the row does not override.
type request struct {
	Name                         string
	Object, Patch, Old, OldPatch object
	Operation, Subresource, User string
	Groups                       []string
	State                        states
	Table                        []request
}

// requestOf reads a case, or a row.
func requestOf(of tree.Object) request {
	r := request{Name: of.Text("name"), Operation: of.Text("operation"), Subresource: of.Text("subresource"),
		User: of.Text("user"), State: statesOf(of["state"])}
	for member, to := range map[string]*object{"object": &r.Object, "patch": &r.Patch, "old": &r.Old,
		"oldPatch": &r.OldPatch} {
		*to, _ = of[member].(object)
	}
	for _, group := range of.List("groups") {
		r.Groups = append(r.Groups, fmt.Sprint(group))
	}
	for _, row := range of.List("table") {
		r.Table = append(r.Table, requestOf(row.(object)))
	}
	return r
}

// States are names of files and objects.
type states []any

// statesOf reads one or a list.
func statesOf(given any) states {
	switch given := given.(type) {
	case nil:
		return nil
	case []any:
		return given
	default:
		return states{given}
	}
}

// objects reads the objects of a state, whose files are in a folder.
func (s states) objects(folder string) (all []object, err error) {
	for _, item := range s {
		switch item := item.(type) {
		case string:
			text, err := os.ReadFile(filepath.Join(folder, item))
			if err != nil {
				return nil, err
			}
			read, err := conformance.Documents(text)
			if err != nil {
				return nil, err
			}
			all = append(all, read...)
		case object:
			all = append(all, item)
		}
	}
	return all, nil
}

// TestRecipes sends each request to the server and to the engine.
func TestRecipes(t *testing.T) {
	recorder, err := corpus.Start(t.Context(), celgate.Newest, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := recorder.Stop(); err != nil {
			t.Error(err)
		}
	})
	folders, err := filepath.Glob("../../recipes/*/suite.yaml")
	if err != nil || len(folders) == 0 {
		t.Fatal("no recipes: ", err)
	}
	asked := 0
	for _, file := range folders {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			cases, err := read(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cases {
				want, err := recorder.Record(t.Context(), c)
				if err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				got, err := conformance.Replay(t.Context(), c, celgate.Newest)
				if err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				if diff := conformance.Compare(want, got); diff != "" {
					t.Errorf("%s: -server +celgate\n%s", c.Name, diff)
				}
				asked++
			}
		})
	}
	t.Logf("%d requests of %d recipes", asked, len(folders))
}

// read makes cases of the suite in a folder.
func read(folder string) (all []*conformance.Case, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "suite.yaml"))
	if err != nil {
		return nil, err
	}
	suites, err := conformance.Documents(text)
	if err != nil {
		return nil, err
	}
	suite := tree.Object(suites[0])
	state, err := statesOf(suite["state"]).objects(folder)
	if err != nil {
		return nil, err
	}
	native, err := os.ReadFile(filepath.Join(folder, "native.yaml"))
	if err != nil {
		return nil, err
	}
	policies, err := conformance.Documents(native)
	if err != nil {
		return nil, err
	}
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		return nil, err
	}
	for _, member := range suite.List("cases") {
		of := requestOf(member.(object))
		rows := of.Table
		if len(rows) == 0 {
			rows = []request{{}}
		}
		for _, row := range rows {
			c, err := of.merge(row).asCase(folder, state, types)
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", of.Name, row.Name, err)
			}
			if c != nil {
				c.Policies = policies
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// merge returns a row of the table of a case.
func (r request) merge(row request) request {
	r.Name += "/" + row.Name
	if row.Old != nil {
		r.Old = row.Old
	}
	if row.User != "" {
		r.User, r.Groups = row.User, row.Groups
	}
	if row.Operation != "" {
		r.Operation = row.Operation
	}
	if row.Subresource != "" {
		r.Subresource = row.Subresource
	}
	if row.OldPatch != nil || r.OldPatch != nil {
		from := r.Old
		if from == nil {
			from = r.Object
		}
		r.Old = apply(apply(from, r.OldPatch), row.OldPatch)
	}
	r.Object = apply(apply(r.Object, r.Patch), row.Patch)
	r.State = append(r.State, row.State...)
	return r
}

func apply(to, patch object) object {
	if patch == nil || to == nil {
		return to
	}
	patched, _ := mergepatch.Apply(to, patch).(object)
	return patched
}

// asCase returns the request as a case of the corpus; nil for one that no server can be brought to.
func (r request) asCase(folder string, state []object, types *schema.Registry) (*conformance.Case, error) {
	c := &conformance.Case{Name: "recipes/" + r.Name, Object: r.Object, Old: r.Old}
	named := r.Object
	if r.Operation == "DELETE" {
		named, c.Object = r.Old, nil
	}
	of := tree.Object(named)
	to, sub, err := types.Target(of.Kind(), r.Subresource)
	if err != nil {
		return nil, err
	}
	c.Request = &conformance.Request{Operation: r.Operation, Resource: to.Resource, Subresource: sub,
		APIVersion: apischema.GroupVersion{Group: to.Group, Version: to.Version}.String(),
		Namespace:  of.Namespace(), Name: of.Name(), User: "dev", Groups: r.Groups, DryRun: true}
	switch {
	case r.Operation != "":
	case r.Old != nil:
		c.Request.Operation = "UPDATE"
	default:
		c.Request.Operation = "CREATE"
	}
	switch kind := of.Kind().Kind; {
	case kind == "Scale":
		c.Old = workload(of, r.Old)
	case r.Operation == "CONNECT":
		c.Old = object{"apiVersion": "v1", "kind": "Pod", "metadata": of["metadata"], "spec": object{
			"containers": []any{object{"name": "web", "image": "web"}}}}
		c.Object = apply(r.Object, object{"metadata": nil})
	case kind == "Pod" && len(tree.Object(r.Old).At("spec").List("ephemeralContainers")) > 0:
		return nil, nil // no Pod is created with ephemeral containers
	case kind == "PersistentVolumeClaim" && len(tree.Object(r.Old).At("status")) > 0:
		return nil, nil // a controller binds claims
	}
	extra, err := r.State.objects(folder)
	if err != nil {
		return nil, err
	}
	for _, o := range append(append([]object{}, state...), extra...) {
		c.State = replace(c.State, o)
	}
	if r.User != "" {
		c.Request.User = r.User
		c.State = append(c.State, object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
			"metadata": object{"name": "celgate-" + strings.ReplaceAll(r.User, ":", "-")},
			"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "celgate-everything"},
			"subjects": []any{object{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": r.User}}})
	}
	return c, nil
}

// replace adds an object to a state, in place of one of its kind and name.
func replace(state []object, o object) []object {
	for i, other := range state {
		if a, b := tree.Object(other), tree.Object(o); a.Kind() == b.Kind() && a.Name() == b.Name() &&
			a.Namespace() == b.Namespace() {
			state[i] = o
			return state
		}
	}
	return append(state, o)
}

// workload is the Deployment that a Scale is of.
func workload(of tree.Object, scale object) object {
	labels := object{"app": "web"}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": of["metadata"], "spec": object{
		"replicas": tree.Object(scale).At("spec")["replicas"],
		"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels},
			"spec": object{"containers": []any{object{"name": "web", "image": "web"}}}}}}
}
