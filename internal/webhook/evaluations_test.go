package webhook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// A stuck cluster does not answer until it is released, even if contexts end.
type stuck struct {
	*state.Cluster
	freed chan struct{}
}

func (s stuck) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	<-s.freed
	return s.Cluster.Get(context.Background(), kind, namespace, name)
}

// stuckEngine returns an engine whose policies wait for a world that does not answer before it is let go.
func stuckEngine(t *testing.T) (*celgate.Engine, stuck) {
	t.Helper()
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := state.New(types)
	if err != nil {
		t.Fatal(err)
	}
	world := stuck{cluster, make(chan struct{})}
	e := engineIn(t, "testdata/policies.yaml", celgate.Options{WithoutQuirks: true, Cluster: world})
	return e, world
}

// Requests are answered at their deadline though their evaluation goes on; beyond too many of these the others are
// refused at once.
func TestAbandoned(t *testing.T) {
	e, world := stuckEngine(t)
	evaluations := webhook.NewEvaluations()
	inFlight := webhook.NewInFlight(0)
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, Evaluations: evaluations,
		InFlight: inFlight})
	defer server.Close()
	ask := func(group, resource, filler string) (int, string, time.Duration) {
		start := time.Now()
		code, text := post(t, server.URL+"/validate?timeout=300ms", "application/json", strings.NewReader(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"`+group+`","version":"v1","kind":"ConfigMap"},`+
				`"resource":{"group":"`+group+`","version":"v1","resource":"`+resource+`"},"name":"c","namespace":"default","operation":"CREATE",`+
				`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"f":"`+filler+`"}}}}`,
		))
		return code, text, time.Since(start)
	}
	filler := strings.Repeat("x", 100_000) // in the lane of long bodies
	var all sync.WaitGroup
	slots := int64(min(max(4, 2*runtime.GOMAXPROCS(0)), 32))
	for range slots {
		all.Go(func() {
			if code, text, took := ask("", "configmaps", filler); code != http.StatusGatewayTimeout ||
				took > 2*time.Second {
				t.Errorf("%d %s after %v", code, text, took)
			}
		})
	}
	all.Wait()
	if c := evaluations.Counts(); c.Abandoned != slots || c.Running != slots || c.AbandonedTotal != slots {
		t.Errorf("%+v", c)
	}
	if code, text, took := ask("", "configmaps", filler); code != http.StatusServiceUnavailable ||
		took > 200*time.Millisecond {
		t.Errorf("%d %s after %v", code, text, took)
	}
	if code, text, _ := ask(policy.OwnGroup, "validatingadmissionpolicies", ""); code == http.StatusServiceUnavailable {
		t.Errorf("a policy cannot be taken back: %d %s", code, text)
	}
	close(world.freed)
	for end := time.Now().Add(10 * time.Second); evaluations.Counts().Running > 0 &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if c := evaluations.Counts(); c.Abandoned != 0 || c.Running != 0 || c.AbandonedTotal != slots || c.RefusedTotal != 1 {
		t.Errorf("%+v", c)
	}
	if code, text, _ := ask("", "configmaps", filler); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

// TestCrowd is many more requests at once than may run: as many as may do, the others wait and are answered, or refused
// at their deadline.
func TestCrowd(t *testing.T) {
	e, world := stuckEngine(t)
	evaluations := webhook.NewEvaluations()
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, Evaluations: evaluations})
	defer server.Close()
	slots := int64(min(max(4, 2*runtime.GOMAXPROCS(0)), 32))
	crowd := func(timeout string) (codes map[int]int, longest time.Duration) {
		codes = map[int]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 5 * slots {
			all.Go(func() {
				start := time.Now()
				code, _ := post(t, server.URL+"/validate?timeout="+timeout, "application/json", strings.NewReader(
					`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"ConfigMap"},`+
						`"resource":{"version":"v1","resource":"configmaps"},"name":"c","namespace":"default","operation":"CREATE",`+
						`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}}}`,
				))
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
				longest = max(longest, time.Since(start))
			})
		}
		all.Wait()
		return codes, longest
	}
	codes, longest := crowd("1s")
	if codes[http.StatusGatewayTimeout] > int(slots) || codes[http.StatusServiceUnavailable] < int(4*slots) ||
		longest > 3*time.Second {
		t.Errorf("%v after %v", codes, longest)
	}
	if c := evaluations.Counts(); c.Running > slots || c.Abandoned > slots {
		t.Errorf("%+v", c)
	}
	close(world.freed)
	for end := time.Now().Add(10 * time.Second); evaluations.Counts().Running > 0 &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if codes, _ := crowd("20s"); codes[http.StatusOK] != int(5*slots) {
		t.Errorf("an ordinary crowd: %v", codes)
	}
}

// TestPolicyInTime has a review of celgate's own kinds whose check does not end: it is denied at its deadline, and so
// are others while too many such checks run; ordinary requests are answered, and the responsible policy can be deleted.
func TestPolicyInTime(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	freed := make(chan struct{})
	evaluations := webhook.NewEvaluations()
	server := httptest.NewServer(&webhook.Handler{
		Engine: func() *celgate.Engine { return e }, Evaluations: evaluations,
		Named: func(context.Context, *policy.Binding) ([]*policy.Policy, error) { <-freed; return nil, nil },
	})
	defer server.Close()
	ask := func(operation, group, resource, object string) (string, time.Duration) {
		start := time.Now()
		code, text := post(t, server.URL+"/validate?timeout=1s", "application/json", strings.NewReader(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","name":"b","operation":"`+operation+`",`+
				`"resource":{"group":"`+group+`","version":"v1","resource":"`+resource+`"},`+object+`}}`,
		))
		if code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
		return text, time.Since(start)
	}
	const resource = "validatingadmissionpolicybindings"
	const binding = `{"apiVersion":"policy.celgate.dev/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b"},` +
		`"spec":{"policyName":"p","paramRef":{"name":"x","parameterNotFoundAction":"Deny"},"validationActions":["Deny"]}}`
	denied := func(longest time.Duration) {
		text, took := ask("CREATE", policy.OwnGroup, resource, `"object":`+binding)
		if !strings.Contains(text, `"allowed":false`) || !strings.Contains(text, "cannot be checked in time") ||
			took > longest {
			t.Errorf("after %v: %s", took, text)
		}
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { denied(3 * time.Second) })
	}
	all.Wait()
	if c := evaluations.Counts(); c.Abandoned != 2 || c.AbandonedTotal != 2 {
		t.Errorf("%+v", c)
	}
	denied(500 * time.Millisecond)
	for _, text := range []string{
		first(ask("DELETE", policy.OwnGroup, resource, `"oldObject":`+binding)),
		first(ask("CREATE", "", "configmaps", `"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`)),
	} {
		if !strings.Contains(text, `"allowed":true`) {
			t.Error(text)
		}
	}
	close(freed)
	for end := time.Now().Add(10 * time.Second); evaluations.Counts().Running > 0 &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if c := evaluations.Counts(); c.Abandoned != 0 || c.Running != 0 {
		t.Errorf("%+v", c)
	}
}

