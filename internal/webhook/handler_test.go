package webhook_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

func engine(t *testing.T, path string) *celgate.Engine {
	t.Helper()
	return engineIn(t, path, celgate.Options{WithoutQuirks: true})
}

func engineIn(t *testing.T, path string, options celgate.Options) *celgate.Engine {
	t.Helper()
	docs, problems := manifest.Load(path)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		t.Fatal(err)
	}
	e, err := celgate.New(&bundle.Set, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range e.Rejections() {
		t.Fatal(r.Status.Message)
	}
	return e
}

// post sends a review and returns the answer's code and body.
func post(t *testing.T, url, contentType string, body io.Reader) (int, string) {
	t.Helper()
	response, err := http.Post(url, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestReviews answers each review of testdata as written beside it.
func TestReviews(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }})
	defer server.Close()
	var disagreements []webhook.Disagreement
	shadow := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, Shadow: true,
		Observe: func(o webhook.Observation) {
			disagreements = o.Disagreements()
		},
	},
	)
	defer shadow.Close()
	would := map[string][]webhook.Disagreement{
		"mutated": {{Policy: "label", Would: "change"}}, "mutated of 1.33": {{Policy: "label", Would: "change"}},
		"denied": {{Policy: "no-passwords.example.com", Would: "deny"}},
	}
	for _, test := range []struct{ name, path, request, want string }{
		{"mutated", "mutate", `"operation":"CREATE","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a/b":"1"}}`,
			`{"uid":"u","allowed":true,"patch":[{"op":"add","path":"/metadata/labels","value":{"owner":"dev"}}],"patchType":"JSONPatch",` +
				`"auditAnnotations":{"mutated_by":"[{\"policy\":\"label\",\"binding\":\"label\",\"mutations\":[0],\"paths\":[\"/metadata/labels\"]}]"}}`},
		{"mutated of 1.33", "mutate", `"operation":"CREATE","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","creationTimestamp":null}}`,
			`{"uid":"u","allowed":true,"patch":[{"op":"add","path":"/metadata/labels","value":{"owner":"dev"}}],"patchType":"JSONPatch",` +
				`"auditAnnotations":{"mutated_by":"[{\"policy\":\"label\",\"binding\":\"label\",\"mutations\":[0],\"paths\":[\"/metadata/labels\"]}]"}}`},
		{"nothing to change", "mutate", `"operation":"CREATE","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"owner":"dev"}}}`,
			`{"uid":"u","allowed":true}`},
		{"denied", "validate", `"operation":"CREATE","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"password":"<x>"}}`,
			`{"uid":"u","allowed":false,"status":{"metadata":{},"status":"Failure","message":"configmaps \"c\" is forbidden: ` +
				`ValidatingAdmissionPolicy 'no-passwords.example.com' with binding 'no-passwords' denied request: no <password> in c","reason":"Forbidden",` +
				`"details":{"name":"c","kind":"configmaps","causes":[{"message":"ValidatingAdmissionPolicy 'no-passwords.example.com' with binding 'no-passwords' denied request: no <password> in c"}]},"code":403},` +
				`"auditAnnotations":{"no-passwords.example.com_size":"1 members"}}`},
		{"warned", "validate", `"operation":"CREATE","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"secret":"x"}}`,
			`{"uid":"u","allowed":true,"auditAnnotations":{"no-passwords.example.com_size":"1 members"},` +
				`"warnings":["Validation failed for ValidatingAdmissionPolicy 'warn' with binding 'warn': secrets are for Secrets"]}`},
		{"deleted", "mutate", `"operation":"DELETE","oldObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
			`{"uid":"u","allowed":true}`},
		{"integers stay integers", "mutate", `"operation":"UPDATE","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","generation":9007199254740993}},"oldObject":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`,
			`{"uid":"u","allowed":true}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"","version":"v1","kind":"ConfigMap"},` +
				`"resource":{"group":"","version":"v1","resource":"configmaps"},"name":"c","namespace":"default","userInfo":{"username":"dev"},` + test.request + `}}`
			code, text := post(t, server.URL+"/"+test.path+"?timeout=5s", "application/json", strings.NewReader(body))
			if code != http.StatusOK {
				t.Fatalf("%d %s", code, text)
			}
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(text), &review); err != nil {
				t.Fatal(err)
			}
			if review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || review.Request != nil {
				t.Errorf("%s", text)
			}
			var got struct{ Response json.RawMessage }
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			have := string(got.Response)
			if patch := review.Response.Patch; patch != nil { // in base64
				encoded, _ := json.Marshal(patch)
				have = strings.Replace(have, string(encoded), string(patch), 1)
			}
			if have != test.want {
				t.Errorf("\nhave %s\nwant %s", have, test.want)
			}

			_, text = post(t, shadow.URL+"/"+test.path, "application/json", strings.NewReader(body))
			if want := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true}}`; text != want {
				t.Errorf("in a shadow\nhave %s\nwant %s", text, want)
			}
			if !slices.Equal(disagreements, would[test.name]) {
				t.Errorf("disagreements %v", disagreements)
			}
		})
	}
}

