package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	objectRoot    = effects.NewPath("object")
	oldObjectRoot = effects.NewPath("oldObject")
	paramsRoot    = effects.NewPath("params")
	namespaceRoot = effects.NewPath("namespaceObject")
	operationPath = effects.NewPath("request", "operation")
)

var traps = []*Analyzer{
	{
		Code: "CG301", Name: "null-object", Severity: Warning,
		Title: "the variable object is null on DELETE, and oldObject on CREATE",
		Text: `The policy matches an operation for which the variable is null. Selecting a field of null is the error
"no such key", and failurePolicy Fail denies the request: a policy that reads object and matches DELETE prevents every
deletion. Compare the variable with null, test request.operation, or remove the operation from the rules.`,
		Before: "operations: [CREATE, UPDATE, DELETE]\n…\nexpression: object.spec.replicas <= 5",
		After:  "operations: [CREATE, UPDATE]\n…\nexpression: object.spec.replicas <= 5",
		run:    nullObjects,
	},
	{
		Code: "CG302", Name: "unguarded-field", Severity: Warning,
		Title: "an optional field is read without testing whether it is present",
		Text: `The field is optional and does not have a default, so objects without it reach the policy. Reading it
then is the error "no such key", and failurePolicy Fail denies the request. An entry of a map, such as a label, may
always be absent, also in namespaceObject and request.userInfo.extra. It is a note for params, which the author of the
policy writes too, and in a messageExpression, where an error only restores the default message.`,
		Before: "expression: object.metadata.labels['team'] != ''",
		After:  "expression: object.metadata.?labels['team'].orValue('') != ''",
		run:    findUnguarded,
	},
	{
		Code: "CG303", Name: "has-always-true", Severity: Warning,
		Title: "has() tests a field that is always present",
		Text: `The API server always writes some fields of an object: structs that are not pointers (resources,
strategy, status), and scalars and lists without omitempty. has() of such a field is true for every object, even if
its author omitted the field. Test a member, or compare with the zero value. It is a note for scalars, and if the
policy reads below the field: then the test is not wrong but superfluous.`,
		Before: "expression: object.spec.containers.all(c, has(c.resources))",
		After:  "expression: object.spec.containers.all(c, has(c.resources.limits))",
		run:    alwaysTrue,
	},
	{
		Code: "CG304", Name: "namespace-object", Severity: Warning,
		Title: "the variable namespaceObject is null or does not have the field",
		Text: `namespaceObject is null in match conditions, for cluster-scoped objects and for Namespaces themselves.
Its declared type has the field metadata.UID, which never exists, while the real metadata.uid compiles only as
dyn(namespaceObject).metadata.uid. Its timestamps are declared as timestamps but are strings.`,
		Before: "matchConditions:\n- name: team\n  expression: namespaceObject.metadata.labels['team'] == 'a'",
		After:  "namespaceSelector:\n  matchLabels: {team: a}",
		run:    namespaceObjects,
	},
	{
		Code: "CG305", Name: "int-or-string", Severity: Warning,
		Title: "an int-or-string field is compared with only one of the two types",
		Text: `Ports, maxUnavailable and maxSurge hold an integer or a string such as "25%". An order comparison (<, >)
of a string with a number is the error "no such overload"; equality is false. Test the type first. It is a note for
equality.`,
		Before: "expression: object.spec.maxUnavailable > 0",
		After:  "expression: \"type(object.spec.maxUnavailable) == int ? object.spec.maxUnavailable > 0 : object.spec.maxUnavailable != '0%'\"",
		run:    func(p *pass) { p.comparisons(shape.IntOrString) },
	},
	{
		Code: "CG306", Name: "quantity-as-text", Severity: Warning,
		Title: "a quantity is compared as a string",
		Text: `Quantities such as cpu and memory are strings, and compare as strings: '9Gi' > '10Gi' is true. Convert
both sides with quantity(…).`,
		Before: "expression: object.spec.containers.all(c, c.resources.limits['memory'] <= '1Gi')",
		After:  "expression: object.spec.containers.all(c, quantity(c.resources.limits['memory']).compareTo(quantity('1Gi')) <= 0)",
		run:    func(p *pass) { p.comparisons(shape.Quantity) },
	},
	{
		Code: "CG307", Name: "message-looks-like-cel", Severity: Warning,
		Title:  "the message is an expression, which is not evaluated",
		Text:   `The API server shows message as it is written. Move the expression to messageExpression.`,
		Before: "message: \"'replicas of ' + object.metadata.name\"",
		After:  "messageExpression: \"'replicas of ' + object.metadata.name\"",
		run:    messages,
	},
	{
		Code: "CG308", Name: "multi-line-message", Severity: Warning,
		Title: "a messageExpression may return several lines",
		Text: `The API server drops a message that contains a line break, and shows the message field or a default
instead.`,
		Before: "messageExpression: \"'too many:\\\\n' + string(object.spec.replicas)\"",
		After:  "messageExpression: \"'too many: ' + string(object.spec.replicas)\"",
		run:    multiLine,
	},
	{
		Code: "CG309", Name: "authorizer-in-annotation", Severity: Error,
		Title: "the authorizer is not available in audit annotations and messages",
		Text: `authorizer is declared for audit annotations but not available when they are evaluated: "no such
attribute(s): authorizer". A variable that uses it fails there too, and in a messageExpression.`,
		Before: "valueExpression: \"string(authorizer.group('').resource('pods').check('list').allowed())\"",
		After:  "validations:\n- expression: authorizer.group('').resource('pods').check('list').allowed()",
		run:    authorizers,
	},
	{
		Code: "CG310", Name: "empty-then-append", Severity: Error,
		Title: "a mutation empties a list or map to which a later one adds",
		Text: `Between two mutations the object is converted to its Go type and back, which drops empty lists and maps.
Adding an item to the end of the list, or a key to the map, then fails because the parent is missing. Add the list
together with its first item, or do both in one JSON patch.`,
		Before: "- jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/tolerations', value: []}]\"}\n- jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/tolerations/-', value: …}]\"}",
		After:  "- jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/tolerations', value: [{…}]}]\"}",
		run:    emptyThenAppend,
	},
	{
		Code: "CG311", Name: "params-without-kind", Severity: Error,
		Title: "params of a built-in kind do not have apiVersion and kind in a mutating policy",
		Text: `A MutatingAdmissionPolicy sees params of a built-in kind as the API server caches them, without
apiVersion and kind: reading either is the error "no such key". A ValidatingAdmissionPolicy sees both fields, and
params of custom kinds always have them.`,
		Before: "paramKind: {apiVersion: v1, kind: ConfigMap}\n…\nexpression: \"Object{metadata: Object.metadata{annotations: {'from': params.kind}}}\"",
		After:  "expression: \"Object{metadata: Object.metadata{annotations: {'from': 'ConfigMap'}}}\"",
		run:    paramsWithoutKind,
	},
}

