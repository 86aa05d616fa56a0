package conformance

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema/builtin"
)

// wantFile holds the answer of the newest minor.
const wantFile = "want.yaml"

// olderWant is the name of the file for the answer of minors, of which one is the newest.
func olderWant(minor string) string { return "want-" + minor + ".yaml" }

func isOlderWant(file string) bool {
	minor, is := strings.CutPrefix(file, "want-")
	return is && strings.HasPrefix(minor, "1.") && strings.HasSuffix(minor, ".yaml")
}

// WantOf returns the recorded answer of a minor, nil without one.
func (c *Case) WantOf(minor string) *Want {
	for _, w := range c.wants() {
		if slices.Contains(w.Minors, minor) {
			return w
		}
	}
	return nil
}

// wants are all answers, that of the newest minor first.
func (c *Case) wants() []*Want {
	if c.Want == nil {
		return c.Older
	}
	return append([]*Want{c.Want}, c.Older...)
}

// Put keeps the answer of a minor, in place of an earlier one. Minors that answer the same share one.
func (c *Case) Put(minor string, want *Want) {
	var others []*Want
	for _, w := range c.wants() {
		left := *w
		left.Minors = slices.DeleteFunc(slices.Clone(w.Minors), func(m string) bool { return m == minor })
		if len(left.Minors) > 0 {
			others = append(others, &left)
		}
	}
	same := slices.IndexFunc(others, func(w *Want) bool { return Compare(w, want) == "" })
	if same >= 0 {
		minors := append(others[same].Minors, minor)
		if minor == celgate.Newest { // its texts are those that count
			others[same] = want
		}
		others[same].Minors = minors
	} else {
		put := *want
		put.Minors = []string{minor}
		others = append(others, &put)
	}
	for _, w := range others {
		slices.SortFunc(w.Minors, newestFirst)
	}
	slices.SortFunc(others, func(a, b *Want) int { return newestFirst(a.Minors[0], b.Minors[0]) })
	c.Want, c.Older = nil, others
	if others[0].Minors[0] == celgate.Newest {
		c.Want, c.Older = others[0], others[1:]
	}
}

func newestFirst(a, b string) int {
	order, err := version.MustParseGeneric(b).Compare(a)
	if err != nil {
		return cmp.Compare(b, a)
	}
	return order
}

// AsOf returns the case in the form for a server of a minor: policies that it serves only in another version are
// written in that version.
func (c *Case) AsOf(minor string) (*Case, error) {
	served, err := MutatingVersion(minor)
	if err != nil || served == "v1" {
		return c, err
	}
	on := *c
	on.Policies, on.Stored = WithPolicyVersion(c.Policies, served), WithPolicyVersion(c.Stored, served)
	if c.Request != nil && strings.HasPrefix(c.Request.Resource, "mutatingadmissionpolic") && served != "" {
		request := *c.Request
		if request.APIVersion == policyGroup+"/v1" {
			request.APIVersion = policyGroup + "/" + served
		}
		on.Request = &request
		on.Object, on.Old = withPolicyVersion(c.Object, served), withPolicyVersion(c.Old, served)
	}
	return &on, nil
}

// MutatingVersion returns the version in which servers of a minor, with --runtime-config, serve mutating policies;
// empty: in none, as before 1.32.
func MutatingVersion(minor string) (string, error) {
	types, err := builtin.Registry(minor)
	if err != nil {
		return "", err
	}
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		if types.Resource(schema.GroupVersionResource{Group: policyGroup, Version: version,
			Resource: "mutatingadmissionpolicies"}) != nil {
			return version, nil
		}
	}
	return "", nil
}

const policyGroup = "admissionregistration.k8s.io"

// WithPolicyVersion returns objects with mutating policies of v1 in another version. Without one they stay as they are:
// a server refuses them.
func WithPolicyVersion(objects []map[string]any, version string) []map[string]any {
	if version == "" || version == "v1" {
		return objects
	}
	turned := slices.Clone(objects)
	for i, object := range objects {
		turned[i] = withPolicyVersion(object, version)
	}
	return turned
}

func withPolicyVersion(object map[string]any, version string) map[string]any {
	kind, _ := object["kind"].(string)
	if !strings.HasPrefix(kind, "MutatingAdmissionPolicy") || object["apiVersion"] != policyGroup+"/v1" {
		return object
	}
	turned := maps.Clone(object)
	turned["apiVersion"] = policyGroup + "/" + version
	return turned
}

// KnownDifferences reads minors.txt: a minor, a case and the reason on each line. There an older minor answers
// otherwise than celgate does for it. The reasons are by minor and case.
func KnownDifferences(fsys fs.FS) (map[string]map[string]string, error) {
	file, err := fs.ReadFile(fsys, "minors.txt")
	if err != nil {
		return nil, err
	}
	known := map[string]map[string]string{}
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 {
			return nil, fmt.Errorf("minors.txt: %q is not a minor, a case and a reason", line)
		}
		if known[words[0]] == nil {
			known[words[0]] = map[string]string{}
		}
		known[words[0]][words[1]] = words[2]
	}
	return known, nil
}

// A Tally holds the results of an older minor.
type Tally struct {
	Minor     string
	Asked     int // cases that a server of the minor answered
	Unable    int // cases that it cannot answer
	Different int // answers unlike those of the newest minor
	Known     int // cases that celgate answers otherwise
}

// Tallies sums up the answers of older minors, the newest first.
func Tallies(cases []*Case, known map[string]map[string]string) []Tally {
	tallies := map[string]*Tally{}
	for _, c := range cases {
		for _, w := range c.wants() {
			for _, minor := range w.Minors {
				t := tallies[minor]
				if t == nil {
					t = &Tally{Minor: minor, Known: len(known[minor])}
					tallies[minor] = t
				}
				switch {
				case w.Unable != "":
					t.Unable++
				case w != c.Want:
					t.Different++
					fallthrough
				default:
					t.Asked++
				}
			}
		}
	}
	delete(tallies, celgate.Newest)
	var all []Tally
	for _, t := range tallies {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b Tally) int { return newestFirst(a.Minor, b.Minor) })
	return all
}
