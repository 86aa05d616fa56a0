package celgate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/policy"
)

// A Turn is the place of a mutating policy among those in force.
type Turn struct {
	policy.Ref
	Reads  []string // fields such as metadata.labels.team, sorted; "*": every one, as far as is known
	Writes []string // as Reads
	Why    []string // reasons why it runs behind others; none: its name and failurePolicy decide
}

// An OrderProblem says that mutating policies do not run in the order that they ask for or need. They are in force all
// the same.
type OrderProblem struct {
	policy.Ref          // that the problem is about, of a cycle the first
	Of         []string // the names of all policies that it is about
	Reason     string   // a word: UnknownPolicy, Contradiction, Cycle, OtherWebhook
	IsError    bool     // what a policy asks for cannot be; else what policies do makes it so
	Message    string
	Value      string // in the field
	Field      string // of the policy; empty: of none
	Position   policy.Position
}

// Error says where the problem is and what it is.
func (p *OrderProblem) Error() string {
	text := p.Ref.String() + ": " + p.Message
	if place := p.Position.String(); place != "" {
		text = place + ": " + text
	}
	return text
}

// Turns returns the mutating policies in force, in the order in which they run. The error is a defect of this program.
func (e *Engine) Turns() ([]Turn, error) {
	order, err := e.arranged.sequence()
	if err != nil {
		return nil, err
	}
	var all []Turn
	for _, p := range order.Policies {
		effects, err := e.arranged.effectsOf(p)
		if err != nil {
			return nil, err
		}
		all = append(all, Turn{Ref: p.Ref(), Reads: effects.Reads(), Writes: effects.Writes(), Why: order.Why[p]})
	}
	return all, nil
}

// OrderProblems returns why mutating policies in force do not run in the order that they ask for or need.
func (e *Engine) OrderProblems() ([]OrderProblem, error) {
	order, err := e.arranged.sequence()
	if err != nil {
		return nil, err
	}
	var all []OrderProblem
	for _, p := range order.Problems {
		found := OrderProblem{Ref: p.Policy.Ref(), Reason: string(p.Reason), IsError: p.Reason.IsError(),
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
