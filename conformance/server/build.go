package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A binary is a program that is built from a Go module.
type binary struct {
	name   string // of the file in the cache, before the version
	module string // whose version names the file
	main   string // the main package
}

// A release is another kube-apiserver than that of the current Go module.
type release struct {
	version string   // of k8s.io/kubernetes
	unknown []string // of Disturbing: it does not start if it is to turn off a plugin that it does not have

	// mutating is the version in which it serves MutatingAdmissionPolicies; empty: in none.
	mutating string
}

// releases are the other supported kube-apiservers, by minor. The unknown plugins of each were determined from the
// PluginName of its own plugins.
var releases = map[string]release{
	"1.30": {version: "v1.30.14", unknown: []string{"NodeDeclaredFeatureValidator", "PodGroupProtection",
		"PodResizeValidator", "PodTopologyLabels"}},
	"1.31": {version: "v1.31.14", unknown: []string{"NodeDeclaredFeatureValidator", "PodGroupProtection",
		"PodResizeValidator", "PodTopologyLabels"}},
	"1.32": {version: "v1.32.13", unknown: []string{"NodeDeclaredFeatureValidator", "PodGroupProtection",
		"PodResizeValidator", "PodTopologyLabels"}, mutating: "v1alpha1"},
	"1.33": {version: "v1.33.13", unknown: []string{"NodeDeclaredFeatureValidator", "PodGroupProtection",
		"PodResizeValidator"}, mutating: "v1alpha1"},
	"1.34": {version: "v1.34.4", unknown: []string{"NodeDeclaredFeatureValidator", "PodGroupProtection",
		"PodResizeValidator"}, mutating: "v1beta1"},
	"1.35": {version: "v1.35.4", unknown: []string{"PodGroupProtection", "PodResizeValidator"}, mutating: "v1beta1"},
	"1.36": {version: "v1.36.3", mutating: "v1"},
}

// lacks reports whether a server of the minor does not have a plugin; that of MutatingAdmissionPolicies came with them.
func lacks(minor, plugin string) bool {
	return slices.Contains(releases[minor].unknown, plugin) ||
		plugin == "MutatingAdmissionPolicy" && MutatingVersion(minor) == ""
}

// Minors returns the minors of the other kube-apiservers that can be built, sorted.
func Minors() []string { return slices.Sorted(maps.Keys(releases)) }

// MutatingVersion returns the version of admissionregistration.k8s.io in which a server of the minor, started with
// [MutatingArgs], serves MutatingAdmissionPolicies. It is empty if the minor does not serve them.
func MutatingVersion(minor string) string {
	if r, other := releases[minor]; other {
		return r.mutating
	}
	return "v1"
}

// MutatingArgs are the flags with which a server of the minor serves MutatingAdmissionPolicies where that is off by
// default.
func MutatingArgs(minor string) []string {
	gates := MutatingGates(minor)
	if gates == nil {
		return nil
	}
	return append(gates, "--runtime-config=admissionregistration.k8s.io/"+MutatingVersion(minor)+"=true")
}

// MutatingGates are those of MutatingArgs without --runtime-config.
func MutatingGates(minor string) []string {
	if version := MutatingVersion(minor); version == "" || version == "v1" {
		return nil
	}
	return []string{"--feature-gates=MutatingAdmissionPolicy=true"}
}

