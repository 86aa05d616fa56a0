package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
)

// A plugin is the API server's side. As in the server, a request holds the object in the internal version, which the
// plugin converts for the policies and, after a change, back.
type plugin struct {
	workload *workload
	dispatch func(context.Context, admission.Attributes, admission.ObjectInterfaces) error
	objects  admission.ObjectInterfaces
	object   runtime.Object
	old      runtime.Object
	stop     context.CancelFunc
}

// An apiClient is the fake clientset with the published OpenAPI documents.
type apiClient struct {
	*fake.Clientset
	openapi openapi.Client
}

func (c apiClient) Discovery() discovery.DiscoveryInterfaces {
	return discoveryClient{c.Clientset.Discovery(), c.openapi}
}

type discoveryClient struct {
	discovery.DiscoveryInterfaces
	openapi openapi.Client
}

func (d discoveryClient) OpenAPIV3() openapi.Client { return d.openapi }

// handler is the common interface of both plugins.
type handler interface {
	admission.Interface
	admission.InitializationValidator
	WaitForReady() bool
}

func newPlugin(ctx context.Context, w *workload) (*plugin, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &plugin{workload: w, stop: stop, objects: admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)}
	if w.definition != "" {
		p.objects = admission.NewObjectInterfacesFromScheme(customScheme())
	}
	stored := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"},
	}}}
	for _, text := range []string{w.policies, w.state} {
		objects, err := readVersioned(text)
		if err != nil {
			return nil, err
		}
		stored = append(stored, objects...)
	}
	client := apiClient{fake.NewSimpleClientset(stored...), openapitest.NewEmbeddedFileClient()}
	factory := informers.NewSharedInformerFactory(client, 0)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)

	var plugged handler
	if w.mutating {
		m, err := mutatingpolicy.NewPlugin(nil)
		if err != nil {
			return nil, err
		}
		m.SetEnabled(true)
		plugged, p.dispatch = m, m.Admit
	} else {
		v, err := validatingpolicy.NewPlugin(nil)
		if err != nil {
			return nil, err
		}
		plugged, p.dispatch = v, v.Validate
	}
	initializer.New(client, dynamicfake.NewSimpleDynamicClient(legacyscheme.Scheme), factory,
		authorizerfactory.NewAlwaysDenyAuthorizer(), feature.DefaultFeatureGate,
		compatibility.DefaultBuildEffectiveVersion(), ctx.Done(), mapper).Initialize(plugged)
	if w.mutating {
		plugged.(*mutatingpolicy.Plugin).SetEnabled(true)
	}
	if err := plugged.ValidateInitialization(); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range 12 { // 10 seconds each
		if plugged.WaitForReady() {
			break
		}
	}
	if !plugged.WaitForReady() {
		return nil, errors.New("the plugin is not ready")
	}
	var err error
	if p.object, err = p.decode(w.object); err != nil {
		return nil, err
	}
	if w.old != "" {
		if p.old, err = p.decode(w.old); err != nil {
			return nil, err
		}
	}
	return p, p.settle(ctx)
}

// settle waits until the policies are compiled and, for a mutation, until the OpenAPI document is read: both
// happen in the background, the former at most once a second.
func (p *plugin) settle(ctx context.Context) error {
	time.Sleep(1500 * time.Millisecond)
	deadline := time.Now().Add(10 * time.Second)
	for {
		attributes := p.attributes()
		err := p.dispatch(ctx, attributes, p.objects)
		changed := !equality.Semantic.DeepEqual(attributes.GetObject(), p.object)
		if err == nil && changed == p.workload.changes {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the plugin does not settle: changed %v, %w", changed, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *plugin) prepare(n int) (func() error, error) {
	requests := make([]admission.Attributes, n)
	for i := range requests {
		requests[i] = p.attributes()
	}
	ctx := context.Background()
	return func() error {
		for _, r := range requests {
			if err := p.dispatch(ctx, r, p.objects); err != nil {
				return fmt.Errorf("plugin: %w", err)
			}
		}
		return nil
	}, nil
}

// attributes returns a new request: a mutation changes the object in place.
func (p *plugin) attributes() admission.Attributes {
	object := p.object
	if p.workload.mutating {
		object = object.DeepCopyObject()
	}
	operation := admission.Create
	var options runtime.Object = &metav1.CreateOptions{}
	if p.old != nil {
		operation, options = admission.Update, &metav1.UpdateOptions{}
	}
	return admission.NewAttributesRecord(object, p.old, p.workload.kind, "default", "example", p.workload.resource, "",
		operation, options, false, &user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}})
}

// decode reads an object as the server does: defaulted, in the internal version; a custom resource as a tree.
func (p *plugin) decode(text string) (runtime.Object, error) {
	if p.workload.definition == "" {
		return runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), []byte(text))
	}
	trees, err := readObjects(text)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: trees[0]}, nil
}

func customScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme.AddKnownTypeWithName(gv.WithKind("CronTab"), &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(gv.WithKind("CronTabList"), &unstructured.UnstructuredList{})
	return scheme
}

// readVersioned reads objects as clients see them.
func readVersioned(text string) ([]runtime.Object, error) {
	trees, err := readObjects(text)
	if err != nil {
		return nil, err
	}
	versions := legacyscheme.Codecs.CodecForVersions(nil, legacyscheme.Codecs.UniversalDeserializer(),
		nil, schema.GroupVersions{corev1.SchemeGroupVersion, admissionregistrationv1.SchemeGroupVersion})
	var objects []runtime.Object
	for _, tree := range trees {
		encoded, err := (&unstructured.Unstructured{Object: tree}).MarshalJSON()
		if err != nil {
			return nil, err
		}
		object, err := runtime.Decode(versions, encoded)
		if err != nil {
			return nil, err
		}
		// Decoding applies the server's defaults; without a kind the object has the form of the clients' caches.
		objects = append(objects, object)
	}
	return objects, nil
}
