package proofs

import (
	"context"
	"slices"
	"strings"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/prove"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check changes the diagnostics of check by proofs, and returns the number of undecided questions. A read that is never
// an error is not reported, one that is carries the object; constant and dead parts are added. Policies with an error
// do not take part; those without a binding are bound everywhere.
func Check(ctx context.Context, in check.Input, manifest prove.Manifest, found []check.Diagnostic) (
	all []check.Diagnostic, undecided int, err error) {
	room, err := prove.NewRoom(in.Types, in.KubeVersion)
	if err != nil {
		return nil, 0, err
	}
	set, made := provable(in.Set, found)
	side, err := room.NewSide(set, manifest)
	if err != nil {
		return nil, 0, err
	}
	c := &checker{set: set, made: made, room: room, all: slices.Clone(found)}
	answers, err := room.ErrorFree(ctx, side)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range answers {
		switch a.Answer {
		case prove.Proved:
			c.refute(a.Policy, a.Part)
		case prove.Counterexample:
			c.confirm(newErrorProof(ctx, room, Set{Side: side}, a))
		default:
			undecided++
		}
	}
	vacuous, err := room.Vacuous(ctx, side)
	if err != nil {
		return nil, 0, err
	}
	for _, v := range vacuous.Found {
		c.addVacuity(v)
	}
	return c.all, undecided + vacuous.Undecided + len(side.Outside()), nil
}

// provable returns the policies without an error, and their bindings; those that do not have one get one.
func provable(set *policy.Set, found []check.Diagnostic) (out *policy.Set, made map[string]bool) {
	out, made = &policy.Set{Libraries: set.Libraries}, map[string]bool{}
	isWrong := func(ref policy.Ref) bool {
		return slices.ContainsFunc(found, func(d check.Diagnostic) bool {
			return d.Ref == ref && d.Severity == check.Error
		})
	}
	for _, p := range set.Policies {
		if isWrong(p.Ref()) {
			continue
		}
		out.Policies = append(out.Policies, p)
		bound := false
		for b := range set.EachBinding() {
			if b.Binds(p) && !isWrong(b.Ref()) {
				bound = true
				if !slices.Contains(out.Bindings, b) {
					out.Bindings = append(out.Bindings, b)
				}
			}
		}
		if bound || p.Static || p.Abstract ||
			len(p.Bindable) > 0 && !slices.Contains(p.Bindable, policy.BindableCluster) {
			continue
		}
		b := NewBinding(p)
		for set.Binding(b.Ref()) != nil {
			b.Name += "-without-bindings"
		}
		if p.ParamKind != nil {
			b.ParamRef = &policy.ParamRef{Name: "params"}
		}
		made[b.Name] = true
		out.Bindings = append(out.Bindings, b)
	}
	return out, made
}

// NewBinding returns a binding that puts a policy in force everywhere.
func NewBinding(p *policy.Policy) *policy.Binding {
	b := &policy.Binding{Kind: p.Kind, APIVersion: p.APIVersion, Name: p.Name, PolicyName: p.Name, Stored: p.Stored}
	if p.Validates() {
		b.Actions = []policy.Action{policy.Deny}
	}
	if p.Kind == policy.Admission {
		b.Actions, b.MutationActions = []policy.Action{policy.Deny}, []policy.Action{policy.Apply}
	}
	return b
}

// A checker changes diagnostics.
type checker struct {
	set  *policy.Set
	made map[string]bool // bindings that do not exist, by name
	room *prove.Room
	all  []check.Diagnostic
}

// policyOf returns a policy with an expression as it is written; nil: the expression is one of a native form.
func (c *checker) policyOf(name string, x policy.Expr) *policy.Policy {
	for _, p := range c.set.Policies {
		if p.Name == name && (x.IsZero() || p.ExpressionAt(x.Field).Src == x.Src) {
			return p
		}
	}
	return nil
}

// refute removes what checks suspect about an expression that is never an error.
func (c *checker) refute(p *policy.Policy, x policy.Part) {
	c.all = slices.DeleteFunc(c.all, func(d check.Diagnostic) bool {
		return d.Code == "CG302" && d.Ref == p.Ref() && d.Field == x.Field && d.Expr.Src == x.Src
	})
}

// confirm adds the object for which an expression is an error to the diagnostic that suspected it, or reports it.
func (c *checker) confirm(proof report.Proof) {
	e := proof.Error
	p := c.policyOf(e.Policy.Name, e.Part.Expr)
	if p == nil || e.Part.Use == policy.UseVariable { // its readers report it
		return
	}
	message := e.Message
	if _, after, ok := strings.Cut(message, "resulted in error: "); ok {
		message = after
	}
	example := c.example(proof.Found, message)
	from, to := e.Reason.From, e.Reason.To
	key, isKey := strings.CutPrefix(message, "no such key: ")
	for i := range c.all {
		d := &c.all[i]
		if isKey && d.Code == "CG302" && d.Ref == p.Ref() && d.Field == e.Part.Field &&
			strings.Contains(d.Message+" ", "."+key+" ") {
			d.Example = example
			return
		}
	}
	if e.Reason.Expr.Field != e.Part.Field || to == 0 {
		from, to = 0, len(e.Part.Src)
	}
	d := check.NewDiagnostic("CG801", p, e.Part.Expr, from, to)
	d.Message, d.Example = "is an error for the object: "+message, example
	if e.Part.Use == policy.UseMessageExpression {
		d.Severity = check.Note
	}
	c.all = append(c.all, d)
}

// example describes the request of a counterexample.
func (c *checker) example(ex *prove.Example, message string) []string {
	lines := []string{string(ex.Request.Operation) + ": " + message}
	show := func(title string, object map[string]any) {
		if object == nil {
			return
		}
		lines = append(lines, title)
		text := rewrite.YAML(object, c.room.Types.Type(tree.Object(object).Kind()))
		for line := range strings.Lines(text) {
			lines = append(lines, "  "+strings.TrimRight(line, "\n"))
		}
	}
	show("old object:", ex.Request.OldObject)
	show("object:", ex.Request.Object)
	for _, o := range ex.Existing() {
		show("existing object:", o)
	}
	return lines
}

// addVacuity reports a part without an effect, if a check does not report it already.
func (c *checker) addVacuity(v prove.Vacuity) {
	p := c.policyOf(v.Policy, v.Expr)
	if p == nil {
		return
	}
	if v.Expr.IsZero() {
		c.addBinding(p, v)
		return
	}
	code, from, to := "CG802", 0, len(v.Expr.Src)
	if v.To > 0 {
		code, from, to = "CG803", v.From, v.To
	}
	d := check.NewDiagnostic(code, p, v.Expr, from, to)
	if d.Message = v.Message; v.Binding != "" && c.isBoundTwice(p) {
		d.Message += " (binding " + v.Binding + ")"
	}
	isKnown := func(o check.Diagnostic) bool { // of has()
		return code == "CG803" && o.Code == "CG303" && o.Ref == d.Ref && o.Field == d.Field && o.From >= from &&
			o.To <= to
	}
	if !slices.ContainsFunc(c.all, isKnown) {
		c.all = append(c.all, d)
	}
}

func (c *checker) isBoundTwice(p *policy.Policy) bool {
	count := 0
	for b := range c.set.EachBinding() {
		if b.Binds(p) {
			count++
		}
	}
	return count > 1
}

func (c *checker) addBinding(p *policy.Policy, v prove.Vacuity) {
	for b := range c.set.EachBinding() {
		if b.Name != v.Binding || !b.Binds(p) || c.made[b.Name] || slices.ContainsFunc(c.all,
			func(o check.Diagnostic) bool { return o.Code == "CG015" && o.Ref == b.Ref() }) {
			continue
		}
		d := check.NewDiagnostic("CG802", p, policy.Expr{}, 0, 0)
		d.Ref, d.Field, d.Message = b.Ref(), "spec.matchResources", "the binding "+v.Message
		d.Position = b.Locate(&field.Error{Field: d.Field})
		c.all = append(c.all, d)
	}
}
