package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/common/ast"
)

var mutations = []*Analyzer{
	{
		Code: "CG201", Name: "unknown-field-in-mutation", Severity: Error,
		Title: "a mutation sets a field that does not exist in any matched kind",
		Text: `The compiler accepts any field name in an Object{…} literal, and the path of a JSONPatch is only a
string. If the kind does not have the field, the request fails: an ApplyConfiguration with "field not declared in
schema", a JSON patch with a 500, which failurePolicy Ignore does not cover either.`,
		Before: "expression: \"Object{spec: Object.spec{replica: 3}}\"",
		After:  "expression: \"Object{spec: Object.spec{replicas: 3}}\"",
		run:    mutationProblems("CG201"),
	},
	{
		Code: "CG202", Name: "wrong-type-in-mutation", Severity: Error,
		Title: "a mutation sets a field to a value of the wrong type",
		Text: `The value is checked against the schema only when the mutation is evaluated, and then the request fails.
Apart from plain mistakes: an ApplyConfiguration does not convert unsigned integers, bytes, timestamps and durations,
nor list and map literals inside list items and map values, which remain CEL values.`,
		Before: "expression: \"Object{spec: Object.spec{replicas: '3'}}\"",
		After:  "expression: \"Object{spec: Object.spec{replicas: 3}}\"",
		run:    mutationProblems("CG202"),
	},
	{
		Code: "CG203", Name: "wrong-type-name", Severity: Error,
		Title: "an Object literal does not have the type name of its path",
		Text: `The type name of a literal is its path: a literal at spec.template is an Object.spec.template, whatever
the API calls the type. Lists and maps add nothing to the name: an item of spec.containers is an
Object.spec.containers. Any other name is refused when the mutation is evaluated.`,
		Before: "expression: \"Object{spec: Object.spec{template: Object.template{}}}\"",
		After:  "expression: \"Object{spec: Object.spec{template: Object.spec.template{}}}\"",
		run:    mutationProblems("CG203"),
	},
	{
		Code: "CG204", Name: "atomic-field", Severity: Error,
		Title: "an ApplyConfiguration sets an atomic list, map or struct",
		Text: `Lists without keys (args, command, tolerations, finalizers of some kinds), atomic maps (nodeSelector,
selector) and atomic structs (fieldRef, secretKeyRef) cannot be merged. The API server refuses an ApplyConfiguration
that contains one: "may not mutate atomic arrays, maps or structs". Use a JSON patch instead.`,
		Before: "applyConfiguration:\n  expression: \"Object{spec: Object.spec{nodeSelector: {'disk': 'ssd'}}}\"",
		After:  "jsonPatch:\n  expression: \"[JSONPatch{op: 'add', path: '/spec/nodeSelector', value: {'disk': 'ssd'}}]\"",
		run:    mutationProblems("CG204"),
	},
	{
		Code: "CG205", Name: "null-in-mutation", Severity: Error,
		Title: "null does not unset a field in an ApplyConfiguration",
		Text: `The API server refuses null anywhere in an ApplyConfiguration. To remove a field, use a JSON patch with
op remove. In an ApplyConfiguration, ?field: optional.none() leaves the field unchanged, and field: optional.none()
clears a scalar.`,
		Before: "applyConfiguration:\n  expression: \"Object{spec: Object.spec{replicas: null}}\"",
		After:  "jsonPatch:\n  expression: \"[JSONPatch{op: 'remove', path: '/spec/replicas'}]\"",
		run:    mutationProblems("CG205"),
	},
	{
		Code: "CG206", Name: "item-without-key", Severity: Warning,
		Title: "an item of a keyed list does not have its key",
		Text: `The API server merges an item of a list such as containers or env with the existing item of the same
key. An item without the key is either refused at once, or merged as the item whose name is "", which the server
refuses afterwards.`,
		Before: "expression: \"Object{spec: Object.spec{containers: [Object.spec.containers{image: 'a'}]}}\"",
		After:  "expression: \"Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: 'a'})}}\"",
		run:    mutationProblems("CG206"),
	},
	{
		Code: "CG207", Name: "missing-parent", Severity: Warning,
		Title: "a JSON patch writes below a field that may be absent",
		Text: `op add creates a member, but not its parent: it cannot add /metadata/labels/team to an object without
labels, or an item to the end of a list that is absent. op remove needs the field itself, op replace only its parent.
Test first whether the parent exists, and add the whole parent if it does not; or use an ApplyConfiguration, which
creates parents.`,
		Before: "expression: \"[JSONPatch{op: 'add', path: '/metadata/labels/team', value: 'a'}]\"",
		After:  "expression: >-\n  has(object.metadata.labels)\n  ? [JSONPatch{op: 'add', path: '/metadata/labels/team', value: 'a'}]\n  : [JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': 'a'}}]",
		run:    missingParents,
	},
	{
		Code: "CG208", Name: "apply-to-subresource", Severity: Error,
		Title: "an ApplyConfiguration for a subresource whose kind does not have a schema",
		Text: `The API server merges by the schema of the kind, which it looks up in the OpenAPI document of the kind's
group and version. These documents do not contain the kinds of subresources such as scale and exec, so the mutation
always fails: "no corresponding type". Use a JSON patch instead.`,
		Before: "resources: [deployments/scale]\n…\napplyConfiguration:\n  expression: \"Object{spec: Object.spec{replicas: 5}}\"",
		After:  "resources: [deployments/scale]\n…\njsonPatch:\n  expression: \"[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]\"",
		run:    applyToSubresource,
	},
	{
		Code: "CG209", Name: "value-cannot-be-copied", Severity: Error,
		Title: "the value of a JSON patch is a map or list that the server cannot convert",
		Text: `From Kubernetes 1.36 on, expressions see some values by reflection: params of a built-in kind,
namespaceObject and request, and in a policy with match conditions also an object of a built-in kind. A map, list or
struct of them cannot be the value of a JSON patch: "could not marshal to JSON". A scalar of them can, and so can a
literal made of scalars. An ApplyConfiguration accepts all of them.`,
		Before: "expression: \"[JSONPatch{op: 'add', path: '/metadata/labels', value: params.data}]\"",
		After:  "expression: \"Object{metadata: Object.metadata{labels: params.data}}\"",
		run:    copiedValues,
	},
	{
		Code: "CG210", Name: "test-drops-patch", Severity: Note,
		Title: "a failed test operation silently drops the whole patch",
		Text: `If the tested value differs, the API server drops all operations of the mutation and continues without
an error or a warning, whatever failurePolicy says. If the parent of the path is missing, it is an error.`,
		run: func(p *pass) {
			for _, f := range p.facts {
				for e := range f.parsedExpressions() {
					if e.Use != policy.UseJSONPatch {
						continue
					}
					for _, w := range effects.PatchOperations(e.ast.Expr()) {
						if w.Op == "test" {
							d := f.diagnosticAt(e, w.ID)
							d.Message, d.Suggestion = "if the test fails, the whole patch is dropped without an error",
								"test in the expression instead: condition ? [JSONPatch{…}] : []"
							p.report(d)
						}
					}
				}
			}
		},
	},
	{
		Code: "CG211", Name: "mutation-without-effect", Severity: Error,
		Title: "a mutation fails on every generated object, or changes none of them",
		Text: `celgate evaluates the policy on objects that it generates from the schema of the matched kinds and the
fields that the policy reads and writes. The API server would refuse every result, for example because of a field that
does not exist at its place, an unknown operation, or a value that the field does not accept. It is a warning if the
mutation never changes anything. Problems of mutations that other checks report are not repeated.`,
		Before: "expression: \"[JSONPatch{op: 'ad', path: '/spec/replicas', value: 3}]\"",
		After:  "expression: \"[JSONPatch{op: 'add', path: '/spec/replicas', value: 3}]\"",
		run:    findWithoutEffect,
	},
	{
		Code: "CG212", Name: "scope-without-values", Severity: Error,
		Title: "the path of a scope does not exist in any matched kind",
		Text: `A scope is a path in the object. If none of the kinds that the policy matches has the path, the
validation holds for every object, or the mutation does not change any: an absent field yields neither a value nor an
error. Such a policy is refused when it is written, unless ` + "`typeChecking`" + ` is Warn or Off, or one of the matched kinds is not
known. The same holds for a scope of a library that the policy does not import. Only policies of the dialect have scopes.`,
		Before: "scope: spec.template.spec.containerz[*]\nexpression: scope.image != ''",
		After:  "scope: spec.template.spec.containers[*]\nexpression: scope.image != ''",
		run:    scopesWithoutValues,
	},
}

