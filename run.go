package celgate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// A run is the state of one request in one phase.
type run struct {
	progress
	validator eval.Validator
	lookUp    func(name string) (map[string]any, error) // the method namespace as a value, made once
	permits   func(policy.Permission) bool              // the method of the authorizer, likewise
}

// A progress is what a run has found so far.
type progress struct {
	inputs
	matcher
	engine     *Engine
	decision   *Decision
	meter      bound.Meter
	evaluating *hook
	mentioning []*hook // with outcomes, of policies that mention something that is not simulated

	made []Change // by the mutating policies of this request, as far as they are known

	sharesLabels bool // see prepare.Result; of the object after the mutating policies
}

func (e *Engine) run(ctx context.Context, req *Request, known *indexEntry) *run {
	r := runs.Get().(*run)
	r.inputs.begin(ctx, e, req, known)
	r.matcher.begin(ctx, e, req, known, r.lookUp)
	r.world.Permitted = r.permits
	r.engine, r.decision = e, newDecision(req)
	r.meter.Limits, r.meter.Pool, r.meter.Done = e.limits, e.pool, ctx.Done()
	return r
}

// runMutation begins a run of the mutating policies.
func (e *Engine) runMutation(ctx context.Context, p *Prepared, known *indexEntry) *run {
	r := e.run(ctx, &p.request, known)
	r.normal, r.sharesLabels = p.normal, p.sharesLabels
	return r
}

// runs are unused runs.
var runs = sync.Pool{New: func() any {
	r := new(run)
	r.lookUp, r.permits = r.namespace, r.authorizer.permits
	return r
}}

// release returns the memory of the run to the pool, unless a listener may have kept values of expressions.
func (r *run) release() {
	r.meter.End()
	if r.hasListener() {
		return
	}
	r.validator.Release()
	r.progress = progress{}
	runs.Put(r)
}

// values returns the inputs of the expressions of one invocation of a validating policy.
func (r *run) values(in *invocation, v *versioned) (values eval.Inputs) {
	r.evaluating = in.hook
	r.fill(&values, in, v)
	values.Witness, values.Meter = r, &r.meter
	return values
}

// NoteLoop implements eval.Witness.
func (r *run) NoteLoop(uint64) {
	if r.engine.quirks.Has(quirks.SlowLoop) {
		r.decision.note(quirks.SlowLoop, r.evaluating.Name)
	}
}

// NoteQuirk implements eval.Witness.
func (r *run) NoteQuirk(id quirks.ID) {
	if r.engine.quirks.Has(id) {
		r.decision.note(id, r.evaluating.Name)
	}
}

// NoteVariable implements eval.Witness.
func (r *run) NoteVariable(variable string, failed bool) {
	if !r.engine.metered {
		return
	}
	h, all := r.evaluating, r.decision.Resolutions()
	variable = strings.TrimPrefix(h.FullName(variable), "variables.")
	i := len(all) - 1
	for i >= 0 && all[i].Policy == h.Name && all[i].Kind == h.Kind && all[i].Variable != variable {
		i--
	}
	if i < 0 || all[i].Policy != h.Name || all[i].Kind != h.Kind {
		all = append(all, Resolution{Kind: h.Kind, Policy: h.Name, Variable: variable})
		i = len(all) - 1
	}
	if all[i].Times++; failed {
		all[i].Failed++
	}
	r.decision.addRare().resolutions = all
}

// spend records the use of a budget by an invocation.
func (r *run) spend(in *invocation, budget string, units int64) {
	of := int64(Budget)
	if budget == OfMatchConditions {
		of = MatchConditionBudget
	}
	r.decision.Cost += min(units, of)
	if r.engine.metered {
		more := r.decision.addRare()
		more.spendings = append(more.spendings, Spending{
			Kind: in.hook.Kind, Phase: in.hook.phase, Policy: in.hook.Name, Binding: in.binding.Name,
			Param: in.paramName(), Budget: budget, Units: units, Of: of})
	}
}

// costExcess returns the outcome of a policy that is not evaluated because of the cost of the policies before; nil if
// it may be evaluated.
func (r *run) costExcess() *eval.Outcome {
	if r.engine.mostCost == 0 || r.decision.Cost <= r.engine.mostCost {
		return nil
	}
	err := textError{fmt.Sprintf("not evaluated: the policies before it cost %d CEL cost units, "+
		"and the limit of a request is %d", r.decision.Cost, r.engine.mostCost), ErrRequestCost}
	return &eval.Outcome{Verdict: eval.Error, Message: err.Error(), Err: err}
}

// noteExcess notes that a server needs more resources for an invocation than celgate serve allows.
func (r *run) noteExcess(in *invocation) {
	if taken, refused := r.meter.Excess(); taken != (bound.Size{}) && !r.engine.standsIn {
		text := "policy " + in.hook.Name + ": the API server needs " + taken.String() + " for this"
		if refused {
			text += ", celgate stopped before that: the server's answer, if it gives one, is not known"
		}
		r.decision.addNote(Note{Message: text})
	}
}

// noteNoParams notes that a binding has no effect because its param is missing.
func (r *run) noteNoParams(in *invocation) {
	h, b := in.hook, in.binding
	n := Note{Message: fmt.Sprintf("binding %q of policy %q does not select a param (%s): with parameterNotFoundAction Allow it has no effect",
		b.Name,
		h.Name,
		r.wantedParams(h, b),
	),
	}
	r.decision.addNote(n)
}

