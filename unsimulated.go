package celgate

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// The API server's own plugins run before policies see a new Pod (as pkg/kubeapiserver/options/plugins.go v1.37.2 orders them),
// and again after a mutation. They are not simulated. A policy that took part in a decision and whose expressions name what a
// plugin would have filled in gets a note, one for each policy, unless the Pod says itself what the plugin would.

// A plugin is an admission plugin of the server that fills in members of Pods.
type plugin struct {
	name     string
	what     string         // what it fills in
	mentions *regexp.Regexp // in the text of an expression
	// fills reports that the plugin would change the Pod.
	fills func(r *run, spec map[string]any) bool
	// refuses reports a mutation after which the plugin, when it runs again, may refuse the Pod; refusal says so. nil: none.
	refuses func(before, after map[string]any) bool
	refusal string
}

var plugins = []plugin{
	{
		name: "ServiceAccount", what: "spec.serviceAccountName",
		mentions: regexp.MustCompile(`\bserviceAccount(Name)?\b`),
		fills:    func(_ *run, spec map[string]any) bool { return spec["serviceAccountName"] == nil },
	},
	{
		name: "ServiceAccount", what: "the volume with the token of the service account and its mounts",
		mentions: regexp.MustCompile(`\bvolume(s|Mounts)\b`),
		fills: func(_ *run, spec map[string]any) bool {
			return spec["automountServiceAccountToken"] != false && !mountsToken(spec)
		},
	},
	{
		name: "DefaultTolerationSeconds", what: "spec.tolerations",
		mentions: regexp.MustCompile(`\btolerations\b`),
		fills:    func(_ *run, spec map[string]any) bool { return !toleratesOutage(spec) },
	},
	{
		name: "Priority", what: "spec.priority and spec.preemptionPolicy",
		mentions: regexp.MustCompile(`\b(priority(ClassName)?|preemptionPolicy)\b`),
		fills:    func(_ *run, spec map[string]any) bool { return spec["priority"] == nil },
		// As Plugin.admitPod in plugin/pkg/admission/priority/admission.go v1.37.2.
		refuses: func(before, after map[string]any) bool {
			return before["priorityClassName"] != after["priorityClassName"] && after["priority"] == nil
		},
		refusal: "nor does celgate see that the server then refuses the Pod if the priority class that the policy sets has another value",
	},
	{
		name: "LimitRanger", what: "the default requests and limits of the namespace's LimitRanges",
		mentions: regexp.MustCompile(`\b(resources|limits|requests)\b`),
		fills: func(r *run, _ map[string]any) bool {
			ranges, err := r.engine.cluster.List(context.WithoutCancel(r.ctx), limitRangeKind, r.Namespace)
			return err == nil && len(ranges) > 0
		},
	},
}

// A madeUp is a value that package prepare makes up where the server draws it by chance, or knows it and the files do not say it. A
// policy whose expressions ask for more than whether it is there gets a note.
type madeUp struct {
	member   string // as prepare.MadeUp names it
	what     string
	mentions *regexp.Regexp // in the text of an expression without its has(…)
}

var madeUps = []madeUp{
	{"creationTimestamp", "when a stored object was created", regexp.MustCompile(`\bcreationTimestamp\b`)},
	{"clusterIP", "the address of a Service", regexp.MustCompile(`\bclusterIPs?\b`)},
	{"nodePort", "the node ports of a Service", regexp.MustCompile(`\b(nodePort|healthCheckNodePort)\b`)},
}

// presenceOnly is what an expression may ask about a made-up value without its answer depending on the value.
var presenceOnly = regexp.MustCompile(`has\([^()]*\)|clusterIP *[!=]= *(''|""|'None'|"None")|size\([^()]*\)`)

var (
	podKind        = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	limitRangeKind = schema.GroupVersionKind{Version: "v1", Kind: "LimitRange"}
)

// serviceAccountMount is where the token is mounted (as plugin/pkg/admission/serviceaccount/admission.go v1.37.2).
const serviceAccountMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// mountsToken reports that every container has a mount where the token would be.
func mountsToken(spec map[string]any) bool {
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		container, _ := c.(map[string]any)
		mounts, _ := container["volumeMounts"].([]any)
		if !slices.ContainsFunc(mounts, func(m any) bool {
			mount, _ := m.(map[string]any)
			return mount["mountPath"] == serviceAccountMount
		}) {
			return false
		}
	}
	return len(containers) > 0
}