// scopesWithoutValues finds scopes whose path does not exist in any matched kind.
func scopesWithoutValues(p *pass) {
	for _, f := range p.facts {
		var kinds []typed.Kind
		for _, t := range f.targets {
			kinds = append(kinds, typed.Kind{GroupVersionKind: t.kind, Type: t.typ})
		}
		if f.Abstract {
			p.scopesByBindings(f)
			continue
		}
		for x, s := range f.Scopes() {
			problem, near := typed.Astray(kinds, s)
			meant, named := f.MeantScope(s.Text, p.Set.Libraries)
			if problem == "" && (!named || len(kinds) > 0) {
				continue
			}
			d := diagnosticIn(f.Policy, x, 0, len(s.Text))
			if d.Message, d.Suggestion = problem, cmp.Or(meant, near); named {
				d.Message = s.Text + " is a scope of a library that the policy does not import"
			}
			p.report(d)
		}
	}
}

// scopesByBindings finds the bindings of an abstract policy that are for kinds without the path of a scope.
func (p *pass) scopesByBindings(f *facts) {
	for _, b := range f.bindings {
		kinds := typed.KindsOf(p.Types, f.With(b).MatchConstraints)
		for _, s := range f.Scopes() {
			if problem, _ := typed.Astray(kinds, s); problem != "" {
				p.reportBinding(b, "spec.matchResources.resourceRules", "", "%s cannot apply to these kinds: %s", f.Ref(), problem)
			}
		}
	}
}

