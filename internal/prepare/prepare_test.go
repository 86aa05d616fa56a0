package prepare_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// A testCase is one entry of a file in testdata. Want is a part that the result must contain, with all items of a list;
// members with the value ABSENT must not exist.
type testCase struct {
	Name       string
	Minor      string // the newest if it is empty
	Resource   string // "apps/v1 deployments"
	SubRes     string
	Operation  string
	Namespace  string
	Definition map[string]any // a CustomResourceDefinition
	Object     map[string]any
	Old        map[string]any
	Want       map[string]any
	Warnings   []string
	Error      string
	Code       int64
	Same       bool // the result is the input, not a copy
}

func registry(t testing.TB) *schema.Registry {
	t.Helper()
	return registryOf(t, "1.37")
}

func registryOf(t testing.TB, minor string) *schema.Registry {
	t.Helper()
	r, err := builtin.Registry(minor)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// load decodes a YAML file into JSON trees.
func load(t testing.TB, file string) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	text, err = yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func tree(t testing.TB, file string) map[string]any {
	t.Helper()
	m, ok := load(t, file).(map[string]any)
	if !ok {
		t.Fatalf("%s is no object", file)
	}
	return m
}

func cases(t *testing.T, file string) []testCase {
	t.Helper()
	var all []testCase
	for _, item := range load(t, file).([]any) {
		m := item.(map[string]any)
		c := testCase{}
		v := reflect.ValueOf(&c).Elem()
		for name, value := range m {
			field := v.FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, name) })
			if !field.IsValid() {
				t.Fatalf("%s: unknown member %q", file, name)
			}
			switch value := value.(type) {
			case []any:
				for _, text := range value {
					c.Warnings = append(c.Warnings, text.(string))
				}
			default:
				field.Set(reflect.ValueOf(value))
			}
		}
		all = append(all, c)
	}
	return all
}

func input(types *schema.Registry, version, resource, operation string, object map[string]any) prepare.Input {
	group, v, found := strings.Cut(version, "/")
	if !found {
		group, v = "", version
	}
	return prepare.Input{
		Types: types, Resource: types.Resource(
			schema.GroupVersionResource{Group: group, Version: v, Resource: resource}),
		Operation: operation, Namespace: "shop", Object: object, Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	}
}

func (c testCase) input(t *testing.T) prepare.Input {
	types := registryOf(t, cmp.Or(c.Minor, "1.37"))
	if c.Definition != nil {
		var err error
		if types, err = types.WithCustomResources(c.Definition); err != nil {
			t.Fatal(err)
		}
	}
	version, resource, _ := strings.Cut(c.Resource, " ")
	operation := c.Operation
	if operation == "" {
		operation = "CREATE"
	}
	in := input(types, version, resource, operation, c.Object)
	in.SubResource, in.Old = c.SubRes, c.Old
	if c.Namespace != "" {
		in.Namespace = c.Namespace
	}
	return in
}

// missingParts lists the parts of want that got lacks.
func missingParts(path string, got, want any) []string {
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: got %v, want an object", path, got)}
		}
		var all []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			v, ok := g[name]
			switch {
			case want[name] == "ABSENT" && ok:
				all = append(all, fmt.Sprintf("%s.%s: got %v, want none", path, name, v))
			case want[name] == "ABSENT":
			case !ok:
				all = append(all, fmt.Sprintf("%s.%s: missing", path, name))
			default:
				all = append(all, missingParts(path+"."+name, v, want[name])...)
			}
		}
		return all
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return []string{fmt.Sprintf("%s: got %v, want %v", path, got, want)}
		}
		var all []string
		for i := range want {
			all = append(all, missingParts(fmt.Sprintf("%s[%d]", path, i), g[i], want[i])...)
		}
		return all
	}
	if got != want {
		return []string{fmt.Sprintf("%s: got %#v, want %#v", path, got, want)}
	}
	return nil
}

