package prove

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

const failingPolicies = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}
  matchConditions:
  - {name: guard, expression: has(object.metadata.labels)}
  - {name: guarded, expression: "object.metadata.labels.all(k, k != 'skip')"}
  - {name: open, expression: object.metadata.annotations.size() > 0}
  variables:
  - {name: team, expression: "object.metadata.labels['team']"}
  - {name: app, expression: "object.metadata.labels['app']"}
  - {name: unused, expression: "object.metadata.labels['unused']"}
  - {name: allowed, expression: "authorizer.path('/x').check('get').allowed()"}
  - {name: number, expression: "int(object.metadata.annotations['n'])"}
  validations:
  - expression: object.metadata.labels.size() < 5
    messageExpression: "'team ' + variables.team"
  - expression: has(object.metadata.labels.app) && variables.app != 'x'
    messageExpression: "'app ' + object.metadata.labels.app"
  - expression: object.spec.containers[0].image != 'a'
    messageExpression: "object.spec.containers[0].image + ' is not allowed'"
  - expression: object.spec.containers[1].image != 'a'
  - expression: object.spec.containers.all(c, c.name != 'a' || c.resources.limits['cpu'] != '1')
    messageExpression: "variables.allowed ? 'a' : 'b'"
  - expression: "object.spec.containers[0].image.split('/').size() > 0"
  - expression: "object.metadata.annotations.all(k, k != 'n' || variables.number > 3)"
  - expression: "!has(object.spec.priority) || object.spec.priority + 1 > 0"
  auditAnnotations:
  - {key: a, valueExpression: "'team ' + variables.team"}
  - {key: b, valueExpression: "string(object.metadata.?labels.?team.orValue('none'))"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: m}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: open, expression: "object.metadata.labels['a'] != 'b'"}
  reinvocationPolicy: Never
  variables:
  - {name: image, expression: "object.spec.containers[1].image"}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'x': object.metadata.labels['y']}}}"
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'z': object.metadata.labels['x']}}}"
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'i': variables.image}}}"
  - patchType: JSONPatch
    jsonPatch:
      expression: "[JSONPatch{op: 'remove', path: '/spec/nodeName'}]"
  - patchType: JSONPatch
    jsonPatch:
      expression: "[JSONPatch{op: 'add', path: '/metadata/labels/q', value: 'n'}]"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: m}
spec: {policyName: m}
`

func TestErrorFree(t *testing.T) {
	want := map[string]Answer{
		"p spec.matchConditions[0].expression":              Proved,
		"p spec.matchConditions[1].expression":              Proved, // the first one guards it
		"p spec.matchConditions[2].expression":              Counterexample,
		"p spec.variables[0].expression":                    Counterexample,
		"p spec.variables[1].expression":                    Proved,
		"p spec.variables[2].expression":                    Proved,
		"p spec.variables[3].expression":                    Counterexample, // a message does not have an authorizer
		"p spec.variables[4].expression":                    Counterexample,
		"p spec.validations[0].expression":                  Proved,
		"p spec.validations[0].messageExpression":           Counterexample,
		"p spec.validations[1].expression":                  Proved,
		"p spec.validations[1].messageExpression":           Counterexample,
		"p spec.validations[2].expression":                  Proved,
		"p spec.validations[2].messageExpression":           Proved,
		"p spec.validations[3].expression":                  Counterexample,
		"p spec.validations[4].expression":                  Counterexample,
		"p spec.validations[4].messageExpression":           Counterexample,
		"p spec.validations[5].expression":                  Proved,
		"p spec.validations[6].expression":                  Counterexample,
		"p spec.validations[7].expression":                  Proved,
		"p spec.auditAnnotations[0].valueExpression":        Counterexample,
		"p spec.auditAnnotations[1].valueExpression":        Proved,
		"m spec.matchConditions[0].expression":              Counterexample,
		"m spec.variables[0].expression":                    Counterexample,
		"m spec.mutations[0].applyConfiguration.expression": Counterexample,
		"m spec.mutations[1].applyConfiguration.expression": Proved,
		"m spec.mutations[2].applyConfiguration.expression": Counterexample,
		"m spec.mutations[3].jsonPatch.expression":          Counterexample,
		"m spec.mutations[4].jsonPatch.expression":          Proved,
	}
	r := room(t)
	all, err := r.ErrorFree(context.Background(), sideOf(t, r, failingPolicies))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		key := f.Policy.Name + " " + f.Part.Field
		if f.Answer != want[key] {
			t.Errorf("%s: %s, want %s %+v", key, f.Answer, want[key], f.Result.Reasons)
		}
		delete(want, key)
		if f.Answer == Counterexample && f.Found.Old.Decision == nil {
			t.Errorf("%s: no decision", key)
		}
	}
	for key := range want {
		t.Errorf("%s: not asked", key)
	}
}

// TestErrorAgreement compares the conditions of errors with an engine: random expressions in all places of random
// policies, on random objects.
func TestErrorAgreement(t *testing.T) {
	want := *comparisonCount
	if want == 0 {
		want = 20_000
		if testing.Short() {
			want = 4000
		}
	}
	a := newAgreement(t, room(t), *comparisonSeed, 11)
	for a.compared < want && !t.Failed() {
		kind := agreementKinds[a.rand.IntN(len(agreementKinds))]
		g := &writer{rand: a.rand, types: a.room.Types, kind: kind}
		write := func(depth int) string { return "((" + g.boolean(depth, g.roots()) + ") && true)" }
		quiet := func(depth int) string { // a message does not have an authorizer
			text := write(depth)
			for strings.Contains(text, "authorizer") {
				text = write(depth)
			}
			return text
		}
		res := a.room.Types.ResourceFor(kind)
		a.errorsOf(kind, fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: %s
  matchConstraints:
    resourceRules:
    - {apiGroups: [%q], apiVersions: [%q], operations: [CREATE], resources: [%q]}
  matchConditions:
  - {name: a, expression: %q}
  - {name: b, expression: %q}
  variables:
  - {name: v, expression: %q}
  - {name: w, expression: %q}
  validations:
  - expression: %q
    message: not evaluated
    messageExpression: %q
  - expression: %q
    message: not evaluated
    messageExpression: "variables.w ? 'x' : 'y'"
  - expression: variables.w
  - expression: variables.v
  auditAnnotations:
  - {key: a, valueExpression: %q}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]}
`, []string{"Fail", "Ignore"}[a.rand.IntN(2)], kind.Group, kind.Version, res.Resource,
			"true || "+write(1), write(1)+" || "+write(1), write(2), "variables.v || "+write(1),
			write(1)+" && "+write(2), quiet(2)+" ? 'x' : 'y'", "variables.v && "+write(2),
			quiet(1)+" ? 'x' : variables.w ? 'y' : 'z'"))
	}
	t.Logf("%d comparisons of %d policies: %v, outside %v", a.compared, a.expressions, a.seen, a.outside)
}