func paramsWithoutKind(p *pass) {
	for _, f := range p.facts {
		if r := p.Types.ResourceFor(p.paramKind(f)); !f.Mutates() || r == nil || r.Definition != nil {
			continue
		}
		for e := range f.parsedExpressions() {
			for _, r := range e.reads.List {
				if r.Path.Root == "params" && (r.Path.Steps == "kind" || r.Path.Steps == "apiVersion") && !r.Test &&
					!r.Safe {
					d := f.diagnosticAt(e, r.ID)
					d.Message = fmt.Sprintf("%s does not exist: a mutating policy sees a %s without apiVersion and kind", r.Path, f.ParamKind.Kind)
					d.Suggestion = "write the value of spec.paramKind as a literal"
					p.report(d)
				}
			}
		}
	}
}

// asksOperation reports whether e, a variable that it uses or a match condition reads request.operation.
func (f *facts) asksOperation(e *expression) bool {
	uses := func(e *expression) bool { return e.reads.Uses(operationPath) }
	if uses(e) || slices.ContainsFunc(e.before, uses) {
		return true
	}
	for c := range f.parsedExpressions() {
		if c.Use == policy.UseMatchCondition && uses(c) {
			return true
		}
	}
	return false
}

// nullAt returns the node of e that selects from a variable which is null on an operation that the rules match; 0 if
// there is none, or the expression tests for null.
func (f *facts) nullAt(e *expression, root effects.Path, op string) int64 {
	if e.Use == policy.UseMessageExpression || !f.operations()[op] || f.guards(e, root) || f.asksOperation(e) {
		return 0
	}
	i := slices.IndexFunc(e.reads.List, func(r effects.Read) bool {
		return root.Contains(r.Path) && r.Path != root &&
			!r.Safe
	})
	if i < 0 {
		return 0
	}
	return e.reads.List[i].ID
}

