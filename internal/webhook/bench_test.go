package webhook_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

func benchEngine(b *testing.B, set *policy.Set) *celgate.Engine {
	b.Helper()
	e, err := celgate.New(set, celgate.Options{WithoutQuirks: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range e.Rejections() {
		b.Fatal(r.Status.Message)
	}
	return e
}

func benchSet(b *testing.B, path string) *policy.Set {
	b.Helper()
	docs, problems := manifest.Load(path)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		b.Fatal(err)
	}
	return &bundle.Set
}

// A connected recorder has a connection, as HTTP/1.1 responses do, which is never taken over in time.
type connected struct{ *httptest.ResponseRecorder }

func (connected) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.ErrUnsupported
}

// BenchmarkMutate has a Deployment changed by four mutating policies, without a network. bench/serve compares celgate
// serve with handlers that do not evaluate policies.
func BenchmarkMutate(b *testing.B) {
	review, err := os.ReadFile("testdata/deployment.json")
	if err != nil {
		b.Fatal(err)
	}
	engine := benchEngine(b, benchSet(b, "testdata/four.yaml"))
	handler := &webhook.Handler{Engine: func() *celgate.Engine { return engine }}
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequest(http.MethodPost, "/mutate?timeout=10s", bytes.NewReader(review))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(connected{answer}, request)
		if !bytes.Contains(answer.Body.Bytes(), []byte(`"patch"`)) {
			b.Fatal(answer.Code, answer.Body)
		}
	}
}

// BenchmarkLoad compiles 1,000 policies, as after each change of one, and reports their memory.
func BenchmarkLoad(b *testing.B) {
	four := benchSet(b, "testdata/four.yaml")
	set := &policy.Set{}
	for i := range 250 {
		for _, p := range four.Policies {
			next := *p
			next.Name = fmt.Sprintf("%s-%d", p.Name, i)
			set.Policies = append(set.Policies, &next)
		}
		for _, bind := range four.Bindings {
			next := *bind
			next.Name, next.PolicyName = fmt.Sprintf("%s-%d", bind.Name, i), fmt.Sprintf("%s-%d", bind.PolicyName, i)
			set.Bindings = append(set.Bindings, &next)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var e *celgate.Engine
	for b.Loop() {
		e = benchEngine(b, set)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB-held")
	runtime.KeepAlive(e)
}
