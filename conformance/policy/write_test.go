// Package policy compares the validation of policies and bindings with the code of kube-apiserver v1.37.2.
package policy

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	kjson "sigs.k8s.io/json"

	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	map_ "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	mapb "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	vap "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	vapb "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
)

var update = flag.Bool("update", false, "record the server's answers in ../../policy/testdata")

// serverAnswer returns the status with which the server refuses to create the object of a JSON text, as
// apiserver pkg/endpoints/handlers/create.go and pkg/registry/rest/create.go v0.37.2 do it; nil if it is stored.
func serverAnswer(t testing.TB, data []byte) *metav1.Status {
	t.Helper()
	var head metav1.TypeMeta
	if err := json.Unmarshal(data, &head); err != nil {
		t.Fatal(err)
	}
	gvk := head.GroupVersionKind()
	var strategy rest.RESTCreateStrategy
	switch gvk.Kind {
	case "ValidatingAdmissionPolicy":
		strategy = vap.NewStrategy(nil, nil)
	case "ValidatingAdmissionPolicyBinding":
		strategy = vapb.NewStrategy(nil, nil, noResources{})
	case "MutatingAdmissionPolicy":
		strategy = map_.NewStrategy(nil, nil)
	case "MutatingAdmissionPolicyBinding":
		strategy = mapb.NewStrategy(nil, nil, noResources{})
	default:
		t.Fatalf("not a policy: %v", gvk)
	}
	info, ok := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no JSON")
	}
	decoder := legacyscheme.Codecs.DecoderToVersion(info.StrictSerializer,
		schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	obj, _, err := decoder.Decode(data, &gvk, nil)
	if err != nil {
		status := apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind,
			gvk.Version, gvk.Kind, err)).Status()
		return &status
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	rest.WipeObjectMetaSystemFields(accessor)
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace("", accessor); err != nil {
		t.Fatal(err)
	}
	accessor.SetManagedFields(nil)
	rest.FillObjectMetaSystemFields(accessor)
	if accessor.GetName() == "" && accessor.GetGenerateName() != "" {
		accessor.SetName(strategy.GenerateName(accessor.GetGenerateName()))
	}
	ctx := genericapirequest.WithNamespace(context.Background(), "")
	ctx = genericapirequest.WithRequestInfo(ctx,
		&genericapirequest.RequestInfo{APIGroup: gvk.Group, APIVersion: gvk.Version})
	if err := rest.BeforeCreate(strategy, ctx, obj); err != nil {
		answer, ok := err.(apierrors.APIStatus)
		if !ok {
			t.Fatalf("%T %v", err, err)
		}
		status := answer.Status()
		return &status
	}
	return nil
}

// noResources does not resolve anything; a check for it would need an authorizer.
type noResources struct{}

func (noResources) Resolve(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, fmt.Errorf("no resource of %v", kind)
}

// ourAnswer is celgate's answer to the same text.
func ourAnswer(t testing.TB, data []byte) *metav1.Status {
	t.Helper()
	var obj map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		t.Fatal(err)
	}
	p, b, err := policy.FromObject(obj, nil)
	switch {
	case err != nil:
		var failed *policy.DecodeError
		if !errors.As(err, &failed) {
			t.Fatalf("%T %v", err, err)
		}
		return failed.Status()
	case p != nil:
		if errs := validate(t, p); len(errs) > 0 {
			return p.Ref().Invalid(errs)
		}
	default:
		if errs := policy.ValidateBinding(b); len(errs) > 0 {
			return b.Ref().Invalid(errs)
		}
	}
	return nil
}

// TestCorpus compares the server's answers with those recorded in the tests of package policy, and celgate's
// with the server's.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("../../policy/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		recorded := &txtar.Archive{Comment: archive.Comment}
		wants := map[string]string{}
		for _, f := range archive.Files {
			wants[f.Name] = string(f.Data)
		}
		for _, f := range archive.Files {
			name, ok := strings.CutSuffix(f.Name, ".yaml")
			if !ok {
				continue
			}
			recorded.Files = append(recorded.Files, f)
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				data, err := yaml.ToJSON(f.Data)
				if err != nil {
					t.Fatal(err)
				}
				answer := serverAnswer(t, data)
				got := ""
				if answer != nil {
					text, err := json.MarshalIndent(answer, "", "  ")
					if err != nil {
						t.Fatal(err)
					}
					got = string(text) + "\n"
					recorded.Files = append(recorded.Files, txtar.File{Name: name + ".want", Data: []byte(got)})
				}
				if diff := cmp.Diff(wants[name+".want"], got); diff != "" && !*update {
					t.Errorf("the server answers otherwise than recorded (-recorded +server):\n%s", diff)
				}
				if diff := cmp.Diff(answer, ourAnswer(t, data)); diff != "" {
					t.Errorf("(-server +celgate):\n%s", diff)
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(recorded), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}
