package conformance

import (
	"fmt"
	"slices"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/derive"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// undone lists the cases whose derived policy denies the server's result, with the reason.
var undone = map[string]string{
	"apply/int32-wraps":                            "the server stores another number",
	"budget/mutation-own":                          "each mutation has a budget, all validations have one",
	"custom/equivalent-json-patch-version":         "the mutation makes another version of the object",
	"custom/json-patch-version":                    "the mutation makes another version of the object",
	"evaluation/namespace-object-whole-mutation":   "validations see less of a namespace",
	"json-patch/autoscaler-v1-annotations-removed": "the server writes annotations again",
	"json-patch/double-index":                      "only the form of the object in mutations takes the index",
	"json-patch/ignored-between":                   "a mutation of several failed",
	"json-patch/uint-big":                          "the number becomes text",
	"mutation-errors/budget":                       "each mutation has a budget, all validations have one",
	"prepare/job-labels-removed":                   "the server writes labels of its own",
	"prepare/job-labels-removed-and-mutated":       "the server writes labels of its own",
}

// before lists the cases whose original object already has all values that the mutation sets.
var before = map[string]string{
	"custom/apply-set-order": "another order",
}

// TestDerived derives a validating policy from each mutating one of the corpus that changed an object: it takes the
// object that the server made, and denies the one that came, if all of the mutation is asserted.
func TestDerived(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus once more")
	}
	cases := corpus(t)
	taken, denied, refused, of, ran := 0, 0, 0, 0, 0
	for _, c := range cases {
		mutating := slices.DeleteFunc(slices.Clone(c.Policies), func(object map[string]any) bool {
			return object["kind"] != string(policy.Mutating)
		})
		if len(mutating) != 1 || c.Request == nil || c.Object == nil || c.Want.Allowed == nil || !*c.Want.Allowed {
			continue
		}
		of++
		t.Run(c.Name, func(t *testing.T) {
			ran++
			w, err := worldOf(c, celgate.Newest)
			if err != nil {
				t.Fatal(err)
			}
			engine, rejected, err := w.Engine(c.Policies, c.Stored...)
			if err != nil || len(rejected) > 0 {
				return
			}
			request, err := w.prepare(t.Context(), engine, c, &Want{})
			if err != nil || request == nil {
				return
			}
			decision, err := engine.Mutate(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if !decision.Mutated || len(decision.Changes) != 1 {
				return
			}
			derived := derivedFrom(t, w, c, mutating[0])
			if derived.Policy == nil {
				refused++
				return
			}
			policies := []map[string]any{derived.Policy}
			for _, object := range c.Policies {
				if object["kind"] == string(policy.Mutating)+"Binding" {
					policies = append(policies, derive.Binding(object, []string{"Deny"}))
				}
			}
			validating, rejected, err := w.Engine(policies)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rejected {
				t.Fatalf("the server refuses it: %v", r.Status.Message)
			}
			after, err := validating.Validate(t.Context(), request.WithObject(decision.MutatedObject))
			if err != nil {
				t.Fatal(err)
			}
			if known := undone[c.Name]; after.Allowed == (known != "") {
				t.Errorf("listed as %q, %v\n%v", known, after.Violations, derived.Policy["spec"])
			}
			taken++
			came, err := validating.Validate(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if known := before[c.Name]; len(derived.Refused) == 0 && came.Allowed != (known != "") {
				t.Errorf("the object as it came: listed as %q: %v\n%v", known, derived.Policy["spec"], outcomes(came))
			}
			if !came.Allowed {
				denied++
			}
		})
	}
	t.Logf("%d taken, %d denied, %d without a policy", taken, denied, refused)
	if ran == of && (taken < 50 || denied < 50) { // not if -run chooses some
		t.Errorf("only %d taken, %d denied", taken, denied)
	}
}

func outcomes(d *celgate.Decision) (all []string) {
	for _, o := range d.Outcomes {
		all = append(all, fmt.Sprint(o.Field(), " ", o.Verdict, " ", o.Message))
	}
	return all
}

func derivedFrom(t *testing.T, w *World, c *Case, object map[string]any) *derive.Result {
	t.Helper()
	envs, err := celenv.New(w.Minor, quirks.SetOf(w.Minor))
	if err != nil {
		t.Fatal(err)
	}
	bundle := manifest.NewBundle(manifest.DocumentsOf([]map[string]any{object})...)
	if len(bundle.Set.Policies) != 1 {
		t.Skip("not a policy")
	}
	kind := apischema.FromAPIVersionAndKind(fmt.Sprint(c.Object["apiVersion"]), fmt.Sprint(c.Object["kind"]))
	result, err := derive.Validation(envs, bundle.Set.Policies[0], object,
		derive.Options{Types: []*shape.Type{w.Types.Type(kind)}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}
