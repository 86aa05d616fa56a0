package webhook

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/policy"
)

// A Target is the address of the handler for the API server.
type Target struct {
	Name      string // of both configurations; empty is "celgate"
	URL       string // https://host:port, or
	Service   string // a Service, with its namespace and port
	Namespace string // celgate's own, which is exempt; empty: none
	Port      int64  // of the Service; 0 is 443
	CABundle  []byte // PEM; empty: the server's own trust
	Shadow    bool   // requests do not fail if celgate is not available
	Leases    string // namespace of celgate's own Leases, if that is not Namespace
}

// timeoutSeconds is the timeout of each webhook: policies take milliseconds, and a request should not wait long for a
// dead server.
const timeoutSeconds = 10

// Configurations returns the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration that make the API
// server call the webhook for the requests that the policies of a set match: the rules of the policies that have
// bindings. Policies of failurePolicy Fail are served below /fail, the others below /ignore, so that each webhook has
// the failurePolicy of its policies, and each policy runs once; see [Split].
//
// The rules cover all bindings, with matchPolicy Equivalent if any policy has it. A selector that all policies of a
// webhook share is included. Both configurations also cover celgate's own kinds: with failurePolicy Fail those with
// params, whose author must be permitted to read them (see [Seal]), the others with Ignore and for validation only.
func Configurations(set *policy.Set, t Target) (mutating, validating map[string]any) {
	return t.configuration(set, Mutating), t.configuration(set, Validating)
}

// Split returns the policies of one failurePolicy and those of beside, with the bindings of the set. A binding of
// several policies keeps those of them that remain.
func Split(set *policy.Set, fp policy.FailurePolicy, beside ...*policy.Policy) *policy.Set {
	split := &policy.Set{Libraries: set.Libraries}
	elsewhere := map[policy.Ref]bool{}
	for _, p := range set.Policies {
		if p.FailurePolicy == fp {
			split.Policies = append(split.Policies, p)
		} else {
			elsewhere[p.Ref()] = true
		}
	}
	for _, p := range beside {
		split.Policies = append(split.Policies, p)
		delete(elsewhere, p.Ref())
	}
	for _, b := range set.Bindings {
		if some := b.Restrict(func(ref policy.Ref) bool { return !elsewhere[ref] }); some != nil {
			split.Bindings = append(split.Bindings, some)
		}
	}
	return split
}

// admission returns the phase of admission in which the webhooks of a phase run.
func (ph Phase) admission() policy.Phase {
	if ph == Mutating {
		return policy.PhaseMutation
	}
	return policy.PhaseValidation
}

func (t Target) configuration(set *policy.Set, phase Phase) map[string]any {
	name := t.Name
	if name == "" {
		name = "celgate"
	}
	webhooks := []any{}
	for _, fp := range []policy.FailurePolicy{policy.Fail, policy.Ignore} {
		if w := t.webhook(boundPolicies(set, phase, fp), phase, fp); w != nil {
			webhooks = append(webhooks, w)
		}
	}
	resourceKind := "MutatingWebhookConfiguration"
	if phase == Validating {
		resourceKind = "ValidatingWebhookConfiguration"
	}
	withParams := t.ownWebhook("params.policies.celgate.dev", phase, policy.Fail)
	withParams["matchConditions"] = []any{map[string]any{"name": "params-in-force", "expression": paramsInForce}}
	if webhooks = append(webhooks, withParams); phase == Validating {
		others := t.ownWebhook("policies.celgate.dev", phase, policy.Ignore)
		others["matchConditions"] = []any{map[string]any{"name": "not-params-in-force",
			"expression": "!(" + paramsInForce + ")"}}
		webhooks = append(webhooks, others)
	} else {
		withParams["reinvocationPolicy"] = "IfNeeded" // changes of the params by another webhook are sealed, too
	}
	return map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1",
		"kind":       resourceKind,
		"metadata":   map[string]any{"name": name, "labels": map[string]any{"app.kubernetes.io/managed-by": "celgate"}},
		"webhooks":   webhooks,
	}
}

// paramsInForce holds for an object of celgate's own kinds that may make celgate read params: such an object is stored
// only if celgate has checked its author. A disabled object can always be stored, so that a policy can be taken out of
// force while celgate is not available.
const paramsInForce = `has(object.spec) && (has(object.spec.paramKind) || has(object.spec.paramRef) || ` +
	`request.resource.resource == "namespacedadmissionpolicybindings") && ` +
	`!has(object.metadata.deletionTimestamp) && !(has(object.metadata.annotations) && ` +
	`"` + policy.DisabledAnnotation + `" in object.metadata.annotations && object.metadata.annotations["` + policy.DisabledAnnotation + `"] == "true")`

