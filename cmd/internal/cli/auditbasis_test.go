package cli

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/manifest"
)

// TestDigest tests that the hash of policies changes with a library that they import, and not with another library.
func TestDigest(t *testing.T) {
	digest := func(change ...string) string {
		t.Helper()
		docs, problems := manifest.Read(strings.NewReader(strings.NewReplacer(change...).Replace(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyLibrary
metadata: {name: names}
spec:
  functions: [{name: fits, params: [{name: text, type: string}], type: bool, expression: 'text == "a"'}]
  scopes: [{name: values, paths: ["data[*]"]}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyLibrary
metadata: {name: others}
spec: {variables: [{name: v, expression: '1'}]}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p}
spec:
  imports: [names]
  singletonPolicy: true
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{scope: names.values, expression: names.fits(scope)}]
`)), "p.yaml")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		bundle := manifest.NewBundle(docs...)
		return digestOf(&bundle.Set)
	}
	alike := digest()
	for _, change := range [][2]string{{`text == "a"`, `text == "b"`}, {"data[*]", "metadata.labels[*]"}} {
		if digest(change[0], change[1]) == alike {
			t.Errorf("%s in place of %s changes nothing", change[1], change[0])
		}
	}
	for _, change := range [][2]string{{"'1'", "'2'"}, {"---", "# a comment\n---"}} {
		if digest(change[0], change[1]) != alike {
			t.Errorf("%s in place of %s changes the hash", change[1], change[0])
		}
	}
}

// TestQuestions tests that the hash of flags is the same for two equal calls, independent of their results, and changes
// with a flag.
func TestQuestions(t *testing.T) {
	asked := func(change func(*audit)) string {
		t.Helper()
		a := &audit{apply: apply{console: &console{}}}
		a.workloads.given = []string{"Rollout.argoproj.io=spec.template", "Set.example.com=spec.pod"}
		a.asked.extra = map[string]authenticationv1.ExtraValue{"a": {"b"}, "c": {"d"}}
		change(a)
		if err := a.workloads.check(); err != nil {
			t.Fatal(err)
		}
		a.workloads.found.noteKind(schema.GroupKind{Kind: t.Name()})
		return a.questions()
	}
	alike := asked(func(*audit) {})
	for name, change := range map[string]func(*audit){
		"deletions": func(a *audit) { a.deletions = true },
		"user":      func(a *audit) { a.asked.user = "dev" },
		"pods-of":   func(a *audit) { a.workloads.given = a.workloads.given[1:] },
		"limit":     func(a *audit) { a.limits.Memory = 1 },
	} {
		if again := asked(func(a *audit) { a.top = len(name) }); again != alike {
			t.Errorf("%s, not %s", again, alike)
		}
		if other := asked(change); other == alike {
			t.Errorf("%s: %s as without", name, other)
		}
	}
}
