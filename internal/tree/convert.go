package tree

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	kjson "sigs.k8s.io/json"

	"github.com/celgate/celgate/internal/pattern"
)

// A ValueError is the error of a Go value that JSON cannot express.
type ValueError struct {
	Path string // such as spec.replicas
	Err  error
}

// Error returns the path and the error.
func (e *ValueError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the error without the path.
func (e *ValueError) Unwrap() error { return e.Err }

// Convert returns an object made of Go values as a tree: values of other types, such as int, []string and structs, have
// their JSON form, in which integers are int64. A tree is returned unchanged, and unchanged parts are shared. The error
// is a [*ValueError].
func Convert(object map[string]any) (map[string]any, error) {
	converted, _, err := convert(object)
	if err != nil {
		err.Path = err.Path[min(len(err.Path), 1):]
		return nil, err
	}
	object, _ = converted.(map[string]any)
	return object, nil
}

// convert returns a value as a tree, and whether it differs from the value.
func convert(value any) (out any, changed bool, err *ValueError) {
	switch v := value.(type) {
	case nil, string, bool, int64:
		return v, false, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false, &ValueError{Err: fmt.Errorf("%v is not a JSON number", v)}
		}
		return v, false, nil
	case map[string]any:
		return convertMembers(v)
	case []any:
		return convertItems(v)
	}
	text, failed := json.Marshal(value)
	if failed == nil {
		failed = kjson.UnmarshalCaseSensitivePreserveInts(text, &out)
	}
	if failed != nil {
		return nil, false, &ValueError{Err: fmt.Errorf("%T: %w", value, failed)}
	}
	return out, true, nil
}

func convertMembers(members map[string]any) (any, bool, *ValueError) {
	converted := members
	for name, member := range members {
		value, changed, err := convert(member)
		switch {
		case err != nil:
			err.Path = memberPath(name) + err.Path
			return nil, false, err
		case changed && IsSame(converted, members):
			converted = maps.Clone(members)
			converted[name] = value
		case changed:
			converted[name] = value
		}
	}
	return converted, !IsSame(converted, members), nil
}

func convertItems(items []any) (any, bool, *ValueError) {
	converted, differs := items, false
	for i, item := range items {
		value, changed, err := convert(item)
		if err != nil {
			err.Path = "[" + strconv.Itoa(i) + "]" + err.Path
			return nil, false, err
		}
		if changed && !differs {
			converted, differs = slices.Clone(items), true
		}
		if changed {
			converted[i] = value
		}
	}
	return converted, differs, nil
}

var plainName = pattern.New(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// memberPath returns a step of a field path.
func memberPath(name string) string {
	if plainName().MatchString(name) {
		return "." + name
	}
	return "[" + strconv.Quote(name) + "]"
}