// toleratesOutage reports tolerations of both taints that the plugin adds them for.
func toleratesOutage(spec map[string]any) bool {
	tolerations, _ := spec["tolerations"].([]any)
	found := map[any]bool{}
	for _, t := range tolerations {
		if toleration, ok := t.(map[string]any); ok {
			found[toleration["key"]] = true
		}
	}
	return found["node.kubernetes.io/not-ready"] && found["node.kubernetes.io/unreachable"]
}

// textOf returns all expressions of a policy.
func textOf(p *policy.Policy) string {
	var text strings.Builder
	add := func(e policy.Expr) { text.WriteString(e.Src + "\n") }
	for _, c := range p.MatchConditions {
		add(c.Expr)
	}
	for _, v := range p.Variables {
		add(v.Expr)
	}
	for _, v := range p.Validations {
		add(v.Expr)
		add(v.MessageExpr)
	}
	for _, a := range p.AuditAnnotations {
		add(a.ValueExpr)
	}
	for _, m := range p.Mutations {
		add(m.Expr)
	}
	return text.String()
}

// A mention is what the expressions of a policy name that is not as on the server.
type mention struct {
	plugins []*plugin // that fill it in
	madeUp  []*madeUp
}

func mentioned(p *policy.Policy) (found mention) {
	text := textOf(p)
	for i := range plugins {
		if plugins[i].mentions.MatchString(text) {
			found.plugins = append(found.plugins, &plugins[i])
		}
	}
	text = presenceOnly.ReplaceAllString(text, "")
	for i := range madeUps {
		if madeUps[i].mentions.MatchString(text) {
			found.madeUp = append(found.madeUp, &madeUps[i])
		}
	}
	return found
}

// noteMadeUp adds the notes about made-up values to the decision.
func (r *run) noteMadeUp() {
	if len(r.engine.mentions) == 0 {
		return
	}
	var made map[string]bool
	last := ""
	for i := range r.decision.Outcomes {
		o := &r.decision.Outcomes[i]
		values := r.engine.mentions[o.Policy].madeUp
		if o.Policy == last || len(values) == 0 {
			continue
		}
		if last = o.Policy; made == nil {
			made = r.madeUp()
		}
		var what []string
		for _, v := range values {
			if made[v.member] {
				what = append(what, v.what)
			}
		}
		if len(what) == 0 {
			continue
		}
		n := Note{Message: "policy " + o.Policy + ": only a server knows " + enumerate(what) + "; the values are made up"}
		if !slices.Contains(r.decision.Notes, n) {
			r.decision.Notes = append(r.decision.Notes, n)
		}
	}
}

// madeUp returns the members of the objects that expressions see whose values are made up.
func (r *run) madeUp() map[string]bool {
	made := map[string]bool{}
	resource := r.engine.types.Resource(r.Resource)
	if resource == nil {
		return made
	}
	note := func(object map[string]any, of *schema.Resource) {
		if object != nil && of != nil {
			for _, member := range prepare.MadeUp(object, of) {
				made[member] = true
			}
		}
	}
	note(r.Object, resource)
	note(r.OldObject, resource)
	note(r.own.object, r.engine.types.ResourceFor(namespaceKind))
	return made
}

// noteUnsimulated adds the notes about plugins to the decision.
func (r *run) noteUnsimulated() {
	if r.Kind != podKind || r.Operation != Create || r.SubResource != "" || len(r.engine.mentions) == 0 {
		return
	}
	spec := specOf(r.Object)
	last := ""
	for i := range r.decision.Outcomes {
		o := &r.decision.Outcomes[i]
		if o.Policy == last {
			continue
		}
		last = o.Policy
		what, names := make([]string, 0, 8), make([]string, 0, 8) // on the stack
		refusal := ""
		for _, p := range r.engine.mentions[o.Policy].plugins {
			if !p.fills(r, spec) {
				continue
			}
			what = append(what, p.what)
			names = append(names, p.name)
			if p.refuses != nil && slices.ContainsFunc(r.decision.Changes, func(c Change) bool {
				return c.Policy == o.Policy && p.refuses(specOf(c.Before), specOf(c.After))
			}) {
				refusal = ", " + p.refusal
			}
		}
		if len(what) == 0 {
			continue
		}
		slices.Sort(names)
		n := Note{Message: "policy " + o.Policy + ": before policies see a new Pod the server fills in " + enumerate(what) +
			" (" + enumerate(slices.Compact(names)) + "); this is not simulated" + refusal}
		if !slices.Contains(r.decision.Notes, n) {
			r.decision.Notes = append(r.decision.Notes, n)
		}
	}
}

func specOf(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	return spec
}

func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
