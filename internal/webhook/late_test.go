package webhook_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

const configMapReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
	`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"name":"c",` +
	`"namespace":"default","operation":"CREATE","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}}}`

// A lateServer has policies that wait until they are released, and records the observed answers.
type lateServer struct {
	*httptest.Server
	evaluations *webhook.Evaluations
	inFlight    *webhook.InFlight

	mu       sync.Mutex
	observed []webhook.Observation
}

func newLateServer(t *testing.T, e *celgate.Engine, http2 bool) *lateServer {
	t.Helper()
	s := &lateServer{evaluations: webhook.NewEvaluations(), inFlight: webhook.NewInFlight(0)}
	s.Server = httptest.NewUnstartedServer(&webhook.Handler{
		Engine: func() *celgate.Engine { return e }, Evaluations: s.evaluations, InFlight: s.inFlight,
		Observe: func(o webhook.Observation) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.observed = append(s.observed, o)
		},
	})
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// await waits for the evaluations that go on.
func (s *lateServer) await(t *testing.T, running int64) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); s.evaluations.Counts().Running != running; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", s.evaluations.Counts())
		}
	}
}

// TestLate has a request whose evaluation continues after its deadline: it is answered and observed once, releases its
// bytes and, over HTTP/1.1, its connection, so that another request does not wait for the remaining work.
func TestLate(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			e, world := stuckEngine(t)
			s := newLateServer(t, e, protocol == "HTTP/2.0")
			const times = 2
			for range times {
				response, err := s.Client().Post(s.URL+"/validate?timeout=1s", "application/json",
					strings.NewReader(configMapReview))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || response.Proto != protocol || response.StatusCode != http.StatusGatewayTimeout ||
					!strings.Contains(string(text), "not answered in time") {
					t.Errorf("%s %s %s %v", response.Proto, response.Status, text, err)
				}
				if response.Close != (protocol == "HTTP/1.1") {
					t.Errorf("the connection is to be closed: %v", response.Close)
				}
			}
			if c := s.evaluations.Counts(); c.Running != times || c.Abandoned != times || s.inFlight.Bytes() != 0 {
				t.Errorf("%+v, %d bytes", c, s.inFlight.Bytes())
			}
			close(world.freed)
			s.await(t, 0)
			if code, text := s.post(t, "10s", configMapReview); code != http.StatusOK {
				t.Errorf("later: %d %s", code, text)
			}
			s.Close() // waits for all handlers
			var codes []int
			for _, o := range s.observed {
				codes = append(codes, o.Code)
				if o.Request == nil || o.Request.UID != "u" || (o.Decision == nil) != (o.Code != http.StatusOK) {
					t.Errorf("observed: %+v", o)
				}
			}
			if len(codes) != times+1 || codes[0] != 504 || codes[1] != 504 || codes[2] != 200 {
				t.Errorf("observed: %v", codes)
			}
			if c := s.evaluations.Counts(); c != (webhook.Counts{AbandonedTotal: times}) || s.inFlight.Bytes() != 0 {
				t.Errorf("%+v, %d bytes", c, s.inFlight.Bytes())
			}
		})
	}
}

func (s *lateServer) post(t *testing.T, timeout, body string) (int, string) {
	t.Helper()
	response, err := s.Client().Post(s.URL+"/validate?timeout="+timeout, "application/json", strings.NewReader(body))
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

// TestLeft has a client that disconnects before the answer: its evaluation is abandoned.
func TestLeft(t *testing.T) {
	e, world := stuckEngine(t)
	s := newLateServer(t, e, false)
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/validate?timeout=30s",
		strings.NewReader(configMapReview))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := s.Client().Do(request); err == nil {
			response.Body.Close()
			t.Errorf("%s, though nobody waits", response.Status)
		}
	}()
	s.await(t, 1)
	leave()
	<-left
	for end := time.Now().Add(10 * time.Second); s.evaluations.Counts().Abandoned != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", s.evaluations.Counts())
		}
	}
	close(world.freed)
	s.await(t, 0)
}

// TestLatePanic is an evaluation that breaks, in time and after its request was answered: neither ends the program.
func TestLatePanic(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	for _, test := range []struct {
		name, timeout string
		code          int
	}{
		{"in time", "30s", http.StatusInternalServerError},
		{"late", "1s", http.StatusOK}, // a denial
	} {
		t.Run(test.name, func(t *testing.T) {
			freed := make(chan struct{})
			evaluations := webhook.NewEvaluations()
			server := httptest.NewServer(&webhook.Handler{
				Engine: func() *celgate.Engine { return e }, Evaluations: evaluations,
				Named: func(context.Context, *policy.Binding) ([]*policy.Policy, error) { <-freed; panic("boom") },
			})
			defer server.Close()
			if test.code != http.StatusOK {
				close(freed)
			}
			code, text := post(t, server.URL+"/validate?timeout="+test.timeout, "application/json", strings.NewReader(
				`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","name":"b","operation":"CREATE",`+
					`"resource":{"group":"policy.celgate.dev","version":"v1","resource":"validatingadmissionpolicybindings"},`+
					`"object":{"apiVersion":"policy.celgate.dev/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b"},`+
					`"spec":{"policyName":"p","paramRef":{"name":"x","parameterNotFoundAction":"Deny"},"validationActions":["Deny"]}}}}`))
			if code != test.code || strings.Contains(text, "boom") {
				t.Errorf("%d %s", code, text)
			}
			if test.code == http.StatusOK {
				close(freed)
			}
			for end := time.Now().Add(10 * time.Second); evaluations.Counts().Running > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%+v", evaluations.Counts())
				}
			}
			if code, text := post(t, server.URL+"/validate?timeout=30s", "application/json",
				strings.NewReader(configMapReview)); code != http.StatusOK {
				t.Errorf("afterwards: %d %s", code, text)
			}
		})
	}
}
