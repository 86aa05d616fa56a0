package webhook_test

import (
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// TestNoPoliciesNoWebhooks tests that celgate is not called without policies, except for writes of policies.
func TestNoPoliciesNoWebhooks(t *testing.T) {
	mutating, validating := webhook.Configurations(&policy.Set{},
		webhook.Target{Service: "celgate", Namespace: "celgate-system", CABundle: []byte("PEM")})
	for _, configuration := range []map[string]any{mutating, validating} {
		text, err := yaml.Marshal(configuration)
		if err != nil {
			t.Fatal(err)
		}
		var read struct {
			Kind     string
			Webhooks []struct {
				Name  string
				Rules []struct{ APIGroups, Resources []string }
			}
		}
		if err := yaml.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		for _, w := range read.Webhooks {
			for _, rule := range w.Rules {
				if !slices.Equal(rule.APIGroups, []string{"policy.celgate.dev"}) {
					t.Errorf("%s: %s is asked about %v of %v", read.Kind, w.Name, rule.Resources, rule.APIGroups)
				}
			}
		}
		t.Logf("%s: %d webhooks", read.Kind, len(read.Webhooks))
		if read.Kind == "ValidatingWebhookConfiguration" && len(read.Webhooks) == 0 {
			t.Error("who writes policies is not asked about them")
		}
	}
}
