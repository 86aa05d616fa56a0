package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// TestBindingsAndPolicies refuses a binding that does not fit its policies, as far as these exist.
func TestBindingsAndPolicies(t *testing.T) {
	e, err := celgate.New(&policy.Set{}, celgate.Options{WithoutQuirks: true})
	if err != nil {
		t.Fatal(err)
	}
	plain := &policy.Policy{Kind: policy.Admission, Name: "p", Validations: []policy.Validation{{Name: "known"}}}
	single := &policy.Policy{Kind: policy.Admission, Name: "p", Singleton: &policy.Binding{}}
	const audited = `,"enforcement":{"validations":{"other":["Audit"]}}`
	for name, c := range map[string]struct {
		named     []*policy.Policy
		more, old string
		refused   string
	}{
		"the policy is not there yet": {nil, audited, "", ""},
		"a plain one":                 {[]*policy.Policy{plain}, "", "", ""},
		"an unknown validation": {[]*policy.Policy{plain}, audited, "",
			`spec.enforcement.validations[other]: Not found: "other"`},
		"an unknown validation that was there": {[]*policy.Policy{plain}, audited, audited, ""},
		"a known validation":                   {[]*policy.Policy{plain}, strings.ReplaceAll(audited, "other", "known"), "", ""},
		"a singleton":                          {[]*policy.Policy{single}, "", "", "is a singleton policy, which is in force without a binding"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e },
				Named: func(context.Context, *policy.Binding) ([]*policy.Policy, error) {
					if c.named == nil {
						return nil, errors.New("not found")
					}
					return c.named, nil
				}})
			defer server.Close()
			binding := func(more string) string {
				return `{"apiVersion":"policy.celgate.dev/v1alpha1","kind":"AdmissionPolicyBinding","metadata":{"name":"b"},` +
					`"spec":{"policyName":"p"` + more + `}}`
			}
			operation, old := "CREATE", ""
			if c.old != "" {
				operation, old = "UPDATE", `,"oldObject":`+binding(c.old)
			}
			code, text := post(t, server.URL+"/validate", "application/json", strings.NewReader(
				`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"`+operation+
					`","name":"b","kind":{"group":"policy.celgate.dev","version":"v1alpha1","kind":"AdmissionPolicyBinding"},`+
					`"resource":{"group":"policy.celgate.dev","version":"v1alpha1","resource":"admissionpolicybindings"},`+
					`"userInfo":{"username":"dev"},"object":`+binding(c.more)+old+`}}`))
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
