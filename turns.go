package celgate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/sequence"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// A Turn is the place of a mutating policy among those in force.
type Turn struct {
	policy.Ref
	Reads  []string // fields such as metadata.labels.team, sorted; "*": every one, as far as is known
	Writes []string // as Reads
	Why    []string // reasons why it runs behind others; none: its name and failurePolicy decide
}

// An OrderProblem says that mutating policies do not run in the order that they ask for or need. They are in force all
// the same.
type OrderProblem struct {
	policy.Ref          // that the problem is about, of a cycle the first
	Of         []string // the names of all policies that it is about
	Reason     string   // a word: UnknownPolicy, Contradiction, Cycle, OtherWebhook
	IsError    bool     // what a policy asks for cannot be; else what policies do makes it so
	Message    string
	Value      string // in the field
	Field      string // of the policy; empty: of none
	Position   policy.Position
}

// Error says where the problem is and what it is.
func (p *OrderProblem) Error() string {
	text := p.Ref.String() + ": " + p.Message
	if place := p.Position.String(); place != "" {
		text = place + ": " + text
	}
	return text
}

// Turns returns the mutating policies in force, in the order in which they run. The error is a defect of this program.
func (e *Engine) Turns() ([]Turn, error) {
	order, err := e.sequence()
	if err != nil {
		return nil, err
	}
	var all []Turn
	for _, p := range order.Policies {
		effects, err := e.effects.of(p)
		if err != nil {
			return nil, err
		}
		all = append(all, Turn{Ref: p.Ref(), Reads: effects.Reads(), Writes: effects.Writes(), Why: order.Why[p]})
	}
	return all, nil
}

// OrderProblems returns why mutating policies in force do not run in the order that they ask for or need.
func (e *Engine) OrderProblems() ([]OrderProblem, error) {
	order, err := e.sequence()
	if err != nil {
		return nil, err
	}
	var all []OrderProblem
	for _, p := range order.Problems {
		found := OrderProblem{Ref: p.Policy.Ref(), Reason: string(p.Reason), IsError: p.Reason.Wrong(),
			Message: p.Message, Field: p.Field, Value: p.Value, Position: p.Policy.Position}
		for _, of := range p.Of {
			found.Of = append(found.Of, of.Name)
		}
		if p.Field != "" {
			found.Message = fmt.Sprintf("%s: Invalid value: %q: %s", p.Field, p.Value, p.Message)
			found.Position = p.Policy.Locate(&field.Error{Field: p.Field})
		}
		all = append(all, found)
	}
	return all, nil
}

// sequenceOf makes what finds the order of the mutating policies among hooks, once it is asked for.
func (e *Engine) sequenceOf(hooks []*hook) func() (*sequence.Order, error) {
	return sync.OnceValues(func() (*sequence.Order, error) {
		var all []*policy.Policy
		for _, h := range hooks {
			if h.phase == policy.PhaseMutation {
				all = append(all, h.Policy)
			}
		}
		var failed error
		order := sequence.Find(all, func(p *policy.Policy) *sequence.Effects {
			effects, err := e.effects.of(p)
			if err != nil {
				failed, effects = err, &sequence.Effects{Blind: true}
			}
			return effects
		})
		return order, failed
	})
}

// effectsKnown remembers what mutating policies read and write.
type effectsKnown struct {
	envs  *celenv.Set
	hooks []*hook

	mu    sync.Mutex
	known map[*policy.Policy]*sequence.Effects
}

func (k *effectsKnown) of(p *policy.Policy) (*sequence.Effects, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if found := k.known[p]; found != nil {
		return found, nil
	}
	var bindings []*policy.Binding
	for _, h := range k.hooks {
		if h.Policy != p || h.phase != policy.PhaseMutation {
			continue
		}
		for _, b := range h.bindings {
			bindings = append(bindings, b.Binding)
		}
	}
	found, err := sequence.EffectsOf(k.envs, p, bindings)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	if k.known == nil {
		k.known = map[*policy.Policy]*sequence.Effects{}
	}
	k.known[p] = found
	return found, nil
}

