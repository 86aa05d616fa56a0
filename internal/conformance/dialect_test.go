package conformance

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// TestReplayAsDialect replays every case with each policy and binding converted to one of the dialect by its kind
// alone: the answers of the server apply to them, too. Cases in testdata/dialect.txt must differ, for the reason in
// that file.
func TestReplayAsDialect(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus once more")
	}
	cases := corpus(t)
	differing := readReasons(t, "testdata/dialect.txt")
	for _, c := range cases {
		if c.Request != nil && strings.HasPrefix(c.Request.APIVersion, "admissionregistration.k8s.io/") {
			continue // its request writes a policy of the released kinds
		}
		reason, differs := differing[c.Name]
		delete(differing, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			turned := *c
			turned.Policies, turned.Stored = withoutTypes(inDialect(c.Policies)), withoutTypes(inDialect(c.Stored))
			var err error
			if turned.Want, err = wantedOfDialect(c.Want); err != nil {
				t.Fatal(err)
			}
			var diff string
			switch got, err := Replay(t.Context(), &turned, celgate.Newest); {
			case err != nil:
				diff = err.Error()
			default:
				diff = describeUnexpected(&turned, got, Compare(turned.Want, got), unvalidated[c.Name])
			}
			switch {
			case differs && diff == "":
				t.Errorf("agrees, but is listed: %s", reason)
			case !differs:
				report(t, c, "engine", diff)
			}
		})
	}
	for name := range differing {
		t.Errorf("%s is listed, and there is no such case", name)
	}
}

// withoutTypes turns off type checking for policies with mutations, as on the server.
func withoutTypes(objects []map[string]any) []map[string]any {
	for i, object := range objects {
		spec, _ := object["spec"].(map[string]any)
		if object["kind"] == "AdmissionPolicy" && spec["mutations"] != nil {
			objects[i], spec = maps.Clone(object), maps.Clone(spec)
			spec["typeChecking"] = "Off"
			objects[i]["spec"] = spec
		}
	}
	return objects
}

// readReasons reads lines of the form "name: reason".
func readReasons(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, reason, ok := strings.Cut(lines.Text(), ": "); ok && !strings.HasPrefix(name, "#") {
			found[name] = reason
		}
	}
	return found
}

var (
	released = regexp.MustCompile(`(Validating|Mutating)AdmissionPolicy`)
	named    = regexp.MustCompile(`(Validating|Mutating)AdmissionPolicy(\s+'+)`) // in texts of the server, not of authors
)

// inDialect turns policies and bindings into those of the dialect; other objects stay. A mutating and a validating
// policy of one name, and their bindings, become one.
func inDialect(objects []map[string]any) []map[string]any {
	var all []map[string]any
	for _, object := range objects {
		kind := fmt.Sprint(object["kind"])
		version, ok := strings.CutPrefix(fmt.Sprint(object["apiVersion"]), "admissionregistration.k8s.io/")
		if !ok || !released.MatchString(kind) {
			all = append(all, object)
			continue
		}
		turned := maps.Clone(object)
		turned["apiVersion"], turned["kind"] = policy.Dialect, released.ReplaceAllString(kind, "AdmissionPolicy")
		spec, _ := object["spec"].(map[string]any)
		if ref, ok := spec["paramRef"].(map[string]any); ok && version == "v1alpha1" &&
			ref["parameterNotFoundAction"] == nil { // the one default that v1 does not have
			ref, spec = maps.Clone(ref), maps.Clone(spec)
			ref["parameterNotFoundAction"], spec["paramRef"], turned["spec"] = "Deny", ref, spec
		}
		i := slices.IndexFunc(all, func(o map[string]any) bool {
			return o["kind"] == turned["kind"] && reflect.DeepEqual(o["metadata"], turned["metadata"])
		})
		if i < 0 {
			all = append(all, turned)
			continue
		}
		first, _ := all[i]["spec"].(map[string]any)
		both := maps.Clone(first)
		maps.Copy(both, turned["spec"].(map[string]any))
		turned["spec"] = both
		all[i] = turned
	}
	return all
}

// wantedOfDialect returns the recorded answer with the names of the dialect in its texts: the kind, the group and the
// version of refused objects.
func wantedOfDialect(recorded *Want) (*Want, error) {
	w := *recorded
	var err error
	rename := func(text string) string { return released.ReplaceAllString(text, "AdmissionPolicy") }
	renameNamed := func(text string) string { return named.ReplaceAllString(text, "AdmissionPolicy${2}") }
	restate := func(status *metav1.Status, rename func(string) string) *metav1.Status {
		if status == nil {
			return nil
		}
		text, failed := yaml.Marshal(status)
		if failed != nil {
			err = failed
			return nil
		}
		out := &metav1.Status{}
		if failed := yaml.Unmarshal([]byte(rename(string(text))), out); failed != nil {
			err = failed
		}
		return out
	}
	w.Status = restate(w.Status, renameNamed)
	w.Warnings = slices.Clone(w.Warnings)
	for i, text := range w.Warnings {
		w.Warnings[i] = renameNamed(text)
	}
	w.Rejected = slices.Clone(w.Rejected)
	for i := range w.Rejected {
		r := &w.Rejected[i]
		r.Kind, r.Status = rename(r.Kind), restate(r.Status, rename)
		if r.Status == nil {
			continue
		}
		r.Status.Message = versions.ReplaceAllString(
			strings.ReplaceAll(r.Status.Message, "admissionregistration.k8s.io", policy.OwnGroup), `in version "v1alpha1"`)
		if d := r.Status.Details; d != nil && d.Group == "admissionregistration.k8s.io" {
			d.Group = policy.OwnGroup
		}
	}
	w.Others = slices.Clone(w.Others)
	for i, other := range w.Others {
		if w.Others[i], err = wantedOfDialect(other); err != nil {
			return nil, err
		}
	}
	return &w, err
}

var versions = regexp.MustCompile(`in version "v1(beta1)?"`)
