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

// Explain decides about a request as [Engine.Admit] does, or with how.MutatingOnly as [Engine.Mutate] does, and tells
// how the decision comes about. That is slow, and the first time the policies in force are compiled for it.
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

// Observable returns the expressions of the policies in force with their branches, which [explain.Options].Observe is
// told of.
func (e *Engine) Observable() ([]explain.Observed, error) {
	h, err := e.watched.hooks(watchBranches, e.watch)
	return h.observed, err
}

// explainEngine returns the engine for one call: with the policies in the order that is asked for, as programs that
// tell what happens in them.
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

// listener makes of what evaluations tell what the caller is told.
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
			seen := explain.Observation{Policy: p, Expr: x, Branch: branch}
			switch value {
			case types.True:
				seen.Value = explain.BranchTrue
			case types.False:
				seen.Value = explain.BranchFalse
			}
			how.Observe(seen)
		}
	}
	return l
}

// watch compiles the policies in force for those who want to know what happens in them.
func (e *Engine) watch(what watches) (watchedHooks, error) {
	type watched struct {
		hook     *hook
		observed []explain.Observed
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
			var branches map[string][]explain.Branch
			if copied.Program, branches, w.err = compile.Observe(e.envs, copied.Program); w.err != nil {
				return w
			}
			if h.Mutates() && h.phase == policy.PhaseValidation {
				return w // its hook of the other phase has said so
			}
			for x := range h.Policy.Expressions() {
				w.observed = append(w.observed,
					explain.Observed{Policy: h.Policy, Field: x.Field, Branches: branches[x.Field]})
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
		found.observed = append(found.observed, w.observed...)
	}
	return found, nil
}
