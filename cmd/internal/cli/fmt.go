package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A formatting is one run of the verb fmt.
type formatting struct {
	*console
	canonical, list bool
	kubeVersion     string
}

func newFormat(c *console) *cobra.Command {
	m := &formatting{console: c}
	cmd := &cobra.Command{
		Use:   "fmt --canonical [flags] FILE|DIR|-...",
		Short: "Write policies as the API server stores them",
		Long: `fmt --canonical writes the API server's defaults into policies and bindings:
failurePolicy, matchPolicy, selectors, the scope of rules and the like. A tool that
compares the file with the cluster then sees no difference. Everything else in the
files stays as it is, comments and layout included.

fmt changes files in place and prints the names of the changed ones; - reads standard
input and writes the result to standard output. With --list it changes nothing: it
prints the files that would change, and the exit status is 1 if there are any.`,
		Example: `  celgate fmt --canonical policies/
  celgate fmt --canonical --list policies/`,
		RunE: func(_ *cobra.Command, args []string) error { return m.run(args) },
	}
	group(cmd, "Formatting", func(f *pflag.FlagSet) {
		f.BoolVar(&m.canonical, "canonical", false, "write the server's defaults")
		f.BoolVar(&m.list, "list", false, "list the files that would change, without changing them")
		minorFlag(f, &m.kubeVersion, "the Kubernetes whose defaults are written (default "+celgate.Newest+")")
	})
	return cmd
}

func (m *formatting) run(args []string) error {
	switch {
	case !m.canonical:
		return withHint(&usageError{errors.New("nothing to do")}, "set --canonical")
	case len(args) == 0:
		return &usageError{errors.New("no files given")}
	}
	types, err := builtin.Registry(minorOrNewest(m.kubeVersion))
	if err != nil {
		return withHint(err, "celgate knows Kubernetes %s", strings.Join(builtin.Minors(), ", "))
	}
	if slices.Contains(args, "-") {
		if len(args) > 1 {
			return &usageError{errors.New("- cannot be combined with other files: its result goes to standard output")}
		}
		return m.stream(types)
	}
	// Nothing is written before everything is read: a mistake in one file leaves the others unchanged.
	files := map[string]*fileEdits{}
	for _, path := range args {
		more, err := m.files(path, types)
		if err != nil {
			return err
		}
		maps.Copy(files, more)
	}
	if m.status == exitFailed && !m.list {
		return errors.New("nothing is written, because some files cannot be read")
	}
	for _, file := range sortedFiles(files) {
		if m.list {
			m.raise(exitDenied)
		} else if err := files[file].write(file, types); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(m.stdout, file); err != nil {
			return err
		}
	}
	return nil
}

// files returns the edits of the files below a path.
func (m *formatting) files(path string, types *schema.Registry) (map[string]*fileEdits, error) {
	docs, problems := (&manifest.Loader{}).Load(path)
	for _, p := range problems {
		if errors.Is(p, manifest.ErrNoObject) {
			continue
		}
		if !p.Warning {
			m.raise(exitFailed)
		}
		m.say(p.Error(), "")
	}
	return canonical(docs, types)
}

// stream formats standard input.
func (m *formatting) stream(types *schema.Registry) error {
	text, err := io.ReadAll(m.stdin)
	if err != nil {
		return err
	}
	docs, problems := manifest.Read(strings.NewReader(string(text)), "")
	for _, p := range problems {
		if !p.Warning {
			m.raise(exitFailed)
		}
		m.say(p.Error(), "")
	}
	files, err := canonical(docs, types)
	if err != nil {
		return err
	}
	out := string(text)
	for _, edits := range files {
		if out, err = edits.text(out, types); err != nil {
			return err
		}
	}
	if m.list {
		if len(files) > 0 {
			m.raise(exitDenied)
			fmt.Fprintln(m.stdout, "-")
		}
		return nil
	}
	_, err = io.WriteString(m.stdout, out)
	return err
}

// canonical returns the edits that write the server's defaults into policies and bindings.
func canonical(docs []*manifest.Document, types *schema.Registry) (map[string]*fileEdits, error) {
	files := map[string]*fileEdits{}
	for _, d := range docs {
		file := d.Source.File
		if files[file] == nil {
			files[file] = &fileEdits{to: map[*manifest.Document]map[string]any{}}
		}
		files[file].docs = append(files[file].docs, d)
		if !policy.IsRecognised(d.Object) {
			continue
		}
		native := asReleased(d.Object)
		stored, _, err := prepare.Canonical(native, types, tree.Object(native).Kind())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Position(), err)
		}
		object, _ := clone(d.Object).(map[string]any)
		spec, _ := object["spec"].(map[string]any)
		full, _ := stored["spec"].(map[string]any)
		if spec == nil || full == nil {
			continue
		}
		complete(spec, full)
		if !tree.Equal(object, d.Object) {
			files[file].to[d] = object
		}
	}
	for file, edits := range files {
		if len(edits.to) == 0 {
			delete(files, file)
		}
	}
	return files, nil
}

// asReleased returns an object of a native kind that has the same defaults as a policy or binding.
func asReleased(object map[string]any) map[string]any {
	native := policy.Native(object)
	if native["apiVersion"] != policy.Dialect {
		return native
	}
	native = maps.Clone(native)
	native["apiVersion"], native["kind"] = nativeGroup+"/v1", "Validating"+fmt.Sprint(native["kind"])
	if spec, ok := native["spec"].(map[string]any); ok && strings.HasSuffix(fmt.Sprint(native["kind"]), "Binding") &&
		spec["validationActions"] == nil {
		spec = maps.Clone(spec)
		spec["validationActions"], native["spec"] = []any{string(policy.Deny)}, spec
	}
	return native
}

// complete copies the members that the server adds into the author's object.
func complete(written, stored any) {
	switch w := written.(type) {
	case map[string]any:
		s, ok := stored.(map[string]any)
		if !ok {
			return
		}
		for key, member := range s {
			if have, there := w[key]; !there || have == nil {
				w[key] = clone(member)
			} else {
				complete(have, member)
			}
		}
	case []any:
		s, ok := stored.([]any)
		if !ok || len(s) != len(w) {
			return
		}
		for i := range w {
			complete(w[i], s[i])
		}
	}
}
