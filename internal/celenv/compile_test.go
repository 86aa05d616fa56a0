package celenv_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
)

func TestCompilePanics(t *testing.T) {
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := set.Scope(celenv.Run, true).Env(celenv.Declared{})
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := celenv.Compile(env, "{?'a': object}.size() > 0")
	if issues == nil || checked != nil || !strings.Contains(issues.String(), "cel-go panics") {
		t.Errorf("%v, %v", checked, issues)
	}
	if _, issues = celenv.Compile(env, "{?'a': object.?b}.size() > 0"); issues != nil {
		t.Error(issues)
	}
}

// TestQuote compares the rendering of issues with that of cel-go.
func TestQuote(t *testing.T) {
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	env, err := scope.Env(celenv.Declared{})
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{
		"nope", "a &&\n\tb", "'ä日本' + a || 'ä' + b", "object.a +", strings.Repeat("nope || ", 150) + "true",
		"'" + strings.Repeat("x", 17000) + "' == a", "1 + 'a'",
	} {
		_, want := celenv.Compile(env, src)
		parsed, issues := celenv.Parse(env, src)
		if len(issues.Errors()) == 0 {
			_, issues = celenv.Check(env, parsed)
		}
		if got := celenv.Quote(issues, src); got != want.String() || got == "" {
			t.Errorf("%.40q: got\n%.300s\nwant\n%.300s", src, got, want)
		}
	}
}
