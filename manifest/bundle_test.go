package manifest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

const bound = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %s}
spec: {policyName: p, validationActions: [Deny]}
`

// A bundle classifies documents by their purpose, and reports invalid ones with their position.
func TestBundle(t *testing.T) {
	docs, problems := manifest.Loader{FS: fstest.MapFS{
		"policies/a.yaml": {Data: []byte(fmt.Sprintf(bound, "b") + "---\n" + fmt.Sprintf(bound, "other"))},
		"policies/sub/b.yaml": {Data: []byte(
			"# again\n" + fmt.Sprintf(bound, "b") + "---\n" + strings.Replace(fmt.Sprintf(bound, "c"), "policyName",
				"policy", 1))},
		"policies/.hidden.yaml":  {Data: []byte("}")},
		"policies/notes.txt":     {Data: []byte("}")},
		"policies/tests/c.yaml":  {Data: []byte("apiVersion: celgate.dev/v1\nkind: Suite\n")},
		"policies/tests/d.json":  {Data: []byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`)},
		"policies/tests/ns.yaml": {Data: []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n")},
		"crd.yaml": {Data: []byte(
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c}\n")},
	}}.Load("policies", "crd.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	b := manifest.NewBundle(docs...)
	var names []string
	for _, binding := range b.Set.Bindings {
		names = append(names, binding.Name+" at "+binding.Position.String())
	}
	if got, want := fmt.Sprint(names), "[b at policies/a.yaml:1:1 other at policies/a.yaml:6:1]"; got != want {
		t.Errorf("bindings %s, want %s", got, want)
	}
	if len(b.Objects) != 2 || len(b.Definitions()) != 1 || len(b.Reviews) != 1 || len(b.Suites) != 1 ||
		len(b.Problems) != 2 {
		t.Fatalf("%+v", b)
	}
	var undecodable *policy.DecodeError
	if err := b.Problems[0]; !errors.As(err, &undecodable) || err.Document == nil ||
		!strings.HasPrefix(err.Error(), "policies/sub/b.yaml:7:1: ") {
		t.Errorf("%+v", err)
	}
	var twice *policy.DuplicateError
	if err := b.Problems[1]; !errors.As(err, &twice) || err.Hint != "the first is at policies/a.yaml:1:1" ||
		err.Error() != "policies/sub/b.yaml:2:1: ValidatingAdmissionPolicyBinding b is given twice" {
		t.Errorf("%+v", err)
	}
}

// A path that an fs.FS does not have is a problem, as is one of the system.
func TestLoadMissingOfFS(t *testing.T) {
	_, problems := manifest.Loader{FS: fstest.MapFS{}}.Load("gone.yaml", ".")
	if len(problems) != 2 || problems[0].Error() != "gone.yaml: file does not exist" ||
		!strings.Contains(problems[1].Message, "the directory does not contain") {
		t.Errorf("%v", problems)
	}
}