// begins records that an invocation of a policy of the dialect begins, unless the engine replaces the server.
func (r *run) begins(in *invocation) {
	if (in.hook.Kind == policy.Admission || in.binding.Kind == policy.Admission) && !r.engine.standsIn {
		r.decision.rememberPolicy(in.hook.Ref())
	}
	r.tellRun(in, "")
}

// tellRun reports that an invocation begins, or why it does not in the second pass.
func (r *run) tellRun(in *invocation, whyNot string) {
	if !r.hasListener() {
		return
	}
	if whyNot != "" {
		found := explain.Match{Kind: in.hook.Kind, Phase: in.hook.phase, Policy: in.hook.Name, Binding: in.binding.Name,
			By: "reinvocationPolicy", Reason: whyNot}
		r.tell(in.hook, in.binding, in, explain.Event{Op: explain.OpMatch, Match: &found})
		return
	}
	r.tell(in.hook, in.binding, in, explain.Event{Op: explain.OpRun})
}

var noExpression policy.Expr

// record adds outcomes to the decision.
func (r *run) record(in *invocation, outcomes []eval.Outcome) {
	if r.decision.Outcomes == nil {
		r.decision.Outcomes = make([]Outcome, 0, r.known.candidates(in.hook.phase).outcomes)
	}
	if in.left > 1 { // the estimate was one param for each binding
		r.decision.Outcomes = slices.Grow(r.decision.Outcomes, in.left*in.hook.expressions())
	}
	if !in.hook.mentions.IsEmpty() && len(outcomes) > 0 &&
		(len(r.mentioning) == 0 || r.mentioning[len(r.mentioning)-1] != in.hook) {
		r.mentioning = append(r.mentioning, in.hook)
	}
	param := in.paramName()
	from := len(r.decision.Outcomes)
	r.decision.Outcomes = slices.Grow(r.decision.Outcomes, len(outcomes))[:from+len(outcomes)]
	for i := range outcomes {
		o, to := &outcomes[i], &r.decision.Outcomes[from+i]
		to.Kind, to.Phase, to.Policy = in.hook.Kind, in.hook.phase, in.hook.Name
		to.Binding, to.Param = in.binding.Name, param
		to.Verdict, to.Message, to.Err, to.Cost, to.Scope = verdicts[o.Verdict], o.Message, o.Err, o.Cost, o.Scope
		if to.Expr = &noExpression; o.Expression != nil {
			to.Expr = &o.Expression.Expr
		}
		to.Rule = in.hook.rule(o)
		if r.hasListener() {
			r.tell(in.hook, in.binding, in, explain.Event{Op: explain.OpOutcome, Outcome: r.told.outcomes + from + i})
		}
	}
}

func (r *run) violation(in *invocation, o eval.Outcome, actions []policy.Action) {
	v := Violation{
		Kind: in.hook.Kind, Phase: in.hook.phase, Policy: in.hook.Name, Binding: in.binding.Name,
		Param: in.paramName(), Message: o.Message, Reason: o.Reason, Actions: actions,
		IsError: o.Verdict == eval.Error, Err: o.Err, Expr: expression(o.Expression), Scope: o.Scope, index: o.Index,
	}
	if rule := in.hook.rule(&o); rule != nil {
		v.Validation, v.Code = rule.Name, rule.Code
	}
	r.shield(&v, in.binding.Binding)
	r.decision.Violations = append(r.decision.Violations, v)
}

// shield applies a binding's visibility to a violation.
func (r *run) shield(v *Violation, b *policy.Binding) {
	v.tellsDryRun = b.Visibility.DryRun == policy.AlwaysTell
	if b.Visibility.Violations != policy.AdminSees {
		return
	}
	v.Reference = reference(r.UID, v.Policy, v.Binding, v.Param, v.Scope, strconv.Itoa(len(r.decision.Violations)))
}

// configurationViolation denies under failurePolicy Fail, whatever the actions of the binding, unless the binding
// defines actions for errors.
func (r *run) configurationViolation(e *configurationError) {
	if e.hook.FailurePolicy == policy.Ignore {
		return
	}
	v := Violation{
		Kind: e.hook.Kind, Phase: e.hook.phase, Policy: e.hook.Name, Message: e.Error(), IsError: true, Err: e,
	}
	if e.binding != nil {
		v.Binding, v.Actions = e.binding.Name, e.binding.ActionsOnMisconfiguration()
		r.shield(&v, e.binding.Binding)
	} else {
		v.Actions = []policy.Action{policy.Deny}
	}
	r.decision.Violations = append(r.decision.Violations, v)
}

var verdicts = [...]Verdict{eval.Admit: Admit, eval.Deny: Denied, eval.Error: Error, eval.Skip: Skip}

// clock returns the current time if timings are requested.
func (r *run) clock() time.Time {
	if !r.engine.timed {
		return time.Time{}
	}
	return time.Now()
}

// A beginning is the time at which an invocation begins, and the cost until then.
type beginning struct {
	at    time.Time
	spent int64
}

func (r *run) beginning() beginning { return beginning{r.clock(), r.decision.Cost} }

// addTiming adds the time and the cost of an invocation to the decision.
func (r *run) addTiming(in *invocation, from beginning) {
	if !r.engine.timed {
		return
	}
	more := r.decision.addRare()
	if more.timings == nil {
		more.timings = make([]Timing, 0, len(r.known.candidates(in.hook.phase).hooks))
	}
	more.timings = append(more.timings, Timing{
		Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: in.paramName(),
		Elapsed: time.Since(from.at), Cost: r.decision.Cost - from.spent,
	})
}
