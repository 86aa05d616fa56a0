package celgate

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// templateHook returns the hook of a policy about Pods that judges the templates of workloads; nil if it has no
// bindings for them.
func (h hook) templateHook() *hook {
	constraints, ok := h.MatchConstraints.Templates()
	if !ok {
		return nil
	}
	h.phase, h.template, h.criteria = policy.PhaseValidation, true, match.Compile(constraints)
	var bindings []*compiledBinding
	for _, b := range h.bindings {
		if resources, ok := b.Scope().Templates(); ok {
			of := *b
			of.criteria = match.Compile(resources)
			if of.as != nil {
				m, _ := h.With(b.Binding).MatchConstraints.Templates()
				of.as = match.Compile(
					&policy.MatchResources{ResourceRules: m.ResourceRules, MatchPolicy: m.MatchPolicy})
			}
			bindings = append(bindings, &of)
		}
	}
	if h.bindings = bindings; len(bindings) == 0 {
		return nil
	}
	return &h
}

// templateOf returns the Pod template of an object as a Pod; nil without one.
func templateOf(object map[string]any, kind schema.GroupVersionKind) map[string]any {
	at, ok := scope.TemplateOf(kind.Group, kind.Kind)
	if !ok || object == nil {
		return nil
	}
	template := tree.Object(object).At(at.Members()...)
	if template == nil {
		return nil
	}
	return template.With(map[string]any{"apiVersion": podKind.Version, "kind": podKind.Kind})
}

// noTemplate are fields of Pods, and of requests for them, that templates do not have.
var noTemplate = func() (all []effects.Path) {
	for _, root := range []string{"object", "oldObject"} {
		for _, steps := range [][]string{{"status"}, {"apiVersion"}, {"kind"}, {"metadata", "name"},
			{"metadata", "generateName"},
			{"metadata", "namespace"}, {"metadata", "uid"}, {"metadata", "ownerReferences"}} {
			all = append(all, effects.NewPath(root, steps...))
		}
	}
	return append(all, effects.NewPath("request", "name"))
}()

// templateErrors refuses expressions of a policy about templates that read a field of noTemplate without testing
// whether it exists.
func (e *Engine) templateErrors(p *policy.Policy) (errs field.ErrorList) {
	if !p.JudgesTemplates() {
		return nil
	}
	names := e.envs.Scope(celenv.Run, false)
	defer names.Close()
	env, err := names.Env(celenv.Declared{Params: true, Authorizer: true, Extended: true})
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	for x := range p.Expressions() {
		if x.Use.Mutates() || x.Use == policy.UseCondition || x.Use == policy.UseForEach ||
			x.Use == policy.UseMutationCheck {
			continue
		}
		parsed, issues := celenv.Parse(env, x.Code())
		if len(issues.Errors()) > 0 {
			continue // as the other expressions do
		}
		for _, read := range effects.ReadsOf(parsed.NativeRep().Expr(), nil).List {
			i := slices.IndexFunc(noTemplate, func(p effects.Path) bool { return p.Contains(read.Path) })
			if i >= 0 && !read.Test && !read.Safe {
				errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: x.Field, BadValue: x.Src,
					Detail: "a Pod template does not have " + noTemplate[i].String() +
						", and spec.templates makes the policy judge templates, too"})
				break
			}
		}
	}
	return errs
}
