package webhook_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// TestLimits refuses writes beyond limits: lists that are too long, unless they were as long before, and one binding
// more than a policy may have.
func TestLimits(t *testing.T) {
	e, err := celgate.New(&policy.Set{}, celgate.Options{WithoutQuirks: true,
		Sizes: policy.Limits{Bindings: 2, Rules: 1, Validations: 1}})
	if err != nil {
		t.Fatal(err)
	}
	inForce := []*policy.Binding{{Kind: policy.Validating, Name: "one", PolicyName: "p"},
		{Kind: policy.Validating, Name: "two", PolicyName: "p"}}
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e },
		Bindings: func() []*policy.Binding { return inForce }})
	defer server.Close()
	policyOf := func(validations string) string {
		return `{"apiVersion":"policy.celgate.dev/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{` +
			`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},` +
			`"validations":[` + validations + `]}}`
	}
	binding := func(name string) string {
		return `{"apiVersion":"policy.celgate.dev/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"` + name +
			`"},"spec":{"policyName":"p","validationActions":["Deny"]}}`
	}
	const one, two = `{"expression":"true"}`, `{"expression":"true"},{"expression":"1 == 1"}`
	for _, c := range []struct {
		name, resource, object, old, refused string
	}{
		{"a policy", "validatingadmissionpolicies", policyOf(one), "", ""},
		{"a longer one", "validatingadmissionpolicies", policyOf(two), "", "spec.validations: Too many: 2: must have at most 1 item"},
		{"one that was as long", "validatingadmissionpolicies", policyOf(two), policyOf(two), ""},
		{"one that was shorter", "validatingadmissionpolicies", policyOf(two), policyOf(one), "spec.validations: Too many"},
		{"a third binding", "validatingadmissionpolicybindings", binding("three"), "",
			"spec.policyName: Too many: 3: ValidatingAdmissionPolicy p may have at most 2 bindings"},
		{"a binding that there is", "validatingadmissionpolicybindings", binding("two"), binding("two"), ""},
		{"a binding that there is, made again", "validatingadmissionpolicybindings", binding("two"), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			operation, old := "CREATE", ""
			if c.old != "" {
				operation, old = "UPDATE", `,"oldObject":`+c.old
			}
			code, text := post(t, server.URL+"/validate", "application/json", strings.NewReader(
				`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"`+operation+
					`","name":"p","resource":{"group":"policy.celgate.dev","version":"v1","resource":"`+c.resource+`"},`+
					`"userInfo":{"username":"dev"},"object":`+c.object+old+`}}`))
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(text), &review); code != http.StatusOK || err != nil {
				t.Fatal(code, text)
			}
			message := ""
			if !review.Response.Allowed {
				message = review.Response.Result.Message
			}
			if c.refused == "" && message != "" || !strings.Contains(message, c.refused) {
				t.Errorf("%q, want %q", message, c.refused)
			}
		})
	}
}