// ownWebhook returns a webhook for celgate's own kinds.
func (t Target) ownWebhook(name string, phase Phase, fp policy.FailurePolicy) map[string]any {
	return t.entry(name, "/fail/"+string(phase), fp, []any{map[string]any{
		"apiGroups": []any{policy.OwnGroup}, "apiVersions": []any{"*"}, "resources": []any{"*"},
		"operations": []any{"CREATE", "UPDATE"}, "scope": "*",
	}})
}

// boundPolicies returns the policies of a phase and failurePolicy that have bindings.
func boundPolicies(set *policy.Set, phase Phase, fp policy.FailurePolicy) []*policy.Policy {
	var policies []*policy.Policy
	for _, p := range set.Policies {
		if p = set.Complete(p); p.ActsIn(phase.admission()) && p.FailurePolicy == fp && p.MatchConstraints != nil &&
			set.Binds(p.Ref()) {
			policies = append(policies, p)
		}
	}
	return policies
}

func (t Target) webhook(policies []*policy.Policy, phase Phase, fp policy.FailurePolicy) map[string]any {
	rules := union(policies, phase)
	if len(rules) == 0 {
		return nil
	}
	prefix := strings.ToLower(string(fp))
	w := t.entry(prefix+".policies.celgate.dev", "/"+prefix+"/"+string(phase), fp, rulesTree(rules))
	w["matchPolicy"] = "Exact"
	if slices.ContainsFunc(policies, func(p *policy.Policy) bool {
		return p.MatchConstraints.MatchPolicy == policy.Equivalent
	}) {
		w["matchPolicy"] = "Equivalent"
	}
	if phase == Mutating {
		w["reinvocationPolicy"] = "Never"
		if slices.ContainsFunc(policies, (*policy.Policy).MayReinvoke) {
			w["reinvocationPolicy"] = "IfNeeded"
		}
	}
	if conditions := t.conditions(rules); len(conditions) > 0 {
		w["matchConditions"] = conditions
	}
	namespaces := &metav1.LabelSelector{}
	if s := commonSelector(policies, func(m *policy.MatchResources) *metav1.LabelSelector {
		return m.NamespaceSelector
	}); s != nil {
		namespaces = s.DeepCopy()
	}
	if t.Namespace != "" {
		namespaces.MatchExpressions = append(namespaces.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{t.Namespace},
		})
	}
	w["namespaceSelector"] = toTree(namespaces)
	if s := commonSelector(policies, func(m *policy.MatchResources) *metav1.LabelSelector {
		return m.ObjectSelector
	}); s != nil && !slices.ContainsFunc(policies, (*policy.Policy).JudgesTemplates) { // concerns labels of templates
		w["objectSelector"] = toTree(s)
	}
	return w
}

func (t Target) entry(name, path string, fp policy.FailurePolicy, rules []any) map[string]any {
	if t.Shadow {
		fp = policy.Ignore
	}
	client := map[string]any{}
	if t.URL != "" {
		client["url"] = strings.TrimSuffix(t.URL, "/") + path
	} else {
		port := t.Port
		if port == 0 {
			port = 443
		}
		client["service"] = map[string]any{"name": t.Service, "namespace": t.Namespace, "path": path, "port": port}
	}
	if len(t.CABundle) > 0 {
		client["caBundle"] = toTree(t.CABundle)
	}
	return map[string]any{
		"name":                    name,
		"admissionReviewVersions": []any{"v1"},
		"sideEffects":             "None",
		"timeoutSeconds":          int64(timeoutSeconds),
		"failurePolicy":           string(fp),
		"clientConfig":            client,
		"rules":                   rules,
	}
}

// commonSelector returns the selector that all policies share; nil if they differ or it selects everything.
func commonSelector(
	policies []*policy.Policy, of func(*policy.MatchResources) *metav1.LabelSelector,
) *metav1.LabelSelector {
	first := of(policies[0].MatchConstraints)
	if first == nil || len(first.MatchLabels) == 0 && len(first.MatchExpressions) == 0 {
		return nil
	}
	for _, p := range policies[1:] {
		if !reflect.DeepEqual(of(p.MatchConstraints), first) {
			return nil
		}
	}
	return first
}

// union returns the rules of policies without resource names, each once and without rules that another one covers,
// ordered by their text. It leaves out DELETE in the mutating phase.
func union(policies []*policy.Policy, phase Phase) []policy.Rule {
	distinct := map[string]policy.Rule{}
	for _, p := range policies {
		for _, r := range rulesOf(p, phase) {
			r.ResourceNames = nil
			if phase == Mutating && p.Validates() {
				if r.Operations = withoutDelete(r.Operations); len(r.Operations) == 0 {
					continue
				}
			}
			for _, list := range []*[]string{&r.Operations, &r.APIGroups, &r.APIVersions, &r.Resources} {
				*list = slices.Compact(slices.Sorted(slices.Values(*list)))
			}
			if r.Scope == "" {
				r.Scope = "*"
			}
			distinct[ruleText(r)] = r
		}
	}
	var rules []policy.Rule
	for _, text := range slices.Sorted(maps.Keys(distinct)) {
		r, covered := distinct[text], false
		for other, wide := range distinct {
			if other != text && covers(wide, r) {
				covered = true
				break
			}
		}
		if !covered {
			rules = append(rules, r)
		}
	}
	return rules
}

