package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/celgate/celgate/internal/solve"
)

// A Second is another solver. It answers the same questions, and those that are too large for package solve.
type Second interface {
	Name() string
	// Ask returns the output for a script in SMT-LIB.
	Ask(ctx context.Context, script string) (string, error)
}

// An Opinion counts the answers of a second solver.
type Opinion struct {
	Solver string // empty: it was not asked
	Agreed int    // the questions to which both solvers have the same answer
	Alone  int    // the questions that only the second one answers
	Open   int    // the questions that it does not answer
	Reason string // why it does not answer one of them
}

// add adds the counts of other questions to the same solver.
func (o *Opinion) add(other Opinion) {
	if o.Solver == "" {
		o.Solver, o.Reason = other.Solver, other.Reason
	}
	if o.Reason == "" {
		o.Reason = other.Reason
	}
	o.Agreed += other.Agreed
	o.Alone += other.Alone
	o.Open += other.Open
}

// A dispute is the error that two solvers have different answers.
type dispute struct {
	second string
	ours   *solve.Model // nil: unsatisfiable
	theirs *solve.Model
}

func (d *dispute) Error() string { return "celgate's solver and " + d.second + " disagree" }

// explain describes a dispute, with the object of the solver that found one.
func (d *dispute) explain(object func(*solve.Model) string) string {
	if d.ours == nil {
		return fmt.Sprintf("celgate's solver says that the formula is never true, and %s found %s", d.second,
			object(d.theirs))
	}
	return fmt.Sprintf("%s says that the formula is never true, and celgate's solver found %s", d.second,
		object(d.ours))
}

// objectIn describes the object of a model.
func (r *request) objectIn(m *solve.Model) string {
	ex := r.toExample(m)
	object := ex.Request.Object
	if object == nil {
		object = ex.Request.OldObject
	}
	text, _ := json.Marshal(object)
	return string(text)
}

// compare asks the second solver, if there is one, about a goal for which package solve has a model, none or the error
// ErrSize, and counts its answer. It returns that answer where package solve has none: a model that satisfies the first
// of some wishes that it can. The error may be a *dispute.
func (r *Room) compare(ctx context.Context, s *solve.Store, goal solve.Formula, ours *solve.Model, failure error,
	o *Opinion, wishes ...[]solve.Formula) (*solve.Model, error) {
	if r.Second == nil || failure != nil && !errors.Is(failure, solve.ErrSize) {
		return ours, failure
	}
	o.Solver = r.Second.Name()
	theirs, err := r.askSecond(ctx, s, goal)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		o.Open, o.Reason = o.Open+1, err.Error()
		return ours, failure
	case failure == nil && (ours != nil) != (theirs != nil):
		return nil, &dispute{o.Solver, ours, theirs}
	case failure == nil:
		o.Agreed++
		return ours, nil
	}
	o.Alone++
	for _, more := range wishes {
		if theirs == nil {
			break
		}
		if typical, err := r.askSecond(ctx, s, append(more, goal)...); typical != nil && err == nil {
			return typical, nil
		}
	}
	return theirs, ctx.Err()
}

// askSecond asks the second solver.
func (r *Room) askSecond(ctx context.Context, s *solve.Store, goals ...solve.Formula) (*solve.Model, error) {
	script, err := s.NewScript(goals...)
	if err != nil {
		return nil, err
	}
	output, err := r.Second.Ask(ctx, script.Text)
	if err != nil {
		return nil, err
	}
	return script.Read(output)
}
