package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/webhook"
)

func benchEngine(b *testing.B, set *policy.Set) *celgate.Engine {
	b.Helper()
	e, err := celgate.New(set, celgate.Options{WithoutQuirks: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range e.Rejected() {
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
	set := &policy.Set{}
	for _, d := range docs {
		p, bind, err := policy.FromObject(d.Object, d)
		switch {
		case err != nil:
			b.Fatal(err)
		case p != nil:
			set.Policies = append(set.Policies, p)
		default:
			set.Bindings = append(set.Bindings, bind)
		}
	}
	return set
}

// BenchmarkMutate sends a Deployment to four mutating policies over loopback, beside a handler that decodes and answers
// "allowed".
func BenchmarkMutate(b *testing.B) {
	review, err := os.ReadFile("testdata/deployment.json")
	if err != nil {
		b.Fatal(err)
	}
	engine := benchEngine(b, benchSet(b, "testdata/four.yaml"))
	empty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in struct {
			Request struct {
				UID    string         `json:"uid"`
				Object map[string]any `json:"object"`
			} `json:"request"`
		}
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, in.Request.UID)
	})
	for _, one := range []struct {
		name    string
		handler http.Handler
		patched bool
	}{
		{"empty", empty, false}, {"policies", &webhook.Handler{Engine: func() *celgate.Engine { return engine }}, true},
	} {
		b.Run(one.name, func(b *testing.B) {
			server := httptest.NewServer(one.handler)
			defer server.Close()
			var mu sync.Mutex
			var times []time.Duration
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				var own []time.Duration
				for pb.Next() {
					start := time.Now()
					response, err := client.Post(server.URL+"/mutate?timeout=10s", "application/json", bytes.NewReader(review))
					if err != nil {
						b.Error(err)
						return
					}
					body, err := io.ReadAll(response.Body)
					response.Body.Close()
					own = append(own, time.Since(start))
					if err != nil || bytes.Contains(body, []byte(`"patch"`)) != one.patched {
						b.Errorf("%v %s", err, body)
						return
					}
				}
				mu.Lock()
				times = append(times, own...)
				mu.Unlock()
			})
			slices.Sort(times)
			b.ReportMetric(float64(len(times))/b.Elapsed().Seconds(), "req/s")
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkLoad compiles 1,000 policies, as after each change of one, and reports what they hold.
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
