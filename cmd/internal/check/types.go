package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/cel"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

var types = []*Analyzer{
	{
		Code: "CG101", Name: "type-warning", Severity: Warning,
		Title: "the API server will warn about the expression in status.typeChecking",
		Text: `After a ValidatingAdmissionPolicy is stored, the API server type-checks its validations against the
kinds that its rules name without wildcards, and writes warnings to the status of the policy, where they are easily
missed. This check reports the same warnings with the same text (serverWarning in the JSON output). It is a note if
the warning concerns only some of the kinds, or is wrong: the server's type checker takes times for timestamps, and
does not know the fields of quantities or authorizer.requestResource.`,
		Before: "expression: object.spec.replica <= 5   # undefined field 'replica'",
		After:  "expression: object.spec.replicas <= 5",
		run:    typeWarnings,
	},
	{
		Code: "CG102", Name: "undefined-field", Severity: Warning,
		Title: "the field does not exist in any matched kind",
		Text: `The API server does not type-check variables, match conditions, audit annotations and mutations, nor any
expression of a policy whose rules contain wildcards. There, a field that does not exist is an error only when the
policy is evaluated: "no such key", and failurePolicy Fail denies every request. This check covers all expressions and
all kinds that the rules match.`,
		Before: "matchConditions:\n- name: scaled\n  expression: object.spec.replica > 1",
		After:  "matchConditions:\n- name: scaled\n  expression: object.spec.replicas > 1",
		run:    undefinedFields,
	},
	{
		Code: "CG103", Name: "type-mismatch", Severity: Warning,
		Title: "an operator or function does not accept values of this type",
		Text: `The type of object is not known when a policy is compiled, so a comparison of a number with a string, or
a string function on a list, compiles. When the policy is evaluated, the comparison is never true, or is an error.`,
		Before: "expression: object.spec.replicas == '3'",
		After:  "expression: object.spec.replicas == 3",
		run:    typeMismatches,
	},
}

// A finding is one problem of an expression and the kinds for which it exists.
type finding struct {
	problem
	kinds   []schema.GroupVersionKind
	certain bool // of those of run: true of every request
}

// typings are the results of type-checking one expression.
type typings struct {
	run     []finding // with the types at run time
	checked int       // number of kinds
	unknown bool      // the type of a matched kind is not known
	server  []finding
	untyped []problem // those that the server refuses, whatever the types

	slips map[typed.Problem][]schema.GroupVersionKind // of mutations
}

// maxKinds bounds the number of kinds against which a policy with wildcards is checked.
const maxKinds = 400

// typingsOf type-checks the expressions of a policy, once.
func (s *subject) typingsOf(f *facts) map[*expression]*typings {
	if f.typing == nil {
		s.each((*subject).typeOne)
	}
	return f.typing
}

func (s *subject) typeOne(f *facts) {
	f.typing = map[*expression]*typings{}
	for _, e := range f.exprs {
		f.typing[e] = &typings{slips: map[typed.Problem][]schema.GroupVersionKind{}}
	}
	targets := f.targets
	if len(targets) > maxKinds {
		targets = targets[:maxKinds]
		for _, t := range f.typing {
			t.unknown = true
		}
	}
	s.typeCheck(f, nil, nil, func(e *expression, _ *cel.Env, _ *cel.Ast, problems []problem) {
		f.typing[e].untyped = problems
	})
	params := s.paramKind(f)
	checked := 0
	for _, t := range targets {
		object := s.typer.runtimeType(t.kind)
		if object == nil {
			for _, found := range f.typing {
				found.unknown = true
			}
			continue
		}
		estimate := estimates{}
		s.typeCheck(f, object, s.typer.runtimeType(params),
			func(e *expression, env *cel.Env, tree *cel.Ast, problems []problem) {
				found := f.typing[e]
				found.checked++
				for _, p := range problems {
					found.run = add(found.run, p, t.kind)
				}
				if checked < maxKindsRun {
					estimate.add(e, env, tree)
				}
			},
		)
		if f.Mutates() {
			s.construct(f, t.kind, s.Types.Type(params))
		}
		if checked++; checked <= maxKindsRun {
			f.costs = estimate.worstOf(f, f.costs)
		}
	}
	if checked == 0 {
		estimate := estimates{}
		s.typeCheck(f, nil, s.typer.runtimeType(params), func(e *expression, env *cel.Env, tree *cel.Ast, _ []problem) {
			estimate.add(e, env, tree)
		})
		f.costs = estimate.worstOf(f, nil)
	}
	if f.Validates() {
		s.serverCheck(f, func(e *expression, kind schema.GroupVersionKind, issues *cel.Issues) {
			found := f.typing[e]
			for _, p := range problems(issues, e.Src) {
				found.server = add(found.server, p, kind)
			}
		})
	}
	f.shareKinds()
}

