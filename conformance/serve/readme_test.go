package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// TestReadme runs the commands of the README from an empty cluster to a mutated Pod, followed by those of
// docs/serve.md, in a shell. It plays the parts of a cluster that are missing here: the controllers and the kubelet,
// which start the Deployment with its service account and arguments, and the network, by which a Service reaches Pods.
func TestReadme(t *testing.T) {
	empty, err := server.Start(t.Context(), server.Options{Minor: *minor, Plugins: []string{"PodSecurity"},
		Disabled: ownPolicies})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = empty.Stop() })
	kubectl, err := server.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, path := range map[string]string{"kubectl": kubectl, "celgate": program} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	sh := &shell{server: empty, path: bin}
	played := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var gates []*gate
	go func() {
		err := errors.New("celgate did not start")
		defer func() { played <- err }()
		gates, err = sh.play(ctx, t)
	}()

	out, err := sh.run(t.Context(), commands(t, "../../README.md", "## In a cluster without these kinds"))
	t.Logf("%s", out)
	if failed := <-played; failed != nil {
		t.Fatal(failed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out), "\n"); lines[len(lines)-1] != "admin" {
		t.Errorf("the annotation is %q", lines[len(lines)-1])
	}

	lines := strings.SplitAfter(strings.TrimSpace(
		commands(t, "../../docs/serve.md", "## From an empty cluster to a mutated object")), "\n")
	deny := lines[len(lines)-1]
	for _, line := range lines[1 : len(lines)-1] { // it is installed
		if out, err := sh.run(t.Context(), line); err != nil {
			t.Fatal(line, err, out)
		}
		if strings.Contains(line, "params.yaml") { // the controller that aggregates does not run here
			if out, err := sh.run(t.Context(), aggregate); err != nil {
				t.Fatal(err, out)
			}
		}
	}
	if out, err := sh.run(t.Context(), deny); err == nil ||
		!strings.Contains(out, "denied request: at most 5 replicas") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := sh.run(t.Context(), `kubectl get deployment web -o jsonpath='{.metadata.annotations.example\.com/owner}'`); err != nil || out != "admin" {
		t.Error(err, out)
	}
	for _, g := range gates {
		if log := g.log(); strings.Contains(log, "is forbidden") {
			t.Error("a right is missing:\n" + log)
		}
	}

	// The commands of uninstall remove celgate, and denials stop. The controller that empties namespaces does not run
	// here.
	if out, err := sh.run(t.Context(), "celgate uninstall --print | sed 's/delete namespace/& --wait=false/' | sh"); err != nil {
		t.Error(err, out)
	}
	if out, err := sh.run(t.Context(), deny); err != nil {
		t.Error(err, out)
	}
}

// aggregate sets the rules of the ClusterRole celgate-params, as the controller-manager does.
const aggregate = `rules=$(kubectl get clusterrole celgate-params-configmaps -o jsonpath='{.rules}')
kubectl patch clusterrole celgate-params --type=merge -p "{\"rules\": $rules}"`

// commands returns the shell block below a heading.
func commands(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^" + regexp.QuoteMeta(heading) + "\n.*?^```sh\n(.*?)^```$").FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no commands below %q", file, heading)
	}
	return strings.ReplaceAll(string(m[1]), "--image IMAGE", "--image registry.example.com/celgate:1")
}

// A shell runs commands in the root of the repository against a server.
type shell struct {
	server *server.Server
	path   string // of programs
}

func (s *shell) run(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.server.Kubeconfig, "PATH="+s.path+":"+os.Getenv("PATH"),
		"HOME="+s.server.Folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// play waits for celgate's Deployment and starts its container.
func (s *shell) play(ctx context.Context, t *testing.T) ([]*gate, error) {
	var deployment struct {
		Spec struct {
			Replicas int
			Template struct{ Spec json.RawMessage }
		}
	}
	const in = "kubectl --namespace celgate-system "
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		out, err := s.run(ctx, in+"get deployment celgate -o json")
		if err == nil {
			if err := json.Unmarshal([]byte(out), &deployment); err != nil {
				return nil, err
			}
			break
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no Deployment: %w: %s", err, out)
		}
	}
	var pod struct {
		ServiceAccountName string
		Containers         []struct{ Args []string }
	}
	if err := json.Unmarshal(deployment.Spec.Template.Spec, &pod); err != nil {
		return nil, err
	}
	// The namespace enforces the restricted level, which is about Pods.
	review := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "celgate"}, "spec": ` + string(
		deployment.Spec.Template.Spec) + `}`
	if out, err := s.run(ctx, in+"create --dry-run=server -f - <<'END'\n"+review+"\nEND"); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	b := balance(t)
	_, port, err := net.SplitHostPort(b.address)
	if err != nil {
		return nil, err
	}
	if out, err := s.run(ctx, in+`patch service celgate -p '{"spec": {"type": "ExternalName", "externalName": "localhost"}}'`); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	token, err := s.run(ctx, in+"create token "+pod.ServiceAccountName)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, token)
	}
	config, err := os.ReadFile(s.server.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config = bytes.ReplaceAll(config, []byte(s.server.Token), []byte(strings.TrimSpace(token)))
	config = bytes.ReplaceAll(config, []byte("namespace: default"), []byte("namespace: celgate-system"))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, config, 0o600); err != nil {
		return nil, err
	}
	args := pod.Containers[0].Args
	args = append(args, "--kubeconfig="+kubeconfig, "--service-port="+port, "--metrics-listen=127.0.0.1:0",
		"--drain-delay=0s",
		"--log-format=text",
	)
	var gates []*gate
	for range deployment.Spec.Replicas {
		g := startWebhook(t, args...)
		gates = append(gates, g)
		b.add(g)
	}
	return gates, nil
}
