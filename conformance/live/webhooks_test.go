package live

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/celgate/celgate/conformance/server"
)

// webhookCalls are the webhooks that a server has called for requests of the test, in order: PHASE/NAME/CONFIGURATION.
type webhookCalls struct {
	mu    sync.Mutex
	calls []string
}

func (w *webhookCalls) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(in.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(out, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	if review.Request.DryRun != nil && *review.Request.DryRun { // as no write of the server itself is
		w.mu.Lock()
		w.calls = append(w.calls, strings.TrimPrefix(in.URL.Path, "/"))
		w.mu.Unlock()
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	if err := json.NewEncoder(out).Encode(review); err != nil {
		panic(err)
	}
}

// take returns the calls of a phase since take was last called, and forgets them.
func (w *webhookCalls) take() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := map[string][]string{}
	for _, call := range w.calls {
		phase, name, _ := strings.Cut(call, "/")
		calls[phase] = append(calls[phase], name)
	}
	w.calls = nil
	return calls
}

// hookedWorld is what selectors of webhooks look at, and objects that exist.
const hookedWorld = `
{apiVersion: v1, kind: Namespace, metadata: {name: hooked-a, labels: {team: a}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: hooked-b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a-here, namespace: hooked-a, labels: {app: x}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: here, namespace: hooked-b}}
---
{apiVersion: v1, kind: Secret, metadata: {name: here, namespace: hooked-a}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: hooked-here, labels: {app: x}}}
`

// hookedKinds are templates with a name, a namespace and labels.
var hookedKinds = []string{
	"kind: ConfigMap, metadata: {name: NAME, namespace: NAMESPACE, LABELS}, apiVersion: v1, data: {a: b}",
	"kind: Secret, metadata: {name: NAME, namespace: NAMESPACE, LABELS}, apiVersion: v1, stringData: {a: b}",
	"kind: ServiceAccount, metadata: {name: NAME, namespace: NAMESPACE, LABELS}, apiVersion: v1",
	"kind: ClusterRole, metadata: {name: hooked-NAME, LABELS}, apiVersion: rbac.authorization.k8s.io/v1, rules: []",
	"kind: Deployment, metadata: {name: NAME, namespace: NAMESPACE, LABELS}, apiVersion: apps/v1, spec: {selector: " +
		"{matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
}

// sentinelHook is called for ConfigMaps of one name alone, which shows that all configurations before are in force.
const sentinelHook = "sentinel.hooked.example/hooked-z"

// TestWebhooks compares what celgate says of the webhooks that a server would call for requests with the calls of a
// server: random rules, selectors, match conditions and failure policies, in the order of the calls.
func TestWebhooks(t *testing.T) {
	var calls webhookCalls
	hook := httptest.NewTLSServer(&calls)
	t.Cleanup(hook.Close)
	apply := func(object map[string]any) *server.Answer {
		t.Helper()
		call := server.Apply(pathOf(object), object)
		call.Query.Set("dryRun", "All")
		answer, err := api.Do(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	put(t, strings.NewReplacer("[CREATE]", "[CREATE, UPDATE]", "anything", "anything-hooked").Replace(anything))
	keep(t, hookedWorld)
	r := rand.New(rand.NewPCG(*spoiledSeed, 8))
	putHooks(t, r, hook)
	sentinel := objects(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: sentinel, namespace: hooked-b, labels: {app: x}}}")[0]
	eventually(t, func() string {
		calls.take()
		apply(sentinel)
		got := calls.take()
		if !slices.Contains(got["mutating"], sentinelHook) || !slices.Contains(got["validating"], sentinelHook) {
			return "the webhooks are not in force"
		}
		return ""
	})

	var manifests []string
	for range 150 {
		labels := []string{"labels: {}", "labels: {app: x}", "labels: {app: z}"}[r.IntN(3)]
		text := strings.NewReplacer("LABELS", labels, "NAMESPACE", []string{"hooked-a", "hooked-b"}[r.IntN(2)],
			"NAME", []string{"a-new", "new", "a-here", "here"}[r.IntN(4)]).Replace(hookedKinds[r.IntN(len(hookedKinds))])
		if !slices.ContainsFunc(manifests, func(other string) bool { // celgate takes the first one for stored
			return objectName(t, other) == objectName(t, "{"+text+"}")
		}) {
			manifests = append(manifests, "{"+text+"}")
		}
	}
	result := celgate(t, strings.Join(manifests, "\n---\n"), "apply", "-o", "json", "--no-workloads", "--kubeconfig",
		api.Kubeconfig, "-")
	var list struct{ Items []askedAnswer }
	if err := json.Unmarshal([]byte(result.stdout), &list); err != nil || len(list.Items) != len(manifests) {
		t.Fatalf("%v: %d answers\n%s", err, len(list.Items), result.stderr)
	}
	called, refused := 0, 0
	for i, manifest := range manifests {
		mutating, validating, refuses := predicted(list.Items[i].Unchecked)
		calls.take()
		answer := apply(objects(t, manifest)[0])
		got := calls.take()
		slices.Sort(got["validating"]) // these are called at once
		slices.Sort(validating)
		called += len(mutating) + len(validating)
		if refuses {
			refused++
		}
		if !slices.Equal(got["mutating"], mutating) || !slices.Equal(got["validating"], validating) ||
			refuses != (answer.Code >= 400) {
			t.Errorf("%s\nserver:  %d %q\ncelgate: %v %q %q\n%.500s", manifest, answer.Code, got, refuses, mutating, validating,
				answer.Body)
		}
	}
	t.Logf("%d requests, %d calls, %d refused for an error in a match condition", len(manifests), called, refused)
	if len(manifests) < 20 || called < len(manifests) || refused == 0 || refused > len(manifests)/2 {
		t.Error("too few")
	}
}

func objectName(t *testing.T, manifest string) string { return pathOf(objects(t, manifest)[0]) }

// putHooks creates random configurations with webhooks that a server answers, and removes them when the test ends.
func putHooks(t *testing.T, r *rand.Rand, hook *httptest.Server) {
	t.Helper()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	for i, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		phase := []string{"mutating", "validating"}[i]
		for c := range 7 {
			name := fmt.Sprintf("hooked-%c", 'f'-rune(c)) // the last one comes first
			webhooks := []any{randomHook(r, "one"), randomHook(r, "two"), randomHook(r, "three")}
			if c == 6 {
				name = "hooked-z"
				webhooks = []any{map[string]any{"name": "sentinel", "failurePolicy": "Fail", "matchConditions": []any{
					map[string]any{"name": "c", "expression": "object.metadata.name == 'sentinel'"}},
					"rules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"},
						"resources": []any{"configmaps"}, "operations": []any{"CREATE", "UPDATE"}}}}}
			}
			for _, each := range webhooks {
				w := each.(map[string]any)
				w["name"] = fmt.Sprint(w["name"], ".hooked.example")
				w["sideEffects"], w["admissionReviewVersions"] = "None", []any{"v1"}
				w["clientConfig"] = map[string]any{"caBundle": certificate,
					"url": fmt.Sprintf("%s/%s/%s/%s", hook.URL, phase, w["name"], name)}
			}
			configuration := map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
				"metadata": map[string]any{"name": name}, "webhooks": webhooks}
			path := pathOf(configuration)
			t.Cleanup(func() {
				if _, err := api.Do(context.Background(), server.Call{Method: http.MethodDelete, Path: path}); err != nil {
					t.Error(err)
				}
			})
			create(t, api, configuration)
		}
	}
}