func nullObjects(p *pass) {
	for _, f := range p.facts {
		ops := f.operations()
		for _, c := range []struct {
			root    effects.Path
			op      string
			others  []string
			instead string
		}{
			{objectRoot, "DELETE", []string{"CREATE", "UPDATE", "CONNECT"}, "use oldObject, which is the deleted object"},
			{oldObjectRoot, "CREATE", []string{"UPDATE", "DELETE"}, "use object, which is the new object"},
		} {
			if !ops[c.op] {
				continue
			}
			only := !slices.ContainsFunc(c.others, func(op string) bool { return ops[op] })
			for e := range f.parsedExpressions() {
				id := f.nullAt(e, c.root, c.op)
				if id == 0 {
					continue
				}
				d := f.diagnosticAt(e, id)
				if only {
					d.Message = fmt.Sprintf("%s is always null on %s", c.root, c.op)
					d.Suggestion = c.instead
					d.Fix = e.rerootFix(c.root.Root,
						map[string]string{"object": "oldObject", "oldObject": "object"}[c.root.Root])
				} else {
					d.Message = fmt.Sprintf("%s is null on %s, which the rules match", c.root, c.op)
					d.Suggestion = fmt.Sprintf("write %s == null || …, or test request.operation", c.root)
				}
				p.report(d)
			}
		}
	}
}

// rerootFix replaces every use of one variable by another.
func (e *expression) rerootFix(from, to string) *Fix {
	fix := &Fix{}
	visit(e.ast.Expr(), func(x ast.Expr) {
		if x.Kind() != ast.IdentKind || x.AsIdent() != from {
			return
		}
		if at, end := e.span(x.ID()); e.Src[at:end] == from {
			fix.Edits = append(fix.Edits, Edit{at, end, to})
		}
	})
	if len(fix.Edits) == 0 {
		return nil
	}
	return fix
}

func findUnguarded(p *pass) {
	for _, f := range p.facts {
		for e := range f.parsedExpressions() {
			p.unguardedKeys(f, e)
			if e.Use == policy.UseMessageExpression {
				continue
			}
			type absence struct {
				path effects.Path
				more int
			}
			var places []int64
			found := map[int64]*absence{}
			for _, r := range e.reads.List {
				if r.Test || r.Safe || r.Path.Root != "object" && r.Path.Root != "oldObject" ||
					!p.mayBeAbsent(f, e, r.Path) {
					continue
				}
				if at := found[r.ID]; at == nil {
					found[r.ID] = &absence{path: r.Path}
					places = append(places, r.ID)
				} else if at.path != r.Path {
					at.more++
				}
			}
			reported := map[effects.Path]bool{}
			for _, id := range places {
				at := found[id]
				if reported[at.path] {
					continue
				}
				reported[at.path] = true
				d := f.diagnosticAt(e, id)
				d.Message = fmt.Sprintf("%s may be absent", at.path)
				if at.more > 0 {
					d.Message = fmt.Sprintf("%s (and %d more like it) may be absent", at.path, at.more)
				}
				d.Suggestion = e.optionalForm(id, at.path)
				p.report(d)
			}
		}
	}
}