func first[A, B any](a A, _ B) A { return a }

// A hurried cluster remembers until when somebody has time for its answer.
type hurried struct {
	*state.Cluster
	until *time.Time
}

func (h hurried) Get(ctx context.Context, k schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	*h.until, _ = ctx.Deadline()
	return h.Cluster.Get(ctx, k, namespace, name)
}

// A request gets at most the time that an API server waits.
func TestLongestTimeout(t *testing.T) {
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := state.New(types)
	if err != nil {
		t.Fatal(err)
	}
	world := hurried{cluster, new(time.Time)}
	e := engineIn(t, "testdata/policies.yaml", celgate.Options{WithoutQuirks: true, Cluster: world})
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }})
	defer server.Close()
	post(t, server.URL+"/validate?timeout=1000h", "application/json", strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"ConfigMap"},`+
			`"resource":{"version":"v1","resource":"configmaps"},"name":"c","namespace":"default","operation":"CREATE",`+
			`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}}}`,
	))
	if left := time.Until(*world.until); left > 30*time.Second || left < 20*time.Second {
		t.Errorf("it has %v", left)
	}
}

// TestTwoResources has a review that first names celgate's own kinds, which have separate places, and then another
// resource.
func TestTwoResources(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	evaluations := webhook.NewEvaluations()
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, Evaluations: evaluations})
	defer server.Close()
	const own, other = `"resource":{"group":"policy.celgate.dev","version":"v1","resource":"validatingadmissionpolicies"}`,
		`"resource":{"group":"","version":"v1","resource":"configmaps"}`
	for name, test := range map[string]struct {
		members string
		code    int
	}{
		"own":           {own + `,"object":null`, http.StatusOK},
		"own, later":    {`"object":null,` + own, http.StatusOK},
		"in the object": {other + `,"object":{"kind":"ConfigMap","data":{` + own + `}}`, http.StatusOK},
		"both":          {own + `,"object":null,` + other, http.StatusBadRequest},
		"both, other":   {other + `,"object":null,` + own, http.StatusOK},
	} {
		code, text := post(t, server.URL+"/validate", "application/json", strings.NewReader(
			`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE",`+
				test.members+`}}`))
		if code != test.code {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if c := evaluations.Counts(); c.Running != 0 {
			t.Fatalf("%s: a place is not given back: %+v", name, c)
		}
	}
}

