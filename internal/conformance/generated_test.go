package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

var (
	comparisons = flag.Int("comparisons", 800, "how many answers of generated policies to compare with those of their native forms")
	seed        = flag.Uint64("seed", 1, "of the generated policies")
)

// requestsEach is how many requests one generated policy answers.
const requestsEach = 20

// An author writes policies of the dialect and requests at random.
type author struct {
	*rand.Rand
	pods bool // they are about Pods and templates, not about ConfigMaps
}

func (a author) one(of ...string) string { return of[a.IntN(len(of))] }

// maybe is a text in one of n cases.
func (a author) maybe(n int, text string) string {
	if a.IntN(n) > 0 {
		return ""
	}
	return text
}

// expression is a condition; some fail for some requests.
func (a author) expression(params bool) string {
	key := a.one("a", "b", "c")
	switch a.IntN(11) {
	case 0:
		return fmt.Sprintf(`object.data.%s != "x"`, key)
	case 1:
		return fmt.Sprintf(`!has(object.data) || object.data.?%s.orValue("y") == "y"`, key)
	case 2:
		return fmt.Sprintf(`"%s" in object.metadata.?labels.orValue({})`, key)
	case 3:
		return fmt.Sprintf(`has(object.metadata.labels) && object.metadata.labels.all(k, k != "%s")`, key)
	case 4:
		return `variables.v != "x"`
	case 5:
		return `variables.labelled`
	case 6:
		return `request.userInfo.username != "bob"`
	case 7:
		return `request.userInfo.username == "ann" || authorizer.group("").resource("configmaps").check("get").allowed()`
	case 8:
		if !params {
			return `oldObject == null`
		}
		return fmt.Sprintf(`params == null || params.data.%s != object.data.%s`, key, a.one("a", "b"))
	case 9:
		return `namespaceObject.metadata.name != "two" // a comment`
	}
	return fmt.Sprintf(`size(object.data) > %d`, a.IntN(3))
}

func (a author) actions() string {
	return a.one("[Deny]", "[Deny]", "[Warn]", "[Audit]", "[Deny, Audit]", "[Warn, Audit]")
}

// weaker are actions that a binding with some may have for single rules.
func (a author) weaker(than string) string {
	switch than {
	case "[Audit]":
		return "[Audit]"
	case "[Warn]", "[Warn, Audit]":
		return a.one("[Audit]", "[Warn]", "[Warn, Audit]")
	}
	return a.actions()
}

// inPod is a text about a ConfigMap as one about a Pod or its template, which have annotations in the place of data.
var inPod = strings.NewReplacer("object.data", "object.metadata.annotations",
	"object.metadata.name", "object.spec.containers[0].image",
	"scope: data", "scope: metadata.annotations")

// policies are a policy and its bindings.
func (a author) policies() string {
	text := a.ofConfigMaps()
	if a.pods {
		text = inPod.Replace(text)
	}
	return text
}