// unguardedKeys finds map entries outside the object that may be absent; in a messageExpression also those of the
// object, where an error only restores the default message.
func (p *pass) unguardedKeys(f *facts, e *expression) {
	reported := map[effects.Path]bool{}
	for _, r := range e.reads.List {
		parent, key, ok := r.Path.Parent()
		if !ok || key == effects.Item || r.Test || r.Safe || reported[r.Path] || f.guards(e, r.Path) {
			continue
		}
		severity := Warning
		switch {
		case r.Path.Root == "namespaceObject" && (parent.Steps == labelSteps || parent.Steps == annotationSteps):
			if key == nameLabel && parent.Steps == labelSteps {
				continue // every Namespace has it
			}
			if parent.Steps == labelSteps && f.selects(key) {
				continue
			}
		case parent == effects.NewPath("request", "userInfo", "extra"):
		case r.Path.Root == "params":
			at := typed.Locate(p.Types.Type(p.paramKind(f)), parent.Split())
			if at.Type == nil || at.Type.Kind != shape.Map ||
				p.allParamsHave(f, r.Path) {
				continue
			}
			severity = Note // the policy and the params have one author
		case e.Use == policy.UseMessageExpression && (r.Path.Root == "object" || r.Path.Root == "oldObject"):
			at := typed.Place{}
			for _, t := range f.targets {
				if at = typed.Locate(t.typ, parent.Split()); at.Type == nil || at.Type.Kind != shape.Map {
					break
				}
			}
			if at.Type == nil || at.Type.Kind != shape.Map || f.validationLooksAt(e.Index, r.Path) {
				continue
			}
		default:
			continue
		}
		if e.Use == policy.UseMessageExpression {
			severity = Note
		}
		reported[r.Path] = true
		d := f.diagnosticAt(e, r.ID)
		d.Severity = severity
		d.Message, d.Suggestion = fmt.Sprintf("%s may be absent", r.Path), e.optionalForm(r.ID, r.Path)
		p.report(d)
	}
}

// selects reports whether the namespaceSelector of the policy, or of all its bindings, requires a label.
func (f *facts) selects(label string) bool {
	asks := func(m *policy.MatchResources) bool {
		labels := map[string]any{}
		satisfy(labels, m, func(r *policy.MatchResources) *metav1.LabelSelector { return r.NamespaceSelector })
		return labels[label] != nil
	}
	return asks(f.MatchConstraints) ||
		len(f.bindings) > 0 &&
			!slices.ContainsFunc(f.bindings, func(b *policy.Binding) bool { return !asks(b.MatchResources) })
}

var labelSteps, annotationSteps = effects.NewPath("", "metadata", "labels").Steps,
	effects.NewPath("", "metadata", "annotations").Steps

// validationLooksAt reports whether the validation with an index reads path: then the field exists when the message is
// evaluated.
func (f *facts) validationLooksAt(index int, path effects.Path) bool {
	for e := range f.parsedExpressions() {
		if e.Use == policy.UseValidation && e.Index == index &&
			(e.reads.Uses(path) || slices.ContainsFunc(e.before,
				func(v *expression) bool { return v.reads.Uses(path) })) {
			return true
		}
	}
	return false
}

// allParamsHave reports whether the files hold objects of the param kind and all of them have the field.
func (p *pass) allParamsHave(f *facts, path effects.Path) bool {
	kind, found := p.paramKind(f), false
	for _, object := range p.State {
		if object["kind"] != kind.Kind || object["apiVersion"] != kind.GroupVersion().String() {
			continue
		}
		found = true
		if lookup(object, path.Split()) == nil {
			return false
		}
	}
	return found
}

// mayBeAbsent reports whether a field is optional in all matched kinds that have it, and that nobody asks whether it is
// there.
func (p *pass) mayBeAbsent(f *facts, e *expression, path effects.Path) bool {
	declared := false
	for _, t := range f.targets {
		if t.typ == nil {
			return false
		}
		if typed.Locate(t.typ, path.Split()).Type == nil {
			continue
		}
		declared = true
		if p.isPresent(t.kind, path, f.stage(path)) || !f.Mutates() && isValidated(t.typ, path) {
			return false
		}
	}
	return declared && !f.guards(e, path) && !p.looksAtCounterpart(f, e, path)
}

// stage returns how far the server has got with an object when a policy sees it.
func (f *facts) stage(path effects.Path) stage {
	switch {
	case path.Root == "oldObject":
		return stored
	case !f.Mutates():
		return registered
	}
	return decoded
}

