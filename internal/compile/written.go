package compile

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Written is a policy or a binding that a request writes.
type Written struct {
	Policy     *policy.Policy // one of the two is set
	Binding    *policy.Binding
	OldPolicy  *policy.Policy // the replaced policy on UPDATE; nil: CREATE
	OldBinding *policy.Binding

	// Unasked means that the permission of OldPolicy's author to read its params may not have been checked.
	Unasked bool

	// Others returns the number of other bindings of a policy; nil: not counted.
	Others func(policy.Ref) int

	// Named returns the policies that the name in a binding may refer to; nil: the engine's, or the cluster's.
	Named func(context.Context, *policy.Binding) ([]*policy.Policy, error)
}

// Errors returns the errors of a server's write-time rules about the policy or the binding: those for files if it is
// static, and those for reserved names if reserved is set. An update may keep features of the old object
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
