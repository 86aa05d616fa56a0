package prove

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestVacuousUnmatched asks about a policy with a match condition whose binding does not match one of its kinds.
func TestVacuousUnmatched(t *testing.T) {
	r := room(t)
	text := strings.Replace(one("", "v1", "pods", "object.metadata.name != 'a'"), "  validations:",
		"  matchConditions:\n  - {name: c, expression: object.metadata.name != 'b'}\n  validations:", 1)
	text = strings.Replace(text, "validationActions: [Deny]", "validationActions: [Deny], matchResources: {resourceRules: "+
		"[{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}", 1)
	all, err := r.Vacuous(context.Background(), sideOf(t, r, text))
	if err != nil || all.Undecided > 0 {
		t.Fatal(err, all)
	}
	if found := all.Found; len(found) != 1 || found[0].Message != "does not match any request that the policy matches" {
		t.Errorf("%+v", found)
	}
}

// TestDeadParts asks for the parts of expressions that make no difference.
func TestDeadParts(t *testing.T) {
	r := room(t)
	for _, test := range []struct {
		resource, expression string
		want                 []string
	}{
		{"deployments", "object.spec.replicas < 5 && object.spec.replicas < 7", []string{"object.spec.replicas < 7"}},
		{"deployments", "object.spec.replicas < 7 && object.spec.replicas < 5", []string{"object.spec.replicas < 7"}},
		{"deployments", "object.spec.replicas < 5 && object.spec.replicas < 5", []string{"object.spec.replicas < 5"}},
		{"deployments", "object.spec.replicas < 5 || object.spec.replicas == 4 || object.spec.paused",
			[]string{"object.spec.replicas == 4"}},
		{"deployments", "has(object.spec.replicas) && object.spec.replicas < 4", []string{"has(object.spec.replicas)"}},
		{"deployments", "has(object.spec.paused) && object.spec.paused", nil},   // else it is an error
		{"deployments", "!has(object.spec.paused) || !object.spec.paused", nil}, // although false is not stored
		{"deployments", "has(object.spec.replicas) ? object.spec.replicas < 4 : false", []string{"false"}},
		{"deployments", "object.spec.replicas > 3 ? object.spec.replicas > 2 && object.spec.replicas < 9 : true",
			[]string{"object.spec.replicas > 2"}},
		{"deployments", "(object.metadata.name.split('-')[0] == 'a' || object.spec.replicas < 3) && object.spec.replicas < 9", nil},
		{"deployments", "object.metadata.name.split('-').all(x, x != 'a' && x != 'a')", nil}, // not decided
		{"pods", "object.spec.containers.all(c, c.image.startsWith('a/') || c.image.startsWith('a/b'))",
			[]string{"c.image.startsWith('a/b')"}},
		{"pods", "object.spec.containers.all(c, has(c.image) && c.image != '' && c.image != 'b')",
			[]string{"c.image != ''", "has(c.image)"}},
		{"pods", "object.spec.containers.exists(c, c.name == 'a') && object.spec.containers.size() > 0",
			[]string{"object.spec.containers.size() > 0"}},
		{"pods", "!(has(object.spec.hostNetwork) && object.spec.hostNetwork) && " +
			"(has(object.spec.hostPID) ? !object.spec.hostPID : true)", nil},
		{"pods", "request.operation == 'DELETE' || has(object.spec.nodeName)", []string{"request.operation == 'DELETE'"}},
		{"pods", "request.operation == 'UPDATE' || has(object.spec.nodeName)", nil},
	} {
		group := map[string]string{"deployments": "apps"}[test.resource]
		s := sideOf(t, r, one(group, "v1", test.resource, test.expression))
		all, err := r.Vacuous(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, v := range all.Found {
			parts = append(parts, v.Part())
		}
		if !slices.Equal(parts, test.want) {
			t.Errorf("%s: %q", test.expression, parts)
		}
	}
}

// TestDeadMessages asks for messages that are never used.
func TestDeadMessages(t *testing.T) {
	r := room(t)
	for _, test := range []struct {
		message string
		dead    bool
	}{
		{"object.metadata.name + ' is too large'", false},
		{"' '", true},
		{"'a\\nb'", true},
		{"' a\\n'", false},
		{"'' + object.metadata.?generateName.orValue('')", false},
		{"object.spec.replicas < 5 ? 'small' : ''", true},
		{"string(oldObject.spec.replicas)", false},
		{"string(object.metadata.labels.team)", false},
		{"object.metadata.name.split('-')[0]", false},
	} {
		text := strings.Replace(one("apps", "v1", "deployments", "object.spec.replicas < 5"),
			"---", "    messageExpression: "+strconv.Quote(test.message)+"\n---", 1)
		all, err := r.Vacuous(context.Background(), sideOf(t, r, text))
		if err != nil || all.Undecided > 0 {
			t.Fatal(err, all)
		}
		if found := all.Found; (len(found) == 1) != test.dead {
			t.Errorf("%s: %+v", test.message, found)
		}
	}
}

// TestRandomVacuities decides about random objects with policies whose validation is proved to have one effect only.
func TestRandomVacuities(t *testing.T) {
	r := room(t)
	a := newAgreement(t, r, *comparisonSeed, 12)
	for range max(40, *comparisonCount/500) {
		kind := agreementKinds[a.rand.IntN(len(agreementKinds))]
		g := &writer{rand: a.rand, types: r.Types, kind: kind}
		x := g.boolean(2, g.roots())
		text := []string{"(X) == !(X)", "(X) != !(X)", "(X) && !(X)", "(X) || !(X)", "X"}[a.rand.IntN(5)]
		a.vacuitiesOf(kind, strings.ReplaceAll(text, "X", x), []string{"Ignore", "Fail"}[a.rand.IntN(2)])
	}
	t.Log(a.compared, a.seen)
	if a.seen["always denies"] == 0 || a.seen["never denies"] == 0 {
		t.Error("the policies do not have all effects")
	}
}

func (a *agreement) vacuitiesOf(kind schema.GroupVersionKind, text, failurePolicy string) {
	res := a.room.Types.ResourceFor(kind)
	side := sideOf(a.t, a.room, strings.Replace(one(kind.Group, kind.Version, res.Resource, text), "spec:\n",
		"spec:\n  failurePolicy: "+failurePolicy+"\n", 1))
	clause := side.clauses()[0]
	cases := casesOf(a.room.Types, []*policy.Policy{clause.program.Policy})
	var all Vacuities
	if err := a.room.vacuousIn(context.Background(), clause.program, clause.binding, cases, &all); err != nil {
		a.t.Fatal(err)
	}
	var never, always bool
	for _, v := range all.Found {
		never = never || v.Message == "never denies a request"
		always = always || v.Message == "denies every request that the policy matches"
	}
	if never {
		a.seen["never denies"]++
	}
	if always {
		a.seen["always denies"]++
	}
	if never && always {
		a.t.Errorf("%s, %s: never denies and always denies", text, failurePolicy)
	}
	req := a.creation(kind, side)
	p := newPool(clause.program.validations[0])
	for range 40 {
		_, prepared := a.request(req, side, p)
		if prepared == nil {
			continue
		}
		d, err := side.engine.Validate(context.Background(), prepared)
		if err != nil {
			a.t.Fatal(err)
		}
		a.compared++
		if d.Allowed && always || !d.Allowed && never {
			a.fail(text+", failurePolicy "+failurePolicy, prepared.Request().Object,
				fmt.Sprintf("allowed: %t, although it is proved that it always (%t) or never (%t) denies", d.Allowed, always, never))
		}
	}
}
