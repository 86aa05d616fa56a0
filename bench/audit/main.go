// Command audit measures celgate audit, or celgate apply, on a dump of mixed objects with 100 policies: its processor
// time and the most memory that it had, for growing numbers of objects.
//
//	go -C bench run ./audit [-objects 10000,100000,400000] [-verb apply]
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	objects := flag.String("objects", "10000,100000,400000", "how many objects, one run for each `numbers`")
	verb := flag.String("verb", "audit", "audit or apply")
	flag.Parse()
	if err := run(*verb, strings.Split(*objects, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

func run(verb string, counts []string) error {
	folder, err := os.MkdirTemp("", "celgate-bench-audit-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "celgate")
	build := exec.Command("go", "build", "-o", program, "github.com/celgate/celgate/cmd/celgate")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	given := filepath.Join(folder, "policies.yaml")
	if err := write(given, policies); err != nil {
		return err
	}
	fmt.Printf("%10s %10s %10s %12s  %s\n", "objects", "cpu s", "MB", "µs/object", "summary")
	for _, text := range counts {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		dump := filepath.Join(folder, "dump.yaml")
		if err := write(dump, func(w io.Writer) { objects(w, n) }); err != nil {
			return err
		}
		args := []string{"audit", "-p", given, "-c", dump}
		if verb == "apply" {
			args = []string{"apply", "--summary", "-p", given, dump}
		}
		cmd := exec.Command(program, args...)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			return fmt.Errorf("%w: %s", err, out)
		}
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		fmt.Printf("%10d %10.1f %10d %12d  %s\n", n, cpu.Seconds(), most>>10, (cpu / time.Duration(n)).Microseconds(),
			lines[len(lines)-1])
	}
	return nil
}

func write(path string, text func(io.Writer)) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	text(w)
	return errors.Join(w.Flush(), file.Close())
}

// kinds are the kinds of the policies, with 20 policies each.
var kinds = []struct {
	group, resource string
	expressions     []string
}{
	{"", "pods", []string{
		"object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
		"object.spec.containers.all(c, !c.?securityContext.?privileged.orValue(false))",
		"!object.spec.?hostNetwork.orValue(false)",
		"object.spec.containers.all(c, has(c.resources) && has(c.resources.limits))",
	}},
	{"apps", "deployments", []string{
		"object.spec.replicas <= 10",
		"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
		"'team' in object.metadata.?labels.orValue({})",
		"object.spec.template.spec.containers.all(c, has(c.resources) && has(c.resources.limits))",
	}},
	{"", "services", []string{"object.spec.type != 'NodePort'", "size(object.spec.ports) < 10",
		"'app' in object.spec.selector", "object.metadata.name.size() < 60"}},
	{"", "configmaps", []string{"size(object.?data.orValue({})) < 20", "'team' in object.metadata.?labels.orValue({})",
		"!object.metadata.name.startsWith('x-')", "!object.?immutable.orValue(false)"}},
	{"networking.k8s.io", "ingresses", []string{"object.spec.rules.all(r, r.host.endsWith('.example.com'))",
		"size(object.spec.rules) < 10", "has(object.spec.ingressClassName)",
		"'team' in object.metadata.?labels.orValue({})"}},
}

func policies(w io.Writer) {
	for i := range 100 {
		k := kinds[i%len(kinds)]
		fmt.Fprintf(w, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p%03d}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [%q], apiVersions: [v1], resources: [%s], operations: [CREATE, UPDATE]}]
  validations:
  - expression: %q
    message: policy %d says no
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p%03d}
spec: {policyName: p%03d, validationActions: [Deny]}
`, i, k.group, k.resource, k.expressions[i/len(kinds)%len(k.expressions)], i, i, i)
	}
}

// objects writes n objects in 50 namespaces: three of eight are Pods, two Deployments, and one each is a Service, a
// ConfigMap and an Ingress. One in a hundred breaks a policy.
func objects(w io.Writer, n int) {
	for i := range 50 {
		fmt.Fprintf(w, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns-%02d, labels: {tier: front}}\n", i)
	}
	for i := range n {
		registry := "registry.example.com"
		if i%100 == 0 {
			registry = "docker.io"
		}
		metadata := fmt.Sprintf("metadata:\n  name: object-%07d\n  namespace: ns-%02d\n  labels:\n    app: web\n    team: shop\n  uid: 6f1f5ab4-0000-4000-8000-%012d\n  resourceVersion: \"%d\"\n", i, i%50, i, i)
		containers := func(indent string) string {
			return indent + "containers:\n" + indent + "- name: app\n" + indent + "  image: " + registry + "/app:1\n" +
				indent + "  securityContext:\n" + indent + "    runAsNonRoot: true\n" + indent + "  resources:\n" + indent + "    limits:\n" + indent + "      memory: 64Mi\n"
		}
		switch i % 8 {
		case 0, 1, 2:
			fmt.Fprintf(w, "---\napiVersion: v1\nkind: Pod\n%sspec:\n%s", metadata, containers("  "))
		case 3, 4:
			fmt.Fprintf(w, "---\napiVersion: apps/v1\nkind: Deployment\n%sspec:\n  replicas: 3\n  selector:\n    matchLabels:\n      app: web\n  template:\n    metadata:\n      labels:\n        app: web\n    spec:\n%s", metadata, containers("      "))
		case 5:
			fmt.Fprintf(w, "---\napiVersion: v1\nkind: Service\n%sspec:\n  selector:\n    app: web\n  ports:\n  - name: http\n    port: 80\n", metadata)
		case 6:
			fmt.Fprintf(w, "---\napiVersion: v1\nkind: ConfigMap\n%sdata:\n  key: value\n", metadata)
		case 7:
			fmt.Fprintf(w, "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\n%sspec:\n  ingressClassName: nginx\n  rules:\n  - host: a.example.com\n", metadata)
		}
	}
}
