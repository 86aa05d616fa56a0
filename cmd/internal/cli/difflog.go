package cli

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"

	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/needs"
	"k8s.io/utils/lru"
)

// askLog lets both sides answer the requests in an audit log.
func (x *diffing) askLog(ctx context.Context, old, now *side, write func(report.Comparison) error) error {
	log := &replaying{audit: &audit{apply: x.apply, log: x.log}, world: now.world, known: lru.New(remembered)}
	for _, s := range []*side{old, now} {
		limits, err := needs.Find(&s.world.set,
			needs.Given{Minor: minorOrNewest(s.world.version), User: true, Deletions: true})
		if err != nil {
			return err
		}
		s.world.anyNamespace = s.world.live == nil
		if s.decider.engine, err = s.engine(x.plugins); err != nil { // it sees the namespaces, too
			return err
		}
		log.to = append(log.to, &auditor{decider: s.decider, force: &s.world.set, comparing: oldObjectLimits(limits)})
	}
	defer log.close()
	x.progress = newProgress(x.console, 0)
	x.progress.counts("requests")
	defer x.progress.clear()
	type asked struct {
		answers
		skipped bool
	}
	ask := func(s subjectOf) *asked {
		if s.past.request == nil {
			return &asked{skipped: true}
		}
		var both asked
		for i, it := range []*answer{&both.old, &both.now} {
			*it = answer{doc: s.doc, Item: report.Item{Place: s.doc.Position(), Kind: s.past.request.Kind,
				Name: report.NameOf(s.past.request)}}
			[]*side{old, now}[i].decider.decideAbout(ctx, it, s.past.request, nil)
		}
		return &both
	}
	done, made, left := 0, 0, 0
	for both := range mapInOrder(log.requests(ctx), runtime.GOMAXPROCS(0), ask) {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		done++
		x.progress.setTotal(log.total())
		x.progress.step(done)
		if both.skipped {
			continue
		}
		made++
		if err := x.contrast(ctx, old, now, both.old.Item, both.now.Item, write); err != nil {
			return err
		}
	}
	notes := log.to[0]
	for _, u := range notes.unreads {
		x.raise(exitFailed)
		x.say(u.What+": "+u.Message, "")
	}
	for _, reason := range slices.Sorted(maps.Keys(notes.left)) {
		left += notes.left[reason]
		x.say(plural(notes.left[reason], "request is", "requests are")+" not asked about: "+reason, "")
	}
	if made == 0 && len(notes.unreads) == 0 && (done == 0 || left > 0) {
		x.raise(exitFailed)
		x.sayUnchanged(x.log, left)
	}
	return nil
}