func check(t *testing.T, got map[string]any, c testCase) {
	t.Helper()
	for _, problem := range missingParts("", got, c.Want) {
		t.Error(problem)
	}
	if same := reflect.ValueOf(got).Pointer() == reflect.ValueOf(c.Object).Pointer(); c.Same != same {
		t.Errorf("result is the input: %v, want %v", same, c.Same)
	}
}

func TestObject(t *testing.T) {
	for _, c := range cases(t, "object.yaml") {
		t.Run(c.Name, func(t *testing.T) {
			result, err := prepare.Object(c.input(t))
			if c.Error != "" {
				status, ok := errors.AsType[*apierrors.StatusError](err)
				if !ok || status.ErrStatus.Message != c.Error || int64(status.ErrStatus.Code) != c.Code {
					t.Fatalf("got error %v, want %d %s", err, c.Code, c.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			check(t, result.Object, c)
			if got := slices.Concat(result.Unknown, result.Warnings); !slices.Equal(got, c.Warnings) &&
				len(got)+len(c.Warnings) > 0 {
				t.Errorf("got warnings %q, want %q", got, c.Warnings)
			}
		})
	}
}

func TestNormalise(t *testing.T) {
	for _, c := range cases(t, "normalise.yaml") {
		t.Run(c.Name, func(t *testing.T) {
			in := c.input(t)
			got, err := prepare.Normalise(c.Object, in.Types, in.Resource.GroupVersionKind())
			if c.Error != "" {
				if err == nil || err.Error() != c.Error {
					t.Fatalf("got error %v, want %s", err, c.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			check(t, got, c)
		})
	}
}

func TestObjectToValidate(t *testing.T) {
	for _, c := range cases(t, "forvalidation.yaml") {
		t.Run(c.Name, func(t *testing.T) {
			in := c.input(t)
			check(t, prepare.ObjectToValidate(in), c)
			if !reflect.DeepEqual(prepare.ObjectToValidate(in), prepare.ObjectToValidate(in)) {
				t.Error("two equal requests have different results")
			}
		})
	}
}

// TestOlderMembers checks that no minor gives an object a member that it does not know.
func TestOlderMembers(t *testing.T) {
	all := slices.Concat(cases(t, "object.yaml"), cases(t, "forvalidation.yaml"))
	for _, r := range registry(t).Resources() {
		all = append(all, testCase{
			Name:     "an empty " + r.Kind,
			Resource: r.GroupVersion().String() + " " + r.Resource,
			Object: map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind,
				"metadata": map[string]any{"name": "a"}, "spec": map[string]any{}},
		})
	}
	for _, minor := range builtin.Minors() {
		for _, c := range all {
			c.Minor = minor
			in := c.input(t)
			if in.Resource == nil || in.Operation != "CREATE" {
				continue
			}
			first, err := prepare.Object(in)
			if err != nil {
				continue
			}
			in.Object = first.Object
			in.Object = prepare.ObjectToValidate(in)
			second, err := prepare.Object(in)
			if len(second.Unknown) > 0 || err != nil {
				t.Errorf("%s: %s: %q %v", minor, c.Name, second.Unknown, err)
			}
		}
	}
}

// TestOlderWarnings checks from which minor on a warning is given, and in which words.
func TestOlderWarnings(t *testing.T) {
	service := func(spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a"}, "spec": spec}
	}
	pod := func(spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"}, "spec": spec}
	}
	headless := map[string]any{"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "None",
		"loadBalancerIP": "1.2.3.4"}
	const ip = `spec.externalIPs[0]: non-standard IP address "010.0.0.1" `
	for _, c := range []struct {
		minor, resource string
		object          map[string]any
		want            []string
	}{
		{"1.36", "services", service(map[string]any{"externalIPs": []any{"010.0.0.1"}}),
			[]string{ip + `is invalid: use "10.0.0.1"`,
				"spec.externalIPs is deprecated and may no longer be implemented in some clusters"}},
		{"1.35", "services", service(map[string]any{"externalIPs": []any{"010.0.0.1"}}),
			[]string{ip + `will be considered invalid in a future Kubernetes release: use "10.0.0.1"`}},
		{"1.35", "services", service(map[string]any{"trafficDistribution": "PreferClose"}),
			[]string{`spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`}},
		{"1.34", "services", service(map[string]any{"trafficDistribution": "PreferClose"}), nil},
		{"1.34", "services", service(headless),
			[]string{"spec.loadBalancerIP is ignored for headless services"}},
		{"1.33", "services", service(headless), nil},
		{"1.33", "services", service(map[string]any{"loadBalancerIP": "None"}), nil},
		{"1.32", "services", service(map[string]any{"loadBalancerIP": "None"}), []string{`spec.loadBalancerIP: ` +
			`IP address was accepted, but will be invalid in a future Kubernetes release: ParseAddr("None"): unable to parse IP`}},
		{"1.32", "services", service(map[string]any{"loadBalancerSourceRanges": []any{"::0/8"}}), []string{
			`spec.loadBalancerSourceRanges[0]: IPv6 prefix "::0/8" is not in RFC 5952 canonical format ("::/8"), ` +
				"which may cause controller apply-loops"}},
		{"1.33", "pods", pod(map[string]any{"hostAliases": []any{map[string]any{"ip": "::0"}}}),
			[]string{`spec.hostAliases[0].ip: IPv6 address "::0" should be in RFC 5952 canonical format ("::")`}},
		{"1.32", "pods", pod(map[string]any{"hostAliases": []any{map[string]any{"ip": "::0"}}}), nil},
		{"1.32", "pods", pod(map[string]any{"volumes": []any{map[string]any{"name": "v", "gitRepo": map[string]any{}}}}),
			[]string{"spec.volumes[0].gitRepo: deprecated in v1.11"}},
	} {
		in := input(registryOf(t, c.minor), "v1", c.resource, "CREATE", c.object)
		if got := prepare.Warnings(in, c.minor); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, not %q", c.minor, got, c.want)
		}
	}
}

func TestSharing(t *testing.T) {
	types := registry(t)
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	obj, _, err := prepare.ReadStored(tree(t, "deployment.yaml"), types, kind)
	if err != nil {
		t.Fatal(err)
	}
	changed := maps.Clone(obj)
	changed["metadata"] = map[string]any{"name": "web", "labels": map[string]any{}, "surprise": true}
	got, err := prepare.Normalise(changed, types, kind)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.ValueOf(got["spec"]).Pointer() != reflect.ValueOf(obj["spec"]).Pointer() {
		t.Error("spec was copied without a change")
	}
	if problems := missingParts("", got["metadata"],
		map[string]any{"name": "web", "labels": "ABSENT", "surprise": "ABSENT"}); problems != nil {
		t.Error(problems)
	}
}

// TestManagers checks that an update which changes nothing leaves the object as it is stored.
func TestManagers(t *testing.T) {
	object := func() map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "a", "namespace": "default"}}
	}
	in := input(registry(t), "v1", "configmaps", "UPDATE", object())
	in.Namespace, in.Old = "default", object()
	managers := []any{map[string]any{"manager": "kubectl", "operation": "Update"}}
	in.Old["metadata"].(map[string]any)["managedFields"] = managers
	got, err := prepare.Object(in)
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := got.Object["metadata"].(map[string]any)
	if !reflect.DeepEqual(metadata["managedFields"], any(managers)) {
		t.Errorf("got %v", got.Object)
	}
}

func TestGeneratedName(t *testing.T) {
	in := input(registry(t), "v1", "configmaps", "CREATE", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": strings.Repeat("a", 80)},
	})
	meta, _ := prepare.ObjectToValidate(in)["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if len(name) != 63 || !strings.HasPrefix(name, strings.Repeat("a", 58)) ||
		strings.Trim(name[58:], "bcdfghjklmnpqrstvwxz2456789") != "" {
		t.Errorf("got name %q", name)
	}
	if id, _ := meta["uid"].(string); len(id) != 36 || id[14] != '4' {
		t.Errorf("got uid %q", id)
	}
}
