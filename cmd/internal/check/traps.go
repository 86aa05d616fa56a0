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
		Title: "object is null on DELETE, oldObject on CREATE",
		Text: `The policy matches an operation for which the variable is null. Selecting a field of null is the error "no such key", and under failurePolicy Fail the request is denied: a policy
that reads object and matches DELETE lets nothing be deleted. Compare with null, look at request.operation, or leave the operation out of the rules.`,
		Before: "operations: [CREATE, UPDATE, DELETE]\n…\nexpression: object.spec.replicas <= 5",
		After:  "operations: [CREATE, UPDATE]\n…\nexpression: object.spec.replicas <= 5",
		run:    nullObjects,
	},
	{
		Code: "CG302", Name: "unguarded-field", Severity: Warning,
		Title: "a field that may be absent is read without asking",
		Text: `The field is optional and has no default, so that objects without it reach the policy. Reading it then is the error "no such key", which failurePolicy Fail makes a denial. An entry of a map,
such as a label, may always be absent: also of namespaceObject and of request.userInfo.extra. It is a note for params,
which are the author's own, and in a messageExpression, where the error brings back the default message.`,
		Before: "expression: object.metadata.labels['team'] != ''",
		After:  "expression: object.metadata.?labels['team'].orValue('') != ''",
		run:    findUnguarded,
	},
	{
		Code: "CG303", Name: "has-always-true", Severity: Warning,
		Title: "has() of a field that is always there",
		Text: `Some fields are never left out when the server writes an object: structs that are not pointers (resources, strategy, status), and scalars and lists without omitempty. has() of them
is true for every object, also where the author left them out. Ask for a member, or for the zero value. It is a note
for scalars, and where the policy reads below the field: then nothing is wrong but the question is not needed.`,
		Before: "expression: object.spec.containers.all(c, has(c.resources))",
		After:  "expression: object.spec.containers.all(c, has(c.resources.limits))",
		run:    alwaysTrue,
	},
	{
		Code: "CG304", Name: "namespace-object", Severity: Warning,
		Title: "namespaceObject is null or does not have the field",
		Text: `namespaceObject is null in match conditions, for cluster-scoped objects and for Namespaces themselves. Its declared type has a metadata.UID that never exists, while the real uid does not compile
except through dyn(namespaceObject). Its timestamps are declared as timestamps but are text.`,
		Before: "matchConditions:\n- name: team\n  expression: namespaceObject.metadata.labels['team'] == 'a'",
		After:  "namespaceSelector:\n  matchLabels: {team: a}",
		run:    namespaceObjects,
	},
	{
		Code: "CG305", Name: "int-or-string", Severity: Warning,
		Title: "a field that is a number or a text is compared with one of them",
		Text: `Ports, maxUnavailable and maxSurge hold a number or a text such as "25%". An order comparison of a text with a number is the error "no such overload"; equality is false. Ask for the type
first. It is a note for equality.`,
		Before: "expression: object.spec.maxUnavailable > 0",
		After:  "expression: \"type(object.spec.maxUnavailable) == int ? object.spec.maxUnavailable > 0 : object.spec.maxUnavailable != '0%'\"",
		run:    func(p *pass) { p.comparisons(shape.IntOrString) },
	},
	{
		Code: "CG306", Name: "quantity-as-text", Severity: Warning,
		Title:  "a quantity is compared as text",
		Text:   `Quantities such as cpu and memory are text: '9Gi' > '10Gi' is true. Make quantities of both sides.`,
		Before: "expression: object.spec.containers.all(c, c.resources.limits['memory'] <= '1Gi')",
		After:  "expression: object.spec.containers.all(c, quantity(c.resources.limits['memory']).compareTo(quantity('1Gi')) <= 0)",
		run:    func(p *pass) { p.comparisons(shape.Quantity) },
	},
	{
		Code: "CG307", Name: "message-looks-like-cel", Severity: Warning,
		Title:  "message is an expression, which nobody evaluates",
		Text:   `message is shown as it is written. An expression belongs in messageExpression.`,
		Before: "message: \"'replicas of ' + object.metadata.name\"",
		After:  "messageExpression: \"'replicas of ' + object.metadata.name\"",
		run:    messages,
	},
	{
		Code: "CG308", Name: "multi-line-message", Severity: Warning,
		Title:  "messageExpression may have several lines",
		Text:   `A message with a line break is dropped, and the message field or a default is shown in its place.`,
		Before: "messageExpression: \"'too many:\\\\n' + string(object.spec.replicas)\"",
		After:  "messageExpression: \"'too many: ' + string(object.spec.replicas)\"",
		run:    multiLine,
	},
	{
		Code: "CG309", Name: "authorizer-in-annotation", Severity: Error,
		Title: "authorizer does not exist in audit annotations and messages",
		Text: `authorizer is declared in audit annotations, but not there when they are evaluated: "no such attribute(s): authorizer". Variables that use it fail too, also in
messageExpression.`,
		Before: "valueExpression: \"string(authorizer.group('').resource('pods').check('list').allowed())\"",
		After:  "validations:\n- expression: authorizer.group('').resource('pods').check('list').allowed()",
		run:    authorizers,
	},
	{
		Code: "CG310", Name: "empty-then-append", Severity: Error,
		Title: "a mutation empties a list or map that a later one adds to",
		Text: `Between mutations the object goes through its Go type, and an empty list or map is left out. An add to the end of it, or of a key to it, then has no parent. Add the list with its first
item in one operation, or do both in the same JSON patch.`,
		Before: "- jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/tolerations', value: []}]\"}\n- jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/tolerations/-', value: …}]\"}",
		After:  "- jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/spec/tolerations', value: [{…}]}]\"}",
		run:    emptyThenAppend,
	},
	{
		Code: "CG311", Name: "params-without-kind", Severity: Error,
		Title: "params of a built-in kind have no kind in a mutating policy",
		Text: `A MutatingAdmissionPolicy sees params of a built-in kind as the server's cache holds them, without apiVersion and kind: reading one is the error "no such key". A ValidatingAdmissionPolicy sees both, and params of custom
kinds have both everywhere.`,
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
					d.Suggestion = "write what the paramKind says"
					p.report(d)
				}
			}
		}
	}
}

