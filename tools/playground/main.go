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
	"strings"

	"github.com/evanw/esbuild/pkg/api"
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
	engine, err := b.engine()
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	examples, err := b.catalogue()
	if err != nil {
		return fmt.Errorf("examples: %w", err)
	}
	if err := b.page(engine, examples); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	fmt.Printf("%s: %d files, %.2f MB compressed\n", b.out, len(b.files), float64(b.total)/1e6)
	if b.total > largest {
		return fmt.Errorf("the page is larger than %d bytes", largest)
	}
	return nil
}

// engine builds the WebAssembly, compresses it, and returns its name.
func (b *builder) engine() (string, error) {
	mod, err := slimModules(b.root, filepath.Join(b.root, "bin", ".slim"))
	if err != nil {
		return "", err
	}
	root, err := goroot()
	if err != nil {
		return "", err
	}
	overlay, err := slimStandard(root, filepath.Join(b.root, "bin", ".slim"))
	if err != nil {
		return "", err
	}
	module := b.module()
	flags := "-s -w"
	if b.version != "" {
		flags += " -X github.com/celgate/celgate/cmd/internal/report.stamped=" + b.version
	}
	build := exec.Command("go", "build", "-modfile="+mod, "-mod=mod", "-overlay="+overlay, "-trimpath",
		"-buildvcs=false", "-tags=nocerts", "-ldflags="+flags, "-o", module, "./cmd/celgate-playground")
	build.Dir, build.Stderr = b.root, os.Stderr
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if err := build.Run(); err != nil {
		return "", err
	}
	packed, err := compress(module)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(packed)
	if err != nil {
		return "", err
	}
	return b.add("celgate", ".wasm"+brotli, text)
}

// module returns the path of the WebAssembly.
func (b *builder) module() string { return filepath.Join(b.root, "bin", ".slim", "celgate.wasm") }

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

// compress returns the path of the compressed module. As this takes a minute or more, the result for the same module is
// used again.
func compress(module string) (string, error) {
	text, err := os.ReadFile(module)
	if err != nil {
		return "", err
	}
	packed := filepath.Join(filepath.Dir(filepath.Dir(module)), ".packed", digest(text)+brotli)
	if _, err := os.Stat(packed); err == nil {
		return packed, nil
	}
	if err := os.RemoveAll(filepath.Dir(packed)); err != nil { // of earlier modules
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(packed), 0o755); err != nil {
		return "", err
	}
	node := exec.Command("node", "-e", brotliSource, module, packed+".part")
	node.Stderr = os.Stderr
	if err := node.Run(); err != nil {
		return "", fmt.Errorf("node compresses: %w", err)
	}
	return packed, os.Rename(packed+".part", packed)
}

// page bundles the scripts and writes the page that names all files.
func (b *builder) page(engine, examples string) error {
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
	worker, err := b.bundle(web, "worker.js", map[string]string{"ENGINE": engine, "DECODER": decoder},
		map[string]string{"wasm_exec": support})
	if err != nil {
		return err
	}
	app, err := b.bundle(web, "app.js", map[string]string{"WORKER": worker, "EXAMPLES": examples, "FIRST": first}, nil)
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
