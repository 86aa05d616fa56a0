package serve

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// growing are validations that need much memory or time for values in a ConfigMap of a user.
var growing = map[string]string{
	"replace":  "object.data.grow.replace('', object.data.grow).size() > 0",
	"add":      "[1, 2, 3, 4, 5, 6, 7, 8].map(i, object.data.grow + object.data.grow).map(t, t + t).map(t, t + t).map(t, t + t).map(t, t + t).all(t, t.size() > 0)",
	"quantity": "quantity('1e' + string(object.data.grow.size()) + '00').isGreaterThan(quantity('1'))",
	"pattern":  "object.data.grow.matches('(x?){1000}' + object.data.grow)",
}

// TestGrowth lets a real API server send objects for which policies need much memory: each answer arrives by the
// deadline, the request is refused, memory stays below the limit in deploy/, and other requests are answered.
func TestGrowth(t *testing.T) {
	folder := t.TempDir()
	text := policies
	for name, expression := range growing {
		text += fmt.Sprintf(`---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: grow-%[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  matchConditions:
  - {name: asked-for, expression: '"by" in object.?data.orValue({}) && object.data.by == "%[1]s"'}
  validations:
  - expression: >-
      %[2]s
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: grow-%[1]s}
spec: {policyName: grow-%[1]s, validationActions: [Deny]}
`, name, expression)
	}
	write(t, filepath.Join(folder, "policies.yaml"), []byte(text))
	t.Setenv("GOMEMLIMIT", "400MiB") // the limit in deploy/
	g := serveAlone(t, "--policy-dir="+folder, "--metrics-listen=127.0.0.1:0")
	handWritten(t, g)
	eventually(t, 5*time.Second, func() string {
		return map[bool]string{true: "not in force"}[configMap(t, map[string]any{"password": "x"}).Status() == nil]
	})
	for name := range growing {
		start := time.Now()
		status := configMap(t, map[string]any{"by": name, "grow": strings.Repeat("x", 400_000)}).Status()
		took := time.Since(start)
		switch {
		case status == nil:
			t.Errorf("%s: let through", name)
		case !strings.Contains(status.Message, "grow-"+name) || !strings.Contains(status.Message, "more than the limit"):
			t.Errorf("%s: %.300s", name, status.Message)
		}
		if took > 11*time.Second { // the deadline of the webhook is 10
			t.Errorf("%s: an answer after %s", name, took)
		}
		if used := memory(t, g); used > 512<<20 {
			t.Errorf("%s: %d MiB", name, used>>20)
		}
		t.Logf("%s: %s, %d MiB", name, took.Round(time.Millisecond), memory(t, g)>>20)
		if configMap(t, map[string]any{"password": "x"}).Status() == nil || configMap(t, nil).Status() != nil {
			t.Errorf("%s: others are not answered as before", name)
		}
	}
}
