package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/common/ast"
)

var mutations = []*Analyzer{
	{
		Code: "CG201", Name: "unknown-field-in-mutation", Severity: Error,
		Title: "a mutation writes a field that no matched kind has",
		Text: `Object{…} literals take any field name when they are compiled, and the path of a JSONPatch is just text. A field that the kind does not have makes the request
fail: ApplyConfiguration with "field not declared in schema", a JSON patch with a 500 that not even failurePolicy Ignore covers.`,
		Before: "expression: \"Object{spec: Object.spec{replica: 3}}\"",
		After:  "expression: \"Object{spec: Object.spec{replicas: 3}}\"",
		run:    mutationProblems("CG201"),
	},
	{
		Code: "CG202", Name: "wrong-type-in-mutation", Severity: Error,
		Title: "a mutation writes a value of the wrong type",
		Text: `The value is checked against the schema only when the mutation runs, and then the request fails. Besides plain mistakes: unsigned integers, bytes, timestamps and durations are not
converted in an ApplyConfiguration, nor are list and map literals inside of list items and map values, which stay CEL values.`,
		Before: "expression: \"Object{spec: Object.spec{replicas: '3'}}\"",
		After:  "expression: \"Object{spec: Object.spec{replicas: 3}}\"",
		run:    mutationProblems("CG202"),
	},
	{
		Code: "CG203", Name: "wrong-type-name", Severity: Error,
		Title: "an Object literal is not named after its place",
		Text: `The type of a literal below spec.template is Object.spec.template, whatever the API calls it. Lists and maps add nothing to the name: an item of spec.containers is an
Object.spec.containers. Any other name is refused when the mutation runs.`,
		Before: "expression: \"Object{spec: Object.spec{template: Object.template{}}}\"",
		After:  "expression: \"Object{spec: Object.spec{template: Object.spec.template{}}}\"",
		run:    mutationProblems("CG203"),
	},
	{
		Code: "CG204", Name: "atomic-field", Severity: Error,
		Title: "an ApplyConfiguration writes an atomic list, map or struct",
		Text: `Lists without keys (args, command, tolerations, finalizers of some kinds), atomic maps (nodeSelector, selector) and atomic structs (fieldRef, secretKeyRef) cannot be merged, and the server refuses
an ApplyConfiguration that holds one: "may not mutate atomic arrays, maps or structs". A JSON patch can write them.`,
		Before: "applyConfiguration:\n  expression: \"Object{spec: Object.spec{nodeSelector: {'disk': 'ssd'}}}\"",
		After:  "jsonPatch:\n  expression: \"[JSONPatch{op: 'add', path: '/spec/nodeSelector', value: {'disk': 'ssd'}}]\"",
		run:    mutationProblems("CG204"),
	},
	{
		Code: "CG205", Name: "null-in-mutation", Severity: Error,
		Title:  "null does not unset a field in an ApplyConfiguration",
		Text:   `A null is refused wherever it stands. A JSON patch with op remove takes a field away; ?field: optional.none() leaves it as it is; for a scalar, field: optional.none() clears it.`,
		Before: "applyConfiguration:\n  expression: \"Object{spec: Object.spec{replicas: null}}\"",
		After:  "jsonPatch:\n  expression: \"[JSONPatch{op: 'remove', path: '/spec/replicas'}]\"",
		run:    mutationProblems("CG205"),
	},
	{
		Code: "CG206", Name: "item-without-key", Severity: Warning,
		Title: "an item of a keyed list without its key",
		Text: `Items of lists such as containers and env are merged with the item of the same key. An item without it is merged as the item whose name is "", which the server then
refuses, or is refused at once.`,
		Before: "expression: \"Object{spec: Object.spec{containers: [Object.spec.containers{image: 'a'}]}}\"",
		After:  "expression: \"Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: 'a'})}}\"",
		run:    mutationProblems("CG206"),
	},
	{
		Code: "CG207", Name: "missing-parent", Severity: Warning,
		Title: "a JSON patch into something that may not exist",
		Text: `op add creates a member, not what it is in: adding /metadata/labels/team to an object without labels fails, and adding to the end of a list that is absent does too. op remove needs the
field itself, and op replace only what it is in. Ask first whether the parent exists and add it whole if it does not, or use an ApplyConfiguration, which creates parents.`,
		Before: "expression: \"[JSONPatch{op: 'add', path: '/metadata/labels/team', value: 'a'}]\"",
		After:  "expression: >-\n  has(object.metadata.labels)\n  ? [JSONPatch{op: 'add', path: '/metadata/labels/team', value: 'a'}]\n  : [JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': 'a'}}]",
		run:    missingParents,
	},
	{
		Code: "CG208", Name: "apply-to-subresource", Severity: Error,
		Title: "an ApplyConfiguration for a subresource whose kind has no schema",
		Text: `The server merges by the schema of the kind, which it looks up in the document of the kind's group and version. The kinds of subresources such as scale and exec are in none, and the mutation always
fails: "no corresponding type". A JSON patch works.`,
		Before: "resources: [deployments/scale]\n…\napplyConfiguration:\n  expression: \"Object{spec: Object.spec{replicas: 5}}\"",
		After:  "resources: [deployments/scale]\n…\njsonPatch:\n  expression: \"[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]\"",
		run:    applyToSubresource,
	},
	{
		Code: "CG209", Name: "value-cannot-be-copied", Severity: Error,
		Title: "a JSON patch copies a map or list that the server cannot convert",
		Text: `From 1.36 on, params of a built-in kind, namespaceObject and request, and in a policy with match conditions also the object of a built-in kind, are shown to expressions by reflection. A map, list or struct of
them cannot be the value of a JSON patch: "could not marshal to JSON". Scalars can, and so can literals of them. An ApplyConfiguration takes both.`,
		Before: "expression: \"[JSONPatch{op: 'add', path: '/metadata/labels', value: params.data}]\"",
		After:  "expression: \"Object{metadata: Object.metadata{labels: params.data}}\"",
		run:    copiedValues,
	},
	{
		Code: "CG210", Name: "test-drops-patch", Severity: Note,
		Title: "an operation test that fails drops its patch without a word",
		Text:  `Where the value is another one, the server drops all operations of the mutation and goes on: no error, no warning, whatever failurePolicy says. Where the parent of the path is missing it is an error.`,
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
								"decide in the expression: condition ? [JSONPatch{…}] : []"
							p.report(d)
						}
					}
				}
			}
		},
	},
	{
		Code: "CG211", Name: "mutation-without-effect", Severity: Error,
		Title: "a mutation fails or does nothing on every object that was made",
		Text: `The policy was run on objects that were made from the schema of the matched kinds and the fields that it reads and writes. Every time the server would have refused what the mutation made: a name that does not
belong at its place, an operation that does not exist, a value that the field does not take. It is a warning where the mutation writes nothing at all. What other checks of mutations find is not reported twice.`,
		Before: "expression: \"[JSONPatch{op: 'ad', path: '/spec/replicas', value: 3}]\"",
		After:  "expression: \"[JSONPatch{op: 'add', path: '/spec/replicas', value: 3}]\"",
		run:    findWithoutEffect,
	},
	{
		Code: "CG212", Name: "scope-without-values", Severity: Error,
		Title: "the path of a scope leads nowhere",
		Text: `A scope is a path in the object. No kind that the policy matches has this one, so that the validation holds for every object, or the mutation changes none: an absent field is no value, and no error.
Only policies of the dialect have scopes.`,
		Before: "scope: spec.template.spec.containerz[*]\nexpression: scope.image != ''",
		After:  "scope: spec.template.spec.containers[*]\nexpression: scope.image != ''",
		run:    scopesWithoutValues,
	},
}

