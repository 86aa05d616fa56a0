// Package ci runs the integrations for CI systems, as far as possible without GitHub, GitLab and pre-commit: the steps
// of action.yml, the script of templates/celgate.yml and the hooks of .pre-commit-hooks.yaml, as written. They install
// this checkout.
package ci

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
	"sigs.k8s.io/yaml"
)

const modulePath = "github.com/celgate/celgate"

var (
	root, _ = filepath.Abs("../..")

	// inputs are example inputs with the folders of this repository.
	inputs = map[string]string{
		"policies":      "examples/policies",
		"tests":         "examples/mutating-labels/suite.yaml",
		"manifests":     "examples/manifests/web.yaml",
		"cluster-state": "examples/manifests/namespaces.yaml",
	}
)

// TestAction runs the steps of the composite action, once with the inputs and once where a manifest is denied.
func TestAction(t *testing.T) {
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				Name, If, Run string
				Env           map[string]string
			}
		}
	}
	read(t, filepath.Join(root, "action.yml"), &action)
	run := func(t *testing.T, given map[string]string) (ran []string, out string, failed error) {
		temp := t.TempDir()
		paths := filepath.Join(temp, "paths")
		value := func(text string) string {
			return regexp.MustCompile(`\$\{\{ *(.+?) *\}\}`).ReplaceAllStringFunc(text, func(m string) string {
				expression := strings.Trim(m, "${ }")
				name, isInput := strings.CutPrefix(expression, "inputs.")
				input, known := action.Inputs[name]
				if !isInput || !known {
					t.Fatalf("unknown expression %s", m)
				}
				if v, ok := given[name]; ok {
					return v
				}
				return input.Default
			})
		}
		for _, s := range action.Runs.Steps {
			if s.Run == "" {
				continue // uses another action: Go is installed here
			}
			if s.If != "" {
				name := regexp.MustCompile(`^\$\{\{ inputs\.([a-z-]+) != '' \}\}$`).FindStringSubmatch(s.If)
				if name == nil {
					t.Fatalf("unknown condition %s", s.If)
				}
				if value("${{ inputs."+name[1]+" }}") == "" {
					continue
				}
			}
			added, _ := os.ReadFile(paths)
			cmd := exec.Command("bash", "-eo", "pipefail", "-c", s.Run)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "GITHUB_ACTION_PATH="+root, "RUNNER_TEMP="+temp, "GITHUB_PATH="+paths,
				"PATH="+strings.TrimSpace(string(added))+":"+os.Getenv("PATH"))
			for k, v := range s.Env {
				cmd.Env = append(cmd.Env, k+"="+value(v))
			}
			text, err := cmd.CombinedOutput()
			ran, out = append(ran, s.Name), out+string(text)
			if err != nil {
				return ran, out, err
			}
		}
		return ran, out, nil
	}
	if ran, out, err := run(t, inputs); err != nil || len(ran) != 4 {
		t.Errorf("%v: %v\n%s", ran, err, out)
	}
	denied := map[string]string{"policies": "examples/policies", "manifests": "examples/manifests", "kube-version": "1.36"}
	ran, out, err := run(t, denied)
	if err == nil || len(ran) != 3 || !strings.Contains(out, "::error file=examples/manifests/cache.yaml,line=2") {
		t.Errorf("a denied manifest: %v: %v\n%s", ran, err, out)
	}
}

// TestComponent runs the job of the GitLab component, in which go install takes the module from this checkout.
func TestComponent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "templates", "celgate.yml"))
	if err != nil {
		t.Fatal(err)
	}
	head, job, ok := bytes.Cut(text, []byte("\n---\n"))
	if !ok {
		t.Fatal("the component has no specification")
	}
	var spec struct {
		Spec struct {
			Inputs map[string]struct{ Default string }
		}
	}
	if err := yaml.Unmarshal(head, &spec); err != nil {
		t.Fatal(err)
	}
	job = regexp.MustCompile(`\$\[\[ *inputs\.([a-z-]+) *\]\]`).ReplaceAllFunc(job, func(m []byte) []byte {
		name := strings.TrimPrefix(strings.Trim(string(m), "$[ ]"), "inputs.")
		input, known := spec.Spec.Inputs[name]
		if !known {
			t.Fatalf("unknown input %s", name)
		}
		if v, ok := inputs[name]; ok {
			return []byte(v)
		}
		return []byte(input.Default)
	})
	var jobs map[string]struct {
		Variables map[string]string
		Script    []string
	}
	if err := yaml.Unmarshal(job, &jobs); err != nil {
		t.Fatal(err)
	}
	programs, dir := t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", strings.Join(jobs["celgate"].Script, "\n"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOBIN="+programs, "PATH="+programs+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, offer(t)...)
	for k, v := range jobs["celgate"].Variables {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, report := range []string{"celgate-tests.xml", "celgate-manifests.xml"} {
		if text, err := os.ReadFile(filepath.Join(dir, report)); err != nil || !bytes.Contains(text, []byte("<testcase")) {
			t.Errorf("%s: %s (%v)", report, text, err)
		}
	}
}

