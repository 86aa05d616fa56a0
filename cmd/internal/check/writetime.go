package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/sequence"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var writeTime = []*Analyzer{
	{
		Code: "CG001", Name: "refused", Severity: Error,
		Title: "the API server would refuse to store the policy or binding",
		Text: `The API server validates a policy when it is written: its fields, and every expression, which it
compiles with the functions of the previous minor. The message is the server's. A policy that is refused enforces
nothing.`,
		Before: "validations:\n- expression: object.spec.paused   # must evaluate to bool but got dyn",
		After:  "validations:\n- expression: object.spec.paused == true",
		run:    checkRefusal,
	},
	{
		Code: "CG002", Name: "ignore-without-reason", Severity: Warning,
		Title: "an ignore annotation without a reason, or with an unknown code",
		Text: `The annotation ` + IgnoreAnnotation + ` suppresses diagnostics about its policy or binding. Each line holds a code (or
several, separated by commas), a colon and the reason. A line without a reason has no effect: a later reader could not
tell whether it still applies.`,
		Before: "annotations:\n  celgate.dev/ignore: CG301",
		After:  "annotations:\n  celgate.dev/ignore: \"CG301: deletions never reach this resource\"",
		run:    ignoreLines,
	},
	{
		Code: "CG003", Name: "over-a-limit", Severity: Error,
		Title: "the policy or binding exceeds a limit of celgate serve",
		Text: "`celgate serve --limits`" + ` bounds the number of bindings of a policy and the length of the lists in policies and bindings;
API servers do not. ` + "`celgate check --limits`" + ` applies the same limits. If a policy has too many bindings, the last ones by name
are reported.`,
		Before: "# celgate check --limits validations=1\nvalidations:\n- expression: object.spec.replicas > 0\n- expression: object.spec.replicas < 10",
		After:  "validations:\n- expression: object.spec.replicas > 0 && object.spec.replicas < 10",
		run:    checkLimits,
	},
}

func checkLimits(p *pass) {
	for _, f := range p.facts {
		for _, err := range p.Sizes.PolicyErrors(f.Policy, nil) {
			p.report(Diagnostic{Message: err.ErrorBody(), Ref: f.Ref(), Field: err.Field, Position: f.Locate(err)})
		}
	}
	named := map[policy.Ref]int{}
	bindings := slices.SortedStableFunc(slices.Values(p.Set.Bindings),
		func(a, b *policy.Binding) int { return strings.Compare(a.Name, b.Name) })
	for _, b := range bindings {
		errs := append(p.Sizes.BindingErrors(b, nil),
			p.Sizes.ManyBindings(b, nil, func(ref policy.Ref) int { return named[ref] })...)
		for _, err := range errs {
			p.report(Diagnostic{Message: err.ErrorBody(), Ref: b.Ref(), Field: err.Field, Position: b.Locate(err)})
		}
		for _, ref := range b.PolicyRefs() {
			named[ref]++
		}
	}
}

func checkRefusal(p *pass) {
	unserved := func(apiVersion string, ref policy.Ref, at policy.Position) {
		if message := p.unservedReason(apiVersion, ref.Kind); message != "" {
			p.report(Diagnostic{Message: message, Ref: ref, Field: "apiVersion", Position: at})
		}
	}
	p.checkLibraries()
	for _, b := range p.Set.Bindings {
		unserved(b.APIVersion, b.Ref(), b.Position)
	}
	p.each(func(_ *subject, f *facts) { f.refusals() })
	for _, f := range p.facts {
		unserved(f.APIVersion, f.Ref(), f.Position)
		for _, err := range f.refusals() {
			p.refusal(f, err)
		}
	}
	for _, b := range p.Set.Bindings {
		errs := (compile.Written{Binding: b}).Errors(p.envs, p.envs.Release().Static)
		if len(errs) == 0 {
			errs = p.misfits(b)
		}
		for _, err := range errs {
			p.report(Diagnostic{Message: err.ErrorBody(), Ref: b.Ref(), Field: err.Field, Position: b.Locate(err)})
		}
	}
}

// misfits are why celgate does not take a binding of policies that are given.
func (s *subject) misfits(b *policy.Binding) field.ErrorList {
	if b.Kind != policy.Admission {
		return nil
	}
	known := map[policy.Ref]*policy.Policy{}
	for _, p := range s.Set.Policies {
		known[p.Ref()] = p
	}
	errs := slices.Concat(b.BindsSingletons(known), b.CheckNames(known), b.CheckAbstract(known))
	if slices.ContainsFunc(b.PolicyRefs(), func(ref policy.Ref) bool { return known[ref] == nil }) {
		return append(errs, b.CheckBindable(s.Set.Policies)...)
	}
	return append(errs, b.CheckTogether(known)...)
}

// unservedReason returns the error of a server that does not serve a kind in a version; empty if it does.
func (s *subject) unservedReason(apiVersion, kind string) string {
	return policy.UnservedReason(apiVersion, kind, s.KubeVersion, s.Types.Versions)
}

// refusals returns the errors of a server of the minor of envs about a new or static policy.
func refusals(envs *celenv.Set, p *policy.Policy) field.ErrorList {
	errs := compile.Written{Policy: p}.Errors(envs, envs.Release().Static)
	if len(errs) == 0 {
		errs = sequence.Vacuous(envs, p)
	}
	return errs
}