// isValidated reports a field that is optional for the decoder, while the server's validation, which comes before
// validating policies, refuses objects without it.
func isValidated(t *shape.Type, path effects.Path) bool {
	at := typed.Locate(t, path.Split())
	if at.Field == nil || at.Owner == nil {
		return false
	}
	switch path.Steps { // the registry fills them in before validating policies look
	case effects.NewPath("", "metadata", "creationTimestamp").Steps, effects.NewPath("", "metadata", "uid").Steps:
		return true
	}
	owner := strings.TrimPrefix(at.Owner.Name, "k8s.io/api/")
	switch owner + "." + at.Field.Name {
	case "core/v1.PodStatus.phase", "core/v1.PodStatus.qosClass", "core/v1.NamespaceSpec.finalizers",
		"core/v1.NamespaceStatus.phase",
		"certificates/v1.CertificateSigningRequestSpec.username",
		"core/v1.Container.image",
		"core/v1.EphemeralContainer.image",
		"core/v1.EphemeralContainerCommon.image",
		"core/v1.PersistentVolumeClaimSpec.accessModes", "core/v1.PersistentVolumeSpec.capacity",
		"core/v1.PersistentVolumeSpec.accessModes":
		return true
	}
	if strings.HasSuffix(at.Owner.Name, ".LabelSelectorRequirement") ||
		strings.HasSuffix(at.Owner.Name, "core/v1.NodeSelectorRequirement") {
		return true // values depends on the operator
	}
	// The selector of a workload has to match the labels of its template.
	return strings.HasSuffix(path.String(), ".template.metadata.labels")
}

// looksAtCounterpart reports whether the same field is asked for under the other of object and oldObject.
func (p *pass) looksAtCounterpart(f *facts, e *expression, path effects.Path) bool {
	if path.Root == "oldObject" {
		return f.guards(e, effects.Path{Root: "object", Steps: path.Steps})
	}
	return false
}

// longestHint is the length of the longest text of an author that a hint repeats.
const longestHint = 60

// optionalForm suggests how to read a field that may be absent, in terms of the expression that reads it.
func (e *expression) optionalForm(id int64, p effects.Path) string {
	_, last, _ := p.Parent()
	holder := e.holder(id)
	switch {
	case !effects.Identifier(last):
		if holder == "" {
			return fmt.Sprintf("test '%s' in … first, or write …[?'%s'].orValue(…)", last, last)
		}
		return fmt.Sprintf("test '%s' in %s first, or write %s[?'%s'].orValue(…)", last, holder, holder, last)
	case holder == "":
		return fmt.Sprintf("test has(….%s) first, or write ….?%s.orValue(…)", last, last)
	}
	return fmt.Sprintf("test has(%s.%s) first, or write %s.?%s.orValue(…)", holder, last, holder, last)
}

// holder returns the text of the operand of the selection with an id; empty if it is too long to be repeated.
func (e *expression) holder(id int64) string {
	var operand ast.Expr
	visit(e.ast.Expr(), func(x ast.Expr) {
		switch {
		case x.ID() != id:
		case x.Kind() == ast.SelectKind:
			operand = x.AsSelect().Operand()
		case x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.Index:
			operand = x.AsCall().Args()[0]
		}
	})
	if operand == nil {
		return ""
	}
	text, err := parser.Unparse(operand, e.ast.SourceInfo())
	if err != nil || len(text) > longestHint || strings.Contains(text, "\n") {
		return ""
	}
	return text
}

func alwaysTrue(p *pass) {
	for _, f := range p.facts {
		for e := range f.parsedExpressions() {
			for _, r := range e.reads.List {
				if !r.Test || r.Path.Root != "object" && r.Path.Root != "oldObject" || !p.isSelection(e, r.ID) {
					continue
				}
				if r.ID == f.nullAt(e, objectRoot, "DELETE") || r.ID == f.nullAt(e, oldObjectRoot, "CREATE") {
					continue // an error where the variable is null, which CG301 says
				}
				always := len(f.targets) > 0
				for _, t := range f.targets {
					always = always && t.typ != nil && isAlwaysWritten(typed.Locate(t.typ, r.Path.Split()))
				}
				if !always {
					continue
				}
				d := f.diagnosticAt(e, r.ID)
				d.Message = fmt.Sprintf("has(%s) is always true", r.Path)
				d.Suggestion = "test a member, or compare the value"
				below := func(o *expression) bool {
					return o.reads != nil && slices.ContainsFunc(o.reads.List,
						func(o effects.Read) bool { return r.Path.Contains(o.Path) && o.Path != r.Path })
				}
				if t := typed.Locate(f.targets[0].typ, r.Path.Split()).Type; t.Kind != shape.Struct ||
					slices.ContainsFunc(f.exprs, below) {
					d.Severity, d.Suggestion = Note, "remove the test"
				}
				p.report(d)
			}
		}
	}
}

