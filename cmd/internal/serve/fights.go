package serve

import (
	"fmt"
	"slices"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/policy"
)

// fights are what mutating policies of the dialect have been seen to fight over in requests that this replica answered.
// Values are left out: more people may read a status than what is fought over.
type fights struct {
	mu    sync.Mutex
	seen  []kube.Fight
	added chan struct{} // closed when there is one more; nil before anybody waits
}

const (
	mostFights = 20 // that are kept: they are a part of what replicas report
	longestWay = 200
)

// note remembers the fights of a decision about policies of a set.
func (f *fights) note(d *celgate.Decision, set *policy.Set) {
	if d == nil || len(d.Fights) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fight := range d.Fights {
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

// list returns what is known, and a channel that is closed once more is.
func (f *fights) list() ([]kube.Fight, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.added == nil {
		f.added = make(chan struct{})
	}
	return slices.Clone(f.seen), f.added
}

// stateOf tells policies apart from what they are once somebody has changed one of them.
func stateOf(set *policy.Set, of []policy.Ref) string {
	text := ""
	for _, ref := range of {
		if p := set.Policy(ref); p != nil {
			text += fmt.Sprint(ref, " ", p.Metadata.UID, " ", p.Metadata.Generation, "\n")
		}
	}
	return text
}

// current reports that a fight is one between policies as they are now.
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

// converges says whether the mutations of a policy have been seen to come to rest.
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
			message = "fights with " + fight.With + " over " + fight.Path
		}
		return kube.Condition{Type: "Converges", Reason: "Fights", Message: message}
	}
	return kube.Condition{Type: "Converges", True: true, Reason: "NoFightSeen"}
}
