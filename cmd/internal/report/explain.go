package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// ExplanationFormats are the formats of [Explain].
func ExplanationFormats() []string { return []string{"text", "json"} }

// Explain writes explanations. With o.Objects, text shows the whole object before each mutation.
func Explain(format string, w io.Writer, all []Explanation, o Options) error {
	if format == "json" {
		return writeExplanations(w, all, o)
	}
	t, err := newText(w, o)
	if err != nil {
		return err
	}
	t.matched = map[policy.Ref]bool{}
	for i, e := range all {
		if e.Failure != nil {
			continue
		}
		if i > 0 || len(o.Rejected) > 0 {
			t.writeGap()
		}
		t.explain(e)
	}
	return t.flush()
}

var outcomeWords = map[celgate.Verdict]string{
	celgate.Admit: "holds", celgate.Denied: "fails", celgate.Error: "error", celgate.Skip: "false",
}

func (t *textWriter) explain(e Explanation) {
	word, s := verdictOf(e.Decision)
	subject := string(e.Request.Operation) + " " + e.kind().Kind + " " + e.name()
	if by := e.CreatedBy; by != nil {
		subject += " of " + by.Kind + " " + by.Name
	}
	if sub := e.Request.SubResource; sub != "" {
		subject += " (" + sub + ")"
	}
	t.head(s, word, subject, e.Place)
	if slices.ContainsFunc(e.Events, func(x Event) bool { return x.Op == explain.OpExempt }) {
		t.writeGap()
		t.block(block{label: "exempt", style: dim,
			message: "the API server does not evaluate policies for " + e.Request.Resource.Resource + " of " + e.Request.Resource.Group})
	}
	second, evaluated := false, 0
	for _, one := range storyOf(e.Events) {
		if len(one.outcomes) > 0 {
			evaluated++
		}
		if one.second && !second {
			second = true
			t.writeGap()
			t.line(t.p.paint(bold, "the second pass of the mutating policies, because the object changed:"))
		}
		t.writeGap()
		t.invocation(e, one)
	}
	for _, ref := range e.unbound(t.o) {
		t.writeGap()
		t.writeTitled(bold, ref.Kind, ref.Name)
		t.block(block{label: "not in force", style: dim, message: "no binding names it"})
	}
	t.writeGap()
	t.writeEnding(e)
	if evaluated > 1 {
		t.block(block{label: "cost", style: dim, message: thousands(e.Decision.Cost) + " CEL cost units in all"})
	}
}

// unbound returns the policies without a binding.
func (e Explanation) unbound(o Options) []policy.Ref {
	if o.Set == nil {
		return nil
	}
	var all []policy.Ref
	for _, p := range o.Set.Policies {
		if !o.Set.Binds(p.Ref()) {
			all = append(all, p.Ref())
		}
	}
	return all
}

// policyOf returns the policy and the binding of an invocation.
func (t *textWriter) policyOf(one *told) (p *policy.Policy, b *policy.Binding) {
	if t.o.Set == nil {
		return nil, nil
	}
	for _, x := range t.o.Set.Policies {
		if x.Kind == one.kind && x.Name == one.policy {
			p = x
		}
	}
	for x := range t.o.Set.EachBinding() {
		if x.Kind == one.kind && x.Name == one.binding {
			b = x
		}
	}
	return p, b
}

