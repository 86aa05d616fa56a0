package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/prepare"
	registry "github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// known holds the cases in which the engine differs from the server, and why. A case that agrees again must leave.
var known = map[string]string{}

var short = flag.Bool("names", false, "print only the names of the cases that differ")

// TestReplay answers every case with the engine and compares with what the server said.
func TestReplay(t *testing.T) {
	cases, err := Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if c.Want == nil {
				t.Fatal("not recorded")
			}
			got, err := replay(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			diff := Compare(c.Want, got)
			switch why := known[c.Name]; {
			case why != "" && diff == "":
				t.Errorf("agrees now, but is known to differ: %s", why)
			case why != "":
				t.Skip(why)
			case diff != "" && *short:
				t.Fail()
			case diff != "":
				t.Errorf("%s\n- recorded + engine\n%s", c.Idea, diff)
			}
		})
	}
}

// TestCorpus checks the corpus itself.
func TestCorpus(t *testing.T) {
	cases, err := Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range Check(cases) {
		t.Error(problem)
	}
	for _, c := range cases {
		content, err := c.Format(c.Want)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		file, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(c.Name)+".txtar"))
		if err != nil || string(content) != string(file) {
			t.Errorf("%s: not written by the recorder (%v)", c.Name, err)
		}
	}
}

