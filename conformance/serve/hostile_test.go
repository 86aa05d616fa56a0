package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const reviewStart = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","name":"c","namespace":"default",` +
	`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"userInfo":{"username":"u"},"object":`

const spender = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: spender}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  matchConditions:
  - {name: asked-for, expression: '"spend" in object.?data.orValue({})'}
  validations:
  - expression: >-
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(b, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(c,
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(d, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(e,
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(f, a + b + c + d + e + f >= 0))))))
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: spender}
spec: {policyName: spender, validationActions: [Deny]}
`

// TestHostile sends requests that an API server never sends, and requests with the most expensive policies, in great
// numbers. Other requests are answered normally, and memory stays below the limit in deploy/.
func TestHostile(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "policies.yaml"), []byte(policies+"---"+spender))
	t.Setenv("GOMEMLIMIT", "400MiB") // the limit in deploy/
	g := serveAlone(t, "--policy-dir="+folder, "--metrics-listen=127.0.0.1:0")
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(g.CA)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted},
		MaxIdleConnsPerHost: 100}}
	post := func(path, contentType string, body io.Reader) (int, string, error) {
		response, err := client.Post(g.URL+path, contentType, body)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return response.StatusCode, string(text), err
	}
	// meanwhile runs a hostile load, and sends an ordinary object at intervals.
	meanwhile := func(t *testing.T, hostile func()) {
		t.Helper()
		done, asked := make(chan struct{}), make(chan []time.Duration)
		go func() {
			var times []time.Duration
			for {
				start := time.Now()
				code, text, err := post("/validate?timeout=10s", "application/json",
					strings.NewReader(reviewStart+`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"password":"x"}}}}`))
				times = append(times, time.Since(start))
				if err != nil || code != 200 || !strings.Contains(text, "passwords belong into Secrets") {
					t.Errorf("an ordinary request: %v %d %.300s", err, code, text)
				}
				select {
				case <-done:
					asked <- times
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}()
		hostile()
		close(done)
		times := <-asked
		slices.Sort(times)
		t.Logf("%d ordinary requests, the slowest took %s; %d MiB", len(times), times[len(times)-1], memory(t, g)>>20)
	}
	many := func(n int, do func(int)) {
		var running sync.WaitGroup
		for i := range n {
			running.Go(func() { do(i) })
		}
		running.Wait()
	}

	t.Run("bodies and content types", func(t *testing.T) {
		meanwhile(t, func() {
			many(8, func(worker int) {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				whole := reviewStart + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}}}`
				for range 100 {
					body := []byte(whole)
					for range 1 + random.IntN(20) {
						body[random.IntN(len(body))] = byte(random.Uint32())
					}
					path := []string{"/mutate", "/validate", "/fail/mutate", "/ignore/validate"}[random.IntN(4)]
					media := []string{"application/json", "application/json", "application/json;charset=", "text/plain",
						"", "application/vnd.kubernetes.protobuf"}[random.IntN(6)]
					code, text, err := post(path+"?timeout=10s", media,
						bytes.NewReader(body[:random.IntN(len(body)+1)]))
					if err != nil || code >= 500 && code != http.StatusServiceUnavailable {
						t.Errorf("%v %d %s", err, code, text)
					}
				}
			})
		})
	})
	t.Run("long bodies", func(t *testing.T) {
		for _, filler := range []string{"{}", "0"} {
			long := reviewStart + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"password":"x"},"items":[` +
				strings.Repeat(filler+",", (8<<20-1000)/(len(filler)+1)) + filler + `]}}}`
			largest := make(chan int64)
			done := make(chan struct{})
			go func() {
				var most int64
				for {
					most = max(most, memory(t, g))
					select {
					case <-done:
						largest <- most
						return
					case <-time.After(50 * time.Millisecond):
					}
				}
			}()
			answers := map[int]int{}
			var mu sync.Mutex
			meanwhile(t, func() {
				many(6, func(int) {
					code, text, err := post("/validate?timeout=10s", "application/json", strings.NewReader(long))
					if err != nil || code != 200 && code != 413 && code != 503 && code != 504 {
						t.Errorf("%v %d %.300s", err, code, text)
					}
					mu.Lock()
					answers[code]++
					mu.Unlock()
				})
			})
			close(done)
			most := <-largest
			t.Logf("bodies full of %s: answers %v, %d MiB at most", filler, answers, most>>20)
			if most > 512<<20 {
				t.Errorf("%d MiB", most>>20)
			}
		}
		code, text, err := post("/validate", "application/json",
			strings.NewReader(reviewStart+strings.Repeat(" ", 9<<20)))
		if err == nil && code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %s", code, text)
		}
	})
	t.Run("slow clients", func(t *testing.T) {
		meanwhile(t, func() {
			many(300, func(i int) {
				conn, err := tls.Dial("tcp", strings.TrimPrefix(g.URL, "https://"), &tls.Config{RootCAs: trusted})
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST /validate HTTP/1.1\r\nHost: celgate\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 8<<20)
				if i%2 == 0 { // so long that it counts
					_, _ = conn.Write(bytes.Repeat([]byte(" "), 70<<10))
				}
				for range 10 {
					_, _ = conn.Write([]byte(" ")) // the server may have ended it
					time.Sleep(300 * time.Millisecond)
				}
			})
		})
	})
	t.Run("policies that spend their budget", func(t *testing.T) {
		meanwhile(t, func() {
			many(8, func(int) {
				for range 3 {
					code, text, err := post("/validate?timeout=10s", "application/json",
						strings.NewReader(reviewStart+`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"spend":"x"}}}}`))
					if err != nil || code != 200 ||
						!strings.Contains(text, "budget") && !strings.Contains(text, "cost limit") {
						t.Errorf("%v %d %.300s", err, code, text)
					}
				}
			})
		})
	})
}

// TestThousand puts 1,000 policies in force at once, under load.
func TestThousand(t *testing.T) {
	r := startManaged(t, 2)
	inForce(t, policies)
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	const number, workers = 1000, 8
	each := func(do func(i int)) {
		var running sync.WaitGroup
		for worker := range workers {
			running.Go(func() {
				for i := worker; i < number; i += workers {
					do(i)
				}
			})
		}
		running.Wait()
	}
	name := func(i int) string { return fmt.Sprintf("thousand-%d", i) }
	const own = "/apis/policy.celgate.dev/v1/"
	t.Cleanup(func() {
		for _, resource := range []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies"} {
			_, _ = api.Do(context.Background(), server.Call{
				Method: http.MethodDelete, Path: own + resource,
				Query: map[string][]string{"labelSelector": {"thousand=true"}},
			})
		}
	})
	l := &load{namespace: "default", dryRun: true}
	l.runDuring(t, 2, 50, func() {
		start := time.Now()
		each(func(i int) {
			for _, tree := range toOwnGroup(t, strings.ReplaceAll(thousand, "NAME", name(i))) {
				if a, err := api.Do(t.Context(),
					server.Call{Method: http.MethodPost, Path: own + resources[tree["kind"].(string)],
						Body: tree}); err != nil || a.Status() != nil {
					t.Errorf("%v %+v", err, a.Status())
				}
			}
		})
		created := time.Since(start)
		for i := range number {
			if i%100 == 0 || i == number-1 {
				awaitDenial(t, "denied request: not "+name(i),
					func() *server.Answer { return configMap(t, map[string]any{name(i): "x"}) })
			}
		}
		t.Logf("created in %s, in force after %s", created, time.Since(start))
	})
	for what, n := range l.failed {
		t.Errorf("%d times: %s", n, what)
	}
	for _, g := range r.gates {
		used := memory(t, g)
		cpu := regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`).FindStringSubmatch(g.metrics(t))[1]
		t.Logf("%d MiB, %s s of CPU", used>>20, cpu)
		if used > 300<<20 {
			t.Errorf("%d MiB with 1,000 policies", used>>20)
		}
	}
}

const thousand = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME, labels: {thousand: "true"}}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]
  variables:
  - {name: members, expression: 'object.?data.orValue({})'}
  - {name: names, expression: 'variables.members.map(name, name).filter(name, name != "not-NAME")'}
  validations:
  - {expression: '!("NAME" in variables.names)', message: not NAME}
  - {expression: 'variables.names.all(name, name.size() < 200 && !name.startsWith("NAME-"))', messageExpression: '"NAME has " + string(variables.names.size())'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME, labels: {thousand: "true"}}
spec: {policyName: NAME, validationActions: [Deny]}
`

var residentMemory = regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`)

// memory is that of a gate, in bytes.
func memory(t *testing.T, g *gate) int64 {
	t.Helper()
	bytes, err := strconv.ParseFloat(residentMemory.FindStringSubmatch(g.metrics(t))[1], 64)
	if err != nil {
		t.Error(err)
	}
	return int64(bytes)
}