// rulesOf returns the rules of a policy for the requests of a phase.
func rulesOf(p *policy.Policy, phase Phase) []policy.Rule {
	if phase == Mutating { // mutations do not apply to templates
		return p.MatchConstraints.ResourceRules
	}
	return p.Rules()
}

func withoutDelete(operations []string) []string {
	if slices.Contains(operations, "*") {
		return []string{"CONNECT", "CREATE", "UPDATE"}
	}
	return slices.DeleteFunc(slices.Clone(operations), func(o string) bool { return o == "DELETE" })
}

func ruleText(r policy.Rule) string {
	text, _ := json.Marshal(r) // strings only
	return string(text)
}

// covers reports whether wide matches everything that narrow matches. Two different rules never cover each other,
// except for equal lists in different words ("*" and also "pods"), of which the shorter one covers.
func covers(wide, narrow policy.Rule) bool {
	if !(coversAll(wide.Operations, narrow.Operations, coversName) &&
		coversAll(wide.APIGroups, narrow.APIGroups, coversName) &&
		coversAll(wide.APIVersions, narrow.APIVersions, coversName) &&
		coversAll(wide.Resources, narrow.Resources, resource) &&
		(wide.Scope == "*" || wide.Scope == narrow.Scope)) {
		return false
	}
	size := func(r policy.Rule) int { return len(ruleText(r)) }
	back := coversAll(narrow.Operations, wide.Operations, coversName) &&
		coversAll(narrow.APIGroups, wide.APIGroups, coversName) &&
		coversAll(narrow.APIVersions, wide.APIVersions, coversName) &&
		coversAll(narrow.Resources, wide.Resources, resource) &&
		(narrow.Scope == "*" || wide.Scope == narrow.Scope)
	return !back || size(wide) < size(narrow) || size(wide) == size(narrow) && ruleText(wide) < ruleText(narrow)
}

func coversAll(wide, narrow []string, one func(wide, narrow string) bool) bool {
	return !slices.ContainsFunc(narrow, func(n string) bool {
		return !slices.ContainsFunc(wide, func(w string) bool { return one(w, n) })
	})
}

func coversName(wide, narrow string) bool { return wide == "*" || wide == narrow }

// resource compares "resource/subresource": "*" is every resource, "*/*" also every subresource.
func resource(wide, narrow string) bool {
	if wide == narrow || wide == "*/*" {
		return true
	}
	wideName, wideSub, _ := strings.Cut(wide, "/")
	name, sub, _ := strings.Cut(narrow, "/")
	return (wideName == "*" || wideName == name) && (wideSub == sub || wideSub == "*" && sub != "")
}

// conditions exempt objects that are needed to change policies: reviews of authentication and authorization, celgate's
// own kinds and their definitions, and the leases of its replicas.
func (t Target) conditions(rules []policy.Rule) []any {
	reach := func(groups ...string) bool {
		return slices.ContainsFunc(rules, func(r policy.Rule) bool {
			return slices.ContainsFunc(r.APIGroups,
				func(g string) bool { return g == "*" || slices.Contains(groups, g) })
		})
	}
	var conditions []any
	add := func(name, expression string) {
		conditions = append(conditions, map[string]any{"name": name, "expression": expression})
	}
	if reach("authentication.k8s.io", "authorization.k8s.io", policy.OwnGroup) {
		add("not-exempt", `!(request.resource.group in ["authentication.k8s.io", "authorization.k8s.io", "`+policy.OwnGroup+`"])`)
	}
	if reach("apiextensions.k8s.io") {
		add("not-own-definitions", `!(request.resource.group == "apiextensions.k8s.io" && request.name.endsWith(".`+policy.OwnGroup+`"))`)
	}
	if t.Leases != "" && t.Leases != t.Namespace && reach("coordination.k8s.io") {
		add("not-own-leases", `!(request.resource.group == "coordination.k8s.io" && request.namespace == "`+t.Leases+`" && request.name.matches("^celgate(-[0-9a-f]{10})?$"))`)
	}
	return conditions
}

func rulesTree(rules []policy.Rule) []any {
	out := make([]any, len(rules))
	for i, r := range rules {
		out[i] = map[string]any{
			"operations": list(r.Operations), "apiGroups": list(r.APIGroups), "apiVersions": list(r.APIVersions),
			"resources": list(r.Resources), "scope": r.Scope,
		}
	}
	return out
}

func list(texts []string) []any {
	out := make([]any, len(texts))
	for i, s := range texts {
		out[i] = s
	}
	return out
}

// toTree converts a value without numbers to a JSON tree.
func toTree(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	_ = json.Unmarshal(text, &out) // own JSON is always valid
	return out
}
