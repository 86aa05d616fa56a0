package conformance

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// A scoped rule is written for the values at a path, and for each place that a generated Deployment can have there.
type scopedRule struct {
	path   string
	places []scopedPlace
	on     []string // expressions about scope, oldScope and scopePath
}

// A scopedPlace is one place of a path, in the words of a native policy.
type scopedPlace struct {
	field  string
	exists string // the condition under which the object has a value there
	value  string
	old    string            // the value that it replaces, or null
	names  map[string]string // of scopePath
}

var (
	onTexts = []string{`scope != "x"`, `oldScope == null || oldScope == scope`, `size(scope) > 1 || scope in ["x", "y"]`,
		`int(scope) > 0`}
	onContainers = []string{`scope.image.startsWith("r/")`, `!has(scope.image) || scope.image != "x"`,
		`scope.securityContext.privileged != true`, `scope.?securityContext.privileged.orValue(false) != true`,
		`scope.name in ["a", "b"]`, `oldScope == null || oldScope.image == scope.image`}
)

// scopedRules are rules about Deployments with up to three containers of up to two variables.
func scopedRules() []scopedRule {
	var rules []scopedRule
	for _, of := range []string{"labels", "annotations"} {
		has := func(object, key string) string {
			return fmt.Sprintf(`has(%s.metadata.%s) && "%s" in %s.metadata.%s`, object, of, key, object, of)
		}
		rule := scopedRule{path: "metadata." + of + "[key]", on: append([]string{`scopePath.key != "a"`,
			`string(scopePath.key) == scope || scope == "x"`}, onTexts...)}
		for _, key := range []string{"a", "b", "c"} {
			value := fmt.Sprintf(`.metadata.%s["%s"]`, of, key)
			rule.places = append(rule.places, scopedPlace{
				field: fmt.Sprintf("metadata.%s[%s]", of, key), exists: has("object", key), value: "object" + value,
				old:   fmt.Sprintf(`(oldObject != null && %s ? dyn(oldObject%s) : dyn(null))`, has("oldObject", key), value),
				names: map[string]string{"key": fmt.Sprintf("%q", key)}})
		}
		rules = append(rules, rule)
	}
	containers := func(list string) (places []scopedPlace) {
		for i := range 3 {
			value := fmt.Sprintf("object.spec.template.spec.%s[%d]", list, i)
			same := fmt.Sprintf("oldObject.spec.template.spec.%s.filter(o, o.name == %s.name)", list, value)
			places = append(places, scopedPlace{field: strings.TrimPrefix(value, "object."),
				exists: fmt.Sprintf("has(object.spec.template.spec.%s) && size(object.spec.template.spec.%s) > %d", list, list, i), value: value,
				old: fmt.Sprintf("(oldObject != null && has(oldObject.spec.template.spec.%s) && size(%s) > 0 ? dyn(%s[0]) : dyn(null))",
					list, same, same),
				names: map[string]string{"i": fmt.Sprint(i)}})
		}
		return places
	}
	usual, first := containers("containers"), containers("initContainers")
	rules = append(rules,
		scopedRule{path: "spec.template.spec.containers[*]", places: usual, on: onContainers},
		scopedRule{path: "spec.template.spec.containers[i]", places: usual, on: append([]string{"scopePath.i == 0"}, onContainers...)},
		scopedRule{path: "kubernetes.allContainers", places: append(slices.Clone(usual), first...), on: onContainers})
	named := scopedRule{path: "spec.template.spec.containers[name=b]", on: onContainers}
	images := scopedRule{path: "spec.template.spec.containers[*].image", on: []string{`scope != "x"`, `scope.startsWith("r/")`,
		`int(scope) > 0`}}
	variables := scopedRule{path: "spec.template.spec.containers[i].env[*]", on: []string{`scope.name != "A"`, `scope.value == "x"`,
		`scopePath.i > 0 || has(scope.value)`}}
	for i, c := range usual {
		one := c
		one.exists += fmt.Sprintf(` && %s.name == "b"`, c.value)
		named.places = append(named.places, one)
		image := c
		image.field, image.exists, image.value = c.field+".image", c.exists+" && has("+c.value+".image)", c.value+".image"
		images.places = append(images.places, image)
		for j := range 2 {
			env := fmt.Sprintf("%s.env[%d]", c.value, j)
			variables.places = append(variables.places, scopedPlace{field: strings.TrimPrefix(env, "object."),
				exists: fmt.Sprintf("%s && has(%s.env) && size(%s.env) > %d", c.exists, c.value, c.value, j), value: env,
				old: "null", names: map[string]string{"i": fmt.Sprint(i)}})
		}
	}
	return append(rules, named, images, variables)
}