// shareKinds judges the findings, and lets equal lists of kinds share memory.
func (f *facts) shareKinds() {
	same := map[string][]schema.GroupVersionKind{}
	share := func(kinds []schema.GroupVersionKind) []schema.GroupVersionKind {
		name := fmt.Sprint(kinds)
		if same[name] == nil {
			same[name] = kinds
		}
		return same[name]
	}
	for e, found := range f.typing {
		found.judge(e)
		for _, list := range [][]finding{found.run, found.server} {
			for i := range list {
				list[i].kinds = share(list[i].kinds)
			}
		}
		for p, kinds := range found.slips {
			found.slips[p] = share(kinds)
		}
		e.forget()
	}
}

// construct checks the objects that the mutations of f construct for one kind.
func (s *subject) construct(f *facts, kind schema.GroupVersionKind, params *shape.Type) {
	all, err := s.construction.Kind(f.Policy, s.Types.Type(kind), params)
	s.err = cmp.Or(s.err, err)
	for e, found := range f.typing {
		for _, finding := range all {
			if finding.Field != e.Field || !e.Use.Mutates() && e.Use != policy.UseForEach {
				continue
			}
			for _, p := range finding.Problems {
				found.slips[p] = append(found.slips[p], kind)
			}
		}
	}
}

func add(list []finding, p problem, kind schema.GroupVersionKind) []finding {
	for i := range list {
		if list[i].problem == p {
			if !slices.Contains(list[i].kinds, kind) {
				list[i].kinds = append(list[i].kinds, kind)
			}
			return list
		}
	}
	return append(list, finding{problem: p, kinds: []schema.GroupVersionKind{kind}})
}

