package serve

import (
	"fmt"
	"slices"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/policy"
)

// fights are the fights between mutating policies of the dialect in requests that this replica answered. They hold no
// values, because more people may read a status than the objects concerned.
type fights struct {
	mu    sync.Mutex
	seen  []kube.Fight
	added chan struct{} // closed when another fight is found; nil if nobody waits
}

const (
	mostFights = 20 // the most that are kept: replicas report all of them
	longestWay = 200
)

// note records fights between policies of a set.
func (f *fights) note(found []celgate.Fight, set *policy.Set) {
	if len(found) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fight := range found {
		path := fight.Path[:min(len(fight.Path), longestWay)]
		state := stateOf(set, fight.Policies)
		for i, p := range fight.Policies {
			one := kube.Fight{Policy: p.String(), Path: path, Of: state}
			if len(fight.Policies) > 1 {
				one.With = fight.Policies[1-i].String()
			}
			f.add(one, set)
		}
	}
}

func (f *fights) add(one kube.Fight, set *policy.Set) {
	if slices.Contains(f.seen, one) {
		return
	}
	f.seen = slices.DeleteFunc(f.seen, func(old kube.Fight) bool { return !current(old, set) })
	if len(f.seen) == mostFights {
		return
	}
	f.seen = append(f.seen, one)
	if f.added != nil {
		close(f.added)
		f.added = nil
	}
}

// list returns the recorded fights, and a channel that is closed when another one is found.
func (f *fights) list() ([]kube.Fight, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.added == nil {
		f.added = make(chan struct{})
	}
	return slices.Clone(f.seen), f.added
}

// stateOf identifies the present versions of policies.
func stateOf(set *policy.Set, of []policy.Ref) string {
	text := ""
	for _, ref := range of {
		if p := set.Policy(ref); p != nil {
			text += fmt.Sprint(ref, " ", p.Metadata.UID, " ", p.Metadata.Generation, "\n")
		}
	}
	return text
}

// current reports whether a fight is between policies as they are now.
func current(fight kube.Fight, set *policy.Set) bool {
	for _, order := range [][]string{{fight.Policy, fight.With}, {fight.With, fight.Policy}} {
		var of []policy.Ref
		for _, name := range order {
			i := slices.IndexFunc(set.Policies, func(p *policy.Policy) bool { return p.Ref().String() == name })
			if i >= 0 {
				of = append(of, set.Policies[i].Ref())
			}
		}
		if stateOf(set, of) == fight.Of {
			return true
		}
	}
	return false
}

// converges is the condition that the mutations of a policy reach a stable result.
func (w *writing) converges(p *policy.Policy) kube.Condition {
	seen := w.fights
	for _, replica := range w.all {
		seen = append(seen[:len(seen):len(seen)], replica.Fights...)
	}
	for _, fight := range seen {
		if fight.Policy != p.Ref().String() || !current(fight, w.set) {
			continue
		}
		message := "undoes its own change of " + fight.Path
		if fight.With != "" {
			message = "conflicts with " + fight.With + " over " + fight.Path
		}
		return kube.Condition{Type: "Converges", Reason: "Fights", Message: message}
	}
	return kube.Condition{Type: "Converges", True: true, Reason: "NoFightSeen"}
}
