package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// probeInterval is the interval of a balancer's readiness probes.
const probeInterval = 100 * time.Millisecond

// A balancer replaces the Service of replicas: it forwards each new connection to a ready replica. If it cannot
// connect, the request fails, as with a Service, until the next probe.
type balancer struct {
	*relay

	mu    sync.Mutex
	ready []*gate
	next  int
}

func balance(t *testing.T) *balancer {
	b := &balancer{}
	b.relay = startRelay(t, func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.ready) == 0 {
			return ""
		}
		b.next++
		return strings.TrimPrefix(b.ready[b.next%len(b.ready)].URL, "https://")
	})
	return b
}

// add probes a replica until it ends, and takes it in as long as it is ready.
func (b *balancer) add(g *gate) {
	probe := func() {
		code, _, err := g.ops("/readyz")
		b.mu.Lock()
		defer b.mu.Unlock()
		var ready []*gate
		for _, other := range b.ready {
			if other != g {
				ready = append(ready, other)
			}
		}
		if err == nil && code == http.StatusOK {
			ready = append(ready, g)
		}
		b.ready = ready
	}
	go func() {
		for tick := time.NewTicker(probeInterval); ; {
			probe()
			select {
			case <-g.done:
				probe()
				return
			case <-tick.C:
			}
		}
	}()
}

// A relay forwards connections, and can be disturbed.
type relay struct {
	address string

	mu      sync.Mutex
	conns   map[net.Conn]bool // both sides
	refuses bool
	silence chan struct{} // closed for connections that are to carry nothing any more
}

// startRelay forwards to the address that target returns, to none for "", until the test ends.
func startRelay(t *testing.T, target func() string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: listener.Addr().String(), conns: map[net.Conn]bool{}, silence: make(chan struct{})}
	t.Cleanup(func() { listener.Close(); r.cut() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.forward(conn, target)
		}
	}()
	return r
}

func (r *relay) forward(conn net.Conn, target func() string) {
	defer conn.Close()
	address := target()
	if address == "" {
		return
	}
	other, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer other.Close()
	r.mu.Lock()
	if r.refuses {
		r.mu.Unlock()
		return
	}
	r.conns[conn], r.conns[other] = true, true
	silence := r.silence
	r.mu.Unlock()
	ended := make(chan struct{}, 2)
	move := func(to, from net.Conn) {
		defer func() { ended <- struct{}{} }()
		for buffer := make([]byte, 32<<10); ; {
			n, err := from.Read(buffer)
			select {
			case <-silence: // the data is read, so that the sender does not notice
				n = 0
			default:
			}
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	go move(other, conn)
	go move(conn, other)
	<-ended
	r.mu.Lock()
	delete(r.conns, conn)
	delete(r.conns, other)
	r.mu.Unlock()
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		conn.Close()
	}
}

// refuse cuts all connections and makes no new ones for a time.
func (r *relay) refuse(d time.Duration) {
	set := func(refuses bool) {
		r.mu.Lock()
		r.refuses = refuses
		r.mu.Unlock()
	}
	set(true)
	r.cut()
	time.Sleep(d)
	set(false)
}

// hush stops all data on existing connections without closing them.
func (r *relay) hush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.silence)
	r.silence = make(chan struct{})
}

// replicas are several gates that write the configurations, behind a balancer.
type replicas struct {
	*balancer
	args []string
	link *relay // by which they reach the API server

	gates []*gate // those that have been started and not ended

	authority *authority // nil: they have a certificate of their own
	rotate    func()     // replaces the certificate of all
}

// startManaged runs replicas with a certificate of files.
func startManaged(t *testing.T, n int) *replicas {
	t.Helper()
	return managedAs(t, api.Kubeconfig, n)
}

// managedAs runs them as the user of a kubeconfig, with further flags.
func managedAs(t *testing.T, kubeconfig string, n int, flags ...string) *replicas {
	t.Helper()
	authority, folder := newAuthority(t), t.TempDir()
	cert, key, ca := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"), filepath.Join(folder, "ca.crt")
	rotate := func() { authority.issue(t, cert, key) }
	rotate()
	write(t, ca, authority.PEM)
	r := service(t, kubeconfig, n, append([]string{"--cert=" + cert, "--key=" + key, "--ca=" + ca}, flags...)...)
	r.authority, r.rotate = authority, rotate
	return r
}

