package prove

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/cmd/internal/smtlib"
)

var solverShare = flag.Int("solvers", 0, "asks other solvers about one in so many pairs of the test beds, and requires them; "+
	"0: about a few")

// timed measures the time of the answers of a solver.
type timed struct {
	*smtlib.Solver
	asked   int
	longest time.Duration
	total   time.Duration
}

func (s *timed) Ask(ctx context.Context, script string) (string, error) {
	from := time.Now()
	defer func() {
		took := time.Since(from)
		s.asked++
		s.longest, s.total = max(s.longest, took), s.total+took
	}()
	return s.Solver.Ask(ctx, script)
}

// TestSecond asks each installed solver about the pairs of the test beds: it never has another answer, and rarely none.
func TestSecond(t *testing.T) {
	for _, name := range smtlib.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			share := *solverShare
			solver, err := smtlib.Find(name, time.Second)
			switch {
			case err != nil && share > 0:
				t.Fatal(err)
			case err != nil:
				t.Skip(err)
			case share == 0:
				share = 20
			}
			r := room(t)
			second := &timed{Solver: solver}
			r.Second = second
			opinion := askBeds(t, r, share)
			t.Logf("%s: agreed %d, alone %d, open %d (%s); %v for an answer, at most %v, %v in all", name, opinion.Agreed,
				opinion.Alone, opinion.Open, opinion.Reason, second.total/time.Duration(max(second.asked, 1)), second.longest,
				second.total)
			// A busy machine may leave many questions open; only the test that asks for solvers minds.
			if opinion.Agreed == 0 || *solverShare > 0 && opinion.Open > second.asked/4 {
				t.Errorf("%s: %+v", name, opinion)
			}
		})
	}
}

// saying is a solver with always the same output.
type saying string

func (saying) Name() string { return "z0" }

func (s saying) Ask(context.Context, string) (string, error) { return string(s), nil }

// TestSecondOpinion tests how the output of a second solver affects answers.
func TestSecondOpinion(t *testing.T) {
	const (
		five, three = "object.spec.replicas <= 5", "object.spec.replicas <= 3"
		tooLarge    = "object.metadata.name.matches('^[ab]*a[ab]{18}$')" // its automaton has 2^18 states
	)
	for _, test := range []struct {
		old, now, output string
		want             Answer
		opinion          Opinion
		reason           string
	}{
		{five, three, "unsat\n", Proved, Opinion{Agreed: 2}, ""},
		{three, five, "unsat\n", Disputed, Opinion{},
			`z0 says that the formula is never true, and celgate's solver found {"apiVersion":"apps/v1","kind":"Deployment"`},
		{five, three, "unknown\n", Proved, Opinion{Open: 2, Reason: "the answer is unknown"}, ""},
		{five, three, "sat\n((b1 true))", Proved, Opinion{Open: 2, Reason: "the model has an unknown constant"}, ""},
		{five, three, "(error \"line 1\")\nsat\n()", Proved, Opinion{Open: 2, Reason: "line 1"}, ""},
		{five, three, "", Proved, Opinion{Open: 2, Reason: "the output has no answer"}, ""},
		{"object.metadata.name != ''", tooLarge, "unsat\n", Proved, Opinion{Alone: 2}, ""},
		{"object.metadata.name != ''", tooLarge, "unknown\n", Undecided,
			Opinion{Open: 2, Reason: "the answer is unknown"}, "the formula is too large"},
	} {
		r := room(t)
		r.Second = saying(test.output)
		old := sideOf(t, r, one("apps", "v1", "deployments", test.old))
		got, err := r.Stricter(context.Background(), old, sideOf(t, r, one("apps", "v1", "deployments", test.now)))
		if err != nil {
			t.Fatal(err)
		}
		test.opinion.Solver = "z0"
		if got.Answer != test.want || got.Opinion != test.opinion {
			t.Errorf("%s, %s, %q: %s, %+v", test.old, test.now, test.output, got.Answer, got.Opinion)
		}
		if test.reason != "" && (len(got.Reasons) != 1 || !strings.HasPrefix(got.Reasons[0].Message, test.reason)) {
			t.Errorf("%s, %s, %q: %+v", test.old, test.now, test.output, got.Reasons)
		}
	}
	r := room(t)
	r.Second = saying("unsat\n")
	all, err := r.Vacuous(context.Background(), sideOf(t, r, one("apps", "v1", "deployments", five)))
	if err != nil || all.Undecided == 0 || len(all.Disputes) == 0 || len(all.Found) > 0 {
		t.Errorf("%v, %+v", err, all)
	}
}