func (s *subject) paramKind(f *facts) schema.GroupVersionKind {
	if f.ParamKind == nil {
		return schema.GroupVersionKind{}
	}
	gv, err := apischema.ParseGroupVersion(f.ParamKind.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return gv.WithKind(f.ParamKind.Kind)
}

// typeCheck compiles every expression of f against one kind.
func (s *subject) typeCheck(f *facts, object, params *celenv.DeclaredType,
	visit func(*expression, *cel.Env, *cel.Ast, []problem)) {
	members := map[string]*apiservercel.DeclField{}
	variables := apiservercel.NewObjectType(celenv.VariablesType, members)
	envs := map[celenv.Declared]*cel.Env{}
	env := func(d celenv.Declared) *cel.Env {
		if envs[d] == nil {
			made, err := s.envs.EnvOfTypes(d, celenv.Types{Object: object, Params: params, Variables: variables}, false)
			if err != nil {
				s.err = err
				return nil
			}
			envs[d] = made
		}
		return envs[d]
	}
	for _, e := range f.exprs {
		d := compile.Declare(f.Policy, e.Use, e.Locals)
		d.Authorizer = true
		in := env(d)
		if in == nil {
			return
		}
		checked, issues := e.check(in, d, running)
		if e.Use == policy.UseVariable {
			t := apiservercel.DynType
			if checked != nil {
				t = s.typer.variable(checked.OutputType())
			}
			members[e.Name] = apiservercel.NewDeclField(e.Name, t, true, nil, nil)
		}
		visit(e, in, checked, problems(issues, e.Src))
	}
}

// serverCheck mirrors the server's type checker
// (pkg/admission/plugin/policy/validating/typechecking.go v0.37.2).
func (s *subject) serverCheck(f *facts, visit func(*expression, schema.GroupVersionKind, *cel.Issues)) {
	params := s.paramKind(f)
	for _, kind := range s.serverKinds(f.MatchConstraints) {
		object := s.typer.checkerType(kind)
		if object == nil {
			continue
		}
		members := map[string]*apiservercel.DeclField{}
		variables := apiservercel.NewObjectType(celenv.VariablesType, members)
		d := celenv.Declared{Params: f.ParamKind != nil, Authorizer: true, Extended: f.Kind == policy.Admission}
		env, err := s.envs.EnvOfTypes(d,
			celenv.Types{Object: object, Params: s.typer.checkerType(params), Variables: variables},
			true)
		if err != nil {
			s.err = err
			return
		}
		for _, e := range f.exprs {
			if e.Use != policy.UseVariable && e.Use != policy.UseValidation && e.Use != policy.UseMessageExpression ||
				e.Locals != "" { // no server has scopes
				continue
			}
			checked, issues := e.check(env, d, checking)
			if e.Use == policy.UseVariable {
				var t *cel.Type
				if issues == nil {
					t = checked.OutputType()
				}
				members[e.Name] = apiservercel.NewDeclField(e.Name, celenv.VariableType(t), true, nil, nil)
				continue
			}
			if issues != nil {
				visit(e, kind, issues)
			}
		}
	}
}

// serverKinds returns the kinds that the server's type checker checks: those that rules name without wildcards, at most
// ten of a rule.
func (s *subject) serverKinds(m *policy.MatchResources) []schema.GroupVersionKind {
	const most = 10
	var all []schema.GroupVersionKind
	if m == nil {
		return nil
	}
	wild := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") })
	}
rules:
	for _, rule := range m.ResourceRules {
		if wild(rule.APIGroups) || wild(rule.APIVersions) {
			continue
		}
		count := 0
		for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
			for _, version := range slices.Sorted(slices.Values(rule.APIVersions)) {
				for _, name := range slices.Sorted(slices.Values(rule.Resources)) {
					if strings.ContainsAny(name, "*/") {
						continue
					}
					kind, ok := s.Types.KindFor(
						schema.GroupVersionResource{Group: group, Version: version, Resource: name}, "")
					if !ok {
						continue
					}
					if !slices.Contains(all, kind) {
						all = append(all, kind)
					}
					if count++; count == most {
						break rules
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.Group+"\x00"+a.Version+"\x00"+a.Kind, b.Group+"\x00"+b.Version+"\x00"+b.Kind)
	})
	return all
}

// judge determines which findings hold for every request: for each matched kind, the finding exists or its parent field
// does not exist.
func (t *typings) judge(e *expression) {
	if t.unknown || t.checked == 0 {
		return
	}
	missing := map[effects.Path][]schema.GroupVersionKind{} // the kinds with a problem at a field
	for _, found := range t.run {
		for _, path := range e.pathsAt(found.offset) {
			missing[path] = append(missing[path], found.kinds...)
		}
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for i := range t.run {
		found := &t.run[i]
		clear(kinds)
		add := func(list []schema.GroupVersionKind) {
			for _, k := range list {
				kinds[k] = true
			}
		}
		add(found.kinds)
		for _, path := range e.pathsAt(found.offset) {
			for above, _, ok := path.Parent(); ok && len(kinds) < t.checked; above, _, ok = above.Parent() {
				add(missing[above])
			}
		}
		found.certain = len(kinds) == t.checked
	}
}

// serverWarnings returns the warnings that the server will write to the status about each expression of a policy. A
// warning quotes the line of the expression for every problem, so it may be long.
func (s *subject) serverWarnings(f *facts) map[*expression]string {
	texts := map[*expression][]string{}
	s.serverCheck(f, func(e *expression, kind schema.GroupVersionKind, issues *cel.Issues) {
		texts[e] = append(texts[e], fmt.Sprintf("%v: %s\n", kind, celenv.Quote(issues, e.Src)))
	})
	all := map[*expression]string{}
	for e, parts := range texts {
		all[e] = strings.Join(parts, "\n")
	}
	return all
}

func typeWarnings(p *pass) {
	for _, f := range p.facts {
		warnings := sync.OnceValue(func() map[*expression]string { return p.serverWarnings(f) })
		for e, t := range p.typingsOf(f) {
			if e.ast == nil {
				continue
			}
			warning := func() string { return warnings()[e] }
			for _, found := range t.server {
				if slices.Contains(t.untyped, found.problem) {
					continue
				}
				sure := slices.ContainsFunc(t.run, func(own finding) bool {
					return own.problem == found.problem && own.certain && typed.IsTelling(own.message)
				})
				d := p.typeDiagnostic(f, e, found)
				d.Server = warning
				if !sure {
					d.Severity = Note
					d.Suggestion = "harmless if the expression is guarded; the warning stays in the policy's status"
				}
				p.report(d)
			}
			e.forget()
		}
	}
}

// pathsAt returns the fields that the expression selects at an offset.
func (e *expression) pathsAt(offset int) []effects.Path {
	if e.reads == nil { // it does not parse
		return nil
	}
	if e.paths == nil {
		e.paths = map[int][]effects.Path{}
		for _, r := range e.reads.List {
			if from, _ := e.span(r.ID); !slices.Contains(e.paths[from], r.Path) {
				e.paths[from] = append(e.paths[from], r.Path)
			}
		}
	}
	return e.paths[offset]
}

// typeDiagnostic words a finding.
func (p *pass) typeDiagnostic(f *facts, e *expression, found finding) Diagnostic {
	d := diagnosticIn(f.Policy, e.Expr, found.offset, found.offset+token(e.Src[found.offset:]))
	d.Message = found.message
	of := kindsText(found.kinds)
	switch said := wording.Read(found.message); said.Kind {
	case wording.UndefinedField:
		for _, path := range e.pathsAt(found.offset) {
			parent, last, ok := path.Parent()
			if !ok || last != said.Name {
				continue
			}
			t := p.Types.Type(found.kinds[0])
			if path.Root == "params" {
				t, of = p.Types.Type(p.paramKind(f)), kindsText([]schema.GroupVersionKind{p.paramKind(f)})
			}
			if t == nil {
				break
			}
			if parent.Steps != "" {
				of = strings.TrimPrefix(effects.Path{Steps: parent.Steps}.String(), ".") + " of " + of
			}
			if near := nearest(last, typed.Fields(typed.Locate(t, parent.Split()).Type)); near != "" {
				d.Suggestion = "did you mean " + near + "?"
			}
			break
		}
		d.Message = fmt.Sprintf("undefined field '%s' in %s", said.Name, of)
	case wording.NoOverload:
		if op, ok := strings.CutPrefix(said.Name, "_"); ok && strings.HasSuffix(op, "_") {
			d.Message = fmt.Sprintf("%s does not accept %s", strings.Trim(said.Name, "_"), said.Got)
		}
		d.Message += " in " + of
	}
	return d
}

func kindsText(kinds []schema.GroupVersionKind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.GroupVersion().String()+" "+k.Kind)
	}
	if len(names) > 3 {
		return strings.Join(names[:2], ", ") + fmt.Sprintf(" and %d other kinds", len(names)-2)
	}
	return strings.Join(names, ", ")
}

func (p *pass) runProblems(about wording.Kind) {
	for _, f := range p.facts {
		for e, t := range p.typingsOf(f) {
			if e.ast == nil {
				continue
			}
			for _, found := range t.run {
				warned := slices.ContainsFunc(t.server, func(s finding) bool { return s.problem == found.problem })
				if wording.Read(found.message).Kind != about || warned || !found.certain ||
					!typed.IsTelling(found.message) ||
					slices.Contains(t.untyped, found.problem) {
					continue
				}
				p.report(p.typeDiagnostic(f, e, found))
			}
			e.forget()
		}
	}
}

func undefinedFields(p *pass) { p.runProblems(wording.UndefinedField) }

func typeMismatches(p *pass) { p.runProblems(wording.NoOverload) }
