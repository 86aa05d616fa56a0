package differ

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	_ "unsafe" // the plugins' compilers are linked by name

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	mutating "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	validating "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema"
)

//go:linkname compileValidating k8s.io/apiserver/pkg/admission/plugin/policy/validating.compilePolicy
func compileValidating(*admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator

//go:linkname compileMutating k8s.io/apiserver/pkg/admission/plugin/policy/mutating.compilePolicy
func compileMutating(*admissionregistrationv1.MutatingAdmissionPolicy) mutating.PolicyEvaluator

// upstream is the API server's side.
type upstream struct {
	validating generic.Dispatcher[validating.PolicyHook]
	mutating   generic.Dispatcher[mutating.PolicyHook]
	builtin    admission.ObjectInterfaces
	custom     map[string]admission.ObjectInterfaces // by the name of the definition
	params     map[schema.GroupVersionKind]paramSource
}

type paramSource struct {
	informer informers.GenericInformer
	scope    meta.RESTScope
}

func newUpstream(ctx context.Context, w *World) (*upstream, error) {
	u := &upstream{custom: map[string]admission.ObjectInterfaces{}, params: map[schema.GroupVersionKind]paramSource{}}
	resources := equivalents(w.types)
	scheme := legacyscheme.Scheme
	u.builtin = &admission.RuntimeObjectInterfaces{
		ObjectCreater: scheme, ObjectTyper: scheme, ObjectDefaulter: scheme, ObjectConvertor: scheme,
		EquivalentResourceMapper: resources,
	}
	converters := &converters{
		by:     map[schema.GroupVersion]managedfields.TypeConverter{},
		models: map[schema.GroupVersion]map[string]*spec.Schema{},
	}
	if err := converters.readPublished(); err != nil {
		return nil, err
	}
	for _, definition := range w.definitions {
		crd, err := newDefinition(definition)
		if err != nil {
			return nil, err
		}
		if u.custom[crd.Name], err = crd.interfaces(resources); err != nil {
			return nil, err
		}
		if err := converters.custom(crd); err != nil {
			return nil, err
		}
	}
	client, err := u.informers(ctx, w)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	namespaces := factory.Core().V1().Namespaces()
	lister := namespaces.Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	matcher := matching.NewMatcher(lister, client)
	u.validating = validating.NewDispatcher(w.authorizer, generic.NewPolicyMatcher(matcher))
	u.mutating = mutating.NewDispatcher(w.authorizer, matcher, converters)
	return u, nil
}

// informers makes the caches of params, and returns a client that knows the namespaces.
func (u *upstream) informers(ctx context.Context, w *World) (*fake.Clientset, error) {
	var typed, trees []runtime.Object
	lists := map[schema.GroupVersionResource]string{}
	for _, object := range w.state {
		kind := kindOf(object)
		resource := w.types.ResourceFor(kind)
		if resource.Definition != nil {
			trees = append(trees, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)})
			lists[resource.GroupVersionResource] = kind.Kind + "List"
			continue
		}
		out, err := legacyscheme.Scheme.New(kind)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, out); err != nil {
			return nil, err
		}
		out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		typed = append(typed, out)
	}
	client := fake.NewSimpleClientset(typed...)
	factory := informers.NewSharedInformerFactory(client, 0)
	custom := dynamicinformer.NewDynamicSharedInformerFactory(
		dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, trees...), 0)
	for _, object := range w.state {
		kind := kindOf(object)
		resource := w.types.ResourceFor(kind)
		source := paramSource{scope: meta.RESTScopeRoot}
		if resource.Namespaced {
			source.scope = meta.RESTScopeNamespace
		}
		if resource.Definition != nil {
			source.informer = custom.ForResource(resource.GroupVersionResource)
		} else {
			var err error
			if source.informer, err = factory.ForResource(resource.GroupVersionResource); err != nil {
				return nil, err
			}
		}
		source.informer.Informer()
		u.params[kind] = source
	}
	factory.Start(ctx.Done())
	custom.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	custom.WaitForCacheSync(ctx.Done())
	return client, nil
}

