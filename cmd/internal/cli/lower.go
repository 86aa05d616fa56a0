package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A lowering is one run of the verb lower.
type lowering struct {
	*console
	format      string
	kubeVersion string
	natively    *celenv.Set
	types       *schema.Registry
	lower       *lower.Lowering
	refused     map[policy.Ref]bool
	printed     map[policy.Ref]bool
}

func newLower(c *console) *cobra.Command {
	l := &lowering{console: c}
	cmd := &cobra.Command{
		Use:   "lower FILE|DIR|-... [-o yaml]",
		Short: "Print policies of the dialect as native ones",
		Long: `lower prints the policies and bindings of policy.celgate.dev as those of
admissionregistration.k8s.io/v1, for clusters whose kube-apiserver enforces them. An
AdmissionPolicy with mutations and validations becomes two policies of its name, and
each of its bindings becomes two. A policy whose rules are enforced in several ways
becomes several, NAME, NAME-2, NAME-3, with bindings of the same endings; so give lower
the bindings, too. A binding of several policies becomes one binding for each of them,
named BINDING-POLICY; these come into force one by one. lower prints native policies
unchanged, and leaves out other objects.

lower refuses a policy or binding that has no native form, with the field and the reason,
and with a policy its bindings. Messages of kube-apiserver name the native kinds.

The exit status is 0 when everything is printed, 1 when something is refused, and 2 when
the files cannot be read.`,
		Example: `  celgate lower policies/ | kubectl apply -f -`,
		RunE:    func(_ *cobra.Command, args []string) error { return l.run(args) },
	}
	group(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVarP(&l.format, "output", "o", "yaml", "`FORMAT` yaml, the only format")
		minorFlag(f, &l.kubeVersion, "the Kubernetes whose rules hold (default "+celgate.Newest+")")
	})
	completeWith(cmd, "output", "yaml")
	return cmd
}

func (l *lowering) run(args []string) error {
	switch {
	case len(args) == 0:
		return &usageError{errors.New("no files given")}
	case l.format != "yaml":
		return &usageError{fmt.Errorf("unknown output format %q: yaml is the only one", l.format)}
	}
	types, err := builtin.Registry(minorOrNewest(l.kubeVersion))
	if err != nil {
		return withHint(err, "celgate knows Kubernetes %s", strings.Join(builtin.Minors(), ", "))
	}
	docs := l.read(&manifest.Loader{Stdin: l.stdin}, args)
	if l.status == exitFailed {
		return errors.New("not every file can be read")
	}
	bundle := manifest.NewBundle(docs...)
	if types, err = types.WithCustomResources(manifest.Trees(bundle.Definitions())...); err != nil {
		return err
	}
	l.refused, l.printed = map[policy.Ref]bool{}, map[policy.Ref]bool{}
	for _, p := range bundle.Problems {
		if twice := (*policy.DuplicateError)(nil); errors.As(p.Err, &twice) {
			l.raise(exitDenied)
			l.say(p.Position.String()+": "+p.Message, p.Hint)
			l.refused[twice.Ref] = true
			continue
		}
		l.refuse(p.Position, policy.RefOf(p.Document.Object), p.Message)
		l.refused[policy.RefOf(p.Document.Object)] = true
	}
	engine, err := celgate.New(&bundle.Set, celgate.Options{KubeVersion: minorOrNewest(l.kubeVersion), Types: types})
	if err != nil {
		return err
	}
	for _, r := range engine.Rejections() {
		l.refuse(r.Position, r.Ref, r.Status.Message)
		l.refused[r.Ref] = true
	}
	l.natively, err = celenv.New(minorOrNewest(l.kubeVersion), quirks.SetOf(minorOrNewest(l.kubeVersion)))
	if err != nil {
		return err
	}
	l.types, l.lower = types, lower.New(&bundle.Set, types, l.natively)
	if err := l.warnOfOrder(engine); err != nil {
		return err
	}
	// A binding is printed after its policy, whatever the order in the file.
	out := slices.Concat(l.lowerPolicies(docs, &bundle.Set), l.lowerBindings(docs, &bundle.Set))
	if len(out) == 0 && l.status == exitClean {
		return fmt.Errorf("no policies in %s", strings.Join(args, ", "))
	}
	_, err = io.WriteString(l.stdout, strings.Join(out, "---\n"))
	return err
}

