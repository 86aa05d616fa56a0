package typed

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/policy"
)

// TestDialect tests the messages about refused mutations of the dialect.
func TestDialect(t *testing.T) {
	pod := func(s string) string {
		return "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{" + s + "}}}}"
	}
	apply := func(src string) policy.Mutation {
		return policy.Mutation{PatchType: policy.ApplyConfiguration, Expr: policy.Expr{Src: src, Field: "spec.mutations[0].e"}}
	}
	in := func(scope string, m policy.Mutation) policy.Mutation {
		m.Scope = policy.Expr{Src: scope, Field: "spec.mutations[0].scope"}
		return m
	}
	patch := func(as policy.PatchType, src string) policy.Mutation {
		m := apply(src)
		m.PatchType = as
		return m
	}
	each := func(list string, m policy.Mutation) policy.Mutation {
		m.ForEach = policy.NamedExpr{Name: "x", Expr: policy.Expr{Src: list, Field: "spec.mutations[0].forEach"}}
		return m
	}
	expect := func(m policy.Mutation, condition, message, atEnd string) policy.Mutation {
		m.Condition = policy.Expr{Src: condition, Field: "spec.mutations[0].condition"}
		m.MessageExpr = policy.Expr{Src: message, Field: "spec.mutations[0].messageExpression"}
		m.AtEnd = policy.Expr{Src: atEnd, Field: "spec.mutations[0].validation"}
		return m
	}
	const containers = "spec.template.spec.containers[*]"
	for _, test := range []struct {
		mutation policy.Mutation
		want     string
	}{
		// marks
		{apply("Object{spec: Object.spec{replicas: objects.unset()}}"), ""},
		{apply("objects.unset()"), "objects.unset() is for a part of an object"},
		{apply("objects.replace(object)"), "objects.replace(…) is for a part of an object"},
		{apply("Object{kind: objects.unset()}"), "objects.unset(): an object keeps its kind"},
		{apply("Object{metadata: objects.unset()}"), "objects.unset(): an object keeps its metadata"},
		{apply("Object{spec: Object.spec{template: Object.spec.template{metadata: objects.unset()}}}"), ""},
		{apply("Object{spec: Object.spec{replicas: objects.remove(3)}}"), "is for items of lists: write objects.unset()"},
		{apply("Object{spec: Object.spec{replicas: objects.replace('3')}}"), "'replicas' is 'int' but provided type is 'string'"},
		{apply("Object{spec: Object.spec{replicas: objects.replace(objects.unset())}}"), "not allowed in the argument"},
		{apply("Object{spec: Object.spec{replicas: null}}"), "(write objects.unset())"},
		{apply(pod("containers: [objects.unset()]")), "write objects.remove(…) with the keys of the item"},
		{apply(pod("containers: [objects.remove(Object.spec.template.spec.containers{name: 'a'})]")), ""},
		{apply(pod("containers: [true ? objects.remove(Object.spec.template.spec.containers{name: 'a'}) : " +
			"objects.replace(Object.spec.template.spec.containers{name: 'a'})]")), ""},
		{apply(pod("containers: [objects.remove(Object.spec.template.spec.containers{image: 'a'})]")), "objects.remove(…) needs name"},
		{apply(pod("containers: [Object.spec.template.spec.containers{name: 'a', " +
			"ports: [objects.remove(Object.spec.template.spec.containers.ports{containerPort: 80})]}]")), ""}, // its protocol has a default
		{apply(pod("containers: [objects.remove('a')]")), "provided type is 'string'"},
		{apply(pod("tolerations: [objects.remove(Object.spec.template.spec.tolerations{key: 'a'})]")),
			"merges as one value: write objects.replace(list.filter(…))"},
		{apply(pod("tolerations: objects.replace(object.spec.template.spec.tolerations.filter(t, t.key != 'a'))")), ""},
		{apply(pod("nodeSelector: {'a': objects.unset()}")), "is part of a value that merges as one"},
		{apply(pod("nodeSelector: objects.replace({'a': objects.unset()})")), "not allowed in the argument"},
		{apply("Object{metadata: Object.metadata{labels: {'a': objects.unset()}}}"), ""},
		{apply("Object{metadata: Object.metadata{labels: {1: 'a'}}}"), "a key of type 'string' but provided type is 'int'"},
		{apply("Object{metadata: Object.metadata{labels: {dyn(1): 'a'}}}"), ""},
		// objects.apply
		{apply("Object{spec: Object.spec{template: objects.apply(object.spec.template, Object.spec.template{})}}"), ""},
		{apply("Object{spec: Object.spec{template: objects.apply(object.spec.template, Object.spec.template{spc: 1})}}"),
			"undefined field 'spc' (did you mean spec?)"},
		{apply("Object{spec: Object.spec{template: objects.apply(object.spec.template, Object.spec.tmplate{})}}"),
			"no Object.spec.tmplate (did you mean template?)"},
		{apply(pod("containers: object.spec.template.spec.containers.map(c, " +
			"objects.apply(c, Object.spec.template.spec.containers.item{image: 'a'}))")),
			"(write Object.spec.template.spec.containers{…})"},
		{apply(pod("containers: object.spec.template.spec.containers.map(c, " +
			"objects.apply(c, Object.spec.template.spec.containers{image: 'a', env: objects.unset()}))")), ""},
		{apply("Object{spec: Object.spec{template: objects.apply(3, Object.spec.template{})}}"),
			"the first value is of type 'int', not an object"},
		{patch(policy.JSONPatch, "[JSONPatch{op: 'add', path: '/spec/template', "+
			"value: objects.apply(object.spec.template, Object.spec.template{spc: 1})}]"), "undefined field 'spc'"},
		// scopes
		{in(containers, apply("Item{image: item.name, env: objects.unset()}")), ""},
		{in(containers, apply("objects.unset()")), ""},
		{in(containers, apply("objects.replace(Item{name: item.name})")), ""},
		{in(containers, apply("objects.replace(item.name)")),
			"expected type of the value is 'Item' but provided type is 'string'"},
		{in(containers, apply("objects.remove(item)")), "is for items of lists"},
		{in(containers, apply("Item{image: item.nam}")), "undefined field 'nam'"},
		{in(containers, apply("Item{image: item.ports}")), "but provided type is 'list(Item.ports)'"},
		{in(containers, apply("Item{env: [Item.env{name: 'A', valu: 'b'}]}")), "undefined field 'valu' (did you mean value?)"},
		{in(containers, apply("Item{env: [objects.apply(item.env[0], Item.env{valu: 'b'})]}")), "undefined field 'valu'"},
		{in(containers+".image", apply("objects.replace('a/' + item)")), ""},
		{in(containers+".image", apply("objects.replace(item + 3)")), "no matching overload for '_+_' applied to '(string, int)'"},
		{in(containers+".image", apply("objects.replace(3)")), "expected type of the value is 'string' but provided type is 'int'"},
		{in("spec.template", apply("Item{metadata: objects.unset()}")), ""},
		{in("spec.template.spec.nodeSelector", apply("objects.unset()")), ""},
		{in(containers, patch(policy.JSONPatch, "[JSONPatch{op: 'add', path: '/image', value: 3}]")), "'image' is 'string'"},
		// several types of values: mistakes for all of them
		{in("kubernetes.allContainers", apply("Item{image: 'a'}")), ""},
		{in("kubernetes.allContainers", apply("Item{targetContainerName: 'a'}")), ""},
		{in("kubernetes.allContainers", apply("Item{imag: 'a'}")), "undefined field 'imag'"},
		// expressions of a mutation
		{each("object.spec.replicas", apply("Object{}")), "expected a list but provided type is 'int'"},
		{each("object.spec.?template.spec.tolerations", apply("Object{}")), ""},
		{each("['a']", apply("Object{spec: Object.spec{replicas: x}}")), "'replicas' is 'int' but provided type is 'string'"},
		{each("['a']", in(containers, apply("Item{tty: x}"))), "'tty' is 'bool' but provided type is 'string'"},
		{expect(apply("Object{}"), "object.spec.replicaz > 1", "", ""), "undefined field 'replicaz'"},
		{expect(apply("Object{}"), "true", "object.spec.replicaz", ""), "undefined field 'replicaz'"},
		{expect(apply("Object{}"), "true", "", "object.spec.replicaz == 1"), "undefined field 'replicaz'"},
		{expect(in(containers, apply("Item{}")), "item.imag != ''", "item.image", "object.spec.replicas > 1"), "undefined field 'imag'"},
		{expect(each("['a']", apply("Object{}")), "x + 1 == 2", "", ""), "applied to '(string, int)'"},
		// JSON merge patches
		{patch(policy.JSONMergePatch, "{'spec': {'replicas': null, 'paused': true}}"), ""},
		{patch(policy.JSONMergePatch, "{'spec': {'replicas': '3'}}"), "'replicas' is 'int' but provided type is 'string'"},
		{patch(policy.JSONMergePatch, "{'spec': {'replicaz': 3}}"), "undefined field 'replicaz' (did you mean replicas?)"},
		{patch(policy.JSONMergePatch, "{'spec': {'replicaz': null}}"), ""},
		{patch(policy.JSONMergePatch, "Object{spec: Object.spec{replicas: true}}"), "provided type is 'bool'"},
		{patch(policy.JSONMergePatch, "{'metadata': {'labels': {'a': 1}}}"), "field 'a' is 'string'"},
		{patch(policy.JSONMergePatch, "{'spec': {'template': {'spec': {'containers': [{'name': 'a', 'imag': 'b'}]}}}}"), "undefined field 'imag'"},
		{patch(policy.JSONMergePatch, "object.spec.paused ? null : {'spec': {'paused': true}}"), ""},
		{in(containers, patch(policy.JSONMergePatch, "{'image': 3}")), "'image' is 'string' but provided type is 'int'"},
	} {
		m := test.mutation
		p := &policy.Policy{Kind: policy.Admission, Mutations: []policy.Mutation{m}}
		found, err := newChecker(t).Complaints(p, kinds(t, deployment), nil)
		if err != nil {
			t.Fatal(err)
		}
		switch src := m.Scope.Src + " " + m.Expr.Src; {
		case test.want == "" && len(found) > 0:
			t.Errorf("%s\nis refused: %s", src, found[0].Detail)
		case test.want != "" && (len(found) == 0 || !strings.Contains(found[0].Detail, test.want)):
			t.Errorf("%s\nwant %q, got %v", src, test.want, found)
		}
	}
}