// equivalents registers the resources as the server does.
func equivalents(types *schema.Registry) runtime.EquivalentResourceMapper {
	storage := map[schema.GroupResource]string{}
	for _, r := range types.Resources() {
		storage[r.GroupResource()] = r.Storage
	}
	registry := runtime.NewEquivalentResourceRegistryWithIdentity(
		func(r schema.GroupResource) string { return storage[r] })
	done := map[string]bool{}
	for _, r := range types.Resources() {
		if done[r.Storage] || r.OffByDefault {
			continue
		}
		done[r.Storage] = true
		for _, e := range types.Equivalents(r.GroupVersionResource, "") {
			registry.RegisterKindFor(e.GroupVersionResource, "", e.GroupVersionKind())
			for _, sub := range e.Subresources {
				registry.RegisterKindFor(e.GroupVersionResource, sub.Name, sub.Kind)
			}
		}
	}
	return registry
}

// converters makes the type converters of the published OpenAPI documents and of those of custom resources.
type converters struct {
	by     map[schema.GroupVersion]managedfields.TypeConverter
	models map[schema.GroupVersion]map[string]*spec.Schema // of custom resources
	parse  map[schema.GroupVersion]func() ([]byte, error)
}

func (c *converters) readPublished() error {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return fmt.Errorf("find the OpenAPI documents: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)),
		"api/openapi-spec/v3/api*__*_openapi.json"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no OpenAPI documents below %s: %w", dir, err)
	}
	c.parse = map[schema.GroupVersion]func() ([]byte, error){}
	for _, name := range names { // such as apis__apps__v1_openapi.json
		path := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(name), "_openapi.json"), "__", "/")
		if gv, ok := groupVersionOf(path); ok {
			c.parse[gv] = func() ([]byte, error) { return os.ReadFile(name) }
		}
	}
	return nil
}

// GetTypeConverter returns nil for a kind whose group and version does not have a document.
func (c *converters) GetTypeConverter(kind schema.GroupVersionKind) managedfields.TypeConverter {
	gv := kind.GroupVersion()
	if known, ok := c.by[gv]; ok {
		return known
	}
	parse := c.parse[gv]
	if parse == nil {
		return nil
	}
	text, err := parse()
	if err != nil {
		return nil
	}
	var document spec3.OpenAPI
	if err := json.Unmarshal(text, &document); err != nil {
		return nil
	}
	converter, err := managedfields.NewTypeConverter(document.Components.Schemas, false)
	if err != nil {
		return nil
	}
	c.by[gv] = converter
	return converter
}

// Run has nothing to keep up to date.
func (c *converters) Run(context.Context) {}

var _ patch.TypeConverterManager = (*converters)(nil)

// A compiled policy is ready on the server's side.
type compiled struct {
	validating *validating.PolicyHook
	mutating   *mutating.PolicyHook
}

func (u *upstream) compile(c *Case) (*compiled, error) {
	text, err := json.Marshal(c.Policy)
	if err != nil {
		return nil, err
	}
	bound, err := json.Marshal(c.Binding)
	if err != nil {
		return nil, err
	}
	if c.Policy["kind"] == "MutatingAdmissionPolicy" {
		h := &mutating.PolicyHook{Policy: &admissionregistrationv1.MutatingAdmissionPolicy{}}
		b := &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
		if err := errors.Join(decodeDefaulted(text, h.Policy), decodeDefaulted(bound, b)); err != nil {
			return nil, err
		}
		h.Bindings = []*admissionregistrationv1.MutatingAdmissionPolicyBinding{b}
		h.Evaluator = compileMutating(h.Policy)
		h.ParamInformer, h.ParamScope, h.ConfigurationError = u.param(h.Policy.Spec.ParamKind)
		return &compiled{mutating: h}, nil
	}
	h := &validating.PolicyHook{Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{}}
	b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if err := errors.Join(decodeDefaulted(text, h.Policy), decodeDefaulted(bound, b)); err != nil {
		return nil, err
	}
	h.Bindings = []*admissionregistrationv1.ValidatingAdmissionPolicyBinding{b}
	h.Evaluator = compileValidating(h.Policy)
	h.ParamInformer, h.ParamScope, h.ConfigurationError = u.param(h.Policy.Spec.ParamKind)
	return &compiled{validating: h}, nil
}

func decodeDefaulted(text []byte, into runtime.Object) error {
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	legacyscheme.Scheme.Default(into)
	return nil
}

// param finds the cache of a paramKind as generic/policy_source.go v0.37.2 does.
func (u *upstream) param(kind *admissionregistrationv1.ParamKind) (informers.GenericInformer, meta.RESTScope, error) {
	if kind == nil {
		return nil, nil, nil
	}
	gvk := apischema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	source, ok := u.params[gvk]
	if !ok {
		return nil, nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
	}
	return source.informer, source.scope, nil
}