func (a author) ofConfigMaps() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicy\nmetadata: {name: p}\nspec:")
	singleton, params := a.IntN(8) == 0, a.IntN(3) == 0
	abstract := !singleton && a.IntN(6) == 0
	rules := func() string {
		resource := "configmaps"
		if a.pods {
			resource = "pods"
		}
		return fmt.Sprintf("resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [%s], resources: [%s]}]",
			a.one("CREATE", "CREATE, UPDATE", "CREATE, DELETE"), resource)
	}
	excluded := a.maybe(8, ", excludeNamespaces: [one]")
	switch {
	case !abstract:
		line("  matchConstraints: {%s%s}", rules(), excluded)
	case excluded != "":
		line("  abstract: true\n  matchConstraints: {%s}", strings.TrimPrefix(excluded, ", "))
	default:
		line("  abstract: true")
	}
	if a.pods {
		line("  templates: [pods]")
		fmt.Fprint(&b, a.maybe(2, "  templateEnforcement: "+a.one("Deny", "Warn", "Audit")+"\n"))
	}
	if policyFails := a.IntN(3); policyFails > 0 {
		line("  failurePolicy: %s", []string{"", "Fail", "Ignore"}[policyFails])
	}
	if singleton {
		line("  singletonPolicy: true\n  validationActions: %s", a.actions())
		params = false
	} else if a.IntN(5) == 0 {
		line("  combine: Any")
	}
	if params {
		line("  paramKind: {apiVersion: v1, kind: ConfigMap}")
	}
	line("  variables:\n  - {name: v, expression: object.data.a}\n  - {name: labelled, expression: has(object.metadata.labels)}")
	if a.IntN(3) == 0 {
		line("  matchConditions:\n  - {name: m, expression: '%s'}", a.one(`request.userInfo.username != "eve"`,
			`has(object.metadata.labels)`, `object.data.b != "y"`))
	}
	line("  validations:")
	n := 1 + a.IntN(4)
	for i := range n {
		line("  - expression: '%s'\n    name: r%d", a.expression(params), i)
		fmt.Fprint(&b, a.maybe(2, fmt.Sprintf("    message: text %d\n", i)),
			a.maybe(3, `    messageExpression: '"told: " + object.data.b'`+"\n"),
			a.maybe(3, "    reason: "+a.one("Forbidden", "Invalid", "RequestEntityTooLarge")+"\n"),
			a.maybe(4, "    guard: true\n"), a.maybe(4, fmt.Sprintf("    level: %d\n", 1+a.IntN(3))),
			a.maybe(4, "    maxEnforcement: "+a.one("Deny", "Warn", "Audit")+"\n"),
			a.maybe(4, "    failurePolicy: "+a.one("Fail", "Ignore")+"\n"),
			a.maybe(40, "    scope: data[*]\n"))
	}
	if a.IntN(4) == 0 {
		line("  auditAnnotations: [{key: k, valueExpression: '%s'}]", a.one(`"n: " + object.metadata.name`, `string(object.data.c)`,
			`"who: " + request.userInfo.username`))
	}
	if singleton {
		return b.String()
	}
	for i := range 1 + a.IntN(3) {
		actions := a.actions()
		line("---\napiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicyBinding\nmetadata: {name: b%s}\nspec:", string(rune('a'+i)))
		line("  policyName: p\n  validationActions: %s", actions)
		matched := a.maybe(3, "namespaces: ["+a.one("one", "two")+"], ")
		if abstract {
			matched += rules()
		}
		if matched != "" {
			line("  matchResources: {%s}", strings.TrimSuffix(matched, ", "))
		}
		if params {
			line("  paramRef: {name: %s, namespace: params, parameterNotFoundAction: %s}", a.one("first", "second", "none"),
				a.one("Allow", "Deny"))
		}
		if a.IntN(2) == 0 {
			line("  enforcement:\n    validations: {r%d: %s}", a.IntN(n), a.weaker(actions))
			fmt.Fprint(&b, a.maybe(2, fmt.Sprintf("    level: %d\n", 1+a.IntN(3))),
				a.maybe(3, "    onError: "+a.weaker(actions)+"\n"))
		}
	}
	return b.String()
}

// request is a request for a ConfigMap, or for a Pod or a workload.
func (a author) request() *celgate.Request {
	r := a.ofConfigMap()
	if !a.pods {
		return r
	}
	t := scope.Templates[a.IntN(len(scope.Templates))]
	isPod := a.IntN(4) == 0
	about := func(object map[string]any) map[string]any {
		if object == nil {
			return nil
		}
		metadata, _ := object["metadata"].(map[string]any)
		made := map[string]any{}
		if labels, ok := metadata["labels"]; ok {
			made["labels"] = labels
		}
		if data, ok := object["data"]; ok {
			made["annotations"] = data
		}
		template := map[string]any{"metadata": made, "spec": map[string]any{
			"containers": []any{map[string]any{"name": "a", "image": metadata["name"]}}}}
		if isPod {
			made["name"], made["namespace"] = metadata["name"], metadata["namespace"]
			template["apiVersion"], template["kind"] = "v1", "Pod"
			return template
		}
		workload := workloadOf(t, template)
		workload["metadata"] = map[string]any{"name": metadata["name"], "namespace": metadata["namespace"]}
		return workload
	}
	r.Object, r.OldObject = about(r.Object), about(r.OldObject)
	r.Kind = apischema.GroupVersionKind{Group: t.Group, Version: t.Version, Kind: t.Kind}
	r.Resource = apischema.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: t.Resource}
	if isPod {
		r.Kind = apischema.GroupVersionKind{Version: "v1", Kind: "Pod"}
		r.Resource = apischema.GroupVersionResource{Version: "v1", Resource: "pods"}
	}
	return r
}

func (a author) ofConfigMap() *celgate.Request {
	metadata := map[string]any{"name": a.one("web", "db"), "namespace": a.one("one", "two", "three")}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
	values := func() map[string]any {
		some := map[string]any{}
		for _, key := range []string{"a", "b", "c"} {
			if a.IntN(2) == 0 {
				some[key] = a.one("x", "y", "z")
			}
		}
		return some
	}
	if a.IntN(3) > 0 {
		metadata["labels"] = values()
	}
	if a.IntN(6) > 0 {
		object["data"] = values()
	}
	r := &celgate.Request{
		Kind:      apischema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource:  apischema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Operation: celgate.Create, Name: metadata["name"].(string), Namespace: metadata["namespace"].(string), Object: object,
	}
	switch r.UserInfo.Username = a.one("ann", "bob", "eve", "dev"); a.IntN(6) {
	case 0:
		r.Operation, r.OldObject, r.Object = celgate.Delete, object, nil
	case 1:
		r.Operation, r.OldObject = celgate.Update, object
	}
	return r
}

