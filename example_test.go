package celgate_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing/fstest"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

const replicaLimit = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replica-limit}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= 5
    messageExpression: "'at most 5 replicas, not ' + string(object.spec.replicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: replica-limit, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"team": "shop"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: team}
`

// load reads policies and bindings.
func load(text string) (*policy.Set, error) {
	bundle, err := celgate.Load(fstest.MapFS{"policies.yaml": {Data: []byte(text)}})
	return &bundle.Set, err
}

func deployment(replicas int64) map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": replicas,
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web:1"}}},
			},
		},
	}
}

// Load policies, build an engine, and decide about a request.
func Example() {
	set, err := load(replicaLimit)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	request, err := engine.RequestFor(context.Background(), deployment(9), celgate.As{User: "dev"})
	if err != nil {
		log.Fatal(err)
	}
	decision, err := engine.Admit(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(engine.Rejections()), len(decision.Warnings), decision.Allowed)
	fmt.Println(decision.Status.Message)
	for _, v := range decision.Violations {
		fmt.Println(v.Policy, v.Binding, v.Expr.Field, v.Actions)
	}
	// Output:
	// 0 0 false
	// deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'replica-limit' with binding 'everywhere' denied request: at most 5 replicas, not 9
	// replica-limit everywhere spec.validations[0].expression [Deny]
}

// Mutate returns the object after mutating policies, without validating ones.
func ExampleEngine_Mutate() {
	set, err := load(replicaLimit)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	request, err := engine.RequestFor(context.Background(), deployment(2), celgate.As{User: "dev"})
	if err != nil {
		log.Fatal(err)
	}
	decision, err := engine.Mutate(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	metadata := decision.Object["metadata"].(map[string]any)
	fmt.Println(decision.Mutated, metadata["labels"])
	// Output: true map[team:shop]
}

// Rejected contains the policies that the API server would refuse, with its messages.
func ExampleEngine_Rejections() {
	set, err := load(strings.ReplaceAll(replicaLimit, "object.spec.replicas <= 5", "object.spec.replicas"))
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range engine.Rejections() {
		fmt.Println(r.Status.Code, r.Status.Message)
	}
	// Output: 422 ValidatingAdmissionPolicy.admissionregistration.k8s.io "replica-limit" is invalid: spec.validations[0].expression: Invalid value: "object.spec.replicas": must evaluate to bool but got dyn
}

// Load reads an fs.FS, such as an embedded one: policies and bindings, and the objects of the cluster beside them.
func ExampleLoad() {
	bundle, err := celgate.Load(fstest.MapFS{
		"policies/limit.yaml": {Data: []byte(replicaLimit)},
		"cluster/shop.yaml":   {Data: []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")},
	})
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(&bundle.Set, celgate.Options{Objects: manifest.Trees(bundle.Objects)})
	if err != nil {
		log.Fatal(err)
	}
	for _, namespace := range []string{"shop", "nowhere"} {
		request, err := engine.RequestFor(context.Background(), deployment(2), celgate.As{Namespace: namespace})
		if err != nil {
			log.Fatal(err)
		}
		decision, err := engine.Admit(context.Background(), request)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(namespace, decision.Allowed)
	}
	// Output:
	// shop true
	// nowhere false
}

// LoadFiles reads files and directories of the system.
func ExampleLoadFiles() {
	bundle, err := celgate.LoadFiles("examples/policies")
	if err != nil {
		log.Fatal(err)
	}
	p := bundle.Set.Policies[0]
	fmt.Println(len(bundle.Set.Policies), p.Name, p.Position)
	// Output: 5 images.example.com examples/policies/images.yaml:5:1
}

// RequestFor makes the request that creates an object, updates one that exists, or deletes it.
func ExampleEngine_RequestFor() {
	old := deployment(2)
	old["metadata"] = map[string]any{"name": "web", "namespace": "default"}
	engine := celgate.Must(celgate.New(&policy.Set{}, celgate.Options{Objects: []map[string]any{old}}))
	for _, as := range []celgate.As{{}, {Operation: celgate.Delete, User: "dev", Groups: []string{"admins"}}} {
		request, err := engine.RequestFor(context.Background(), deployment(3), as)
		if err != nil {
			log.Fatal(err)
		}
		r := request.Request()
		fmt.Println(r.Operation, r.Resource.Resource, r.Namespace, r.Name, r.UserInfo.Username)
	}
	// Output:
	// UPDATE deployments default web celgate
	// DELETE deployments default web dev
}

// Prepare returns an object in the form that policies see; its Warnings are the server's.
func ExampleEngine_Prepare() {
	engine := celgate.Must(celgate.New(&policy.Set{}, celgate.Options{}))
	request, err := engine.Prepare(context.Background(), &celgate.Request{
		Kind:      schema.GroupVersionKind{Version: "v1", Kind: "Service"},
		Resource:  schema.GroupVersionResource{Version: "v1", Resource: "services"},
		Name:      "web",
		Namespace: "default",
		Operation: celgate.Create,
		Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}, "colour": "red"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	spec := request.Request().Object["spec"].(map[string]any)
	fmt.Println(spec["type"], spec["ports"], request.Warnings())
	// Output: ClusterIP [map[port:80 protocol:TCP targetPort:80]] [unknown field "spec.colour"]
}

// FromReview reads the request of a webhook. The object is already prepared.
func ExampleFromReview() {
	set, err := load(replicaLimit)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{WithoutQuirks: true})
	if err != nil {
		log.Fatal(err)
	}
	request, err := celgate.FromReview(&admissionv1.AdmissionRequest{
		Kind:      metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Name:      "web",
		Namespace: "default",
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: []byte(`{"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 9}}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	decision, err := engine.Validate(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decision.Allowed, decision.Violations[0].Message)
	// Output: false at most 5 replicas, not 9
}

// AssumePrepared takes a request whose object is one as the server hands it to policies.
func ExampleAssumePrepared() {
	set, err := load(replicaLimit)
	if err != nil {
		log.Fatal(err)
	}
	engine := celgate.Must(celgate.New(set, celgate.Options{}))
	decision, err := engine.Validate(context.Background(), celgate.AssumePrepared(&celgate.Request{
		Kind:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Name:      "web",
		Namespace: "default",
		Operation: celgate.Create,
		Object:    deployment(5),
	}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decision.Allowed)
	// Output: true
}
