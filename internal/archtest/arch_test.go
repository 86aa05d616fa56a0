// Package archtest holds the tests of the import rules of this module.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/celgate/celgate"

// A ban says which imports packages may not have, and why. Paths end in /... for everything below.
type ban struct {
	packages []string
	imports  []string
	except   []string // packages that the ban does not hold for
	closure  bool     // also what the imports import
	why      string
}

var bans = []ban{
	{
		packages: []string{"policy", "internal/patch/jsonpatch", "internal/quirks"},
		imports:  []string{module, module + "/..."},
		why:      "leaves: they can be read, tested and used alone",
	},
	{
		packages: []string{"internal/match", "internal/compile", "internal/eval", "internal/effects", "internal/plan", "internal/patch/..."},
		imports: []string{
			module, module + "/manifest", module + "/kube", module + "/webhook", module + "/internal/report", module + "/internal/cli",
			"os", "log", "net/http",
		},
		why: "the engine decides about values; files, networks and printing are at the edges",
	},
	{
		packages: []string{""},
		closure:  true,
		imports: []string{
			"k8s.io/client-go/...", "k8s.io/apiserver/pkg/admission/...", "k8s.io/apiserver/pkg/server/...", "k8s.io/apiserver/pkg/storage/...",
			"google.golang.org/grpc/...", "go.etcd.io/...",
		},
		why: "a program that embeds the engine does not pay for a cluster client or a server",
	},
	{
		packages: []string{"..."},
		imports:  []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."},
		except:   []string{"kube", "kube/..."},
		why:      "one package talks to clusters",
	},
	{
		packages: []string{"..."},
		imports:  []string{"k8s.io/apiserver/pkg/cel/environment"},
		except:   []string{"internal/celenv"},
		why:      "one package knows which function exists at which Kubernetes version",
	},
	{
		packages: []string{"..."},
		imports:  []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		except:   []string{"internal/cli"},
		why:      "the command line is one package",
	},
	{
		packages: []string{"", "policy", "manifest", "state", "suite", "prepare", "schema/...", "internal/world", "internal/match", "internal/compile", "internal/eval", "internal/patch/..."},
		imports:  []string{module + "/internal/report", module + "/internal/cli"},
		why:      "results do not know how they are printed",
	},
}

func TestImports(t *testing.T) {
	packages := list(t)
	for _, b := range bans {
		checked := 0
		for path, p := range packages {
			rel, ours := relative(path)
			if !ours || !matchesAny(b.packages, rel) || matchesAny(b.except, rel) {
				continue
			}
			checked++
			imports := p.Imports
			if b.closure {
				imports = p.Deps
			}
			for _, imported := range imports {
				if matchesAny(b.imports, imported) {
					t.Errorf("%s imports %s, but %s", path, imported, b.why)
				}
			}
		}
		if checked == 0 {
			t.Errorf("no package matches %q: the ban checks nothing", b.packages)
		}
	}
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func list(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	packages := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

func relative(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if pattern == "..." {
			return true
		}
		if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
			return path == tree || strings.HasPrefix(path, tree+"/")
		}
		return path == pattern
	})
}