// enoughRuns is the number of generated objects that a verdict about a mutation requires.
const enoughRuns = 8

// findWithoutEffect finds mutations that do not change any generated object: their patch cannot be applied, or is a
// literal that is empty. Errors of expressions do not count, since the generated objects may cause them.
func findWithoutEffect(p *pass) {
	for _, f := range p.facts {
		if !f.Mutates() {
			continue
		}
		for e := range f.parsedExpressions() {
			if !e.Use.Mutates() || p.hasSlip(f, e) {
				continue
			}
			runs := p.try(f).mutations[e.Field]
			if runs == nil || runs.count < enoughRuns {
				continue
			}
			d := diagnosticIn(f.Policy, e.Expr, 0, len(e.Src))
			switch {
			case runs.failed == runs.count:
				d.Message = "the mutation failed on all generated objects: " + runs.message
				d.Suggestion = "run celgate apply with an object of your own"
			case runs.changed == 0 && runs.failed == 0 && isEmptyMutation(e.ast.Expr()):
				d.Severity = Warning
				d.Message, d.Suggestion = "the mutation changes nothing", "set a field, or remove the mutation"
			default:
				continue
			}
			p.report(d)
		}
	}
}

// hasSlip reports whether another check has found an error in a mutation for all kinds.
func (p *pass) hasSlip(f *facts, e *expression) bool {
	typing := p.typingsOf(f)[e]
	for s, kinds := range p.slips(f, e) {
		if s.Class != typed.MissingKey && !s.Doubtful && !typing.unknown && len(kinds) == typing.checked {
			return true
		}
	}
	return len(typing.untyped) > 0
}

