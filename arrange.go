package celgate

import (
	"fmt"
	"slices"
	"sync"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/sequence"
	"github.com/celgate/celgate/policy"
)

// An arrangement is the order of the policies in force. It analyses their expressions on demand.
type arrangement struct {
	envs  *celenv.Set
	hooks []*hook // in any order

	once   sync.Once
	found  *sequence.Order
	failed error

	mu      sync.Mutex
	effects map[*policy.Policy]*sequence.Effects
}

// sequence returns the order of the mutating policies.
func (a *arrangement) sequence() (*sequence.Order, error) {
	a.once.Do(func() {
		var all []*policy.Policy
		for _, h := range a.hooks {
			if h.phase == policy.PhaseMutation {
				all = append(all, h.Policy)
			}
		}
		a.found = sequence.Find(all, func(p *policy.Policy) *sequence.Effects {
			effects, err := a.effectsOf(p)
			if err != nil {
				a.failed, effects = err, &sequence.Effects{Blind: true}
			}
			return effects
		})
	})
	return a.found, a.failed
}

// effectsOf returns the fields that a mutating policy reads and writes.
func (a *arrangement) effectsOf(p *policy.Policy) (*sequence.Effects, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.effects[p]; found != nil {
		return found, nil
	}
	var bindings []*policy.Binding
	for _, h := range a.hooks {
		if h.Policy != p || h.phase != policy.PhaseMutation {
			continue
		}
		for _, b := range h.bindings {
			bindings = append(bindings, b.Binding)
		}
	}
	found, err := sequence.EffectsOf(a.envs, p, bindings)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	if a.effects == nil {
		a.effects = map[*policy.Policy]*sequence.Effects{}
	}
	a.effects[p] = found
	return found, nil
}

// arrange sorts the hooks, which are sorted by name, into the order in which they run, and sets the effects of mutating
// policies of the dialect that may run again. An error is a defect of this program.
func arrange(envs *celenv.Set, hooks []*hook) (*arrangement, error) {
	a := &arrangement{envs: envs, hooks: slices.Clone(hooks)}
	slices.SortStableFunc(hooks, func(a, b *hook) int { return a.turn() - b.turn() })
	if !slices.ContainsFunc(hooks, (*hook).isOwn) {
		return a, nil
	}
	order, err := a.sequence()
	if err != nil {
		return nil, err
	}
	place := make(map[*policy.Policy]int, len(order.Policies))
	for i, p := range order.Policies {
		place[p] = i
	}
	slices.SortStableFunc(hooks, func(a, b *hook) int {
		if a.phase == policy.PhaseMutation && b.phase == policy.PhaseMutation {
			return place[a.Policy] - place[b.Policy]
		}
		return a.turn() - b.turn()
	})
	for _, h := range hooks {
		if !h.isOwn() {
			continue
		}
		h.problem = order.Problem(h.Policy)
		if h.MayReinvoke() {
			if h.effects, err = a.effectsOf(h.Policy); err != nil {
				return nil, err
			}
		}
	}
	return a, nil
}
