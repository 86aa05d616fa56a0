package webhook_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing/fstest"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/webhook"
)

const labelled = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: labelled}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "'team' in object.metadata.?labels.orValue({})", message: a team is missing}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: labelled, validationActions: [Deny]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
`

const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1",
  "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
  "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "name": "c", "namespace": "shop",
  "operation": "CREATE", "userInfo": {}, "object": {"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "shop"}}}}`

// A server for policies of either failurePolicy, at the paths that Configurations names.
func Example() {
	bundle, err := celgate.Load(fstest.MapFS{"policy.yaml": {Data: []byte(labelled)}})
	if err != nil {
		log.Fatal(err)
	}
	fail, ignore := webhook.Split(&bundle.Set)
	mux := http.NewServeMux()
	for path, set := range map[string]*policy.Set{"/fail": fail, "/ignore": ignore} {
		engine, err := celgate.New(set, celgate.Options{WithoutQuirks: true, Objects: manifest.Trees(bundle.Objects)})
		if err != nil {
			log.Fatal(err)
		}
		mux.Handle(path+"/", http.StripPrefix(path, &webhook.Handler{
			Engine: func() *celgate.Engine { return engine },
			Observe: func(o webhook.Observation) {
				fmt.Println(o.Phase, o.Code, o.Request.Name, o.Decision.Allowed)
			},
		}))
	}
	_, validating := webhook.Configurations(&bundle.Set, webhook.Target{URL: "https://celgate.example.com"})
	first := validating["webhooks"].([]any)[0].(map[string]any)
	fmt.Println(first["name"], first["clientConfig"])

	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "/ignore/validate", strings.NewReader(review))
	request.Header.Set("Content-Type", "application/json")
	mux.ServeHTTP(answer, request)
	fmt.Println(strings.Contains(answer.Body.String(), "denied request: a team is missing"))
	// Output:
	// ignore.policies.celgate.dev map[url:https://celgate.example.com/ignore/validate]
	// validation 200 c false
	// true
}
