package serve

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/policy"
)

// TestFights remembers each fight once while its policies do not change, up to a maximum number.
func TestFights(t *testing.T) {
	set := &policy.Set{}
	for i := range 2 * mostFights {
		p := &policy.Policy{Kind: policy.Admission, Name: fmt.Sprint("p", i)}
		p.Metadata.UID, p.Metadata.Generation = types.UID(p.Name), 1
		set.Policies = append(set.Policies, p)
	}
	between := func(a, b int) []celgate.Fight {
		return []celgate.Fight{{Path: "data.x",
			Policies: []policy.Ref{set.Policies[a].Ref(), set.Policies[b].Ref()}}}
	}
	var f fights
	_, added := f.list()
	f.note(between(0, 1), set)
	<-added
	f.note(between(0, 1), set)
	seen, _ := f.list()
	if len(seen) != 2 || seen[0].With != "AdmissionPolicy p1" || seen[1].With != "AdmissionPolicy p0" {
		t.Errorf("%+v", seen)
	}
	w := &writing{loaded: &loaded{set: set}, all: []kube.Report{{Fights: seen}}}
	if got := w.converges(set.Policies[1]); got.True || got.Message != "conflicts with AdmissionPolicy p0 over data.x" {
		t.Errorf("%+v", got)
	}
	if got := w.converges(set.Policies[2]); !got.True {
		t.Errorf("%+v", got)
	}
	set.Policies[0].Metadata.Generation++
	if got := w.converges(set.Policies[1]); !got.True {
		t.Errorf("it fights with what is no more: %+v", got)
	}
	for i := 1; i < len(set.Policies); i++ {
		f.note(between(i, i-1), set)
	}
	if seen, _ := f.list(); len(seen) != mostFights || seen[0].Of == "" {
		t.Errorf("%d fights, %+v", len(seen), seen[0])
	}
}