var leftWebhook = regexp.MustCompile(
	`^(mutating|validating) webhook (\S+) of (\S+) \(failurePolicy \w+\)(: the server refuses)?`)

// predicted returns the webhooks that a server calls according to celgate, and whether it refuses the request for one
// of them: the mutating ones before it are called, and none of the validating ones.
func predicted(unchecked []string) (mutating, validating []string, refuses bool) {
	for _, part := range unchecked {
		m := leftWebhook.FindStringSubmatch(part)
		switch {
		case m == nil || refuses:
		case m[4] != "":
			refuses, validating = true, nil
		case m[1] == "mutating":
			mutating = append(mutating, m[2]+"/"+m[3])
		default:
			validating = append(validating, m[2]+"/"+m[3])
		}
	}
	return mutating, validating, refuses
}

// randomHook returns a webhook without a target.
func randomHook(r *rand.Rand, name string) map[string]any {
	pick := func(from ...any) any { return from[r.IntN(len(from))] }
	texts := func(from ...any) []any { return []any{pick(from...)} }
	selector := func(key, value string) any {
		return pick(map[string]any{}, map[string]any{"matchLabels": map[string]any{key: value}},
			map[string]any{"matchExpressions": []any{
				map[string]any{"key": key, "operator": "NotIn", "values": []any{value}}}},
			map[string]any{"matchExpressions": []any{map[string]any{"key": key, "operator": "Exists"}}})
	}
	rule := func() any {
		return map[string]any{"apiGroups": texts("", "apps", "*", "*"), "apiVersions": texts("v1", "*", "*"),
			"resources":  texts("configmaps", "*", "*", "deployments", "secrets", "clusterroles", "*/*"),
			"operations": texts("CREATE", "UPDATE", "*"), "scope": pick("*", "*", "Namespaced", "Cluster")}
	}
	hook := map[string]any{"name": name, "failurePolicy": pick("Fail", "Ignore"),
		"matchPolicy": pick("Exact", "Equivalent"), "rules": []any{rule(), rule()}}
	if r.IntN(2) == 0 {
		hook["namespaceSelector"] = selector("team", "a")
	}
	if r.IntN(2) == 0 {
		hook["objectSelector"] = selector("app", "x")
	}
	var conditions []any
	for i := range r.IntN(3) {
		conditions = append(conditions, map[string]any{"name": fmt.Sprintf("c%d", i), "expression": pick(
			"object.metadata.name.startsWith('a')", "request.operation == 'UPDATE'", "request.operation == 'CREATE'",
			"has(object.metadata.labels)", "!has(object.metadata.labels) || object.metadata.labels.app == 'x'",
			"oldObject == null", "request.namespace != 'hooked-b'", "true")})
	}
	if r.IntN(5) == 0 {
		conditions = append(conditions, map[string]any{"name": "fails", "expression": "object.metadata.labels.app == 'x'"})
	}
	if conditions != nil {
		hook["matchConditions"] = conditions
	}
	return hook
}
