package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A served is a server of a directory without a cluster.
type served struct {
	l     *loader
	log   *logged
	dir   string
	ops   string
	stop  func()
	ended chan error
}

func run(t *testing.T, files map[string]string, change func(*Options)) *served {
	t.Helper()
	certs := t.TempDir()
	pair(t, certs, time.Now())
	r := &served{log: &logged{}, dir: t.TempDir(), ended: make(chan error, 1)}
	for name, text := range files {
		write(t, filepath.Join(r.dir, name), text)
	}
	o := Options{
		PolicyDir: r.dir, Listen: "127.0.0.1:0", Ops: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Cert: filepath.Join(certs, "tls.crt"), Key: filepath.Join(certs, "tls.key"),
	}
	if change != nil {
		change(&o)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	r.l = newLoader(o)
	go func() { r.ended <- r.l.serve(ctx) }()
	r.ops = r.log.await(t, `metrics address=(\S+)`)
	r.log.await(t, `listening address=(\S+)`)
	t.Cleanup(func() {
		stop()
		select {
		case err := <-r.ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it does not end")
		}
	})
	return r
}

func (r *served) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + r.ops + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// inForce returns the names of the policies in force that have a binding.
func (r *served) inForce() string {
	var names []string
	set := r.l.current.Load().set
	for _, p := range set.Policies {
		if set.Binds(p.Ref()) {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " ")
}

func (r *served) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			_, ready := r.get(t, "/readyz")
			t.Fatalf("not %s: %s in force, %s\n%s", what, r.inForce(), ready, r.log.text.String())
		}
	}
}

var (
	one   = strings.NewReplacer("name: p", "name: one", "policyName: p", "policyName: one").Replace(policies)
	other = strings.NewReplacer("name: p", "name: other", "policyName: p", "policyName: other").Replace(policies)
)

// TestDirectoryStays changes a directory in ways that look like a mistake: the last good set stays in force, and
// readiness, a metric and the log report it; then the mistake is corrected.
func TestDirectoryStays(t *testing.T) {
	start := map[string]string{"one.yaml": one + "---" + other}
	for name, change := range map[string]func(t *testing.T, path string){
		"empty":     func(t *testing.T, path string) { write(t, path, "") },
		"a comment": func(t *testing.T, path string) { write(t, path, "# nothing\n") },
		"without its binding": func(t *testing.T,
			path string) {
			write(t, path, one+"---"+other[:strings.Index(other, "---")])
		},
		"one truncated away": func(t *testing.T, path string) { write(t, path, one) },
		"a rule cut off": func(t *testing.T, path string) {
			write(t, path, (one + "---" + other)[:strings.Index(one, "  validations:")]+"\n")
		},
		"a binding alone": func(t *testing.T, path string) {
			write(t, path, strings.Join(strings.Split(one+"---"+other, "---")[1:], "---"))
		},
		"gone": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"objects instead": func(t *testing.T, path string) {
			write(t, path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, start, nil)
			path := filepath.Join(r.dir, "one.yaml")
			change(t, path)
			r.await(t, "refused", func() bool {
				code,
					_ := r.get(t, "/readyz")
				return code == http.StatusServiceUnavailable
			})
			if got := r.inForce(); got != "one other" {
				t.Errorf("in force: %s", got)
			}
			if code, _ := r.get(t, "/readyz?exclude=directory"); code != http.StatusOK {
				t.Error("not ready for requests")
			}
			if _, text := r.get(t, "/metrics"); !strings.Contains(text, "\ncelgate_directory_failing 1\n") {
				t.Error("no metric")
			}
			r.log.await(t, `level=ERROR msg="cannot use the (directory of )?policies, the last set stays in force"`)
			write(t, path, one+"---"+other+"# again\n")
			r.await(t, "ready again", func() bool { code, _ := r.get(t, "/readyz"); return code == http.StatusOK })
			if _, text := r.get(t, "/metrics"); !strings.Contains(text, "\ncelgate_directory_failing 0\n") {
				t.Error("the metric stays")
			}
		})
	}
}

