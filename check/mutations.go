package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	celtypes "github.com/google/cel-go/common/types"
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
				for e := range f.parsed() {
					if e.Use != policy.UseJSONPatch {
						continue
					}
					for _, w := range effects.Patched(e.ast.Expr()) {
						if w.Op == "test" {
							d := f.at(e, w.ID)
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
		run:    withoutEffect,
	},
}

// enoughRuns is on how many made objects a mutation has to run before its results say something.
const enoughRuns = 8

// withoutEffect finds mutations that change none of the objects that are made: their patch cannot be applied, or all of
// its text is known and it is empty. Errors of expressions do not count, since they may be due to what was made.
func withoutEffect(p *pass) {
	for _, f := range p.facts {
		if !f.Mutates() {
			continue
		}
		for e := range f.parsed() {
			if !e.Use.Mutates() || p.slipped(f, e) {
				continue
			}
			runs := p.tried(f).mutations[e.Field]
			if runs == nil || runs.count < enoughRuns {
				continue
			}
			d := in(f.Policy, e.Expr, 0, len(e.Src))
			switch {
			case runs.failed == runs.count:
				d.Message = "the mutation failed on all objects that were made: " + runs.message
				d.Suggestion = "celgate apply shows what it does to an object of yours"
			case runs.changed == 0 && runs.failed == 0 && empty(e.ast.Expr()):
				d.Severity = Warning
				d.Message, d.Suggestion = "the mutation changes nothing", "write the fields that it sets, or remove it"
			default:
				continue
			}
			p.report(d)
		}
	}
}

// slipped reports that another check has found an error in a mutation for all kinds.
func (p *pass) slipped(f *facts, e *expression) bool {
	typing := p.typing(f)[e]
	for s, kinds := range p.slips(f, e) {
		if s.code != "CG206" && !typing.unknown && len(kinds) == typing.checked {
			return true
		}
	}
	return len(typing.untyped) > 0
}

// empty reports a mutation that writes nothing, whatever the object.
func empty(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind:
		return e.AsList().Size() == 0
	case ast.StructKind:
		return !slices.ContainsFunc(e.AsStruct().Fields(), func(f ast.EntryExpr) bool {
			v := f.AsStructField().Value()
			return v.Kind() != ast.StructKind &&
				(v.Kind() != ast.CallKind || effects.Function(v.AsCall()) != "optional.none") ||
				!empty(v) && v.Kind() == ast.StructKind
		})
	}
	return false
}

func applyToSubresource(p *pass) {
	for _, f := range p.facts {
		none := len(f.targets) > 0 && !slices.ContainsFunc(f.targets,
			func(t target) bool { return t.subresource == "" || p.Types.ResourceFor(t.kind) != nil })
		for e := range f.parsed() {
			if none && e.Use == policy.UseApplyConfiguration {
				d := in(f.Policy, e.Expr, 0, len(e.Src))
				d.Message = fmt.Sprintf("%s of %s/%s has no schema: an ApplyConfiguration always fails",
					f.targets[0].kind.Kind, f.targets[0].resource.Resource, f.targets[0].subresource)
				d.Suggestion = "use a JSON patch"
				p.report(d)
			}
		}
	}
}

