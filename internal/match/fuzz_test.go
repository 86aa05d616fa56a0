package match_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// FuzzMatch matches random requests with random rules: it never panics, returns either an error or a match, a request
// that a rule both includes and excludes does not match, and a request that does not match has a reason.
func FuzzMatch(f *testing.F) {
	f.Add("CREATE apps v1 deployments", "CREATE apps v1 deployments", "web shop", "a=b", true)
	f.Add("* * * */*", "UPDATE autoscaling v1 horizontalpodautoscalers/status", "web ", "!a", false)
	f.Add("CREATE  v1 namespaces", "CREATE  v1 namespaces", "shop shop", "a in (b", true)
	types, err := builtin.Registry("1.37")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, ruleText, requestText, names, label string, excluded bool) {
		word := func(text string, i int) string {
			if words := strings.Split(text, " "); i < len(words) {
				return words[i]
			}
			return ""
		}
		rule := policy.Rule{
			Operations: []string{word(ruleText, 0)}, APIGroups: []string{word(ruleText, 1)},
			APIVersions: []string{word(ruleText, 2)},
			Resources:   []string{word(ruleText, 3)}, Scope: word(ruleText, 4),
		}
		key, value, _ := strings.Cut(label, "=")
		m := &policy.MatchResources{
			ResourceRules:     []policy.Rule{rule},
			MatchPolicy:       policy.Equivalent,
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
		}
		if excluded {
			m.ExcludeRules = m.ResourceRules
		}
		resource, subresource, _ := strings.Cut(word(requestText, 3), "/")
		object := map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value, "n": nil}}}
		a := match.Attributes{
			Operation: word(requestText, 0), Name: word(names, 0), Namespace: word(names, 1), SubResource: subresource,
			Object: object,
			Resource: schema.GroupVersionResource{Group: word(requestText, 1), Version: word(requestText, 2),
				Resource: resource},
		}
		world := match.World{Types: types, Namespace: func(string) (map[string]any, error) { return object, nil }}
		r, err := match.Compile(m).Match(&a, world)
		switch {
		case err != nil && r.Matched:
			t.Errorf("matched and failed: %v", err)
		case r.Matched && excluded:
			t.Errorf("%q matched though it is excluded", requestText)
		case r.Matched && r.Resource == schema.GroupVersionResource{} && a.Resource != r.Resource:
			t.Errorf("%q matched as nothing", requestText)
		case err == nil && !r.Matched && r.Reason(&a) == "":
			t.Errorf("%q did not match for no reason", requestText)
		}
	})
}