// isEmptyMutation reports whether a mutation writes nothing, whatever the object.
func isEmptyMutation(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind:
		return e.AsList().Size() == 0
	case ast.StructKind:
		return !slices.ContainsFunc(e.AsStruct().Fields(), func(f ast.EntryExpr) bool {
			v := f.AsStructField().Value()
			return v.Kind() != ast.StructKind &&
				(v.Kind() != ast.CallKind || effects.Function(v.AsCall()) != "optional.none") ||
				!isEmptyMutation(v) && v.Kind() == ast.StructKind
		})
	}
	return false
}

func applyToSubresource(p *pass) {
	for _, f := range p.facts {
		none := len(f.targets) > 0 && !slices.ContainsFunc(f.targets,
			func(t target) bool { return t.subresource == "" || p.Types.ResourceFor(t.kind) != nil })
		for e := range f.parsedExpressions() {
			if none && e.Use == policy.UseApplyConfiguration {
				d := diagnosticIn(f.Policy, e.Expr, 0, len(e.Src))
				d.Message = fmt.Sprintf("%s of %s/%s does not have a schema: an ApplyConfiguration always fails",
					f.targets[0].kind.Kind, f.targets[0].resource.Resource, f.targets[0].subresource)
				d.Suggestion = "use a JSON patch"
				p.report(d)
			}
		}
	}
}

