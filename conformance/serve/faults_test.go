package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

var duration = flag.Duration("faults", 0, "how long each fault run takes; 0 for none")

const (
	faultRate    = 100 // creates a second
	faultWorkers = 4
)

// A fault is done again and again to a cluster under load.
type fault struct {
	name  string
	every time.Duration // between the start of one and that of the next
	times int           // at least, however long that takes
	do    func(*testing.T, *replicas)

	// unready is the time after a fault during which requests may fail closed: requests that a killed replica had
	// begun, and requests that the Service sends to it until it learns of the fault. 0: requests must not fail.
	unready time.Duration
	server  bool // the API server itself may not answer
}

var faults = []fault{
	{name: "end a replica (SIGTERM), start another", every: 12 * time.Second, do: func(t *testing.T, r *replicas) {
		r.end(t, 0, false)
		r.startReady(t)
	}},
	{name: "kill a replica (SIGKILL), start another", every: 12 * time.Second, unready: time.Second,
		do: func(t *testing.T, r *replicas) {
			r.end(t, 1-r.leader(t), true)
			time.Sleep(2 * time.Second)
			r.startReady(t)
		},
	},
	{name: "kill the leader, start another", every: 30 * time.Second, unready: time.Second,
		do: func(t *testing.T, r *replicas) {
			r.end(t, r.leader(t), true)
			time.Sleep(2 * time.Second)
			r.startReady(t)
			r.leader(t)
		},
	},
	{name: "kill both replicas, start two after 3 s", every: 25 * time.Second, unready: 10 * time.Second,
		do: func(t *testing.T, r *replicas) {
			r.end(t, 1, true)
			r.end(t, 0, true)
			time.Sleep(3 * time.Second)
			r.startReady(t)
			r.startReady(t)
		},
	},
	{name: "kill the API server, start it again", every: 30 * time.Second, server: true,
		do: func(t *testing.T, _ *replicas) {
			if err := api.RestartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	},
	{name: "kill etcd, start it after 10 s", every: 40 * time.Second, server: true,
		do: func(t *testing.T, _ *replicas) {
			if err := api.StopEtcd(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
		},
	},
	{name: "freeze the API server for 8 s (SIGSTOP)", every: 25 * time.Second, server: true,
		do: func(t *testing.T, _ *replicas) {
			if err := api.FreezeAPIServer(t.Context(), 8*time.Second); err != nil {
				t.Fatal(err)
			}
		},
	},
	{name: "freeze etcd for 8 s", every: 25 * time.Second, server: true, do: func(t *testing.T, _ *replicas) {
		if err := api.FreezeEtcd(t.Context(), 8*time.Second); err != nil {
			t.Fatal(err)
		}
	}},
	// The API server waits ten seconds for the answers to its requests, and until then sends more over the same
	// connections.
	{name: "freeze a replica for 5 s", every: 25 * time.Second, unready: 16 * time.Second,
		do: func(t *testing.T, r *replicas) {
			if err := server.Freeze(r.gates[0].cmd.Process, 5*time.Second); err != nil {
				t.Fatal(err)
			}
		},
	},
	{name: "a certificate that has expired, for 4 s", every: 15 * time.Second, unready: 8 * time.Second,
		do: func(_ *testing.T, r *replicas) {
			r.authority.life = -time.Minute
			r.rotate()
			time.Sleep(2 * time.Second) // read each second; connections go on
			r.cut()
			time.Sleep(2 * time.Second)
			r.authority.life = 0
			r.rotate()
			time.Sleep(2 * time.Second)
		},
	},
	{name: "cut all watches, refuse new ones for 5 s", every: 20 * time.Second,
		do: func(_ *testing.T, r *replicas) { r.link.refuse(5 * time.Second) }},
	{name: "watches carry nothing any more, unnoticed", every: 60 * time.Second,
		do: func(_ *testing.T, r *replicas) { r.link.hush() }},
	{name: "replace the certificate", every: 3 * time.Second, do: func(_ *testing.T, r *replicas) { r.rotate() }},
	{
		name:  "replace all policies, at least 100 times",
		every: time.Second,
		times: 100,
		do:    func(*testing.T, *replicas) {},
	}, // as each round does
}

// TestFaultRuns prints a table of the effects of faults on requests under load. With failurePolicy Fail, a forbidden
// request must never be admitted, and with one replica alive every request must be answered.
func TestFaultRuns(t *testing.T) {
	if *duration == 0 {
		t.Skip("needs -faults=DURATION; see make faults")
	}
	var table strings.Builder
	table.WriteString("| fault | times | creates | answered right | failed closed | answered wrong | API server away | longest answer | all right again after | policies current after |\n")
	table.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			row := f.run(t)
			fmt.Fprintln(&table, row)
			t.Log(row)
		})
	}
	fmt.Printf("\nEach %s, %d creates a second, half of them forbidden; the longest of each kind of recovery.\n\n%s\n",
		*duration, faultRate, table.String())
}

