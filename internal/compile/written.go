package compile

import (
	"context"

	"github.com/celgate/celgate/policy"
)

// A Written is a policy or a binding that a request writes.
type Written struct {
	Policy     *policy.Policy // one of the two
	Binding    *policy.Binding
	OldPolicy  *policy.Policy // that of before an UPDATE; nil: the request creates
	OldBinding *policy.Binding

	// Unasked says that nobody is known to have asked whether the author of OldPolicy may read its params.
	Unasked bool

	// Named returns the policies that the name in a binding may stand for; nil: the engine's, or the cluster's.
	Named func(context.Context, *policy.Binding) ([]*policy.Policy, error)
}
