package celgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
)

// benchPod has three containers. In prepared form it is the object that the API server sends to a webhook.
const benchPod = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  containers:
  - name: app
    image: registry.example.com/app:1
    env: [{name: MODE, value: production}]
    ports: [{containerPort: 8080}]
    resources: {limits: {memory: 64Mi}}
    securityContext: {runAsNonRoot: true}
  - {name: proxy, image: 'registry.example.com/proxy:1', resources: {limits: {memory: 64Mi}}, securityContext: {runAsNonRoot: true}}
  - {name: logs, image: 'registry.example.com/logs:1', resources: {limits: {memory: 64Mi}}, securityContext: {runAsNonRoot: true}}
`

const (
	benchLabel = `
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: Object.metadata.labels{team: "shop"}}}'}
`
	benchSidecar = `
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{spec: Object.spec{
          initContainers: [Object.spec.initContainers{
            name: "mesh", image: "mesh/proxy:v1", restartPolicy: "Always",
            volumeMounts: [Object.spec.initContainers.volumeMounts{name: "mesh", mountPath: "/mesh"}]
          }],
          volumes: [Object.spec.volumes{name: "mesh", emptyDir: Object.spec.volumes.emptyDir{}}]
        }}
`
	benchPullPolicy = `
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{spec: Object.spec{containers: object.spec.containers.map(c,
          Object.spec.containers{name: c.name, imagePullPolicy: "Always"})}}
`
	benchJSONPatch = `
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{op: "test", path: "/metadata/labels/app", value: "web"},
         JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/checked"), value: "yes"}]
`
)

// benchPolicies makes a policy for each of the mutations.
func benchPolicies(mutations ...string) string {
	var b strings.Builder
	for i, mutation := range mutations {
		fmt.Fprintf(&b, `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: policy-%[1]d}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  mutations:%[2]s---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: policy-%[1]d}
spec: {policyName: policy-%[1]d}
`, i, mutation)
	}
	return b.String()
}

const benchValidation = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: registry}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: registry, validationActions: [Deny]}
`

// prepareBench returns an engine of policies and a request about benchPod.
func prepareBench(tb testing.TB, policies string) (*celgate.Engine, *celgate.Prepared) {
	tb.Helper()
	set, err := load(policies)
	if err != nil {
		tb.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{WithoutQuirks: true})
	if err != nil {
		tb.Fatal(err)
	}
	for _, r := range engine.Rejections() {
		tb.Fatal(r.Status.Message)
	}
	docs, problems := manifest.Read(strings.NewReader(benchPod), "pod.yaml")
	if len(problems) > 0 {
		tb.Fatal(problems[0])
	}
	req, err := engine.Prepare(tb.Context(), &celgate.Request{
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Name:     "web", Namespace: "default", Operation: celgate.Create, Object: docs[0].Object,
		UserInfo: celgate.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return engine, req
}

func benchmarkAdmit(b *testing.B, mutations ...string) {
	engine, req := prepareBench(b, benchPolicies(mutations...))
	b.ReportAllocs()
	for b.Loop() {
		d, err := engine.Admit(b.Context(), req)
		if err != nil || !d.Allowed || !d.Mutated || len(d.Changes) != len(mutations) {
			b.Fatalf("%+v, %v", d, err)
		}
	}
}

func BenchmarkAdmitLabel(b *testing.B)      { benchmarkAdmit(b, benchLabel) }
func BenchmarkAdmitSidecar(b *testing.B)    { benchmarkAdmit(b, benchSidecar) }
func BenchmarkAdmitPullPolicy(b *testing.B) { benchmarkAdmit(b, benchPullPolicy) }
func BenchmarkAdmitJSONPatch(b *testing.B)  { benchmarkAdmit(b, benchJSONPatch) }

// BenchmarkAdmitAll runs the four of them, one after the other.
func BenchmarkAdmitAll(b *testing.B) {
	benchmarkAdmit(b, benchLabel, benchSidecar, benchPullPolicy, benchJSONPatch)
}
