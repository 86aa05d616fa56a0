package celgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
)

const podRules = `
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]}`

// scopeEngine puts a policy for Pods in force; rules are its validations or mutations.
func scopeEngine(t testing.TB, rules string) *celgate.Engine {
	t.Helper()
	return engineOf(t, strings.Replace(dialectPolicy("p", rules), configMapRules, strings.TrimSpace(podRules), 1))
}

// podRequest makes an object of YAML, and with an old one an update.
func podRequest(t testing.TB, engine *celgate.Engine, object, old string) *celgate.Prepared {
	t.Helper()
	read := func(text string) map[string]any {
		docs, problems := manifest.Read(strings.NewReader(text), "object.yaml")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return docs[0].Object
	}
	r := &celgate.Request{
		Kind:      schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource:  schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Operation: celgate.Create, Namespace: "default", Name: "p", Object: read(object),
	}
	if old != "" {
		r.Operation, r.OldObject = celgate.Update, read(old)
	}
	prepared, err := engine.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return prepared
}

func pod(spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default, labels: {a: x, b.c/d: \"y\"}}\nspec: " + spec
}

// TestScope validates a Pod with one scoped validation: the causes are those of the failing values.
func TestScope(t *testing.T) {
	three := pod(`{containers: [{name: xyz-a, image: i}, {name: bad, image: i, ports: [{containerPort: 80, name: http}]},
		{name: worse, image: j}], initContainers: [{name: i, image: j}]}`)
	for name, c := range map[string]struct {
		rule   string
		old    string
		causes []string // field: text
	}{
		"message": {
			`{scope: "spec.containers[*]", expression: "scope.name.startsWith('xyz')", message: m}`, "",
			[]string{"spec.containers[1]: spec.containers[1]: m", "spec.containers[2]: spec.containers[2]: m"},
		},
		"no message": {
			`{scope: "spec.containers[*]", expression: "scope.name == 'xyz-a'"}`, "",
			[]string{"spec.containers[1]: spec.containers[1]: failed expression: scope.name == 'xyz-a'",
				"spec.containers[2]: spec.containers[2]: failed expression: scope.name == 'xyz-a'"},
		},
		"message expression": {
			`{scope: "spec.containers[*]", expression: "scope.name.startsWith('xyz')", messageExpression: "scope.name + ' at ' + scopePath.field"}`, "",
			[]string{"spec.containers[1]: bad at spec.containers[1]", "spec.containers[2]: worse at spec.containers[2]"},
		},
		"named keys": {
			`{scope: "metadata.labels[k]", expression: "scopePath.k == 'a'", messageExpression: "string(scopePath.k) + '=' + scope"}`, "",
			[]string{"metadata.labels[b.c/d]: b.c/d=y"},
		},
		"an index": {
			`{scope: "spec.containers[i].ports[*]", expression: "scopePath.i == 0", message: m}`, "",
			[]string{"spec.containers[1].ports[0]: spec.containers[1].ports[0]: m"},
		},
		"by key": {
			`{scope: "spec.containers[name=bad].ports[name=http].containerPort", expression: "scope != 80", message: m}`, "",
			[]string{"spec.containers[1].ports[0].containerPort: spec.containers[1].ports[0].containerPort: m"},
		},
		"quoted": {
			`{scope: "metadata.labels[\"b.c/d\"]", expression: "scope == 'x'", message: m}`, "",
			[]string{"metadata.labels[b.c/d]: metadata.labels[b.c/d]: m"},
		},
		"all containers": {
			`{scope: kubernetes.allContainers, expression: "scope.image != 'j'", message: m}`, "",
			[]string{"spec.containers[2]: spec.containers[2]: m", "spec.initContainers[0]: spec.initContainers[0]: m"},
		},
		"the spec of a Pod": {
			`{scope: kubernetes.podSpec, expression: "scope.?hostNetwork.orValue(false) == true", message: m}`, "",
			[]string{"spec: spec: m"},
		},
		"absent":     {`{scope: "spec.ephemeralContainers[*].ports[*]", expression: "false"}`, "", nil},
		"of no kind": {`{scope: "spec.template.spec.containers[*]", expression: "false"}`, "", nil},
		"the old value": {
			`{scope: "spec.containers[*]", expression: "oldScope == null || oldScope.image == scope.image", messageExpression: "scope.name + ' was ' + oldScope.image"}`,
			pod(`{containers: [{name: worse, image: i}, {name: xyz-a, image: i}]}`),
			[]string{"spec.containers[2]: worse was i"},
		},
		"the old value by index": {
			`{scope: "metadata.finalizers[*]", expression: "false"}`, pod(`{containers: [{name: a, image: i}]}`), nil,
		},
		"an error": {
			`{scope: "spec.containers[*]", expression: "scope.ports.size() == 1"}`, "",
			[]string{": spec.containers[0]: expression 'scope.ports.size() == 1' resulted in error: no such key: ports"},
		},
		"a scalar": {
			`{scope: "metadata.name[*]", expression: "true"}`, "",
			[]string{": metadata.name is neither a list nor a map, metadata.name[*] needs one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			engine := scopeEngine(t, "  typeChecking: Warn\n  validations:\n  - "+c.rule)
			for _, r := range engine.Rejections() {
				t.Fatal(r.Status.Message)
			}
			d, err := engine.Validate(t.Context(), podRequest(t, engine, three, c.old))
			if err != nil {
				t.Fatal(err)
			}
			var causes, texts []string
			if d.Status != nil {
				for _, cause := range d.Status.Details.Causes {
					text := strings.TrimPrefix(cause.Message, "AdmissionPolicy 'p' with binding 'p' denied request: ")
					causes = append(causes, cause.Field+": "+text)
					texts = append(texts, text)
				}
				want := `pods "p" is forbidden: AdmissionPolicy 'p' with binding 'p' denied request: ` + strings.Join(texts, ", ")
				if d.Status.Message != want {
					t.Errorf("got %s, want %s", d.Status.Message, want)
				}
			}
			// Errors are violations of their own, of which the answer has the first.
			if c.causes != nil && c.causes[0][0] == ':' {
				for i := range causes {
					causes[i] = causes[i][strings.Index(causes[i], ": "):]
				}
				causes = causes[:1]
			}
			if !slices.Equal(causes, c.causes) {
				t.Errorf("got %q, want %q", causes, c.causes)
			}
		})
	}
}

// TestScopeBounds tests that the number of values and of reported failures is limited, and that all values of all
// validations share one budget.
func TestScopeBounds(t *testing.T) {
	labels := func(n int) string {
		var b strings.Builder
		b.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default, annotations: {")
		for i := range n {
			fmt.Fprintf(&b, "a%05d: x, ", i)
		}
		return b.String() + "}}\nspec: {containers: [{name: a, image: i}]}"
	}
	for name, c := range map[string]struct {
		rule     string
		values   int
		want     string
		outcomes int
	}{
		"failing": {`{scope: "metadata.annotations[*]", expression: "false", message: m}`, 100,
			"metadata.annotations[*]: more than 64 values fail", 65},
		"values": {`{scope: "metadata.annotations[*]", expression: "true"}`, 10_001,
			"metadata.annotations[*] has more than 10000 values", 2},
		"budget": {`{scope: "metadata.annotations[*]", expression: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, a + b + c > 0)))"}`, 10_000,
			"validation failed due to running out of cost budget, no further validation rules will be run", 1},
	} {
		t.Run(name, func(t *testing.T) {
			engine := scopeEngine(t, "  typeChecking: Warn\n  validations:\n  - "+c.rule)
			d, err := engine.Validate(t.Context(), podRequest(t, engine, labels(c.values), ""))
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed || !strings.HasSuffix(d.Status.Message, c.want) || len(d.Outcomes) != c.outcomes {
				t.Errorf("%d outcomes, %s", len(d.Outcomes), d.Status.Message)
			}
		})
	}
}

// BenchmarkScope compares a scope over 100 containers with the same rule written by hand.
func BenchmarkScope(b *testing.B) {
	var containers []string
	for i := range 100 {
		containers = append(containers, fmt.Sprintf("{name: c%d, image: registry.example.com/i, imagePullPolicy: Always}", i))
	}
	object := pod("{containers: [" + strings.Join(containers, ", ") + "]}")
	for name, rule := range map[string]string{
		"scope": `{scope: "spec.containers[*]", expression: "scope.image.startsWith('registry.example.com/') && scope.imagePullPolicy == 'Always'"}`,
		"hand":  `{expression: "object.spec.containers.all(c, c.image.startsWith('registry.example.com/') && c.imagePullPolicy == 'Always')"}`,
	} {
		b.Run(name, func(b *testing.B) {
			engine := scopeEngine(b, "  validations:\n  - "+rule)
			request := podRequest(b, engine, object, "")
			b.ReportAllocs()
			for b.Loop() {
				if d, err := engine.Validate(b.Context(), request); err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
			}
		})
	}
}

// TestScopesThatLeadNowhere refuses scopes that can never have a value, with a suggestion, in validations and in
// mutations: names of libraries that are not imported, names that a library does not have, and paths outside of the
// matched kinds.
func TestScopesThatLeadNowhere(t *testing.T) {
	const library = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyLibrary
metadata: {name: images}
spec: {scopes: [{name: long, paths: ["spec.containers[*]"]}]}
---
`
	rules := map[string]string{
		"validations": `  validations: [{scope: SCOPE, expression: "true"}]`,
		"mutations": `  reinvocationPolicy: Never
  mutations: [{scope: SCOPE, patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/image'}]"}}]`,
	}
	const pods, widgets = `apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]`,
		`apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]`
	for _, c := range []struct{ name, scope, more, matches, want string }{
		{"not imported", "images.long", "", pods,
			"a scope of a library that the policy does not import (add images to spec.imports)"},
		{"not imported, of a kind that is not known", "images.long", "", widgets, "(add images to spec.imports)"},
		{"not imported, types off", "images.long", "typeChecking: Warn", pods, "(add images to spec.imports)"},
		{"imported", "images.long", "imports: [images]", pods, ""},
		{"not of the library", "images.lung", "imports: [images]", pods, "no such scope (did you mean images.long?)"},
		{"neither", "images.lung", "", pods,
			"images is not a field in v1 Pod (did you mean images.long, with images in spec.imports?)"},
		{"misspelt library", "imagez.long", "imports: [images]", pods,
			"imagez is not a field in v1 Pod (did you mean images.long?)"},
		{"misspelt built-in library", "kubernets.allContainers", "", pods, "(did you mean kubernetes.allContainers?)"},
		{"misspelt path", "spec.contaners[*]", "", pods, "contaners is not a field in v1 Pod (did you mean containers?)"},
		{"misspelt path, types off", "spec.contaners[*]", `typeChecking: "Off"`, pods, ""},
		{"no kind has containers", "kubernetes.allContainers", "", strings.Replace(pods, "pods", "services", 1),
			"the path kubernetes.allContainers does not exist in any matched kind"},
		{"a path of one of two kinds", "spec.containers[*]", "", strings.Replace(pods, "pods", "pods, services", 1), ""},
		{"a path of another kind, which is not known", "spec.parts[*]", "", pods + "}, {" + widgets, ""},
		{"a path of another kind in a rule, which is not known", "spec.parts[*]", "",
			strings.Replace(pods, `[""]`, `["", example.com]`, 1), ""},
		{"a path of a kind that is not known", "spec.parts[*]", "", widgets, ""},
		{"a member like a library", `images["long"]`, "", widgets, ""},
	} {
		for list, rule := range rules {
			t.Run(c.name+" of "+list, func(t *testing.T) {
				text := dialectPolicy("p", "  "+c.more+"\n"+strings.ReplaceAll(rule, "SCOPE", "'"+c.scope+"'"))
				text = strings.Replace(text, configMapRules, "matchConstraints: {resourceRules: [{"+c.matches+"}]}", 1)
				rejected := engineOf(t, library+text).Rejections()
				switch {
				case c.want == "" && len(rejected) > 0:
					t.Errorf("refused: %s", rejected[0].Status.Message)
				case c.want == "":
				case len(rejected) != 1 || !strings.HasSuffix(rejected[0].Status.Message,
					fmt.Sprintf("spec.%s[0].scope: Invalid value: %q: %s", list, c.scope, c.want)) &&
					(c.want[0] != '(' || !strings.HasSuffix(rejected[0].Status.Message, c.want)):
					t.Errorf("got %+v, want %s", rejected, c.want)
				}
			})
		}
	}
}
