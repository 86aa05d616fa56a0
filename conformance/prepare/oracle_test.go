// Package prepare compares package prepare with the server's own scheme.
package prepare

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	_ "k8s.io/kubernetes/pkg/apis/admission/install"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/lifecycle/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
)

var (
	count = flag.Int("objects", 100, "random objects of each kind")
	only  = flag.String("kind", "", "only kinds that contain this text")
	seed  = flag.Uint64("seed", 1, "of the random objects")
	show  = flag.Int("show", 20, "how many rules that celgate lacks are listed with -v")
)

// server is a scheme with a strict decoder, as the API server has.
type server struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	strict runtime.Serializer
}

func newServer(scheme *runtime.Scheme) server {
	codecs := serializer.NewCodecFactory(scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		panic("no JSON serializer")
	}
	return server{scheme, codecs, info.StrictSerializer}
}

var servers = func() map[string]server {
	extensions, registration := runtime.NewScheme(), runtime.NewScheme()
	apiextensions.Install(extensions)
	apiregistration.Install(registration)
	return map[string]server{
		"":                       newServer(legacyscheme.Scheme),
		"apiextensions.k8s.io":   newServer(extensions),
		"apiregistration.k8s.io": newServer(registration),
	}
}()

func serverOf(kind schema.GroupVersionKind) server {
	if s, ok := servers[kind.Group]; ok {
		return s
	}
	return servers[""]
}

// object decodes a body as the create handler does and returns the object that a policy sees.
func (s server) object(body []byte, kind schema.GroupVersionKind) (tree map[string]any, warnings []string, err error) {
	internal := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	hub, _, err := s.codecs.DecoderToVersion(s.strict, internal).Decode(body, &kind, nil)
	if err != nil {
		strict, ok := runtime.AsStrictDecodingError(err)
		if !ok || hub == nil {
			return nil, nil, err
		}
		for _, e := range strict.Errors() {
			warnings = append(warnings, e.Error())
		}
	}
	tree, err = s.tree(hub, kind)
	return tree, warnings, err
}

