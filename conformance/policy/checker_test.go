package policy

import (
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate is policy.ValidatePolicy with the compiler of celgate's engine.
func validate(t testing.TB, p *policy.Policy) field.ErrorList {
	t.Helper()
	envs, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	checker := compile.NewChecker(envs, p, nil)
	defer checker.Close()
	return policy.ValidatePolicy(p, checker.Compile)
}