// A told is the content of an answer, with the names of the dialect.
type told struct {
	Allowed     bool
	Denials     []string // of which the server reports one
	Status      string
	Warnings    []string
	Audited     []string
	Annotations map[string]string
}

var (
	nativePolicy  = regexp.MustCompile(`(Validating)?AdmissionPolicy '(\w+)(-[a-z]+)?(-\d+)?'`)
	nativeBinding = regexp.MustCompile(`with binding '(\w+)(-[a-z]+)?(-\d+)?'`)

	// The guards before a rule, and a guard that can only fail.
	folded   = regexp.MustCompile(`(?s)^variables\.guard\d+( && variables\.guard\d+)* \? \((.*?)\n?\) : (true|"")$`)
	onlyErrs = regexp.MustCompile(`(?s)^\((.*?)\n?\) \? true : true$`)
	failed   = regexp.MustCompile(`(?s)expression '(.*)' resulted in error: `)
)

// rewrite is a text of a native policy as the dialect has it.
func rewrite(text string) string {
	text = nativePolicy.ReplaceAllString(text, "P '$2'")
	return unfold(nativeBinding.ReplaceAllString(text, "with binding '$1'"))
}

// unfold is the text of an error with the expression as it was written, in place of the lowered one.
func unfold(text string) string {
	return failed.ReplaceAllStringFunc(text, func(part string) string {
		src := failed.FindStringSubmatch(part)[1]
		if m := folded.FindStringSubmatch(src); m != nil {
			src = m[2]
		}
		if m := onlyErrs.FindStringSubmatch(src); m != nil {
			src = m[1]
		}
		for _, t := range scope.Templates {
			src = strings.ReplaceAll(src, "(object == null ? null : object."+t.Path+")", "object")
			src = strings.ReplaceAll(src, "object."+t.Path, "object")
		}
		return "expression '" + strings.TrimSpace(src) + "' resulted in error: "
	})
}

// tell extracts the content of a decision.
func tell(t *testing.T, d *celgate.Decision) told {
	t.Helper()
	out := told{Allowed: d.Allowed, Annotations: map[string]string{}}
	for _, text := range d.WarningTexts() {
		out.Warnings = append(out.Warnings, rewrite(text))
	}
	slices.Sort(out.Warnings)
	out.Warnings = slices.Compact(out.Warnings) // of one text a client gets one
	if !d.Allowed {
		out.Status = fmt.Sprintf("%d %s %s", d.Status.Code, d.Status.Reason, rewrite(d.Status.Message))
		for _, c := range d.Status.Details.Causes {
			out.Status += "; " + rewrite(c.Message)
		}
	}
	for _, v := range d.Violations {
		if slices.Contains(v.Actions, policy.Deny) {
			out.Denials = append(out.Denials, rewrite(v.Message))
		}
	}
	for key, value := range d.AuditAnnotations {
		if !strings.HasSuffix(key, "validation_failure") {
			name, key, _ := strings.Cut(key, "/")
			name, _, _ = strings.Cut(name, "-")
			out.Annotations[name+"/"+key] = value
			continue
		}
		var failures []struct {
			Message, Policy, Binding string
			ValidationActions        []string
		}
		if err := json.Unmarshal([]byte(value), &failures); err != nil {
			t.Fatal(err)
		}
		for _, f := range failures {
			slices.Sort(f.ValidationActions)
			f.Policy, _, _ = strings.Cut(f.Policy, "-")
			f.Binding, _, _ = strings.Cut(f.Binding, "-")
			out.Audited = append(out.Audited, fmt.Sprint(f.Policy, f.Binding, f.ValidationActions, rewrite(f.Message)))
		}
	}
	slices.Sort(out.Audited)
	return out
}

// differ describes the differences between two answers. If several parts deny, the server reports one of them.
func differ(dialect, native told, parts int) string {
	if parts > 1 && !dialect.Allowed && !native.Allowed && slices.ContainsFunc(dialect.Denials, func(text string) bool {
		return strings.Contains(native.Status, text)
	}) {
		dialect.Status, native.Status = "", ""
	}
	dialect.Denials, native.Denials = nil, nil
	if a, b := fmt.Sprintf("%+v", dialect), fmt.Sprintf("%+v", native); a != b {
		return "dialect " + a + "\nnative  " + b
	}
	return ""
}

