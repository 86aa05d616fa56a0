package celenv_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
)

// Patterns that would need half a gigabyte are checked like short ones, and do not change.
func TestLargePatterns(t *testing.T) {
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := set.Scope(celenv.Run, true).Base(celenv.Declared{})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x{1000}", 3000)
	for _, c := range []struct{ src, message string }{
		{"'x'.matches('" + large + "')", ""},
		{"'x'.matches('" + large + "') && 'y'.matches('" + large + "') == false", ""},
		{"[1].all(i, 'x'.matches('" + large + "'))", ""},
		{"'x'.matches('" + large + "(')", "invalid matches argument"},
		{"'x'.matches('" + large + "x{1001}')", "invalid matches argument"},
		// larger than regexp takes
		{"'x'.matches('" + strings.Repeat("x{1000}", 4000) + "')", "invalid matches argument"},
		{"1.matches('" + large + "')", "no matching overload"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		checked, issues := celenv.Compile(env, c.src)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
			t.Errorf("%.20s…: %d MiB", c.src, used>>20)
		}
		if c.message != "" {
			if issues.Err() == nil || !strings.Contains(issues.Err().Error(), c.message) {
				t.Errorf("%.20s…%s: %.300v", c.src, c.src[len(c.src)-10:], issues.Err())
			}
			continue
		}
		if issues.Err() != nil {
			t.Errorf("%.20s…: %.300v", c.src, issues.Err())
			continue
		}
		found := 0
		ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() == ast.LiteralKind && e.AsLiteral() == types.String(large) {
				found++
			}
		}))
		if want := strings.Count(c.src, large); found != want {
			t.Errorf("%d of %d patterns are there", found, want)
		}
	}
}
