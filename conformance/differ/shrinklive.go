package differ

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/state"
)

const (
	liveShrinkTime = 90 * time.Second // how long one difference is made smaller
	liveShrinkSize = 100              // how many smaller cases are tried in one round
)

// shrink greedily removes parts that the difference does not need: each round tries many smaller cases, and continues
// with the first that still differs.
func (l *Live) shrink(ctx context.Context, f finding) (finding, error) {
	deadline := time.Now().Add(liveShrinkTime)
	if f.question != nil {
		f.slot = &slot{kind: f.slot.kind, token: f.slot.token, c: f.slot.c, old: f.slot.old, stored: f.slot.stored,
			questions: []*question{f.question}}
	}
	world := &conformance.World{Minor: l.world.minor, Types: l.world.types}
	var err error
	if world.Cluster, err = state.New(l.world.types, l.exists...); err != nil {
		return f, err
	}
	for tried := 0; ; {
		smaller := l.smallerSlots(ctx, world, f)
		if tried >= len(smaller) || time.Now().After(deadline) || ctx.Err() != nil {
			return f, nil
		}
		batch := smaller[tried:min(tried+liveShrinkSize, len(smaller))]
		for i, s := range batch {
			l.trials++
			if batch[i], err = s.rename("shrunk" + strconv.Itoa(l.trials)); err != nil {
				return f, err
			}
		}
		findings, err := l.round(ctx, batch)
		if err != nil {
			return f, err
		}
		tried += len(batch)
		for _, next := range findings {
			if next.diff != "" && (next.question == nil) == (f.question == nil) {
				f, tried = next, 0
				break
			}
		}
	}
}

// rename returns a copy of the slot with another token.
func (s *slot) rename(token string) (*slot, error) {
	var err error
	copied := func(tree map[string]any) (out map[string]any) {
		text, e := json.Marshal(tree)
		if e == nil {
			e = utiljson.Unmarshal([]byte(strings.ReplaceAll(string(text), s.token, token)), &out)
		}
		if e != nil {
			err = e
		}
		return out
	}
	next := &slot{kind: s.kind, token: token, c: &Case{copied(s.c.Policy), copied(s.c.Binding)}, old: copied(s.old)}
	for _, q := range s.questions {
		again := *q
		again.object = copied(q.object)
		next.questions = append(next.questions, &again)
	}
	return next, err
}

// smallerSlots returns slightly smaller versions of a finding, in the order in which to try them.
func (l *Live) smallerSlots(ctx context.Context, world *conformance.World, f finding) []*slot {
	var all []*slot
	add := func(next slot) {
		next.c = next.isolate(next.c)
		_, rejected, err := world.Engine([]map[string]any{next.c.Policy, next.c.Binding})
		if err == nil && (len(rejected) == 0 || f.question == nil) &&
			!(reflect.DeepEqual(next.c, f.slot.c) && reflect.DeepEqual(next.old, f.slot.old) &&
				(f.question == nil || reflect.DeepEqual(next.questions[0], f.question))) {
			all = append(all, &next)
		}
	}
	for _, c := range smallerCases(f.slot.c) {
		next := *f.slot
		next.c = c
		add(next)
	}
	if f.question == nil {
		return all
	}
	with := func(q question, old map[string]any) {
		next := *f.slot
		next.old, next.questions = old, []*question{&q}
		add(next)
	}
	q, old := f.question, f.slot.old
	if q.operation == celgate.Create && old != nil {
		with(*q, nil)
	}
	if q.operation == celgate.Update && q.sub == "" {
		with(question{kind: q.kind, operation: celgate.Create, object: q.object, user: q.user}, nil)
		if !reflect.DeepEqual(q.object, old) {
			with(question{kind: q.kind, operation: q.operation, sub: q.sub, object: old, user: q.user}, old)
		}
	}
	whole := func(manifest any) (map[string]any, bool) {
		m := manifest.(map[string]any)
		namespace, name := nameOf(m)
		return m, m["kind"] != nil && m["apiVersion"] != nil && name != "" &&
			(namespace != "" || !q.kind.resource.Namespaced)
	}
	if q.object != nil {
		for _, less := range shrinkTree(q.object, false) {
			if m, ok := whole(less); ok {
				next := *q
				next.object = m
				with(next, old)
			}
		}
	}
	if q.operation != celgate.Create {
		for _, less := range shrinkTree(old, false) {
			m, ok := whole(less)
			if !ok {
				continue
			}
			s := &slot{kind: q.kind, c: &Case{}}
			if created, _, err := l.recorder.Try(ctx,
				s.corpusCase(&question{kind: q.kind, operation: celgate.Create, object: m,
					user: q.user})); created != nil && err == nil {
				with(*q, m)
			}
		}
	}
	return all
}

// report writes a finding as a case of the corpus.
func (l *Live) report(f finding) string {
	s := f.slot
	request := map[string]any(nil)
	var old, object map[string]any
	if q := f.question; q != nil {
		request = map[string]any{
			"operation": q.operation, "apiVersion": s.kind.resource.GroupVersion().String(),
			"resource": s.kind.resource.Resource, "user": q.user.Username,
		}
		if q.operation != celgate.Connect { // which does not support dry runs
			request["dryRun"] = true
		}
		if object = q.object; q.operation != celgate.Create {
			old = s.old
		}
		main := object
		if main == nil {
			main = old
		}
		if namespace, _ := nameOf(main); namespace != "" {
			request["namespace"] = namespace
		}
		if q.sub != "" {
			request["subresource"] = q.sub
		}
		if q.user.UID != "" {
			request["uid"] = q.user.UID
		}
		if len(q.user.Groups) > 0 {
			request["groups"] = q.user.Groups
		}
		if len(q.user.Extra) > 0 {
			request["extra"] = q.user.Extra
		}
	}
	rights := l.rights
	if text, _ := json.Marshal(s.c.Policy); strings.Contains(string(text), "authorizer") {
		rights = slices.Concat(rights, l.further)
	}
	return l.world.corpusCase(s.c, s.kind.resource, old, object, request, rights)
}
