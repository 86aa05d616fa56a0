package webhook_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A deciding cluster permits the user root to read everything, and other users ConfigMaps of their own namespace.
type deciding struct{ asked []string }

func (c *deciding) Get(context.Context, schema.GroupVersionKind, string, string) (map[string]any, error) {
	return nil, nil
}

func (c *deciding) List(context.Context, schema.GroupVersionKind, string) ([]map[string]any, error) {
	return nil, nil
}

func (c *deciding) Authorizer() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(
		func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			user := a.GetUser().GetName()
			c.asked = append(c.asked, strings.Join(
				[]string{user, a.GetVerb(), a.GetResource(), a.GetNamespace(), a.GetName()}, " "))
			if user == "root" || a.GetResource() == "configmaps" && a.GetNamespace() == user {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		},
	)
}

// TestParamsOfOthers writes policies and bindings with params as several users.
func TestParamsOfOthers(t *testing.T) {
	cluster, log := &deciding{}, &strings.Builder{}
	e, err := celgate.New(&policy.Set{}, celgate.Options{Cluster: cluster, WithoutQuirks: true})
	if err != nil {
		t.Fatal(err)
	}
	seal := webhook.NewSeal([]byte("key"))
	kind := &policy.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	h := &webhook.Handler{
		Engine: func() *celgate.Engine { return e }, Seal: func() *webhook.Seal { return seal },
		Log: slog.New(slog.NewTextHandler(log, nil)),
		Named: func(context.Context, *policy.Binding) ([]*policy.Policy, error) {
			return []*policy.Policy{{Kind: policy.Validating, Name: "p", ParamKind: kind}}, nil
		},
	}
	server := httptest.NewServer(h)
	defer server.Close()
	ask := func(phase, user, object, old string) *admissionv1.AdmissionResponse {
		t.Helper()
		operation := "CREATE"
		if old != "" {
			operation, old = "UPDATE", `,"oldObject":`+old
		}
		code, text := post(t, server.URL+"/"+phase, "application/json",
			strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",`+
				`"operation":"`+operation+`","name":"p","kind":{"group":"policy.celgate.dev","version":"v1","kind":"ValidatingAdmissionPolicyBinding"},"resource":{"group":"policy.celgate.dev",`+
				`"version":"v1","resource":"validatingadmissionpolicybindings"},"userInfo":{"username":"`+user+`"},"object":`+object+old+`}}`))
		if code != http.StatusOK {
			return &admissionv1.AdmissionResponse{Patch: []byte(text)}
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(text), &review); err != nil {
			t.Fatal(err)
		}
		return review.Response
	}
	of := func(kind, spec string) string {
		return `{"apiVersion":"policy.celgate.dev/v1","kind":"` + kind + `","metadata":{"name":"p"},"spec":` + spec + `}`
	}
	binding := func(ref string) string {
		return of("ValidatingAdmissionPolicyBinding",
			`{"policyName":"p","validationActions":["Deny"],"paramRef":{`+ref+`,"parameterNotFoundAction":"Deny"}}`)
	}
	authored := func(paramKind string) string {
		return of("ValidatingAdmissionPolicy",
			`{"paramKind":{"apiVersion":"v1","kind":"`+paramKind+`"},"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],`+
				`"operations":["CREATE"],"resources":["pods"]}]},"validations":[{"expression":"true"}]}`,
		)
	}
	for _, test := range []struct {
		name, user, object string
		sealed             bool
		refused, asked     string
	}{
		{"a policy", "root", authored("ConfigMap"), true, "", "root get configmaps * *"},
		{"a policy of another's", "dev", authored("ConfigMap"), false,
			"spec.paramKind: Forbidden: user &{dev  [] map[]} must have", "dev get configmaps * *"},
		{"Secrets", "root", authored("Secret"), false, "--allow-secret-params", ""},
		{"a name", "dev", binding(`"name":"a","namespace":"dev"`), true, "", "dev get configmaps dev a"},
		{"a name elsewhere", "dev", binding(`"name":"a","namespace":"prod"`), false, "spec.paramRef: Forbidden",
			"dev get configmaps prod a"},
		{"a selector", "dev", binding(`"selector":{},"namespace":"dev"`), true, "", "dev list configmaps dev "},
		{"everywhere", "dev", binding(`"selector":{}`), false, "spec.paramRef: Forbidden", "dev list configmaps  "},
	} {
		cluster.asked = nil
		if got := ask("mutate", test.user, test.object, ""); !got.Allowed || (len(got.Patch) > 0) != test.sealed {
			t.Errorf("%s: seal %s", test.name, got.Patch)
		}
		got := ask("validate", test.user, test.object, "")
		if got.Allowed != (test.refused == "") || !got.Allowed && !strings.Contains(got.Result.Message, test.refused) {
			t.Errorf("%s: %+v", test.name, got)
		}
		if test.asked != "" && (len(cluster.asked) != 2 || cluster.asked[0] != test.asked) {
			t.Errorf("%s: asked %q", test.name, cluster.asked)
		}
	}
	// An unsealed policy is checked even if its paramKind does not change.
	if got := ask("validate", "dev", authored("ConfigMap"), authored("ConfigMap")); got.Allowed {
		t.Error("an update of what nobody was asked about is allowed")
	}
	if strings.Contains(log.String(), "Forbidden") {
		t.Error("the log has messages: " + log.String())
	}
	seal = nil
	if got := ask("mutate", "root", authored("ConfigMap"), ""); got.Allowed ||
		!strings.Contains(string(got.Patch), "not known yet") {
		t.Errorf("without a key: %+v", got)
	}
}
