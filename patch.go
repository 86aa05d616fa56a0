package celgate

import (
	"errors"
	"fmt"
	"path"

	"github.com/google/cel-go/common/types/ref"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/trace"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// mutateOne applies one mutation of an invocation. Its outcome is an error if failurePolicy applies to the failure;
// otherwise the returned error fails the request. Events go to told, unless it is nil.
func (r *run) mutateOne(in *invocation, index int, v *versioned, told *explain.Mutation) (eval.Outcome, error) {
	e := in.hook.Mutations[index]
	outcome := eval.Outcome{Expression: e, Index: index}
	failed := func(err error) (eval.Outcome, error) {
		outcome.Verdict, outcome.Message, outcome.Err = eval.Error, err.Error(), err
		var status *apierrors.StatusError
		if errors.As(err, &status) {
			return outcome, status
		}
		return outcome, nil
	}
	inputs := r.mutationValues(in, v)
	if !in.hook.Policy.Mutations[index].Scope.IsZero() {
		patched := r.patchItems(in, index, v, &outcome, told)
		if patched == nil {
			return outcome, nil
		}
		return r.adoptPatched(in, v, patched, outcome, told)
	}
	var patched map[string]any
	switch in.hook.Policy.Mutations[index].PatchType {
	case policy.JSONPatch:
		ops, cost, err := eval.JSONPatch(r.ctx, in.hook.Program, e, inputs)
		outcome.Cost = cost
		if told, verdict := verdictOf(err, outcome); verdict {
			return told, nil
		}
		if err != nil {
			if errors.Is(err, eval.ErrNotJSON) && r.engine.quirks.Has(quirks.PatchReflectedValue) {
				r.decision.note(quirks.PatchReflectedValue, "")
			}
			return failed(r.namingStruct(err, in, v, inputs))
		}
		if told != nil {
			told.Patch = operationTrees(ops)
		}
		if patched, err = r.applyJSONPatch(in, v, ops, told); err != nil {
			return failed(err)
		}
	case policy.JSONMergePatch:
		patch, cost, err := eval.JSONMergePatch(r.ctx, in.hook.Program, e, inputs)
		outcome.Cost = cost
		if told, verdict := verdictOf(err, outcome); verdict {
			return told, nil
		}
		if err != nil {
			return failed(err)
		}
		if told != nil {
			told.Patch = patch
		}
		if patched, err = r.applyJSONMergePatch(v, patch); err != nil {
			return failed(err)
		}
		if told != nil {
			told.Patched = patched
		}
	default:
		patch, cost, err := eval.ApplyConfiguration(r.ctx, in.hook.Program, e, inputs)
		outcome.Cost = cost
		if told, verdict := verdictOf(err, outcome); verdict {
			return told, nil
		}
		if err != nil {
			return failed(err)
		}
		if told != nil {
			told.Patch = trace.Tree(patch)
		}
		if patched, err = r.applyConfiguration(in, v, patch); err != nil {
			return failed(err)
		}
		if told != nil {
			told.Patched = patched
		}
	}
	return r.adoptPatched(in, v, patched, outcome, told)
}

// adoptPatched makes the patched object the present one.
func (r *run) adoptPatched(in *invocation, v *versioned, patched map[string]any, outcome eval.Outcome,
	told *explain.Mutation) (eval.Outcome, error) {
	failed := func(err error) (eval.Outcome, error) {
		outcome.Verdict, outcome.Message, outcome.Err = eval.Error, err.Error(), err
		return outcome, nil
	}
	if !v.custom && v.kind.GroupVersion() != r.attributes.Kind.GroupVersion() &&
		r.engine.quirks.Has(quirks.EquivalentMutation) {
		r.decision.note(quirks.EquivalentMutation, in.hook.Name)
		return failed(equivalentError(v.kind, r.attributes.Kind))
	}
	normal, err := v.normal.Continue(patched, r.engine.types, v.kind)
	if err != nil {
		return failed(err)
	}
	if normal.Truncated {
		if !r.engine.quirks.Has(quirks.IntegerTruncation) {
			return failed(errTruncated)
		}
		r.decision.note(quirks.IntegerTruncation, in.hook.Name)
	}
	v.object, v.normal, v.dirty = normal.Object, normal, true
	if told != nil {
		told.After = normal.Object
	}
	return outcome, nil
}

var errTruncated = errors.New("an integer is too large for its field")

// namingStruct replaces an error about a struct of a built-in object by one that names its Go type, as
// typedStruct.ConvertToNative in k8s.io/apiserver v0.37.2 pkg/cel/common/valuesschemalesstyped.go.
func (r *run) namingStruct(err error, in *invocation, v *versioned, inputs eval.Inputs) error {
	var reflected *eval.ReflectedError
	if !errors.As(err, &reflected) {
		return err
	}
	var param *shape.Type
	if in.param != nil {
		param = r.engine.types.Type(in.hook.param.GroupVersionKind())
	}
	for _, input := range []struct {
		value ref.Val
		typ   *shape.Type
	}{
		{inputs.Object, v.typ}, {inputs.OldObject, v.typ}, {inputs.Params, param},
		{inputs.Request.Resolve(), requestType}, {inputs.Namespace.Resolve(), r.engine.types.Type(namespaceKind)},
	} {
		found := typeOf(eval.TreeOf(input.value), input.typ, reflected.Members)
		if found != nil && found.Kind == shape.Struct && found.Name != "" {
			return fmt.Errorf("%w: type conversion error from struct type %s to %s", eval.ErrNotJSON,
				path.Base(found.Name), reflected.To)
		}
	}
	return err
}

// typeOf returns the type of a map somewhere in a tree; nil if it is not found.
func typeOf(in any, t *shape.Type, wanted map[string]any) *shape.Type {
	if t == nil {
		return nil
	}
	switch in := in.(type) {
	case map[string]any:
		if tree.IsSame(in, wanted) {
			return t
		}
		for name, member := range in {
			inner := t.Elem
			if f := t.Field(name); f != nil {
				inner = f.Type
			}
			if found := typeOf(member, inner, wanted); found != nil {
				return found
			}
		}
	case []any:
		for _, item := range in {
			if found := typeOf(item, t.Elem, wanted); found != nil {
				return found
			}
		}
	}
	return nil
}

// equivalentError is the server's error if it cannot convert a built-in object to another version, as convertToVersion
// in k8s.io/apimachinery v0.37.2 pkg/runtime/scheme.go.
func equivalentError(from, to schema.GroupVersionKind) error {
	if from.Group != to.Group {
		return fmt.Errorf("%s is not suitable for converting to %q in scheme %q", goType(from), to.GroupVersion(),
			"pkg/api/legacyscheme/scheme.go:30")
	}
	return fmt.Errorf("converting (%s) to (%s): unknown conversion", goType(from), goType(to))
}

// goType returns the Go type of a built-in kind as Go prints it.
func goType(k schema.GroupVersionKind) string { return k.Version + "." + k.Kind }

func (r *run) applyConfiguration(in *invocation, v *versioned, patch map[string]any) (map[string]any, error) {
	t := r.engine.types.Type(v.kind)
	if t == nil || r.engine.types.ResourceFor(v.kind) == nil && in.hook.Kind != policy.Admission {
		// The kinds of subresources, such as Scale, do not have an OpenAPI document of their own.
		return nil, &PatchError{policy.ApplyConfiguration,
			fmt.Errorf("failed to convert patch object to typed object: no corresponding type for %s", v.kind)}
	}
	if given := tree.Object(v.object).Kind(); v.custom && given != v.kind { // a JSON patch has changed its kind
		return nil, &PatchError{policy.ApplyConfiguration,
			fmt.Errorf("failed to convert patch object to typed object: no corresponding type for %v", given)}
	}
	var merged map[string]any
	var err error
	if in.hook.Kind == policy.Admission {
		merged, err = r.engine.merger.ApplyOwn(v.object, patch, t, func(patched map[string]any) (map[string]any,
			error) {
			normal, err := v.normal.Continue(patched, r.engine.types, v.kind)
			return normal.Object, err
		})
	} else {
		merged, err = r.engine.merger.Apply(v.object, patch, t)
	}
	if err != nil {
		r.noteStrictMerge(in, v, patch, t)
		return nil, &PatchError{policy.ApplyConfiguration, err}
	}
	return merged, nil
}

// noteStrictMerge notes the quirk without which a patch that failed applies.
func (r *run) noteStrictMerge(in *invocation, v *versioned, patch map[string]any, t *shape.Type) {
	m := r.engine.merger
	for id, without := range map[quirks.ID]*merge.Merger{
		quirks.LiveDuplicates: {EveryKey: m.EveryKey},
		quirks.PartialKey:     {Unique: m.Unique},
	} {
		if !r.engine.quirks.Has(id) {
			continue
		}
		if _, err := without.Apply(v.object, patch, t); err == nil {
			r.decision.note(id, in.hook.Name)
		}
	}
}

func (r *run) applyJSONPatch(in *invocation, v *versioned, ops []jsonpatch.Operation,
	told *explain.Mutation) (map[string]any, error) {
	patcher := jsonpatch.Patcher{Charger: &r.meter, V412: r.engine.quirks.Has(quirks.PatchWithoutValue)}
	doc, err := patcher.Apply(v.object, ops)
	if patcher.V412 {
		if _, otherwise := jsonpatch.Apply(v.object, ops); (err == nil) != (otherwise == nil) {
			r.decision.note(quirks.PatchWithoutValue, in.hook.Name)
		}
	}
	if told != nil {
		tellPatched(told, doc, err)
	}
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return v.object, nil // the server drops the patch and continues
	}
	var panicked *jsonpatch.PanicError
	if errors.As(err, &panicked) {
		r.decision.note(quirks.PatchNilMap, "")
		return nil, apierrors.NewInternalError(panicked)
	}
	if err != nil {
		return nil, &PatchError{policy.JSONPatch, err}
	}
	if v.custom && v.kind.Group != r.Resource.Group { // a Scale, which the server decodes as a custom object
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", v.kind.GroupVersion())
	}
	patched, err := v.normal.CheckPatched(doc, v.object, r.engine.types, v.kind)
	if err != nil {
		r.decision.note(quirks.PatchDecodeError, "")
		return nil, apierrors.NewInternalError(err)
	}
	return patched, nil
}