// isSelection reports whether the node is a has() of a field, not a membership test.
func (p *pass) isSelection(e *expression, id int64) bool {
	found := false
	visit(e.ast.Expr(), func(x ast.Expr) {
		found = found || x.ID() == id && x.Kind() == ast.SelectKind
	})
	return found
}

// isAlwaysWritten reports whether a field of a Go type is written whatever its value is.
func isAlwaysWritten(at typed.Place) bool {
	f := at.Field
	if f == nil || at.Owner == nil || at.Owner.Name == "" || f.Pointer || f.OmitZero {
		return false
	}
	return f.Type.Kind == shape.Struct || !f.OmitEmpty
}

// visit calls f for every node.
func visit(e ast.Expr, f func(ast.Expr)) { ast.PreOrderVisit(e, ast.NewExprVisitor(f)) }

func namespaceObjects(p *pass) {
	uid := namespaceRoot.Step("metadata").Step("UID")
	for _, f := range p.facts {
		clusterScoped := slices.IndexFunc(f.targets,
			func(t target) bool { return t.named && (!t.namespaced || t.kind.Kind == "Namespace") })
		for e := range f.parsedExpressions() {
			i := slices.IndexFunc(e.reads.List, func(r effects.Read) bool { return namespaceRoot.Contains(r.Path) })
			if i < 0 {
				continue
			}
			d := f.diagnosticAt(e, e.reads.List[i].ID)
			if e.Use == policy.UseMatchCondition {
				d.Message, d.Suggestion = "namespaceObject is always null in match conditions",
					"use a namespaceSelector, or test it in the validations"
				p.report(d)
				continue
			}
			if clusterScoped >= 0 && !f.guards(e, namespaceRoot) && e.Use != policy.UseMessageExpression {
				d.Message = fmt.Sprintf("namespaceObject is null for %s", f.targets[clusterScoped].resource.Resource)
				d.Suggestion = "write namespaceObject == null || …"
				p.report(d)
			}
			for _, r := range e.reads.List {
				at := f.diagnosticAt(e, r.ID)
				_, last, _ := r.Path.Parent()
				switch {
				case r.Path == uid:
					at.Message, at.Suggestion = "namespaceObject.metadata.UID never exists",
						"write dyn(namespaceObject).metadata.uid"
					if wrong, end := "namespaceObject.metadata.UID", at.To; end <= len(e.Src) &&
						strings.HasSuffix(e.Src[:end], wrong) && !r.Test {
						at.Fix = &Fix{Edits: []Edit{{end - len(wrong), end, "dyn(namespaceObject).metadata.uid"}}}
					}
				case namespaceRoot.Contains(r.Path) && !r.Test && strings.HasSuffix(last, "Timestamp") &&
					!strings.Contains(e.Src, "dyn(namespaceObject)"):
					at.Message = fmt.Sprintf("%s is a string, although it is declared as a timestamp", r.Path)
					at.Suggestion = "write timestamp(dyn(namespaceObject)" + strings.TrimPrefix(r.Path.String(),
						"namespaceObject") + ")"
				default:
					continue
				}
				p.report(at)
			}
		}
	}
}

var comparing = map[string]bool{ // true: an error for a value of the other type
	operators.Equals: false, operators.NotEquals: false,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.Add: true, operators.Subtract: true,
}

