package plan

import (
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// operation is a literal of [mutation.JSONPatchTypeName]. Its value is made directly, without the map of fields that
// other literals need for the provider.
type operation struct {
	*structure
}

func (o operation) eval(m *machine) ref.Val {
	patch := &mutation.JSONPatchVal{}
	for i, name := range o.fields {
		v, present, ok := o.values[i].evaluate(m)
		if !ok {
			return nil
		}
		if name == "value" {
			patch.Val = v // nil if it is not present
			continue
		}
		text, ok := v.(types.String)
		if present && !ok {
			return nil
		}
		switch name {
		case "op":
			patch.Op = string(text)
		case "path":
			patch.Path = string(text)
		case "from":
			patch.From = string(text)
		default:
			return nil
		}
	}
	m.cost += common.StructCreateBaseCost
	return patch
}
