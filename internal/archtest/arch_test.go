// Package archtest holds the tests of the import rules of this module.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/celgate/celgate"

// layers are the packages of the module from the bottom up, by their paths in it; "" is package celgate. A package
// imports only packages from layers below its own. ARCHITECTURE.md has a line for each.
var layers = [][]string{
	{"internal/pattern", "internal/solve", "cmd/internal/heap", "cmd/internal/smtlib"},
	{"internal/tree", "internal/locals", "internal/wording", "internal/yamlscan",
		"policy/internal/v1alpha1"},
	{"internal/spell", "internal/shape", "internal/lcs", "internal/layout"},
	{"internal/inline", "internal/scope"},
	{"policy", "schema", "deploy", "internal/bound", "internal/effects", "internal/packed", "internal/parallel",
		"internal/quirks", "internal/archtest", "internal/storable", "internal/certs"},
	{"schema/builtin", "manifest", "internal/workload", "internal/plan", "internal/match", "internal/patch/jsonpatch",
		"internal/patch/merge", "internal/patch/merge/mergetest", "internal/patch/mergepatch", "internal/prepare"},
	{"internal/objects"},
	{"state", "internal/celenv", "internal/plugins", "internal/rewrite"},
	{"internal/registry", "internal/compile", "internal/needs", "internal/sequence", "internal/total"},
	{"internal/eval", "internal/static", "internal/trace", "internal/typed"},
	{"explain", "internal/lower"},
	{""},
	{"internal/derive", "internal/conformance", "internal/webhook", "cmd/internal/requests", "cmd/internal/check",
		"cmd/internal/blame", "cmd/internal/delta", "cmd/internal/order", "cmd/internal/prove", "cmd/internal/replay"},
	{"cmd/internal/suite", "cmd/internal/kube", "webhook"},
	{"cmd/internal/kube/election", "cmd/internal/report", "cmd/internal/serve"},
	{"cmd/internal/proofs"},
	{"cmd/internal/playground"},
	{"cmd/internal/cli"},
	{"cmd/internal/manpages"},
	{"cmd/celgate", "cmd/celgate-webhook"},
}

// A ban lists external packages that may not be imported, with the reason. Paths end in /... for everything below.
type ban struct {
	packages []string
	imports  []string
	except   []string // packages without the ban
	closure  bool     // including indirect imports
	why      string
}

var bans = []ban{
	{
		packages: []string{"explain", "internal/trace", "internal/match", "internal/compile", "internal/eval",
			"internal/effects", "internal/plan", "internal/patch/..."},
		imports: []string{"os", "log", "net/http"},
		why:     "the engine decides about values; files, networks and printing are at the edges",
	},
	{
		packages: []string{""},
		closure:  true,
		imports: []string{
			"k8s.io/client-go/...", "k8s.io/apiserver/pkg/admission/...", "k8s.io/apiserver/pkg/server/...",
			"k8s.io/apiserver/pkg/storage/...",
			"google.golang.org/grpc/...", "go.etcd.io/...",
		},
		why: "a program that embeds the engine does not pay for a cluster client or a server",
	},
	{
		packages: []string{"..."},
		imports:  []string{"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/..."},
		except:   []string{"cmd/internal/kube/..."},
		why:      "one package talks to clusters",
	},
	{
		packages: []string{"cmd/internal/kube", "cmd/celgate"},
		closure:  true,
		imports:  []string{"k8s.io/client-go/tools/leaderelection/...", "k8s.io/client-go/kubernetes/..."},
		why: "the election links the typed clients and the scheme of all kinds, which a command line would pay for in size and at each " +
			"start: celgate-webhook alone has it (docs/design/0003-lease-and-certificate.md)",
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
		except:   []string{"cmd/internal/cli", "cmd/internal/manpages"},
		why:      "the command line is one package",
	},
}

func TestLayers(t *testing.T) {
	packages := list(t)
	layer := map[string]int{}
	for i, names := range layers {
		for _, name := range names {
			if _, exists := packages[strings.TrimSuffix(module+"/"+name, "/")]; !exists {
				t.Errorf("layer %d names %q, which is not a package", i+1, name)
			}
			layer[name] = i + 1
		}
	}
	for path, p := range packages {
		name, ours := relative(path)
		if !ours {
			continue
		}
		if layer[name] == 0 {
			t.Errorf("%s is in no layer: add it to the lowest one above all that it imports", path)
			continue
		}
		for _, imported := range p.Imports {
			if of, ours := relative(imported); ours && layer[of] >= layer[name] {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports point down", path, layer[name], imported,
					layer[of])
			}
		}
	}
}

// TestArchitecture wants a line for every package in ARCHITECTURE.md, as a link to its folder.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range layers {
		for _, name := range names {
			link := "](" + name + ")"
			if name == "" {
				link = "](doc.go)"
			}
			if !strings.Contains(string(text), link) {
				t.Errorf("ARCHITECTURE.md does not say what %s is for: it has no link %s", name, link)
			}
		}
	}
}

func TestBans(t *testing.T) {
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