// comparisons finds direct comparisons of fields of a kind.
func (p *pass) comparisons(kind shape.Kind) {
	for _, f := range p.facts {
		for e := range f.parsedExpressions() {
			visit(e.ast.Expr(), func(x ast.Expr) {
				if x.Kind() != ast.CallKind {
					return
				}
				c := x.AsCall()
				ordered, ok := comparing[c.FunctionName()]
				if !ok || len(c.Args()) != 2 {
					return
				}
				for i, side := range c.Args() {
					other := c.Args()[1-i]
					for _, path := range e.reads.Paths[side.ID()] {
						if side.Kind() == ast.ComprehensionKind || !p.isOf(f, path, kind) ||
							f.guards(e, path) && slices.Contains(e.reads.Nulls, path) {
							continue
						}
						_, text := constant(other).(string)
						_, integer := constant(other).(int64)
						d := f.diagnosticAt(e, x.ID())
						switch {
						case kind == shape.Quantity && (text || ordered || len(e.reads.Paths[other.ID()]) > 0) &&
							c.FunctionName() != operators.Add:
							if !text && len(e.reads.Paths[other.ID()]) == 0 {
								continue
							}
							d.Message = fmt.Sprintf("%s is a quantity, but is compared as a string", path)
							d.Suggestion = "write quantity(…).compareTo(quantity(…))"
							if !ordered {
								d.Severity = Note
								d.Suggestion = "the server writes quantities in canonical form; quantity(…) == quantity(…) is safe"
							}
						case kind == shape.IntOrString && (text || integer):
							d.Message = fmt.Sprintf("%s may be an int or a string", path)
							d.Suggestion = "test type(…) == int first"
							if !ordered {
								d.Severity = Note
							}
						default:
							continue
						}
						p.report(d)
						return
					}
				}
			})
		}
	}
}

// isOf reports whether a field has a kind in every matched type that declares it.
func (p *pass) isOf(f *facts, path effects.Path, kind shape.Kind) bool {
	if path.Root != "object" && path.Root != "oldObject" {
		return false
	}
	found := false
	for _, t := range f.targets {
		if t.typ == nil {
			continue
		}
		if at := typed.Locate(t.typ, path.Split()); at.Type != nil {
			if at.Type.Kind != kind {
				return false
			}
			found = true
		}
	}
	return found
}

func messages(p *pass) {
	scope := p.envs.Scope(celenv.Run, false)
	defer scope.Close()
	env, err := scope.Env(celenv.Declared{Params: true})
	if err != nil {
		p.err = err
		return
	}
	for _, f := range p.facts {
		for i, v := range f.Validations {
			parsed, issues := env.Parse(v.Message)
			if v.Message == "" || issues.Err() != nil {
				continue
			}
			reads := effects.ReadsOf(parsed.NativeRep().Expr(), nil)
			if !slices.ContainsFunc(reads.List, func(r effects.Read) bool {
				return r.Path.Steps != "" && slices.Contains(
					[]string{"object", "oldObject", "params", "request", "namespaceObject"}, r.Path.Root)
			}) && len(reads.Variables) == 0 {
				continue
			}
			path := fmt.Sprintf("spec.validations[%d].message", i)
			d := Diagnostic{
				Message:    "message is a CEL expression, but it is shown as it is written",
				Suggestion: "move it to messageExpression",
				Ref:        f.Ref(), Field: path, Position: f.Locate(&field.Error{Field: path}),
			}
			if checked, issues := celenv.Compile(env, v.Message); v.MessageExpr.IsZero() && issues.Err() == nil &&
				checked.OutputType().IsExactType(cel.StringType) {
				d.Fix = &Fix{Object: func(object map[string]any) { moveMessage(object, i) }}
			}
			p.report(d)
		}
	}
}

// moveMessage moves the message of a validation to its messageExpression.
func moveMessage(object map[string]any, index int) {
	spec, _ := object["spec"].(map[string]any)
	validations, _ := spec["validations"].([]any)
	if index >= len(validations) {
		return
	}
	if v, ok := validations[index].(map[string]any); ok {
		v["messageExpression"] = v["message"]
		delete(v, "message")
	}
}