// service runs replicas behind a Service, as the user of a kubeconfig, with further flags.
func service(t *testing.T, kubeconfig string, n int, flags ...string) *replicas {
	t.Helper()
	installDefinitions(t)
	r := &replicas{balancer: balance(t)}
	t.Cleanup(func() { // after the replicas have ended: they would write the configurations again
		for _, kind := range []string{"mutating", "validating"} {
			remove(t, webhookPath+kind+"webhookconfigurations/celgate")
		}
		awaitUnguarded(t)
	})
	// A Service of this type leads the API server to any address. It sends over HTTP/1.1 to Services, unlike to
	// URLs of loopback, so that replicas share the load.
	good(t, apply(t, "/api/v1/namespaces", object(t,
		`{apiVersion: v1, kind: Namespace, metadata: {name: celgate-system}}`)))
	good(t, apply(t, "/api/v1/namespaces/celgate-system/services", object(t, `
apiVersion: v1
kind: Service
metadata: {name: celgate}
spec: {type: ExternalName, externalName: localhost}
`)))
	_, port, err := net.SplitHostPort(r.address)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	r.link = startRelay(t, func() string { return strings.TrimPrefix(api.URL, "https://") })
	write(t, config, []byte(strings.ReplaceAll(string(own), api.URL, "https://"+r.link.address)))
	r.args = append([]string{
		"--kubeconfig=" + config, "--manage", "--namespace=celgate-system", "--service=celgate",
		"--service-port=" + port,
		"--metrics-listen=127.0.0.1:0", "--drain-delay=1s",
	}, flags...)
	for range n {
		r.start(t)
	}
	for _, g := range r.gates {
		g.awaitReady(t)
	}
	eventually(t, 5*time.Second, func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.ready) != n {
			return fmt.Sprintf("%d of %d replicas are ready", len(r.ready), n)
		}
		return ""
	})
	return r
}

// awaitUnguarded waits until the API server asks no webhook about celgate's own kinds any more: it learns of a removed
// configuration a moment later, and the next test would meet a webhook whose program has ended.
func awaitUnguarded(t *testing.T) {
	t.Helper()
	tree := object(t, allowance)
	eventually(t, 10*time.Second, func() string {
		answer, err := api.Do(context.Background(), server.Call{
			Method: http.MethodPost, Path: dialectPath + "admissionpolicies",
			Query: map[string][]string{"dryRun": {"All"}}, Body: tree,
		})
		if err != nil {
			return err.Error()
		}
		if status := answer.Status(); status != nil && strings.Contains(status.Message, "failed calling webhook") {
			return status.Message
		}
		return ""
	})
}

// start adds a replica.
func (r *replicas) start(t *testing.T) {
	t.Helper()
	g := startWebhook(t, r.args...)
	r.gates = append(r.gates, g)
	r.add(g)
}

// leader waits for a replica that leads and returns its index.
func (r *replicas) leader(t *testing.T) int {
	t.Helper()
	leader := -1
	eventually(t, 40*time.Second, func() string {
		for i, g := range r.gates {
			if strings.Contains(g.metrics(t), "celgate_leader 1") {
				leader = i
				return ""
			}
		}
		return "no replica leads"
	})
	return leader
}

// end ends a replica, at once or as the kubelet does.
func (r *replicas) end(t *testing.T, i int, kill bool) {
	t.Helper()
	g := r.gates[i]
	r.gates = append(append([]*gate(nil), r.gates[:i]...), r.gates[i+1:]...)
	if kill {
		g.kill(t)
	} else {
		g.stop(t)
	}
}

// trustedConfig are the certificates by which the replicas are known.
func (r *replicas) trustedConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.authority.PEM)
	return &tls.Config{RootCAs: pool}
}

// A load creates objects through the API server, some of which policies forbid, and checks the answers.
type load struct {
	namespace string
	dryRun    bool

	mu     sync.Mutex
	counts counts
	slow   time.Duration  // the longest time of an answer
	wrong  map[string]int // wrongly admitted, not changed, or denied without a reason
	failed map[string]int // failed closed, or not answered
	last   time.Time      // of the last answer that was not the right one
}

type counts struct {
	asked   int
	right   int
	refused int // because the API server had no answer of celgate: failurePolicy Fail
	server  int // no answer of the API server, or one about its own trouble
	wrong   int
}

// run sends requests with some workers, rate times a second, until the context ends.
func (l *load) run(ctx context.Context, workers, rate int) {
	l.wrong, l.failed = map[string]int{}, map[string]int{}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			tick := time.NewTicker(time.Second * time.Duration(workers) / time.Duration(rate))
			defer tick.Stop()
			for forbidden := false; ; forbidden = !forbidden {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					l.ask(ctx, forbidden)
				}
			}
		})
	}
	running.Wait()
}