// tellMutation returns the event of a mutation that begins; nil without listeners.
func (r *run) tellMutation(in *invocation, index int, v *versioned) *explain.Mutation {
	if !r.hasListener() {
		return nil
	}
	m := in.hook.Policy.Mutations[index]
	return &explain.Mutation{Index: index, Expr: m.Expr, Type: m.PatchType, As: v.kind, Before: v.object, Stopped: -1}
}

// tellPatched records the result of a JSON patch.
func tellPatched(m *explain.Mutation, doc any, err error) {
	m.Stopped = stopIndex(err)
	m.Dropped = errors.Is(err, jsonpatch.ErrTestFailed)
	switch tree, ok := doc.(map[string]any); {
	case m.Dropped:
		m.Patched = m.Before
	case ok && err == nil:
		m.Patched = tree
	}
}

// stopIndex returns the index of the operation that failed; -1 if none did.
func stopIndex(err error) int {
	var at *jsonpatch.OperationError
	if errors.As(err, &at) {
		return at.Index
	}
	return -1
}

func operationTrees(ops []jsonpatch.Operation) []any {
	all := make([]any, len(ops))
	for i, op := range ops {
		all[i] = operationTree(op)
	}
	return all
}

func operationTree(op jsonpatch.Operation) map[string]any {
	tree := map[string]any{"op": op.Op, "path": op.Path}
	if op.From != "" {
		tree["from"] = op.From
	}
	if op.HasValue {
		tree["value"] = op.Value
	}
	return tree
}