// TestStaticDirectory serves static policies: with the rules of API servers for them, and without subfolders.
func TestStaticDirectory(t *testing.T) {
	named := strings.NewReplacer("name: one", "name: one.static.k8s.io", "policyName: one",
		"policyName: one.static.k8s.io").Replace(one)
	r := run(t, map[string]string{"one.yaml": named}, func(o *Options) { o.PolicyDir, o.StaticDir = "", o.PolicyDir })
	if got := r.inForce(); got != "one.static.k8s.io" {
		t.Errorf("in force: %s", got)
	}
	write(t, filepath.Join(r.dir, "other.yaml"), other)
	r.log.await(t, `must end with \\"\.static\.k8s\.io\\"`)
	if code, _ := r.get(t, "/readyz"); code != http.StatusServiceUnavailable || r.inForce() != "one.static.k8s.io" {
		t.Errorf("readyz answers %d, in force: %s", code, r.inForce())
	}
	if err := os.Remove(filepath.Join(r.dir, "other.yaml")); err != nil {
		t.Fatal(err)
	}
	r.await(t, "ready again", func() bool { code, _ := r.get(t, "/readyz"); return code == http.StatusOK })
	if err := os.Mkdir(filepath.Join(r.dir, "deeper"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.dir, "deeper", "two.yaml"), "nonsense: [")
	write(t, filepath.Join(r.dir, "two.yaml"), strings.ReplaceAll(named, "one.static", "two.static"))
	r.await(t, "two in force", func() bool { return r.inForce() == "one.static.k8s.io two.static.k8s.io" })
}

// TestDirectoryHalf writes a new version of a file in place and stops in the middle: policies stay in force, even if
// text is appended, until the file is complete.
func TestDirectoryHalf(t *testing.T) {
	const begun = "# second version" // with the first line changed nothing is a prefix of the old text
	rules := strings.Replace(one, "[{expression: object.metadata.name != \"MESSAGE\", message: MESSAGE}]",
		"\n  - {expression: object.metadata.name != \"MESSAGE\"}\n  - {expression: 'true'}", 1)
	bindingFirst := strings.Join([]string{one[strings.Index(one, "---")+3:], "---", rules[:strings.Index(rules, "---")]}, "")
	actions := strings.Replace(one, "[Deny]}", "\n  [Audit,\n  Deny]}", 1)
	actions = strings.Replace(actions, "{policyName: one, validationActions: \n  [Audit,\n  Deny]}",
		"\n  policyName: one\n  validationActions:\n  - Audit\n  - Deny", 1)
	expression := strings.Replace(bindingFirst, "  - {expression: 'true'}\n", "  - expression: has(object.data) && false\n", 1)
	block := strings.Replace(expression, "has(object.data) && false\n", "|-\n      has(object.data)\n      && false\n", 1)
	before := func(text, mark string) string { return text[:strings.LastIndex(text, mark)] }
	for name, test := range map[string]struct{ text, half string }{
		"a policy":      {one + "---" + other, begun + one},
		"a prefix":      {one + "---" + other, one},
		"a binding":     {one + "---" + other, begun + before(one+"---"+other, "---")},
		"a rule":        {bindingFirst, begun + before(bindingFirst, "  - {expression: 'true'}")},
		"an action":     {actions, begun + before(actions, "  - Deny")},
		"an expression": {expression, begun + before(expression, " && false")},
		"a block":       {block, begun + before(block, "      && false")},
		"an object": {one + "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}}\n",
			begun + one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, map[string]string{"one.yaml": test.text}, nil)
			path, before := filepath.Join(r.dir, "one.yaml"), r.l.current.Load()
			refused := func() bool { code, _ := r.get(t, "/readyz"); return code == http.StatusServiceUnavailable }
			write(t, path, test.half)
			r.await(t, "refused", refused)
			attempts := r.attempts(t)
			write(t, path, test.half+"# x")
			r.await(t, "read again", func() bool { return r.attempts(t) != attempts })
			if !refused() || r.l.current.Load() != before {
				t.Errorf("a comment lets it through: %s in force", r.inForce())
			}
			write(t, path, begun+test.text)
			r.await(t, "ready again", func() bool { return !refused() })
		})
	}
}

