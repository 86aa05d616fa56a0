package quirks

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/pattern"
)

// The API server's own plugins run before policies see a new Pod (in the order of pkg/kubeapiserver/options/plugins.go
// v1.37.2), and again after a mutation. If they are not simulated, each policy in a decision whose expressions mention
// members that a plugin would set gets a note, unless the Pod already has these members.

// A Plugin is an admission plugin of the server that sets members of Pods.
type Plugin struct {
	Name     string
	What     string         // the members that it sets
	mentions pattern.Regexp // in the text of an expression

	// Fills reports whether the plugin would change a Pod with this spec; nil: it does if the namespace has an object
	// of the kind By.
	Fills func(spec map[string]any) bool
	By    schema.GroupVersionKind

	// ByAccount means that the members depend on the ServiceAccount of the Pod.
	ByAccount bool

	// Refuses reports whether the plugin, which runs again after a mutation of the spec, may refuse the Pod; Refusal
	// says so. It may be nil.
	Refuses func(before, after map[string]any) bool
	Refusal string
}

var plugins = []Plugin{
	{
		Name: "ServiceAccount", What: "spec.serviceAccountName",
		mentions: pattern.New(`\bserviceAccount(Name)?\b`),
		Fills:    func(spec map[string]any) bool { return spec["serviceAccountName"] == nil },
	},
	{
		Name: "ServiceAccount", What: "the volume with the token of the service account and its mounts",
		mentions: pattern.New(`\bvolume(s|Mounts)\b`), ByAccount: true,
		Fills: func(spec map[string]any) bool {
			return spec["automountServiceAccountToken"] != false && !mountsToken(spec)
		},
	},
	{
		Name: "DefaultTolerationSeconds", What: "spec.tolerations",
		mentions: pattern.New(`\btolerations\b`),
		Fills:    func(spec map[string]any) bool { return !toleratesOutage(spec) },
	},
	{
		Name: "Priority", What: "spec.priority and spec.preemptionPolicy",
		mentions: pattern.New(`\b(priority(ClassName)?|preemptionPolicy)\b`),
		Fills:    func(spec map[string]any) bool { return spec["priority"] == nil },
		// As Plugin.admitPod in plugin/pkg/admission/priority/admission.go v1.37.2.
		Refuses: func(before, after map[string]any) bool {
			return before["priorityClassName"] != after["priorityClassName"] && after["priority"] == nil
		},
		Refusal: "nor does celgate see that the server then refuses the Pod if the priority class that the policy sets has another value",
	},
	{
		Name: "LimitRanger", What: "the default requests and limits of the namespace's LimitRanges",
		mentions: pattern.New(`\b(resources|limits|requests)\b`),
		By:       schema.GroupVersionKind{Version: "v1", Kind: "LimitRange"},
	},
}

// A MadeUp is a value that package prepare makes up because the server draws it at random, or because it is known only
// in the cluster. A policy whose expressions depend on more than its presence gets a note.
type MadeUp struct {
	Member   string // the name in package prepare
	What     string
	mentions pattern.Regexp // in the text of an expression without its has(…)
}

var madeUps = []MadeUp{
	{"creationTimestamp", "when a stored object was created", pattern.New(`\bcreationTimestamp\b`)},
	{"clusterIP", "the address of a Service", pattern.New(`\bclusterIPs?\b`)},
	{"nodePort", "the node ports of a Service", pattern.New(`\b(nodePort|healthCheckNodePort)\b`)},
}

// presenceOnly matches tests of a made-up value whose result does not depend on the value.
var presenceOnly = pattern.New(`has\([^()]*\)|clusterIP *[!=]= *(''|""|'None'|"None")|size\([^()]*\)`)

// serviceAccountMount is the mount path of the token (as plugin/pkg/admission/serviceaccount/admission.go v1.37.2).
const serviceAccountMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// mountsToken reports whether every container already has a mount at the path of the token.
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

// toleratesOutage reports whether there are tolerations of both taints, for which the plugin adds them.
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

// A Mention lists values in the expressions of a policy that may differ from those on a server.
type Mention struct {
	Plugins []*Plugin // that set mentioned members
	MadeUp  []*MadeUp
	Managed bool // metadata.managedFields, which is not computed
}

// IsEmpty reports whether nothing is named.
func (m Mention) IsEmpty() bool { return len(m.Plugins)+len(m.MadeUp) == 0 && !m.Managed }

// Mentions searches the text of expressions.
func Mentions(text string) (found Mention) {
	for i := range plugins {
		if plugins[i].mentions().MatchString(text) {
			found.Plugins = append(found.Plugins, &plugins[i])
		}
	}
	found.Managed = strings.Contains(text, "managedFields")
	text = presenceOnly().ReplaceAllString(text, "")
	for i := range madeUps {
		if madeUps[i].mentions().MatchString(text) {
			found.MadeUp = append(found.MadeUp, &madeUps[i])
		}
	}
	return found
}