// invocation writes about one policy with one binding and param.
func (t *textWriter) invocation(e Explanation, one *told) {
	name := invocation(one.policy, one.binding, one.param)
	t.writeTitled(bold, string(one.kind), name)
	p, b := t.policyOf(one)
	for _, m := range one.matches {
		of := ""
		if m.Binding != "" {
			of = " of the binding"
		}
		for _, c := range m.Compared {
			label, s := "matched", dim
			if (m.By != "" || m.Err != nil) && (!c.Holds || m.By == "excludeResourceRules") {
				label, s = "not matched", yellow
			}
			if c.Field == "paramRef" {
				t.block(block{label: "not found", style: yellow, message: "the binding's paramRef asks for " + c.Want})
				continue
			}
			got := c.Got
			if strings.Contains(c.Field, "esourceRules[") {
				got = "the request is " + got
			}
			t.block(block{label: label, style: s, message: c.Field + of + " says " + c.Want + "; " + got})
		}
		if m.Err != nil {
			t.block(t.configurationError(e, one, m, p, b))
		} else if !m.Matched {
			t.block(block{label: "not for this request", style: dim, message: m.Reason})
		}
	}
	for _, o := range one.outcomes {
		t.outcome(e, one, o, p, b)
	}
	for _, m := range one.messages {
		if m.Failed {
			t.block(block{label: "message", style: yellow, message: m.Evaluation.Expr.Field + ": " + m.Value,
				footers: []string{"an error: the message field or a default is shown in its place"}})
		}
	}
	if one.skipped != "" {
		t.block(block{label: "not run again", style: dim, message: one.skipped})
	}
	if p != nil && len(one.outcomes) > 0 {
		var unused []string
		for _, v := range p.Variables {
			if !one.used[v.Name] {
				unused = append(unused, v.Full())
			}
		}
		if len(unused) > 0 {
			t.block(block{label: "never used", style: dim,
				message: strings.Join(unused, ", ") + " (not evaluated: an error there would not count)"})
		}
	}
	var costs []string
	for _, s := range one.sumCosts() {
		costs = append(costs, fmt.Sprintf("%s %s of %s", s.of, thousands(s.cost), thousands(s.limit)))
	}
	if len(costs) > 0 {
		t.block(block{label: "cost", style: dim, message: strings.Join(costs, ", ")})
	}
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// configurationError writes about an error before any expression was evaluated.
func (t *textWriter) configurationError(e Explanation, one *told, m explain.Match, p *policy.Policy,
	b *policy.Binding) block {
	out := block{label: "error", style: red, message: m.Err.Error(), err: m.Err,
		hint: hintFor(failing{message: m.Err.Error(), err: m.Err, request: e.Request})}
	if p == nil {
		return out
	}
	if p.FailurePolicy == policy.Ignore {
		out.footers = []string{"failurePolicy Ignore: the policy is skipped"}
		return out
	}
	if actions := b.ActionsOnMisconfiguration(); !slices.Contains(actions, policy.Deny) {
		out.footers = []string{"enforcement.onError " + joinActions(actions) + actionWords(actions)}
		return out
	}
	out.footers = []string{"failurePolicy Fail: the request is denied"}
	if b != nil && one.phase == policy.PhaseValidation && !slices.Contains(b.Actions, policy.Deny) {
		out.footers[0] += ", though validationActions are " + joinActions(
			b.Actions) + ": they are for validations that were evaluated"
	}
	return out
}

// outcome writes about one expression: its value, the values behind it, and the consequence.
func (t *textWriter) outcome(e Explanation, one *told, o toldOutcome, p *policy.Policy, binding *policy.Binding) {
	b := block{label: outcomeWords[o.Verdict], message: o.Field(), err: o.Err}
	switch o.Verdict {
	case celgate.Admit:
		b.style = green
		if o.mutation != nil {
			b.label = "applied"
			if o.mutation.After == nil { // null or true, or a scope without values
				b.label, b.style = "no change", yellow
			}
			if o.mutation.Dropped {
				b.label, b.style = "dropped", yellow
			}
		}
	case celgate.Denied, celgate.Error:
		b.style = red
	case celgate.Skip:
		b.style = yellow
		if ruleOf(p, o.Field()) != nil {
			b.label = "left out"
		}
	}
	if name := conditionName(p, o.Field()); name != "" {
		b.message += " (" + name + ")"
	}
	if o.Message != "" {
		b.message += ": " + headline(o.Message, o.Err, *o.Expr)
	}
	if o.Verdict != celgate.Admit && !o.Expr.IsZero() {
		b.expr, b.mark = *o.Expr, trimMark(o.Expr.Src)
	}
	for _, v := range o.variables {
		b.footers = append(b.footers, v.Evaluation.Policy.FullName(v.Variable)+" = "+v.Value)
	}
	if x := o.evaluation; x != nil {
		r := x.Reason
		r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(s explain.Step) bool {
			return hasLine(b.footers, s.Text+" = ")
		})
		variables := b.footers
		b.footers = nil
		if b.expr.IsZero() {
			variables = append(variables, valueLines(r.Values, e.provenance)...)
		} else {
			b = b.addReason(r, e.provenance)
		}
		b.footers = append(variables, b.footers...)
		if o.Verdict == celgate.Error {
			b.hint = hintFor(failing{message: o.Message, err: o.Err, expr: r.Expr, request: e.Request,
				param: one.param})
		} else if o.Verdict == celgate.Denied {
			b.hint = falseHint(r.Expr.Src)
		}
	}
	b.footers = append(b.footers, t.consequence(e, one, o, p, binding)...)
	if o.mutation != nil {
		b.diff = t.mutation(o)
		if m := o.mutation; m.After != nil && b.hint == "" {
			b.hint = overwriteHint(t.o.Set, celgate.Change{Kind: o.Kind, Policy: o.Policy, Before: m.Before,
				After: m.After})
		}
	}
	t.block(b)
}

