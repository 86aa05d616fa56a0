package needs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/manifest"
)

const text = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: plain}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE, UPDATE]}]
  variables:
  - {name: unused, expression: request.userInfo.username}
  validations:
  - {expression: "request.operation == 'CREATE' || object.spec.hostNetwork", messageExpression: request.userInfo.username}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: user}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods, pods/exec, pods/scale], operations: ['*']}]
  variables:
  - {name: who, expression: request.userInfo}
  validations:
  - {expression: "variables.who.username != 'x'"}
  - {expression: "object.spec.hostNetwork"}
  - {expression: "oldObject == null || oldObject.spec.hostNetwork == object.spec.hostNetwork"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: condition}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  matchConditions:
  - {name: humans, expression: "!request.?userInfo.username.orValue('').startsWith('system:')"}
  validations:
  - {expression: "authorizer.group('').resource('pods').check('get').allowed()"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: connect}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods/exec], operations: [CONNECT]}]
  validations:
  - {expression: "[request].all(r, r.name != '')"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE, DELETE]}]
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': request.userInfo.username}}}"}}
`

func TestOf(t *testing.T) {
	docs, problems := manifest.Read(strings.NewReader(text), "p.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	set := manifest.NewBundle(docs...).Set
	list := func(given needs.Given) []string {
		given.Minor = "1.37"
		limits, err := needs.Find(&set, given)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, l := range limits {
			if !l.Place.IsValid() {
				t.Errorf("%+v has no place", l)
			}
			all = append(all, strings.TrimSpace(
				fmt.Sprint(l.Policy, " ", l.Need, " ", l.Field, " ", l.Whole, " ", l.Of)))
		}
		return all
	}
	same := func(name string, got []string, want ...string) {
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	same("nothing given", list(needs.Given{}),
		"user subresource spec.matchConstraints.resourceRules[0] false pods/exec, pods/scale",
		"user DELETE spec.matchConstraints.resourceRules[0] false",
		"user CONNECT spec.matchConstraints.resourceRules[0] false",
		"user user spec.validations[0].expression false",
		"user oldObject spec.validations[2].expression false",
		"condition user spec.matchConditions[0].expression true",
		"condition authorizer spec.validations[0].expression true",
		"connect subresource spec.matchConstraints.resourceRules[0] true pods/exec",
		"connect CONNECT spec.matchConstraints.resourceRules[0] true",
		"connect user spec.validations[0].expression true",
		"owner DELETE spec.matchConstraints.resourceRules[0] false",
		"owner user spec.mutations[0].applyConfiguration.expression true",
	)
	same("user and deletions given", list(needs.Given{User: true, Deletions: true}),
		"user subresource spec.matchConstraints.resourceRules[0] false pods/exec, pods/scale",
		"user CONNECT spec.matchConstraints.resourceRules[0] false",
		"user oldObject spec.validations[2].expression false",
		"connect subresource spec.matchConstraints.resourceRules[0] true pods/exec",
		"connect CONNECT spec.matchConstraints.resourceRules[0] true",
	)
}