// offer serves the checked-out commit as the newest version of the module, and returns the variables with which the Go
// tool finds it there. The tool's copies are removed when the test ends.
func offer(t *testing.T) []string {
	t.Helper()
	proxy := t.TempDir()
	version := fmt.Sprintf("v0.0.1-test.%d", time.Now().UnixNano())
	folder := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(folder, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromVCS(archive, module.Version{Path: modulePath, Version: version}, root, "HEAD", ""); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{version + ".mod": string(mod), "list": version + "\n",
		version + ".info": fmt.Sprintf(`{"Version": %q, "Time": %q}`, version, time.Now().UTC().Format(time.RFC3339))} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(variable string) string {
		out, err := exec.Command("go", "env", variable).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	cache := ask("GOMODCACHE")
	t.Cleanup(func() {
		kept := filepath.Join(cache, "github.com", "celgate", "celgate@"+version)
		_ = exec.Command("chmod", "-R", "u+w", kept).Run() // the Go tool makes it read-only
		_ = os.RemoveAll(kept)
		found, _ := filepath.Glob(filepath.Join(cache, "cache", "download", "github.com", "celgate", "celgate", "@v", version+".*"))
		for _, file := range found {
			_ = os.Remove(file)
		}
	})
	return []string{"GOPROXY=file://" + filepath.ToSlash(proxy) + "," + ask("GOPROXY"), "GONOSUMDB=" + modulePath,
		"GOFLAGS=-buildvcs=false"}
}

// TestHooks runs each hook of pre-commit on files that it passes, and those that find mistakes on one that has them.
func TestHooks(t *testing.T) {
	var hooks []struct {
		ID, Entry, Language string
		PassFilenames       *bool `json:"pass_filenames"`
	}
	read(t, filepath.Join(root, ".pre-commit-hooks.yaml"), &hooks)
	programs := t.TempDir()
	if out, err := exec.Command("go", "build", "-C", root, "-o", programs, "./cmd/celgate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const files = "examples/manifests/web.yaml examples/policies/replicas.yaml"
	good := map[string]string{ // arguments, as .pre-commit-config.yaml gives them, and files of the commit
		"celgate-check": "examples/policies/replicas.yaml",
		"celgate-fmt":   "examples/policies/replicas.yaml",
		"celgate-test":  "examples/mutating-labels/suite.yaml",
		"celgate-apply": "-p examples/policies -c examples/manifests/namespaces.yaml " + files,
	}
	bad := map[string]string{
		"celgate-check": "bad/policy.yaml",
		"celgate-apply": "-p examples/policies -c examples/manifests/namespaces.yaml examples/manifests/cache.yaml",
	}
	for _, h := range hooks {
		run := func(args string) (string, error) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
				t.Fatal(err)
			}
			policy, err := os.ReadFile(filepath.Join(dir, "examples/policies/replicas.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "bad"), 0o755); err != nil {
				t.Fatal(err)
			}
			policy = bytes.Replace(policy, []byte("object.spec.replicas"), []byte("object.spec.replica"), 1)
			if err := os.WriteFile(filepath.Join(dir, "bad/policy.yaml"), policy, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", h.Entry+" "+args)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		args, ok := good[h.ID]
		if !ok || h.Language != "golang" {
			t.Errorf("%s is not tested here", h.ID)
			continue
		}
		if out, err := run(args); err != nil {
			t.Errorf("%s %s: %v\n%s", h.ID, args, err, out)
		}
		if args, ok := bad[h.ID]; ok {
			if out, err := run(args); err == nil {
				t.Errorf("%s %s finds nothing:\n%s", h.ID, args, out)
			}
		}
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