func copiedValues(p *pass) {
	if !quirks.SetOf(p.KubeVersion).Has(quirks.PatchReflectedValue) {
		return
	}
	for _, f := range p.facts {
		param := p.Types.ResourceFor(p.paramKind(f))
		builtIn := !slices.ContainsFunc(f.targets, func(t target) bool { return t.custom })
		for e := range f.parsedExpressions() {
			if e.Use != policy.UseJSONPatch {
				continue
			}
			for _, w := range effects.PatchOperations(e.ast.Expr()) {
				if w.Value == nil || w.Value.Kind() != ast.SelectKind && w.Value.Kind() != ast.IdentKind {
					continue
				}
				for _, path := range e.reads.Paths[w.Value.ID()] {
					var t *shape.Type
					switch {
					case path.Root == "params" && param != nil && param.Definition == nil:
						t = p.Types.Type(p.paramKind(f))
					case (path.Root == "object" || path.Root == "oldObject") && builtIn && len(f.MatchConditions) > 0 &&
						len(f.targets) > 0:
						t = f.targets[0].typ
					case path.Root == "namespaceObject":
						t = p.Types.Type(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
					}
					if t == nil {
						continue
					}
					switch at := typed.Locate(t, path.Split()); {
					case at.Type == nil:
					case at.Type.Kind == shape.Map, at.Type.Kind == shape.List, at.Type.Kind == shape.Struct:
						d := f.diagnosticAt(e, w.Value.ID())
						d.Message = fmt.Sprintf("%s cannot be the value of a JSON patch", path)
						if path.Root != "params" && path.Root != "namespaceObject" {
							d.Message += " in a policy with match conditions"
						}
						d.Suggestion = "copy its members one by one, or use an ApplyConfiguration"
						p.report(d)
					}
				}
			}
		}
	}
}

// mutationClasses are the codes of mistakes in literals.
var mutationClasses = map[typed.Class]string{
	typed.UnknownField: "CG201", typed.WrongType: "CG202", typed.WrongName: "CG203", typed.AtomicValue: "CG204",
	typed.NullValue: "CG205", typed.MissingKey: "CG206",
}

// mutationProblems returns the analyzer of one code. The literals are checked once for all codes. Doubtful problems,
// which concern only some values of a type, are not reported.
func mutationProblems(code string) func(*pass) {
	return func(p *pass) {
		for _, f := range p.facts {
			for e := range f.parsedExpressions() {
				for s, kinds := range p.slips(f, e) {
					if mutationClasses[s.Class] != code || s.Doubtful || p.typingsOf(f)[e].unknown ||
						len(kinds) != p.typingsOf(f)[e].checked {
						continue
					}
					d := f.diagnosticAt(e, s.ID)
					d.Message, d.Suggestion = s.Message, s.Suggestion
					switch s.Class {
					case typed.WrongName:
						d.Fix = e.renameFix(s)
					case typed.UnknownField:
						if s.Path != "" {
							d.Message += " in " + s.Path + " of " + kindsText(kinds)
							break
						}
						d.Message += " in " + kindsText(kinds)
					case typed.WrongType:
						d.Message += " in " + kindsText(kinds)
					}
					p.report(d)
				}
			}
		}
	}
}

// renameFix gives an Object literal the name of its path; nil if the name is not right before the literal.
func (e *expression) renameFix(s typed.Problem) *Fix {
	from, _ := e.span(s.ID)
	switch {
	case strings.HasPrefix(e.Src[from:], s.Name):
		return &Fix{Edits: []Edit{{from, from + len(s.Name), s.Want}}}
	case strings.HasSuffix(e.Src[:from], s.Name):
		return &Fix{Edits: []Edit{{from - len(s.Name), from, s.Want}}}
	}
	return nil
}

// slips are the problems of a mutation and the kinds for which they exist.
func (s *subject) slips(f *facts, e *expression) map[typed.Problem][]schema.GroupVersionKind {
	return s.typingsOf(f)[e].slips
}

// missingParents finds operations whose path may not exist.
func missingParents(p *pass) {
	for _, f := range p.facts {
		var made []effects.Path // what earlier mutations of the policy create
		for e := range f.parsedExpressions() {
			if e.Use == policy.UseApplyConfiguration {
				for _, w := range effects.AppliedLeaves(e.ast.Expr()) {
					made = append(made, w.Path)
				}
			}
			if e.Use != policy.UseJSONPatch {
				continue
			}
			writes := effects.PatchOperations(e.ast.Expr())
			for _, w := range writes {
				if w.Op == "add" || w.Op == "replace" {
					made = append(made, w.Path)
				}
			}
			for _, w := range writes {
				p.missingParent(f, e, w, made)
			}
		}
	}
}

func (p *pass) missingParent(f *facts, e *expression, w effects.Write, made []effects.Path) {
	if w.Op != "add" && w.Op != "remove" && w.Op != "replace" {
		return
	}
	steps := w.Path.Split()
	last := len(steps)
	if w.Op != "remove" { // the server's replace adds a member that is absent
		last--
	}
	for n := 1; n <= last; n++ {
		path := effects.NewPath("object", steps[:n]...)
		if slices.ContainsFunc(made, func(m effects.Path) bool {
			return path.Contains(m) &&
				(n < len(steps) && m != w.Path)
		}) || f.guards(e, path) || f.needs(e, path) {
			continue
		}
		var kinds []schema.GroupVersionKind
		for _, t := range f.targets {
			if t.typ != nil && !p.isPresent(t.kind, path, decoded) {
				kinds = append(kinds, t.kind)
			}
		}
		if len(kinds) == 0 || len(kinds) < len(f.targets) {
			continue
		}
		d := f.diagnosticAt(e, w.ID)
		where := strings.TrimPrefix(effects.Path{Steps: path.Steps}.String(), ".")
		d.Message = fmt.Sprintf("op %s needs %s, which may be absent", w.Op, where)
		d.Suggestion = "test has(" + path.String() + ") first, or use an ApplyConfiguration"
		if !identifierPath(path) {
			d.Suggestion = "test first whether it is present"
		}
		p.report(d)
		return
	}
}

// needs reports whether e, a variable that it uses or a match condition fails if path is absent.
func (f *facts) needs(e *expression, path effects.Path) bool {
	reads := func(e *expression) bool {
		return slices.ContainsFunc(e.reads.List, func(r effects.Read) bool {
			return path.Contains(r.Path) && !r.Safe && (!r.Test || r.Path != path)
		})
	}
	if reads(e) || slices.ContainsFunc(e.before, reads) {
		return true
	}
	for c := range f.parsedExpressions() {
		if c.Use == policy.UseMatchCondition && reads(c) {
			return true
		}
	}
	return false
}

func identifierPath(p effects.Path) bool { return !strings.ContainsAny(p.String(), "[\"") }
