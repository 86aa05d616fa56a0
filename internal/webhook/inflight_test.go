package webhook_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
)

// TestSlowShortBodies has many senders of short bodies that never send the end. The announced length counts before the
// body is read, each sender has a short time limit, and other requests are answered meanwhile.
func TestSlowShortBodies(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	const bound = 8 << 20
	inFlight := webhook.NewInFlight(bound)
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, InFlight: inFlight})
	defer server.Close()
	var senders sync.WaitGroup
	answers := make(chan int, 300)
	for i := range 300 {
		header := "Content-Length: 65500"
		sent := strings.Repeat(" ", 65000)
		if i%3 == 0 {
			header, sent = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(sent), sent)
		}
		senders.Go(func() {
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // never fails for an open connection
			// Some of it may find the connection closed.
			_, _ = io.WriteString(c, "POST /validate HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\n"+
				header+"\r\n\r\n"+sent)
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				answers <- 0
				return
			}
			answers <- response.StatusCode
		})
	}
	most := int64(0)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		most = max(most, inFlight.Bytes())
	}
	if most < bound/2 || most > bound {
		t.Errorf("%d bytes are in flight", most)
	}
	code, text := post(t, server.URL+"/validate?timeout=10s", "application/json", strings.NewReader(
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE"}}`,
	))
	if code != http.StatusOK {
		t.Errorf("another one: %d %s", code, text)
	}
	senders.Wait()
	close(answers)
	for code := range answers {
		if code != http.StatusRequestTimeout {
			t.Errorf("answered with %d", code)
		}
	}
	if n := inFlight.Bytes(); n != 0 {
		t.Errorf("%d bytes stay in flight", n)
	}
}

// TestUnknownLength reads bodies whose length is not announced.
func TestUnknownLength(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	inFlight := webhook.NewInFlight(0)
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, InFlight: inFlight})
	defer server.Close()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE"}}`
	for _, test := range []struct{ filler, code int }{{0, 200}, {64 << 10, 200}, {4 << 20, 200}, {8 << 20, 413}} {
		body := io.MultiReader(strings.NewReader(strings.Repeat(" ", test.filler)), strings.NewReader(review))
		if code, text := post(t, server.URL+"/validate", "application/json", body); code != test.code {
			t.Errorf("%d: %d %s", test.filler, code, text)
		}
	}
	if n := inFlight.Bytes(); n != 0 {
		t.Errorf("%d bytes stay in flight", n)
	}
}

// TestWaitingBodies has bodies whose trees need much more memory than their bytes, while others hold the available
// memory: they wait with their bytes counted, so that the bound is never exceeded.
func TestWaitingBodies(t *testing.T) {
	e, world := stuckEngine(t)
	const bound = 8 << 20
	inFlight, evaluations := webhook.NewInFlight(bound), webhook.NewEvaluations()
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, InFlight: inFlight,
		Evaluations: evaluations})
	defer server.Close()
	maps := strings.Repeat(`{"":{}},`, 200_000) // 1.6 MB, which count as more than 7
	var senders sync.WaitGroup
	for range 12 {
		senders.Go(func() {
			code, text := post(t, server.URL+"/validate?timeout=3s", "application/json", strings.NewReader(
				`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"ConfigMap"},`+
					`"resource":{"version":"v1","resource":"configmaps"},"name":"c","namespace":"default","operation":"CREATE",`+
					`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"x":[`+maps+`0]}}}`))
			if code != http.StatusGatewayTimeout && code != http.StatusServiceUnavailable {
				t.Errorf("%d %.200s", code, text)
			}
		})
	}
	most := int64(0)
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		most = max(most, inFlight.Bytes())
		if n := evaluations.Counts().Running; n > 1 {
			t.Fatalf("%d are made something of at once", n)
		}
	}
	if most <= bound || most > 2*bound {
		t.Errorf("%d bytes are in flight", most)
	}
	senders.Wait()
	close(world.freed)
	for end := time.Now().Add(10 * time.Second); inFlight.Bytes() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := inFlight.Bytes(); n != 0 {
		t.Errorf("%d bytes stay in flight", n)
	}
}

// TestBodyInTime is a sender of a long body that takes longer than the request may.
func TestBodyInTime(t *testing.T) {
	e := engine(t, "testdata/policies.yaml")
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e },
		InFlight: webhook.NewInFlight(0)})
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // never fails for an open connection
	start := time.Now()
	fmt.Fprint(c, "POST /validate?timeout=1s HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\n"+
		"Content-Length: 100000\r\n\r\n{")
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); response.StatusCode != http.StatusGatewayTimeout || took > 2*time.Second {
		t.Errorf("%s after %v", response.Status, took)
	}
}
