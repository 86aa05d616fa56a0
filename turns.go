package celgate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/explain"
)

// Turns returns the mutating policies in force, in the order in which they run. The error is a defect of this program.
func (e *Engine) Turns() ([]explain.Turn, error) {
	order, err := e.arranged.sequence()
	if err != nil {
		return nil, err
	}
	var all []explain.Turn
	for _, p := range order.Policies {
		effects, err := e.arranged.effectsOf(p)
		if err != nil {
			return nil, err
		}
		all = append(all,
			explain.Turn{Ref: p.Ref(), Reads: effects.Reads(), Writes: effects.Writes(), Why: order.Why[p]})
	}
	return all, nil
}

// OrderProblems returns the reasons why mutating policies in force do not run in the order that they request or need.
func (e *Engine) OrderProblems() ([]explain.OrderProblem, error) {
	order, err := e.arranged.sequence()
	if err != nil {
		return nil, err
	}
	var all []explain.OrderProblem
	for _, p := range order.Problems {
		found := explain.OrderProblem{Ref: p.Policy.Ref(), Reason: string(p.Reason), IsError: p.Reason.IsError(),
			Message: p.Message, Field: p.Field, Value: p.Value, Position: p.Policy.Position}
		for _, of := range p.Of {
			found.Of = append(found.Of, of.Name)
		}
		if p.Field != "" {
			found.Message = fmt.Sprintf("%s: Invalid value: %q: %s", p.Field, p.Value, p.Message)
			found.Position = p.Policy.Locate(&field.Error{Field: p.Field})
		}
		all = append(all, found)
	}
	return all, nil
}
