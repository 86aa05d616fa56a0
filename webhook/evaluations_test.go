package webhook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
	"github.com/celgate/celgate/webhook"
)

// A stuck cluster answers nobody until it is freed, whatever contexts say.
type stuck struct {
	*state.Cluster
	freed chan struct{}
}

func (s stuck) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	<-s.freed
	return s.Cluster.Get(context.Background(), kind, namespace, name)
}

// Requests are answered at their deadline though their evaluation goes on; beyond too many of these the others are
// refused at once.
func TestAbandoned(t *testing.T) {
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
	for range 16 {
		all.Go(func() {
			if code, text, took := ask("", "configmaps", filler); code != http.StatusGatewayTimeout ||
				took > 2*time.Second {
				t.Errorf("%d %s after %v", code, text, took)
			}
		})
	}
	all.Wait()
	if c := evaluations.Counts(); c.Abandoned != 16 || c.Running != 16 || c.AbandonedTotal != 16 {
		t.Errorf("%+v", c)
	}
	if code, text, took := ask("", "configmaps", filler); code != http.StatusServiceUnavailable ||
		took > 200*time.Millisecond {
		t.Errorf("%d %s after %v", code, text, took)
	}
	if code, text, _ := ask(webhook.Group, "validatingadmissionpolicies", ""); code == http.StatusServiceUnavailable {
		t.Errorf("a policy cannot be taken back: %d %s", code, text)
	}
	close(world.freed)
	for end := time.Now().Add(10 * time.Second); evaluations.Counts().Running > 0 &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if c := evaluations.Counts(); c.Abandoned != 0 || c.Running != 0 || c.AbandonedTotal != 16 || c.RefusedTotal != 1 {
		t.Errorf("%+v", c)
	}
	if code, text, _ := ask("", "configmaps", filler); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}
