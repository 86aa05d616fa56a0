// Package serve holds the end-to-end tests of celgate-webhook and celgate serve: the programs, and a real
// kube-apiserver whose own admission policies are turned off.
package serve

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

var (
	api     *server.Server
	program string // path of celgate
	webhook string // path of celgate-webhook
)

var minor = flag.String("minor", "", "of the kube-apiserver, such as 1.33; without it that of the module")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

// ownPolicies are the plugins of the API server that celgate stands in for.
var ownPolicies = []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "celgate-serve-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if program, err = server.Celgate(context.Background(), folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if webhook, err = server.Webhook(context.Background(), folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	api, err = server.Start(context.Background(), server.Options{Minor: *minor, Disabled: ownPolicies})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer api.Stop()
	return m.Run()
}

// A gate is a running celgate-webhook, or celgate serve.
type gate struct {
	URL  string
	CA   []byte
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	killed bool
	mu     sync.Mutex
	logs   strings.Builder
}

var (
	listening = regexp.MustCompile(`msg=listening address=(\S+)`)
	measuring = regexp.MustCompile(`msg=metrics address=(\S+)`)
)

// serveAlone runs celgate serve without a cluster, with a certificate for 127.0.0.1, until the test ends.
func serveAlone(t *testing.T, args ...string) *gate {
	t.Helper()
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	ca := newAuthority(t)
	ca.issue(t, cert, key)
	g := startGate(t, exec.Command(program, append(
		[]string{"serve", "--listen=127.0.0.1:0", "--alone", "--cert=" + cert, "--key=" + key}, args...)...))
	g.CA = ca.PEM
	return g
}

// startWebhook runs celgate-webhook until the test ends.
func startWebhook(t *testing.T, args ...string) *gate {
	t.Helper()
	return startGate(t, exec.Command(webhook, append([]string{"--listen=127.0.0.1:0"}, args...)...))
}

// startGate runs a program that serves until the test ends.
func startGate(t *testing.T, cmd *exec.Cmd) *gate {
	t.Helper()
	g := &gate{done: make(chan struct{}), cmd: cmd}
	stderr, err := g.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		defer close(g.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			g.mu.Lock()
			g.logs.WriteString(lines.Text() + "\n")
			g.mu.Unlock()
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		if !g.killed {
			_ = g.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
			<-g.done
			if err := g.cmd.Wait(); err != nil {
				t.Errorf("celgate: %v", err)
			}
		}
		if t.Failed() {
			log := g.log()
			t.Log(log[max(0, len(log)-20000):])
		}
	})
	select {
	case a := <-address:
		g.URL = "https://" + a
	case <-g.done:
		t.Fatalf("celgate ended: %s", g.log())
	case <-time.After(30 * time.Second):
		t.Fatalf("celgate does not listen: %s", g.log())
	}
	return g
}