func (s server) tree(obj runtime.Object, kind schema.GroupVersionKind) (map[string]any, error) {
	versioned, err := s.scheme.ConvertToVersion(obj, kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	versioned.GetObjectKind().SetGroupVersionKind(kind)
	return runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
}

func registry(t testing.TB) *schema.Registry {
	r, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// kinds returns every kind that a resource or subresource takes objects of.
func kinds(r *schema.Registry) []schema.GroupVersionKind {
	seen := map[schema.GroupVersionKind]bool{}
	for _, res := range r.Resources() {
		seen[res.GroupVersionKind()] = true
		for _, sub := range res.Subresources {
			seen[sub.Kind] = true
		}
	}
	var all []schema.GroupVersionKind
	for kind := range seen {
		if strings.Contains(kind.String(), *only) && !strings.HasSuffix(kind.Kind, "Options") {
			all = append(all, kind)
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return all
}

func eachKind(t *testing.T, test func(t *testing.T, types *schema.Registry, kind schema.GroupVersionKind,
	typ *shape.Type)) {
	types := registry(t)
	for _, kind := range kinds(types) {
		typ := types.Type(kind)
		if typ == nil {
			t.Errorf("%s has no type", kind)
			continue
		}
		if !serverOf(kind).scheme.Recognizes(kind) {
			t.Logf("%s is not in the server's scheme", kind)
			continue
		}
		t.Run(kind.Group+"/"+kind.Version+" "+kind.Kind, func(t *testing.T) { test(t, types, kind, typ) })
	}
}

// TestObject compares decoded and defaulted objects of every kind, and the warnings about unknown fields.
func TestObject(t *testing.T) {
	eachKind(t, func(t *testing.T, types *schema.Registry, kind schema.GroupVersionKind, typ *shape.Type) {
		g := &generator{Rand: rand.New(rand.NewPCG(*seed, 1)), unknown: 0.02}
		for i := range *count {
			in := g.object(typ, 0)
			in["apiVersion"], in["kind"] = kind.GroupVersion().String(), kind.Kind
			compare(t, i, types, kind, in)
			if t.Failed() {
				return
			}
		}
	})
}

// TestErrors compares the errors about objects that do not fit their type.
func TestErrors(t *testing.T) {
	eachKind(t, func(t *testing.T, types *schema.Registry, kind schema.GroupVersionKind, typ *shape.Type) {
		g := &generator{Rand: rand.New(rand.NewPCG(*seed, 2)), wrong: 0.01}
		for i := range *count {
			in := g.object(typ, 0)
			in["apiVersion"], in["kind"] = kind.GroupVersion().String(), kind.Kind
			compare(t, i, types, kind, in)
			if t.Failed() {
				return
			}
		}
	})
}

func compare(t *testing.T, i int, types *schema.Registry, kind schema.GroupVersionKind, in map[string]any) {
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	want, wantWarnings, wantErr := serverOf(kind).object(body, kind)
	if wantErr == nil {
		want = storedForm(types.Type(kind), want).(map[string]any)
	}
	got, gotWarnings, gotErr := prepare.Canonical(in, types, kind)
	switch {
	case wantErr != nil || gotErr != nil:
		if w, g := text(wantErr), text(gotErr); w != g {
			t.Errorf("object %d: %s\n got error %s\nwant error %s", i, body, g, w)
		}
		return
	case !reflect.DeepEqual(got, want):
		if found := difference("", got, want); len(found) > 0 {
			t.Errorf("object %d:\n%s", i, strings.Join(found, "\n"))
		}
	case !slices.Equal(gotWarnings, wantWarnings) && len(gotWarnings)+len(wantWarnings) > 0:
		t.Errorf("object %d: %s\n got warnings %q\nwant warnings %q", i, body, gotWarnings, wantWarnings)
	}
	if t.Failed() {
		t.Logf("input: %s", body)
	}
	if after, _ := json.Marshal(in); string(after) != string(body) {
		t.Errorf("object %d was changed", i)
	}
}

// storedForm returns a tree after a round trip through protocol buffers, the form of objects in etcd: empty lists
// disappear, except for those in a map, which always exist.
func storedForm(t *shape.Type, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if webhook, ok := v["webhook"].(map[string]any); ok &&
			reflect.DeepEqual(webhook, map[string]any{"conversionReviewVersions": []any{}}) {
			delete(v, "webhook") // the hub of CustomResourceDefinitions knows it by its members
		}
		for name, member := range v {
			f := t.Field(name)
			switch {
			case f != nil:
				v[name] = storedForm(f.Type, member)
			case t.Kind == shape.Map && t.Elem.Kind == shape.List:
				if v[name] = storedForm(t.Elem, member); v[name] == nil {
					v[name] = []any{}
				}
			case t.Kind == shape.Map:
				v[name] = storedForm(t.Elem, member)
			}
		}
	case []any:
		if t.Kind == shape.List && len(v) == 0 {
			return nil
		}
		if t.Kind == shape.List {
			for i := range v {
				v[i] = storedForm(t.Elem, v[i])
			}
		}
	}
	return v
}

func text(err error) string {
	if err == nil {
		return ""
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus.Message
	}
	return err.Error()
}

// difference lists where two trees differ.
func difference(path string, got, want any) []string {
	g, ok := got.(map[string]any)
	w, both := want.(map[string]any)
	if ok && both {
		keys := map[string]bool{}
		for k := range g {
			keys[k] = true
		}
		for k := range w {
			keys[k] = true
		}
		var all []string
		sorted := make([]string, 0, len(keys))
		for k := range keys {
			sorted = append(sorted, k)
		}
		sort.Strings(sorted)
		for _, k := range sorted {
			a, inGot := g[k]
			b, inWant := w[k]
			switch {
			case !inGot:
				all = append(all, fmt.Sprintf("%s.%s: missing, want %#v", path, k, b))
			case !inWant:
				all = append(all, fmt.Sprintf("%s.%s: got %#v, want none", path, k, a))
			default:
				all = append(all, difference(path+"."+k, a, b)...)
			}
		}
		return all
	}
	gl, ok := got.([]any)
	wl, both := want.([]any)
	if ok && both && len(gl) == len(wl) {
		var all []string
		for i := range gl {
			all = append(all, difference(fmt.Sprintf("%s[%d]", path, i), gl[i], wl[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(got, want) && !(strings.HasSuffix(path, ".timeAdded") && recent(got) && recent(want)) {
		return []string{fmt.Sprintf("%s: got %#v, want %#v", path, got, want)}
	}
	return nil
}

// recent reports whether v is the current time, which some defaults are.
func recent(v any) bool {
	s, _ := v.(string)
	at, err := time.Parse(time.RFC3339, s)
	return err == nil && time.Since(at) < time.Minute
}
