// Package typecheck holds what celgate check says that the server will warn about against the server's own type
// checker.
package typecheck_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/celgate/celgate/internal/check"
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

// TestWarnings compares, for the policies under internal/check/testdata and those in CELGATE_POLICIES, every text of
// status.typeChecking.
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
	paths := []string{"../../internal/check/testdata"}
	if more := os.Getenv("CELGATE_POLICIES"); more != "" {
		paths = append(paths, filepath.SplitList(more)...)
	}
	docs, _ := manifest.Load(paths...)
	compared := 0
	for _, d := range docs {
		if !policy.Recognised(d.Object) {
			continue
		}
		p, _, err := policy.FromObject(d.Object, d)
		if err != nil || p == nil || p.Kind != policy.Validating {
			continue
		}
		found, err := check.Run(t.Context(), check.Input{Set: &policy.Set{Policies: []*policy.Policy{p}}, Types: types,
			KubeVersion: "1.37"}, check.Analyzers()...)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		refused := false
		for _, f := range found {
			if f.Server != nil {
				got[f.Field] = f.Server()
			}
			refused = refused || f.Code == "CG001"
		}
		if refused {
			continue // never stored, never checked
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