func (p *pass) refusal(f *facts, err *field.Error) {
	var expr policy.Expr
	for _, e := range f.exprs {
		if e.Field == err.Field {
			expr = e.Expr
		}
	}
	for _, d := range problemsOf(err, expr, f.Locate) {
		said := wording.Read(d.Message)
		d.Ref = f.Ref()
		if d.Suggestion = suggestion(said); said.Kind == wording.Undeclared && f.Kind == policy.Admission {
			d.Suggestion = cmp.Or(f.MeantImport(said.Name, p.Set.Libraries), d.Suggestion)
		}
		d.Fix = f.resultFix(expr, said)
		p.report(d)
	}
}

// problemsOf returns a diagnostic for each problem in a write-time error, which the compiler of an expression may have
// found several of. The zero expr means that the error is not about an expression.
func problemsOf(err *field.Error, expr policy.Expr, locate func(*field.Error) policy.Position) []Diagnostic {
	var all []Diagnostic
	each := func(err *field.Error, message string) {
		d := Diagnostic{Message: message, Field: err.Field, Position: locate(err), Expr: expr}
		if !expr.IsZero() {
			d.From, d.To = 0, len(expr.Src)
			for i := range expr.Src {
				if i > 0 && expr.Locate(i) == d.Position {
					d.From, d.To = i, i+token(expr.Src[i:])
					break
				}
			}
		}
		all = append(all, d)
	}
	for _, m := range wording.Problems(err.Detail) {
		each(&field.Error{Field: err.Field, Detail: m.Detail()}, m.Message)
	}
	if len(all) == 0 {
		each(err, expr.TrimValue(err.ErrorBody())) // the excerpt shows the value
	}
	return all
}

// resultFix converts an expression of unknown type to the type that its field requires.
func (f *facts) resultFix(expr policy.Expr, said wording.Sentence) *Fix {
	open, end := "", ""
	switch {
	case said.Kind != wording.WrongResult || said.Got != "dyn":
		return nil
	case said.Want == "bool":
		end = " == true"
	case takesText(said):
		open, end = "string(", ")"
	default:
		return nil
	}
	i := slices.IndexFunc(f.exprs, func(e *expression) bool { return e.Field == expr.Field })
	if i < 0 || f.exprs[i].ast == nil || strings.Contains(expr.Src, "//") {
		return nil
	}
	if k := f.exprs[i].ast.Expr().Kind(); open == "" && k != ast.SelectKind && k != ast.IdentKind {
		open, end = "(", ")"+end
	}
	from := len(expr.Src) - len(strings.TrimLeft(expr.Src, " \t\n"))
	to := len(strings.TrimRight(expr.Src, " \t\n"))
	return &Fix{Edits: []Edit{{from, from, open}, {to, to, end}}}
}

// suggestion returns a remedy for an error of the server; empty if none is certain.
func suggestion(said wording.Sentence) string {
	switch {
	case said.Kind == wording.WrongResult && said.Want == "bool" && said.Got == "dyn":
		return "compare the value, for example … == true"
	case said.Kind == wording.WrongResult && takesText(said) && said.Got == "dyn":
		return "wrap it in string(…)"
	case said.Kind == wording.WrongResult && said.Want == "list(JSONPatch)" && said.Got == "list(dyn)":
		return "an empty list has no type: write condition ? [JSONPatch{…}] : []"
	case said.Kind == wording.Undeclared && said.Name == "variables":
		return "match conditions cannot use variables: repeat the expression there"
	case said.Kind == wording.Undeclared && said.Name == "params":
		return "add spec.paramKind to the policy"
	case said.Kind == wording.MixedTypes:
		return "a list or map literal holds values of one type: write an Object.….{…} literal, or dyn(…) around each value"
	}
	return spell.CEL(said)
}

// takesText reports whether an expression must return a string.
func takesText(said wording.Sentence) bool {
	return said.Want == "string" || said.Want == "one of [string null_type]"
}

func ignoreLines(p *pass) {
	const path = `metadata.annotations["` + IgnoreAnnotation + `"]`
	each := func(annotations map[string]string, report func(path, suggestion, format string, args ...any)) {
		for _, i := range parseIgnored(annotations) {
			switch bad := slices.IndexFunc(i.codes, func(c string) bool { return !p.codes[c] }); {
			case len(i.codes) == 0:
				report(path, "write CODE: reason", "%q does not contain a code", i.line)
			case bad >= 0:
				report(path, "run celgate check --list for the codes", "%s is not the code of a check", i.codes[bad])
			case i.reason == "":
				report(path, "add a colon and the reason", "%s is not ignored, because the line does not give a reason",
					strings.Join(i.codes, ", "))
			}
		}
	}
	for _, f := range p.facts {
		each(f.Metadata.Annotations, func(path, suggestion, format string, args ...any) {
			p.reportField(f.Policy, path, suggestion, format, args...)
		})
	}
	for _, l := range p.Set.Libraries {
		each(l.Metadata.Annotations, func(path, suggestion, format string, args ...any) {
			p.reportLibrary(l, path, suggestion, format, args...)
		})
	}
	for _, b := range p.Set.Bindings {
		each(b.Metadata.Annotations, func(path, suggestion, format string, args ...any) {
			p.reportBinding(b, path, suggestion, format, args...)
		})
	}
}