// scopesWithoutValues finds scopes whose path no matched kind has.
func scopesWithoutValues(p *pass) {
	for _, f := range p.facts {
		var written []policy.Expr
		var scopes []*scope.Scope
		for _, x := range f.Validations {
			written, scopes = append(written, x.Scope), append(scopes, x.ParsedScope())
		}
		for _, m := range f.Mutations {
			written, scopes = append(written, m.Scope), append(scopes, m.ParsedScope())
		}
		for i, s := range scopes {
			if len(s.Paths) == 0 || len(f.targets) == 0 {
				continue
			}
			d, found := diagnosticIn(f.Policy, written[i], 0, len(s.Text)), false
			for _, t := range f.targets {
				for _, steps := range s.Paths {
					at, known := typed.Follow(t.typ, steps)
					if found = found || t.typ == nil || known == len(steps); found {
						break
					}
					if step := steps[known]; step.Member != "" && len(s.Paths) == 1 {
						d.Message = step.Member + " is not a field in " + kindsText([]schema.GroupVersionKind{t.kind})
						d.Suggestion = typed.DidYouMean(step.Member, typed.Fields(at))
					}
				}
			}
			if found {
				continue
			}
			if d.Message == "" || len(f.targets) > 1 {
				d.Message = "no kind that the policy matches has values at " + s.Text
			}
			p.report(d)
		}
	}
}

// enoughRuns is on how many made objects a mutation has to run before its results say something.
const enoughRuns = 8

// findWithoutEffect finds mutations that change none of the objects that are made: their patch cannot be applied, or
// all of its text is known and it is empty. Errors of expressions do not count, since they may be due to what was made.
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
				d.Message = "the mutation failed on all objects that were made: " + runs.message
				d.Suggestion = "celgate apply shows what it does to an object of yours"
			case runs.changed == 0 && runs.failed == 0 && isEmptyMutation(e.ast.Expr()):
				d.Severity = Warning
				d.Message, d.Suggestion = "the mutation changes nothing", "write the fields that it sets, or remove it"
			default:
				continue
			}
			p.report(d)
		}
	}
}

// hasSlip reports that another check has found an error in a mutation for all kinds.
func (p *pass) hasSlip(f *facts, e *expression) bool {
	typing := p.typingsOf(f)[e]
	for s, kinds := range p.slips(f, e) {
		if s.Class != typed.MissingKey && !s.Doubtful && !typing.unknown && len(kinds) == typing.checked {
			return true
		}
	}
	return len(typing.untyped) > 0
}

// isEmptyMutation reports a mutation that writes nothing, whatever the object.
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
				d.Message = fmt.Sprintf("%s of %s/%s has no schema: an ApplyConfiguration always fails",
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

// mutationProblems returns the analyzer of one code: the literals are judged once for all of them. What some values of
// a type would not be refused for is left out.
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

// renameFix gives an Object literal the name of its place; nil if the name does not stand right before the literal.
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

// missingParents finds operations whose path may not lead anywhere.
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
	if w.Op != "remove" { // the server's replace adds a member that is not there
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
		d.Suggestion = "ask has(" + path.String() + ") first, or use an ApplyConfiguration"
		if !identifierPath(path) {
			d.Suggestion = "ask first whether it is there"
		}
		p.report(d)
		return
	}
}

// needs reports that e, a variable that it uses or a match condition fails already where path is absent.
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
