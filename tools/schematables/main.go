// Command schematables writes the type tables of package schema/builtin: the fields, merge rules, defaults and
// resources of every built-in kind of one Kubernetes minor. Command packtables puts them there.
//
// Run it in the folder of this module, for the minor of go.mod and for those that have a module file of their own:
//
//	go run ./schematables -out DIR
//	GOFLAGS=-modfile=1.36.mod go run ./schematables -out DIR
//
// Field names, omitempty, pointers and special types come from the Go API types by reflection; list types, map keys,
// declared defaults and required members from the OpenAPI v3 documents of k8s.io/kubernetes; resources, subresources
// and their kinds from its discovery documents; features that are off from its feature gates. Where the two views of a
// type disagree, it stops.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "", "write to `DIR`/<minor>, from where packtables takes it")
	flag.Parse()
	if *out == "" {
		fmt.Fprintln(os.Stderr, "schematables: -out is needed")
		os.Exit(2)
	}
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "schematables:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	source, err := kubernetes()
	if err != nil {
		return err
	}
	defs, err := readDefinitions(filepath.Join(source.Dir, "api", "openapi-spec", "v3"))
	if err != nil {
		return err
	}
	groups, err := readGroups(filepath.Join(source.Dir, "api", "discovery"))
	if err != nil {
		return err
	}
	w := newWalk(defs)
	for _, g := range groups {
		if err := w.addGroup(g); err != nil {
			return err
		}
	}
	meta, err := w.addMeta()
	if err != nil {
		return err
	}
	groups = append(groups, meta)
	if err := w.addAnnotations(); err != nil {
		return err
	}
	if err := w.checkComplete(); err != nil {
		return err
	}
	off, err := readFeatures(filepath.Join(source.Dir, "pkg", "features"), source.minor())
	if err != nil {
		return err
	}
	legacy, err := legacyBetas(filepath.Join(source.Dir, "pkg", "controlplane", "instance.go"))
	if err != nil {
		return err
	}
	dir := filepath.Join(out, source.minor())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return write(dir, index(off, groups, legacy), w)
}

// A module is the Kubernetes source that the tables describe.
type module struct{ Dir, Version string }

// minor returns "1.37" for v1.37.2.
func (m module) minor() string {
	parts := strings.SplitN(strings.TrimPrefix(m.Version, "v"), ".", 3)
	return parts[0] + "." + parts[1]
}

// kubernetes finds the k8s.io/kubernetes module that go.mod names.
func kubernetes() (module, error) {
	answer, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}\n{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return module{}, fmt.Errorf("finding k8s.io/kubernetes: %w", err)
	}
	dir, version, ok := strings.Cut(strings.TrimSpace(string(answer)), "\n")
	if !ok || dir == "" {
		return module{}, fmt.Errorf("k8s.io/kubernetes is not downloaded: run go mod download k8s.io/kubernetes")
	}
	return module{Dir: dir, Version: version}, nil
}
