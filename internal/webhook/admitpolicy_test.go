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

// An update of celgate's own kinds keeps existing expressions, as for the server's kinds (rule W-1.4.41), and the minor
// of the engine determines which new ones are valid.
func TestPolicyUpdateKeepsExpressions(t *testing.T) {
	admissionPolicy := func(label, expression, condition string) string {
		return `{"apiVersion":"policy.celgate.dev/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p","labels":{"l":"` + label + `"}},` +
			`"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},` +
			`"matchConditions":[{"name":"c","expression":"` + condition + `"}],"validations":[{"expression":"` + expression + `"}]}}`
	}
	binding := func(name string) string {
		return `{"apiVersion":"policy.celgate.dev/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"` + name + `"},` +
			`"spec":{"policyName":"p","validationActions":["Deny"]}}`
	}
	const reserved = "p.static.k8s.io"
	for _, test := range []struct {
		name, minor, old, object, refused string
	}{
		{"new", "1.37", "", admissionPolicy("a", "[1].includes(1)", "true"), "undeclared reference to 'includes'"},
		{"kept", "1.37", admissionPolicy("a", "[1].includes(1)", "true"),
			admissionPolicy("b", "[1].includes(1)", "true"), ""},
		{"another", "1.37", admissionPolicy("a", "[1].includes(1)", "true"),
			admissionPolicy("a", "[2].includes(1)", "true"), "undeclared reference to 'includes'"},
		{"kept condition", "1.37", admissionPolicy("a", "true", "[1].includes(1)"),
			admissionPolicy("b", "true", "[1].includes(1)"), ""},
		{"new condition", "1.37", admissionPolicy("a", "true", "true"), admissionPolicy("b", "true", "[1].includes(1)"),
			"undeclared reference to 'includes'"},
		{"new name", "1.37", "", binding(reserved), "static.k8s.io"},
		{"kept name", "1.37", binding(reserved), binding(reserved), ""},
		{"kept of a later minor", "1.36", admissionPolicy("a", "[1].includes(1)", "true"),
			admissionPolicy("b", "[1].includes(1)", "true"), "undeclared reference to 'includes'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := writeOwn(t, test.minor, test.old, test.object)
			if got.Allowed != (test.refused == "") || !got.Allowed && !strings.Contains(got.Result.Message, test.refused) {
				t.Errorf("%+v", got.Result)
			}
		})
	}
}

// writeOwn calls the webhook of a server of a minor for an object of celgate's own kinds that is created, or that
// replaces old.
func writeOwn(t *testing.T, minor, old, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	e, err := celgate.New(&policy.Set{}, celgate.Options{KubeVersion: minor, WithoutQuirks: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }})
	defer server.Close()
	var written struct{ APIVersion, Kind string }
	if err := json.Unmarshal([]byte(object), &written); err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(written.APIVersion, "/")
	resource := strings.ToLower(strings.TrimSuffix(written.Kind, "y")) + "ies"
	if strings.HasSuffix(written.Kind, "Binding") {
		resource = strings.ToLower(written.Kind) + "s"
	}
	operation := "CREATE"
	if old != "" {
		operation, old = "UPDATE", `,"oldObject":`+old
	}
	code, text := post(t, server.URL+"/validate", "application/json", strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"`+operation+`","name":"p",`+
			`"kind":{"group":"policy.celgate.dev","version":"`+version+`","kind":"`+written.Kind+`"},`+
			`"resource":{"group":"policy.celgate.dev","version":"`+version+`","resource":"`+resource+`"},`+
			`"userInfo":{"username":"dev"},"object":`+object+old+`}}`,
	))
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal([]byte(text), &review); err != nil {
		t.Fatal(text, err)
	}
	return review.Response
}
