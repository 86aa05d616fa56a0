package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/delta"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/state"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// sayRefused prints the policies and bindings that one of two versions of Kubernetes refuses and the other accepts.
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

// causesOf returns the quirks and changes of Kubernetes that affected one of two decisions only.
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

// A reading is the object of a decision as one version of Kubernetes decodes it.
type reading struct {
	*side
	report.Item
}

// readingsBehind returns the fields that two versions decode differently, if that explains different answers: one
// version gives the other's answer for the object as the other decodes it.
func readingsBehind(ctx context.Context, was, is reading) []celgate.Quirk {
	if was.Prepared == nil || is.Prepared == nil {
		return nil
	}
	objects := [][2]map[string]any{{was.Prepared.Request().Object, is.Prepared.Request().Object}}
	if !was.Decision.Mutated && !is.Decision.Mutated { // the registry dropped fields
		objects = append(objects, [2]map[string]any{was.Decision.Object, is.Decision.Object})
	}
	for _, o := range objects {
		if o[0] == nil || o[1] == nil {
			continue
		}
		if title := tellReadings(was.name, is.name, o[0], o[1]); title != "" &&
			(is.agreesAbout(ctx, o[0], was) || was.agreesAbout(ctx, o[1], is)) {
			return []celgate.Quirk{{ID: "read-otherwise", Title: title}}
		}
	}
	return nil
}

// agreesAbout reports whether a version gives the other's answer for the object as the other decodes it.
func (r reading) agreesAbout(ctx context.Context, object map[string]any, other reading) bool {
	prepared := r.Prepared.WithObject(object)
	d, err := r.decider.engine.Admit(ctx, prepared)
	if err != nil {
		return false
	}
	same := delta.Compare(&delta.Answer{Request: other.Request, Decision: other.Decision},
		&delta.Answer{Request: prepared.Request(), Decision: d}, r.world.types)
	return len(same.Changes) == 0
}

// tellReadings names fields that two versions decode differently; "" if there are none.
func tellReadings(old, now string, was, is map[string]any) string {
	var only [2][]string
	var others []string
	var visit func(path string, a, b any)
	visit = func(path string, a, b any) {
		switch x := a.(type) {
		case map[string]any:
			y, ok := b.(map[string]any)
			if !ok {
				break
			}
			for _, name := range slices.Sorted(maps.Keys(x)) {
				if _, both := y[name]; both {
					visit(path+"."+name, x[name], y[name])
				} else {
					only[0] = append(only[0], (path + "." + name)[1:])
				}
			}
			for _, name := range slices.Sorted(maps.Keys(y)) {
				if _, both := x[name]; !both {
					only[1] = append(only[1], (path + "." + name)[1:])
				}
			}
			return
		case []any:
			y, ok := b.([]any)
			if !ok || len(x) != len(y) {
				break
			}
			for i := range x {
				visit(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])
			}
			return
		}
		if !tree.Equal(a, b) && path != ".metadata.creationTimestamp" { // made up, in each version when it is asked
			others = append(others, path[1:])
		}
	}
	visit("", was, is)
	var told []string
	for i, name := range []string{old, now} {
		if len(only[i]) > 0 {
			told = append(told, fmt.Sprintf("the object has %s with %s only", listFew(only[i]), name))
		}
	}
	if len(others) > 0 {
		told = append(told, fmt.Sprintf("the object has other values in %s", listFew(others)))
	}
	return strings.Join(told, "; ")
}

// askSpecimens lets both versions answer about objects generated for the policies. Of several answers that differ in
// the same parts of policies and in the same way, it writes one.
func (x *diffing) askSpecimens(ctx context.Context, old, now *side, write func(report.Comparison) error) error {
	requests, objects, err := check.Specimens(ctx, check.Input{Set: &old.world.set, Types: old.world.types,
		KubeVersion: minorOrNewest(old.version)})
	if err != nil {
		return err
	}
	var sides [2]*side
	for i, s := range []*side{old, now} {
		cluster, err := state.New(s.world.types, objects...)
		if err != nil {
			return err
		}
		options := s.world.options()
		options.Cluster = cluster
		engine, err := celgate.New(&s.world.set, options)
		if err != nil {
			return err
		}
		asked := *s
		asked.decider = &decider{world: s.world, engine: engine}
		sides[i] = &asked
	}
	seen := map[string]bool{}
	for _, r := range requests {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		var items [2]report.Item
		for i, s := range sides {
			if items[i], err = answerSpecimen(ctx, s.decider.engine, r); err != nil {
				return err
			}
		}
		if isRefused(items[0]) && isRefused(items[1]) {
			continue
		}
		err := x.contrast(ctx, sides[0], sides[1], items[0], items[1], func(c report.Comparison) error {
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

// answerSpecimen answers a request about a generated object; a refusal before admission counts as a denial.
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
	item.Request, item.Prepared = prepared.Request(), prepared
	item.Decision, err = e.Admit(ctx, prepared)
	return item, err
}
