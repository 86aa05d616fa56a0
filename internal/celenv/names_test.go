package celenv

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/policy"
)

// TestLibraryNames refuses libraries with the names of variables, and of the libraries and types whose functions and
// fields are written NAME.MEMBER: they would hide these.
func TestLibraryNames(t *testing.T) {
	_, env, _ := extendedEnv(t, Declared{Params: true, Authorizer: true, Extended: true, Patch: true, Dialect: true})
	names := map[string]string{"selectors": "selectors.matches", "kubernetes": "kubernetes.allContainers"}
	for name := range env.Functions() {
		if before, _, ok := strings.Cut(name, "."); ok {
			names[before] = name
		}
	}
	for _, v := range env.Variables() {
		before, _, _ := strings.Cut(v.Name(), ".")
		names[before] = v.Name()
	}
	if len(names) < 15 {
		t.Errorf("only %d names: %v", len(names), names)
	}
	for name, of := range names {
		if name == "" || strings.ToLower(name) != name {
			continue // not the name of an object
		}
		if errs := policy.ValidateLibrary(&policy.Library{Name: name}, nil, nil); len(errs) == 0 {
			t.Errorf("a library may have the name %s, which hides %s", name, of)
		}
	}
}
