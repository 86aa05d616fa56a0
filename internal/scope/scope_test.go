package scope

import (
	"fmt"
	"strings"
	"testing"
)

// TestParse reads paths. Wrong ones are followed by the error, right ones by their steps.
func TestParse(t *testing.T) {
	for src, want := range map[string]string{
		"spec":                            ".spec",
		"spec.containers[*]":              ".spec .containers []",
		"spec.x[xKey].y[yIndex].field":    ".spec .x [xKey] .y [yIndex] .field",
		"spec.ports[name=http].port":      ".spec .ports [name=http] .port",
		"spec.ports[name=\"a]b\"]":        ".spec .ports [name=a]b]",
		"metadata.annotations[\"a.b/c\"]": ".metadata .annotations .a.b/c",
		"metadata.labels['a']":            ".metadata .labels .a",
		"spec.a-b[*][*]":                  ".spec .a-b [] []",
		"":                                "at 1: the name of a member is missing",
		".spec":                           "at 1: the name of a member is missing",
		"spec.":                           "at 6: the name of a member is missing",
		"spec..a":                         "at 6: the name of a member is missing",
		"spec.containers[*":               "at 18: ] is missing",
		"spec.containers[0]":              "at 17: an index may be another item later: write [*], or [member=text]",
		"spec.containers[a b]":            "at 18: ] is missing",
		"spec.containers[]":               `at 17: "" is neither *, nor a name for scopePath, nor member=text, nor a quoted member`,
		"spec.containers[field]":          "at 16: the name field has another meaning already",
		"spec.a[k].b[k]":                  "at 12: the name k has another meaning already",
		"spec.a[in]":                      `at 8: "in" is neither *, nor a name for scopePath, nor member=text, nor a quoted member`,
		"spec.ports[name=]":               "at 12: a member and its text are missing, as in [name=http]",
		"spec.ports[=http]":               "at 12: a member and its text are missing, as in [name=http]",
		"spec.ports['a]":                  "at 12: the closing ' is missing",
		"[*]":                             "at 1: a path begins with a member of the object",
		"spec containers":                 `at 5: " " is not the beginning of .member or [items]`,
		"spec.containers[*]name":          `at 19: "n" is not the beginning of .member or [items]`,
		"kubernetes.volumes":              "unknown scope: the scopes are kubernetes.allContainers, kubernetes.podSpec",
		"kubernetes.pods":                 "no such scope (did you mean kubernetes.podSpec?)",
	} {
		s := Parse(src)
		var got []string
		for _, path := range s.Paths {
			for _, step := range path {
				switch {
				case step.Member != "":
					got = append(got, "."+step.Member)
				case step.Key != "":
					got = append(got, fmt.Sprintf("[%s=%s]", step.Key, step.Value))
				default:
					got = append(got, "["+step.Name+"]")
				}
			}
		}
		text := strings.Join(got, " ")
		if s.err != nil {
			text = s.err.Error()
		}
		if text != want {
			t.Errorf("%q: got %s, want %s", src, text, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("spec.x[xKey].y[yIndex].field")
	f.Add("metadata.labels['a.b/c'][a=b]")
	f.Fuzz(func(t *testing.T, src string) {
		s := Parse(src)
		if (s.err == nil) != (len(s.Paths) > 0) {
			t.Errorf("%q: %v and %v", src, s.Paths, s.err)
		}
		if s.err != nil && (s.err.at < -1 || s.err.at > len(src)) {
			t.Errorf("%q: the error is at %d", src, s.err.at)
		}
	})
}
