package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/patch/mergepatch"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// An ItemChange is the change of one value of a scope by a mutation.
type ItemChange struct {
	Path  Path
	Patch any // a tree or a mark, or for a JSON patch []jsonpatch.Operation
}

// An ItemError is an error or a denial about one value of a scope.
type ItemError struct {
	At  *Scoped
	Err error
}

// Error begins with the path of the value.
func (e *ItemError) Error() string { return e.At.Field() + ": " + e.Err.Error() }

// Unwrap returns the error without the path.
func (e *ItemError) Unwrap() error { return e.Err }

// Changed is the result of a mutation with a scope.
type Changed struct {
	Changes     []ItemChange
	Cost        int64
	Held, Fails bool // the condition was true for some value; it was false for some value
}

// Items evaluates mutation i, which has a scope, for each value. All evaluations share one budget and read the original
// object. An error about one value is an [*ItemError].
func Items(ctx context.Context, prog *compile.Program, i int, in Inputs) (Changed, error) {
	e, m := prog.Mutations[i], &prog.Policy.Mutations[i]
	a := newActivation(ctx, prog, in)
	var out Changed
	if e.Err != nil {
		return out, &compileError{err: e.Err}
	}
	left := int64(budget)
	condition := prog.Conditions[i]
	err := Walk(m.ParsedScope(), a.Object, a.OldObject, a.Type, func(at *Scoped) error {
		a.scoped = at
		left--
		patch, err := itemPatch(a, condition, e, m.PatchType, &left)
		skipped := errors.Is(err, errSkipped)
		out.Held, out.Fails = out.Held || !skipped, out.Fails || skipped
		switch {
		case skipped, errors.Is(err, ErrUnchanged):
			return nil
		case errors.Is(err, ErrBudget):
			return err
		case err != nil:
			return &ItemError{at.keep(), err}
		}
		out.Changes = append(out.Changes, ItemChange{slices.Clone(at.Path), patch})
		return nil
	})
	out.Cost = budget - left
	return out, err
}

// errSkipped means that the condition of a mutation is false for a value.
var errSkipped = errors.New("the condition is false")

// itemPatch evaluates a condition, unless it is nil, and if it holds, a mutation for the value of the activation.
func itemPatch(a *activation, condition, e *compile.Expression, as policy.PatchType, left *int64) (any, error) {
	evaluate := func(e *compile.Expression) (value ref.Val, err error) {
		var r Result
		if r, *left, err = a.evaluate(e, *left); err == nil {
			err = r.Err
		}
		return r.Value, err
	}
	if condition != nil {
		if holds, err := evaluate(condition); err != nil {
			return nil, err
		} else if holds != types.True {
			return nil, errSkipped
		}
	}
	if as == policy.ApplyConfiguration && e.Plan != nil && e.Watch == nil && len(e.Mended) == 0 {
		before := a.Meter.Mark()
		a.Meter.Start()
		if patch, cost, ok := e.Plan.Tree(a, a.ctx.Done()); ok {
			if *left -= a.variables.takeCost() + int64(cost); *left < 0 {
				return nil, ErrBudget
			}
			return objects.ToTree(patch), nil
		}
		if stopped := a.Meter.Err(); stopped != nil {
			return nil, stopped
		}
		a.Meter.Reset(before)
	}
	value, err := evaluate(e)
	if err != nil {
		return nil, err
	}
	return patchOf(value, as, a.Inputs)
}

// patchOf converts the value of a mutation with a scope to a patch.
func patchOf(value ref.Val, as policy.PatchType, in Inputs) (any, error) {
	value, err := verdictOr(value)
	if err != nil {
		return nil, err
	}
	if err := bound.ChargeTree(in.Meter, value); err != nil {
		return nil, err
	}
	switch as {
	case policy.JSONPatch:
		list, ok := value.(traits.Lister)
		if !ok {
			return nil, errors.New("a JSON patch is a list of JSONPatch{…}, not " + value.Type().TypeName())
		}
		var ops []jsonpatch.Operation
		for it := list.Iterator(); it.HasNext() == types.True; {
			op, err := operation(it.Next(), in)
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		}
		return ops, nil
	case policy.JSONMergePatch:
		tree, err := jsonTree(value)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotJSON, err)
		}
		return mergePatch{tree}, nil
	}
	switch value := value.(type) {
	case *objects.Mark:
		var wrong []string
		namesBelow(value, "Item", &wrong)
		if len(wrong) > 0 {
			return nil, errors.New("type mismatch: " + wrong[0])
		}
		return value.Value(), nil
	case *dynamic.ObjectVal:
		if err := checkNames(value); err != nil {
			return nil, err
		}
		if name := value.Type().TypeName(); name != "Item" {
			return nil, fmt.Errorf("type mismatch: unexpected type name %q, expected %q", name, "Item")
		}
		return objects.Tree(value), nil
	}
	return nil, fmt.Errorf("the value of a mutation with a scope is an Item, not %s", value.Type().TypeName())
}

