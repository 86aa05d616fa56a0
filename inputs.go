package celgate

import (
	"context"
	"maps"

	"github.com/google/cel-go/common/types/ref"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// inputs are a request and the values of it in expressions, which are made on demand.
type inputs struct {
	*Request
	ctx     context.Context
	types   *schema.Registry
	cluster Cluster
	form    eval.Form // of objects of built-in kinds in expressions
	minor   string    // of Kubernetes
	made    target
	indexed *indexEntry    // of the target of the request
	normal  prepare.Normal // of the object of the request, if mutating policies are evaluated

	objects    []*versioned
	requests   []*requestInput
	namespaces [2]namespaceInput // for declaredOnly and whole
	own        ownNamespace
	authorizer authorizerValues

	// The following are used by nearly every request, so they are allocated together.
	firstObject  versioned
	firstRequest requestInput
	oneObject    [1]*versioned
	oneRequest   [1]*requestInput
}

// begin initialises the inputs for a request to an engine.
func (r *inputs) begin(ctx context.Context, e *Engine, req *Request, known *indexEntry) {
	r.Request, r.ctx, r.types, r.cluster, r.form, r.minor = req, ctx, e.types, e.cluster, e.typed, e.minor
	r.made, r.indexed = req.target(), known
	r.namespaces[declaredOnly].declared = true
	r.authorizer = authorizerValues{ctx: ctx, request: req, cluster: e.cluster}
	r.objects, r.requests = r.oneObject[:0], r.oneRequest[:0]
}

// ownNamespace is the namespace of the request, read once.
type ownNamespace struct {
	asked  bool
	object map[string]any
	err    error
}

// requestInput is the request as matched through a resource and kind.
type requestInput struct {
	of       *inputs
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
	tree     map[string]any
	user     map[string]any
	value    ref.Val
}

// Resolve makes the value of the variable request.
func (i *requestInput) Resolve() ref.Val {
	if i.value == nil {
		i.value = eval.Value(i.buildRequest(), i.Form())
	}
	return i.value
}

func (i *requestInput) Form() eval.Form { return i.of.form }

// Member makes a member that policies often read alone, or else all of them.
func (i *requestInput) Member(name string) (any, bool) {
	r := i.of
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
	member, found := i.buildRequest()[name]
	return member, found
}

func (i *requestInput) buildRequest() map[string]any {
	if i.tree == nil {
		i.tree = i.of.requestTree(i.resource, i.kind, i.userInfo())
	}
	return i.tree
}

func (i *requestInput) userInfo() map[string]any {
	if i.user == nil {
		i.user = userTree(&i.of.UserInfo)
	}
	return i.user
}

// Forms of the namespace in expressions.
const (
	declaredOnly = iota // for validations: the declared members
	whole               // for mutations and audit annotations
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
			object = celenv.DeclaredNamespace(object)
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
	typ               *shape.Type // of a built-in kind
	form              eval.Form   // in validating policies and match conditions
	custom            bool        // a custom resource
	reflected         bool        // an expression of the mutating phase has read it by reflection
	dirty             bool        // a mutation ran

	normal prepare.Normal // of object

	values [2]shownValue // of object and oldObject
}

// A shownValue is an object as expressions of validating policies see it, made once.
type shownValue struct {
	tree  map[string]any
	value ref.Val
}

// namespace returns a namespace object, or the server's NotFound.
func (r *inputs) namespace(name string) (map[string]any, error) {
	if r.own.asked && name == r.Namespace {
		return r.own.object, r.own.err
	}
	namespace, err := r.cluster.Get(r.ctx, namespaceKind, "", name)
	if err != nil {
		return nil, err
	}
	if namespace == nil {
		return nil, apierrors.NewNotFound(apischema.GroupResource{Resource: "namespaces"}, name)
	}
	return namespace, nil
}

// requestNamespace returns the namespace object for expressions: nil for cluster-scoped requests and for Namespaces
// themselves.
func (r *inputs) requestNamespace() (map[string]any, error) {
	if r.own.asked {
		return r.own.object, r.own.err
	}
	if r.Namespace == "" || r.Kind == namespaceKind {
		return nil, nil
	}
	object, err := r.namespace(r.Namespace)
	if err != nil && apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(apischema.GroupResource{Resource: quirks.NamespacesResource(r.minor)}, r.Namespace)
	}
	r.own = ownNamespace{true, object, err}
	for i := range r.namespaces {
		r.namespaces[i].object, r.namespaces[i].form = object, r.form
	}
	return object, err
}

// convertTo returns the object and the old object in the version that a policy matched.
func (r *inputs) convertTo(kind schema.GroupVersionKind) (*versioned, error) {
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
	resource := r.indexed.resource
	if r.isConverted() {
		resource = r.types.Resource(r.Resource)
	}
	v.custom = resource != nil && resource.Definition != nil
	if !v.custom {
		v.typ, v.form = r.typeOf(kind), r.form
	}
	asRequested := kind == r.Kind
	for _, object := range []*map[string]any{&v.object, &v.oldObject} {
		if *object == nil {
			continue
		}
		if v.custom && (*object)["kind"] != r.Kind.Kind {
			// A mutation of the first pass has changed it; the server sets it again (as pkg/admission/conversion.go
			// v0.37.2).
			*object = maps.Clone(*object)
			(*object)["kind"] = r.Kind.Kind
		}
		if asRequested {
			continue
		}
		converted, err := r.types.Convert(*object, kind)
		if err != nil {
			return nil, err
		}
		*object = converted
	}
	if asRequested && r.normal.IsAbout(r.Object) {
		v.normal = r.normal
	}
	r.objects = append(r.objects, v)
	return v, nil
}

