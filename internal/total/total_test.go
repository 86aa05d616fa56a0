package total_test

import (
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/total"
	"github.com/celgate/celgate/policy"
)

func judge(t *testing.T, operations ...string) *total.Judge {
	t.Helper()
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := total.New(set, &policy.Policy{
		MatchConstraints: &policy.MatchResources{ResourceRules: []policy.Rule{{Operations: operations}}},
		Variables: []policy.NamedExpr{
			{Name: "owned", Expr: policy.Expr{Src: `"owner" in object.metadata.?labels.orValue({})`}},
			{Name: "replicas", Expr: policy.Expr{Src: `object.spec.replicas`}},
			{Name: "may", Expr: policy.Expr{Src: `authorizer.group("").resource("pods").check("get").allowed()`}},
			{Name: "self", Expr: policy.Expr{Src: `variables.self`}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestBool(t *testing.T) {
	writes := judge(t, "CREATE", "UPDATE")
	for src, want := range map[string]bool{
		`true`:            true,
		`"a" == 1`:        true,
		`variables.owned`: true,
		`variables.may`:   true,
		`variables.owned && variables.may ? "a" in ["a"] : false`:                                                     true,
		`"a" in object.metadata.labels`:                                                                               false,
		`has(object.metadata.labels) && "a" in object.metadata.labels`:                                                true,
		`"a" in object.metadata.labels && has(object.metadata.labels)`:                                                false,
		`!has(object.metadata.labels) || "a" in object.metadata.labels`:                                               true,
		`has(object.metadata.labels) || "a" in object.metadata.labels`:                                                false,
		`has(object.metadata.labels) ? "a" in object.metadata.labels : false`:                                         true,
		`has(object.metadata.labels) && "a" in object.metadata.labels && object.metadata.labels["a"].startsWith("b")`: true,
		`has(object.metadata.labels) && object.metadata.labels["a"].startsWith("b")`:                                  false,
		`has(object.metadata.labels) && object.metadata.labels.all(k, k.startsWith("a"))`:                             true,
		`object.metadata.?labels.?team.orValue("none") != "none"`:                                                     true,
		`object.metadata.?labels.?team.orValue("none").startsWith("a")`:                                               true,
		`object.metadata.?name.orValue("") == "a"`:                                                                    true,
		`object.metadata.name == "a"`:                                                                                 false,
		`object.spec.replicas > 1`:                                                                                    false,
		`variables.replicas > 1`:                                                                                      false,
		`variables.self`:                                                                                              false,
		`variables.unknown`:                                                                                           false,
		`has(object.spec)`:                                                                                            true,
		`has(object.spec.replicas)`:                                                                                   false,
		`request.userInfo.username.startsWith("system:")`:                                                             true,
		`request.userInfo.username in ["a", "b"]`:                                                                     true,
		`request.userInfo.groups.exists(g, g == "a")`:                                                                 false,
		`has(request.userInfo.groups) && request.userInfo.groups.exists(g, g.contains("a"))`:                          true,
		`has(request.userInfo.groups) && request.userInfo.groups.filter(g, g == "a").size() > 0`:                      true,
		`has(request.userInfo.groups) && request.userInfo.groups.map(g, g + "a").exists(g, g.startsWith("a"))`:        true,
		`request.namespace == "a"`:                                                                                    false,
		`has(request.namespace) && request.namespace.matches("^a")`:                                                   true,
		`has(request.namespace) && request.namespace.matches("(")`:                                                    false,
		`has(request.namespace) && ["a"].all(request, request.namespace == "")`:                                       false,
		`oldObject == null`:                    true,
		`oldObject.metadata == null`:           false,
		`namespaceObject.metadata.name == "a"`: false,
		`1 / 0 == 1`:                           false,
		`int("a") == 1`:                        false,
		`[1, 2][3] == 1`:                       false,
		`{"a": 1}["b"] == 1`:                   false,
		`"a"`:                                  false,
		`params.data == null`:                  false,
		`has(`:                                 false,
	} {
		if got := writes.Bool(policy.Expr{Src: src}); got != want {
			t.Errorf("%s: %v", src, got)
		}
	}
	if judge(t, "CREATE", "DELETE").Bool(policy.Expr{Src: `has(object.metadata)`}) {
		t.Error("the object of a DELETE is null")
	}
	if !writes.Mentions(policy.Expr{Src: `variables.owned`}, "authorizer") || writes.Mentions(policy.Expr{Src: `1 == 1`}, "authorizer") {
		t.Error("Mentions looks at all variables of who uses one, and at no others")
	}
}
