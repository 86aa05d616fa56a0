package cli

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/suite"
	"github.com/celgate/celgate/manifest"
)

// askExisting lets both sides answer about the objects of the cluster state, or of a live cluster: their creation, an
// update without changes, and the creation of the objects that controllers make from them.
func (x *diffing) askExisting(ctx context.Context, old, now *side, docs []*manifest.Document,
	write func(report.Comparison) error) error {
	x.sayUnasked(old, now)
	var asked [2]*auditor
	for i, s := range []*side{old, now} {
		asked[i] = &auditor{decider: s.decider, force: &s.world.set, audit: report.NewAudit(s.options, nil, 0),
			asks: []celgate.Operation{celgate.Create, celgate.Update}}
	}
	asked[1].beside = asked[0]
	from := keepGiven(docs)
	total := func() int { return len(docs) }
	if len(docs) == 0 {
		stock := &stocktaking{audit: &audit{apply: x.apply}}
		from, total = stock.subjects(ctx, asked[1]), stock.total
	}
	both := func(s subjectOf) [2]*report.Audited {
		return [2]*report.Audited{asked[0].auditObject(ctx, s.doc), asked[1].auditObject(ctx, s.doc)}
	}
	x.progress = newProgress(x.console, 0)
	defer x.progress.clear()
	done := 0
	for is := range mapInOrder(from, runtime.GOMAXPROCS(0), both) {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		done++
		x.progress.setTotal(total())
		x.progress.step(done)
		if err := x.contrastExisting(ctx, old, now, is, write); err != nil {
			return err
		}
	}
	for _, u := range asked[1].unreads {
		x.raise(exitFailed)
		x.say(u.What+": "+u.Message, "")
	}
	return nil
}

// keepGiven yields the documents that hold objects.
func keepGiven(docs []*manifest.Document) iter.Seq[subjectOf] {
	return func(yield func(subjectOf) bool) {
		for _, d := range docs {
			if !isReview(d.Object) && !suite.IsRecognised(d.Object) && !yield(subjectOf{doc: d}) {
				return
			}
		}
	}
}

// contrastExisting compares the answers about one object; nil is a side without a policy for it.
func (x *diffing) contrastExisting(ctx context.Context, old, now *side, is [2]*report.Audited,
	write func(report.Comparison) error) error {
	for _, one := range is {
		if one != nil && one.Failure != nil {
			x.raise(exitFailed)
			x.say(prefixPlace(one.Object.Place, one.Object.String()+": "+one.Failure.Message), one.Failure.Hint)
			return nil
		}
	}
	answersTo := func(i int, ask report.Ask) (all []report.Item) {
		if is[i] == nil {
			return nil
		}
		for _, a := range is[i].Answers {
			if a.Ask == ask {
				all = append(all, a.Item)
			}
		}
		return all
	}
	for _, ask := range []report.Ask{report.AskCreate, report.AskUpdate} {
		was, is := answersTo(0, ask), answersTo(1, ask)
		switch {
		case len(was)+len(is) == 0:
			continue
		case len(was) == 0: // a side without a policy for the object, so it counts as allowed
			was = []report.Item{passItem(is[0])}
		case len(is) == 0:
			is = []report.Item{passItem(was[0])}
		}
		if err := x.contrast(ctx, old, now, was[0], is[0], write); err != nil {
			return err
		}
	}
	for i, one := range is {
		if one == nil {
			continue
		}
		for _, note := range one.Notes {
			if i == 0 || is[0] == nil || !slices.Contains(is[0].Notes, note) {
				x.say(prefixPlace(one.Object.Place, one.Object.String()+": "+note), "")
			}
		}
	}
	return x.contrastAll(ctx, old, now, answersTo(0, report.AskMake), answersTo(1, report.AskMake), write)
}
