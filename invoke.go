package celgate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/common/types/ref"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// An invocation is one policy with one binding and one param, all of which are for the request.
type invocation struct {
	hook     *hook
	binding  *binding
	param    map[string]any // nil: no param
	idle     bool           // paramRef selects nothing and that is allowed: nothing to evaluate
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

// A configurationError is an error before any expression ran.
type configurationError struct {
	hook    *hook
	binding *binding // nil: the policy's
	err     error
}

func (e *configurationError) Error() string {
	if e.binding == nil {
		return "failed to configure policy: " + e.err.Error()
	}
	return "failed to configure binding: " + e.err.Error()
}

// invocations yields what is to run for the request: policies by name, their bindings by name, their params by
// namespace and name. An error stands in place of a policy or binding that cannot run; a policy or binding
// that is not for the request yields nothing.
//
// As generic/policy_dispatcher.go and validating/dispatcher.go v0.37.2: match the policy, then its
// configuration, then for each binding match, params.
func (r *review) invocations(kind policy.Kind) iter.Seq2[invocation, *configurationError] {
	return func(yield func(invocation, *configurationError) bool) {
		for _, h := range r.candidates(kind) {
			m, err := h.criteria.Match(&r.attributes, r.world)
			if err == nil && m.Matched {
				err = h.err
			}
			r.tellMatch(h, nil, m, err)
			if err == nil && !m.Matched {
				continue
			}
			if err != nil {
				if !yield(invocation{}, &configurationError{h, nil, err}) {
					return
				}
				continue
			}
			for _, b := range h.bindings {
				if !r.bindingInvocations(h, b, m, yield) {
					return
				}
			}
		}
	}
}

// expressions is how many outcomes one invocation may have.
func (h *hook) expressions() int {
	return len(h.MatchConditions) + len(h.Validations) + len(h.Mutations)
}

// candidates are the policies that may be for the request; a tracer is told about all others too.
func (r *review) candidates(kind policy.Kind) []*hook {
	if !r.tells() {
		return r.known.of(kind).hooks
	}
	var all []*hook
	for _, h := range r.engine.index.hooks {
		if h.Kind == kind {
			all = append(all, h)
		}
	}
	return all
}

func (r *review) bindingInvocations(h *hook, b *binding, m match.Result, yield func(invocation, *configurationError) bool) bool {
	bm, err := b.criteria.Match(&r.attributes, r.world)
	r.tellMatch(h, b, bm, err)
	if err == nil && !bm.Matched {
		return true
	}
	var params []map[string]any
	if err == nil {
		if params, err = r.params(h, b); len(params) == 0 {
			r.tellParams(h, b, err)
		}
	}
	if err != nil {
		return yield(invocation{}, &configurationError{h, b, err})
	}
	in := invocation{hook: h, binding: b, resource: m.Resource, kind: m.Kind}
	if len(params) == 0 {
		in.idle = true
		r.noteNoParams(h, b)
		return yield(in, nil)
	}
	if kind := r.known.of(h.Kind); len(params) > 1 { // the guess was one param for each binding
		r.decision.Outcomes = slices.Grow(r.decision.Outcomes, kind.outcomes+(len(params)-1)*h.expressions())
	}
	for _, in.param = range params {
		if !yield(in, nil) {
			return false
		}
	}
	return true
}

// noteNoParams notes that a binding lets a request pass because there is no param.
func (r *review) noteNoParams(h *hook, b *binding) {
	n := Note{Message: fmt.Sprintf("binding %q of policy %q finds no param (%s): by parameterNotFoundAction Allow it does nothing",
		b.Name, h.Name, r.wantedParams(h, b))}
	if !slices.Contains(r.decision.Notes, n) {
		r.decision.Notes = append(r.decision.Notes, n)
	}
}

// params returns what one binding evaluates with: one nil for a policy or binding without params, else the
// objects that paramRef selects (as generic/policy_dispatcher.go v0.37.2, CollectParams).
func (r *review) params(h *hook, b *binding) ([]map[string]any, error) {
	from := b.ParamRef
	if h.ParamKind == nil || from == nil {
		return withoutParam, nil
	}
	namespace := from.Namespace
	switch {
	case !h.param.Namespaced && namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case h.param.Namespaced && namespace == "":
		if namespace = r.Namespace; namespace == "" {
			return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
		}
	}
	kind := h.param.GroupVersion().WithKind(h.param.Kind)
	var params []map[string]any
	if from.Name != "" {
		param, err := r.engine.cluster.Get(r.ctx, kind, namespace, from.Name)
		if err != nil {
			return nil, err
		}
		if param != nil {
			params = append(params, h.held(param))
		}
	} else {
		all, err := r.engine.cluster.List(r.ctx, kind, namespace)
		if err != nil {
			return nil, err
		}
		for _, param := range all {
			if b.selector.Matches(match.Labels(param)) {
				params = append(params, h.held(param))
			}
		}
	}
	if len(params) == 0 && from.NotFoundAction == policy.NotFoundDeny {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return params, nil
}

// held returns a param as the server's informers hold it: those of built-in kinds drop managedFields.
func (h *hook) held(param map[string]any) map[string]any {
	metadata, _ := param["metadata"].(map[string]any)
	if h.param.Custom != nil || metadata["managedFields"] == nil {
		return param
	}
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	param = maps.Clone(param)
	param["metadata"] = metadata
	return param
}

var withoutParam = []map[string]any{nil}

// paramName is the name of a param in messages and outcomes.
func paramName(param map[string]any) string {
	metadata, _ := param["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// A review is one request on its way through the engine.
type review struct {
	*Request
	ctx        context.Context
	engine     *Engine
	known      *indexEntry
	attributes match.Attributes
	world      match.World
	lookUp     func(name string) (map[string]any, error) // the method namespace, which is made a value once
	decision   *Decision
	second     bool   // pass of the mutating policies
	evaluating string // the name of a policy

	sharesLabels bool // see prepare.Result; of the object that the mutating policies leave

	objects    []*versioned
	requests   []*requestInput
	namespaces [2]namespaceInput // by declaredOnly and whole
	own        ownNamespace
	authorizer authorizerValues
	validator  eval.Validator
	meter      bound.Meter

	// What nearly every review has is in its memory.
	firstObject  versioned
	firstRequest requestInput
	oneObject    [1]*versioned
	oneRequest   [1]*requestInput
}

// ownNamespace is the namespace that the request is in, asked for once.
type ownNamespace struct {
	asked  bool
	object map[string]any
	err    error
}

// requestInput is the request as matched through a resource and kind.
type requestInput struct {
	review   *review
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
	tree     map[string]any
	user     map[string]any
	value    ref.Val
}

// Resolve makes the value of the variable request.
func (i *requestInput) Resolve() ref.Val {
	if i.value == nil {
		i.value = eval.Value(i.whole(), i.Form())
	}
	return i.value
}

func (i *requestInput) Form() eval.Form { return i.review.engine.typed }

// Member makes a member that policies often ask for alone, else all of them.
func (i *requestInput) Member(name string) (any, bool) {
	r := i.review
	switch name {
	case "operation":
		return string(r.Operation), true
	case "name":
		return r.Name, r.Name != ""
	case "namespace":
		return r.Namespace, r.Namespace != ""
	case "userInfo":
		return i.userInfo(), true
	}
	member, found := i.whole()[name]
	return member, found
}

func (i *requestInput) whole() map[string]any {
	if i.tree == nil {
		i.tree = i.review.requestTree(i.resource, i.kind, i.userInfo())
	}
	return i.tree
}

func (i *requestInput) userInfo() map[string]any {
	if i.user == nil {
		i.user = i.review.UserInfo.tree()
	}
	return i.user
}

// What expressions see of the namespace.
const (
	declaredOnly = iota // validations: the declared members
	whole               // mutations and audit annotations
)

// namespaceInput is the namespace of the request.
type namespaceInput struct {
	object   map[string]any
	declared bool
	form     eval.Form
	value    ref.Val
}

// Resolve makes the value of the variable namespaceObject.
func (i *namespaceInput) Resolve() ref.Val {
	if i.value == nil && i.object != nil {
		object := i.object
		if i.declared {
			object = declaredNamespace(object)
		} else {
			// The server takes it from a cache whose objects have neither apiVersion nor kind.
			object = maps.Clone(object)
			delete(object, "apiVersion")
			delete(object, "kind")
		}
		i.value = eval.Value(object, i.form)
	}
	return i.value
}

// versioned is the object of the request in one version.
type versioned struct {
	kind              schema.GroupVersionKind
	object, oldObject map[string]any
	typ               *schema.Type // of a built-in kind
	form              eval.Form    // in which validating policies and match conditions see it
	custom            bool         // a custom resource
	reflected         bool         // an expression of the mutating phase has seen it by reflection
	dirty             bool         // a mutation ran

	normal prepare.Normal // what is known about object
}

// allowed is the decision about a request before any policy said something.
func allowed(req *Request) *Decision { return &Decision{Allowed: true, Object: req.Object} }

func newReview(ctx context.Context, e *Engine, req *Request) *review {
	return e.review(ctx, req, e.index.entry(req))
}

func (e *Engine) review(ctx context.Context, req *Request, known *indexEntry) *review {
	r := reviews.Get().(*review)
	r.Request, r.ctx, r.engine, r.known, r.decision, r.sharesLabels = req, ctx, e, known, allowed(req), req.sharesLabels
	made := req.made()
	r.attributes = match.Attributes{
		Kind: made.Kind, Resource: made.Resource, SubResource: made.SubResource,
		Namespace: req.Namespace, Name: req.Name, Operation: string(req.Operation),
		Object: req.Object, OldObject: req.OldObject,
	}
	r.meter = e.limits.meter()
	r.meter.Done = ctx.Done()
	r.world = match.World{Types: e.types, Namespace: r.lookUp}
	r.namespaces[declaredOnly].declared = true
	r.authorizer.review = r
	r.objects, r.requests = r.oneObject[:0], r.oneRequest[:0]
	return r
}

// reviews are those that nothing refers to any more.
var reviews = sync.Pool{New: func() any {
	r := new(review)
	r.lookUp = r.namespace
	return r
}}

// release gives the memory of the review to another one. A tracer may have kept values of expressions.
func (r *review) release() {
	r.meter.End()
	if r.tells() {
		return
	}
	r.validator.Release()
	*r = review{validator: r.validator, lookUp: r.lookUp}
	reviews.Put(r)
}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// namespace returns a namespace object, or the server's NotFound.
func (r *review) namespace(name string) (map[string]any, error) {
	if r.own.asked && name == r.Namespace {
		return r.own.object, r.own.err
	}
	namespace, err := r.engine.cluster.Get(r.ctx, namespaceKind, "", name)
	if err != nil {
		return nil, err
	}
	if namespace == nil {
		return nil, apierrors.NewNotFound(apischema.GroupResource{Resource: "namespaces"}, name)
	}
	return namespace, nil
}

// requestNamespace returns the namespace object that expressions see: none for cluster-scoped requests and for
// Namespaces themselves.
func (r *review) requestNamespace() (map[string]any, error) {
	if r.Namespace == "" || r.Kind == namespaceKind {
		return nil, nil
	}
	if !r.own.asked {
		object, err := r.namespace(r.Namespace)
		r.own = ownNamespace{true, object, err}
		for i := range r.namespaces {
			r.namespaces[i].object, r.namespaces[i].form = object, r.engine.typed
		}
	}
	return r.own.object, r.own.err
}

// versioned returns the object and old object in the version that a policy matched.
func (r *review) versioned(kind schema.GroupVersionKind) (*versioned, error) {
	for _, v := range r.objects {
		if v.kind == kind {
			return v, nil
		}
	}
	v := &r.firstObject
	if len(r.objects) > 0 {
		v = new(versioned)
	}
	*v = versioned{kind: kind, object: r.Object, oldObject: r.OldObject}
	resource := r.known.resource
	if r.Made != nil {
		resource = r.engine.types.Resource(r.Resource)
	}
	v.custom = resource != nil && resource.Custom != nil
	if !v.custom {
		v.typ, v.form = r.engine.types.Type(kind), r.engine.typed
	}
	for _, object := range []*map[string]any{&v.object, &v.oldObject} {
		if *object == nil {
			continue
		}
		if v.custom && (*object)["kind"] != r.Kind.Kind {
			// A mutation of the first pass has changed it; the server sets it again (as pkg/admission/conversion.go v0.37.2).
			*object = maps.Clone(*object)
			(*object)["kind"] = r.Kind.Kind
		}
		if kind == r.Kind {
			continue
		}
		converted, err := r.engine.types.Convert(*object, kind)
		if err != nil {
			return nil, err
		}
		*object = converted
	}
	if kind == r.Kind && r.normal.Of(r.Object) {
		v.normal = r.normal
	}
	r.objects = append(r.objects, v)
	return v, nil
}

// shown is an object as expressions of validating policies see it.
func (v *versioned) shown(tree map[string]any) ref.Val {
	if tree == nil {
		return nil
	}
	return typed(tree, v.typ, v.form)
}

// typed is an object of a built-in kind in a form.
func typed(tree map[string]any, t *schema.Type, form eval.Form) ref.Val {
	if form == eval.Plain {
		return eval.Value(tree, form)
	}
	return eval.Typed(tree, t)
}

// inputs are the values for the expressions of one invocation of a validating policy.
func (r *review) inputs(in *invocation, v *versioned) eval.Inputs {
	r.evaluating = in.hook.Name
	return eval.Inputs{
		Object:          v.shown(v.object),
		OldObject:       v.shown(v.oldObject),
		Params:          r.paramValue(in),
		Request:         r.request(in.resource, in.kind),
		Authorizer:      userAuthorizer{&r.authorizer},
		RequestResource: resourceAuthorizer{&r.authorizer},
		Loops:           r,
		Meter:           &r.meter,
	}
}

// Looped notes that an expression loops for long.
func (r *review) Looped(uint64) {
	if r.engine.quirks.Has(quirks.SlowLoop) {
		r.decision.note(quirks.SlowLoop, r.evaluating)
	}
}

// plain is an object as the expressions of mutations see it, nil for none.
func plain(tree map[string]any) ref.Val {
	if tree == nil {
		return nil
	}
	return eval.Value(tree, eval.Plain)
}

// paramValue shows a param. Validating policies see built-in kinds with apiVersion and kind of the policy's
// paramKind; mutating policies see them as they come from the server's caches: by reflection, without both.
func (r *review) paramValue(in *invocation) ref.Val {
	if in.param == nil {
		return nil
	}
	if !hasTypedInformer(in.hook.param) {
		return eval.Value(in.param, eval.Plain)
	}
	if in.hook.Kind == policy.Validating && in.param["apiVersion"] == in.hook.ParamKind.APIVersion && in.param["kind"] == in.hook.ParamKind.Kind {
		return eval.Value(in.param, eval.Plain)
	}
	param := make(map[string]any, len(in.param))
	for k, v := range in.param {
		param[k] = v
	}
	if in.hook.Kind == policy.Mutating {
		delete(param, "apiVersion")
		delete(param, "kind")
		return typed(param, r.engine.types.Type(in.hook.param.GroupVersionKind()), r.engine.typed)
	}
	param["apiVersion"], param["kind"] = in.hook.ParamKind.APIVersion, in.hook.ParamKind.Kind
	return eval.Value(param, eval.Plain)
}

// hasTypedInformer reports whether client-go has a typed informer for a kind: it has for all built-in kinds
// but those of the aggregated API servers that live in kube-apiserver.
func hasTypedInformer(r *schema.Resource) bool {
	return r.Custom == nil && r.Group != "apiextensions.k8s.io" && r.Group != "apiregistration.k8s.io"
}

// request shows the request as matched through a resource and kind.
func (r *review) request(resource schema.GroupVersionResource, kind schema.GroupVersionKind) *requestInput {
	for _, i := range r.requests {
		if i.resource == resource && i.kind == kind {
			return i
		}
	}
	i := &r.firstRequest
	if len(r.requests) > 0 {
		i = new(requestInput)
	}
	*i = requestInput{review: r, resource: resource, kind: kind}
	r.requests = append(r.requests, i)
	return i
}

// tree has the members that the server sets, by its rules for empty ones.
func (u *UserInfo) tree() map[string]any {
	user := map[string]any{}
	if len(u.Groups) > 0 {
		groups := make([]any, len(u.Groups))
		for i, g := range u.Groups {
			groups[i] = g
		}
		user["groups"] = groups
	}
	if len(u.Extra) > 0 {
		extra := make(map[string]any, len(u.Extra))
		for k, values := range u.Extra {
			list := make([]any, len(values))
			for i, v := range values {
				list[i] = v
			}
			extra[k] = list
		}
		user["extra"] = extra
	}
	setText(user, "username", u.Username)
	setText(user, "uid", u.UID)
	return user
}

// requestTree has the members of AdmissionRequest that the server sets, by its rules for empty ones.
func (r *review) requestTree(resource schema.GroupVersionResource, kind schema.GroupVersionKind, user map[string]any) map[string]any {
	madeKind, madeResource := kindTree(r.attributes.Kind), r.known.shown
	asKind, asResource := madeKind, madeResource
	if kind != r.attributes.Kind {
		asKind = kindTree(kind)
	}
	if resource != r.attributes.Resource {
		asResource = resourceTree(resource)
	}
	tree := map[string]any{
		"uid":             "",
		"kind":            asKind,
		"resource":        asResource,
		"requestKind":     madeKind,
		"requestResource": madeResource,
		"operation":       string(r.Operation),
		"userInfo":        user,
		"dryRun":          r.DryRun,
		"options":         options(r.Options),
		"object":          nil,
		"oldObject":       nil,
	}
	setText(tree, "subResource", r.SubResource)
	setText(tree, "requestSubResource", r.attributes.SubResource)
	setText(tree, "name", r.Name)
	setText(tree, "namespace", r.Namespace)
	return tree
}

// requestType has the Go types of the structs that requestTree makes.
var requestType = &schema.Type{Kind: schema.Struct, Name: "k8s.io/api/admission/v1.AdmissionRequest", Fields: []schema.Field{
	{Name: "kind", Type: kindType}, {Name: "requestKind", Type: kindType},
	{Name: "resource", Type: resourceType}, {Name: "requestResource", Type: resourceType},
	{Name: "userInfo", Type: &schema.Type{Kind: schema.Struct, Name: "k8s.io/api/authentication/v1.UserInfo"}},
}}

var (
	kindType     = &schema.Type{Kind: schema.Struct, Name: "k8s.io/apimachinery/pkg/apis/meta/v1.GroupVersionKind"}
	resourceType = &schema.Type{Kind: schema.Struct, Name: "k8s.io/apimachinery/pkg/apis/meta/v1.GroupVersionResource"}
)

// options are held as raw JSON, which the server shows as a plain tree.
func options(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return eval.Value(tree, eval.Plain)
}

func setText(tree map[string]any, member, text string) {
	if text != "" {
		tree[member] = text
	}
}

func kindTree(k schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceTree(r schema.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}

func parseGroupVersion(s string) (schema.GroupVersion, error) {
	gv, err := apischema.ParseGroupVersion(s)
	if err != nil {
		return gv, fmt.Errorf("paramKind: %w", err)
	}
	return gv, nil
}
