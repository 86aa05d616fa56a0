package celgate

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/patch/mergepatch"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/sequence"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A hook is one policy in force, and so with bindings, in one of its phases.
type hook struct {
	*compile.Program
	phase    policy.Phase
	template bool // it judges the Pod templates of workloads
	criteria *match.Criteria
	param    *schema.Resource   // nil without paramKind
	defaults map[string]any     // the default params, if any, in the form that the server would hold
	err      error              // a missing library or paramKind, or invalid default params
	bindings []*compiledBinding // sorted by name
	mentions quirks.Mention

	// For mutating policies of the dialect.
	effects *sequence.Effects // decide whether it runs again; nil: it never does
	problem *sequence.Problem // with its order; nil: none
}

// A compiledBinding is a binding with compiled selectors.
type compiledBinding struct {
	*policy.Binding
	criteria *match.Criteria
	as       *match.Criteria // for an abstract policy: its match criteria by the rules of the binding; else nil
	selector labels.Selector // of the params; nil: none
}

// turn is the rank of a policy among those of its phase: static ones come first. The server calls webhooks in an order,
// so mutating policies of failurePolicy Fail run before those of Ignore, in every engine (docs/design/0002-order.md).
func (h *hook) turn() int {
	if h.Static {
		return sequence.Static
	}
	if h.phase == policy.PhaseMutation {
		return sequence.Rank(h.Policy)
	}
	return 0
}

// isOwn reports whether it is a mutating policy of the dialect.
func (h *hook) isOwn() bool { return h.phase == policy.PhaseMutation && h.Kind == policy.Admission }

// expressions returns the largest number of outcomes of one invocation.
func (h *hook) expressions() int {
	if h.phase == policy.PhaseMutation {
		return len(h.MatchConditions) + len(h.Mutations)
	}
	return len(h.MatchConditions) + len(h.Validations)
}

// rule returns the validation of an outcome; nil for another expression.
func (h *hook) rule(o *eval.Outcome) *policy.Validation {
	if h.phase != policy.PhaseValidation || o.Index >= len(h.Program.Validations) ||
		o.Expression != h.Program.Validations[o.Index] {
		return nil
	}
	return &h.Policy.Validations[o.Index]
}

// readsObject reports whether a selector of the policy or of a binding, or a match condition, reads the object.
func (h *hook) readsObject() bool {
	return len(h.MatchConditions) > 0 || h.criteria.DependsOnLabels() ||
		slices.ContainsFunc(h.bindings, func(b *compiledBinding) bool { return b.criteria.DependsOnLabels() })
}

// holdParam returns a param in the form of the server's informers. For params of built-in kinds they drop
// managedFields.
func (h *hook) holdParam(param map[string]any) map[string]any {
	o := tree.Object(param)
	if h.param.Definition != nil {
		return param
	}
	metadata := o.Metadata()
	if metadata["managedFields"] == nil {
		return param
	}
	return o.WithMetadata(metadata.Without("managedFields"))
}

var withoutParam = []map[string]any{nil}

// DefaultParam is the name of the default params of a policy in outcomes. It is not a valid name of an object.
const DefaultParam = "defaultParams"

// paramName returns the name of a param in messages and outcomes.
func (h *hook) paramName(param map[string]any) string {
	if h.defaults != nil && tree.IsSame(param, h.defaults) {
		return DefaultParam
	}
	return tree.Object(param).Path()
}

// paramName returns the name of the param.
func (in *invocation) paramName() string { return in.hook.paramName(in.param) }

// withDefaults returns a param, completed by the default params of the policy.
func (h *hook) withDefaults(param map[string]any) map[string]any {
	if h.defaults == nil || h.ParamMerge != policy.MergeParams {
		return param
	}
	merged, _ := mergepatch.Apply(h.defaults, param).(map[string]any)
	return merged
}

// An invocation is one policy with one binding and one param, all of which match the request.
type invocation struct {
	hook     *hook
	binding  *compiledBinding
	param    map[string]any // nil: none
	idle     bool           // paramRef selects nothing, which is allowed: nothing to evaluate
	left     int            // number of params of the binding from this one on
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
	trial    bool       // the mutation is applied only to find its changes
	each     *eval.Each // the item of forEach; nil: none
}

func (in *invocation) key() invocationKey {
	return invocationKey{in.hook.Kind, in.hook.Name, in.binding.Name, in.paramName()}
}

// A configurationError is an error before any expression is evaluated.
type configurationError struct {
	hook    *hook
	binding *compiledBinding // nil: of the policy
	err     error
}

func (e *configurationError) Error() string {
	if e.binding == nil {
		return "failed to configure policy: " + e.err.Error()
	}
	return "failed to configure binding: " + e.err.Error()
}

func (e *configurationError) Unwrap() error { return e.err }

type conversionError struct{ error }

func (e conversionError) Error() string {
	return "failed to convert object version: " + e.error.Error()
}

func expression(e *compile.Expression) policy.Expr {
	if e == nil {
		return policy.Expr{}
	}
	return e.Expr
}
