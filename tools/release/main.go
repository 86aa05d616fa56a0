// Command release makes the files of a release of the commit that is checked out, without publishing or signing them,
// with goreleaser, as .goreleaser.yaml says:
//
//	go -C tools run ./release -targets linux_amd64,windows_arm64 -twice
//
// With -twice they are made once more, in another folder and with nothing from the build cache, and must be the same to
// the bit.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Programs that make a release, as modules with versions.
const (
	goreleaser = "github.com/goreleaser/goreleaser/v2@v2.15.1"
	sbom       = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
)

// folder is the output folder of goreleaser, relative to the root of the repository.
const folder = "bin/release"

func main() {
	targets := flag.String("targets", "", "`OS_ARCH,...` to build for (default: all)")
	twice := flag.Bool("twice", false, "make them once more elsewhere, and compare")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *targets, *twice); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, targets string, twice bool) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	var only []string
	if targets != "" {
		only = strings.Split(targets, ",")
	}
	work, err := os.MkdirTemp("", "celgate-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	head, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	m := &maker{programs: filepath.Join(work, "programs"), commit: strings.TrimSpace(string(head)), targets: only}
	if err := m.install(ctx); err != nil {
		return err
	}
	made, err := m.make(ctx, root, filepath.Join(work, "first"))
	if err != nil {
		return err
	}
	if twice {
		m.env = []string{"GOCACHE=" + filepath.Join(work, "cache")}
		again, err := m.make(ctx, root, filepath.Join(work, "in a folder of another name"))
		if err != nil {
			return err
		}
		if err := compare(made, again); err != nil {
			return err
		}
	}
	out := filepath.Join(root, folder)
	if err := errors.Join(os.RemoveAll(out), os.CopyFS(out, os.DirFS(filepath.Join(work, "first", folder)))); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		fmt.Printf("%s  %s/%s\n", made[name], folder, name)
	}
	return nil
}

// A maker makes releases.
type maker struct {
	programs string   // the folder of the programs that make them
	commit   string   // that they are made of
	targets  []string // all of the configuration if empty
	env      []string // beside that of this process
}

// install builds the programs.
func (m *maker) install(ctx context.Context) error {
	for _, module := range []string{goreleaser, sbom} {
		cmd := command(ctx, "", "go", "install", module)
		cmd.Env = append(os.Environ(), "GOBIN="+m.programs, "GOFLAGS=")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("building %s: %w", module, err)
		}
	}
	return nil
}

// make builds a release of the commit in a clone, and returns the digests of its files. A clone has a
// remote, from which goreleaser determines the repository, and does not contain uncommitted files.
func (m *maker) make(ctx context.Context, repository, clone string) (map[string]string, error) {
	if err := command(ctx, "", "git", "clone", "--quiet", "--no-hardlinks", repository, clone).Run(); err != nil {
		return nil, fmt.Errorf("git clone: %w", err)
	}
	if err := command(ctx, clone, "git", "checkout", "--quiet", m.commit).Run(); err != nil {
		return nil, fmt.Errorf("git checkout: %w", err)
	}
	if page := filepath.Join(repository, "bin", "playground"); exists(page) {
		if err := os.CopyFS(filepath.Join(clone, "bin", "playground"), os.DirFS(page)); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(filepath.Join(clone, ".goreleaser.yaml"))
	if err != nil {
		return nil, err
	}
	if text, err = restrict(text, m.targets); err != nil {
		return nil, err
	}
	config := filepath.Join(m.programs, "goreleaser.yaml")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return nil, err
	}
	// One build at a time: the programs share most packages, which builds beside each other would compile twice.
	cmd := command(ctx, clone, filepath.Join(m.programs, "goreleaser"), "release", "--config", config, "--snapshot",
		"--clean", "--parallelism=1", "--skip=sign,ko,publish,announce")
	cmd.Env = append(os.Environ(), "PATH="+m.programs+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, m.env...)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("goreleaser: %w", err)
	}
	return digests(filepath.Join(clone, folder))
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// restrict keeps only the named targets of a configuration, and makes bin/release its folder.
func restrict(text []byte, targets []string) ([]byte, error) {
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	config["dist"] = folder
	if len(targets) == 0 {
		return yaml.Marshal(config)
	}
	known := map[string]bool{}
	builds, _ := config["builds"].([]any)
	for _, b := range builds {
		build, _ := b.(map[string]any)
		all, _ := build["targets"].([]any)
		left := []any{}
		for _, t := range all {
			name, _ := t.(string)
			known[name] = true
			if slices.Contains(targets, name) {
				left = append(left, t)
			}
		}
		build["targets"], build["skip"] = left, len(left) == 0
	}
	for _, t := range targets {
		if !known[t] {
			return nil, fmt.Errorf("no build is for %s, only for %s", t, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return yaml.Marshal(config)
}

// digests returns the SHA-256 of each file of a release, by its name. It leaves out the metadata of goreleaser's run.
func digests(dir string) (map[string]string, error) {
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || slices.Contains([]string{"artifacts.json", "config.yaml", "metadata.json"}, e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = hex.EncodeToString(sum[:])
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no files", dir)
	}
	return all, nil
}

// compare reports the files that two releases do not have in common.
func compare(a, b map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			errs = append(errs, fmt.Errorf("%s differs between two builds of one commit", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if a[name] == "" {
			errs = append(errs, fmt.Errorf("%s is made by the second build alone", name))
		}
	}
	return errors.Join(errs...)
}

// command is a program whose output is seen.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	return cmd
}
