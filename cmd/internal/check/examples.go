package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/state"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// An Example is a request that was generated for a policy, and the decision of all policies together.
type Example struct {
	Policy   *policy.Policy
	Request  *celgate.Request
	Decision *celgate.Decision
}

// Examples generates requests for the policies that have a binding: for each policy one request that passes, and one
// for each expression that can fail. It also returns the objects that must exist for them: a namespace and params.
func Examples(ctx context.Context, in Input) ([]Example, []map[string]any, error) {
	s, bound, err := boundPolicies(ctx, in)
	if len(bound) == 0 || err != nil {
		return nil, nil, err
	}
	around := s.newMaker(bound...)
	identity := func(object map[string]any) string {
		metadata := tree.Object(object).Metadata()
		return fmt.Sprint(object["apiVersion"], " ", object["kind"], " ", metadata["namespace"], " ", metadata["name"])
	}
	exist := map[string]bool{}
	var stored, objects []map[string]any
	for _, object := range in.State {
		apiVersion, _ := object["apiVersion"].(string)
		kind, _ := object["kind"].(string)
		exist[identity(object)] = true
		if read, _, err := prepare.ReadStored(object, in.Types,
			apischema.FromAPIVersionAndKind(apiVersion, kind)); err == nil {
			object = read
		}
		stored = append(stored, object)
	}
	for _, object := range around.objects() { // except those that the input contains
		if !exist[identity(object)] {
			exist[identity(object)] = true
			objects = append(objects, object)
		}
	}
	cluster, err := state.New(in.Types, append(stored, objects...)...)
	if err != nil {
		return nil, nil, err
	}
	engine, err := celgate.New(in.Set, celgate.Options{KubeVersion: in.KubeVersion, Types: in.Types, Cluster: cluster})
	if err != nil {
		return nil, nil, err
	}
	var all []Example
	for _, f := range bound {
		seen := map[string]bool{}
		var spent int64
		for _, r := range s.newMaker(f).requests() {
			prepared, err := engine.Prepare(ctx, r)
			if err != nil {
				continue // the server refuses such an object
			}
			d, err := engine.Admit(ctx, prepared)
			if err != nil {
				return nil, nil, err
			}
			if kind, ok := f.exampleOf(d); ok && !seen[kind] {
				seen[kind] = true
				all = append(all, Example{f.Policy, r, d})
			}
			for _, o := range d.Outcomes {
				spent += o.Cost
			}
			if spent > mostSpent {
				break
			}
		}
	}
	return all, objects, nil
}

// boundPolicies returns the policies that have a binding, and their subject.
func boundPolicies(ctx context.Context, in Input) (*subject, []*facts, error) {
	envs, err := celenv.New(in.KubeVersion, quirks.SetOf(in.KubeVersion))
	if err != nil {
		return nil, nil, err
	}
	s := newSubject(ctx, in, envs)
	return s, slices.DeleteFunc(slices.Clone(s.facts), func(f *facts) bool { return len(f.bindings) == 0 }), nil
}

// Specimens generates CREATE requests for the kinds that each policy with a binding matches. It also returns the
// objects that must exist for them.
func Specimens(ctx context.Context, in Input) ([]*celgate.Request, []map[string]any, error) {
	s, bound, err := boundPolicies(ctx, in)
	if len(bound) == 0 || err != nil {
		return nil, nil, err
	}
	var requests []*celgate.Request
	for _, f := range bound {
		requests = append(requests, s.newMaker(f).requests()...)
	}
	return requests, s.newMaker(bound...).objects(), nil
}

// exampleOf returns what a decision is an example of: an expression of the policy that fails, a pass, or a changed
// object; false if another policy makes the decision.
func (f *facts) exampleOf(d *celgate.Decision) (string, bool) {
	for _, v := range d.Violations {
		if v.Kind == f.Kind && v.Policy == f.Name {
			return v.Expr.Field, true
		}
	}
	if len(d.Violations) > 0 || !d.Allowed {
		return "", false
	}
	took, mutated := false, false
	for _, o := range d.Outcomes {
		took = took || o.Kind == f.Kind && o.Policy == f.Name && o.Verdict == celgate.Admit
	}
	for _, c := range d.Changes {
		mutated = mutated || c.Policy == f.Name
	}
	if mutated {
		return "mutated", true
	}
	return "passes", took
}