// asksOperation reports that e, a variable that it uses or a match condition looks at request.operation.
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

// nullAt returns where e selects from a variable that is null on an operation that the rules match; 0: nowhere, or it
// is asked for.
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
			{objectRoot, "DELETE", []string{"CREATE", "UPDATE", "CONNECT"}, "oldObject holds what is deleted"},
			{oldObjectRoot, "CREATE", []string{"UPDATE", "DELETE"}, "object holds what is created"},
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
					d.Suggestion = fmt.Sprintf("write %s == null || …, or look at request.operation", c.root)
				}
				p.report(d)
			}
		}
	}
}

// rerootFix reads another variable wherever one is read.
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
					d.Message = fmt.Sprintf("%s (and its like in %d other places) may be absent", at.path, at.more)
				}
				d.Suggestion = e.optionalForm(id, at.path)
				p.report(d)
			}
		}
	}
}

// unguardedKeys finds entries of maps outside of the object that may be absent, and in a message those of the object
// too: there an error does no more than to bring back the default message.
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
			if key == "kubernetes.io/metadata.name" && parent.Steps == labelSteps {
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
			severity = Note // who writes the policy writes the params
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

// selects reports that the namespaceSelector of the policy, or of all its bindings, asks for a label.
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

// validationLooksAt reports that the validation with an index looks at path: where its message is made, the field was
// looked at.
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

// mayBeAbsent reports that a field is optional in all matched kinds that have it, and that nobody asks whether it is
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

// looksAtCounterpart reports that the same field is asked for under the other of object and oldObject.
func (p *pass) looksAtCounterpart(f *facts, e *expression, path effects.Path) bool {
	if path.Root == "oldObject" {
		return f.guards(e, effects.Path{Root: "object", Steps: path.Steps})
	}
	return false
}

// longestHint is the length of an author's text that a hint repeats.
const longestHint = 60

// optionalForm says how to read a field that may be absent, in the words of the expression that reads it.
func (e *expression) optionalForm(id int64, p effects.Path) string {
	_, last, _ := p.Parent()
	holder := e.holder(id)
	switch {
	case !effects.Identifier(last):
		if holder == "" {
			return fmt.Sprintf("ask '%s' in … first, or write …[?'%s'].orValue(…)", last, last)
		}
		return fmt.Sprintf("ask '%s' in %s first, or write %s[?'%s'].orValue(…)", last, holder, holder, last)
	case holder == "":
		return fmt.Sprintf("ask has(….%s) first, or write ….?%s.orValue(…)", last, last)
	}
	return fmt.Sprintf("ask has(%s.%s) first, or write %s.?%s.orValue(…)", holder, last, holder, last)
}

// holder is the text of what the selection with an id selects from; empty if it is too long to be repeated.
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
				d.Suggestion = "ask for a member, or compare the value"
				below := func(o *expression) bool {
					return o.reads != nil && slices.ContainsFunc(o.reads.List,
						func(o effects.Read) bool { return r.Path.Contains(o.Path) && o.Path != r.Path })
				}
				if t := typed.Locate(f.targets[0].typ, r.Path.Split()).Type; t.Kind != shape.Struct ||
					slices.ContainsFunc(f.exprs, below) {
					d.Severity, d.Suggestion = Note, "leave it out"
				}
				p.report(d)
			}
		}
	}
}

