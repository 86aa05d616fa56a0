// Command playground builds the page in the browser: static files in bin/playground, for any web server.
//
// It needs npm for CodeMirror, whose versions package-lock.json pins, and node for compression. Everything else comes
// from Go modules.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"golang.org/x/sync/errgroup"
)

// largest is the size in bytes of what the first visit downloads: all files, text as gzip.
const largest = 6_000_000

func main() {
	out := flag.String("out", "../bin/playground", "the folder that the files are written into")
	version := flag.String("version", "", "the version that the page shows; empty: that of the source")
	flag.Parse()
	b := builder{root: abs(".."), out: abs(*out), version: *version}
	if err := b.build(); err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

func abs(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		panic(err) // without a working directory
	}
	return full
}

// A builder builds the page.
type builder struct {
	root, out, version string

	files []string // that the page loads, by their names in out
	total int      // their compressed size
}

func (b *builder) build() error {
	if err := os.RemoveAll(b.out); err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	engine, prover, err := b.engines()
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	examples, err := b.catalogue()
	if err != nil {
		return fmt.Errorf("examples: %w", err)
	}
	if err := b.page(engine, prover, examples); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	fmt.Printf("%s: %d files, %.2f MB compressed\n", b.out, len(b.files), float64(b.total)/1e6)
	if b.total > largest {
		return fmt.Errorf("the page is larger than %d bytes", largest)
	}
	return nil
}

// engines builds the WebAssembly of the page, and the one for proofs, which the page loads when a reader asks for one.
// It compresses both and returns their names.
func (b *builder) engines() (engine, prover string, err error) {
	slimming, err := b.slim()
	if err != nil {
		return "", "", err
	}
	var group errgroup.Group
	var texts [2][]byte
	for i, tags := range []string{"nocerts", "nocerts,prover"} {
		group.Go(func() error {
			if err := b.compile(moduleNames[i], slices.Concat(slimming, []string{"-tags=" + tags})...); err != nil {
				return err
			}
			var err error
			texts[i], err = compress(b.module(moduleNames[i]))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", "", err
	}
	if engine, err = b.add(moduleNames[0], ".wasm"+brotli, texts[0]); err != nil {
		return "", "", err
	}
	// It is no part of the first visit.
	prover = moduleNames[1] + "." + digest(texts[1]) + ".wasm" + brotli
	fmt.Printf("%9d %s, when a reader asks for a proof\n", len(texts[1]), prover)
	if len(texts[1]) > largest {
		return "", "", fmt.Errorf("the engine for proofs is larger than %d bytes", largest)
	}
	return engine, prover, os.WriteFile(filepath.Join(b.out, prover), texts[1], 0o644)
}

// moduleNames are the names of the module of the page, and of the one for proofs.
var moduleNames = [2]string{"celgate", "prover"}

// slim writes the modules and packages without the code that a browser does not need. It returns the flags of go build
// that use them.
func (b *builder) slim() ([]string, error) {
	dir := filepath.Join(b.root, "bin", ".slim")
	mod, err := slimModules(b.root, dir)
	if err != nil {
		return nil, err
	}
	root, err := goroot()
	if err != nil {
		return nil, err
	}
	overlay, err := slimStandard(root, dir)
	return []string{"-modfile=" + mod, "-mod=mod", "-overlay=" + overlay}, err
}

// compile builds a module with more flags of go build.
func (b *builder) compile(name string, more ...string) error {
	flags := "-s -w"
	if b.version != "" {
		flags += " -X github.com/celgate/celgate/cmd/internal/report.stamped=" + b.version
	}
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=" + flags, "-o", b.module(name)}, more...)
	build := exec.Command("go", append(args, "./cmd/celgate-playground")...)
	build.Dir, build.Stderr = b.root, os.Stderr
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	return build.Run()
}

// module returns the path of a module.
func (b *builder) module(name string) string {
	return filepath.Join(b.root, "bin", ".slim", name+".wasm")
}

// goroot returns the folder of the Go installation.
func goroot() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(root)), err
}

// brotli is the extension of a file that the page decompresses itself: no server knows it, so none decompresses it
// before.
const brotli = ".brotli"

// brotliSource compresses a file at the highest level.
const brotliSource = `const [from, to] = process.argv.slice(1), fs = require("fs"), zlib = require("zlib");
const c = zlib.constants;
const text = fs.readFileSync(from);
fs.writeFileSync(to, zlib.brotliCompressSync(text, {params: {[c.BROTLI_PARAM_QUALITY]: 11, [c.BROTLI_PARAM_LGWIN]: 24,
  [c.BROTLI_PARAM_SIZE_HINT]: text.length}}));`

