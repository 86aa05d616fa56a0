package celgate

import "github.com/celgate/celgate/internal/quirks"

// A Quirk is a defect of some versions of the API server that changes its answers. A program that predicts the server's
// answers reproduces it.
type Quirk struct {
	ID    string // stable
	Title string // its effect, as one sentence without a full stop
	Issue string // the address of a public report; empty: none is known
	Since string // the first minor that has it, such as "1.30"; empty: all up to Until
	Until string // the first minor that no longer has it; empty: none yet
}

// Quirks returns the defects that a minor such as "1.37" has, sorted by ID.
func Quirks(minor string) []Quirk {
	has := quirks.SetOf(minor)
	var all []Quirk
	for _, q := range quirks.All {
		if has.Has(q.ID) {
			all = append(all, *quirkOf[q.ID])
		}
	}
	return all
}

// quirkOf has one Quirk for each ID, so that notes can be compared.
var quirkOf = func() map[quirks.ID]*Quirk {
	all := make(map[quirks.ID]*Quirk, len(quirks.All))
	for _, q := range quirks.All {
		all[q.ID] = &Quirk{ID: string(q.ID), Title: q.Title, Issue: q.Issue, Since: q.Since, Until: q.Until}
	}
	return all
}()
