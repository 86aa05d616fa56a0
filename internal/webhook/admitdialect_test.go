package webhook_test

import (
	"strings"
	"testing"
)

// TestAdmitDialect writes policies and bindings of the dialect: objects that the commands refuse are refused, with the
// field.
func TestAdmitDialect(t *testing.T) {
	own := func(spec string) string {
		return `{"apiVersion":"policy.celgate.dev/v1alpha1","kind":"AdmissionPolicy","metadata":{"name":"p"},"spec":{` + spec +
			`,"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]}}}`
	}
	binding := func(spec string) string {
		return `{"apiVersion":"policy.celgate.dev/v1alpha1","kind":"AdmissionPolicyBinding","metadata":{"name":"p"},"spec":{` + spec + `}}`
	}
	shared := func(name, spec string) string {
		return `{"apiVersion":"policy.celgate.dev/v1alpha1","kind":"AdmissionPolicyLibrary","metadata":{"name":"` + name +
			`"},"spec":{` + spec + `}}`
	}
	mutation := func(expression string) string {
		return `"reinvocationPolicy":"Never","mutations":[{"name":"m","patchType":"JSONMergePatch","jsonMergePatch":{"expression":"` +
			expression + `"}}]`
	}
	const validation = `"validations":[{"expression":"true"}]`
	const kept = `"variables":[{"name":"v","expression":"[1].includes(1)"}],"validations":[{"expression":"[1].includes(1)"}]`
	for _, test := range []struct{ name, old, object, refused string }{
		{"both phases", "", own(mutation("{}") + "," + validation), ""},
		{"neither phase", "", own(`"variables":[]`), "mutations, validations or auditAnnotations must contain at least one item"},
		{"an unknown field", "", own(validation + `,"mutation":[]`), `unknown field "spec.mutation"`},
		{"an unknown field below", "", own(strings.Replace(mutation("{}"), `"name"`, `"title":"x","name"`, 1)),
			`unknown field "spec.mutations[0].title"`},
		{"a field that the server has", "", strings.Replace(own(validation), `"spec"`, `"status":{"order":1},"spec"`, 1), ""},
		{"of two types", "", own(mutation("1")), "spec.mutations[0].jsonMergePatch.expression: Invalid value"},
		{"of no type", "", own(mutation("nothing")), "undeclared reference to 'nothing'"},
		{"again without mutations", "", own(validation + `,"reinvocationPolicy":"Never"`), "spec.reinvocationPolicy: Forbidden"},
		{"an expression of another library", own(validation), own(`"validations":[{"expression":"[1].includes(1)"}]`),
			"undeclared reference to 'includes'"},
		{"what there was", own(kept), own(kept + `,"failurePolicy":"Ignore"`), ""},
		{"another mutation", own(mutation("{}")), own(mutation("nothing")), "undeclared reference to 'nothing'"},
		{"an import of nothing", "", own(validation + `,"imports":["none"]`), ""},
		{"an import that is given twice", "", own(validation + `,"imports":["none","none"]`), "spec.imports[1]: Duplicate value"},
		{"a library", "", shared("lib", `"functions":[{"name":"f","params":[{"name":"x","type":"int"}],"expression":"x + 1"}]`), ""},
		{"a library that imports nothing", "", shared("lib", `"imports":["none"]`), ""},
		{"a library that imports itself", "", shared("lib", `"imports":["lib"]`), "cycle lib → lib"},
		{"a function of another type", "", shared("lib", `"functions":[{"name":"f","type":"string","expression":"1"}]`),
			"spec.functions[0].expression: Invalid value: \"1\": must evaluate to string but got int"},
		{"a function of the object", "", shared("lib", `"functions":[{"name":"f","expression":"object.a"}]`),
			"undeclared reference to 'object'"},
		{"a function that calls itself", "", shared("lib", `"functions":[{"name":"f","expression":"lib.f()"}]`),
			"a function must not call itself: lib.f → lib.f"},
		{"a library with the name of a variable", "", shared("object", `"scopes":[]`), `metadata.name: Invalid value: "object"`},
		{"a library with a field of another kind", "", shared("lib", `"validations":[]`), `unknown field "spec.validations"`},
		{"a scope that is none", "", shared("lib", `"scopes":[{"name":"s","paths":["spec[0]"]}]`), "spec.scopes[0].paths[0]: Invalid value"},
		{"a selector", "", own(`"validations":[{"expression":"selectors.matches(object.metadata.labels, object.spec)"}]`), ""},
		{"a selector that is none", "", own(`"validations":[{"expression":"selectors.match(object.metadata.labels, object.spec)"}]`),
			"undeclared reference to 'selectors.match' (did you mean selectors.matches?)"},
		{"a binding", "", binding(`"policyName":"p"`), ""},
		{"a binding of nothing", "", binding(`"mutationActions":["Warn"]`), "spec.policyName: Required value"},
		{"an unknown action", "", binding(`"policyName":"p","mutationActions":["Deny"]`),
			`spec.mutationActions[0]: Unsupported value: "Deny"`},
		{"a policy twice", "", binding(`"policies":[{"name":"p"},{"name":"p"}]`), "spec.policies[1]: Duplicate value"},
		{"an unknown field of a binding", "", binding(`"policyName":"p","nonsense":"x"`), `unknown field "spec.nonsense"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := writeOwn(t, "1.37", test.old, test.object)
			if got.Allowed != (test.refused == "") || !got.Allowed && !strings.Contains(got.Result.Message, test.refused) {
				t.Errorf("%+v", got.Result)
			}
		})
	}
}
