// Package static reads the policies that an API server reads from files (KEP-5793), as the server does at startup: all
// policies of a directory, or none.
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
	Kind policy.Kind // of its policies; empty: the kind of the first policy
}

// Load reads the static policies of directories as a server of a given minor does. The error joins a [manifest.Problem]
// for every mistake that prevents the server from starting; then none of the policies is in force.
func Load(minor string, dirs ...Dir) (*policy.Set, error) {
	all := &policy.Set{}
	var errs []error
	var kinds []policy.Kind // of the directories
	for i, d := range dirs {
		paths, err := Files(d.Path)
		if err != nil {
			return nil, err
		}
		var files []File
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, Parse(path, text))
		}
		set, kind, err := Read(minor, d.Kind, files)
		for j, other := range dirs[:i] {
			if kind != "" && kind == kinds[j] && other.Path != d.Path {
				err = errors.Join(err, fmt.Errorf("%s: the server reads %s from one directory, and here is %s too", d.Path,
					plural(kind), other.Path))
			}
		}
		kinds, errs = append(kinds, kind), append(errs, err)
		all.Policies, all.Bindings = append(all.Policies, set.Policies...), append(all.Bindings, set.Bindings...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	unique, _ := all.Deduplicate() // of a duplicate directory
	return &unique, nil
}

// A File is one file of a directory.
type File struct {
	Path      string
	Text      []byte
	Documents []*manifest.Document
	Problems  []manifest.Problem
}

// Parse reads the text of a file.
func Parse(path string, text []byte) File {
	docs, problems := manifest.Read(bytes.NewReader(text), path)
	return File{path, text, docs, problems}
}

// Files returns the files of a directory that the server reads, without subdirectories (apiserver
// pkg/admission/plugin/manifest/loader.go v0.37.2).
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		switch strings.ToLower(filepath.Ext(entry.Name())) {
		case ".yaml", ".yml", ".json":
			if !entry.IsDir() {
				paths = append(paths, filepath.Join(dir, entry.Name()))
			}
		}
	}
	return paths, nil
}

// Read is [Load] for the files of one directory with policies of one kind; an empty kind is set to the kind of the
// first policy and returned. The set contains the valid objects despite problems.
func Read(minor string, kind policy.Kind, files []File) (*policy.Set, policy.Kind, error) {
	r := reader{kind: kind}
	if !quirks.ReleaseOf(minor).Static {
		return &r.set, kind, quirks.CheckStatic(minor)
	}
	var err error
	if r.envs, err = celenv.New(minor, quirks.SetOf(minor)); err != nil {
		return &r.set, kind, err
	}
	for _, f := range files {
		r.file(f)
	}
	for _, b := range r.set.Bindings {
		if b.PolicyName != "" && r.set.Policy(b.PolicyRef()) == nil {
			r.problem(b.Locate(&field.Error{Field: "spec.policyName"}),
				"%s references policy %q, which does not exist in the manifest directory", b.Ref(), b.PolicyName)
		}
	}
	return &r.set, r.kind, errors.Join(r.problems...)
}

// A reader reads one directory.
type reader struct {
	kind     policy.Kind
	envs     *celenv.Set
	set      policy.Set
	problems []error
}

func (r *reader) problem(at policy.Position, format string, args ...any) {
	r.problems = append(r.problems, manifest.Problem{Position: at, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) file(f File) {
	for _, p := range f.Problems {
		if p.Message != manifest.NoDocument {
			r.problems = append(r.problems, p)
		}
	}
	r.findBare(f)
	for _, d := range f.Documents {
		r.document(d)
	}
}

// findBare finds documents with only comments, which the server cannot decode.
func (r *reader) findBare(f File) {
	chunks := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.Text)))
	for {
		chunk, err := chunks.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.problems = append(r.problems, fmt.Errorf("%s: %w", f.Path, err))
			}
			return
		}
		if chunk = bytes.TrimSpace(chunk); len(chunk) > 0 && isBare(chunk) {
			line := 1 + bytes.Count(f.Text[:max(0, bytes.Index(f.Text, chunk))], []byte("\n"))
			r.problem(policy.Position{File: f.Path, Line: line, Column: 1},
				"the document contains only comments: the server reports Object 'Kind' is missing in 'null'")
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

// document reads a policy or a binding (apiserver pkg/admission/plugin/policy/manifest/loader/loader.go v0.37.2).
func (r *reader) document(d *manifest.Document) {
	apiVersion, kind := d.Object["apiVersion"], d.Object["kind"]
	of, _ := kind.(string)
	family, _ := policy.KindOf(of)
	if !policy.IsRecognised(d.Object) || apiVersion != "admissionregistration.k8s.io/v1" {
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
	p, b, err := policy.FromObject(d.Object, d.Place)
	switch {
	case err != nil:
		r.reportUndecodable(d, err)
		return
	case p != nil:
		p.Static = true
		for _, err := range (compile.Written{Policy: p}).Errors(r.envs, true) {
			r.problem(p.Locate(err), "%s: %v", p.Ref(), err)
		}
		if first := r.set.Policy(p.Ref()); first != nil {
			r.reportDuplicate(p.Ref(), p.Position, first.Position)
			return
		}
		r.set.Policies = append(r.set.Policies, p)
	default:
		b.Static = true
		for _, err := range (compile.Written{Binding: b}).Errors(r.envs, true) {
			r.problem(b.Locate(err), "%s: %v", b.Ref(), err)
		}
		if first := r.set.Binding(b.Ref()); first != nil {
			r.reportDuplicate(b.Ref(), b.Position, first.Position)
			return
		}
		r.set.Bindings = append(r.set.Bindings, b)
	}
}

func (r *reader) reportUndecodable(d *manifest.Document, err error) {
	var decode *policy.DecodeError
	if !errors.As(err, &decode) {
		r.problem(d.Position(), "%v", err)
		return
	}
	for _, p := range decode.Problems {
		r.problem(p.Position, "%s", p.Message)
	}
}

func (r *reader) reportDuplicate(ref policy.Ref, at, first policy.Position) {
	r.problem(at, "duplicate name %q: the first %s is at %s", ref.Name, ref.Kind, first)
}

func plural(k policy.Kind) string { return strings.TrimSuffix(string(k), "y") + "ies" }
