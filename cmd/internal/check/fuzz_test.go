package check_test

import (
	"testing"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

// FuzzRun finds expressions that analyzers cannot stand: there must be no panic, and places lie within the text.
func FuzzRun(f *testing.F) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("object.spec.replicas <= 5", "object.metadata.labels['é'] == params.data.x", "apps", "deployments")
	f.Add("Object{spec: Object.spec{replicas: 'x', a: [Object.b{}]}}",
		"object.spec.containers.filter(c, has(c.image)).map(c, c.image + '\\n')", "", "pods")
	f.Add("[JSONPatch{op: 'add', path: '/spec/a~1b/-', value: {'a': [1u]}}]",
		"variables.v ? variables.v.x : object.?a[?'b'].c", "*", "*/scale")
	f.Add("object.x.optMap(v, v.y).orValue(namespaceObject.metadata.UID)", "authorizer.requestResource.check('x')", "",
		"nodes")
	f.Fuzz(func(t *testing.T, a, b, group, resource string) {
		rules := &policy.MatchResources{ResourceRules: []policy.Rule{{
			APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource},
			Operations: []string{"*"},
		}}}
		expr := func(src, field string) policy.Expr { return policy.Expr{Src: src, Field: field} }
		set := &policy.Set{}
		for _, kind := range []policy.Kind{policy.Validating, policy.Mutating} {
			p := &policy.Policy{
				Kind: kind, APIVersion: "admissionregistration.k8s.io/v1", Name: "p", MatchConstraints: rules,
				MatchConditions: []policy.NamedExpr{{Name: "c", Expr: expr(b, "spec.matchConditions[0].expression")}},
				Variables:       []policy.NamedExpr{{Name: "v", Expr: expr(b, "spec.variables[0].expression")}},
			}
			if kind == policy.Validating {
				p.Validations = []policy.Validation{
					{Expr: expr(a, "spec.validations[0].expression"), Message: a,
						MessageExpr: expr(b, "spec.validations[0].messageExpression")}}
				p.AuditAnnotations = []policy.NamedExpr{
					{Name: "k", Expr: expr(b, "spec.auditAnnotations[0].valueExpression")}}
			} else {
				p.Mutations = []policy.Mutation{
					{PatchType: policy.ApplyConfiguration,
						Expr: expr(a, "spec.mutations[0].applyConfiguration.expression")},
					{PatchType: policy.JSONPatch, Expr: expr(b, "spec.mutations[1].jsonPatch.expression")}}
			}
			set.Policies = append(set.Policies, p)
			set.Bindings = append(set.Bindings,
				&policy.Binding{Kind: kind, Name: "b", PolicyName: "p", MatchResources: rules})
		}
		found, err := check.Run(t.Context(), check.Input{Set: set, Types: types, KubeVersion: "1.37"},
			check.Analyzers()...)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			if d.From < 0 || d.To < d.From || d.To > len(d.Expr.Src) {
				t.Errorf("%s: %d..%d is not within %q", d.Code, d.From, d.To, d.Expr.Src)
			}
			if d.Message == "" || d.Code == "" {
				t.Errorf("a diagnostic without words: %+v", d)
			}
		}
	})
}
