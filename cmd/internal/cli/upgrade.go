package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/delta"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/state"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// sayRefused says which policies and bindings one of two versions of Kubernetes refuses and the other does not.
func (x *diffing) sayRefused(old, now *side) {
	of := func(s *side) map[policy.Ref]bool {
		refs := map[policy.Ref]bool{}
		for _, r := range s.rejected {
			refs[r.Ref] = true
		}
		return refs
	}
	was, is := of(old), of(now)
	for _, r := range slices.Concat(old.rejected, now.rejected) {
		by, other := old, now
		if is[r.Ref] {
			by, other = now, old
		}
		if was[r.Ref] != is[r.Ref] {
			x.say(fmt.Sprintf("%s is refused by %s and not by %s", r.Ref, by.name, other.name), "")
		}
	}
}

// causesOf are the defects and changes of Kubernetes that one of two decisions met and the other did not.
func causesOf(was, is *celgate.Decision) []celgate.Quirk {
	met := func(d *celgate.Decision) map[string]*celgate.Quirk {
		all := map[string]*celgate.Quirk{}
		if d != nil {
			for _, n := range d.Notes {
				if n.Quirk != nil {
					all[n.Quirk.ID] = n.Quirk
				}
			}
		}
		return all
	}
	before, after := met(was), met(is)
	var causes []celgate.Quirk
	for id, q := range before {
		if after[id] == nil {
			causes = append(causes, *q)
		}
	}
	for id, q := range after {
		if before[id] == nil {
			causes = append(causes, *q)
		}
	}
	slices.SortFunc(causes, func(a, b celgate.Quirk) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return causes
}

// askSpecimens asks both versions about objects that are made for the policies. Of those that differ in the same parts
// of policies and in the same way, one is written.
func (x *diffing) askSpecimens(ctx context.Context, old, now *side, write func(report.Comparison) error) error {
	requests, objects, err := check.Specimens(ctx, check.Input{Set: &old.world.set, Types: old.world.types,
		KubeVersion: minorOrNewest(old.version)})
	if err != nil {
		return err
	}
	var engines [2]*celgate.Engine
	for i, s := range []*side{old, now} {
		cluster, err := state.New(s.world.types, objects...)
		if err != nil {
			return err
		}
		options := s.world.options()
		options.Cluster = cluster
		if engines[i], err = celgate.New(&s.world.set, options); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, r := range requests {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		var items [2]report.Item
		for i, e := range engines {
			if items[i], err = answerSpecimen(ctx, e, r); err != nil {
				return err
			}
		}
		if isRefused(items[0]) && isRefused(items[1]) {
			continue
		}
		err := x.contrast(old, now, items[0], items[1], func(c report.Comparison) error {
			key := fmt.Sprint(r.Kind, c.Changes)
			for _, p := range c.Pairs {
				key += fmt.Sprintf("\n%s %s %s %s", p.Entry().Kind, p.Entry().Policy, p.Entry().Part, effectText(p.Old)+effectText(p.New))
			}
			if len(c.Changes) > 0 && seen[key] {
				return nil
			}
			seen[key] = true
			c.Made = r.Object
			return write(c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func effectText(e *delta.Entry) string {
	if e == nil {
		return "nothing"
	}
	return e.Does
}

// answerSpecimen answers a request about an object that was made; what the server refuses before admission is a denial.
func answerSpecimen(ctx context.Context, e *celgate.Engine, r *celgate.Request) (report.Item, error) {
	item := report.Item{Request: r, Kind: r.Kind, Name: report.NameOf(r)}
	prepared, err := e.Prepare(ctx, r)
	var refused *apierrors.StatusError
	switch {
	case errors.As(err, &refused):
		item.Decision = &celgate.Decision{Status: &refused.ErrStatus}
		return item, nil
	case err != nil:
		return item, err
	}
	item.Request = prepared.Request()
	item.Decision, err = e.Admit(ctx, prepared)
	return item, err
}