func multiLine(p *pass) {
	for _, f := range p.facts {
		for e := range f.parsedExpressions() {
			if e.Use != policy.UseMessageExpression {
				continue
			}
			if i := slices.IndexFunc(e.reads.List, func(r effects.Read) bool {
				return !r.Test && (effects.NewPath("object", "metadata", "annotations").Contains(r.Path) ||
					effects.NewPath("object", "data").Contains(r.Path)) &&
					strings.Count(r.Path.Steps, "\x00") > strings.Count("metadata", "\x00")
			}); i >= 0 && !strings.Contains(e.Src, "replace(") {
				d := f.diagnosticAt(e, e.reads.List[i].ID)
				d.Severity = Note
				d.Message, d.Suggestion = fmt.Sprintf("%s may contain line breaks, and then the message is not shown",
					e.reads.List[i].Path), "write ….replace('\\n', ' ')"
				p.report(d)
			}
			searched := map[int64]bool{} // strings that functions search for, which are not part of the message
			visit(e.ast.Expr(), func(x ast.Expr) {
				if x.Kind() == ast.CallKind && x.AsCall().IsMemberFunction() && x.AsCall().FunctionName() != "join" {
					if args := x.AsCall().Args(); len(args) > 0 {
						searched[args[0].ID()] = true
					}
				}
				if s, ok := constant(x).(string); ok && strings.ContainsAny(s, "\n\r") && !searched[x.ID()] {
					d := f.diagnosticAt(e, x.ID())
					d.Message, d.Suggestion = "a message with a line break is not shown", "use a comma or a semicolon"
					if text := e.Src[d.From:d.To]; strings.Contains(text, `\n`) && !strings.Contains(text, `\\`) {
						d.Fix = &Fix{Edits: []Edit{{d.From, d.To, strings.ReplaceAll(text, `\n`, " ")}}}
					}
					p.report(d)
				}
			})
		}
	}
}

func authorizers(p *pass) {
	for _, f := range p.facts {
		uses := func(e *expression) bool { return e.reads.Uses(effects.NewPath("authorizer")) }
		for e := range f.parsedExpressions() {
			if e.Use != policy.UseAuditAnnotation && e.Use != policy.UseMessageExpression {
				continue
			}
			if i := slices.IndexFunc(e.reads.List,
				func(r effects.Read) bool { return r.Path.Root == "authorizer" }); i >= 0 &&
				e.Use == policy.UseAuditAnnotation {
				d := f.diagnosticAt(e, e.reads.List[i].ID)
				d.Message, d.Suggestion = "authorizer is not available when an audit annotation is evaluated",
					"use it in a validation"
				p.report(d)
				continue
			}
			if i := slices.IndexFunc(e.before, uses); i >= 0 {
				d := diagnosticIn(f.Policy, e.Expr, 0, len(e.Src))
				d.Message = fmt.Sprintf("variable %s uses authorizer, which is not available here", e.before[i].Name)
				d.Suggestion = "use authorizer in a validation"
				if e.Use == policy.UseMessageExpression {
					d.Severity = Warning
				}
				p.report(d)
			}
		}
	}
}

func emptyThenAppend(p *pass) {
	for _, f := range p.facts {
		type emptied struct {
			path  effects.Path
			index int
		}
		var empty []emptied
		for e := range f.parsedExpressions() {
			if e.Use != policy.UseJSONPatch {
				continue
			}
			for _, w := range effects.PatchOperations(e.ast.Expr()) {
				parent, _, ok := w.Path.Parent()
				if i := slices.IndexFunc(empty,
					func(x emptied) bool { return ok && x.path == parent && x.index < e.Index }); w.Op == "add" &&
					i >= 0 {
					d := f.diagnosticAt(e, w.ID)
					d.Message = fmt.Sprintf("mutation %d leaves %s empty, and the server drops it before this mutation",
						empty[i].index, strings.TrimPrefix(parent.String(), "object."))
					d.Suggestion = "add it together with its first item"
					p.report(d)
				}
				empty = slices.DeleteFunc(empty,
					func(x emptied) bool { return x.path == w.Path || ok && x.path == parent })
				if v := w.Value; v != nil && (v.Kind() == ast.ListKind && v.AsList().Size() == 0 ||
					v.Kind() == ast.MapKind && v.AsMap().Size() == 0) {
					empty = append(empty, emptied{w.Path, e.Index})
				}
			}
		}
	}
}
