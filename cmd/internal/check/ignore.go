package check

import (
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
)

// IgnoreAnnotation is the annotation of a policy or binding that suppresses diagnostics about it. Its
// lines are codes, a colon and the reason: "CG302: the webhook before us sets it".
const IgnoreAnnotation = "celgate.dev/ignore"

// An ignored is one line of the annotation.
type ignored struct {
	codes  []string
	reason string
	line   string
}

func parseIgnored(annotations map[string]string) []ignored {
	var all []ignored
	for line := range strings.Lines(annotations[IgnoreAnnotation]) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		codes, reason, _ := strings.Cut(line, ":")
		i := ignored{reason: strings.TrimSpace(reason), line: line}
		for _, code := range strings.FieldsFunc(codes, func(r rune) bool { return r == ',' || r == ' ' }) {
			i.codes = append(i.codes, strings.ToUpper(code))
		}
		all = append(all, i)
	}
	return all
}

// ignore marks the diagnostics that annotations ignore with a reason.
func (s *subject) ignore(all []Diagnostic) {
	annotations := map[policy.Ref]map[string]string{}
	for _, p := range s.Set.Policies {
		annotations[p.Ref()] = p.Metadata.Annotations
	}
	for _, b := range s.Set.Bindings {
		annotations[b.Ref()] = b.Metadata.Annotations
	}
	for _, l := range s.Set.Libraries {
		annotations[l.Ref()] = l.Metadata.Annotations
	}
	for i := range all {
		d := &all[i]
		for _, by := range parseIgnored(annotations[d.Ref]) {
			if by.reason != "" && slices.Contains(by.codes, d.Code) {
				d.Ignored = by.reason
			}
		}
	}
}
