package eval

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/shape"
)

// A Kind is the kind of the object of a mutation of the dialect; objects.apply merges by its rules.
type Kind struct {
	Name   string // for messages
	Type   *shape.Type
	Merger *merge.Merger
	Meter  *bound.Meter
}

// A placed is a kind, and the position of the value of a scope in its objects.
type placed struct {
	*Kind
	at Path
}

// Merge returns objects.apply(value, part). The types of literals are named after the object, or Item after the value.
func (p placed) Merge(value ref.Val, part *dynamic.ObjectVal) ref.Val {
	root, _, _ := strings.Cut(part.Type().TypeName(), ".")
	if root == locals.ItemType {
		return p.merge(value, part, p.at.place(p.Type))
	}
	return p.Kind.Merge(value, part)
}

// Merge returns objects.apply(value, part).
func (k *Kind) Merge(value ref.Val, part *dynamic.ObjectVal) ref.Val {
	return k.merge(value, part, merge.RootOf(k.Type))
}

// merge merges at the place that the name of a literal denotes, relative to from.
func (k *Kind) merge(value ref.Val, part *dynamic.ObjectVal, from merge.Place) ref.Val {
	failed := func(format string, args ...any) ref.Val {
		return types.NewErr("objects.apply: "+format, args...)
	}
	for _, v := range []ref.Val{value, part} {
		if err := bound.ChargeTree(k.Meter, v); err != nil {
			return types.WrapErr(err)
		}
	}
	if err := checkNames(part); err != nil {
		return failed("%w", err)
	}
	patch, ok := objects.Tree(part).(map[string]any)
	if !ok {
		return failed("%v", part.Value())
	}
	place := part.Type().TypeName()
	merged, known, err := k.Merger.Part(from, strings.Split(place, ".")[1:], objects.Tree(value), patch)
	switch {
	case !known:
		return failed("no %s in %s", place, k.Name)
	case err != nil:
		return failed("%s: %w", place, err)
	}
	return Value(merged, Plain)
}

// checkNames is checkTypeNames for literals of the dialect: it also checks literals in marks.
func checkNames(object *dynamic.ObjectVal) error {
	if err := checkTypeNames(object); err != nil {
		return err
	}
	var wrong []string
	namesBelow(object, object.Type().TypeName(), &wrong)
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return errors.New("type mismatch: " + strings.Join(slices.Compact(wrong), "\n"))
}

func namesBelow(v ref.Val, path string, wrong *[]string) {
	switch v := v.(type) {
	case plan.Tree: // not a literal
	case *dynamic.ObjectVal:
		if name := v.Type().TypeName(); name != path {
			*wrong = append(*wrong, fmt.Sprintf(
				"unexpected type name %q, expected %q, which matches field name path from root Object type", name, path))
		}
		for name, field := range bound.Fields(v) {
			namesBelow(field, path+"."+name, wrong)
		}
	case *objects.Mark:
		if of := v.Content(); of != nil {
			namesBelow(of, path, wrong)
		}
	case traits.Lister, traits.Mapper:
		switch inside := v.Value().(type) {
		case []ref.Val:
			for _, item := range inside {
				namesBelow(item, path, wrong)
			}
		case map[ref.Val]ref.Val:
			for _, member := range inside {
				namesBelow(member, path, wrong)
			}
		}
	}
}