// A waiting cluster has an authorizer that does not answer until it is released, and counts its calls.
type waiting struct {
	stuck
	authorized chan struct{}
	asked      *atomic.Int64
}

func (w waiting) Authorizer() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		w.asked.Add(1)
		<-w.authorized
		return authorizer.DecisionAllow, "", nil
	})
}

// checks returns a policy with several permission checks, one after the other, and another one without any.
const checks = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: asks}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  validations:
  - expression: "['a', 'b', 'c'].all(n, authorizer.group('').resource('secrets').name(n).check('get').allowed())"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: asks}
spec: {policyName: asks, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: plain}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [secrets], operations: [CREATE]}]
  validations: [{expression: "object.metadata.name != 'bad'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: plain}
spec: {policyName: plain, validationActions: [Deny]}
`

// An aside is a server whose policies wait for an API server, and one beside it in the same bound whose policies wait
// in their places.
type aside struct {
	world        waiting
	evaluations  *webhook.Evaluations
	asks, blocks string // addresses
}

func newAside(t *testing.T) *aside {
	t.Helper()
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := state.New(types, map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "default"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &aside{
		world:       waiting{stuck{cluster, make(chan struct{})}, make(chan struct{}), new(atomic.Int64)},
		evaluations: webhook.NewEvaluations(),
	}
	path := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(path, []byte(checks), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(world celgate.Cluster) string {
		e := engineIn(t, path, celgate.Options{WithoutQuirks: true, Cluster: world})
		server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e },
			Evaluations: s.evaluations, InFlight: webhook.NewInFlight(64 << 20)})
		t.Cleanup(server.Close)
		return server.URL
	}
	s.asks, s.blocks = serve(authorizing{cluster, s.world}), serve(s.world)
	return s
}

// authorizing is a cluster with another's authorizer.
type authorizing struct {
	*state.Cluster
	by waiting
}

func (a authorizing) Authorizer() authorizer.Authorizer { return a.by.Authorizer() }

func (s *aside) post(t *testing.T, url, kind, timeout, filler string) int {
	t.Helper()
	code, _ := post(t, url+"/validate?timeout="+timeout, "application/json", strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"`+kind+`"},`+
			`"resource":{"version":"v1","resource":"`+strings.ToLower(kind)+`s"},"name":"c","namespace":"default","operation":"CREATE",`+
			`"object":{"apiVersion":"v1","kind":"`+kind+`","metadata":{"name":"c"},"data":{"f":"`+filler+`"}}}}`))
	return code
}

