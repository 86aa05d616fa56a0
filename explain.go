package celgate

import (
	"context"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/parallel"
	"github.com/celgate/celgate/policy"
)

// Explain decides a request like [Engine.Admit], or with how.MutatingOnly like [Engine.Mutate], and reports the steps
// towards the decision. It is slow, and its first call compiles the policies in force again.
func (e *Engine) Explain(ctx context.Context, p *Prepared, how explain.Options) (*Decision, error) {
	asked, err := e.explainEngine(how)
	if err != nil {
		return nil, err
	}
	if how.Trace != nil || how.Observe != nil {
		ctx = compile.WithListener(ctx, asked.listener(how))
	}
	if how.MutatingOnly {
		return asked.Mutate(ctx, p)
	}
	return asked.Admit(ctx, p)
}

// Branches returns the branches of the expressions of the policies in force, to which the observations of
// [explain.Options].Observe refer: those of one expression side by side, by index.
func (e *Engine) Branches() ([]explain.Branch, error) {
	h, err := e.watched.hooks(watchBranches, e.watch)
	return h.branches, err
}

// explainEngine returns an engine for one call, with the policies in the requested order, compiled so that they report
// their evaluations.
func (e *Engine) explainEngine(how explain.Options) (*Engine, error) {
	if how.Trace == nil && how.Observe == nil && how.Order == nil {
		return e, nil
	}
	asked := *e // with all of its options
	var what watches
	if how.Trace != nil {
		asked.told = &telling{tell: how.Trace}
		what |= watchValues
	}
	if how.Observe != nil {
		what |= watchBranches
	}
	if what != 0 {
		h, err := e.watched.hooks(what, e.watch)
		if err != nil {
			return nil, err
		}
		asked.index = h.index
	}
	if how.Order != nil {
		asked.index = asked.index.reorder(how.Order)
	}
	return &asked, nil
}

// listener converts events of evaluations to those of how.
func (e *Engine) listener(how explain.Options) *compile.Listener {
	l := &compile.Listener{}
	if how.Trace != nil {
		l.Trace = func(p *policy.Policy, x policy.Expr, seen compile.Seen) {
			how.Trace(explain.Event{
				Op: explain.OpEvaluate, Kind: p.Kind, Policy: p.Name, Evaluation: explain.NewEvaluation(p, x, seen),
			})
		}
	}
	if how.Observe != nil {
		l.Observe = func(p *policy.Policy, x policy.Expr, branch int, value ref.Val) {
			how.Observe(explain.Observation{Policy: p, Expr: x, Branch: branch,
				True: value == types.True, False: value == types.False})
		}
	}
	return l
}

// watch compiles the policies in force so that they report their evaluations.
func (e *Engine) watch(what watches) (watchedHooks, error) {
	type watched struct {
		hook     *hook
		branches []explain.Branch
		err      error
	}
	all := parallel.Map(e.index.hooks, func(h *hook) (w watched) {
		copied := *h
		w.hook = &copied
		if what&watchValues != 0 {
			if copied.Program, w.err = compile.Trace(e.envs, copied.Program); w.err != nil {
				return w
			}
		}
		if what&watchBranches != 0 {
			var branches map[string][]compile.Branch
			if copied.Program, branches, w.err = compile.Observe(e.envs, copied.Program); w.err != nil {
				return w
			}
			if h.Mutates() && h.phase == policy.PhaseValidation {
				return w // the hook of the other phase has reported it
			}
			for x := range h.Policy.Expressions() {
				for i, b := range branches[x.Field] {
					w.branches = append(w.branches, explain.Branch{Policy: h.Policy, Field: x.Field, Index: i,
						From: b.From, To: b.To})
				}
			}
		}
		return w
	})
	found := watchedHooks{index: &hookIndex{types: e.types}}
	for _, w := range all {
		if w.err != nil {
			return watchedHooks{}, fmt.Errorf("policy %s: %w", w.hook.Name, w.err)
		}
		found.index.hooks = append(found.index.hooks, w.hook)
		found.branches = append(found.branches, w.branches...)
	}
	return found, nil
}
