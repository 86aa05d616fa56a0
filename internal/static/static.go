// Package static reads the policies that an API server takes from files of its own (KEP-5793), as the server does at
// its start: all of a directory, or none of it.
package static

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// A Dir is a directory of static policies.
type Dir struct {
	Path string
	Kind policy.Kind // of its policies; empty: that of the first
}

// A Problem is one reason why a server does not start with a directory.
type Problem struct {
	Position policy.Position
	Message  string
}

// Error says where the problem is and what it is.
func (p *Problem) Error() string {
	if place := p.Position.String(); place != "" {
		return place + ": " + p.Message
	}
	return p.Message
}

// Load reads the static policies of directories as a server of a minor does. The error joins a [Problem] for everything
// that keeps the server from starting; then no policy is in force.
func Load(minor string, dirs ...Dir) (*policy.Set, error) {
	all := &policy.Set{}
	if len(dirs) == 0 {
		return all, nil
	}
	if !quirks.ReleaseOf(minor).Static {
		return nil, fmt.Errorf("%s: Kubernetes %s reads no static policies unless the feature gate %s is on",
			dirs[0].Path, minor, quirks.StaticGate)
	}
	envs, err := celenv.New(minor, quirks.Of(minor))
	if err != nil {
		return nil, err
	}
	var errs []error
	var kinds []policy.Kind // of the directories
	for i, d := range dirs {
		r := reader{kind: d.Kind, envs: envs}
		r.directory(d.Path)
		errs = append(errs, r.problems...)
		for j, other := range dirs[:i] {
			if r.kind != "" && r.kind == kinds[j] && other.Path != d.Path {
				errs = append(errs, fmt.Errorf("%s: the server reads %s from one directory, and here is %s too", d.Path,
					plural(r.kind), other.Path))
			}
		}
		kinds = append(kinds, r.kind)
		all.Policies, all.Bindings = append(all.Policies, r.set.Policies...), append(all.Bindings, r.set.Bindings...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	unique, _ := all.Unique() // of a directory that is given twice
	return &unique, nil
}

// A reader reads one directory.
type reader struct {
	kind     policy.Kind
	envs     *celenv.Set
	set      policy.Set
	problems []error
}

func (r *reader) problem(at policy.Position, format string, args ...any) {
	r.problems = append(r.problems, &Problem{at, fmt.Sprintf(format, args...)})
}

// directory reads the files of a directory, and not of those below it
// (apiserver pkg/admission/plugin/manifest/loader.go v0.37.2).
func (r *reader) directory(path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	for _, entry := range entries {
		switch strings.ToLower(filepath.Ext(entry.Name())) {
		case ".yaml", ".yml", ".json":
			if !entry.IsDir() {
				r.file(filepath.Join(path, entry.Name()))
			}
		}
	}
	for _, b := range r.set.Bindings {
		if b.PolicyName != "" && r.set.Policy(b.PolicyRef()) == nil {
			r.problem(b.Locate(&field.Error{Field: "spec.policyName"}),
				"%s references policy %q, which does not exist in the manifest directory", b.Ref(), b.PolicyName)
		}
	}
}

func (r *reader) file(path string) {
	var loader manifest.Loader
	docs, problems := loader.Load(path)
	for _, p := range problems {
		if p.Message != manifest.NoDocument {
			r.problems = append(r.problems, &Problem{p.Position, p.Message})
		}
	}
	r.bare(path)
	for _, d := range docs {
		r.document(d)
	}
}

// bare finds documents that hold nothing but comments, which the server cannot decode.
func (r *reader) bare(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		r.problems = append(r.problems, err)
		return
	}
	chunks := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		chunk, err := chunks.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.problems = append(r.problems, fmt.Errorf("%s: %w", path, err))
			}
			return
		}
		if chunk = bytes.TrimSpace(chunk); len(chunk) > 0 && isBare(chunk) {
			line := 1 + bytes.Count(text[:bytes.Index(text, chunk)], []byte("\n"))
			r.problem(policy.Position{File: path, Line: line, Column: 1},
				"a document of comments alone, of which the server says Object 'Kind' is missing in 'null'")
		}
	}
}

func isBare(chunk []byte) bool {
	for line := range bytes.Lines(chunk) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// document takes a policy or a binding
// (apiserver pkg/admission/plugin/policy/manifest/loader/loader.go v0.37.2).
func (r *reader) document(d *manifest.Document) {
	apiVersion, kind := d.Object["apiVersion"], d.Object["kind"]
	of, _ := kind.(string)
	family, _ := policy.KindOf(of)
	if !policy.Recognised(d.Object) || apiVersion != "admissionregistration.k8s.io/v1" {
		r.problem(d.Position(), "unsupported resource type %v %v: a directory of static policies holds policies and "+
			"bindings of admissionregistration.k8s.io/v1 alone", apiVersion, kind)
		return
	}
	if r.kind == "" {
		r.kind = family
	}
	if family != r.kind {
		r.problem(d.Position(), "unsupported resource type %v: this directory is one of %s, "+
			"and the server reads the two kinds of policies from two directories", kind, plural(r.kind))
		return
	}
	p, b, err := policy.FromObject(d.Object, d)
	switch {
	case err != nil:
		r.undecodable(d, err)
		return
	case p != nil:
		p.Static = true
		checker := compile.NewChecker(r.envs, p, nil)
		defer checker.Close()
		for _, err := range policy.ValidateStatic(p, checker) {
			r.problem(p.Locate(err), "%s: %v", p.Ref(), err)
		}
		if first := r.set.Policy(p.Ref()); first != nil {
			r.twice(p.Ref(), p.Position, first.Position)
			return
		}
		r.set.Policies = append(r.set.Policies, p)
	default:
		b.Static = true
		for _, err := range policy.ValidateStaticBinding(b) {
			r.problem(b.Locate(err), "%s: %v", b.Ref(), err)
		}
		if first := r.set.Binding(b.Ref()); first != nil {
			r.twice(b.Ref(), b.Position, first.Position)
			return
		}
		r.set.Bindings = append(r.set.Bindings, b)
	}
}

func (r *reader) undecodable(d *manifest.Document, err error) {
	var decode *policy.DecodeError
	if !errors.As(err, &decode) {
		r.problem(d.Position(), "%v", err)
		return
	}
	for _, p := range decode.Problems {
		r.problem(p.Position, "%s", p.Message)
	}
}

func (r *reader) twice(ref policy.Ref, at, first policy.Position) {
	r.problem(at, "duplicate name %q: the first %s is at %s", ref.Name, ref.Kind, first)
}

func plural(k policy.Kind) string { return strings.TrimSuffix(string(k), "y") + "ies" }