func (l *load) ask(ctx context.Context, forbidden bool) {
	data := map[string]any{"color": "blue"}
	if forbidden {
		data = map[string]any{"password": "x"}
	}
	call := server.Call{
		Method: http.MethodPost, Path: "/api/v1/namespaces/" + l.namespace + "/configmaps",
		Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "c-"},
			"data": data},
	}
	if l.dryRun {
		call.Query = map[string][]string{"dryRun": {"All"}}
	}
	start := time.Now()
	a, err := api.Do(ctx, call)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = max(l.slow, time.Since(start))
	l.counts.asked++
	if err != nil {
		l.counts.server++
		l.failed[err.Error()]++
		l.last = time.Now()
		return
	}
	body := string(a.Body)
	switch {
	case forbidden && a.Code == http.StatusForbidden && strings.Contains(body, "passwords belong into Secrets"),
		!forbidden && a.Code == http.StatusCreated && strings.Contains(body, `"owner":"admin"`):
		l.counts.right++
		return
	case a.Code == http.StatusInternalServerError && strings.Contains(body, "failed calling webhook") &&
		!strings.Contains(body, `service \"celgate\" not found`): // which it does not know yet after its start
		l.counts.refused++
		l.failed[body]++
	case a.Code >= 500 || a.Code == http.StatusTooManyRequests:
		l.counts.server++
		l.failed[body]++
	default:
		l.counts.wrong++
		l.wrong[fmt.Sprintf("%d %.300s", a.Code, body)]++
	}
	l.last = time.Now()
}

// runDuring runs a load while do runs, and fails the test for every wrong answer.
func (l *load) runDuring(t *testing.T, workers, rate int, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(ctx, workers, rate)
	}()
	do()
	stop()
	<-done
	t.Logf("%+v", l.counts)
	for what, n := range l.wrong {
		t.Errorf("%d times: %s", n, what)
	}
}

// TestReplicas kills the leader under load: forbidden objects are never admitted, and another replica takes over the
// writes.
func TestReplicas(t *testing.T) {
	r := startManaged(t, 2)
	inForce(t, policies)
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	l := &load{namespace: "default", dryRun: true}
	l.runDuring(t, 2, 100, func() {
		r.end(t, r.leader(t), true)
		start := time.Now()
		inForce(t, limits) // whose rule the next leader writes
		eventually(t, 40*time.Second, func() string {
			a := do(t, server.Call{Method: http.MethodGet,
				Path: webhookPath + "validatingwebhookconfigurations/celgate"})
			if !strings.Contains(string(a.Body), "deployments") {
				return "no new leader"
			}
			return ""
		})
		t.Logf("another leader after %s", time.Since(start))
	})
}

// TestRolling replaces all policies and the certificate again and again and ends a replica, under load. With one
// replica alive every answer is the right one.
func TestRolling(t *testing.T) {
	r := startManaged(t, 2)
	inForce(t, policies)
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	l := &load{namespace: "default", dryRun: true}
	l.runDuring(t, 2, 200, func() {
		for i := range 50 {
			replacePolicies(t, i)
			if i%20 == 10 {
				r.rotate()
			}
			if i == 25 {
				r.end(t, 0, false)
			}
		}
	})
	for what, n := range l.failed {
		t.Errorf("%d times: %s", n, what)
	}
	time.Sleep(time.Second) // files are looked at once a second
	conn, err := tls.Dial("tcp", strings.TrimPrefix(r.gates[0].URL, "https://"), r.trustedConfig())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if !strings.Contains(r.gates[0].log(), "certificate reloaded") {
		t.Error("the certificate is the first one")
	}
}

// replacePolicies writes all policies again, different in each round.
func replacePolicies(t *testing.T, round int) {
	t.Helper()
	for _, tree := range toOwnGroup(t, policies) {
		tree["metadata"].(map[string]any)["annotations"] = map[string]any{"example.com/round": fmt.Sprint(round)}
		if spec := tree["spec"].(map[string]any); tree["kind"] == "ValidatingAdmissionPolicy" {
			spec["variables"] = []any{map[string]any{"name": "round", "expression": fmt.Sprintf(`"%d"`, round)}}
			spec["validations"] = append(spec["validations"].([]any), map[string]any{
				"expression": "object.?data.round.orValue('') != variables.round",
				"message":    fmt.Sprintf("this is round %d", round),
			})
		}
		good(t, apply(t, "/apis/policy.celgate.dev/v1/"+resources[tree["kind"].(string)], tree))
	}
}
