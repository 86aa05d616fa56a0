package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// A literal is the place of a YAML literal block: every line begins at the same column.
type literal struct {
	policy.Position
	src string
}

func (l literal) Locate(offset int) policy.Position {
	before := l.src[:min(offset, len(l.src))]
	p := l.Position
	p.Line += strings.Count(before, "\n")
	p.Column += len(before) - (strings.LastIndexByte(before, '\n') + 1)
	return p
}

func expr(field string, line, column int, src string) policy.Expr {
	return policy.Expr{Src: src, Field: field,
		Place: literal{policy.Position{File: "policies/replicas.yaml", Line: line, Column: column}, src}}
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

func request(op celgate.Operation, name string) *celgate.Request {
	r := &celgate.Request{
		UID:       "00000000-0000-0000-0000-000000000001",
		Kind:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  deployments,
		Name:      name,
		Namespace: "shop",
		Operation: op,
		UserInfo:  celgate.UserInfo{Username: "dev", Groups: []string{"system:authenticated"}},
	}
	object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": name, "namespace": "shop"}}
	if op != celgate.Delete {
		r.Object = object
	}
	if op != celgate.Create {
		r.OldObject = object
	}
	return r
}

// missingError is the error about a member that an expression reads and that is not there.
func missingError(e policy.Expr, key string) error {
	return &celgate.ExpressionError{Expr: e.Src,
		Err: &celgate.NoSuchKeyError{Key: key, Err: errors.New("no such key: " + key)}}
}

func item(line int, r *celgate.Request, d celgate.Decision) report.Item {
	if r.Object != nil {
		d.Object = r.Object
	}
	return report.Item{Place: policy.Position{File: "manifests/web.yaml", Line: line, Column: 1}, Request: r,
		Decision: &d}
}

func denial(message string) *metav1.Status {
	return &metav1.Status{Status: "Failure", Code: 422, Reason: "Invalid", Message: message,
		Details: &metav1.StatusDetails{Group: "apps", Kind: "deployments", Name: "api",
			Causes: []metav1.StatusCause{{Message: message}}}}
}

var (
	replicas = expr("spec.validations[0].expression", 14, 17, "object.spec.replicas <= params.maxReplicas")
	loop     = expr("spec.validations[1].expression", 18, 7, `object.spec.template.spec.containers.all(c,
  c.image.startsWith('registry.example.test/') &&
  !c.image.endsWith(':latest'))
`)
	locked = expr("spec.validations[0].expression", 9, 17, "!('locked' in object.metadata.labels)")
	team   = expr("spec.validations[2].expression", 23, 17, "object.metadata.labels['team'] != ''")
)

func items() []report.Item {
	long := make([]string, 20)
	for i := range long {
		long[i] = "  && object.metadata.name != 'n" + string(rune('a'+i)) + "'"
	}
	many := expr("spec.validations[3].expression", 98, 7, "object.metadata.name != ''\n"+strings.Join(long, "\n"))
	return []report.Item{
		item(1, request(celgate.Create, "web"), celgate.Decision{Allowed: true, Outcomes: []celgate.Outcome{
			{Policy: "replica-limit", Binding: "prod", Param: "shop/limits",
				Verdict: celgate.Admit, Cost: 4, Kind: policy.Validating, Expr: &replicas},
		}}),
		item(20, request(celgate.Create, "api"), celgate.Decision{
			Status: denial(`deployments.apps "api" is forbidden: too many <replicas>`),
			AuditAnnotations: map[string]string{"replica-limit/count": "9",
				"validation.policy.admission.k8s.io/validation_failure": "[]"},
			Warnings: []celgate.Warning{{Text: `unknown field "spec.replicaz"`}, {
				Text:      "Validation failed for ValidatingAdmissionPolicy 'images' with binding 'all': failed expression: " + strings.TrimSpace(loop.Src),
				Violation: &celgate.Violation{Policy: "images", Binding: "all"},
			}},
			Violations: []celgate.Violation{
				{Policy: "replica-limit", Binding: "prod", Param: "shop/limits",
					Message: "must not have more than 5 replicas, because the cluster of the shop is small and shared by several teams", Actions: []policy.Action{policy.Deny, policy.Audit}, Kind: policy.Validating, Expr: replicas},
				{Policy: "images", Binding: "all", Message: "failed expression: " + strings.TrimSpace(loop.Src),
					Actions: []policy.Action{policy.Warn}, Kind: policy.Validating, Expr: loop},
				{Policy: "team", Binding: "all", IsError: true, Message: missingError(team, "team").Error(),
					Err: missingError(team, "team"), Actions: []policy.Action{policy.Deny}, Kind: policy.Validating,
					Expr: team},
				{Policy: "names", Binding: "all", Message: "bad\x1b[31m name", Actions: []policy.Action{policy.Audit},
					Kind: policy.Validating, Expr: many},
			},
		}),
		item(40, request(celgate.Delete, "old"), celgate.Decision{
			Status: denial(`deployments.apps "old" is forbidden: no such key`),
			Violations: []celgate.Violation{
				{Policy: "protect", Binding: "all", IsError: true, Message: missingError(locked, "metadata").Error(),
					Err: missingError(locked, "metadata"), Actions: []policy.Action{policy.Deny}, Kind: policy.Validating,
					Expr: locked},
			},
		}),
		item(50, request(celgate.Create, "param"), celgate.Decision{
			Status: denial(`deployments.apps "param" is forbidden: no params`),
			Violations: []celgate.Violation{
				{Policy: "params", Binding: "prod", IsError: true,
					Message: "failed to configure binding: " + celgate.ErrNoParams.Error(), Err: celgate.ErrNoParams,
					Actions: []policy.Action{policy.Deny}, Kind: policy.Validating},
			},
		}),
		item(60, request(celgate.Update, "lost"), celgate.Decision{
			Status: &metav1.Status{Status: "Failure", Code: 404, Reason: "NotFound",
				Message: `namespaces "shop" not found`,
				Details: &metav1.StatusDetails{Kind: "namespaces", Name: "shop"}},
		}),
		item(80, request(celgate.Create, "quiet"), celgate.Decision{
			Allowed: true, Mutated: true,
			Outcomes: []celgate.Outcome{{Policy: "team", Binding: "all", Verdict: celgate.Error,
				Message: missingError(team, "team").Error(), Err: missingError(team, "team"), Kind: policy.Validating,
				Expr: &team}},
			Notes: []celgate.Note{{Quirk: &celgate.Quirk{ID: "lost-copy"}, Message: "the copy of a list is lost"}},
		}),
		{Place: policy.Position{File: "manifests/widget.yaml", Line: 3, Column: 1},
			Kind: schema.GroupVersionKind{Group: "lab.example.test", Version: "v1", Kind: "Widget"}, Name: "shop/one",
			Failure: &report.Failure{Message: "the kind is not known",
				Hint: "add its CustomResourceDefinition with -c"}},
	}
}

func set() *policy.Set {
	s := &policy.Set{Bindings: []*policy.Binding{
		{Kind: policy.Validating, Name: "prod", PolicyName: "params",
			Position: policy.Position{File: "policies/params.yaml", Line: 30, Column: 1}}}}
	for _, name := range []string{"replica-limit", "images", "team", "names", "protect", "params", "unused"} {
		s.Policies = append(s.Policies, &policy.Policy{Kind: policy.Validating, Name: name,
			Position: policy.Position{File: "policies/params.yaml", Line: 1, Column: 1}})
	}
	return s
}

func rejections() []report.Rejection {
	e := expr("spec.matchConditions[0].expression", 12, 19, "variables.skip == false")
	return []report.Rejection{{
		APIVersion: "admissionregistration.k8s.io/v1", Ref: policy.Validating.Ref("broken"),
		Place: policy.Position{File: "policies/broken.yaml", Line: 1, Column: 1},
		Status: &metav1.Status{Status: "Failure", Code: 422, Reason: "Invalid",
			Message: "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"broken\" is invalid"},
		Problems: []report.Problem{
			{Field: e.Field, Message: "undeclared reference to 'variables' (in container '')", Expr: e,
				Position: e.Locate(0)},
			{Field: "spec.failurePolicy", Message: `Unsupported value: "Maybe": supported values: "Fail", "Ignore"`,
				Position: policy.Position{File: "policies/broken.yaml", Line: 7, Column: 18}},
		},
	}}
}

func TestWriters(t *testing.T) {
	tests := []struct {
		name    string
		format  string
		options report.Options
	}{
		{"text.txt", "text", report.Options{Set: set()}},
		{"quiet.txt", "text", report.Options{Quiet: true}},
		{"narrow.txt", "text", report.Options{Width: 48}},
		{"color.txt", "text", report.Options{Color: true, Width: 100}},
		{"rejected.txt", "text", report.Options{Rejected: rejections()}},
		{"items.json", "json", report.Options{}},
		{"rejected.json", "json", report.Options{Rejected: rejections()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := report.New(tt.format, &out, tt.options)
			if err != nil {
				t.Fatal(err)
			}
			if len(tt.options.Rejected) == 0 {
				for _, it := range items() {
					if err := w.Write(it); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if tt.format == "json" && !json.Valid(out.Bytes()) {
				t.Errorf("invalid JSON:\n%s", out.Bytes())
			}
			file := filepath.Join("testdata", tt.name)
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := report.New("xml", nil, report.Options{}); err == nil ||
		!strings.Contains(err.Error(), "one of text, json, junit") {
		t.Errorf("got %v", err)
	}
}
