package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	registry "github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// Rights are the permissions of the user dev of the cases on every server: all.
const Rights = `
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

// Replay answers a case with the engine of a minor, which gets the same request as the server.
func Replay(ctx context.Context, c *Case, minor string) (*Want, error) {
	c, err := c.AsOf(minor)
	if err != nil {
		return nil, err
	}
	w, err := worldOf(c, minor)
	if err != nil {
		return nil, err
	}
	got := &Want{}
	var engine *celgate.Engine
	if engine, got.Rejected, err = w.Engine(c.Policies, c.Stored...); err != nil || c.Request == nil {
		return got, err
	}
	_, err = w.Answer(ctx, engine, c, got)
	return got, err
}

// A World is the context of an engine: a Kubernetes minor, types, and existing objects.
type World struct {
	Minor   string
	Types   *registry.Registry
	Cluster celgate.Cluster
	Server  *celgate.Server // of a case about admission plugins; else nil
}

// worldOf returns the world of a case, on a minor.
func worldOf(c *Case, minor string) (*World, error) {
	w := &World{Minor: minor}
	if c.HasPlugins() {
		w.Server = &celgate.Server{Complete: true, Plugins: c.AddedPlugins()}
	}
	types, err := builtin.Registry(w.Minor)
	if err != nil {
		return nil, err
	}
	crds := manifest.Definitions(manifest.DocumentsOf(c.State))
	if types, err = types.WithCustomResources(manifest.Trees(crds)...); err != nil {
		return nil, err
	}
	var versions []string
	for _, object := range c.Policies {
		versions = append(versions, fmt.Sprint(object["apiVersion"]))
	}
	w.Types = Serve(types, versions...)
	objects, err := Documents([]byte(Rights))
	if err != nil {
		return nil, err
	}
	existing := slices.Clone(c.State)
	if c.Old != nil { // it exists in the cluster as well
		existing = append(existing, c.Old)
	}
	for _, object := range existing {
		kind := schema.FromAPIVersionAndKind(fmt.Sprint(object["apiVersion"]), fmt.Sprint(object["kind"]))
		stored, _, err := prepare.ReadStored(object, w.Types, kind)
		if err != nil {
			return nil, err
		}
		objects = append(objects, stored)
	}
	w.Cluster, err = state.New(w.Types, objects...)
	return w, err
}

// Serve returns types as the recorded server serves them, which is started with --runtime-config for group versions,
// those of policies, that are off by default.
func Serve(types *registry.Registry, versions ...string) *registry.Registry {
	var served []registry.Resource
	off := false
	for _, r := range types.Resources() {
		asked := slices.Contains(versions, r.GroupVersion().String())
		off = off || asked && r.OffByDefault
		if asked || !r.NotServed && !r.OffByDefault {
			served = append(served, *r)
		}
	}
	if !off {
		return types
	}
	return types.WithServed(served, nil)
}

// Engine compiles policies and bindings, in addition to the stored ones, and returns those that the server would refuse
// to store, in their order.
func (w *World) Engine(policies []map[string]any, stored ...map[string]any) (*celgate.Engine, []Rejection, error) {
	written, held := manifest.NewBundle(manifest.DocumentsOf(policies)...),
		manifest.NewBundle(manifest.DocumentsOf(stored)...)
	if err := held.Err(); err != nil {
		return nil, nil, err
	}
	held.Set.MarkStored()
	set := policy.Set{
		Policies: slices.Concat(written.Set.Policies, held.Set.Policies),
		Bindings: slices.Concat(written.Set.Bindings, held.Set.Bindings),

		Libraries: slices.Concat(written.Set.Libraries, held.Set.Libraries),
	}
	var rejected []Rejection
	for _, p := range written.Problems {
		var undecodable *policy.DecodeError
		if !errors.As(p.Err, &undecodable) {
			return nil, nil, p
		}
		ref := policy.RefOf(p.Document.Object)
		rejected = append(rejected, Rejection{
			Kind: ref.Kind, Name: ref.Name,
			Status: Strip(undecodable.Status()),
		})
	}
	engine, err := celgate.New(&set, celgate.Options{KubeVersion: w.Minor, Types: w.Types, Cluster: w.Cluster,
		Server: w.Server})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range engine.Rejections() {
		rejected = append(rejected, Rejection{Kind: r.Kind, Name: r.Name, Status: Strip(r.Status)})
	}
	order := func(r Rejection) int { // as they are written
		return slices.IndexFunc(policies, func(object map[string]any) bool {
			return policy.RefOf(object) == policy.Ref{Kind: r.Kind, Name: r.Name}
		})
	}
	slices.SortStableFunc(rejected, func(a, b Rejection) int { return order(a) - order(b) })
	return engine, rejected, nil
}

// Answer records the answer of the engine to the request of a case, whose old object must exist in the world. It
// returns the decision of the mutating phase, nil if the request did not reach it.
func (w *World) Answer(ctx context.Context, e *celgate.Engine, c *Case, got *Want) (*celgate.Decision, error) {
	request, err := w.prepare(ctx, e, c, got)
	if request == nil || err != nil {
		return nil, err
	}
	mutating, err := e.Mutate(ctx, request)
	if err != nil {
		return nil, err
	}
	decision, err := e.Admit(ctx, request)
	if err != nil {
		return nil, err
	}
	*got.Allowed = decision.Allowed
	got.Warnings = decision.WarningTexts()
	got.AuditAnnotations = decision.AuditAnnotations
	if !decision.Allowed {
		got.Status = Strip(decision.Status)
		return mutating, nil
	}
	got.Object = Settle(decision.Object)
	got.Mutated = Differs(Settle(mutating.Object), got.Object)
	return mutating, nil
}

// prepare returns the request of a case in the form that admission sees. If it returns nil, the server refuses the case
// before admission, and got contains that answer.
func (w *World) prepare(ctx context.Context, e *celgate.Engine, c *Case, got *Want) (*celgate.Prepared, error) {
	r, err := w.request(ctx, c)
	if err != nil {
		return nil, err
	}
	allowed := true
	got.Allowed = &allowed
	request, err := e.Prepare(ctx, r)
	var refused *apierrors.StatusError
	if errors.As(err, &refused) {
		allowed, got.Status = false, Strip(&refused.ErrStatus)
		return nil, nil
	}
	return request, err
}

// request returns the request of a case, with the stored form of the object, including the registry's fields.
func (w *World) request(ctx context.Context, c *Case) (*celgate.Request, error) {
	r := c.Request
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return nil, err
	}
	request := &celgate.Request{
		Resource:    gv.WithResource(r.Resource),
		SubResource: r.Subresource,
		Name:        r.Name,
		Namespace:   r.Namespace,
		Operation:   celgate.Operation(r.Operation),
		DryRun:      r.DryRun,
		Object:      c.Object,
		UserInfo: celgate.UserInfo{
			Username: r.User, UID: r.UID, Groups: append(slices.Clone(r.Groups), "system:authenticated"),
			Extra: r.Extra,
		},
	}
	if r.Operation == "DELETE" {
		request.Object, request.Options = nil, maps.Clone(c.Object)
	}
	var known bool
	if request.Kind, known = w.Types.KindFor(request.Resource, r.Subresource); !known {
		return nil, fmt.Errorf("no kind for %s/%s", request.Resource, r.Subresource)
	}
	if gv.Group == "" && r.Resource == "namespaces" {
		request.Namespace = r.Name
	}
	if r.Operation != "CONNECT" {
		if request.Options == nil {
			request.Options = map[string]any{}
		}
		request.Options["apiVersion"] = "meta.k8s.io/v1"
		request.Options["kind"] = map[string]string{"CREATE": "CreateOptions", "UPDATE": "UpdateOptions",
			"DELETE": "DeleteOptions"}[r.Operation]
		if r.DryRun {
			request.Options["dryRun"] = []any{"All"}
		}
		if r.FieldValidation != "" && r.Operation != "DELETE" {
			request.Options["fieldValidation"] = r.FieldValidation
		}
		if r.Apply != "" {
			request.Options["kind"], request.Options["fieldManager"] = "PatchOptions", r.Apply
		}
	}
	if c.Old == nil || r.Operation != "UPDATE" && r.Operation != "DELETE" {
		return request, nil
	}
	if request.OldObject = c.Old; r.Collection {
		return request, nil
	}
	old := gv.WithKind(fmt.Sprint(c.Old["kind"]))
	if request.OldObject, err = w.Cluster.Get(ctx, old, r.Namespace, r.Name); err != nil {
		return nil, err
	}
	if c.Old["kind"] != request.Kind.Kind { // a Scale is made from its parent
		request.OldObject, err = prepare.Scale(request.OldObject, w.Types.Resource(request.Resource))
	}
	return request, err
}
