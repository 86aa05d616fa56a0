package cli

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/celgate/celgate/cmd/internal/playground"
	"github.com/celgate/celgate/manifest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A playing is one run of the verb playground.
type playing struct {
	*console
	policies, state []string
	dir, listen     string
}

func newPlayground(c *console) *cobra.Command {
	p := &playing{console: c}
	cmd := &cobra.Command{
		Use:   "playground [-p POLICIES] [flags] [MANIFEST|DIR|-...]",
		Short: "Serve a page for trying out policies",
		Long: `playground serves a page on this machine that decides about manifests while the user
edits them and the policies. The engine runs in the browser, and the page does not
send any texts. playground prints the address of the page, which contains the given
files, and serves until it is interrupted. Changes in the page are not written back.

The files of the page are in the folder playground of a release, beside the program;
make playground builds them.`,
		Example: `  celgate playground --dir bin/playground
  celgate playground --dir bin/playground -p policies/ -c cluster.yaml web.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args) },
	}
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&p.policies, "policy", "p", nil, "`FILE|DIR|-` policies and bindings; may be repeated")
		f.StringArrayVarP(&p.state, "cluster-state", "c", nil,
			"`FILE|DIR|-` existing objects of the cluster; may be repeated")
	})
	group(cmd, "Page", func(f *pflag.FlagSet) {
		f.StringVar(&p.dir, "dir", "", "`DIR` the files of the page (default: playground beside the program)")
		f.StringVar(&p.listen, "listen", usualPage, "`ADDRESS` of this machine to serve on; port 0 is any free one")
	})
	return cmd
}

// usualPage is the default address: a browser keeps the engine and the last texts for an address.
const usualPage = "127.0.0.1:8420"

func (p *playing) run(ctx context.Context, args []string) error {
	dir, err := p.pageDir()
	if err != nil {
		return err
	}
	fragment, err := p.fragment(args)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(p.listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return &usageError{fmt.Errorf("--listen must be an address of this machine such as 127.0.0.1:8080, not %s", p.listen)}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.listen)
	if errors.Is(err, syscall.EADDRINUSE) && p.listen == usualPage {
		p.say(usualPage+" is in use: another port serves the page", "")
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.FileServerFS(os.DirFS(dir)), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Fprintf(p.stdout, "http://%s/%s\n", listener.Addr(), fragment)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// pageDir returns the folder of the page.
func (p *playing) pageDir() (string, error) {
	dir := p.dir
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(filepath.Dir(self), "playground")
	}
	if _, err := os.Stat(filepath.Join(dir, "offline.js")); err != nil {
		return "", withHint(fmt.Errorf("the files of the page are not in %s", dir), "build them with make playground, and name the folder with --dir")
	}
	return dir, nil
}

// fragment encodes texts for a link to the page; empty if there are none.
func (p *playing) fragment(args []string) (string, error) {
	var ask playground.Ask
	loader := &manifest.Loader{Stdin: p.stdin, MaxInput: p.maxInput}
	given := false
	for _, of := range []struct {
		paths []string
		text  *string
	}{{p.policies, &ask.Policies}, {p.state, &ask.State}, {args, &ask.Objects}} {
		if len(of.paths) == 0 {
			continue
		}
		docs, problems := loader.Load(of.paths...)
		for _, problem := range problems {
			if !problem.Warning {
				return "", problem
			}
		}
		given = true
		*of.text = joinSources(docs)
	}
	if !given {
		return "", nil
	}
	text, err := json.Marshal(ask)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	return "#v1." + base64.RawURLEncoding.EncodeToString(packed.Bytes()), err
}

// joinSources returns the texts of the sources of documents, without duplicates.
func joinSources(docs []*manifest.Document) string {
	var texts []string
	var last *manifest.Source
	for _, d := range docs {
		if d.Source == last || manifest.IsSuite(d.Object) {
			continue
		}
		last = d.Source
		texts = append(texts, strings.Trim(d.Source.Text, "\n")+"\n")
	}
	return strings.Join(texts, "---\n")
}
