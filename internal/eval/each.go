package eval

import (
	"context"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celgate/celgate/internal/compile"
)

// An Each is one item for which a mutation is made.
type Each struct {
	Name  string
	Index int
	Value ref.Val
}

// String returns the name of the item in messages.
func (e *Each) String() string { return fmt.Sprintf("%s[%d]", e.Name, e.Index) }

// An EachError is an error or a denial of a mutation for one item.
type EachError struct {
	Of  *Each
	Err error
}

// Error begins with the item.
func (e *EachError) Error() string { return e.Of.String() + ": " + e.Err.Error() }

// Unwrap returns the error without the item.
func (e *EachError) Unwrap() error { return e.Err }

const mostEach = 64

// ItemsOf evaluates the list of mutation i, and returns its items and cost; none for an empty optional.
func ItemsOf(ctx context.Context, prog *compile.Program, i int, in Inputs) ([]*Each, int64, error) {
	result, _, err := newActivation(ctx, prog, in).evaluate(prog.Lists[i], budget)
	if err == nil {
		err = result.Err
	}
	if err != nil {
		return nil, result.Cost, err
	}
	value := result.Value
	if optional, ok := value.(*types.Optional); ok {
		if !optional.HasValue() {
			return nil, result.Cost, nil
		}
		value = optional.GetValue()
	}
	list, ok := value.(traits.Lister)
	if !ok {
		return nil, result.Cost, fmt.Errorf("forEach returned %s instead of a list", value.Type().TypeName())
	}
	if n, ok := list.Size().(types.Int); !ok || n > mostEach {
		return nil, result.Cost, fmt.Errorf("forEach gave %v items, at most %d", list.Size().Value(), mostEach)
	}
	var all []*Each
	for it := list.Iterator(); it.HasNext() == types.True; {
		all = append(all, &Each{prog.Policy.Mutations[i].ForEach.Name, len(all), it.Next()})
	}
	return all, result.Cost, nil
}

// CheckSpent returns an error if all items of a mutation together cost more than one mutation may.
func CheckSpent(cost int64) error {
	if cost > budget {
		return ErrBudget
	}
	return nil
}
