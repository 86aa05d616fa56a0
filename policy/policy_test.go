package policy_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/celgate/celgate/policy"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// object decodes a JSON object as the trees of this module are: with int64.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var obj map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &obj); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return obj
}

// places is one line for each field path: the column is the offset.
type places map[string]int

func (p places) Place(path string) policy.Locator {
	return line(p[path])
}

type line int

func (l line) Locate(offset int) policy.Position {
	if l == 0 {
		return policy.Position{}
	}
	return policy.Position{File: "p.yaml", Line: int(l), Column: 1 + offset}
}

const minimal = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
	"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]},
	"validations": [{"expression": "true"}]}}`

func TestFromObjectMinimal(t *testing.T) {
	p, b, err := policy.FromObject(object(t, minimal), places{"": 1, "spec.validations[0].expression": 7})
	if err != nil || b != nil {
		t.Fatal(p, b, err)
	}
	if got := p.Validations[0].Expr.Locate(2); got != (policy.Position{File: "p.yaml", Line: 7, Column: 3}) {
		t.Errorf("Locate: %v", got)
	}
	if errs := policy.ValidatePolicy(p, nil); len(errs) > 0 {
		t.Error(errs)
	}
	_ = reflect.DeepEqual
	_ = json.Marshal
	_ = errors.As
	_ = cmp.Diff("", "")
	_ = metav1.Status{}
}