// arrange puts the hooks into the order in which they run, and gives those of the dialect that may run again what they
// read and write.
func (e *Engine) arrange() error {
	hooks := e.index.hooks
	e.effects = &effectsKnown{envs: e.envs, hooks: hooks}
	e.sequence = e.sequenceOf(hooks)
	slices.SortStableFunc(hooks, func(a, b *hook) int { return a.turn() - b.turn() })
	own := slices.ContainsFunc(hooks, func(h *hook) bool {
		return h.phase == policy.PhaseMutation && h.Kind == policy.Admission
	})
	if !own {
		return nil
	}
	order, err := e.sequence()
	if err != nil {
		return err
	}
	place := make(map[*policy.Policy]int, len(order.Policies))
	for i, p := range order.Policies {
		place[p] = i
	}
	slices.SortStableFunc(hooks, func(a, b *hook) int {
		if a.phase != b.phase || a.phase != policy.PhaseMutation {
			return 0
		}
		return place[a.Policy] - place[b.Policy]
	})
	for _, h := range hooks {
		if h.phase != policy.PhaseMutation || h.Kind != policy.Admission {
			continue
		}
		h.problem = order.Problem(h.Policy)
		if h.MayReinvoke() {
			if h.effects, err = e.effects.of(h.Policy); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteCycles says of the policies that ran in the mutating phase which of them each read what the others write.
func (r *run) noteCycles() {
	var told []*sequence.Problem
	for _, h := range r.known.mutating.hooks {
		p := h.problem
		if p == nil || p.Reason != sequence.Cycle || slices.Contains(told, p) || !r.ranBoth(p) {
			continue
		}
		told = append(told, p)
		r.decision.say(Note{Message: "mutating policies run in the order of their names where each reads what another one writes: " +
			p.Message})
	}
}

// ranBoth reports that at least two of the policies of a problem took part.
func (r *run) ranBoth(p *sequence.Problem) bool {
	var names []string
	for _, o := range r.decision.Outcomes {
		mutation := o.Kind == policy.Admission && strings.HasPrefix(o.Field, "spec.mutations")
		if mutation && !slices.Contains(names, o.Policy) {
			names = append(names, o.Policy)
		}
	}
	ran := slices.DeleteFunc(slices.Clone(p.Of), func(of *policy.Policy) bool { return !slices.Contains(names, of.Name) })
	return len(ran) > 1
}

// A Fight is between mutating policies that do not come to rest: each changes back what the other one has changed.
type Fight struct {
	Policies []policy.Ref // the one that would change it again first; one alone if it undoes itself
	Path     string       // of the field
	Values   []string     // that it had one after the other, as JSON
}

// String says it in one line.
func (f Fight) String() string {
	text := f.Policies[0].String() + " does not come to rest: "
	if len(f.Policies) > 1 {
		text += "fights with " + f.Policies[1].String() + " "
	}
	return text + "over " + f.Path + ": " + strings.Join(f.Values, ", ")
}

// fights finds out whether the policies that would run once more change the object: then they do not come to rest. What
// they make of it is not kept.
func (r *run) fights(re *reinvocation) error {
	before := *r.decision
	before.AuditAnnotations = maps.Clone(before.AuditAnnotations)
	trial := reinvocation{pass: re.pass + 1, again: re.restless}
	told := r.told
	r.told = nil
	err := r.passAgain(&trial)
	r.told = told
	made := r.decision.Changes[len(before.Changes):]
	*r.decision = before
	if err != nil {
		return err
	}
	for i := range made {
		f := fightOver(before.Changes, &made[i])
		before.Fights = append(before.Fights, f)
		r.decision.warn(Warning{Text: f.String()})
	}
	r.decision.Fights = before.Fights
	return nil
}

// fightOver says over what, and with whom, the policy of a change fights that it would make once more.
func fightOver(changes []Change, would *Change) Fight {
	path := difference(would.Before, would.After)
	f := Fight{Policies: []policy.Ref{would.Kind.Ref(would.Policy)}, Path: textOfPath(path)}
	var other policy.Ref
	for i := range changes {
		c := &changes[i]
		before, after := valueAt(c.Before, path), valueAt(c.After, path)
		if tree.Equal(before, after) {
			continue
		}
		if f.Values = append(f.Values, textOfValue(after)); c.Policy != would.Policy {
			other = c.Kind.Ref(c.Policy)
		}
	}
	f.Values = append(f.Values, textOfValue(valueAt(would.After, path)))
	if other.Name != "" {
		f.Policies = append(f.Policies, other)
	}
	return f
}

// difference leads to the first value that differs between two objects; below lists by index, a list of another length
// is one value.
func difference(before, after any) []any {
	switch before := before.(type) {
	case map[string]any:
		now, ok := after.(map[string]any)
		if !ok {
			return nil
		}
		names := slices.Collect(maps.Keys(before))
		for name := range now {
			if _, both := before[name]; !both {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if !tree.Equal(before[name], now[name]) {
				return append([]any{name}, difference(before[name], now[name])...)
			}
		}
	case []any:
		now, ok := after.([]any)
		if !ok || len(now) != len(before) {
			return nil
		}
		for i := range before {
			if !tree.Equal(before[i], now[i]) {
				return append([]any{i}, difference(before[i], now[i])...)
			}
		}
	}
	return nil
}

func valueAt(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			members, _ := v.(map[string]any)
			v = members[step]
		case int:
			list, _ := v.([]any)
			if v = nil; step < len(list) {
				v = list[step]
			}
		}
	}
	return v
}

// textOfPath writes a path as messages have it.
func textOfPath(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			switch {
			case !effects.Identifier(step):
				fmt.Fprintf(&b, "[%q]", step)
			case b.Len() > 0:
				b.WriteString("." + step)
			default:
				b.WriteString(step)
			}
		}
	}
	return cmp.Or(b.String(), "the object")
}

// maxFightText bounds how much of a value a fight shows.
const maxFightText = 60

func textOfValue(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > maxFightText {
		return strings.ToValidUTF8(string(text[:maxFightText]), "") + "…"
	}
	return string(text)
}
