package replay

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/patch/merge/mergetest"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func podType(t *testing.T) *shape.Type {
	t.Helper()
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return types.Type(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
}

// TestLost tests which changes of policies a, b, … are lost; each policy leaves one object.
func TestLost(t *testing.T) {
	for name, tt := range map[string]struct {
		objects string // from the first to the last
		want    []string
	}{
		"kept": {"{} | {spec: {hostname: x}} | {spec: {hostname: x, nodeName: y}}", nil},
		"overwritten": {"{} | {spec: {hostname: x}} | {spec: {hostname: z}}",
			[]string{`spec.hostname: policy a set "x", policy b undoes it`}},
		"removed": {"{} | {spec: {hostname: x}} | {spec: {}}",
			[]string{`spec.hostname: policy a set "x", policy b undoes it`}},
		"put back": {"{spec: {hostname: x}} | {} | {spec: {hostname: x}}",
			[]string{`spec: policy a removed it, policy b restores it`}},
		"restored": {"{} | {spec: {hostname: x}} | {spec: {hostname: z}} | {spec: {hostname: x}}",
			[]string{`spec.hostname: policy b set "z", policy c undoes it`}},
		"another member": {"{} | {metadata: {labels: {a: b, c.d/e: f}}} | {metadata: {labels: {a: b, c.d/e: g}}}",
			[]string{`metadata.labels["c.d/e"]: policy a set "f", policy b undoes it`}},
		"an item in another place": {"{spec: {containers: [{name: a}]}} | " +
			"{spec: {containers: [{name: a}, {name: b, image: i}]}} | " +
			"{spec: {containers: [{name: c}, {name: b, image: i}, {name: a}]}}", nil},
		"a member of an item": {"{spec: {containers: [{name: a}]}} | " +
			"{spec: {containers: [{name: a, image: i}]}} | {spec: {containers: [{name: c}, {name: a, image: j}]}}",
			[]string{`spec.containers[name=a].image: policy a set "i", policy b undoes it`}},
		"an item gone": {"{spec: {containers: []}} | {spec: {containers: [{name: a, image: i}]}} | {spec: {containers: []}}",
			[]string{`spec.containers[name=a].name: policy a set "a", policy b undoes it`,
				`spec.containers[name=a].image: policy a set "i", policy b undoes it`}},
		"an item of a list without keys": {"{spec: {tolerations: [{key: a}]}} | {spec: {tolerations: [{key: a}, {key: b}]}} | " +
			"{spec: {tolerations: [{key: a}]}}",
			[]string{`spec.tolerations: policy a added the item "b", policy b removes it`}},
		"one of two equal items": {"{spec: {tolerations: [{key: a}]}} | {spec: {tolerations: [{key: a}, {key: a}]}} | " +
			"{spec: {tolerations: [{key: a}]}}",
			[]string{`spec.tolerations: policy a added the item "a", policy b removes it`}},
		"an item back": {"{spec: {tolerations: [{key: a}]}} | {spec: {tolerations: []}} | {spec: {tolerations: [{key: a}]}}",
			[]string{`spec.tolerations: policy a set [], policy b undoes it`}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []map[string]any
			for _, text := range strings.Split(tt.objects, " | ") {
				objects = append(objects, object(t, text))
			}
			d := &celgate.Decision{MutatedObject: objects[len(objects)-1]}
			for i := range objects[1:] {
				d.Changes = append(d.Changes, celgate.Change{Policy: string(rune('a' + i)), Binding: "b",
					Before: objects[i], After: objects[i+1]})
			}
			var found Result
			found.findLosses(d, podType(t))
			got := map[string]bool{}
			for _, message := range found.Messages() {
				got[message] = true
			}
			want := map[string]bool{}
			for _, message := range tt.want {
				want[message] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWrites tests the differences between random objects: the new object has all of them, the old one none.
func TestWrites(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		choices := make([]byte, 200)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		g := mergetest.Generator{Choices: choices}
		before, _, typ := g.Scenario()
		after, _ := g.Objects(typ)
		for _, w := range writesOf(before, after, typ) {
			if !w.holds(after) {
				t.Fatalf("%s: %v is not in %v", w.path(), w.value, after)
			}
			if w.holds(before) {
				t.Fatalf("%s: %v is in %v already", w.path(), w.value, before)
			}
		}
	}
}