// ask returns the server's answer.
func (u *upstream) ask(ctx context.Context, p *compiled, r *request) (a *answer) {
	a = &answer{}
	defer func() {
		if problem := recover(); problem != nil {
			*a = answer{Panic: fmt.Sprint(problem)}
		}
	}()
	objects := u.builtin
	if r.resource.Definition != nil {
		objects = u.custom[r.resource.Resource+"."+r.resource.Group]
	}
	object, old := r.object.internal(), r.old.internal()
	ctx = warning.WithWarningRecorder(ctx, a)
	attributes := &recorder{answer: a, Attributes: admission.NewAttributesRecord(object, old, r.Kind, r.Namespace,
		r.Name, r.Resource, r.SubResource,
		admission.Operation(r.Operation), r.options(), r.DryRun,
		userOf(r))}
	var err error
	if p.mutating != nil {
		if r.Operation == celgate.Delete { // the plugin does not handle it
			return a
		}
		hooks := []mutating.PolicyHook{*p.mutating}
		err = u.mutating.Dispatch(ctx, attributes, objects, hooks)
		if again := attributes.GetReinvocationContext(); err == nil &&
			again.ShouldReinvoke() { // as pkg/admission/reinvocation.go v0.37.2
			again.SetIsReinvoke()
			err = u.mutating.Dispatch(ctx, attributes, objects, hooks)
		}
	} else {
		err = u.validating.Dispatch(ctx, attributes, objects, []validating.PolicyHook{*p.validating})
	}
	if err != nil {
		a.Status = responsewriters.ErrorToAPIStatus(err)
		return a
	}
	if p.mutating != nil {
		if a.Object, err = treeOf(object, r.Kind); err == nil && r.resource.Definition != nil &&
			!equalTrees(a.Object, r.object.tree) {
			a.Object, err = rereadTree(a.Object)
		}
		if err != nil {
			a.Panic = "result: " + err.Error()
		}
	}
	return a
}

// userOf is the user of a request, as the plugins take one.
func userOf(r *request) user.Info {
	info := &user.DefaultInfo{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups,
		Extra: map[string][]string{}}
	for key, values := range r.UserInfo.Extra {
		info.Extra[key] = values
	}
	return info
}

// A recorder keeps the audit annotations that the plugin adds.
type recorder struct {
	admission.Attributes
	answer *answer
}

func (r *recorder) AddAnnotation(key, value string) error {
	return r.AddAnnotationWithLevel(key, value, auditinternal.LevelMetadata)
}

func (r *recorder) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	if err := r.Attributes.AddAnnotationWithLevel(key, value, level); err != nil {
		return err
	}
	if r.answer.Audit == nil {
		r.answer.Audit = map[string]string{}
	}
	r.answer.Audit[key] = value
	return nil
}

// options returns the options that the handlers pass.
func (r *request) options() runtime.Object {
	gv := schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}.String()
	var dryRun []string
	if r.DryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	switch r.Operation {
	case celgate.Create:
		return &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{Kind: "CreateOptions", APIVersion: gv}, DryRun: dryRun}
	case celgate.Update:
		return &metav1.UpdateOptions{TypeMeta: metav1.TypeMeta{Kind: "UpdateOptions", APIVersion: gv}, DryRun: dryRun}
	}
	return &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: gv}, DryRun: dryRun}
}

// internal returns a copy of the object in the form of the server's handlers.
func (o *object) internal() runtime.Object {
	if o == nil {
		return nil
	}
	return o.hub.DeepCopyObject()
}

// newObject converts a prepared tree to an object. It fails for a tree that the server could not represent.
func newObject(tree map[string]any, resource *schema.Resource) (*object, error) {
	if resource.Definition != nil {
		return &object{tree, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(tree)}}, nil
	}
	kind := resource.GroupVersionKind()
	versioned, err := legacyscheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, versioned); err != nil {
		return nil, err
	}
	hub, err := legacyscheme.Scheme.ConvertToVersion(versioned,
		schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	return &object{tree, hub}, err
}

// rereadTree returns a tree as it is read again once it has been written.
func rereadTree(tree map[string]any) (again map[string]any, err error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	err = utiljson.Unmarshal(text, &again)
	return again, err
}

// treeOf shows an object in a version.
func treeOf(obj runtime.Object, kind schema.GroupVersionKind) (map[string]any, error) {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return custom.Object, nil
	}
	versioned, err := legacyscheme.Scheme.ConvertToVersion(obj, kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	versioned.GetObjectKind().SetGroupVersionKind(kind)
	return runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
}
