package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/cmd/internal/cli"
	"github.com/celgate/celgate/cmd/internal/playground"
)

// TestPlaygroundAnswers compares the answers of the page's engine with those of celgate apply for every example: the
// same requests, verdicts, messages and objects.
func TestPlaygroundAnswers(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("../../../examples/*/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, file := range folders {
		folder := filepath.Dir(file)
		text := func(names ...string) string {
			var texts []string
			for _, name := range names {
				if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
					texts = append(texts, string(text))
				}
			}
			return strings.Join(texts, "\n---\n")
		}
		ask := playground.Ask{Policies: text("policy.yaml"), State: text("state.yaml"), Old: text("old.yaml"),
			Objects: text("input.yaml", "fail.yaml", "pass.yaml")}
		if ask.Objects == "" {
			continue
		}
		asked++
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			var session playground.Session
			answer, err := session.Ask(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range answer.Items {
				var e struct {
					Allowed bool
					Message string
					Request json.RawMessage
				}
				if err := json.Unmarshal(item.Explanation, &e); err != nil {
					t.Fatal(err)
				}
				got = append(got, describeAnswer(t, e.Request, e.Allowed, e.Message))
			}
			ask.Objects = "# an edit that moves all documents\n" + ask.Objects
			checkEdited(t, &session, ask)
			ask.Objects += "# an edit of the last one\n"
			checkEdited(t, &session, ask)
			if want := applyAnswers(t, ask); !slices.Equal(got, want) {
				t.Errorf("the page says\n%s\ncelgate apply says\n%s\nproblems: %v", strings.Join(got, "\n"),
					strings.Join(want, "\n"), answer.Problems)
			}
		})
	}
	if asked < 40 {
		t.Errorf("asked about %d examples only", asked)
	}
}

// checkEdited compares the answers of a session that has answered about other texts with those of a new one.
func checkEdited(t *testing.T, session *playground.Session, ask playground.Ask) {
	t.Helper()
	var said [2]string
	for i, s := range []*playground.Session{session, new(playground.Session)} {
		answer, err := s.Ask(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range answer.Items {
			made := strings.Contains(item.Subject, " of ") // its name is drawn
			if made {
				item.Subject = ""
			}
			said[i] += fmt.Sprintln(item.Subject, item.Verdict, item.Place, item.Marks)
		}
	}
	if said[0] != said[1] {
		t.Errorf("after an edit the page says\n%s\na new one says\n%s", said[0], said[1])
	}
}

// applyAnswers returns the answers of celgate apply for each object.
func applyAnswers(t *testing.T, ask playground.Ask) (said []string) {
	dir := t.TempDir()
	args := []string{"apply", "-o", "json"}
	for _, of := range []struct{ flag, file, text string }{{"-p", playground.PolicyFile, ask.Policies},
		{"-c", playground.StateFile, ask.State}, {"--old", playground.OldFile, ask.Old},
		{"", playground.ObjectFile, ask.Objects}} {
		if of.text == "" {
			continue
		}
		path := filepath.Join(dir, of.file)
		if err := os.WriteFile(path, []byte(of.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if of.flag != "" {
			args = append(args, of.flag)
		}
		args = append(args, path)
	}
	var out, errs bytes.Buffer
	cli.Main(args, strings.NewReader(""), &out, &errs)
	var list struct {
		Items []struct {
			Request   json.RawMessage
			CreatedBy any
			Outcomes  []any
			Response  struct {
				Allowed bool
				Status  struct{ Message string }
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatalf("celgate %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	for _, item := range list.Items {
		if item.CreatedBy != nil && item.Response.Allowed && len(item.Outcomes) == 0 {
			continue // the page leaves out objects without a matching policy
		}
		said = append(said, describeAnswer(t, item.Request, item.Response.Allowed, item.Response.Status.Message))
	}
	return said
}

var reference = regexp.MustCompile(`reference [0-9a-f]+`)

// describeAnswer returns an answer in one line.
func describeAnswer(t *testing.T, request json.RawMessage, allowed bool, message string) string {
	var r struct{ Operation, Namespace, Name, SubResource string }
	var kind struct{ Kind struct{ Kind string } }
	for _, into := range []any{&r, &kind} {
		if err := json.Unmarshal(request, into); err != nil {
			t.Fatal(err)
		}
	}
	verdict := "denied"
	if allowed {
		verdict = "allowed"
	}
	message = reference.ReplaceAllString(message, "reference") // it also depends on the path of the file
	return strings.Join([]string{r.Operation, kind.Kind.Kind, r.Namespace + "/" + r.Name, r.SubResource, verdict, message}, " ")
}

// TestPlaygroundCoverage compares the coverage in the page with that of celgate test for a suite of the same objects.
func TestPlaygroundCoverage(t *testing.T) {
	t.Parallel()
	const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  variables: [{name: data, expression: 'object.?data.orValue({})'}]
  validations:
  - expression: "!('a' in variables.data) || variables.data.a == 'x'"
  - expression: size(variables.data) < 10
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`
	const objects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {a: x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two}
data: {a: z}
`
	var session playground.Session
	checked, err := session.Check(t.Context(), playground.Ask{Policies: policies, Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range checked.Coverage.Parts {
		line := fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Name)
		for _, o := range p.Outcomes {
			line += fmt.Sprintf(" %s=%d", o.Name, o.Count)
		}
		got = append(got, line)
	}
	want := []string{
		"7:40 variables[data] ran=2",
		"9:17 validations[0] true=1 false=1",
		"9:17 !('a' in variables.data) true=0 false=2",
		"9:45 variables.data.a == 'x' true=1 false=1",
		"10:16 validations[1] true=2 false=0",
		"12:0 binding b ran=2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page counts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c := checked.Coverage; c.Seen != 8 || c.Total != 10 {
		t.Errorf("%d of %d outcomes, want 8 of 10", c.Seen, c.Total)
	}
}

// TestPlaygroundObjectsBesidePolicies changes objects that are in the text of the policies.
func TestPlaygroundObjectsBesidePolicies(t *testing.T) {
	t.Parallel()
	var session playground.Session
	for _, test := range []struct{ max, want string }{{"x", "denied"}, {"z", "ok"}, {"x", "denied"}} {
		policies := strings.Replace(`
apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data: {allowed: MAX}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}
  validations: [{expression: object.metadata.name == params.data.allowed}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec:
  policyName: p
  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}
  validationActions: [Deny]
`, "MAX", test.max, 1)
		answer, err := session.Ask(t.Context(), playground.Ask{Policies: policies, Objects: `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "z"}}`})
		if err != nil || len(answer.Items) != 1 || answer.Items[0].Verdict != test.want {
			t.Errorf("%s: %+v, %v", test.max, answer, err)
		}
	}
}
