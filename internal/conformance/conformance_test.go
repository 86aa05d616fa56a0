package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func treeOf(t *testing.T, text string) map[string]any {
	t.Helper()
	object, err := document([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"metadata": {
			`{metadata: {name: a, uid: u-1, creationTimestamp: x, managedFields: [], resourceVersion: "3", generation: 2, selfLink: /, labels: {b: c}}}`,
			`{metadata: {name: a, labels: {b: c}}}`,
		},
		"uid elsewhere": {
			`{metadata: {uid: u-1, labels: {own: "of u-1"}}, spec: {list: [u-1, u-2]}}`,
			`{metadata: {labels: {own: "of <uid>"}}, spec: {list: [<uid>, u-2]}}`,
		},
		"generated name": {
			`{metadata: {name: a-x7k2p, generateName: a-}}`,
			`{metadata: {name: "a-<random>", generateName: a-}}`,
		},
		"given name": {
			`{metadata: {name: b, generateName: a-}}`,
			`{metadata: {name: b, generateName: a-}}`,
		},
		"service": {
			`{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, healthCheckNodePort: 1, ports: [{port: 80, nodePort: 30001}]}}`,
			`{apiVersion: v1, kind: Service, spec: {clusterIP: <address>, clusterIPs: [<address>], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, healthCheckNodePort: <port>, ports: [{port: 80, nodePort: <port>}]}}`,
		},
		"headless service": {
			`{apiVersion: v1, kind: Service, spec: {clusterIP: None, clusterIPs: [None]}}`,
			`{apiVersion: v1, kind: Service, spec: {clusterIP: None, clusterIPs: [None]}}`,
		},
		"status": {
			`{spec: {endTime: "1"}, status: {startTime: "1", conditions: [{lastTransitionTime: "1", type: T}], someTime: 3}}`,
			`{spec: {endTime: "1"}, status: {startTime: <time>, conditions: [{lastTransitionTime: <time>, type: T}], someTime: 3}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := treeOf(t, c.object)
			if diff := cmp.Diff(treeOf(t, c.want), Settle(object)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(treeOf(t, c.object), object); diff != "" {
				t.Error("the object was changed:", diff)
			}
		})
	}
}

func TestBare(t *testing.T) {
	got := Strip(&metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status"},
		Message:  "proto:\u00a0x in scheme \"pkg/scheme.go:1\"",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Message: `in '{"managedFields":[{"fieldsV1":{"f:a":{}},"time":"t"}],"name":"n"}'`}}},
	})
	if got.Kind != "" || got.Message != `proto: x in scheme "<scheme>"` ||
		got.Details.Causes[0].Message != `in '{"name":"n"}'` {
		t.Errorf("%+v", got)
	}
}

func TestCompare(t *testing.T) {
	yes, no := true, false
	object := map[string]any{"a": int64(1)}
	for name, c := range map[string]struct {
		recorded, got *Want
		differ        string // a line of the difference; "" for none
	}{
		"same": {&Want{Allowed: &yes, Object: object, Minors: []string{"1.37"}},
			&Want{Allowed: &yes, Object: object}, ""},
		"allowed": {&Want{Allowed: &yes}, &Want{Allowed: &no}, "- allowed: true\n+ allowed: false\n"},
		"object": {&Want{Object: object}, &Want{Object: map[string]any{"a": int64(2)}},
			"-   a: 1\n+   a: 2\n"},
		"no object":      {&Want{Allowed: &yes}, &Want{Allowed: &yes, Object: object}, ""},
		"object missing": {&Want{Object: object}, &Want{}, "- object:\n"},
		"advice":         {&Want{Warnings: []string{"v1 X is deprecated"}}, &Want{}, "- warnings:\n"},
		"warning":        {&Want{}, &Want{Warnings: []string{`unknown field "x"`}}, "+ warnings:\n"},
		"order of warning": {&Want{Warnings: []string{`unknown field "x"`, `unknown field "y"`}},
			&Want{Warnings: []string{`unknown field "y"`, `unknown field "x"`}}, "field"},
		"annotation":   {&Want{AuditAnnotations: map[string]string{"p/k": "v"}}, &Want{}, "-   p/k: v"},
		"other answer": {&Want{Allowed: &yes, Others: []*Want{{Allowed: &no}}}, &Want{Allowed: &no}, ""},
		"no other answer": {&Want{Allowed: &yes, Others: []*Want{{Allowed: &yes, Object: object}}},
			&Want{Allowed: &no}, "- allowed: true"},
	} {
		t.Run(name, func(t *testing.T) {
			diff := Compare(c.recorded, c.got)
			if (diff == "") != (c.differ == "") || !strings.Contains(diff, c.differ) {
				t.Errorf("got\n%swant\n%s", diff, c.differ)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	const request = "-- object.yaml --\napiVersion: v1\nkind: X\n-- request.yaml --\n"
	for name, c := range map[string]struct{ file, want string }{
		"no idea":      {"-- policy.yaml --\na: b\n", "the comment with the idea is missing"},
		"unknown file": {"idea\n-- other.yaml --\n", "other.yaml: not a file of a case"},
		"unknown field": {"idea\n" + request + "operation: CREATE\nresource: xs\ncolour: red\n",
			"unknown field \"colour\""},
		"operation":   {"idea\n" + request + "operation: PATCH\nresource: xs\n", `operation "PATCH"`},
		"no resource": {"idea\n" + request + "operation: CREATE\n", "no resource"},
		"empty":       {"idea\n", "neither policies nor a request"},
		"two objects": {"idea\n-- object.yaml --\na: b\n---\na: b\n", "2 documents, not one"},
		"not YAML":    {"idea\n-- state.yaml --\n{\n", "state.yaml"},
		"no minor":    {"idea\n-- want-1.36.yaml --\nallowed: true\n", "want-1.36.yaml: no minor"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("a/b", []byte(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, not %s", err, c.want)
			}
		})
	}
}

func TestParseCompletes(t *testing.T) {
	c, err := Parse("a/b", []byte("idea\n-- object.yaml --\napiVersion: v1\nkind: X\nmetadata: {name: m, namespace: n-1}\n"+
		"-- request.yaml --\noperation: CREATE\nresource: xs\n-- want.yaml --\n"+
		"minors: [\"1.37\"]\nallowed: true\nobject: {big: 9007199254740993}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (&Request{Operation: "CREATE", APIVersion: "v1", Resource: "xs", Namespace: "n-1", Name: "m",
		User: "dev"}); cmp.Diff(want, c.Request) != "" {
		t.Error(cmp.Diff(want, c.Request))
	}
	if c.Want.Object["big"] != int64(9007199254740993) {
		t.Errorf("%v", c.Want.Object)
	}
}
