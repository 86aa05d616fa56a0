package prepare

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/celgate/celgate/conformance/spoil"
	"github.com/celgate/celgate/internal/prepare"
	refuses "github.com/celgate/celgate/internal/registry"
	"github.com/celgate/celgate/schema"
)

// A tally counts the server's refusals of objects of a kind, and the answers of celgate.
type tally struct{ asked, refused, same, worded, missed int }

// TestBuiltins compares the errors about objects of built-in kinds with one changed field, on create and update.
// celgate must not refuse an object that the server accepts.
func TestBuiltins(t *testing.T) {
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true}) // as clusters do
	types := registry(t)
	objects, err := spoil.Objects()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(*seed, 7))
	tallies := map[string]*tally{}
	missed, otherwise := map[string]int{}, map[string]int{}
	for _, object := range objects {
		kind := kindOf(object)
		res := types.ResourceFor(kind)
		name := res.Group + "/" + res.Version + "/" + res.Resource
		s, ok := strategies[name][""].(rest.RESTCreateUpdateStrategy)
		if !ok || !strings.Contains(name, *only) {
			continue
		}
		of := tallies[kind.Kind]
		if of == nil {
			of = &tally{}
			tallies[kind.Kind] = of
		}
		builtin := refuses.Builtin{Kind: kind.GroupKind(), Namespaced: res.Namespaced, Type: types.Type(kind)}
		in := prepare.Input{Types: types, Resource: res, Namespace: "shop", Now: now, Operation: "CREATE",
			User: authenticationv1.UserInfo{Username: "dev"}}
		ctx := request.WithRequestInfo(request.WithNamespace(context.Background(), "shop"),
			&request.RequestInfo{APIGroup: res.Group, APIVersion: res.Version, Resource: res.Resource})
		made := func(object map[string]any) map[string]any {
			in := in
			in.Object = object
			result, err := prepare.Object(in)
			if err != nil {
				return nil
			}
			in.Object, in.SharesLabels = result.Object, result.SharesLabels
			return prepare.ObjectToValidate(in)
		}
		compare := func(what string, object map[string]any, server, ours field.ErrorList) {
			of.asked++
			ours = slices.DeleteFunc(ours, func(e *field.Error) bool { return strings.HasSuffix(e.Detail, ofStorage) })
			want, got := sortedTexts(server), sortedTexts(ours)
			want, got = slices.Compact(want), slices.Compact(got)
			switch {
			case len(want) == 0 && len(got) > 0:
				t.Errorf("%s %s is refused, which the server takes:\n%s", kind.Kind, what, strings.Join(got, "\n"))
			case len(want) == 0:
			case len(got) == 0:
				of.refused++
				of.missed++
				missed[kind.Kind+": "+shorten(want[0])]++
			default:
				of.refused++
				of.same++
				if slices.Equal(want, got) {
					of.worded++
				} else {
					otherwise[kind.Kind+": "+firstDifference(want, got)]++
				}
			}
		}
		before := made(object)
		stored, ok := serverOf(kind).internal(before, kind)
		if !ok {
			t.Fatalf("%s is not read", kind)
		}
		if errs := rest.ValidateCreate(ctx, stored, s); len(errs) > 0 {
			t.Errorf("%s is not valid: %v", kind, errs)
			continue
		}
		before["metadata"].(map[string]any)["resourceVersion"] = "1"
		for range *count {
			spoiled, what := spoil.Spoil(r, object, types.Type(kind))
			after := made(spoiled)
			if after == nil {
				continue
			}
			obj, ok := serverOf(kind).internal(after, kind)
			if !ok {
				continue
			}
			compare("created with "+what, after, rest.ValidateCreate(ctx, obj, s), builtin.Create(after))
			updated := runtime.DeepCopyJSON(after)
			metadata := updated["metadata"].(map[string]any)
			for _, member := range []string{"name", "uid", "resourceVersion", "creationTimestamp", "namespace",
				"generation"} {
				if metadata[member] = before["metadata"].(map[string]any)[member]; metadata[member] == nil {
					delete(metadata, member)
				}
			}
			obj, ok = serverOf(kind).internal(updated, kind)
			was, known := serverOf(kind).internal(before, kind)
			if !ok || !known {
				continue
			}
			s.PrepareForUpdate(ctx, obj, was)
			if updated, err = serverOf(kind).tree(obj, kind); err != nil {
				continue
			}
			compare("updated to "+what, updated, rest.ValidateUpdate(ctx, obj, was, s), builtin.Update(updated, before))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(tallies)) {
		of := tallies[key]
		t.Logf("%-25s %6d asked %6d refused %6d by celgate %6d in the same words %6d missed", key, of.asked,
			of.refused, of.same, of.worded, of.missed)
	}
	if testing.Verbose() {
		for what, counts := range map[string]map[string]int{"missed": missed, "worded otherwise": otherwise} {
			keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
			for _, key := range keys[:min(len(keys), *show)] {
				t.Logf("%s, %d times: %s", what, counts[key], key)
			}
		}
	}
}

// ofStorage ends messages of the storage of Services, which refuses them before the validation that this test asks.
const ofStorage = "when multiple IP families are specified"

// firstDifference is the first text that only one of two lists has.
func firstDifference(want, got []string) string {
	for _, text := range want {
		if !slices.Contains(got, text) {
			return "only the server: " + shorten(text)
		}
	}
	for _, text := range got {
		if !slices.Contains(want, text) {
			return "only celgate: " + shorten(text)
		}
	}
	return ""
}

func kindOf(object map[string]any) schema.GroupVersionKind {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return apischema.FromAPIVersionAndKind(version, kind)
}

// shorten cuts long values out of an error.
func shorten(text string) string {
	if len(text) > 200 {
		return text[:200]
	}
	return text
}
