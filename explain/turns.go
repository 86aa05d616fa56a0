package explain

import "github.com/celgate/celgate/policy"

// A Turn is the place of a mutating policy among those in force.
type Turn struct {
	policy.Ref
	Reads  []string // fields such as metadata.labels.team, sorted; "*": unknown, possibly every field
	Writes []string // like Reads
	Why    []string // reasons why it runs behind others; none: by its name and failurePolicy
}

// An OrderProblem is a reason why mutating policies do not run in the order that they request or need. They are still
// in force.
type OrderProblem struct {
	policy.Ref          // the policy concerned; of a cycle the first
	Of         []string // the names of all policies concerned
	Reason     string   // a word: UnknownPolicy, Contradiction, Cycle, OtherWebhook
	IsError    bool     // the requested order is impossible; else it follows from other policies
	Message    string
	Value      string // the value of the field
	Field      string // of the policy; empty: none
	Position   policy.Position
}

// Error returns the field and the message.
func (p *OrderProblem) Error() string {
	text := p.Ref.String() + ": " + p.Message
	if place := p.Position.String(); place != "" {
		text = place + ": " + text
	}
	return text
}