// await waits for counts.
func (s *aside) await(t *testing.T, what string, is func(webhook.Counts) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(s.evaluations.Counts()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %+v", what, s.evaluations.Counts())
		}
	}
}

// TestWaitsAside has policies that wait for an API server: they do not occupy a place meanwhile, are answered at their
// deadline and counted, do not send checks after it, and take a place again before they continue.
func TestWaitsAside(t *testing.T) {
	s := newAside(t)
	slots := int64(min(max(4, 2*runtime.GOMAXPROCS(0)), 32))
	n := min(3*slots, 64)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if code := s.post(t, s.asks, "ConfigMap", "3s", ""); code != http.StatusGatewayTimeout {
				t.Errorf("it waits for an authorizer, and the answer is %d", code)
			}
		})
	}
	s.await(t, "all wait", func(c webhook.Counts) bool { return c.Away == n && c.Running == n })
	if code := s.post(t, s.asks, "Secret", "2s", ""); code != http.StatusOK {
		t.Errorf("others wait for an authorizer, and this one gets %d", code)
	}
	all.Wait()
	if c := s.evaluations.Counts(); c.Abandoned != n || c.AbandonedTotal != n || c.RefusedTotal != 0 {
		t.Errorf("%+v", c)
	}
	if code := s.post(t, s.asks, "Secret", "2s", ""); code != http.StatusOK {
		t.Errorf("abandoned ones wait for an authorizer, and this one gets %d", code)
	}

	// All places are taken: a returning evaluation waits for one.
	for range slots {
		all.Go(func() {
			if code := s.post(t, s.blocks, "Secret", "20s", ""); code != http.StatusOK {
				t.Errorf("it is let go in time, and the answer is %d", code)
			}
		})
	}
	s.await(t, "all places are taken", func(c webhook.Counts) bool { return c.Running == n+slots })
	close(s.world.authorized)
	time.Sleep(50 * time.Millisecond)
	if c := s.evaluations.Counts(); c.Away != n {
		t.Errorf("they go on without a place: %+v", c)
	}
	close(s.world.freed)
	all.Wait()
	s.await(t, "all end", func(c webhook.Counts) bool { return c == webhook.Counts{AbandonedTotal: n} })
	if asked := s.world.asked.Load(); asked != n {
		t.Errorf("the authorizer was asked %d times, not once for each of %d that nobody waits for", asked, n)
	}
	if code := s.post(t, s.asks, "ConfigMap", "5s", ""); code != http.StatusOK {
		t.Errorf("with an authorizer that answers: %d", code)
	}
}

// TestWaitsInPlace has so many evaluations that wait for an API server, or such large ones, that further ones keep
// their places: their memory is bounded.
func TestWaitsInPlace(t *testing.T) {
	slots := int64(min(max(4, 2*runtime.GOMAXPROCS(0)), 32))
	for name, test := range map[string]struct {
		away   int64
		filler string
	}{
		"many":  {64, ""},
		"large": {2, strings.Repeat("x", 3<<19)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAside(t)
			var all sync.WaitGroup
			for range test.away + slots {
				all.Go(func() {
					if code := s.post(t, s.asks, "ConfigMap", "30s", test.filler); code != http.StatusOK {
						t.Errorf("%d", code)
					}
				})
			}
			s.await(t, "the places are full", func(c webhook.Counts) bool {
				return c.Away == test.away && c.Running == test.away+slots
			})
			if code := s.post(t, s.asks, "Secret", "200ms", ""); code != http.StatusServiceUnavailable {
				t.Errorf("one more: %d", code)
			}
			close(s.world.authorized)
			all.Wait()
			s.await(t, "all end", func(c webhook.Counts) bool { return c == webhook.Counts{RefusedTotal: 1} })
		})
	}
}
