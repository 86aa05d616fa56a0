// Command notices writes THIRD_PARTY_NOTICES: the licences and notices of every module in the programs of this
// repository, which these licences require beside a binary.
//
//	go -C tools run ./notices
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	root = ".." // of the repository
	file = "THIRD_PARTY_NOTICES"
)

// platforms are those whose programs are released: a module may be linked on one of them only.
var platforms = []string{"linux/amd64", "darwin/arm64", "windows/amd64"}

func main() {
	text, err := notices(root)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, file), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// A module is a linked module.
type module struct{ Path, Version, Dir string }

// notices returns the text of the file. Equal licence texts are printed once, below the modules that share them.
func notices(root string) ([]byte, error) {
	modules, err := linkedModules(root)
	if err != nil {
		return nil, err
	}
	shared := map[string][]string{} // the modules that have a text
	for _, m := range modules {
		texts, err := licences(m.Dir)
		if err != nil {
			return nil, err
		}
		if len(texts) == 0 {
			return nil, fmt.Errorf("%s %s has no licence file", m.Path, m.Version)
		}
		for _, text := range texts {
			shared[text] = append(shared[text], m.Path)
		}
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	standard, err := licences(strings.TrimSpace(string(goroot)))
	if err != nil {
		return nil, err
	}
	for _, text := range standard {
		shared[text] = append(shared[text], "the Go standard library")
	}
	texts := make([]string, 0, len(shared))
	for text := range shared {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return slices.Compare(append(slices.Clone(shared[a]), a), append(slices.Clone(shared[b]), b))
	})
	var out bytes.Buffer
	fmt.Fprintf(&out, "Licences and notices of what is linked into the programs of celgate. Written by make generate.\n")
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n", strings.Repeat("=", 80))
		for _, path := range shared[text] {
			fmt.Fprintln(&out, path)
		}
		fmt.Fprintf(&out, "%s\n\n%s\n", strings.Repeat("-", 80), text)
	}
	return out.Bytes(), nil
}

// linkedModules returns the modules that the programs of a release link on any platform, sorted by path.
func linkedModules(root string) ([]module, error) {
	found := map[string]module{}
	for _, platform := range platforms {
		system, machine, _ := strings.Cut(platform, "/")
		cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/celgate", "./cmd/celgate-webhook")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				return nil, fmt.Errorf("go list: %s", exit.Stderr)
			}
			return nil, err
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Module *struct {
					module
					Main bool
				}
			}
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Module != nil && !p.Module.Main {
				found[p.Module.Path] = p.Module.module
			}
		}
	}
	modules := make([]module, 0, len(found))
	for _, m := range found {
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// licenceFile are the names under which modules keep licences and the notices that go with them.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences returns the texts of the licence files in a folder.
func licences(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	return texts, nil
}