// attempts is when policies were last tried to be put in force.
func (r *served) attempts(t *testing.T) string {
	t.Helper()
	_, text := r.get(t, "/metrics")
	_, text, _ = strings.Cut(text, "\ncelgate_policy_load_attempt_timestamp_seconds ")
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// TestDirectoryGoes takes policies out of force in intended ways.
func TestDirectoryGoes(t *testing.T) {
	t.Run("with their file", func(t *testing.T) {
		t.Parallel()
		r := run(t, map[string]string{"one.yaml": one, "other.yaml": other}, nil)
		if err := os.Remove(filepath.Join(r.dir, "one.yaml")); err != nil {
			t.Fatal(err)
		}
		r.await(t, "out of force", func() bool { return r.inForce() == "other" })
	})
	t.Run("in a new file", func(t *testing.T) {
		t.Parallel()
		r := run(t, map[string]string{"one.yaml": one + "---" + other}, nil)
		write(t, filepath.Join(r.dir, "new"), one)
		if err := os.Rename(filepath.Join(r.dir, "new"), filepath.Join(r.dir, "one.yaml")); err != nil {
			t.Fatal(err)
		}
		r.await(t, "out of force", func() bool { return r.inForce() == "one" })
	})
	t.Run("with --allow-empty", func(t *testing.T) {
		t.Parallel()
		r := run(t, map[string]string{"one.yaml": one}, func(o *Options) { o.AllowEmpty = true })
		write(t, filepath.Join(r.dir, "one.yaml"), "")
		r.await(t, "out of force", func() bool { return r.inForce() == "" })
		if code, text := r.get(t, "/readyz"); code != http.StatusOK {
			t.Error(text)
		}
	})
}

// TestDirectoryContent changes a file and keeps its size and times.
func TestDirectoryContent(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"one.yaml": one}, nil)
	path := filepath.Join(r.dir, "one.yaml")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.ReplaceAll(one, "MESSAGE", "ANOTHER"))
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	r.await(t, "replaced", func() bool {
		return strings.Contains(r.l.current.Load().set.Policies[0].Validations[0].Message, "ANOTHER")
	})
}

// TestDirectoryBlocks replaces policies by a file without a writer: they stay in force, other files are read, and
// shutdown is not delayed.
func TestDirectoryBlocks(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"one.yaml": one, "other.yaml": other}, nil)
	path := filepath.Join(r.dir, "one.yaml")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	r.log.await(t, `level=ERROR msg="cannot read files, their last content stays in force" error=".*one.yaml: not a regular file`)
	if code, _ := r.get(t, "/readyz"); code != http.StatusServiceUnavailable {
		t.Error("ready, though a file cannot be read")
	}
	third := strings.NewReplacer("name: p", "name: third", "policyName: p", "policyName: third").Replace(policies)
	write(t, filepath.Join(r.dir, "third.yaml"), third)
	r.await(t, "read beside it", func() bool { return r.inForce() == "one other third" })
}

// TestPending tests a file whose reading does not end, as on an unreachable file system.
func TestPending(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one.yaml"), one)
	d := &directory{path: dir}
	if _, err := d.read(); err != nil {
		t.Fatal(err)
	}
	path, never := filepath.Join(dir, "one.yaml"), make(chan struct{})
	defer close(never)
	d.reading[path] = begin(func() (content, error) { <-never; return content{}, nil })
	start := time.Now()
	f, err := d.read()
	if err != nil || len(f.set.Policies) != 1 || d.unread == nil || time.Since(start) > fileTime/2 {
		t.Error(f, err, d.unread, time.Since(start))
	}
}

// TestStuck is a loader that does not come around.
func TestStuck(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"one.yaml": one}, nil)
	for path, old := range map[string]time.Duration{"/readyz": stuck, "/healthz": stuckLong} {
		r.await(t, "stuck", func() bool { // the loader beats on
			r.l.beat.Store(time.Now().Add(-old - time.Second).UnixNano())
			code, _ := r.get(t, path)
			return code == http.StatusServiceUnavailable
		})
	}
}