// dev is what the recorder grants to the user dev.
const dev = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: celgate-everything}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
- {nonResourceURLs: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: celgate-dev}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: celgate-everything}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: dev}
`

// replay answers a case with the engine.
func replay(ctx context.Context, c *Case) (*Want, error) {
	got := &Want{}
	engine, err := engineOf(c, got)
	if err != nil || c.Request == nil {
		return got, err
	}
	request, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	request.Types = engine.types
	if old := request.OldObject; old != nil { // as it is stored, with what the registry gave it
		kind := schema.FromAPIVersionAndKind(fmt.Sprint(old["apiVersion"]), fmt.Sprint(old["kind"]))
		if request.OldObject, err = engine.cluster.Get(ctx, kind, c.Request.Namespace, c.Request.Name); err != nil {
			return nil, err
		}
		if c.Request.Collection {
			request.OldObject = old
		}
	}
	return got, request.ask(ctx, engine.Engine, got)
}

// An engine decides in the world of a case.
type engine struct {
	*celgate.Engine
	types   *registry.Registry
	cluster celgate.Cluster
}

// engineOf compiles the policies of a case and notes those that are rejected.
func engineOf(c *Case, got *Want) (*engine, error) {
	types, err := builtin.Registry(c.Want.Minors[0])
	if err != nil {
		return nil, err
	}
	var crds []map[string]any
	for _, object := range c.State {
		if object["kind"] == "CustomResourceDefinition" {
			crds = append(crds, object)
		}
	}
	if types, err = types.WithCustomResources(crds...); err != nil {
		return nil, err
	}
	objects, err := Documents([]byte(dev))
	if err != nil {
		return nil, err
	}
	for _, object := range c.State {
		kind := schema.FromAPIVersionAndKind(fmt.Sprint(object["apiVersion"]), fmt.Sprint(object["kind"]))
		stored, _, err := prepare.Stored(object, types, kind)
		if err != nil {
			return nil, err
		}
		objects = append(objects, stored)
	}
	if c.Old != nil { // it exists in the cluster as well
		kind := schema.FromAPIVersionAndKind(fmt.Sprint(c.Old["apiVersion"]), fmt.Sprint(c.Old["kind"]))
		stored, _, err := prepare.Stored(c.Old, types, kind)
		if err != nil {
			return nil, err
		}
		objects = append(objects, stored)
	}
	cluster, err := state.New(types, objects...)
	if err != nil {
		return nil, err
	}
	var set policy.Set
	for _, object := range c.Policies {
		p, b, err := policy.FromObject(object, nil)
		var undecodable *policy.DecodeError
		switch {
		case errors.As(err, &undecodable):
			metadata, _ := object["metadata"].(map[string]any)
			got.Rejected = append(got.Rejected, Rejection{
				Kind: fmt.Sprint(object["kind"]), Name: fmt.Sprint(metadata["name"]), Status: Bare(undecodable.Status()),
			})
		case err != nil:
			return nil, err
		case p != nil:
			set.Policies = append(set.Policies, p)
		default:
			set.Bindings = append(set.Bindings, b)
		}
	}
	e, err := celgate.New(&set, celgate.Options{KubeVersion: c.Want.Minors[0], Types: types, Cluster: cluster})
	if err != nil {
		return nil, err
	}
	for _, r := range e.Rejected() {
		got.Rejected = append(got.Rejected, Rejection{Kind: r.Kind, Name: r.Name, Status: Bare(r.Status)})
	}
	order := func(r Rejection) int { // as they are written
		return slices.IndexFunc(c.Policies, func(object map[string]any) bool {
			metadata, _ := object["metadata"].(map[string]any)
			return object["kind"] == r.Kind && metadata["name"] == r.Name
		})
	}
	slices.SortStableFunc(got.Rejected, func(a, b Rejection) int { return order(a) - order(b) })
	return &engine{e, types, cluster}, nil
}

// An asked request is that of a case.
type asked struct {
	celgate.Request
	Types *registry.Registry
}

func requestOf(c *Case) (*asked, error) {
	r := c.Request
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return nil, err
	}
	request := &asked{Request: celgate.Request{
		Resource:    gv.WithResource(r.Resource),
		SubResource: r.Subresource,
		Name:        r.Name,
		Namespace:   r.Namespace,
		Operation:   celgate.Operation(r.Operation),
		DryRun:      r.DryRun,
		Object:      c.Object,
		UserInfo: celgate.UserInfo{
			Username: r.User, UID: r.UID, Groups: append(slices.Clone(r.Groups), "system:authenticated"), Extra: r.Extra,
		},
	}}
	if r.Operation == "UPDATE" || r.Operation == "DELETE" {
		request.OldObject = c.Old
	}
	if gv.Group == "" && r.Resource == "namespaces" {
		request.Namespace = r.Name
	}
	if r.Operation != "CONNECT" {
		request.Options = map[string]any{
			"apiVersion": "meta.k8s.io/v1",
			"kind":       map[string]string{"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}[r.Operation],
		}
		if r.DryRun {
			request.Options["dryRun"] = []any{"All"}
		}
		if r.FieldValidation != "" && r.Operation != "DELETE" {
			request.Options["fieldValidation"] = r.FieldValidation
		}
	}
	return request, nil
}

// ask takes a request through the engine.
func (r *asked) ask(ctx context.Context, e *celgate.Engine, got *Want) error {
	kind, ok := r.Types.KindFor(r.Resource, r.SubResource)
	if !ok {
		return fmt.Errorf("no kind for %s/%s", r.Resource, r.SubResource)
	}
	r.Kind = kind
	if r.OldObject != nil && r.OldObject["kind"] != kind.Kind { // a Scale is made from its parent
		scale, err := prepare.Scale(r.OldObject, r.Types.Resource(r.Resource))
		if err != nil {
			return err
		}
		r.OldObject = scale
	}
	allowed := true
	got.Allowed = &allowed
	request, warnings, err := e.Prepare(&r.Request)
	var refused *apierrors.StatusError
	if errors.As(err, &refused) {
		allowed, got.Status = false, Bare(&refused.ErrStatus)
		return nil
	} else if err != nil {
		return err
	}
	mutated, err := e.Mutate(ctx, request)
	if err != nil {
		return err
	}
	decision, err := e.Admit(ctx, request)
	if err != nil {
		return err
	}
	allowed = decision.Allowed
	got.Warnings = slices.Concat(warnings, decision.Warnings)
	got.AuditAnnotations = decision.AuditAnnotations
	if !allowed {
		got.Status = Bare(decision.Status)
		return nil
	}
	got.Object = Settle(decision.Object)
	if object := Settle(mutated.Object); !reflect.DeepEqual(object, got.Object) {
		got.Mutated = object
	}
	return nil
}
