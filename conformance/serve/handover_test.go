package serve

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// counted changes its own result again: objects show how often it was enforced.
const counted = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: count}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{annotations: {"times": object.metadata.?annotations[?"times"].orValue("") + "x"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: count}
spec: {policyName: count}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-passwords}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  validations:
  - expression: '!("password" in object.?data.orValue({}))'
    message: passwords belong into Secrets
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-passwords}
spec: {policyName: no-passwords, validationActions: [Deny]}
`

// A handover is from celgate to a server of a given version, with the expected messages in between.
type handover struct {
	name    string
	minor   string // as the flag -minor
	args    []string
	version string // of MutatingAdmissionPolicy that it serves; empty: none
	verdict string
}

var handovers = []handover{
	{name: "both kinds", version: "v1", verdict: "the policies of policy.celgate.dev can be deleted"},
	{name: "validating only", minor: "1.33", verdict: "the ValidatingAdmissionPolicy objects of policy.celgate.dev and their bindings can be deleted"},
	{name: "mutating as v1alpha1", minor: "1.33", version: "v1alpha1",
		verdict: "the policies of policy.celgate.dev can be deleted",
		args: []string{"--runtime-config=admissionregistration.k8s.io/v1alpha1=true",
			"--feature-gates=MutatingAdmissionPolicy=true"}},
}

// TestHandover hands policies over, with the commands of docs/serve.md and under load, to servers that serve one or
// both of the kinds. The API server calls two replicas, so an enforcement by both would be visible.
func TestHandover(t *testing.T) {
	for _, h := range handovers {
		if h.minor != *minor {
			continue
		}
		t.Run(h.name, func(t *testing.T) { h.run(t) })
	}
}

func (h *handover) run(t *testing.T) {
	own, err := server.Start(t.Context(), server.Options{Minor: h.minor, Args: h.args})
	if err != nil {
		t.Fatal(err)
	}
	before := api
	api = own
	t.Cleanup(func() {
		api = before
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubectl, err := server.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	command := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+own.Kubeconfig)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != want {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}

	r := startManaged(t, 2)
	inForce(t, counted)
	good(t, apply(t, "/api/v1/namespaces/default/configmaps",
		object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: stored}}`)))
	const password = "passwords belong into Secrets"
	awaitDenial(t, password, func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	w := watchers{}
	eventually(t, 10*time.Second, func() string {
		if seen := w.ask(t); seen != "x" {
			return "changed " + seen
		}
		return ""
	})
	if out := command(1, program, "migrate", "--verify"); !strings.Contains(out, "does not exist natively") ||
		h.version == "" &&
			!strings.Contains(out, "the server does not serve MutatingAdmissionPolicy: 1 stay with celgate serve") {
		t.Errorf("before: %s", out)
	}

	stop := w.start(t)
	script := program + " migrate | " + kubectl + " apply -f -"
	if out := command(0, "sh", "-c", script); strings.Contains(out, "mutating") && h.version == "" ||
		strings.Count(out, " created\n") != map[bool]int{true: 2, false: 4}[h.version == ""] {
		t.Error(out)
	}
	native := []string{"validatingadmissionpolicies/no-passwords", "validatingadmissionpolicybindings/no-passwords"}
	if h.version != "" {
		native = append(native, "mutatingadmissionpolicies/count", "mutatingadmissionpolicybindings/count")
		if a := do(t, server.Call{Method: http.MethodGet,
			Path: "/apis/admissionregistration.k8s.io/" + h.version + "/mutatingadmissionpolicies/count"}); a.Code != http.StatusOK {
			t.Error(string(a.Body))
		}
	}
	for _, each := range native {
		resource, name, _ := strings.Cut(each, "/")
		eventually(t, 20*time.Second, func() string {
			if text, _ := status(t, resource, name); !strings.Contains(text, "reason: Native\n") {
				return each + ": " + text
			}
			return ""
		})
	}
	time.Sleep(3 * time.Second)
	seen := stop()
	t.Logf("handing over: %s", seen)
	if strings.Contains(seen, "not denied") || h.version == "" && strings.Contains(seen, "changed:") {
		t.Error("for a moment nobody enforced a policy")
	}

	// Webhooks are not called for policies that the server enforces.
	for kind, asked := range map[string]bool{"mutating": h.version == "", "validating": false} {
		a := do(t, server.Call{Method: http.MethodGet, Path: webhookPath + kind + "webhookconfigurations/celgate"})
		if strings.Contains(string(a.Body), `"configmaps"`) != asked {
			t.Errorf("%s webhooks: %s", kind, a.Body)
		}
	}
	if seen := w.ask(t); seen != "x" {
		t.Errorf("changed %q", seen)
	}
	if s := configMap(t, map[string]any{"password": "x"}).Status(); s == nil ||
		!strings.Contains(s.Message, password) || strings.Contains(s.Message, "admission webhook") {
		t.Errorf("%+v", s)
	}
	if out := command(0, program, "migrate", "--verify"); !strings.Contains(out, h.verdict) ||
		!strings.Contains(out, " 0 disagree") {
		t.Error(out)
	}
	for _, each := range native {
		remove(t, "/apis/policy.celgate.dev/v1/"+each)
	}
	time.Sleep(time.Second)
	if seen := w.ask(t); seen != "x" {
		t.Errorf("after celgate's own are deleted: changed %q", seen)
	}
	awaitDenial(t, password, func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	for _, g := range r.gates {
		if log := g.log(); strings.Contains(log, "is forbidden") {
			t.Error(log)
		}
	}
}

// watchers create objects and count how often each was changed.
type watchers struct {
	mu   sync.Mutex
	seen map[string]int
}

// ask returns an x for each time a policy was enforced.
func (*watchers) ask(t *testing.T) string {
	t.Helper()
	a := configMap(t, nil)
	tree, err := a.Object()
	if err != nil {
		return fmt.Sprint(err)
	}
	metadata, _ := tree["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	times, _ := annotations["times"].(string)
	return times
}

// start sends requests until the returned function is called, which returns the observations.
func (w *watchers) start(t *testing.T) func() string {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	w.seen = map[string]int{}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			times := w.ask(t)
			denied := "not denied"
			if s := configMap(t, map[string]any{"password": "x"}).Status(); s != nil {
				denied = "denied by the server"
				if strings.Contains(s.Message, "admission webhook") {
					denied = "denied by celgate"
				}
			}
			w.mu.Lock()
			w.seen[strings.TrimSpace("changed "+times)]++
			w.seen[denied]++
			w.mu.Unlock()
		}
	}()
	return func() string {
		cancel()
		<-done
		var lines []string
		for what, n := range w.seen {
			lines = append(lines, fmt.Sprintf("%s: %d", what, n))
		}
		slices.Sort(lines)
		return strings.Join(lines, ", ")
	}
}