func copiedValues(p *pass) {
	if !quirks.Of(p.KubeVersion).Has(quirks.PatchReflectedValue) {
		return
	}
	for _, f := range p.facts {
		param := p.Types.ResourceFor(p.paramKind(f))
		builtIn := !slices.ContainsFunc(f.targets, func(t target) bool { return t.custom })
		for e := range f.parsed() {
			if e.Use != policy.UseJSONPatch {
				continue
			}
			for _, w := range effects.Patched(e.ast.Expr()) {
				if w.Value == nil || w.Value.Kind() != ast.SelectKind && w.Value.Kind() != ast.IdentKind {
					continue
				}
				for _, path := range e.reads.Paths[w.Value.ID()] {
					var t *schema.Type
					switch {
					case path.Root == "params" && param != nil && param.Custom == nil:
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
					switch at := locate(t, path.Split()); {
					case at.typ == nil:
					case at.typ.Kind == schema.Map, at.typ.Kind == schema.List, at.typ.Kind == schema.Struct:
						d := f.at(e, w.Value.ID())
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

// A slip is one problem of a mutation for one kind.
type slip struct {
	code, message, suggestion string
	id                        int64
}

// mutationProblems returns the analyzer of one code: the literals are walked once for all of them.
func mutationProblems(code string) func(*pass) {
	return func(p *pass) {
		for _, f := range p.facts {
			for _, e := range f.exprs {
				if e.ast == nil || !e.Use.Mutates() {
					continue
				}
				for s, kinds := range p.slips(f, e) {
					if s.code == code && !p.typing(f)[e].unknown && len(kinds) == p.typing(f)[e].checked {
						d := f.at(e, s.id)
						d.Message, d.Suggestion = s.message, s.suggestion
						if s.code == "CG203" {
							d.Fix = e.renaming(s)
						}
						if s.code == "CG201" || s.code == "CG202" {
							d.Message += " in " + kindsText(kinds)
						}
						p.report(d)
					}
				}
			}
		}
	}
}

// renaming gives an Object literal the name of its place; nil if the name does not stand right before the literal.
func (e *expression) renaming(s slip) *Fix {
	name, ok := strings.CutPrefix(strings.TrimSuffix(s.suggestion, "{…}"), "write ")
	i := strings.LastIndex(s.message, " is a ")
	from, _ := e.span(s.id)
	if !ok || i < 0 {
		return nil
	}
	wrong := s.message[i+len(" is a "):]
	switch {
	case strings.HasPrefix(e.Src[from:], wrong):
		return &Fix{Edits: []Edit{{from, from + len(wrong), name}}}
	case strings.HasSuffix(e.Src[:from], wrong):
		return &Fix{Edits: []Edit{{from - len(wrong), from, name}}}
	}
	return nil
}

// slips are the problems of a mutation and the kinds for which they exist.
func (s *subject) slips(f *facts, e *expression) map[slip][]schema.GroupVersionKind {
	t := s.typing(f)[e]
	if t.slips != nil {
		return t.slips
	}
	t.slips = map[slip][]schema.GroupVersionKind{}
	for kind, checked := range t.asts {
		w := &literals{patch: e.Use == policy.UseJSONPatch, checked: checked, seen: map[slip]bool{}}
		root := s.Types.Type(kind)
		if w.patch {
			for _, write := range effects.Patched(e.ast.Expr()) {
				w.operation(root, write)
			}
		} else {
			w.value(e.ast.Expr(), spot{typ: root, name: "Object", strict: true})
		}
		for found := range w.seen {
			t.slips[found] = append(t.slips[found], kind)
		}
	}
	for _, kinds := range t.slips {
		slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int {
			return strings.Compare(a.String(), b.String())
		})
	}
	return t.slips
}

// literals walks the literals of a mutation beside the type of the object.
type literals struct {
	patch   bool     // values of a JSON patch: any literal is converted, null is a value
	checked *cel.Ast // for the types of other expressions; nil: unknown
	seen    map[slip]bool
}

// A spot is where a value is written.
type spot struct {
	typ    *schema.Type
	field  *schema.Field
	path   string // as messages write it, such as spec.replicas
	name   string // of the Object literal that belongs here
	strict bool   // the server looks at the names of literals here
	nested bool   // an item of a list literal or a value of a map literal
	loose  bool   // below a map or an untyped value, where the server does not look for atomic values
}

func (w *literals) add(code string, id int64, suggestion, format string, args ...any) {
	w.seen[slip{code, fmt.Sprintf(format, args...), suggestion, id}] = true
}

func (w *literals) value(e ast.Expr, at spot) {
	if at.typ == nil {
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		c := e.AsCall()
		switch effects.Function(c) {
		case operators.Conditional:
			w.value(c.Args()[1], at)
			w.value(c.Args()[2], at)
			return
		case operators.Add:
			if at.typ.Kind == schema.List {
				if w.atomic(e, at) {
					return
				}
				// the server does not look into a sum of lists (apiserver pkg/cel/mutation/dynamic/objects.go v0.37.2)
				at.strict = false
				for _, part := range c.Args() {
					w.value(part, at)
				}
				return
			}
		case "optional.none": // writes nothing
			return
		case "optional.of", "optional.ofNonZeroValue":
			w.value(c.Args()[0], at)
			return
		}
	case ast.ComprehensionKind:
		if !w.atomic(e, at) && at.typ.Kind == schema.List {
			w.items(e.AsComprehension().LoopStep(), e.AsComprehension().AccuVar(), at)
		}
		return
	}
	if w.scalar(e, at) || w.atomic(e, at) {
		return
	}
	switch e.Kind() {
	case ast.StructKind:
		w.object(e, at)
	case ast.MapKind:
		w.mapping(e, at)
	case ast.ListKind:
		if at.typ.Kind == schema.List {
			for _, item := range e.AsList().Elements() {
				w.item(item, at)
			}
		}
	}
}

// items walks the list literals that a comprehension adds to its result.
func (w *literals) items(e ast.Expr, accu string, at spot) {
	if e.Kind() != ast.CallKind {
		return
	}
	c := e.AsCall()
	switch c.FunctionName() {
	case operators.Conditional:
		w.items(c.Args()[1], accu, at)
		w.items(c.Args()[2], accu, at)
	case operators.Add:
		if first := c.Args()[0]; first.Kind() == ast.IdentKind && first.AsIdent() == accu &&
			c.Args()[1].Kind() == ast.ListKind {
			for _, item := range c.Args()[1].AsList().Elements() {
				w.item(item, at)
			}
		}
	}
}

func (w *literals) item(e ast.Expr, list spot) {
	at := list
	at.typ, at.field, at.nested = list.typ.Elem, nil, true
	if list.typ.Merge == schema.Keyed && e.Kind() == ast.StructKind && !w.patch {
		has := func(key string) bool {
			return slices.ContainsFunc(e.AsStruct().Fields(),
				func(f ast.EntryExpr) bool { return f.AsStructField().Name() == key })
		}
		if !slices.ContainsFunc(list.typ.Keys, has) {
			w.add("CG206", e.ID(), "set it, as in name: c.name", "an item of %s without %s", list.path,
				strings.Join(list.typ.Keys, ", "))
		}
	}
	if !w.patch && (e.Kind() == ast.MapKind || e.Kind() == ast.ListKind) {
		w.add("CG202", e.ID(), "write "+at.name+"{…}",
			"a literal of a map or list among the items of %s is not converted", list.path)
		return
	}
	w.value(e, at)
}

func (w *literals) object(e ast.Expr, at spot) {
	if name := e.AsStruct().TypeName(); at.strict && !w.patch && name != at.name {
		w.add("CG203", e.ID(), "write "+at.name+"{…}", "the literal at %s is a %s", orRoot(at.path), name)
	}
	for _, f := range e.AsStruct().Fields() {
		member := f.AsStructField()
		w.member(f.ID(), member.Name(), member.Value(), at, false)
	}
}

func (w *literals) mapping(e ast.Expr, at spot) {
	for _, entry := range e.AsMap().Entries() {
		name, ok := constant(entry.AsMapEntry().Key()).(string)
		if !ok {
			continue
		}
		w.member(entry.AsMapEntry().Key().ID(), name, entry.AsMapEntry().Value(), at, true)
	}
}

func (w *literals) member(id int64, name string, value ast.Expr, at spot, inMap bool) {
	next := at
	next.path, next.field, next.nested = name, nil, false
	if at.path != "" {
		next.path = at.path + "." + name
	}
	switch at.typ.Kind {
	case schema.Struct:
		f := at.typ.Field(name)
		if f == nil {
			if !at.typ.PreserveUnknown && !at.typ.Embedded && len(at.typ.Fields) > 0 {
				hint := ""
				if near := nearest(name, fieldNames(at.typ)); near != "" {
					hint = "did you mean " + near + "?"
				}
				w.add("CG201", id, hint, "%s is not a field", next.path)
			}
			return
		}
		next.typ, next.field, next.name = f.Type, f, at.name+"."+name
	case schema.Map:
		next.typ, next.loose = at.typ.Elem, true
		if !inMap {
			next.name = at.name + "." + name
		}
		if inMap && !w.patch && (value.Kind() == ast.MapKind || value.Kind() == ast.ListKind) {
			w.add("CG202", value.ID(), "write "+at.name+"{…} in its place",
				"a literal of a map or list in the values of %s is not converted", orRoot(at.path))
			return
		}
	default:
		return
	}
	w.value(value, next)
}

func orRoot(path string) string {
	if path == "" {
		return "the root"
	}
	return path
}

// atomic reports a value of an atomic list, map or struct in an ApplyConfiguration.
func (w *literals) atomic(e ast.Expr, at spot) bool {
	if w.patch || at.loose {
		return false
	}
	composite := at.typ.Kind == schema.List || at.typ.Kind == schema.Map || at.typ.Kind == schema.Struct
	if !composite || at.typ.Merge != schema.Atomic && (at.field == nil || !at.field.Atomic) {
		return false
	}
	w.add("CG204", e.ID(), "use a JSON patch for it", "%s is atomic: an ApplyConfiguration may not write it", at.path)
	return true
}

// words for the types that values have in JSON.
const (
	text    = "text"
	number  = "a number"
	boolean = "true or false"
	list    = "a list"
	object  = "an object"
	null    = "null"
)

// scalar checks the type of a value as far as it is known; true: there is nothing below it to look at.
func (w *literals) scalar(e ast.Expr, at spot) bool {
	got, note := w.typeOf(e)
	if got == null {
		if !w.patch {
			if at.path == "" {
				w.add("CG205", e.ID(), "write Object{}, which changes nothing",
					"the mutation is null, which the server refuses")
			} else {
				w.add("CG205", e.ID(), "use a JSON patch with op remove", "%s: null, which does not unset it", at.path)
			}
		}
		return true
	}
	if n, ok := constant(e).(int64); ok && w.patch && (n > 1<<53-1 || n < -(1<<53-1)) {
		w.add("CG202", e.ID(), "", "%s: an integer beyond 2^53-1 becomes text in a JSON patch", at.path)
		return true
	}
	if note != "" && !w.patch {
		w.add("CG202", e.ID(), "", "%s: %s", at.path, note)
		return true
	}
	var want []string
	switch at.typ.Kind {
	case schema.Boolean:
		want = []string{boolean}
	case schema.Integer, schema.Number:
		want = []string{number}
	case schema.String, schema.Bytes, schema.Duration:
		want = []string{text}
	case schema.Time, schema.MicroTime, schema.Quantity, schema.IntOrString:
		want = []string{text, number}
		if at.typ.Kind == schema.Time || at.typ.Kind == schema.MicroTime {
			want = want[:1]
		}
	case schema.Struct, schema.Map:
		want = []string{object}
	case schema.List:
		want = []string{list}
	default:
		return false
	}
	if got != "" && !slices.Contains(want, got) {
		hint := ""
		switch {
		case got == number && want[0] == text:
			hint = "wrap it in string(…)"
		case got == text && want[0] == number:
			hint = "write a number, or wrap it in int(…)"
		}
		w.add("CG202", e.ID(), hint, "%s takes %s, not %s", orRoot(at.path), strings.Join(want, " or "), got)
		return true
	}
	return false
}

// typeOf returns the JSON type of a value, "" if it is not known, or what is wrong with it in any place.
func (w *literals) typeOf(e ast.Expr) (got, wrong string) {
	switch e.Kind() {
	case ast.StructKind, ast.MapKind:
		return object, ""
	case ast.ListKind, ast.ComprehensionKind:
		if e.Kind() == ast.ListKind {
			return list, ""
		}
	case ast.LiteralKind:
		if e.AsLiteral() == celtypes.NullValue {
			return null, ""
		}
	}
	if w.checked == nil {
		return "", ""
	}
	switch t := w.checked.NativeRep().GetType(e.ID()); t.Kind() {
	case cel.StringKind:
		return text, ""
	case cel.IntKind, cel.DoubleKind:
		return number, ""
	case cel.BoolKind:
		return boolean, ""
	case cel.ListKind:
		return list, ""
	case cel.MapKind:
		return object, ""
	case cel.UintKind:
		return "", "an unsigned integer is not converted: wrap it in int(…)"
	case cel.BytesKind:
		return "", "bytes are not converted: wrap them in base64.encode(…) or string(…)"
	case cel.TimestampKind, cel.DurationKind:
		return "", "a " + t.TypeName() + " is not converted: wrap it in string(…)"
	}
	return "", ""
}

// operation checks the path and the value of one operation of a JSON patch.
func (w *literals) operation(root *schema.Type, write effects.Write) {
	steps := write.Path.Split()
	at := locate(root, steps)
	if at.typ == nil {
		if at.open {
			return
		}
		hint := ""
		if at.depth < len(steps) {
			if near := nearest(steps[at.depth], fieldNames(at.owner)); near != "" {
				hint = "did you mean " + near + "?"
			}
		}
		name := strings.TrimPrefix(effects.Path{
			Steps: strings.Join(steps[:min(at.depth+1, len(steps))], "\x00")}.String(), ".")
		w.add("CG201", write.ID, hint, "%s is not a field", name)
		return
	}
	if write.Value == nil || !write.Exact || write.Op != "add" && write.Op != "replace" {
		return
	}
	w.value(write.Value, spot{typ: at.typ, field: at.field,
		path: strings.TrimPrefix(effects.Path{Steps: write.Path.Steps}.String(), "."), loose: true})
}

// missingParents finds operations whose path may not lead anywhere.
func missingParents(p *pass) {
	for _, f := range p.facts {
		var made []effects.Path // what earlier mutations of the policy create
		for e := range f.parsed() {
			if e.Use == policy.UseApplyConfiguration {
				for _, w := range effects.Applied(e.ast.Expr()) {
					made = append(made, w.Path)
				}
			}
			if e.Use != policy.UseJSONPatch {
				continue
			}
			writes := effects.Patched(e.ast.Expr())
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
		path := effects.At("object", steps[:n]...)
		if slices.ContainsFunc(made, func(m effects.Path) bool {
			return path.Contains(m) &&
				(n < len(steps) && m != w.Path)
		}) || f.guards(e, path) || f.needs(e, path) {
			continue
		}
		var kinds []schema.GroupVersionKind
		for _, t := range f.targets {
			if t.typ != nil && !p.present(t.kind, path, decoded) {
				kinds = append(kinds, t.kind)
			}
		}
		if len(kinds) == 0 || len(kinds) < len(f.targets) {
			continue
		}
		d := f.at(e, w.ID)
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
	for c := range f.parsed() {
		if c.Use == policy.UseMatchCondition && reads(c) {
			return true
		}
	}
	return false
}

func identifierPath(p effects.Path) bool { return !strings.ContainsAny(p.String(), "[\"") }