func conditionName(p *policy.Policy, field string) string {
	if p == nil {
		return ""
	}
	for _, c := range p.MatchConditions {
		if c.Expr.Field == field {
			return c.Name
		}
	}
	return ""
}

// actionsOf returns the actions of the violation of an outcome, which for a template may differ from those of the
// binding; or else other, as with combine: Any.
func actionsOf(d *celgate.Decision, o celgate.Outcome, other []policy.Action) []policy.Action {
	for _, v := range d.Violations {
		if v.Kind == o.Kind && v.Policy == o.Policy && v.Binding == o.Binding && v.Param == o.Param &&
			v.Scope == o.Scope && v.Expr.Field == o.Field() {
			return v.Actions
		}
	}
	return other
}

// consequence describes the effect of a failed validation or an error.
func (t *textWriter) consequence(e Explanation, one *told, o toldOutcome, p *policy.Policy,
	b *policy.Binding) []string {
	if p == nil {
		return nil
	}
	condition := conditionName(p, o.Field()) != ""
	switch o.Verdict {
	case celgate.Skip:
		switch {
		case slices.ContainsFunc(p.Mutations, func(m policy.Mutation) bool {
			return m.Condition.Field == o.Field() && !m.RunsOnce()
		}):
			return []string{"the mutation is not made for some values"}
		case strings.HasPrefix(o.Field(), "spec.mutations"):
			return []string{"the mutation is not made"}
		case ruleOf(p, o.Field()) != nil:
			return nil
		}
		return []string{"the policy is skipped, regardless of the other match conditions"}
	case celgate.Denied:
		if o.Phase == policy.PhaseMutation {
			return []string{"the mutation denies the request, regardless of failurePolicy"}
		}
		if rule := ruleOf(p, o.Field()); b != nil && rule != nil {
			actions := actionsOf(e.Decision, o.Outcome, b.ActionsOn(rule))
			return []string{"validationActions " + joinActions(actions) + actionWords(actions)}
		}
	case celgate.Error:
		switch {
		case refuses(e.Decision, o.Outcome):
			return []string{fmt.Sprintf("the API server answers %s, regardless of failurePolicy (here %s)",
				codeOf(e.Decision), p.FailurePolicy)}
		case condition && slices.ContainsFunc(one.outcomes,
			func(x toldOutcome) bool { return x.Verdict == celgate.Skip }):
			return []string{"another match condition is false, which counts more than an error"}
		case p.FailurePolicyOf(ruleOf(p, o.Field())) == policy.Ignore:
			return []string{"failurePolicy Ignore: the error changes nothing"}
		case strings.HasPrefix(o.Field(), "spec.auditAnnotations") && b != nil &&
			!slices.Contains(b.Actions, policy.Deny) && slices.Contains(b.ActionsOnMisconfiguration(), policy.Deny):
			return []string{"failurePolicy Fail: an error in an audit annotation denies, though validationActions are " + joinActions(b.Actions)}
		case one.phase == policy.PhaseValidation && b != nil:
			actions := actionsOf(e.Decision, o.Outcome, b.ActionsOnError(ruleOf(p, o.Field())))
			return []string{"failurePolicy Fail makes the error a failed validation, with validationActions " +
				joinActions(actions) + actionWords(actions)}
		}
		return []string{"failurePolicy Fail: the error denies the request"}
	}
	return nil
}

// ruleOf returns the validation with the expression at a field; nil for other expressions.
func ruleOf(p *policy.Policy, field string) *policy.Validation {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.Validations, func(x policy.Validation) bool { return x.Expr.Field == field })
	if i < 0 {
		return nil
	}
	return &p.Validations[i]
}

func actionWords(actions []policy.Action) string {
	if slices.Contains(actions, policy.Deny) {
		return ""
	}
	return ": the request is not denied for it"
}

var plainPath = pattern.New(`^(?:has\()?object((?:\.\w+|\[\d+\]|\["[^"\\]*"\])+)\)?$`)
var pathStep = pattern.New(`\.(\w+)|\[(\d+)\]|\["([^"\\]*)"\]`)

