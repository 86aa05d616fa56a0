package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/suite"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An initing is one run of the verb init.
type initing struct {
	checking
	file string
}

func newInit(c *console) *cobra.Command {
	n := &initing{checking: checking{console: c}}
	cmd := &cobra.Command{
		Use:   "init [flags] POLICIES...",
		Short: "Make a test suite for policies",
		Long: `init writes a suite for celgate test, with cases to begin with. For each policy it
makes one object that passes, and one for each expression that fails, from the schemas
of the matched kinds and the fields that the expressions read. The name of a case says
what the policies answer, not whether you want that answer: read the cases, and replace
the objects by your own.`,
		Example: `  celgate init policies/replicas.yaml
  celgate test policies/suite.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return n.init(cmd.Context(), args) },
	}
	group(cmd, "Flags", func(f *pflag.FlagSet) {
		f.StringVar(&n.file, "file", "", "`FILE` where to write the suite (default: suite.yaml beside the\nfirst of the policies); - is standard output")
		f.StringArrayVarP(&n.state, "cluster-state", "c", nil,
			"`FILE|DIR` existing objects of the cluster, such as CustomResourceDefinitions; may be repeated")
		minorFlag(f, &n.kubeVersion, "the Kubernetes that the policies are for (default "+celgate.Newest+")")
	})
	return cmd
}

func (n *initing) init(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return &usageError{errors.New("no policies given")}
	case slices.Contains(slices.Concat(args, n.state), "-"):
		return &usageError{errors.New("a suite names its policies as files: standard input is not one")}
	}
	file := n.file
	if file == "" {
		dir := args[0]
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			dir = filepath.Dir(dir)
		}
		file = filepath.Join(dir, "suite.yaml")
	}
	if _, err := os.Stat(file); err == nil && file != "-" {
		return withHint(errors.New(file+" exists, and is not overwritten"), "name another file with --file")
	}
	w, existing, err := n.world(args)
	if err != nil {
		return err
	}
	examples, objects, err := check.Examples(ctx,
		check.Input{Set: &w.set, Types: w.types, KubeVersion: minorOrNewest(n.kubeVersion), State: existing})
	if err != nil {
		return err
	}
	for _, p := range w.set.Policies {
		if !slices.ContainsFunc(examples, func(e check.Example) bool { return e.Policy == p }) {
			n.say(fmt.Sprintf("%s %s: celgate could not generate an object that it matches", p.Kind, p.Name),
				"it needs a binding and known kinds: add CustomResourceDefinitions with -c")
		}
	}
	if len(examples) == 0 {
		return errors.New("cases could not be generated")
	}
	text := n.suite(args, file, w.types, examples, objects)
	if file == "-" {
		_, err := fmt.Fprint(n.stdout, text)
		return err
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		return err
	}
	fmt.Fprintf(n.stdout, "wrote %s with %s\n", file, casesOf(len(examples)))
	return n.try(ctx, file)
}

// try runs the suite: generated expectations that do not hold would mislead.
func (n *initing) try(ctx context.Context, file string) error {
	suites, problems := suite.Load(file)
	for _, p := range problems {
		n.raise(exitFailed)
		n.say(p.Error(), p.Hint)
	}
	for r := range suite.Run(ctx, suites, suite.Options{KubeVersion: minorOrNewest(n.kubeVersion)}) {
		if r.Status != suite.Passed {
			n.raise(exitDenied)
			n.say(prefixPlace(r.Place, r.Name+": "+string(r.Status)), "celgate test "+file+" says more")
		}
	}
	return ctx.Err()
}

// suite writes the suite.
func (n *initing) suite(policies []string, file string, types *schema.Registry, examples []check.Example,
	objects []map[string]any) string {
	relative := func(paths []string) string {
		var all []string
		for _, path := range paths {
			if file != "-" {
				from, _ := filepath.Abs(filepath.Dir(file))
				to, _ := filepath.Abs(path)
				if found, err := filepath.Rel(from, to); err == nil {
					path = found
				}
			}
			all = append(all, yamlText(filepath.ToSlash(path)))
		}
		return strings.Join(all, ", ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: Suite\npolicies: [%s]\nstate:\n", suite.APIVersion, relative(policies))
	for _, path := range n.state {
		fmt.Fprintf(&b, "- %s\n", relative([]string{path}))
	}
	for _, object := range objects {
		b.WriteString(listItem(rewrite.YAML(object, types.Type(tree.Object(object).Kind()))))
	}
	fmt.Fprintf(&b, "defaults:\n  user: %s\ncases:\n", yamlText(examples[0].Request.UserInfo.Username))
	for _, e := range examples {
		b.WriteString("\n" + caseText(types, e))
	}
	return b.String()
}

// caseText returns one case, named by its result.
func caseText(types *schema.Registry, e check.Example) string {
	name, expect := e.Policy.Name+": passes", "expect: allowed\n"
	if e.Decision.Mutated {
		name, expect = e.Policy.Name+": is changed", "expect: mutated\n"
	}
	for i, v := range e.Decision.Violations {
		if v.Kind != e.Policy.Kind || v.Policy != e.Policy.Name {
			continue
		}
		list := map[policy.Action]string{policy.Warn: "warnings", policy.Audit: "audited"}[actionOf(v)]
		if list == "" {
			list = "denied"
		}
		if name = e.Policy.Name + ": " + v.Expr.Field + " fails"; v.Expr.IsZero() {
			name = e.Policy.Name + ": cannot be evaluated"
		}
		expect = "expect:\n  " + list + ":\n"
		for _, w := range e.Decision.Violations[i:] {
			if actionOf(w) == actionOf(v) {
				expect += "  - policy: " + yamlText(w.Policy) + "\n    message: " + yamlText(w.Message) + "\n"
			}
		}
		break
	}
	text := "name: " + yamlText(name) + "\n"
	object := e.Request.Object
	if op := e.Request.Operation; op != celgate.Create {
		text += "operation: " + string(op) + "\n"
		if object == nil {
			object = e.Request.OldObject
		}
		text += "oldPatch: {}\n"
	}
	text += "object:\n"
	for line := range strings.Lines(rewrite.YAML(object, types.Type(e.Request.Kind))) {
		text += "  " + line
	}
	return listItem(text + expect)
}

func actionOf(v celgate.Violation) policy.Action {
	for _, a := range []policy.Action{policy.Deny, policy.Warn, policy.Audit} {
		if slices.Contains(v.Actions, a) {
			return a
		}
	}
	return policy.Deny
}

// listItem indents lines as an item of a list.
func listItem(text string) string {
	var b strings.Builder
	lead := "- "
	for line := range strings.Lines(text) {
		b.WriteString(lead + line)
		lead = "  "
	}
	return b.String()
}

// yamlText quotes a text for YAML.
func yamlText(s string) string {
	if strings.ContainsAny(s, "\n\r") {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(strings.TrimPrefix(rewrite.YAML(map[string]any{"v": s}, nil), "v: "), "\n")
}
