package election

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/celgate/celgate/cmd/internal/kube"
)

// A server holds one Lease, as the API server does: it refuses an update of an older version.
type server struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease // nil: none
	version int
	away    chan struct{} // requests wait until it is closed, or their senders give up; nil: they are answered
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away != nil {
		select {
		case <-away:
		case <-r.Context().Done():
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, code, reason)
	}
	var sent *coordinationv1.Lease
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender has disconnected
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			refuse(http.StatusBadRequest, err.Error())
			return
		}
		sent, _ = object.(*coordinationv1.Lease)
	}
	switch {
	case r.Method == http.MethodPost && s.lease != nil:
		refuse(http.StatusConflict, "AlreadyExists")
		return
	case r.Method != http.MethodPost && s.lease == nil:
		refuse(http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPut && sent.ResourceVersion != s.lease.ResourceVersion:
		refuse(http.StatusConflict, "Conflict")
		return
	}
	if sent != nil {
		s.version++
		sent.ResourceVersion = strconv.Itoa(s.version)
		sent.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
		s.lease = sent
	}
	_ = json.NewEncoder(w).Encode(s.lease)
}

// holder returns the holder of the Lease.
func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || s.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

func connect(t *testing.T, s *server) *kube.Client {
	t.Helper()
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	t.Cleanup(listener.CloseClientConnections)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(
		`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}`,
		listener.URL,
	)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.Connect(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A history records the leaders, and that two never lead at the same time.
type history struct {
	t       *testing.T
	mu      sync.Mutex
	leading int
	terms   []string
	ended   []time.Time
}

// run lets a replica compete until the context ends.
func (h *history) run(ctx context.Context, client *kube.Client, name string, before func()) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := &Candidate{Client: client, Namespace: "own", Name: "celgate", Identity: name,
			Log: slog.New(slog.DiscardHandler)}
		err := c.Lead(ctx, func(ctx context.Context) {
			h.mu.Lock()
			h.terms = append(h.terms, name)
			if h.leading++; h.leading > 1 {
				h.t.Error("two leaders")
			}
			h.mu.Unlock()
			<-ctx.Done()
			before()
			h.mu.Lock()
			h.leading--
			h.ended = append(h.ended, time.Now())
			h.mu.Unlock()
		})
		if err != nil {
			h.t.Error(err)
		}
	}()
	return done
}

func (h *history) await(what string, within time.Duration, terms ...string) {
	h.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		h.mu.Lock()
		got := slices.Clone(h.terms)
		h.mu.Unlock()
		if slices.Equal(got, terms) {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("%s: %q led, want %q", what, got, terms)
		}
	}
}

// TestHandOver lets two replicas compete: one leads at a time, the other one follows when it ends, and the leader
// releases the Lease only after its work has ended.
func TestHandOver(t *testing.T) {
	s := &server{}
	client := connect(t, s)
	h := &history{t: t}
	first, stopFirst := context.WithCancel(t.Context())
	second, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	a := h.run(first, client, "a", func() {
		time.Sleep(100 * time.Millisecond)
		if s.holder() != "a" {
			t.Error("the Lease was given back while its holder led")
		}
	})
	h.await("nobody leads", 5*time.Second, "a")
	b := h.run(second, client, "b", func() {})
	time.Sleep(50 * time.Millisecond)
	stopFirst()
	<-a
	h.await("nobody follows", 10*time.Second, "a", "b")
	stopSecond()
	<-b
	if holder := s.holder(); holder != "" {
		t.Errorf("%s holds the Lease after the end", holder)
	}
}

// TestServerAway freezes the API server: the holder stops leading before another replica may take the Lease, and leads
// again afterwards.
func TestServerAway(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a lease to end")
	}
	s := &server{}
	client := connect(t, s)
	h := &history{t: t}
	ctx, stop := context.WithCancel(t.Context())
	done := h.run(ctx, client, "a", func() {})
	h.await("nobody leads", 5*time.Second, "a")
	frozen := time.Now()
	s.mu.Lock()
	s.away = make(chan struct{})
	s.mu.Unlock()
	for {
		time.Sleep(50 * time.Millisecond)
		h.mu.Lock()
		n := len(h.ended)
		h.mu.Unlock()
		if n > 0 {
			break
		}
		if time.Since(frozen) > leaseDuration {
			t.Fatal("it leads though others may take the Lease")
		}
	}
	s.mu.Lock()
	close(s.away)
	s.away = nil
	s.mu.Unlock()
	h.await("it does not lead again", 30*time.Second, "a", "a")
	stop()
	<-done
}