var (
	etcd      = binary{"etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"}
	apiserver = binary{"kube-apiserver", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"}
	kubectl   = binary{"kubectl", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl"}
)

// Kubectl returns the path of kubectl: the installed one, or one that is built and cached like the servers.
func Kubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return kubectl.build(ctx)
}

// Build makes sure that both programs are in the cache, which is the folder celgate of [os.UserCacheDir], and returns
// their paths. It builds a missing program from the requirements of the current Go module, or kube-apiserver from those
// of another minor, which takes about 15 minutes on two cores the first time.
func Build(ctx context.Context, minor string) (etcdPath, apiserverPath string, err error) {
	if etcdPath, err = etcd.build(ctx); err != nil {
		return "", "", err
	}
	if minor == "" {
		apiserverPath, err = apiserver.build(ctx)
		return etcdPath, apiserverPath, err
	}
	other, ok := releases[minor]
	if !ok {
		return "", "", fmt.Errorf("no kube-apiserver %s: there are %s", minor, slices.Sorted(maps.Keys(releases)))
	}
	apiserverPath, err = apiserver.cachedPath(other.version,
		func(path string) error { return apiserver.buildRelease(ctx, other.version, path) })
	return etcdPath, apiserverPath, err
}

// Celgate builds celgate into a folder and returns the path of the program.
func Celgate(ctx context.Context, folder string) (string, error) {
	return buildOwn(ctx, folder, "celgate")
}

// Webhook builds celgate-webhook into a folder and returns the path of the program.
func Webhook(ctx context.Context, folder string) (string, error) {
	return buildOwn(ctx, folder, "celgate-webhook")
}

func buildOwn(ctx context.Context, folder, name string) (string, error) {
	path := filepath.Join(folder, name)
	_, err := goTool(ctx, "build", "-C", "../..", "-o", path, "./cmd/"+name)
	return path, err
}

func (b binary) build(ctx context.Context) (string, error) {
	version, err := goTool(ctx, "list", "-m", "-f", "{{.Version}}", b.module)
	if err != nil {
		return "", err
	}
	return b.cachedPath(version, func(path string) error {
		_, err := goTool(ctx, "build", "-o", path, b.main)
		return err
	})
}

// cachedPath returns the path of a version in the cache, after it was built if it was not there.
func (b binary) cachedPath(version string, build func(path string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "celgate")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(folder, b.name+"-"+version)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil { // built by another process while this one waited
		return path, nil
	}
	partial := path + ".partial"
	if err := build(partial); err != nil {
		return "", err
	}
	return path, os.Rename(partial, path)
}

// buildRelease builds a version of k8s.io/kubernetes in a module that has the requirements of that version and no
// others. It is kept beside the path until the program is built.
func (b binary) buildRelease(ctx context.Context, version, path string) error {
	folder := path + ".module"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	out, err := goTool(ctx, "-C", folder, "mod", "download", "-json", b.module+"@"+version)
	if err != nil {
		return err
	}
	var download struct{ GoMod string }
	if err := json.Unmarshal([]byte(out), &download); err != nil {
		return err
	}
	own, err := os.ReadFile(download.GoMod)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), own, 0o644); err != nil {
		return err
	}
	if out, err = goTool(ctx, "-C", folder, "mod", "edit", "-json"); err != nil {
		return err
	}
	var file struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal([]byte(out), &file); err != nil {
		return err
	}
	args := []string{"-C", folder, "mod", "edit", "-module=celgate.invalid/kubernetes",
		"-require=" + b.module + "@" + version}
	published := "v0." + strings.TrimPrefix(version, "v1.")
	for _, each := range file.Replace {
		if strings.HasPrefix(each.New.Path, "./staging/") { // in the release's tree; published as a separate module
			args = append(args, "-replace="+each.Old.Path+"="+each.Old.Path+"@"+published)
		}
	}
	if _, err := goTool(ctx, args...); err != nil {
		return err
	}
	_, err = goTool(ctx, "-C", folder, "build", "-mod=mod", "-ldflags="+stamp(version), "-o", path, b.main)
	return err
}

// stamp returns the linker flags that set the version of a program: its answer to /version.
func stamp(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const variables = "-X k8s.io/component-base/version."
	return variables + "gitVersion=" + version + " " + variables + "gitMajor=" + parts[0] + " " + variables +
		"gitMinor=" + parts[1]
}

// goTool runs the go command and returns its trimmed output.
func goTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
