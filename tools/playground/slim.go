package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The code that a browser does not need: the encoding of API types as protocol buffers, and the metrics and
// command-line flags of components. The module is built with copies of these modules in which those parts are empty;
// the code that decides does not change.
var slimmed = []slim{
	{module: "k8s.io/api"},
	{module: "k8s.io/apiextensions-apiserver"},
	{module: "k8s.io/component-base", packages: map[string]string{
		"cli/flag":                         flagSource,
		"metrics":                          metricsSource,
		"metrics/legacyregistry":           registrySource,
		"metrics/prometheus/feature":       featureSource,
		"metrics/prometheus/compatversion": compatSource,
	}},
}

// A slim is a module without its generated encoding, and with some packages replaced.
type slim struct {
	module   string
	packages map[string]string // the one file of each
}

const flagSource = `// Package flag has the names that a program without a command line refers to.
package flag

type ColonSeparatedMultimapStringString struct{}

func NewColonSeparatedMultimapStringStringAllowDefaultEmptyKey(
	*map[string][]string,
) *ColonSeparatedMultimapStringString {
	return &ColonSeparatedMultimapStringString{}
}

func (*ColonSeparatedMultimapStringString) Set(string) error { return nil }
func (*ColonSeparatedMultimapStringString) String() string   { return "" }
func (*ColonSeparatedMultimapStringString) Type() string     { return "" }
`

const metricsSource = `// Package metrics measures nothing.
package metrics

type StabilityLevel string

const (
	ALPHA StabilityLevel = "ALPHA"
	BETA  StabilityLevel = "BETA"
)

type Registerable any

type HistogramOpts struct {
	Namespace, Subsystem, Name, Help string
	Buckets                          []float64
	StabilityLevel                   StabilityLevel
}

type Histogram struct{ *HistogramOpts }

func NewHistogram(o *HistogramOpts) *Histogram { return &Histogram{o} }

func (*Histogram) Observe(float64) {}

func ExponentialBuckets(float64, float64, int) []float64 { return nil }
`

const registrySource = `// Package legacyregistry registers nothing.
package legacyregistry

func MustRegister(...any) {}
`

const featureSource = `// Package feature records nothing.
package feature

import "context"

func RecordFeatureInfo(context.Context, string, string, bool) {}
`

const compatSource = `// Package compatversion records nothing.
package compatversion

import "context"

func RecordCompatVersionInfo(context.Context, string, string, string, string) {}
`

// slimModules writes the copies into a folder, and a go.mod that replaces the modules by them. It returns the path of
// that file.
func slimModules(root, dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	var edits []string
	for _, s := range slimmed {
		to := filepath.Join(dir, s.module)
		if err := s.copyTo(root, to); err != nil {
			return "", fmt.Errorf("%s: %w", s.module, err)
		}
		edits = append(edits, "-replace="+s.module+"="+to)
	}
	file := filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	edit := exec.Command("go", append(append([]string{"mod", "edit"}, edits...), file)...)
	edit.Stderr = os.Stderr
	return file, edit.Run()
}

// copyTo copies the Go files of a module that are part of a program.
func (s slim) copyTo(root, to string) error {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", s.module)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return err
	}
	from := strings.TrimSpace(string(out))
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(from, path)
		if d.IsDir() {
			if _, replaced := s.packages[filepath.ToSlash(name)]; replaced && name != "metrics" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") && name != "go.mod" || strings.HasSuffix(name, "_test.go") ||
			s.packages[filepath.ToSlash(filepath.Dir(name))] != "" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if d.Name() == "generated.pb.go" || d.Name() == "generated.protomessage.pb.go" {
			text = emptyFile(text)
		}
		return write(filepath.Join(to, name), text)
	})
	for name, text := range s.packages {
		if err == nil {
			err = write(filepath.Join(to, name, filepath.Base(name)+".go"), []byte(text))
		}
	}
	return err
}

// emptyFile returns a file of the same package without declarations.
func emptyFile(text []byte) []byte {
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("package ")) {
			return line
		}
	}
	return text
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