// A pair is a policy of the dialect and its native form.
type pair struct {
	dialect, native *celgate.Engine
	parts           int
	texts           string
}

// answers compares the answers of a pair to some requests.
func (p *pair) answers(t *testing.T, a author) {
	t.Helper()
	for range requestsEach {
		r := a.request()
		if diff := differ(ask(t, p.dialect, r), ask(t, p.native, r), p.parts); diff != "" {
			t.Fatalf("%s\n%+v\n%s", p.texts, *r, diff)
		}
	}
}

// ask returns the content of the answer of an engine.
func ask(t *testing.T, e *celgate.Engine, r *celgate.Request) told {
	t.Helper()
	return tell(t, decide(t, e, r))
}

// decide returns the answer of an engine.
func decide(t *testing.T, e *celgate.Engine, r *celgate.Request) *celgate.Decision {
	t.Helper()
	prepared, err := e.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Admit(t.Context(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const generatedState = `
apiVersion: v1
kind: Namespace
metadata: {name: one}
---
apiVersion: v1
kind: Namespace
metadata: {name: two}
---
apiVersion: v1
kind: Namespace
metadata: {name: three}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: first, namespace: params}
data: {a: x, b: y}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second, namespace: params}
data: {a: y}
`

// generatedWorld returns a cluster with the params of generated policies, and the environments of their native forms.
func generatedWorld(t *testing.T) (*World, *celenv.Set) {
	t.Helper()
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	own, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	existing, err := Documents([]byte(Rights + "---" + generatedState))
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Minor: "1.37", Types: types}
	if w.Cluster, err = state.New(types, existing...); err != nil {
		t.Fatal(err)
	}
	return w, own
}

// TestGeneratedLowered generates random policies of the dialect and compares their answers with those of their native
// forms. Refused policies are counted: a refusal is correct only if a native form does not exist.
func TestGeneratedLowered(t *testing.T) {
	w, own := generatedWorld(t)
	a := author{rand.New(rand.NewPCG(*seed, 0)), false}
	refused, several, n := map[string]int{}, 0, 0
	policies, templates := 0, 0
	for n < *comparisons {
		policies++
		a.pods = a.IntN(3) == 0
		p, fields := w.pair(t, a.policies(), own)
		if p == nil {
			for _, field := range fields {
				refused[field]++
			}
			continue
		}
		if a.pods {
			templates++
		} else if p.parts > 1 {
			several++
		}
		p.answers(t, a)
		n += requestsEach
	}
	t.Logf("%d policies, %d answers compared, %d of several parts, %d with templates; refused: %v", policies, n, several,
		templates, refused)
	if several == 0 || n*2 < policies*requestsEach {
		t.Errorf("of %d policies only %d have a native form, %d of them of several parts", policies, n/requestsEach, several)
	}
}

// pair returns a policy with its native form, or the fields that are refused.
func (w *World) pair(t *testing.T, text string, own *celenv.Set) (*pair, []string) {
	t.Helper()
	objects, err := Documents([]byte(text))
	if err != nil {
		t.Fatal(err, text)
	}
	var set policy.Set
	for _, object := range objects {
		p, b, err := policy.FromObject(object, nil)
		switch {
		case err != nil:
			t.Fatal(err, text)
		case p != nil:
			set.Policies = append(set.Policies, p)
		default:
			set.Bindings = append(set.Bindings, b)
		}
	}
	p := &pair{texts: text}
	if p.dialect = w.engine(t, objects, text); p.dialect == nil {
		t.Fatal(text)
	}
	set = *set.Link(nil)
	l := lower.New(&set, w.Types, own)
	var natives []map[string]any
	var fields []string
	for _, object := range objects {
		var made []map[string]any
		var refusals []lower.Refusal
		if of := set.Policy(policy.RefOf(object)); of != nil {
			made, refusals = l.Policy(object, of)
		} else {
			made, refusals = l.Binding(object, set.Binding(policy.RefOf(object)))
		}
		for _, r := range refusals {
			fields = append(fields, r.Field)
		}
		natives = append(natives, made...)
	}
	if len(fields) > 0 {
		return nil, fields
	}
	for _, object := range natives {
		if object["kind"] == string(policy.Validating) {
			p.parts++
		}
	}
	lowered, _ := yaml.Marshal(natives)
	p.texts += string(lowered)
	p.native = w.engine(t, natives, p.texts)
	return p, nil
}

func (w *World) engine(t *testing.T, objects []map[string]any, text string) *celgate.Engine {
	t.Helper()
	engine, rejected, err := w.Engine(objects)
	if err != nil {
		t.Fatal(err)
	}
	if len(rejected) > 0 {
		t.Fatal(text, rejected[0].Name, rejected[0].Status.Message)
	}
	return engine
}