// isSelection reports that the node is a has() of a field, not a membership test.
func (p *pass) isSelection(e *expression, id int64) bool {
	found := false
	visit(e.ast.Expr(), func(x ast.Expr) {
		found = found || x.ID() == id && x.Kind() == ast.SelectKind
	})
	return found
}

// isAlwaysWritten reports a field of a Go type that is written whatever its value is.
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
					"use a namespaceSelector, or ask in the validations"
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
					at.Message = fmt.Sprintf("%s is text, though it is declared as a timestamp", r.Path)
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

// comparisons finds comparisons of fields of a kind as they are.
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
							d.Message = fmt.Sprintf("%s is a quantity, compared as text", path)
							d.Suggestion = "write quantity(…).compareTo(quantity(…))"
							if !ordered {
								d.Severity = Note
								d.Suggestion = "the server writes quantities in their canonical form; quantity(…) == quantity(…) is sure"
							}
						case kind == shape.IntOrString && (text || integer):
							d.Message = fmt.Sprintf("%s may be a number or a text", path)
							d.Suggestion = "ask type(…) == int first"
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

// isOf reports that a field has a kind in every matched type that declares it.
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
				Message:    "message is shown as it is, though it is a CEL expression",
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

// moveMessage makes the message of a validation its messageExpression.
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
				d.Message, d.Suggestion = fmt.Sprintf("%s may hold line breaks, and then the message is not shown",
					e.reads.List[i].Path), "write ….replace('\\n', ' ')"
				p.report(d)
			}
			searched := map[int64]bool{} // texts that functions look for, which do not get into the message
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
				d.Message, d.Suggestion = "authorizer does not exist when an audit annotation is evaluated",
					"ask it in a validation"
				p.report(d)
				continue
			}
			if i := slices.IndexFunc(e.before, uses); i >= 0 {
				d := diagnosticIn(f.Policy, e.Expr, 0, len(e.Src))
				d.Message = fmt.Sprintf("variable %s uses authorizer, which does not exist here", e.before[i].Name)
				d.Suggestion = "ask authorizer in a validation"
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
					d.Message = fmt.Sprintf("mutation %d leaves %s empty, and what is empty is gone before this one",
						empty[i].index, strings.TrimPrefix(parent.String(), "object."))
					d.Suggestion = "add it with its first item"
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
