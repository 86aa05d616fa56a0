package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A binary is a program that is built from a Go module.
type binary struct {
	name   string // of the file in the cache, before the version
	module string // whose version names the file
	main   string // the main package
}

var (
	etcd      = binary{"etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"}
	apiserver = binary{"kube-apiserver", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"}
	kubectl   = binary{"kubectl", "k8s.io/kubernetes", "k8s.io/kubernetes/cmd/kubectl"}
)

// Kubectl returns the path of kubectl: the one of the machine, or one that is built and cached as the servers are.
func Kubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return kubectl.build(ctx)
}

// Build makes sure that both programs are in the cache, which is the folder celgate of [os.UserCacheDir], and returns
// their paths. What is missing is built from the requirements of the current Go module, which takes about 15 minutes on
// two cores the first time.
func Build(ctx context.Context) (etcdPath, apiserverPath string, err error) {
	if etcdPath, err = etcd.build(ctx); err != nil {
		return "", "", err
	}
	if apiserverPath, err = apiserver.build(ctx); err != nil {
		return "", "", err
	}
	return etcdPath, apiserverPath, nil
}

func (b binary) build(ctx context.Context) (string, error) {
	version, err := goTool(ctx, "list", "-m", "-f", "{{.Version}}", b.module)
	if err != nil {
		return "", err
	}
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
	if _, err := goTool(ctx, "build", "-o", partial, b.main); err != nil {
		return "", err
	}
	return path, os.Rename(partial, path)
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
