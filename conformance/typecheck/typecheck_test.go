// Package typecheck compares the server warnings that celgate check predicts with the server's own type checker.
package typecheck_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// numbered are the type names that the server makes unique with the time of day.
var numbered = regexp.MustCompile(`\b([A-Z][A-Za-z]+)[0-9]{4,}`)

// TestWarnings compares, for the policies under cmd/internal/check/testdata and those in CELGATE_POLICIES, every text
// of status.typeChecking.
func TestWarnings(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, r := range types.Resources() {
		if !r.NotServed && !r.OffByDefault {
			kind := r.GroupVersionKind()
			mapper.AddSpecific(kind, r.GroupVersionResource, r.GroupVersionResource, meta.RESTScopeRoot)
		}
	}
	checker := &validating.TypeChecker{
		SchemaResolver: resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, scheme.Scheme),
		RestMapper:     mapper,
	}
	paths := []string{"../../cmd/internal/check/testdata"}
	if more := os.Getenv("CELGATE_POLICIES"); more != "" {
		paths = append(paths, filepath.SplitList(more)...)
	}
	program, err := server.Celgate(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	docs, _ := manifest.Load(paths...)
	warned := map[string]map[policy.Ref]*warnings{} // by file
	compared := 0
	for _, d := range docs {
		if !policy.IsRecognised(d.Object) {
			continue
		}
		p, _, err := policy.FromObject(d.Object, d.Place)
		if err != nil || p == nil || p.Kind != policy.Validating {
			continue
		}
		file := d.Position().File
		if warned[file] == nil {
			warned[file] = check(t, program, file)
		}
		var got map[string]string
		if of := warned[file][p.Ref()]; of != nil {
			if of.refused {
				continue // never stored, never checked
			}
			got = of.texts
		}
		var object v1.ValidatingAdmissionPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object, &object); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, w := range checker.Check(&object) {
			want[w.FieldRef] = numbered.ReplaceAllString(w.Warning, "$1")
		}
		for field, text := range want {
			if got[field] != text {
				t.Errorf("%v: %s: celgate\n%s\nthe server\n%s", d.Position(), field, got[field], text)
			}
			compared++
		}
		for field, text := range got {
			if want[field] == "" {
				t.Errorf("%v: %s: only celgate warns\n%s", d.Position(), field, text)
			}
		}
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// warnings returns the server warnings that celgate predicts for one policy, by the fields of its expressions.
type warnings struct {
	texts   map[string]string
	refused bool // the server does not store the policy
}

// check returns the findings of celgate check about the policies of a file.
func check(t *testing.T, program, file string) map[policy.Ref]*warnings {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "check", "-o", "json", file).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var found struct {
		Items []struct{ Code, Kind, Name, Field, ServerWarning string }
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("celgate check %s: %v: %s", file, err, exit.Stderr)
	}
	all := map[policy.Ref]*warnings{}
	for _, i := range found.Items {
		ref := policy.Ref{Kind: i.Kind, Name: i.Name}
		of := all[ref]
		if of == nil {
			of = &warnings{texts: map[string]string{}}
			all[ref] = of
		}
		of.refused = of.refused || i.Code == "CG001"
		if i.ServerWarning != "" {
			of.texts[i.Field] = i.ServerWarning
		}
	}
	return all
}