// provenance says where a value of the object comes from, unless it is in the manifest.
func (e Explanation) provenance(text string) string {
	m := plainPath().FindStringSubmatch(text)
	if m == nil || e.Given == nil || e.Request.Object == nil {
		return ""
	}
	given, inGiven := follow(e.Given, m[1])
	prepared, inPrepared := follow(e.Request.Object, m[1])
	switch {
	case inGiven && !inPrepared && !isEmpty(given):
		return "   (in the manifest, but not in the server's form of it)"
	case !inGiven && inPrepared && !isEmpty(prepared):
		return "   (filled in by the server)"
	case inGiven && inPrepared && scalar(given) && fmt.Sprint(given) != fmt.Sprint(prepared):
		return fmt.Sprintf("   (the manifest says %v)", given)
	}
	return ""
}

func follow(v any, path string) (any, bool) {
	for _, m := range pathStep().FindAllStringSubmatch(path, -1) {
		if list, ok := v.([]any); ok {
			i, err := strconv.Atoi(m[2])
			if err != nil || i >= len(list) {
				return nil, false
			}
			v = list[i]
			continue
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = object[m[1]+m[3]]; !ok {
			return nil, false
		}
	}
	return v, true
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// mutation describes the changes of a mutation, or why it could not be applied.
func (t *textWriter) mutation(o toldOutcome) []string {
	m := o.mutation
	kind := t.o.typeOf(m.Before)
	var lines []string
	if t.o.Objects {
		lines = append(lines, "the object before it:")
		lines = append(lines, yamlLines(m.Before, kind)...)
	}
	ops, isPatch := m.Patch.([]any)
	switch {
	case m.Dropped:
		op, _ := ops[m.Stopped].(map[string]any)
		path := fmt.Sprint(op["path"])
		was, found := followPointer(m.Before, path)
		holds := "nothing"
		if found {
			holds = strings.TrimSpace(inlineYAML(was))
		}
		lines = append(lines, fmt.Sprintf("test %s: the object has %s, not %s: the whole patch is dropped, and that is not an error", path, holds, inlineYAML(op["value"])))
		return lines
	case o.Verdict == celgate.Error && m.Patch != nil:
		lines = append(lines, "the patch:")
		for _, l := range limitLines(yamlLines(m.Patch, nil), longestPatch) {
			lines = append(lines, "  "+l)
		}
		if isPatch && m.Stopped >= 0 && m.Stopped < len(ops) {
			if op, ok := ops[m.Stopped].(map[string]any); ok {
				if text := missingText(m.Before, fmt.Sprint(op["path"])); text != "" {
					lines = append(lines, "before it: "+text)
				}
			}
		}
		return lines
	case m.After == nil:
		return lines
	}
	hunks := func(title string, before, after map[string]any) {
		diff := rewrite.Diff(before, after, kind)
		if len(diff) == 0 {
			return
		}
		lines = append(lines, title)
		var all []string
		for _, h := range diff {
			if h.Path != "" {
				all = append(all, "@ "+h.Path)
			}
			all = append(all, h.Lines...)
		}
		lines = append(lines, limitLines(all, longestDiff)...)
	}
	shown := len(lines)
	hunks("changes:", m.Before, m.Patched)
	if len(lines) == shown {
		lines = append(lines, "changes nothing")
	}
	lines = append(lines, orders("", m.Before, m.After)...)
	hunks("normalised by the server before the next step:", m.Patched, m.After)
	return lines
}

// longestPatch is the number of lines shown of a patch that could not be applied.
const longestPatch = 24

func limitLines(lines []string, most int) []string {
	if more := len(lines) - most; more > 1 {
		return append(lines[:most:most], fmt.Sprintf("  and %d more lines", more))
	}
	return lines
}

// orders describes the new order of lists of named items with a new item that is not the last.
func orders(path string, before, after any) []string {
	var all []string
	switch after := after.(type) {
	case map[string]any:
		was, _ := before.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(after)) {
			all = append(all, orders(strings.TrimPrefix(path+"."+key, "."), was[key], after[key])...)
		}
	case []any:
		was, _ := before.([]any)
		old := map[string]bool{}
		for _, name := range names(was) {
			old[name] = true
		}
		now := names(after)
		moved, fresh := false, false
		for _, name := range now {
			fresh = fresh || !old[name]
			moved = moved || fresh && old[name]
		}
		if len(was) > 0 && len(now) == len(after) && moved {
			all = append(all, fmt.Sprintf("order of %s: %s (merged by name, in the order of the patch)", path,
				strings.Join(now, ", ")))
		}
	}
	return all
}

func names(items []any) []string {
	var all []string
	for _, item := range items {
		object, _ := item.(map[string]any)
		if name, ok := object["name"].(string); ok {
			all = append(all, name)
		}
	}
	return all
}

// followPointer returns the value at a JSON pointer.
func followPointer(v any, pointer string) (any, bool) {
	path := strings.Split(pointer, "/")[1:]
	for i, step := range path {
		path[i] = tree.UnescapeToken(step)
	}
	return tree.Find(v, path)
}

// missingText says which part of a JSON pointer exists in an object.
func missingText(object map[string]any, pointer string) string {
	steps := strings.Split(pointer, "/")
	for n := len(steps) - 1; n >= 1; n-- {
		parent := strings.Join(steps[:n], "/")
		at, ok := followPointer(object, parent)
		if !ok {
			continue
		}
		if n == len(steps)-1 {
			return ""
		}
		holder, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		name := strings.ReplaceAll(strings.TrimPrefix(parent, "/"), "/", ".")
		if name == "" {
			name = "the object"
		}
		return fmt.Sprintf("%s has %s, but no %s", name, strings.Join(slices.Sorted(maps.Keys(holder)), ", "), steps[n])
	}
	return ""
}

func yamlLines(v any, t *shape.Type) []string {
	var text string
	if object, ok := v.(map[string]any); ok {
		text = rewrite.YAML(object, t)
	} else if list, ok := v.([]any); ok {
		for _, item := range list {
			object, _ := item.(map[string]any)
			for i, l := range strings.Split(strings.TrimRight(rewrite.YAML(object, nil), "\n"), "\n") {
				if i == 0 {
					text += "- " + l + "\n"
				} else {
					text += "  " + l + "\n"
				}
			}
		}
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// inlineYAML formats a value as one line of YAML.
func inlineYAML(v any) string {
	text := strings.TrimSpace(rewrite.YAML(map[string]any{"v": v}, nil))
	return strings.Join(strings.Fields(strings.TrimPrefix(text, "v:")), " ")
}

func (o Options) typeOf(object map[string]any) *shape.Type {
	if o.Types == nil {
		return nil
	}
	apiVersion, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	return o.Types.Type(schema.GroupVersionKind{Group: group, Version: version, Kind: name})
}

// nameRejected names the invalid policies and bindings, which are left out.
func (t *textWriter) nameRejected() string {
	var names []string
	for _, r := range t.o.Rejected {
		names = append(names, r.Ref.String())
	}
	if more := len(names) - 3; more > 0 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// writeEnding describes the result of the request, and the parts that may differ on a server.
func (t *textWriter) writeEnding(e Explanation) {
	d := e.Decision
	switch {
	case d.Allowed && len(t.o.Rejected) > 0:
		t.line("allowed, but without " + t.nameRejected() + ", which the API server refuses to store")
	case d.Allowed:
		t.line("allowed")
	case d.Status != nil:
		t.writeTitled(red, "denied", fmt.Sprintf("%d %s: %s", d.Status.Code, d.Status.Reason, d.Status.Message))
	}
	denials := 0
	for _, v := range d.Violations {
		if severityOf(v) == policy.Deny {
			denials++
		}
	}
	if denials > 1 {
		t.block(block{label: "note", style: cyan,
			message: fmt.Sprintf("%d denials, of which the API server reports one: the first of the policy that it evaluates first", denials)})
	}
	for _, w := range d.Warnings {
		t.block(block{label: "warning", style: yellow, message: w.Text})
	}
	for _, key := range slices.Sorted(maps.Keys(d.AuditAnnotations)) {
		if key == ofEveryPod {
			continue
		}
		t.block(block{label: "audit annotation " + key, audit: key, style: cyan, message: d.AuditAnnotations[key]})
	}
	for _, n := range d.Notes {
		t.block(block{label: "note", style: cyan, message: n.Message})
	}
	if parts := uncheckedOf(d); len(parts) > 0 {
		t.block(block{label: unchecked, style: cyan, message: strings.Join(parts, ", ")})
	}
	for _, o := range e.Orders {
		b := block{label: "note", style: cyan,
			message: "the server's order of policies is random, and asked in the order " + strings.Join(o.Policies,
				", ") + " the result is another one:"}
		switch {
		case !o.Decision.Allowed && o.Decision.Status != nil:
			b.diff = []string{"denied: " + o.Decision.Status.Message}
		case !d.Allowed && len(o.Changes) == 0:
			b.diff = []string{"not denied"}
		}
		for _, c := range o.Changes {
			for _, h := range rewrite.Diff(c.Before, c.After, t.o.typeOf(c.After)) {
				if h.Path != "" {
					b.diff = append(b.diff, "@ "+h.Path)
				}
				b.diff = append(b.diff, h.Lines...)
			}
		}
		b.diff = limitLines(b.diff, longestDiff)
		t.block(b)
	}
}

func hasLine(lines []string, prefix string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) })
}
