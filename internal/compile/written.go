package compile

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
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

	// Others returns how many other bindings a policy has; nil: nobody counts them.
	Others func(policy.Ref) int

	// Named returns the policies that the name in a binding may stand for; nil: the engine's, or the cluster's.
	Named func(context.Context, *policy.Binding) ([]*policy.Policy, error)
}

// Errors returns what the write-time rules of a server find wrong with the policy or the binding: those for files if it
// is static, and where the names of static policies are reserved, those for names. An update may keep what it had
// (pkg/apis/admissionregistration/validation/validation.go v1.37.2).
func (w Written) Errors(envs *celenv.Set, reserved bool) field.ErrorList {
	switch b := w.Binding; {
	case b == nil:
	case b.Static:
		return policy.ValidateStaticBinding(b)
	case w.OldBinding != nil || !reserved:
		return policy.ValidateBindingUpdate(b)
	default:
		return policy.ValidateBinding(b)
	}
	checker := NewChecker(envs, w.Policy, w.OldPolicy)
	defer checker.Close()
	switch {
	case w.Policy.Static:
		return policy.ValidateStatic(w.Policy, checker.Compile)
	case w.OldPolicy != nil || !reserved:
		return policy.ValidatePolicyUpdate(w.Policy, w.OldPolicy, checker.Compile)
	}
	return policy.ValidatePolicy(w.Policy, checker.Compile)
}
