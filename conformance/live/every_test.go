package live

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAuditEvery audits repeatedly: the metrics follow the changes in the cluster, and an interrupt ends it in order.
func TestAuditEvery(t *testing.T) {
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, policies, strings.ReplaceAll(shardPolicies, "shards", "every"))
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: every, labels: {celgate-test: every, owner: x}}}")
	stray := func(name string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: every}}"
	}
	put(t, stray("one"))
	cmd := exec.CommandContext(t.Context(), program, "audit", "--kubeconfig="+api.Kubeconfig, "-p", policies,
		"--every=200ms", "--metrics-listen=127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // so that it can go on
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(first)
	has := func(line string) {
		t.Helper()
		eventually(t, func() string {
			response, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				return err.Error()
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return err.Error()
			}
			if !strings.Contains("\n"+string(body), "\n"+line+"\n") {
				return fmt.Sprintf("%s is not in %d\n%s", line, response.StatusCode, body)
			}
			return ""
		})
	}
	finding := `celgate_audit_findings{binding="every-owner",creates="",namespace="every",policy="every-owner",verdict="denied"} `
	has(finding + "1")
	put(t, stray("two"))
	has(finding + "2")
	has(`celgate_audit_objects{verdict="stuck"} 2`)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("it does not end")
	}
}
