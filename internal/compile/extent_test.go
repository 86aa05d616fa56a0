package compile

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/celgate/celgate/policy"
)

// TestBranches: the branches of an expression are cut out of its text.
func TestBranches(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.OptionalTypes())
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		`!has(object.a) || !('x)' in object.b)`:                                                `!has(object.a); !('x)' in object.b)`,
		`has( object.a.b ) && object.a.b == 1`:                                                 `has( object.a.b ); object.a.b == 1`,
		`object.e == 'é' && object.c[object.d[0]] != ")"`:                                      `object.e == 'é'; object.c[object.d[0]] != ")"`,
		`object.list.all(c, c.x > 1 && c.y.startsWith('a(')) ||` + "\n" + `object.n in [1, 2]`: `object.list.all(c, c.x > 1 && c.y.startsWith('a(')); c.x > 1; c.y.startsWith('a('); object.n in [1, 2]`,
		`(object.a == 1 ? object.b : object.c) && (object.d || object.e)`:                      `object.a == 1 ? object.b : object.c; object.a == 1; object.d; object.e`,
		`object.?a.orValue(false) && object.b.exists(x, x == ')' )`:                            `object.?a.orValue(false); object.b.exists(x, x == ')' ); x == ')'`,
		`size(object.a.filter(x, x > (1 + 2) * 3)) > 0`:                                        `x > (1 + 2) * 3`,
		`string(object.a) == 'a' && size( object.b ) > 1`:                                      `string(object.a) == 'a'; size( object.b ) > 1`,
		`((object.a) == 1 ? (object.b) : object.c) || object.d`:                                `(object.a) == 1 ? (object.b) : object.c; (object.a) == 1; object.d`,
		`object.a == -1 || object.b > 1.5`:                                                     `object.a == -1; object.b > 1.5`,
		`object.a == 1`:                                                                        ``,
	} {
		tree, issues := env.Compile(src)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		var got []string
		for _, b := range branches(policy.Expr{Src: src}, tree.NativeRep()) {
			got = append(got, src[b.From:b.To])
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s\n got %s\nwant %s", src, text, want)
		}
	}
}
