package serve

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/conformance/server"
)

var record = flag.Bool("record", false, "write testdata/metrics.yaml")

// A counted case is a policy with the expected counts for one request.
type countedCase struct {
	Name    string   `json:"name"`
	Spec    string   `json:"spec"`              // without matchConstraints
	Binding string   `json:"binding,omitempty"` // more of its spec
	Native  []string `json:"native"`            // of kube-apiserver
	Celgate []string `json:"celgate"`           // of the same kind
	Dialect []string `json:"dialect"`           // of an AdmissionPolicy
	Why     string   `json:"why,omitempty"`     // they differ
}

// write writes the case as testdata/metrics.yaml has it.
func (c *countedCase) write(b *strings.Builder) {
	fmt.Fprintf(b, "- name: %s\n  spec: |\n    %s\n", c.Name, strings.ReplaceAll(strings.TrimSpace(c.Spec), "\n", "\n    "))
	if c.Binding != "" {
		fmt.Fprintf(b, "  binding: '%s'\n", c.Binding)
	}
	for _, list := range []struct {
		name  string
		lines []string
	}{{"native", c.Native}, {"celgate", c.Celgate}, {"dialect", c.Dialect}} {
		fmt.Fprintf(b, "  %s: [%s]\n", list.name, strings.Join(list.lines, ", "))
	}
	if c.Why != "" {
		fmt.Fprintf(b, "  why: %s\n", c.Why)
	}
}

// metricWords are the words of testdata/metrics.yaml for names of metrics. Names that correspond have one word.
var metricWords = map[string]string{
	"apiserver_validating_admission_policy_check_total":                  "check",
	"celgate_validating_admission_policy_check_total":                    "check",
	"apiserver_mutating_admission_policy_check_total":                    "check",
	"celgate_mutating_admission_policy_check_total":                      "check",
	"celgate_admission_policy_check_total":                               "check",
	"apiserver_validating_admission_policy_check_duration_seconds_count": "timed",
	"celgate_validating_admission_policy_check_duration_seconds_count":   "timed",
	"apiserver_mutating_admission_policy_check_duration_seconds_count":   "timed",
	"celgate_mutating_admission_policy_check_duration_seconds_count":     "timed",
	"celgate_admission_policy_check_duration_seconds_count":              "timed",
	"apiserver_admission_match_condition_evaluation_errors_total":        "condition",
	"celgate_match_conditions_total":                                     "condition",
}

var sample = regexp.MustCompile(`(?m)^(\w+)\{(.*)\} (\S+)$`)

// countsOf returns the counts of metrics for each policy, such as "check deny invalid_error 1".
func countsOf(t *testing.T, metrics string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, found := range sample.FindAllStringSubmatch(metrics, -1) {
		word := metricWords[found[1]]
		if word == "" {
			continue
		}
		labels := map[string]string{}
		for _, l := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(found[2], -1) {
			labels[l[1]] = l[2]
		}
		name := labels["policy"]
		if name == "" {
			name = labels["name"]
		}
		if strings.HasPrefix(found[1], "apiserver_admission_match") {
			if labels["kind"] != "policy" {
				continue
			}
			labels["result"] = "error"
		}
		if word == "condition" && labels["result"] != "error" { // which does not have a name on the server
			continue
		}
		n, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		words := []string{word}
		for _, l := range []string{"phase", "enforcement_action", "error_type", "result"} {
			if labels[l] != "" && !(l == "phase" && word == "condition") {
				words = append(words, labels[l])
			}
		}
		if b := labels["policy_binding"]; b != name && b != "" {
			words = append(words, "by", b)
		}
		all[name] = append(all[name], strings.Join(append(words, strconv.Itoa(int(n))), " "))
	}
	for _, counts := range all {
		slices.Sort(counts)
	}
	return all
}

// policiesOf returns the policy of a case and its binding, for ConfigMaps of the policy's name.
func (c *countedCase) policiesOf(t *testing.T, prefix, group, kind string) []map[string]any {
	t.Helper()
	spec, binding := c.Spec, c.Binding
	mutates := strings.Contains(spec, "mutations:")
	if mutates {
		spec += "reinvocationPolicy: Never\n"
	}
	if kind == "" {
		if kind = "ValidatingAdmissionPolicy"; mutates {
			kind = "MutatingAdmissionPolicy"
		} else if !strings.Contains(binding, "validationActions") {
			binding += "\nvalidationActions: [Deny]"
		}
	} else if mutates {
		spec += "mutationValidationPolicy: Skip\n"
	}
	tree := func(kind, text string) map[string]any {
		return object(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s%s}\nspec:\n  %s\n", group, kind, prefix,
			c.Name, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")))
	}
	return []map[string]any{
		tree(kind, spec+fmt.Sprintf("matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], resources: [configmaps], operations: [CREATE], resourceNames: [%s%s]}]}",
			prefix, c.Name)),
		tree(kind+"Binding", "policyName: "+prefix+c.Name+"\n"+binding),
	}
}

