package webhook

import (
	queue "container/list"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
	"github.com/celgate/celgate/internal/tree"
)

// Again remembers, for the duration of a request, how mutating policies changed its object. The API server calls a
// webhook a second time, without saying so, if another webhook has changed the object since. A policy would then run
// four times where the server itself runs it twice. A repeated request is recognised by its object, which still holds
// the earlier changes: the second of the two runs is undone and repeated on the result of the other webhooks. The zero
// value is ready to use.
//
// Other repeated requests run from the start: those whose second call goes to another replica, and those that were not
// changed.
type Again struct {
	mu    sync.Mutex
	known map[string]*queue.Element // of *made
	order queue.List                // the oldest first
	size  int
}

const (
	againTime  = 30 * time.Second // the longest that the API server waits for a webhook
	againBytes = 8 << 20          // of all objects together, as JSON
	againEach  = 64 << 10
)

// made is how policies changed one object.
type made struct {
	key    string
	at     time.Time
	size   int
	engine *celgate.Engine
	first  *celgate.Decision
	undo   []jsonpatch.Operation // tests whether an object holds the change, and undoes the second run
}

// requestKey is equal for all calls about a request. Other requests may have the same key.
func requestKey(r *celgate.Request) string {
	object, old := tree.Object(r.Object).Metadata(), tree.Object(r.OldObject).Metadata()
	return strings.Join([]string{
		string(r.Operation), r.Resource.Group, r.Resource.Version, r.Resource.Resource, r.SubResource, r.Namespace,
		r.Name, object.Text("generateName"), r.UserInfo.Username, strconv.FormatBool(r.DryRun), old.Text("uid"),
		old.Text("resourceVersion"),
	}, "\n")
}

// mutate runs the mutating policies, or only the rest of their two runs.
func (a *Again) mutate(ctx context.Context, engine *celgate.Engine, p *celgate.Prepared) (*celgate.Decision, error) {
	if a == nil {
		return engine.Mutate(ctx, p)
	}
	r := p.Request()
	key := requestKey(r)
	if m := a.takeBack(key); m != nil && m.engine == engine {
		undone, err := jsonpatch.Apply(r.Object, m.undo)
		if object, ok := undone.(map[string]any); ok && err == nil {
			d, err := engine.Remutate(ctx, p.WithObject(object), m.first)
			if err == nil && d.Allowed && d.Object != nil {
				d.Mutated = !tree.Equal(r.Object, d.Object)
			}
			return d, err
		}
	}
	d, err := engine.Mutate(ctx, p)
	if err == nil && d.Allowed && d.Mutated {
		if first := d.FirstPass(); first != nil {
			a.put(&made{key: key, engine: engine, first: d.WithoutObjects(), undo: undo(r.Object, first, d.Object)})
		}
	}
	return d, err
}

// undo returns operations that fail for an object without the earlier changes, and otherwise leave only those of the
// first run. Added members are tested one by one, because other webhooks may add more beside them.
func undo(before, first, second map[string]any) []jsonpatch.Operation {
	var operations []jsonpatch.Operation
	test := func(path string, value any) {
		operations = append(operations, jsonpatch.Operation{Op: "test", Path: path, Value: value, HasValue: true})
	}
	var leaves func(path string, value any)
	leaves = func(path string, value any) {
		members, ok := value.(map[string]any)
		if !ok || len(members) == 0 {
			test(path, detach(value))
			return
		}
		for name, member := range members {
			leaves(path+"/"+tree.EscapeToken(name), member)
		}
	}
	for _, o := range diff(before, second) {
		if o.Op != "remove" {
			leaves(strings.Clone(o.Path), o.value())
		}
	}
	for _, o := range diff(second, first) {
		back := jsonpatch.Operation{Op: o.Op, Path: strings.Clone(o.Path)}
		if o.Op != "remove" {
			back.Value, back.HasValue = detach(o.value()), true
		}
		operations = append(operations, back)
	}
	return operations
}

// value returns the value as a tree.
func (o operation) value() any {
	if text, ok := o.Value.(json.RawMessage); ok && string(text) == string(null) {
		return nil
	}
	return o.Value
}

// detach copies a tree: its strings are parts of the body of the request, which should be freed.
func detach(value any) any {
	switch value := value.(type) {
	case string:
		return strings.Clone(value)
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, member := range value {
			out[strings.Clone(name)] = detach(member)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = detach(item)
		}
		return out
	}
	return value
}

func (a *Again) put(m *made) {
	text, err := marshal(m.undo)
	if err != nil || len(text) > againEach ||
		!slices.ContainsFunc(m.undo, func(o jsonpatch.Operation) bool { return o.Op == "test" }) {
		return // without a test, every object would be taken for this one
	}
	m.at, m.size = time.Now(), len(text)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known = map[string]*queue.Element{}
	}
	if last := a.known[m.key]; last != nil {
		a.drop(last)
	}
	a.known[m.key] = a.order.PushBack(m)
	a.size += m.size
	for a.size > againBytes || time.Since(a.order.Front().Value.(*made).at) > againTime {
		a.drop(a.order.Front())
	}
}

// takeBack removes the entry of a key and returns it.
func (a *Again) takeBack(key string) *made {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.known[key]
	if e == nil {
		return nil
	}
	a.drop(e)
	if m := e.Value.(*made); time.Since(m.at) <= againTime {
		return m
	}
	return nil
}

func (a *Again) drop(e *queue.Element) {
	m := e.Value.(*made)
	a.order.Remove(e)
	delete(a.known, m.key)
	a.size -= m.size
}