// typeOf returns the type of a kind, most often that of the request; nil if it is not known.
func (r *inputs) typeOf(kind schema.GroupVersionKind) *shape.Type {
	if kind == r.indexed.kind {
		return r.indexed.typ
	}
	return r.types.Type(kind)
}

// show returns one of the two objects as expressions of validating policies see it.
func (v *versioned) show(i int, current map[string]any) ref.Val {
	if shown := &v.values[i]; tree.IsSame(shown.tree, current) {
		return shown.value
	}
	v.values[i] = shownValue{tree: current}
	if current != nil {
		v.values[i].value = toForm(current, v.typ, v.form)
	}
	return v.values[i].value
}

// toForm presents an object of a built-in kind in a form.
func toForm(tree map[string]any, t *shape.Type, form eval.Form) ref.Val {
	if form == eval.Plain {
		return eval.Value(tree, form)
	}
	return eval.ToTyped(tree, t)
}

// fill sets the values for the expressions of one invocation of a validating policy.
func (r *inputs) fill(values *eval.Inputs, in *invocation, v *versioned) {
	values.Object, values.OldObject = v.show(0, v.object), v.show(1, v.oldObject)
	values.Params = r.paramValue(in)
	values.Request = r.request(in.resource, in.kind)
	values.Authorizer, values.RequestResource = userAuthorizer{&r.authorizer}, resourceAuthorizer{&r.authorizer}
}

// toPlain returns an object as the expressions of mutations see it; nil for null.
func toPlain(tree map[string]any) ref.Val {
	if tree == nil {
		return nil
	}
	return eval.Value(tree, eval.Plain)
}

// paramValue returns the value of a param. In validating policies built-in kinds have the apiVersion and kind of the
// policy's paramKind; in mutating policies they come from the server's caches: by reflection, without both.
func (r *inputs) paramValue(in *invocation) ref.Val {
	if in.param == nil {
		return nil
	}
	if !hasTypedInformer(in.hook.param) {
		return eval.Value(in.param, eval.Plain)
	}
	if in.hook.phase == policy.PhaseValidation && in.param["apiVersion"] == in.hook.ParamKind.APIVersion &&
		in.param["kind"] == in.hook.ParamKind.Kind {
		return eval.Value(in.param, eval.Plain)
	}
	param := make(map[string]any, len(in.param))
	for k, v := range in.param {
		param[k] = v
	}
	if in.hook.phase == policy.PhaseMutation {
		delete(param, "apiVersion")
		delete(param, "kind")
		return toForm(param, r.types.Type(in.hook.param.GroupVersionKind()), r.form)
	}
	param["apiVersion"], param["kind"] = in.hook.ParamKind.APIVersion, in.hook.ParamKind.Kind
	return eval.Value(param, eval.Plain)
}

// hasTypedInformer reports whether client-go has a typed informer for a kind: for all built-in kinds except those of
// the aggregated API servers inside kube-apiserver.
func hasTypedInformer(r *schema.Resource) bool {
	return r.Definition == nil && r.Group != "apiextensions.k8s.io" && r.Group != "apiregistration.k8s.io"
}

// request returns the request as matched through a resource and kind.
func (r *inputs) request(resource schema.GroupVersionResource, kind schema.GroupVersionKind) *requestInput {
	for _, i := range r.requests {
		if i.resource == resource && i.kind == kind {
			return i
		}
	}
	i := &r.firstRequest
	if len(r.requests) > 0 {
		i = new(requestInput)
	}
	*i = requestInput{of: r, resource: resource, kind: kind}
	r.requests = append(r.requests, i)
	return i
}

// requestTree returns the members of AdmissionRequest that the server sets, by its rules for empty ones.
func (r *inputs) requestTree(resource schema.GroupVersionResource, kind schema.GroupVersionKind,
	user map[string]any) map[string]any {
	madeKind, madeResource := kindTree(r.made.Kind), r.indexed.shown
	asKind, asResource := madeKind, madeResource
	if kind != r.made.Kind {
		asKind = kindTree(kind)
	}
	if resource != r.made.Resource {
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
		"options":         optionsValue(r.Options),
		"object":          nil,
		"oldObject":       nil,
	}
	setText(tree, "subResource", r.SubResource)
	setText(tree, "requestSubResource", r.made.SubResource)
	setText(tree, "name", r.Name)
	setText(tree, "namespace", r.Namespace)
	return tree
}

// requestType has the Go types of the structs in a requestTree.
var requestType = &shape.Type{Kind: shape.Struct, Name: "k8s.io/api/admission/v1.AdmissionRequest",
	Fields: []shape.Field{
		{Name: "kind", Type: kindType}, {Name: "requestKind", Type: kindType},
		{Name: "resource", Type: resourceType}, {Name: "requestResource", Type: resourceType},
		{Name: "userInfo", Type: &shape.Type{Kind: shape.Struct, Name: "k8s.io/api/authentication/v1.UserInfo"}},
	},
}

var (
	kindType     = &shape.Type{Kind: shape.Struct, Name: "k8s.io/apimachinery/pkg/apis/meta/v1.GroupVersionKind"}
	resourceType = &shape.Type{Kind: shape.Struct, Name: "k8s.io/apimachinery/pkg/apis/meta/v1.GroupVersionResource"}
)

// optionsValue returns the CEL value of options. The server holds them as raw JSON and presents them as a plain tree.
func optionsValue(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return eval.Value(tree, eval.Plain)
}