// errorsOf compares the conditions of the errors of one policy with an engine.
func (a *agreement) errorsOf(kind schema.GroupVersionKind, text string) {
	side := sideOf(a.t, a.room, text)
	of, _ := side.program()
	c := Case{Resource: a.room.Types.ResourceFor(kind), Operation: "CREATE", Kind: kind}
	parts := slices.Collect(of.Expressions())
	sizes, keys := map[string]int{}, map[string][]string{}
	var m *machine
	var req *request
	var before int
	goals := make([]solve.Formula, len(parts))
	for range 60 {
		m = newMachine(sizes, keys)
		req = newRequest(m, c, a.room.Types)
		before = len(m.unknown)
		for i, x := range parts {
			goals[i] = req.mayFail(side, x)
		}
		if m.settle() {
			break
		}
	}
	if len(m.unknown) > before {
		a.seen["outside"]++
		a.outside[m.unknown[before].what]++
		return
	}
	a.expressions++
	p := newPool(of.validations[0])
	for _, x := range parts {
		other := newPool(of.treeOf(x))
		p.texts, p.numbers = append(p.texts, other.texts...), append(p.numbers, other.numbers...)
	}
	for range objectsOfExpression {
		made, prepared := a.request(req, side, p)
		if made == nil {
			continue
		}
		engine := side.engine
		if len(m.accesses) > 0 {
			engine = a.grant(req, made, prepared, side)
		}
		prepared, err := engine.Prepare(context.Background(), made)
		if err != nil {
			a.t.Fatal(err)
		}
		d, err := engine.Validate(context.Background(), prepared)
		if err != nil {
			a.t.Fatal(err)
		}
		if slices.ContainsFunc(d.Outcomes, func(o celgate.Outcome) bool {
			return strings.Contains(o.Message, "cost limit exceeded") // questions to the authorizer
		}) {
			a.seen["too expensive"]++
			continue
		}
		at, fits := assign(req, made, prepared)
		if !fits || !a.derive(at, made) {
			a.seen["larger"]++
			continue
		}
		says := m.store.Evaluate(at, goals...)
		for i, x := range parts {
			if x.Use == policy.UseVariable && len(m.accesses) > 0 { // it is an error in messages
				continue
			}
			want := isErrorFor(x, parts, d)
			a.compared++
			a.seen[fmt.Sprint(x.Use, " ", want)]++
			if says[i] != want {
				a.fail(text, prepared.Request().Object, fmt.Sprintf("%s: formula %v, engine %v", x.Field, says[i], want))
			}
		}
	}
}

// isErrorFor reports whether an expression of a policy of TestErrorAgreement is an error with an effect. Its messages
// are only missing if they are errors. The last two validations are its variables.
func isErrorFor(x policy.Part, parts []policy.Part, d *celgate.Decision) bool {
	outcomeOf := func(field string) celgate.Outcome {
		i := slices.IndexFunc(d.Outcomes, func(o celgate.Outcome) bool { return o.Field() == field })
		if i < 0 {
			return celgate.Outcome{}
		}
		return d.Outcomes[i]
	}
	fails := func(field string) bool { return outcomeOf(field).Verdict == celgate.Error }
	switch {
	case x.Use == policy.UseMatchCondition:
		return fails(x.Field) && !slices.ContainsFunc(parts, func(c policy.Part) bool {
			return c.Use == policy.UseMatchCondition && outcomeOf(c.Field).Verdict == celgate.Skip
		})
	case x.Use == policy.UseMessageExpression:
		o := outcomeOf(strings.TrimSuffix(x.Field, "messageExpression") + "expression")
		return o.Verdict == celgate.Denied && o.Message == "not evaluated"
	case x.Name == "v":
		return fails("spec.validations[3].expression")
	case x.Name == "w":
		return fails("spec.validations[2].expression")
	}
	return fails(x.Field)
}