// run returns a row of the table.
func (f *fault) run(t *testing.T) string {
	r := startManaged(t, 2)
	inForce(t, policies)
	inForce(t, configMapLimits)
	namespace := fmt.Sprintf("faults-%d", time.Now().UnixNano())
	good(t, apply(t, "/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": namespace}}))
	good(t, apply(t, "/api/v1/namespaces/default/configmaps", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "members"},
		"data": map[string]any{"most": "1"},
	}))
	awaitDenial(t, "passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	eventually(t, 5*time.Second, func() string {
		if got := label(t, configMap(t, nil), "owner"); got != "admin" {
			return fmt.Sprintf("label %v", got)
		}
		return ""
	})

	l := &load{namespace: namespace}
	var times int
	var recovered, current time.Duration
	l.runDuring(t, faultWorkers, faultRate, func() {
		end := time.Now().Add(*duration)
		for times < max(f.times, 1) || time.Until(end) > f.every {
			time.Sleep(time.Second)
			start := time.Now()
			f.do(t, r)
			current = max(current, r.freshness(t, times))
			times++
			time.Sleep(time.Until(start.Add(f.every - time.Second)))
			if last := l.lastFailure(); last.After(start) {
				recovered = max(recovered, last.Sub(start))
			}
		}
		time.Sleep(time.Until(end))
	})
	if l.counts.refused > 0 && f.unready == 0 || recovered > f.unready && !f.server {
		t.Errorf("%d requests failed closed, all was right again after %s", l.counts.refused, recovered)
	}
	if l.counts.server > 0 && !f.server {
		t.Errorf("the API server failed %d times", l.counts.server)
	}
	for what, n := range l.failed {
		t.Logf("%d times: %.400s", n, what)
	}
	stored := l.checkStored(t)
	t.Logf("%d objects stored, all of them right", stored)
	again := "at once"
	if recovered > 0 {
		again = recovered.Round(10 * time.Millisecond).String()
	}
	c := l.counts
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %s | %s | %s |", f.name, times, c.asked, c.right,
		c.refused, c.wrong, c.server,
		l.slow.Round(time.Millisecond),
		again,
		current.Round(10*time.Millisecond),
	)
}

func (l *load) lastFailure() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// checkStored checks every created object, independent of the answers, removes them, and returns their number.
func (l *load) checkStored(t *testing.T) int {
	t.Helper()
	path := "/api/v1/namespaces/" + l.namespace + "/configmaps"
	a := do(t, server.Call{Method: http.MethodGet, Path: path})
	good(t, a)
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Data map[string]string
		}
	}
	if err := json.Unmarshal(a.Body, &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		if item.Data["password"] != "" || item.Metadata.Labels["owner"] != "admin" {
			t.Errorf("stored though it must not be: %+v", item)
		}
	}
	good(t, do(t, server.Call{Method: http.MethodDelete, Path: path}))
	return len(list.Items)
}

// startReady adds a replica and waits until it is ready.
func (r *replicas) startReady(t *testing.T) {
	t.Helper()
	r.start(t)
	g := r.gates[len(r.gates)-1]
	g.awaitReady(t)
	eventually(t, 5*time.Second, func() string { // the API server is led to it
		r.mu.Lock()
		defer r.mu.Unlock()
		if !slices.Contains(r.balancer.ready, g) {
			return "the balancer does not know of the replica"
		}
		return ""
	})
}

// freshness writes all policies again and returns after how long each replica answers by them.
func (r *replicas) freshness(t *testing.T, round int) time.Duration {
	t.Helper()
	replacePolicies(t, round)
	start := time.Now()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: r.trustedConfig(), DisableKeepAlives: true},
		Timeout: 5 * time.Second}
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","name":"c","namespace":"default",` +
		`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"userInfo":{"username":"u"},` +
		`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"default"},"data":{"round":"` + fmt.Sprint(round) + `"}}}}`
	for _, g := range r.gates {
		eventually(t, 2*time.Minute, func() string {
			response, err := client.Post(g.URL+"/fail/validate?timeout=5s", "application/json",
				strings.NewReader(review))
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			if text, err := io.ReadAll(response.Body); err != nil ||
				!bytes.Contains(text, []byte("this is round "+fmt.Sprint(round))) {
				return cmp.Or(string(text), fmt.Sprint(err))
			}
			return ""
		})
	}
	return time.Since(start)
}

// configMapLimits has a param, so that requests depend on one more watch.
const configMapLimits = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: members}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  validations:
  - expression: size(object.?data.orValue({})) <= int(params.data.most)
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: members}
spec:
  policyName: members
  validationActions: [Deny]
  paramRef: {name: members, namespace: default, parameterNotFoundAction: Deny}
`
