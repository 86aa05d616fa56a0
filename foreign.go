package celgate

import (
	"fmt"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/policy"
)

// A foreignWebhook is a webhook of the cluster that a server would call and an engine does not.
type foreignWebhook struct {
	*compile.Program // its match conditions
	phase            policy.Phase
	configuration    string
	criteria         *match.Criteria
}

// foreignWebhooks are the webhooks of a cluster, in the order in which the server calls them.
type foreignWebhooks struct {
	hooks []*foreignWebhook
	err   error // the reason why they are not known
}

// String names the webhook and the effect of a failed call.
func (h *foreignWebhook) String() string {
	kind := "validating"
	if h.phase == policy.PhaseMutation {
		kind = "mutating"
	}
	return fmt.Sprintf("%s webhook %s of %s (failurePolicy %s)", kind, h.Name, h.configuration, h.FailurePolicy)
}
