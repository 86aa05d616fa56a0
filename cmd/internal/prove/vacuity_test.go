package prove

import (
	"context"
	"strings"
	"testing"
)

// TestVacuousUnmatched asks about a policy with a match condition whose binding does not match one of its kinds.
func TestVacuousUnmatched(t *testing.T) {
	r := room(t)
	text := strings.Replace(one("", "v1", "pods", "object.metadata.name != 'a'"), "  validations:",
		"  matchConditions:\n  - {name: c, expression: object.metadata.name != 'b'}\n  validations:", 1)
	text = strings.Replace(text, "validationActions: [Deny]", "validationActions: [Deny], matchResources: {resourceRules: "+
		"[{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}", 1)
	found, undecided, err := r.Vacuous(context.Background(), sideOf(t, r, text))
	if err != nil || undecided > 0 {
		t.Fatal(err, undecided)
	}
	if len(found) != 1 || found[0].Message != "does not match any request that the policy matches" {
		t.Errorf("%+v", found)
	}
}
