package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: ["*"]}]
  validations: [{expression: object.metadata.name != "MESSAGE", message: MESSAGE}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]}
`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair writes a certificate for a host and returns whom to trust.
func pair(t *testing.T, folder string, now time.Time) *x509.CertPool {
	t.Helper()
	made, err := years([]string{"celgate.test"}).begin(now)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "tls.crt"), string(made[certificate]))
	write(t, filepath.Join(folder, "tls.key"), string(made[certificateK]))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(made[caCertificate])
	return pool
}

// A logged is a log that can be searched.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// await returns the capture of the pattern once the log contains it.
func (l *logged) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		found := re.FindStringSubmatch(l.text.String())
		l.mu.Unlock()
		if found != nil {
			return found[len(found)-1]
		}
	}
	t.Fatalf("the log has no %s:\n%s", pattern, l.text.String())
	return ""
}

// TestRun starts a server, replaces its policies and its certificate, and ends it while a request is on its way.
func TestRun(t *testing.T) {
	certs, dir := t.TempDir(), t.TempDir()
	trusted := pair(t, certs, time.Now())
	write(t, filepath.Join(dir, "p.yaml"), strings.ReplaceAll(policies, "MESSAGE", "first"))
	log := &logged{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			PolicyDir: dir, Listen: "127.0.0.1:0", Ops: "127.0.0.1:0", Profile: true,
			Cert: filepath.Join(certs, "tls.crt"), Key: filepath.Join(certs, "tls.key"),
			Log: slog.New(slog.NewTextHandler(log, nil)),
		})
	}()
	address, ops := log.await(t, `listening address=(\S+)`), log.await(t, `metrics address=(\S+)`)
	ask := func(trusted *x509.CertPool, name string) string {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "celgate.test"},
		}}
		response, err := client.Post("https://"+address+"/validate", "application/json", strings.NewReader(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"anywhere","name":"`+name+`",`+
				`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"object":{"metadata":{"name":"`+name+`"}}}}`))
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return string(text)
	}
	if got := ask(trusted, "first"); !strings.Contains(got, "denied request: first") {
		t.Error(got)
	}

	time.Sleep(10 * time.Millisecond) // another time of the file
	write(t, filepath.Join(dir, "p.yaml"), strings.ReplaceAll(policies, "object.metadata.name", "object.metadata."))
	log.await(t, `cannot use the policies, the last set stays in force.*p.yaml:8:.*Syntax error`)
	if got := ask(trusted, "first"); !strings.Contains(got, "denied request: first") {
		t.Error("the last good policies are gone: " + got)
	}
	write(t, filepath.Join(dir, "p.yaml"), strings.ReplaceAll(policies, "MESSAGE", "second"))
	log.await(t, `(?s)policies in force.*policies in force`)
	if got := ask(trusted, "second"); !strings.Contains(got, "denied request: second") {
		t.Error(got)
	}

	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	log.await(t, `cannot use the directory of policies, the last set stays in force.*no such file`)
	if got := ask(trusted, "second"); !strings.Contains(got, "denied request: second") {
		t.Error("the last good policies are gone with their directory: " + got)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}

	write(t, filepath.Join(certs, "tls.key"), "half of a pair")
	time.Sleep(lookAgain)
	if got := ask(trusted, "first"); !strings.Contains(got, `"allowed":true`) {
		t.Error("half of a pair broke the handshake: " + got)
	}
	trusted = pair(t, certs, time.Now())
	time.Sleep(lookAgain)
	if got := ask(trusted, "first"); !strings.Contains(got, `"allowed":true`) {
		t.Error(got)
	}

	for path, want := range map[string]string{
		"/metrics":  `celgate_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="p",policy_binding="p"} 4`,
		"/metrics?": `celgate_validating_admission_policy_check_duration_seconds_count{enforcement_action="deny",error_type="invalid_error",policy="p",policy_binding="p"} 4`,
		"/readyz":   "ok", "/healthz": "ok", "/debug/pprof/": "heap",
	} {
		response, err := http.Get("http://" + ops + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: no %s", path, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStartErrors(t *testing.T) {
	certs := t.TempDir()
	pair(t, certs, time.Now())
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "the directory does not contain a .* file"},
		{"twice", policies + "---" + policies, "ValidatingAdmissionPolicy p is given twice"},
		{"undecodable", strings.Replace(policies, "validations:", "validation:", 1), `unknown field "spec.validation"`},
		{"invalid", strings.Replace(policies, "[Deny]", "[]", 1), "p.yaml:13:23: .*validationActions: Required value"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if test.text != "" {
				write(t, filepath.Join(dir, "p.yaml"), test.text)
			}
			err := Run(t.Context(), Options{
				PolicyDir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
				Cert: filepath.Join(certs, "tls.crt"), Key: filepath.Join(certs, "tls.key"),
			})
			if err == nil || !regexp.MustCompile(test.want).MatchString(err.Error()) {
				t.Errorf("have %v, want %s", err, test.want)
			}
		})
	}
}

