package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/manifest"
)

// strict lists the mutations that the server applied and that type checking refuses, with the reason. A case that
// agrees must be removed.
var strict = map[string]string{
	"apply/double":                                      number,
	"apply/map-literal":                                 literal,
	"apply/optional-item":                               plain,
	"apply/optional-none":                               plain,
	"apply/optional-none-atomic":                        plain,
	"apply/optional-none-list":                          plain,
	"apply/optional-none-map":                           plain,
	"apply/optional-none-set":                           plain,
	"apply/optional-none-tolerations":                   plain,
	"apply/optional-of":                                 plain,
	"custom/apply-none-clears":                          plain,
	"custom/apply-none-set":                             plain,
	"custom/equivalent-mutation-other-field":            "the policy is for another version",
	"custom/json-patch-double":                          number,
	"custom/json-patch-unknown":                         "the server prunes what a JSON patch adds to a custom object",
	"custom/label-number-selected":                      "the server drops a label of a custom object that is no text",
	"custom/metadata-text-selected":                     "the server takes metadata of a custom object that is none",
	"custom/untyped-json-patch":                         "the server prunes what a JSON patch adds to a custom object",
	"json-patch/double":                                 number,
	"json-patch/uint-big":                               number,
	"apply/type-name-map-value":                         literal,
	"proposals/mutating-unset-list-atomic-none":         plain,
	"proposals/mutating-unset-map-atomic-none":          plain,
	"proposals/mutating-unset-map-granular-plain":       plain,
	"proposals/mutating-unset-scalar-plain-none":        plain,
	"proposals/mutating-unset-struct-plain-none-struct": plain,
}

// The reasons that several have.
const (
	number  = "a number of another type, which happens to be an integer or a text"
	literal = "a map literal in the place of an Object literal"
	plain   = "an optional value that is not given as ?field"
)

// unseen lists the mutations that the server refused because of a type and that type checking accepts.
var unseen = map[string]string{
	"apply/type-name-concatenated":                 "part of a sum, where the server looks at names only if the rest is empty",
	"proposals/mutating-composition-notacontainer": "the variable is dyn",
}

// TestTyped compares type checking with the server's answers to the mutations of the corpus: applied mutations are
// accepted, and mutations that were refused because of their type are found.
func TestTyped(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus once more")
	}
	cases := corpus(t)
	applied, refused := 0, 0
	checkers := map[string]*typed.Checker{}
	for _, c := range cases {
		mutates := slices.ContainsFunc(c.Policies, func(object map[string]any) bool {
			return object["kind"] == "MutatingAdmissionPolicy"
		})
		if !mutates || c.Request == nil || c.Object == nil || c.Want.Allowed == nil {
			continue
		}
		minor := celgate.Newest
		if checkers[minor] == nil {
			envs, err := celenv.New(minor, quirks.SetOf(minor))
			if err != nil {
				t.Fatal(err)
			}
			checkers[minor] = typed.NewChecker(envs)
		}
		decision, findings := typings(t, c, checkers[minor])
		if decision == nil {
			continue
		}
		for _, o := range decision.Outcomes {
			found, ok := findings[o.Policy+" "+o.Field()]
			if !ok {
				continue
			}
			key := c.Name + " " + o.Policy + " " + o.Field()
			problem, seen := "", len(found.Issues) > 0
			for _, p := range found.Problems {
				seen = seen || !p.Doubtful
				if p.Class != typed.MissingKey && p.Class != typed.AtomicValue {
					problem = p.Message
				}
			}
			switch {
			case o.Verdict == celgate.Admit:
				applied++
				if why := strict[c.Name]; (problem != "") != (why != "") {
					t.Errorf("%s: listed as %q, found %q\n%s", key, why, problem, o.Expr.Src)
				}
			case o.Verdict == celgate.Error && forType(o.Message):
				refused++
				if why := unseen[c.Name]; seen == (why != "") {
					t.Errorf("%s: listed as %q, the server says %s\n%s", key, why, o.Message, o.Expr.Src)
				}
			}
		}
	}
	if applied < 100 || refused < 20 {
		t.Errorf("only %d mutations that the server applied, %d that it refused", applied, refused)
	}
	t.Logf("%d applied, %d refused", applied, refused)
}

// forType reports an error of a mutation about the type of a value.
func forType(message string) bool {
	return strings.Contains(message, "failed to convert patch object") &&
		!strings.Contains(message, "no corresponding type") && !strings.Contains(message, "duplicate entries") ||
		strings.Contains(message, "type mismatch: unexpected")
}

// typings returns the decision of the engine about a case, and the type errors in its mutations by policy and field.
func typings(t *testing.T, c *Case, checker *typed.Checker) (*celgate.Decision, map[string]typed.Finding) {
	w, err := worldOf(c, celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	engine, _, err := w.Engine(c.Policies, c.Stored...)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := w.Answer(t.Context(), engine, c, &Want{})
	if err != nil || decision == nil {
		return nil, nil
	}
	object := w.Types.Type(apischema.FromAPIVersionAndKind(fmt.Sprint(c.Object["apiVersion"]),
		fmt.Sprint(c.Object["kind"])))
	if object == nil {
		return nil, nil
	}
	findings := map[string]typed.Finding{}
	for _, p := range manifest.NewBundle(manifest.DocumentsOf(c.Policies)...).Set.Policies {
		if !p.Mutates() {
			continue
		}
		params := apischema.GroupVersionKind{}
		if p.ParamKind != nil {
			params = apischema.FromAPIVersionAndKind(p.ParamKind.APIVersion, p.ParamKind.Kind)
		}
		all, err := checker.Kind(p, object, w.Types.Type(params))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.Use.Mutates() {
				findings[p.Name+" "+f.Field] = f
			}
		}
	}
	return decision, findings
}