// TestNoAnswer sends requests that do not get a review back.
func TestNoAnswer(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE"}}`
	ready := func() *celgate.Engine { return e }
	for _, test := range []struct {
		name   string
		engine func() *celgate.Engine
		path   string
		media  string
		body   string
		code   int
		text   string
	}{
		{"no engine", func() *celgate.Engine { return nil }, "/mutate", "application/json", review, 503,
			"policies are not loaded yet"},
		{"panic", func() *celgate.Engine { panic("boom") }, "/mutate", "application/json", review, 500,
			"internal error"},
		{"other path", ready, "/", "application/json", review, 404, "404 page not found"},
		{"content type", ready, "/validate", "text/plain", review, 415,
			`content type "text/plain" is not application/json`},
		{"empty", ready, "/validate", "application/json", "", 400,
			"the body is not an AdmissionReview: unexpected end of JSON input"},
		{"other version", ready, "/validate", "application/json", strings.Replace(review, "/v1", "/v1beta1", 1), 400,
			`the body is "AdmissionReview" of "admission.k8s.io/v1beta1", not an AdmissionReview of admission.k8s.io/v1`},
		{"no request", ready, "/validate", "application/json",
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, "the AdmissionReview does not have a request"},
		{"no uid", ready, "/validate", "application/json", strings.Replace(review, `"u"`, `""`, 1), 400,
			"the request does not have a uid"},
		{"operation", ready, "/validate", "application/json", strings.Replace(review, "CREATE", "READ", 1), 400,
			`unknown operation "READ"`},
		{"object is a list", ready, "/validate", "application/json",
			strings.Replace(review, `"CREATE"`, `"CREATE","object":[]`, 1), 400,
			"the body is not an AdmissionReview: json: cannot unmarshal array into Go struct field request.request.object of type map[string]interface {}"},
		{"too long", ready, "/validate", "application/json", strings.Repeat(" ", 8<<20+1), 413,
			"the body is longer than 8388608 bytes"},
		{"timeout", ready, "/validate?timeout=soon", "application/json", review, 400, `timeout "soon" is not a duration`},
		{"too late", ready, "/validate?timeout=1ns", "application/json", review, 504,
			"not answered in time: context deadline exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen []webhook.Observation
			server := httptest.NewServer(&webhook.Handler{Engine: test.engine,
				Observe: func(o webhook.Observation) { seen = append(seen, o) }})
			defer server.Close()
			code, text := post(t, server.URL+test.path, test.media, strings.NewReader(test.body))
			if code != test.code || text != test.text+"\n" {
				t.Errorf("have %d %swant %d %s", code, text, test.code, test.text)
			}
			if test.code != 404 && (len(seen) != 1 || seen[0].Code != code) {
				t.Errorf("observed %+v", seen)
			}
		})
	}
}

// TestOwnKinds tests policies of celgate's own group with the server's write-time rules.
func TestOwnKinds(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }})
	defer server.Close()
	for _, test := range []struct{ name, expression, want string }{
		{"good", "true", ""},
		{"bad", "1 +", `ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: spec.validations[0].expression: Invalid value: "1 +": compilation failed: ERROR: <input>:1:4: Syntax error: `},
		{"no spec", "", `validations or auditAnnotations must contain at least one item`},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := map[string]any{
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
					"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"pods"},
					"operations": []any{"CREATE"},
				}}},
			}
			if test.expression != "" {
				spec["validations"] = []any{map[string]any{"expression": test.expression}}
			}
			body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
				"request": map[string]any{
					"uid": "u", "operation": "CREATE", "name": "p",
					"resource": map[string]any{"group": policy.OwnGroup, "version": "v1",
						"resource": "validatingadmissionpolicies"},
					"object": map[string]any{"apiVersion": policy.OwnGroup + "/v1", "kind": "ValidatingAdmissionPolicy",
						"metadata": map[string]any{"name": "p"}, "spec": spec},
				},
			},
			)
			if err != nil {
				t.Fatal(err)
			}
			_, text := post(t, server.URL+"/validate", "application/json", strings.NewReader(string(body)))
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(text), &review); err != nil {
				t.Fatal(err, text)
			}
			if review.Response.Allowed != (test.want == "") ||
				test.want != "" && !strings.Contains(review.Response.Result.Message, test.want) {
				t.Errorf("have %s\nwant %s", text, test.want)
			}
		})
	}
}