// ChangeItems returns an object with the changes of the values of a scope, which must be in the order of a walk. held
// is that of [merge.Merger.ApplyOwn].
func ChangeItems(object map[string]any, kind *Kind, changes []ItemChange,
	held func(map[string]any) (map[string]any, error)) (map[string]any, error) {
	c := changer{kind: kind}
	place := merge.RootOf(kind.Type)
	changed, _, err := c.change(object, place, changes, 0)
	if err != nil {
		return nil, err
	}
	out, _ := changed.(map[string]any)
	if len(c.conflicts) > 0 && held != nil && !c.deleted {
		if normal, err := held(out); err == nil {
			c.conflicts = slices.DeleteFunc(c.conflicts, func(x itemConflict) bool {
				before, after := valueAt(object, x.path), valueAt(normal, x.path)
				return tree.Equal(x.ValueIn(x.place, before), x.ValueIn(x.place, after))
			})
		}
	}
	if len(c.conflicts) > 0 {
		refused := &merge.ConsentError{}
		for _, x := range c.conflicts {
			refused.Paths = append(refused.Paths, "."+x.path.String()+x.String())
		}
		return nil, fmt.Errorf("invalid ApplyConfiguration: %w", refused)
	}
	return out, nil
}

type changer struct {
	kind      *Kind
	conflicts []itemConflict
	deleted   bool // an item was removed, so that indices have shifted
}

// An itemConflict is a conflict in the value at a path.
type itemConflict struct {
	merge.Conflict
	place merge.Place
	path  Path
}

// change returns a value with the changes in it, and whether it is kept. The paths of the changes have depth steps to
// it.
func (c *changer) change(v any, place merge.Place, changes []ItemChange, depth int) (any, bool, error) {
	if len(changes[0].Path) == depth {
		return c.changeOne(v, place, changes[0])
	}
	var out any
	switch v := v.(type) {
	case map[string]any:
		out = maps.Clone(v)
	case []any:
		out = slices.Clone(v)
	}
	var gone []int
	for len(changes) > 0 {
		step, n := changes[0].Path[depth], 1
		for n < len(changes) && changes[n].Path[depth] == step {
			n++
		}
		switch in := out.(type) {
		case map[string]any:
			key, _ := name(step)
			value, stays, err := c.change(in[key], place.Member(key), changes[:n], depth+1)
			if err != nil {
				return nil, false, err
			}
			if in[key] = value; !stays {
				delete(in, key)
			}
		case []any:
			i := step.(int)
			value, stays, err := c.change(in[i], place.Item(), changes[:n], depth+1)
			if err != nil {
				return nil, false, err
			}
			if in[i] = value; !stays {
				gone = append(gone, i)
			}
		}
		changes = changes[n:]
	}
	if len(gone) > 0 {
		c.deleted = true
		kept := make([]any, 0, len(out.([]any)))
		for i, item := range out.([]any) {
			if !slices.Contains(gone, i) {
				kept = append(kept, item)
			}
		}
		out = kept
	}
	return out, true, nil
}

// changeOne applies the change of one value.
func (c *changer) changeOne(v any, place merge.Place, x ItemChange) (any, bool, error) {
	failed := func(err error) (any, bool, error) {
		return nil, false, fmt.Errorf("%s: %w", x.Path, err)
	}
	switch patch := x.Patch.(type) {
	case merge.Unset:
		return nil, false, nil
	case merge.Replace:
		return patch.Value, true, nil
	case []jsonpatch.Operation:
		patched, err := jsonpatch.Patcher{Charger: c.kind.Meter}.Apply(v, patch)
		if errors.Is(err, jsonpatch.ErrTestFailed) {
			return v, true, nil // as for the whole object
		}
		if err != nil {
			return failed(err)
		}
		return patched, true, nil
	case mergePatch:
		return mergepatch.Apply(v, patch.tree), true, nil
	case map[string]any:
		merged, conflicts, err := c.kind.Merger.Value(place, v, patch)
		if err != nil {
			return failed(fmt.Errorf("failed to convert patch object to typed object: %w", err))
		}
		for _, found := range conflicts {
			c.conflicts = append(c.conflicts, itemConflict{found, place, x.Path})
		}
		return merged, true, nil
	}
	return failed(errors.New("objects.remove(…) is for items of lists: write objects.unset()"))
}

// valueAt returns the value at a path; nil if there is none.
func valueAt(v any, path Path) any {
	for _, step := range path {
		switch in := v.(type) {
		case map[string]any:
			key, _ := name(step)
			v = in[key]
		case []any:
			i, ok := step.(int)
			if !ok || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// A mergePatch is a JSON merge patch.
type mergePatch struct{ tree any }

// Tree returns the patch in the form shown to people.
func (c ItemChange) Tree() any {
	switch patch := c.Patch.(type) {
	case mergePatch:
		return patch.tree
	case []jsonpatch.Operation:
		all := make([]any, len(patch))
		for i, op := range patch {
			all[i] = map[string]any{"op": op.Op, "path": op.Path}
			if op.HasValue {
				all[i].(map[string]any)["value"] = op.Value
			}
			if op.From != "" {
				all[i].(map[string]any)["from"] = op.From
			}
		}
		return all
	}
	return c.Patch
}