// stop ends the program with SIGTERM and waits until it has drained.
func (g *gate) stop(t *testing.T) {
	t.Helper()
	g.killed = true
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-g.done
	if err := g.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// kill ends the program at once.
func (g *gate) kill(t *testing.T) {
	t.Helper()
	g.killed = true
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-g.done
	_ = g.cmd.Wait() // reports that it was killed
}

// ops sends a request to the address of the metrics.
func (g *gate) ops(path string) (int, string, error) {
	m := measuring.FindStringSubmatch(g.log())
	if m == nil {
		return 0, "", errors.New("no address of the metrics")
	}
	response, err := http.Get("http://" + m[1] + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func (g *gate) metrics(t *testing.T) string {
	t.Helper()
	_, text, err := g.ops("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// awaitReady waits for readiness.
func (g *gate) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, 20*time.Second, func() string {
		code, text, err := g.ops("/readyz")
		if err != nil {
			return err.Error()
		}
		if code != http.StatusOK {
			return text
		}
		return ""
	})
}

func (g *gate) log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logs.String()
}

// An authority signs certificates for 127.0.0.1.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	PEM         []byte
	life        time.Duration // that certificates have left; an hour if it is 0, half of their life
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// issue writes a new certificate and its key.
func (a *authority) issue(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "celgate"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(cmp.Or(a.life, time.Hour)),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"celgate.celgate-system.svc"},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// object reads one YAML document.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	return documents(t, []byte(text))[0]
}

// do sends a call and fails the test without an answer.
func do(t *testing.T, call server.Call) *server.Answer {
	t.Helper()
	answer, err := api.Do(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// create creates an object and removes it when the test ends.
func create(t *testing.T, path string, tree map[string]any) {
	t.Helper()
	answer := do(t, server.Call{Method: http.MethodPost, Path: path, Body: tree})
	if status := answer.Status(); status != nil {
		t.Fatalf("create %v: %s", tree["kind"], status.Message)
	}
	name := tree["metadata"].(map[string]any)["name"].(string)
	t.Cleanup(func() {
		if _, err := api.Do(context.Background(),
			server.Call{Method: http.MethodDelete, Path: path + "/" + name}); err != nil {
			t.Error(err)
		}
	})
}

// eventually repeats until it returns "", for at most the limit.
func eventually(t *testing.T, limit time.Duration, problem func() string) {
	t.Helper()
	for end := time.Now().Add(limit); ; {
		p := problem()
		if p == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(p)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

const webhookPath = "/apis/admissionregistration.k8s.io/v1/"

// handWritten makes the server call the gate about ConfigMaps.
func handWritten(t *testing.T, g *gate) {
	t.Helper()
	for kind, path := range map[string]string{"Mutating": "mutate", "Validating": "validate"} {
		create(t, webhookPath+strings.ToLower(kind)+"webhookconfigurations", map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "WebhookConfiguration",
			"metadata": map[string]any{"name": "celgate"},
			"webhooks": []any{map[string]any{
				"name": "celgate.example.com", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None",
				"clientConfig": map[string]any{"url": g.URL + "/" + path, "caBundle": g.CA},
				"rules": []any{map[string]any{
					"operations": []any{"*"}, "apiGroups": []any{""}, "apiVersions": []any{"*"},
					"resources": []any{"configmaps"},
				}},
			}},
		})
	}
}

const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"owner": request.userInfo.username}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label}
spec: {policyName: label}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-passwords}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]
  validations:
  - expression: '!("password" in object.?data.orValue({}))'
    message: passwords belong into Secrets
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-passwords}
spec: {policyName: no-passwords, validationActions: [Deny]}
`

// configMap creates a ConfigMap without keeping it.
func configMap(t *testing.T, data map[string]any) *server.Answer {
	t.Helper()
	return do(t, server.Call{
		Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps",
		Query: map[string][]string{"dryRun": {"All"}},
		Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"},
			"data": data},
	})
}

func label(t *testing.T, a *server.Answer, name string) any {
	t.Helper()
	tree, err := a.Object()
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := tree["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	return labels[name]
}

// awaitAudit waits until the audit log has a text about a request.
func awaitAudit(t *testing.T, answer *server.Answer, text string) {
	t.Helper()
	eventually(t, 5*time.Second, func() string {
		log, err := os.ReadFile(api.AuditLog)
		if err != nil {
			t.Fatal(err)
		}
		have := ""
		for line := range strings.Lines(string(log)) {
			if !strings.Contains(line, answer.AuditID) {
				continue
			}
			if strings.Contains(line, text) {
				return ""
			}
			have += line
		}
		return "the audit log has no " + text + " in\n" + have
	})
}

// TestDirectory serves policies of a directory to hand-written webhook configurations, and replaces them.
func TestDirectory(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "policies.yaml")
	write := func(text string) { t.Helper(); write(t, file, []byte(text)) }
	write(policies)
	g := serveAlone(t, "--policy-dir="+folder)
	handWritten(t, g)

	eventually(t, 5*time.Second, func() string { // the server takes a moment to see the configurations
		answer := configMap(t, map[string]any{"password": "x"})
		if status := answer.Status(); status == nil || status.Code != 403 || status.Reason != "Forbidden" ||
			status.Message !=
				`admission webhook "celgate.example.com" denied the request: configmaps "c" is forbidden: ValidatingAdmissionPolicy 'no-passwords' with binding 'no-passwords' denied request: passwords belong into Secrets` {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
	answer := configMap(t, map[string]any{"color": "blue"})
	if got := label(t, answer, "owner"); got != "admin" {
		t.Errorf("label %v: %s", got, answer.Body)
	}
	// The server keeps an annotation only under a key that it takes.
	awaitAudit(t, answer, `"celgate.example.com/mutated_by":"[{\"policy\":\"label\",\"binding\":\"label\",\"mutations\":[0],\"paths\":[\"/metadata/labels\"]}]"`)

	for _, broken := range []string{"not: a policy: at all", "", policies[:len(policies)/2],
		policies[:strings.LastIndex(policies, "---")], "# policies\n"} {
		write(broken)
		time.Sleep(1500 * time.Millisecond)
		if configMap(t, map[string]any{"password": "x"}).Status() == nil {
			t.Errorf("the last good policies are not in force: %q", broken)
		}
	}
	write(strings.ReplaceAll(policies, `"owner"`, `"creator"`))
	eventually(t, 5*time.Second, func() string {
		return map[bool]string{false: "the new policies are not in force"}[label(t, configMap(t, nil),
			"creator") == "admin"]
	})
}
