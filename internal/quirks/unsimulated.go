package quirks

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The API server's own plugins run before policies see a new Pod (as pkg/kubeapiserver/options/plugins.go v1.37.2
// orders them), and again after a mutation. They are not simulated. A policy that took part in a decision and whose
// expressions name what a plugin would have filled in gets a note, one for each policy, unless the Pod says itself
// what the plugin would.

// A Plugin is an admission plugin of the server that fills in members of Pods.
type Plugin struct {
	Name     string
	What     string         // what it fills in
	mentions *regexp.Regexp // in the text of an expression

	// Fills reports that the plugin would change a Pod with this spec; nil: it does in namespaces that have an object
	// of the kind By.
	Fills func(spec map[string]any) bool
	By    schema.GroupVersionKind

	// Refuses reports a mutation of the spec after which the plugin, when it runs again, may refuse the Pod; Refusal
	// says so. nil: none.
	Refuses func(before, after map[string]any) bool
	Refusal string
}

var plugins = []Plugin{
	{
		Name: "ServiceAccount", What: "spec.serviceAccountName",
		mentions: regexp.MustCompile(`\bserviceAccount(Name)?\b`),
		Fills:    func(spec map[string]any) bool { return spec["serviceAccountName"] == nil },
	},
	{
		Name: "ServiceAccount", What: "the volume with the token of the service account and its mounts",
		mentions: regexp.MustCompile(`\bvolume(s|Mounts)\b`),
		Fills: func(spec map[string]any) bool {
			return spec["automountServiceAccountToken"] != false && !mountsToken(spec)
		},
	},
	{
		Name: "DefaultTolerationSeconds", What: "spec.tolerations",
		mentions: regexp.MustCompile(`\btolerations\b`),
		Fills:    func(spec map[string]any) bool { return !toleratesOutage(spec) },
	},
	{
		Name: "Priority", What: "spec.priority and spec.preemptionPolicy",
		mentions: regexp.MustCompile(`\b(priority(ClassName)?|preemptionPolicy)\b`),
		Fills:    func(spec map[string]any) bool { return spec["priority"] == nil },
		// As Plugin.admitPod in plugin/pkg/admission/priority/admission.go v1.37.2.
		Refuses: func(before, after map[string]any) bool {
			return before["priorityClassName"] != after["priorityClassName"] && after["priority"] == nil
		},
		Refusal: "nor does celgate see that the server then refuses the Pod if the priority class that the policy sets has another value",
	},
	{
		Name: "LimitRanger", What: "the default requests and limits of the namespace's LimitRanges",
		mentions: regexp.MustCompile(`\b(resources|limits|requests)\b`),
		By:       schema.GroupVersionKind{Version: "v1", Kind: "LimitRange"},
	},
}

// A MadeUp is a value that package prepare makes up where the server draws it by chance, or knows it and the files do
// not say it. A policy whose expressions ask for more than whether it is there gets a note.
type MadeUp struct {
	Member   string // as package prepare names it
	What     string
	mentions *regexp.Regexp // in the text of an expression without its has(…)
}

var madeUps = []MadeUp{
	{"creationTimestamp", "when a stored object was created", regexp.MustCompile(`\bcreationTimestamp\b`)},
	{"clusterIP", "the address of a Service", regexp.MustCompile(`\bclusterIPs?\b`)},
	{"nodePort", "the node ports of a Service", regexp.MustCompile(`\b(nodePort|healthCheckNodePort)\b`)},
}

// presenceOnly is what an expression may ask about a made-up value without its answer depending on the value.
var presenceOnly = regexp.MustCompile(`has\([^()]*\)|clusterIP *[!=]= *(''|""|'None'|"None")|size\([^()]*\)`)

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

// A Mention is what the expressions of a policy name that is not as on the server.
type Mention struct {
	Plugins []*Plugin // that fill it in
	MadeUp  []*MadeUp
	Managed bool // metadata.managedFields, which is not computed
}

// IsEmpty reports that nothing is named.
func (m Mention) IsEmpty() bool { return len(m.Plugins)+len(m.MadeUp) == 0 && !m.Managed }

// Mentions returns what the text of expressions names.
func Mentions(text string) (found Mention) {
	for i := range plugins {
		if plugins[i].mentions.MatchString(text) {
			found.Plugins = append(found.Plugins, &plugins[i])
		}
	}
	found.Managed = strings.Contains(text, "managedFields")
	text = presenceOnly.ReplaceAllString(text, "")
	for i := range madeUps {
		if madeUps[i].mentions.MatchString(text) {
			found.MadeUp = append(found.MadeUp, &madeUps[i])
		}
	}
	return found
}
