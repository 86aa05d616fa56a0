package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/derive"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A derivation is one run of the verb derive.
type derivation struct {
	*console
	state         []string
	actions       []string
	unconditional bool
	kubeVersion   string
}

func newDerive(c *console) *cobra.Command {
	d := &derivation{console: c}
	cmd := &cobra.Command{
		Use:   "derive [flags] FILE|DIR|-...",
		Short: "Derive a validating policy from a mutating one",
		Long: `derive prints a ValidatingAdmissionPolicy for each MutatingAdmissionPolicy, with
bindings of the same names. It asserts what the mutations set: it denies an object
that the mutations missed, or whose changes something else has undone.

A value that a mutation computes from fields that it writes itself cannot be
asserted, because those fields have other values afterwards; standard error lists
what is left out, and why. A match condition that reads what the mutations write,
such as !has(object.spec.hostname), stays: the validation then ignores objects with
another value. With --unconditional it is left out, and such objects are denied.

docs/derive.md shows what is asserted.

The exit status is 0 when everything is asserted, 1 when something is not, and 2
when a file cannot be read.`,
		Example: `  celgate derive policies/sidecar.yaml > policies/sidecar-holds.yaml
  celgate derive --action Warn,Audit policies/ | kubectl apply -f -`,
		RunE: func(_ *cobra.Command, args []string) error { return d.run(args) },
	}
	group(cmd, "Flags", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&d.state, "cluster-state", "c", nil,
			"`FILE|DIR|-` CustomResourceDefinitions; may be repeated")
		f.StringSliceVar(&d.actions, "action", []string{string(policy.Deny)},
			"`ACTIONS` the bindings' validationActions: Deny, Warn or Audit;\ncomma-separated, may be repeated (default Deny)")
		f.BoolVar(&d.unconditional, "unconditional", false,
			"leave out match conditions that read fields that the mutations write")
		minorFlag(f, &d.kubeVersion, "the Kubernetes that the policies are for (default "+celgate.Newest+")")
	})
	completeWith(cmd, "action", string(policy.Deny), string(policy.Warn), string(policy.Audit))
	return cmd
}

func (d *derivation) run(args []string) error {
	if len(args) == 0 {
		return &usageError{errors.New("no policies given")}
	}
	if err := d.checkActions(); err != nil {
		return err
	}
	minor := minorOrNewest(d.kubeVersion)
	types, err := builtin.Registry(minor)
	if err != nil {
		return withHint(err, "celgate knows Kubernetes %s", strings.Join(builtin.Minors(), ", "))
	}
	envs, err := celenv.New(minor, quirks.SetOf(minor))
	if err != nil {
		return err
	}
	loader := &manifest.Loader{Stdin: d.stdin}
	read := func(paths []string) []*manifest.Document {
		if len(paths) == 0 {
			return nil
		}
		docs, problems := loader.Load(paths...)
		for _, p := range problems {
			if errors.Is(p, manifest.ErrNoObject) {
				continue
			}
			if !p.Warning {
				d.raise(exitFailed)
			}
			d.say(p.Error(), "")
		}
		return docs
	}
	docs := read(args)
	definitions := manifest.Definitions(append(read(d.state), docs...))
	if types, err = types.WithCustomResources(manifest.Trees(definitions)...); err != nil {
		return err
	}
	bundle := manifest.NewBundle(docs...)
	for _, p := range bundle.Problems {
		d.raise(exitFailed)
		d.say(p.Error(), p.Hint)
	}
	found := false
	for _, doc := range docs {
		switch doc.Object["kind"] {
		case string(policy.Mutating):
			p := bundle.Set.Policy(policy.Ref{Kind: string(policy.Mutating), Name: nameOf(doc.Object)})
			if p == nil {
				continue
			}
			found = true
			result, err := derive.Validation(envs, p, doc.Object,
				derive.Options{Types: matchedTypes(types, p.MatchConstraints), Unconditional: d.unconditional})
			if err != nil {
				return err
			}
			d.tell(p, result)
			if result.Policy == nil {
				continue
			}
			d.print(result.Policy, types)
			for _, b := range docs {
				spec, _ := b.Object["spec"].(map[string]any)
				if b.Object["kind"] == policy.Mutating.Binding() && spec["policyName"] == p.Name {
					d.print(derive.Binding(b.Object, d.actions), types)
				}
			}
		}
	}
	if !found && d.status == exitClean {
		return fmt.Errorf("no MutatingAdmissionPolicy in %s", strings.Join(args, ", "))
	}
	return nil
}

func (d *derivation) checkActions() error {
	for _, a := range d.actions {
		switch policy.Action(a) {
		case policy.Deny, policy.Warn, policy.Audit:
		default:
			return &usageError{fmt.Errorf("--action is Deny, Warn or Audit, not %q", a)}
		}
	}
	return nil
}

// tell prints the parts of a policy that are not asserted.
func (d *derivation) tell(p *policy.Policy, r *derive.Result) {
	for _, of := range r.Refused {
		d.raise(exitDenied)
		d.say(prefixPlace(of.Locate(0), fmt.Sprintf("policy %s: %s: %s", p.Name, of.Field, of.Message)), "")
	}
	for _, of := range r.Notes {
		d.say(prefixPlace(of.Locate(0), fmt.Sprintf("policy %s: %s", p.Name, of.Message)), "")
	}
}

func (d *derivation) print(object map[string]any, types *schema.Registry) {
	fmt.Fprint(d.stdout, "---\n", rewrite.YAML(object, types.Type(tree.Object(object).Kind())))
}

// matchedTypes returns the types of the kinds that rules name.
func matchedTypes(types *schema.Registry, m *policy.MatchResources) []*shape.Type {
	if m == nil {
		return nil
	}
	var all []*shape.Type
	for _, r := range types.Resources() {
		for _, rule := range m.ResourceRules {
			if t := types.Type(r.GroupVersionKind()); t != nil && covers(rule.APIGroups, r.Group) &&
				covers(rule.APIVersions, r.Version) && covers(rule.Resources, r.Resource) {
				all = append(all, t)
				break
			}
		}
	}
	return all
}

// covers reports whether a list of a rule includes a name.
func covers(list []string, name string) bool {
	for _, s := range list {
		if s == "*" || s == name || s == "*/*" || strings.HasPrefix(s, name+"/") {
			return true
		}
	}
	return false
}