// FuzzHandler sends anything to the handler.
func FuzzHandler(f *testing.F) {
	seed, err := os.ReadFile("testdata/review.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, true)
	docs, _ := manifest.Load("testdata/policies.yaml")
	e, err := celgate.New(&manifest.NewBundle(docs...).Set, celgate.Options{WithoutQuirks: true})
	if err != nil {
		f.Fatal(err)
	}
	handler := &webhook.Handler{Engine: func() *celgate.Engine { return e }}
	f.Fuzz(func(t *testing.T, body []byte, mutate bool) {
		path := "/validate?timeout=5s"
		if mutate {
			path = "/mutate?timeout=5s"
		}
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(body)))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		start := time.Now()
		handler.ServeHTTP(recorder, request)
		switch {
		case recorder.Code == http.StatusInternalServerError:
			t.Errorf("%s", recorder.Body)
		case recorder.Code == http.StatusOK && !json.Valid(recorder.Body.Bytes()):
			t.Errorf("no JSON: %s", recorder.Body)
		case time.Since(start) > 10*time.Second:
			t.Errorf("took %s", time.Since(start))
		}
	})
}

// TestMutatedBy names the mutations of a policy that changed something, and no others.
func TestMutatedBy(t *testing.T) {
	path := t.TempDir() + "/policies.yaml"
	err := os.WriteFile(path, []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: labels}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}}
  - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "test", path: "/metadata/labels/a", value: "b"}]'}}
  - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/c", value: "d"}]'}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: labels}
spec: {policyName: labels}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, path)
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }})
	defer server.Close()
	code, text := post(t, server.URL+"/mutate", "application/json", strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","name":"c","namespace":"default",`+
			`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},`+
			`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}}}`,
	))
	if want := `"mutated_by":"[{\"policy\":\"labels\",\"binding\":\"labels\",\"mutations\":[0,2],\"paths\":[\"/metadata/labels\"]}]"`; code != 200 || !strings.Contains(text, want) {
		t.Errorf("%d %s\nnot %s", code, text, want)
	}
}

// TestQuotes sends texts that are long or secret: they are neither answered nor logged whole, and values are not
// logged.
func TestQuotes(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	long := strings.Repeat("9", 1_000_000)
	review := func(request string) string {
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{` + request + `}}`
	}
	for name, test := range map[string]struct {
		query, body string
		code        int
	}{
		"a number":         {"", review(`"uid":"u","operation":"CREATE","object":{"pin":` + long + `e99999}`), 400},
		"a secret number":  {"", review(`"uid":"u","operation":"CREATE","object":{"pin":777e4000}`), 400},
		"an operation":     {"", review(`"uid":"u","operation":"777` + long + `"`), 400},
		"a uid":            {"", review(`"uid":"777` + long + `","operation":"CREATE"`), 400},
		"a kind":           {"", `{"kind":"777` + long + `"}`, 400},
		"a short kind":     {"", `{"kind":"777"}`, 400},
		"a name":           {"?timeout=1ns", review(`"uid":"u","operation":"CREATE","name":"` + long + `"`), 504},
		"a user":           {"?timeout=1ns", review(`"uid":"u","operation":"CREATE","userInfo":{"username":"` + long + `"}`), 504},
		"a namespace":      {"?timeout=1ns", review(`"uid":"u","operation":"CREATE","namespace":"` + long + `"`), 504},
		"a resource":       {"?timeout=1ns", review(`"uid":"u","operation":"CREATE","resource":{"resource":"` + long + `"}`), 504},
		"a timeout":        {"?timeout=" + long[:5000], review(`"uid":"u"`), 400},
		"a policy's kind":  {"", review(`"uid":"u","operation":"CREATE","resource":{"group":"policy.celgate.dev"},"object":{"kind":"777` + long + `"}`), 400},
		"a policy's level": {"", review(`"uid":"u","operation":"CREATE","resource":{"group":"policy.celgate.dev"},"object":{"apiVersion":"777"}`), 400},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			timeless := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey { // it may be anything, 777 ms too
					return slog.Attr{}
				}
				return a
			}}
			server := httptest.NewServer(&webhook.Handler{
				Engine: func() *celgate.Engine { return e }, Log: slog.New(slog.NewTextHandler(&log, timeless)),
			})
			defer server.Close()
			code, text := post(t, server.URL+"/validate"+test.query, "application/json", strings.NewReader(test.body))
			if code != test.code || len(text) > 500 {
				t.Errorf("%d, %d bytes: %.500s", code, len(text), text)
			}
			if logged := log.String(); len(logged) > 1000 || !strings.Contains(logged, "request not answered") ||
				strings.Contains(logged, "777") {
				t.Errorf("logged: %.1000s", logged)
			}
		})
	}
}