// lowerPolicies returns the native forms of the policies of a set, and reports those that cannot be lowered.
func (l *lowering) lowerPolicies(docs []*manifest.Document, set *policy.Set) (out []string) {
	for _, d := range docs {
		ref := policy.RefOf(d.Object)
		p := set.Policy(ref)
		if !policy.IsRecognised(d.Object) || p == nil || l.refused[ref] {
			continue
		}
		natives, refusals := l.lower.Policy(d.Object, p)
		if p.Kind == policy.Admission && len(refusals) == 0 {
			if refusals = append(l.nativeErrors(p, natives), l.refusedPatches(p, natives)...); len(refusals) == 0 {
				refusals = l.refusedNatives(natives)
			}
		}
		refusals = append(refusals, refuseTaken(set, p.Kind == policy.Admission, natives)...)
		for _, r := range refusals {
			l.refused[ref], natives = true, nil
			l.refuse(p.Locate(&field.Error{Field: r.Field}), ref, r.String())
		}
		for _, object := range natives {
			l.printed[policy.RefOf(object)] = true
		}
		out = append(out, l.print(natives)...)
	}
	return out
}

// lowerBindings returns the native forms of the bindings of a set whose policies were lowered.
func (l *lowering) lowerBindings(docs []*manifest.Document, set *policy.Set) (out []string) {
	for _, d := range docs {
		ref := policy.RefOf(d.Object)
		b := set.Binding(ref)
		if !policy.IsRecognised(d.Object) || b == nil || l.refused[ref] ||
			slices.ContainsFunc(b.PolicyRefs(), func(of policy.Ref) bool { return l.refused[of] }) {
			continue
		}
		natives, refusals := l.lower.Binding(d.Object, b)
		refusals = append(refusals, refuseTaken(set, b.Kind == policy.Admission, natives)...)
		for _, object := range natives {
			if ref := policy.RefOf(object); l.printed[ref] {
				refusals = append(refusals, lower.Refusal{Field: "metadata.name",
					Reason: "a " + ref.String() + " is printed for another binding"})
			}
			l.printed[policy.RefOf(object)] = true
		}
		for _, r := range refusals {
			natives = nil
			l.refuse(b.Locate(&field.Error{Field: r.Field}), ref, r.String())
		}
		out = append(out, l.print(natives)...)
	}
	return out
}

// print returns the YAML of native policies and bindings.
func (l *lowering) print(objects []map[string]any) (out []string) {
	for _, object := range objects {
		kind := schema.GroupVersionKind{Group: nativeGroup, Version: "v1", Kind: policy.RefOf(object).Kind}
		out = append(out, rewrite.YAML(object, l.types.Type(kind)))
	}
	return out
}

// warnOfOrder prints the policies that run behind others: kube-apiserver does not guarantee that.
func (l *lowering) warnOfOrder(engine *celgate.Engine) error {
	turns, err := engine.Turns()
	if err != nil {
		return err
	}
	for _, t := range turns {
		if len(t.Why) > 0 {
			l.say(fmt.Sprintf("warning: %s runs %s; kube-apiserver runs mutating policies in an order of its own",
				t.Ref, strings.Join(t.Why, ", ")), "")
		}
	}
	return nil
}

// refuseTaken refuses native objects whose name another native object already has.
func refuseTaken(set *policy.Set, made bool, natives []map[string]any) (all []lower.Refusal) {
	for _, object := range natives {
		if ref := policy.RefOf(object); made && (set.Policy(ref) != nil || set.Binding(ref) != nil) {
			all = append(all, lower.Refusal{Field: "metadata.name",
				Reason: "there is a " + ref.String() + " among the given files"})
		}
	}
	return all
}