// compress returns a compressed module. As this takes a minute or more, the result for the same module is used again.
func compress(module string) ([]byte, error) {
	text, err := os.ReadFile(module)
	if err != nil {
		return nil, err
	}
	dir, name := filepath.Join(filepath.Dir(filepath.Dir(module)), ".packed"), filepath.Base(module)
	packed := filepath.Join(dir, name+"."+digest(text)+brotli)
	if text, err := os.ReadFile(packed); err == nil {
		return text, nil
	}
	older, err := filepath.Glob(filepath.Join(dir, name+".*"))
	if err != nil {
		return nil, err
	}
	for _, file := range older {
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	node := exec.Command("node", "-e", brotliSource, module, packed+".part")
	node.Stderr = os.Stderr
	if err := node.Run(); err != nil {
		return nil, fmt.Errorf("node compresses: %w", err)
	}
	if err := os.Rename(packed+".part", packed); err != nil {
		return nil, err
	}
	return os.ReadFile(packed)
}

// page bundles the scripts and writes the page that names all files.
func (b *builder) page(engine, prover, examples string) error {
	web := filepath.Join(b.root, "cmd", "celgate-playground", "web")
	if err := install(web); err != nil {
		return err
	}
	root, err := goroot()
	if err != nil {
		return err
	}
	support := filepath.Join(root, "lib", "wasm", "wasm_exec.js")
	decoder, err := b.decoder(web)
	if err != nil {
		return err
	}
	var workers [2]string
	for i, module := range []string{engine, prover} {
		workers[i], err = b.bundle(web, "worker.js", map[string]string{"ENGINE": module, "DECODER": decoder,
			"KEPT": "celgate." + moduleNames[i]}, map[string]string{"wasm_exec": support})
		if err != nil {
			return err
		}
	}
	worker := workers[0]
	app, err := b.bundle(web, "app.js", map[string]string{"WORKER": worker, "PROVER": workers[1], "EXAMPLES": examples,
		"FIRST": first}, nil)
	if err != nil {
		return err
	}
	style, err := b.bundle(web, "style.css", nil, nil)
	if err != nil {
		return err
	}
	html, err := os.ReadFile(filepath.Join(web, "index.html"))
	if err != nil {
		return err
	}
	page := strings.NewReplacer("{{app}}", app, "{{style}}", style, "{{worker}}", worker, "{{examples}}", examples).
		Replace(string(html))
	if _, err := b.write("index.html", []byte(page)); err != nil {
		return err
	}
	if err := b.licences(web); err != nil {
		return err
	}
	// The worker, which keeps the page for use without a network, lists all other files.
	kept, err := json.Marshal(append([]string{"./"}, b.files...))
	if err != nil {
		return err
	}
	offline, err := os.ReadFile(filepath.Join(web, "offline.js"))
	if err != nil {
		return err
	}
	text := strings.NewReplacer("FILES", string(kept), "VERSION", `"`+digest(kept)+`"`).Replace(string(offline))
	_, err = b.write("offline.js", []byte(text))
	return err
}

// decoder adds the decoder of Brotli for browsers without one.
func (b *builder) decoder(web string) (string, error) {
	text, err := os.ReadFile(filepath.Join(web, "node_modules", "brotli-dec-wasm", "pkg", "brotli_dec_wasm_bg.wasm"))
	if err != nil {
		return "", err
	}
	packed, err := zip(text)
	if err != nil {
		return "", err
	}
	return b.add("decoder", ".wasm.gzip", packed)
}

// licences writes the licences of the bundled code, as they require.
func (b *builder) licences(web string) error {
	text, err := os.ReadFile(filepath.Join(b.root, "THIRD_PARTY_NOTICES"))
	if err != nil {
		return err
	}
	for _, pattern := range []string{"*/LICENSE", "*/LICENSE-MIT.txt", "@*/*/LICENSE"} {
		found, err := filepath.Glob(filepath.Join(web, "node_modules", pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			one, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(filepath.Join(web, "node_modules"), filepath.Dir(path))
			text = append(text, "\n"+filepath.ToSlash(name)+"\n\n"...)
			text = append(text, one...)
		}
	}
	return os.WriteFile(filepath.Join(b.out, "licences.txt"), text, 0o644)
}

// install installs the packages of package-lock.json, unless they are installed.
func install(web string) error {
	lock, err := os.Stat(filepath.Join(web, "package-lock.json"))
	if err != nil {
		return err
	}
	if had, err := os.Stat(filepath.Join(web, "node_modules", ".package-lock.json")); err == nil &&
		!had.ModTime().Before(lock.ModTime()) {
		return nil
	}
	ci := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	ci.Dir, ci.Stdout, ci.Stderr = web, os.Stderr, os.Stderr
	return ci.Run()
}

// bundle merges a script or style with its imports into one file, with names replaced by texts, and returns its name.
func (b *builder) bundle(web, name string, texts, aliases map[string]string) (string, error) {
	define := map[string]string{}
	for key, text := range texts {
		quoted, err := json.Marshal(text)
		if err != nil {
			return "", err
		}
		define[key] = string(quoted)
	}
	made := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(web, name)}, Bundle: true, Format: api.FormatIIFE,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, Target: api.ES2022,
		Define: define, Alias: aliases, LegalComments: api.LegalCommentsEndOfFile,
	})
	if len(made.Errors) > 0 {
		return "", fmt.Errorf("%s: %s", name, strings.Join(api.FormatMessages(made.Errors, api.FormatMessagesOptions{}), ""))
	}
	ext := filepath.Ext(name)
	return b.add(strings.TrimSuffix(name, ext), ext, made.OutputFiles[0].Contents)
}

// add writes a file under a name that changes with its content.
func (b *builder) add(name, ext string, text []byte) (string, error) {
	return b.write(name+"."+digest(text)+ext, text)
}

func (b *builder) write(name string, text []byte) (string, error) {
	sent := text
	if !strings.HasSuffix(name, brotli) && !strings.HasSuffix(name, ".gzip") {
		packed, err := zip(text) // as servers do
		if err != nil {
			return "", err
		}
		sent = packed
	}
	fmt.Printf("%9d %s\n", len(sent), name)
	b.total += len(sent)
	b.files = append(b.files, name)
	return name, os.WriteFile(filepath.Join(b.out, name), text, 0o644)
}

func zip(text []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return packed.Bytes(), err
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
