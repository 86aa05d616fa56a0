package celgate

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/policy"
)

var webhookConfigurations = []struct {
	phase policy.Phase
	kind  string
}{{policy.PhaseMutation, "MutatingWebhookConfiguration"}, {policy.PhaseValidation, "ValidatingWebhookConfiguration"}}

// readWebhooks compiles the webhooks of the cluster.
func (e *Engine) readWebhooks(ctx context.Context, cluster Cluster) (all foreignWebhooks) {
	for _, of := range webhookConfigurations {
		objects, err := cluster.List(ctx, admissionregistrationv1.SchemeGroupVersion.WithKind(of.kind), "")
		if err != nil {
			return foreignWebhooks{err: err}
		}
		for _, object := range objects {
			// Both kinds have the same members for matching requests.
			var c admissionregistrationv1.ValidatingWebhookConfiguration
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &c); err != nil {
				return foreignWebhooks{err: fmt.Errorf("%s %s: %w", of.kind, c.Name, err)}
			}
			for i := range c.Webhooks {
				hook, err := e.compileWebhook(&c.Webhooks[i])
				if err != nil {
					return foreignWebhooks{err: fmt.Errorf("%s %s: %w", of.kind, c.Name, err)}
				}
				if hook != nil {
					hook.phase, hook.configuration = of.phase, c.Name
					all.hooks = append(all.hooks, hook)
				}
			}
		}
	}
	return all
}

// compileWebhook compiles a webhook for matching; nil for one without rules, which is never called.
func (e *Engine) compileWebhook(w *admissionregistrationv1.ValidatingWebhook) (*foreignWebhook, error) {
	if len(w.Rules) == 0 {
		return nil, nil
	}
	constraints := &policy.MatchResources{NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
		MatchPolicy: ptr.Deref(w.MatchPolicy, admissionregistrationv1.Equivalent)}
	for _, r := range w.Rules {
		rule := policy.Rule{APIGroups: r.APIGroups, APIVersions: r.APIVersions, Resources: r.Resources,
			Scope: string(ptr.Deref(r.Scope, admissionregistrationv1.AllScopes))}
		for _, operation := range r.Operations {
			rule.Operations = append(rule.Operations, string(operation))
		}
		constraints.ResourceRules = append(constraints.ResourceRules, rule)
	}
	// The conditions of webhooks are compiled and evaluated like those of policies.
	conditions := &policy.Policy{Kind: policy.Validating, Name: w.Name,
		FailurePolicy: ptr.Deref(w.FailurePolicy, admissionregistrationv1.Fail)}
	for _, c := range w.MatchConditions {
		conditions.MatchConditions = append(conditions.MatchConditions,
			policy.NamedExpr{Name: c.Name, Expr: policy.Expr{Src: c.Expression}})
	}
	program, err := compile.Policy(e.envs, conditions)
	return &foreignWebhook{Program: program, criteria: match.Compile(constraints)}, err
}

// leaveWebhooks records the webhooks of a phase that the server would call for the present object.
func (e *Engine) leaveWebhooks(ctx context.Context, phase policy.Phase, req *Request, d *Decision) {
	switch {
	case e.server == nil || req.target().Resource.Group == policyGroup:
		return
	case e.webhooks.err != nil:
		if phase == policy.PhaseMutation {
			d.leave(fmt.Sprintf("webhooks (not known: %v)", e.webhooks.err))
		}
		return
	case len(e.webhooks.hooks) == 0:
		return
	}
	asked := *req
	asked.Object = d.Object
	r := e.run(ctx, &asked, e.index.entry(&asked))
	defer r.release()
	for _, h := range e.webhooks.hooks {
		if h.phase != phase {
			continue
		}
		called, err := r.calls(h)
		switch {
		case err != nil:
			d.leave(fmt.Sprintf("%s: the server refuses the request if it gets to this webhook: %v", h, err))
		case called:
			d.leave(h.String())
		}
	}
}

// calls reports whether the server calls a webhook for the request. The error is the reason why it refuses the request
// instead (as pkg/admission/plugin/webhook/generic/webhook.go v0.37.2).
func (r *run) calls(h *foreignWebhook) (bool, error) {
	m, err := h.criteria.Match(&r.attributes, r.world)
	if err != nil || !m.Matched || len(h.MatchConditions) == 0 {
		return m.Matched, err
	}
	v, err := r.convertTo(m.Kind)
	if err != nil {
		return false, err
	}
	in := invocation{hook: &hook{Program: h.Program, phase: policy.PhaseValidation}, resource: m.Resource, kind: m.Kind}
	inputs := r.values(&in, v)
	inputs.Request = r.request(r.attributes.Resource, m.Kind)
	conditions := eval.Match(r.ctx, h.Program, inputs)
	return conditions.Matched, conditions.Err
}
