package celenv_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
)

func TestCompilePanics(t *testing.T) {
	set, err := celenv.New("1.37", quirks.Of("1.37"))
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
