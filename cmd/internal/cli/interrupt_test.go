package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const slow = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: slow}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "lists.range(100000).all(i, lists.range(4000).size() > 0 && !isQuantity('0.1e-9000000'))"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: slow}
spec: {policyName: slow, validationActions: [Deny]}
`

// A signal ends the program though an evaluation does not end; a second one at once.
func TestInterrupt(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"p.yaml": slow,
		"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "celgate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"../../celgate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, signals := range [][]os.Signal{{os.Interrupt}, {syscall.SIGTERM}, {os.Interrupt, os.Interrupt}} {
		cmd := exec.CommandContext(t.Context(), program, "apply", "-p", "p.yaml", "c.yaml")
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // it evaluates by then
		start := time.Now()
		for _, s := range signals {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatalf("it has ended by itself: %v", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("it says that all is well")
		}
		limit := 2 * time.Second // a second, on a machine that does something else too
		if took := time.Since(start); took > limit {
			t.Errorf("%v: it ended after %v", signals, took)
		}
	}
}
