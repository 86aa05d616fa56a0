package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The code that a browser does not need: the encodings of API types as protocol buffers, CBOR and OpenAPI documents,
// the network, and the metrics and command-line flags of components. The module is built with copies of these modules
// in which those parts are empty; the code that decides does not change.
var slimmed = []slim{
	{module: "k8s.io/api", emptied: []string{"types_swagger_doc_generated.go"}, // what fields are for
		sources: map[string]string{"deepcopy/*.go": deepcopySource}},
	{module: "k8s.io/apiextensions-apiserver"},
	{module: "k8s.io/apimachinery", sources: map[string]string{
		"pkg/apis/meta/v1/time_proto.go":          timestampSource,
		"pkg/runtime/serializer/cbor/direct/*.go": cborSource,
		"pkg/util/net/*.go":                       netSource,
	}},
	{module: "k8s.io/component-base", sources: map[string]string{
		"cli/flag/*.go":                         flagSource,
		"metrics/*.go":                          metricsSource,
		"metrics/legacyregistry/*.go":           registrySource,
		"metrics/prometheus/feature/*.go":       featureSource,
		"metrics/prometheus/compatversion/*.go": compatSource,
	}},
	{module: "k8s.io/kube-openapi", emptied: []string{"gnostic.go"}, sources: map[string]string{
		"pkg/internal/third_party/go-json-experiment/json/*.go":          schemaSource,
		"pkg/internal/third_party/go-json-experiment/json/jsontext/*.go": schemaTextSource,
	}},
	{module: "github.com/json-iterator/go", sources: map[string]string{"*.go": iteratorSource}},
}

// encodings are the files of any module that hold nothing but protocol buffers, made by a generator and by hand.
var encodings = []string{"generated.pb.go", "generated.protomessage.pb.go", "micro_time_proto.go", "quantity_proto.go",
	"types_proto.go"}

// A slim is a module without some of its code. Sources are the Go files that stand in for others, by the pattern of
// their paths.
type slim struct {
	module  string
	emptied []string // names of more files without a declaration that is used
	sources map[string]string
}

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

// slimStandard writes into a folder what the compiler is to read instead of packages of the standard library: net/http
// with nothing but its numbers and names. All ciphers come with a network. It returns the path of the list for
// -overlay.
func slimStandard(goroot, dir string) (string, error) {
	from := filepath.Join(goroot, "src", "net", "http")
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, file := range files {
		if !slices.Contains([]string{"status.go", "method.go"}, filepath.Base(file)) {
			replace[file] = "" // the compiler does not see it
		}
	}
	slim := filepath.Join(dir, "http.go")
	if err := write(slim, []byte(httpSource)); err != nil {
		return "", err
	}
	replace[filepath.Join(from, "slim.go")] = slim
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, write(list, text)
}

// copyTo copies the Go files of a module that a program is made of.
func (s slim) copyTo(root, to string) error {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", s.module)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return err
	}
	from := strings.TrimSpace(string(out))
	err = filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(from, file)
		name = filepath.ToSlash(name)
		if !strings.HasSuffix(name, ".go") && name != "go.mod" || strings.HasSuffix(name, "_test.go") || s.replaces(name) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(encodings, d.Name()) || slices.Contains(s.emptied, d.Name()):
			text = emptyFile(text)
		case s.module == "k8s.io/api" && d.Name() == "zz_generated.deepcopy.go":
			text = shortenCopies(text)
		}
		return write(filepath.Join(to, name), text)
	})
	for pattern, text := range s.sources {
		if err == nil {
			err = write(filepath.Join(to, path.Dir(pattern), "slim.go"), []byte(text))
		}
	}
	return err
}

// replaces reports whether a source stands in for a file.
func (s slim) replaces(file string) bool {
	for pattern := range s.sources {
		if ok, _ := path.Match(pattern, file); ok {
			return true
		}
	}
	return false
}

// The parts of generated copies: a function that copies member by member, and an import.
var (
	copying   = regexp.MustCompile(`(?m)^func \(in (\*?)\w+\) DeepCopyInto\(out \*\w+\) \{\n(?s:.*?)^\}\n`)
	importing = regexp.MustCompile(`(?m)^\t(\w+) "[^"]+"$`)
)

// shortenCopies returns a file of generated copies whose functions all call one, which copies by reflection.
func shortenCopies(text []byte) []byte {
	text = copying.ReplaceAllFunc(text, func(f []byte) []byte {
		head, body, _ := bytes.Cut(f, []byte("\n"))
		if bytes.Equal(bytes.TrimSpace(body), []byte("*out = *in\n\treturn\n}")) {
			return f
		}
		of := "in"
		if !bytes.HasPrefix(head, []byte("func (in *")) {
			of = "&in"
		}
		return fmt.Appendf(nil, "%s\n\tdeepcopy.Copy(%s, out)\n}\n", head, of)
	})
	text = importing.ReplaceAllFunc(text, func(line []byte) []byte {
		name := importing.FindSubmatch(line)[1]
		if bytes.Contains(text, append(slices.Clone(name), '.')) {
			return line
		}
		return bytes.Replace(line, name, []byte("_"), 1)
	})
	if !bytes.Contains(text, []byte("deepcopy.Copy")) {
		return text
	}
	before, after, _ := bytes.Cut(text, []byte("import ("))
	return slices.Concat(before, []byte("import (\n\t\"k8s.io/api/deepcopy\""), after)
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

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