// sentinels deny objects with given names; those of released kinds only after another one has set a label. If a
// sentinel denies a request, all policies written before it are in force. Policies of each failurePolicy have separate
// webhooks, so each has sentinels.
var sentinels, ownSentinels = inBoth(countedCases{
	{Name: "sentinel", Spec: "validations: [{expression: '!has(object.metadata.labels)', message: seen}]\n"},
	{Name: "sentinel", Spec: `mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}}]
`},
}), inBoth(countedCases{{Name: "sentinel", Spec: "validations: [{expression: 'false', message: seen}]\n"}})

// inBoth adds the same cases with failurePolicy Ignore and corresponding names.
func inBoth(cases countedCases) countedCases {
	for _, c := range cases {
		cases = append(cases, countedCase{Name: c.Name + "-ignore", Spec: c.Spec + "failurePolicy: Ignore\n"})
	}
	return cases
}

// ask puts policies in force on a server, of a group and of released kinds unless a kind is given, sends one request
// for each, and removes them when the test ends.
func (c countedCases) ask(t *testing.T, s *server.Server, group, kind, prefix string) {
	t.Helper()
	call := func(call server.Call) *server.Answer {
		answer, err := s.Do(context.Background(), call)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	last := sentinels
	if kind != "" {
		last = ownSentinels
	}
	for _, each := range append(slices.Clone(c), last...) {
		for _, tree := range each.policiesOf(t, prefix, group, kind) {
			path := "/apis/" + tree["apiVersion"].(string) + "/" + resources[tree["kind"].(string)]
			good(t, call(server.Apply(path+"/"+tree["metadata"].(map[string]any)["name"].(string), tree)))
			t.Cleanup(func() {
				call(server.Call{Method: http.MethodDelete, Path: path + "/" + tree["metadata"].(map[string]any)["name"].(string)})
			})
		}
	}
	create := func(name string) *server.Answer {
		return call(server.Call{Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps",
			Query: map[string][]string{"dryRun": {"All"}}, Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": prefix + name}, "data": map[string]any{"a": "b"}}})
	}
	for _, each := range last {
		eventually(t, 30*time.Second, func() string {
			answer := create(each.Name)
			if status := answer.Status(); status == nil || !strings.Contains(status.Message, "seen") {
				return fmt.Sprintf("the policies are not in force: %d %s", answer.Code, answer.Body)
			}
			return ""
		})
	}
	for _, each := range c {
		create(each.Name)
	}
}

type countedCases []countedCase

// TestMetricsBesideServer puts the same policies in force on a kube-apiserver and in celgate, sends one request for
// each, and compares the counts of corresponding metrics. testdata/metrics.yaml explains the differences.
func TestMetricsBesideServer(t *testing.T) {
	if *minor != "" {
		t.Skip("the metrics are those of the newest kube-apiserver")
	}
	const file = "testdata/metrics.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases countedCases
	if err := yaml.UnmarshalStrict(text, &cases); err != nil {
		t.Fatal(err)
	}
	native := cases.native(t)
	r := managedAs(t, api.Kubeconfig, 1, "--rule-metrics")
	cases.ask(t, api, "policy.celgate.dev/v1", "", "")
	cases.ask(t, api, "policy.celgate.dev/v1alpha1", "AdmissionPolicy", "d-")
	own := countsOf(t, r.gates[0].metrics(t))
	for i := range cases {
		c := &cases[i]
		all := map[*[]string][]string{&c.Native: native[c.Name], &c.Celgate: own[c.Name], &c.Dialect: own["d-"+c.Name]}
		if *record {
			for to, got := range all {
				*to = append([]string{}, got...)
			}
			continue
		}
		for want, got := range all {
			if !slices.Equal(*want, got) {
				t.Errorf("%s: %q, not %q", c.Name, got, *want)
			}
		}
		if differ := !slices.Equal(c.Native, c.Celgate); differ != (c.Why != "") {
			t.Errorf("%s: native %q, celgate %q, and why: %q", c.Name, c.Native, c.Celgate, c.Why)
		}
	}
	if *record {
		var b strings.Builder
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				b.WriteString(line)
			}
		}
		for i := range cases {
			cases[i].write(&b)
		}
		write(t, file, []byte(b.String()))
	}
	if names := slices.Collect(maps.Keys(native)); len(names) < len(cases)/2 {
		t.Errorf("the server has counted %v alone", names)
	}
}

// native returns the counts of a kube-apiserver that enforces the policies itself.
func (c countedCases) native(t *testing.T) map[string][]string {
	t.Helper()
	s, err := server.Start(t.Context(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	c.ask(t, s, "admissionregistration.k8s.io/v1", "", "")
	answer, err := s.Do(t.Context(), server.Call{Method: http.MethodGet, Path: "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	return countsOf(t, string(answer.Body))
}