// nativeErrors refuses expressions that kube-apiserver cannot evaluate, or some of whose results it refuses. Mutations
// are checked in their native form.
func (l *lowering) nativeErrors(of *policy.Policy, natives []map[string]any) (all []lower.Refusal) {
	const mutation = "spec.mutations["
	for _, found := range compile.NativeErrors(l.natively, of) {
		if !strings.HasPrefix(found.Field, mutation) {
			all = append(all, lower.Refusal{Field: found.Field, Reason: found.Err.Error()})
		}
	}
	for _, p := range policiesOf(natives) {
		for _, found := range compile.NativeErrors(l.natively, p) {
			if strings.HasPrefix(found.Field, mutation) {
				all = append(all, lower.Refusal{Field: fieldOf(of, p, found.Field), Reason: found.Err.Error()})
			}
		}
	}
	return slices.Compact(all)
}

// policiesOf returns the policies among objects.
func policiesOf(objects []map[string]any) (all []*policy.Policy) {
	for _, object := range objects {
		if p, _, err := policy.FromObject(object, nil); err == nil && p != nil {
			all = append(all, p)
		}
	}
	return all
}

// fieldOf returns the field of a policy of the dialect from which a field of its native form was made: the mutation if
// its patch has another form, the list if one mutation became several.
func fieldOf(of, native *policy.Policy, path string) string {
	for i := range native.Mutations {
		switch mutation := fmt.Sprintf("spec.mutations[%d]", i); {
		case !strings.HasPrefix(path, mutation+"."):
		case len(of.Mutations) != len(native.Mutations):
			return "spec.mutations"
		case of.Mutations[i].PatchType != native.Mutations[i].PatchType:
			return mutation
		}
	}
	return path
}

// refusedPatches refuses mutations that kube-apiserver cannot apply for any kind, because of literals that it does not
// convert.
func (l *lowering) refusedPatches(of *policy.Policy, natives []map[string]any) (all []lower.Refusal) {
	set := &policy.Set{}
	for _, p := range policiesOf(natives) {
		if p.Mutates() {
			set.Policies = append(set.Policies, p)
		}
	}
	analyzers := slices.DeleteFunc(check.Analyzers(),
		func(a *check.Analyzer) bool { return a.Code != "CG202" })
	found, err := check.Run(context.Background(),
		check.Input{Set: set, Types: l.types, KubeVersion: minorOrNewest(l.kubeVersion)}, analyzers...)
	if err != nil {
		return nil
	}
	for _, d := range found {
		all = append(all, lower.Refusal{Field: fieldOf(of, set.Policies[0], d.Field),
			Reason: "kube-apiserver denies requests for it: " + d.Message})
	}
	return all
}

// refusedNatives refuses policies that kube-apiserver would not store, such as an audit annotation that is always null
// behind a guard.
func (l *lowering) refusedNatives(natives []map[string]any) (all []lower.Refusal) {
	made := manifest.NewBundle(manifest.DocumentsOf(natives)...)
	engine, err := celgate.New(&made.Set, celgate.Options{KubeVersion: minorOrNewest(l.kubeVersion), Types: l.types})
	if err != nil {
		return []lower.Refusal{{Field: "spec", Reason: err.Error()}}
	}
	for _, r := range engine.Rejections() {
		all = append(all, lower.Refusal{Field: "spec", Reason: "kube-apiserver refuses the native form: " + r.Status.Message})
	}
	return all
}

// refuse prints the reason why an object is not lowered.
func (l *lowering) refuse(at policy.Position, ref policy.Ref, why string) {
	l.raise(exitDenied)
	message := ref.String() + ": " + why
	if place := at.String(); place != "" {
		message = place + ": " + message
	}
	l.say(message, "")
}