// native returns the expression of a rule about one place.
func (p scopedPlace) native(expression string) string {
	for name, value := range p.names {
		expression = strings.ReplaceAll(expression, "scopePath."+name, value)
	}
	return fmt.Sprintf("!(%s) || (%s)", p.exists,
		regexp.MustCompile(`\bscope\b`).ReplaceAllLiteralString(strings.ReplaceAll(expression, "oldScope", p.old), p.value))
}

// scopedPolicies returns a policy of the dialect with a scope, and a native one with a rule for each place.
func (a author) scopedPolicies(rule scopedRule) (dialect, native string) {
	expression, fails := a.one(rule.on...), a.one("Fail", "Ignore")
	const rules = `
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  failurePolicy: `
	dialect = fmt.Sprintf("apiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicy\nmetadata: {name: p}\nspec:"+rules+
		"%s\n  validations: [{scope: '%s', expression: '%s'}]\n---\napiVersion: policy.celgate.dev/v1alpha1\n"+
		"kind: AdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p, validationActions: [Deny]}\n",
		fails, rule.path, expression)
	native = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:" +
		rules + fails + "\n  validations:\n"
	for _, place := range rule.places {
		native += fmt.Sprintf("  - expression: '%s //@%s@'\n    message: '@%s@'\n", place.native(expression), place.field,
			place.field)
	}
	return dialect, native + "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n" +
		"metadata: {name: b}\nspec: {policyName: p, validationActions: [Deny]}\n"
}

// deployment is an object for the rules about scopes.
func (a author) deployment() map[string]any {
	texts := func() map[string]any {
		some := map[string]any{}
		for _, key := range []string{"a", "b", "c"} {
			if a.IntN(2) == 0 {
				some[key] = a.one("x", "y", "a", "1", "")
			}
		}
		return some
	}
	metadata := map[string]any{"name": "web", "namespace": "one"}
	for _, of := range []string{"labels", "annotations"} {
		if a.IntN(3) > 0 {
			metadata[of] = texts()
		}
	}
	containers := func(least int, names ...string) []any {
		a.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var all []any
		for _, name := range names[:least+a.IntN(len(names)+1-least)] {
			c := map[string]any{"name": name, "image": a.one("r/a", "x", "y", "7")}
			if a.IntN(2) == 0 {
				c["securityContext"] = map[string]any{"privileged": a.IntN(2) == 0}
			}
			if n := a.IntN(3); n > 0 {
				c["env"] = []any{map[string]any{"name": "A"}, map[string]any{"name": "B", "value": a.one("x", "y")}}[:n]
			}
			all = append(all, c)
		}
		return all
	}
	spec := map[string]any{"containers": containers(1, "a", "b", "c")}
	if first := containers(0, "d", "e"); len(first) > 0 {
		spec["initContainers"] = first
	}
	labels := map[string]any{"app": "web"}
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec}}}
}

// scopedFailures returns the places at which an answer denies, sorted; errors are marked.
func scopedFailures(d *celgate.Decision) []string {
	var all []string
	for _, v := range d.Violations {
		field := v.Scope
		if v.Kind == policy.Validating {
			field = strings.Split(v.Message, "@")[1]
		}
		if v.IsError {
			field += ": error"
		}
		all = append(all, field)
	}
	slices.Sort(all)
	return all
}

// TestGeneratedScopes compares generated rules for the values at a path with native policies that have a rule for each
// place of the path: the same places fail, or cannot be evaluated.
func TestGeneratedScopes(t *testing.T) {
	w, _ := generatedWorld(t)
	a := author{rand.New(rand.NewPCG(*seed, 1)), true}
	rules := scopedRules()
	failures, policies, n := 0, 0, 0
	for n < *comparisons {
		dialect, native := a.scopedPolicies(rules[policies%len(rules)])
		policies++
		var engines [2]*celgate.Engine
		for i, text := range []string{dialect, native} {
			objects, err := Documents([]byte(text))
			if err != nil {
				t.Fatal(err, text)
			}
			engines[i] = w.engine(t, objects, text)
		}
		for range requestsEach {
			n++
			r := &celgate.Request{
				Kind:     apischema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
				Resource: apischema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
				Name:     "web", Namespace: "one", Operation: celgate.Create, Object: a.deployment(),
			}
			if a.IntN(2) == 0 {
				r.Operation, r.OldObject = celgate.Update, a.deployment()
			}
			var answers [2][]string
			for i, e := range engines {
				d := decide(t, e, r)
				if len(d.Violations) == 0 && !d.Allowed {
					t.Fatal(d.Status.Message) // by no policy
				}
				answers[i] = scopedFailures(d)
			}
			failures += len(answers[0])
			if !slices.Equal(answers[0], answers[1]) {
				t.Fatalf("%s\n%s\n%+v\ndialect %q\nnative  %q", dialect, native, *r, answers[0], answers[1])
			}
		}
	}
	if t.Logf("%d policies, %d answers compared, %d places fail", policies, n, failures); failures < n/4 {
		t.Errorf("only %d places fail", failures)
	}
}