func TestChecks(t *testing.T) {
	outcome := func(binding string, v celgate.Verdict, message string) celgate.Outcome {
		o := celgate.Outcome{Kind: policy.Validating, Policy: "p", Binding: binding, Verdict: v, Message: message}
		if v == celgate.Error {
			o.Err = errors.New(message)
		}
		return o
	}
	got := checks(&celgate.Decision{
		Outcomes: []celgate.Outcome{
			outcome("denied", celgate.Admit, ""), outcome("denied", celgate.Denied, "no"),
			outcome("ignored", celgate.Admit, ""), outcome("ignored", celgate.Error, "oops"),
			outcome("ignored", celgate.Admit, ""),
			outcome("fine", celgate.Admit, ""),
		},
		Violations: []celgate.Violation{
			{Kind: policy.Validating, Policy: "p", Binding: "denied", Message: "no",
				Actions: []policy.Action{policy.Deny, policy.Audit}},
			{Kind: policy.Validating, Policy: "q", Message: celgate.ErrBudget.Error(), IsError: true,
				Err: celgate.ErrBudget, Actions: []policy.Action{policy.Deny}},
		},
	})
	want := []check{
		{policy.Validating, "", "p", "denied", "invalid_error", "deny"},
		{policy.Validating, "", "p", "denied", "invalid_error", "audit"},
		{policy.Validating, "", "p", "ignored", "invalid_error", "allow"},
		{policy.Validating, "", "p", "fine", "no_error", "allow"},
		{policy.Validating, "", "q", "", "out_of_budget", "deny"},
	}
	for _, c := range want {
		if !slices.Contains(got, c) {
			t.Errorf("no %+v", c)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%+v", got)
	}
}

// TestDashboard compares the metrics of the dashboard with those of a server, and those of policies with the dashboard.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 1000)
	newMetrics(&loader{Options: Options{RuleMetrics: true}}).registry.Describe(descriptions)
	watches{}.Describe(descriptions)
	close(descriptions)
	known, ofPolicies := map[string]bool{}, map[string]bool{}
	for d := range descriptions {
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1]
		ofPolicies[name] = regexp.MustCompile(`variableLabels: {[^}]*\b(policy|kind)\b`).MatchString(d.String())
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			known[name+suffix] = true
		}
	}
	shown := map[string]bool{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`\b(?:celgate|go|process)_\w+`).FindAllString(target.Expr, -1) {
				shown[name] = true
				if !known[name] {
					t.Errorf("panel %q shows %s, which there is not", p.Title, name)
				}
			}
		}
	}
	n := 0
	for name, of := range ofPolicies {
		if !of {
			continue
		}
		if n++; !shown[name] && !shown[name+"_bucket"] {
			t.Errorf("no panel shows %s", name)
		}
	}
	if len(shown) < 10 || n < 15 {
		t.Errorf("the dashboard shows %v alone, %d metrics are of policies", shown, n)
	}
}

// TestComparisons counts how another webhook answers, and counts nothing as none.
func TestComparisons(t *testing.T) {
	m := newMetrics(&loader{})
	b := &webhook.Beside{URLs: map[webhook.Phase]string{webhook.Validating: "https://policies.example.com"}}
	m.compare(b)
	b.Observe(webhook.Contrast{Phase: webhook.Validating, Result: webhook.OursDenies})
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "celgate_shadow_webhook_comparisons_total" {
			continue
		}
		for _, metric := range f.GetMetric() {
			counts[metric.GetLabel()[1].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	if len(counts) != len(webhook.Agreements()) || counts["ours_denies"] != 1 || counts["same"] != 0 {
		t.Errorf("counted %v", counts)
	}
}
