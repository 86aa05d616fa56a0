package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/policy"
)

// Rules of findings without a policy.
var otherRules = []sarifRule{
	{ID: "rejected", Short: sarifText{"the server would not store the policy or binding"}},
	{ID: "refused", Short: sarifText{"the server refuses the request, regardless of the policies"}},
	{ID: "unenforced", Short: sarifText{"nothing was enforced"}},
	{ID: "not-run", Short: sarifText{"there is no answer"}},
	{ID: "warning", Short: sarifText{"a warning that the server sends"}},
	{ID: "audit-annotation", Short: sarifText{"an entry for the audit log"}},
	{ID: "note", Short: sarifText{"the reasons of the answer"}},
	uncheckedRule,
}

// uncheckedRule is the rule of a note about parts of the server that were not simulated.
var uncheckedRule = sarifRule{ID: "unchecked", Short: sarifText{"a part of the server that was not simulated"}}

// findings counts an item and returns its findings, with positions in the manifest.
func (t *textWriter) findings(it Item) []finding {
	_, _, blocks := t.count(it)
	var all []finding
	if it.Failure != nil && !it.Failure.Skipped {
		message := it.Failure.Message
		if it.Failure.Hint != "" {
			message += "\nhint: " + it.Failure.Hint
		}
		all = append(all, finding{level: check.Error, rule: "not-run", title: "not run", message: message})
	}
	for _, b := range blocks {
		all = append(all, b.finding())
	}
	for i := range all {
		if all[i].place = it.Place; i >= len(all)-len(blocks) {
			all[i].place = it.placeOf(blocks[i-len(all)+len(blocks)])
		}
		all[i].message = strings.TrimSpace(it.subject()) + ": " + all[i].message
	}
	return all
}

// placeOf returns the position of a block in the manifest: the field to blame, or the whole object.
func (it Item) placeOf(b block) policy.Position {
	if b.field != "" && it.Locate != nil {
		if at := it.Locate(b.field); at.IsValid() {
			return at
		}
	}
	return it.Place
}

// rejectionFindings returns the reasons why the server would not store a policy, with their positions.
func rejectionFindings(r Rejection) []finding {
	var all []finding
	for _, b := range rejectionBlocks(r) {
		f := b.finding()
		f.rule, f.title, f.message = "rejected", "rejected", r.Ref.String()+": "+f.message
		for _, f.place = range []policy.Position{b.place, f.cause, r.Place} {
			if f.place.IsValid() {
				break
			}
		}
		f.cause = policy.Position{}
		all = append(all, f)
	}
	return all
}

// finding returns a block as one text, with its expression in place of an excerpt.
func (b block) finding() finding {
	f := finding{level: check.Note, rule: b.policy, title: b.label, cause: b.place}
	switch b.label {
	case "denied", "error":
		f.level = check.Error
	case "warning", "ignored":
		f.level = check.Warning
	}
	switch {
	case b.policy != "":
		f.title += " by policy " + b.policy
	case b.audit != "":
		f.rule, f.title, b.message = "audit-annotation", "audit annotation", b.audit+": "+b.message
	case b.label == "denied":
		f.rule = "refused"
	case b.label == unchecked:
		f.rule = "unchecked"
	default:
		f.rule = b.label
	}
	lines := []string{b.message}
	if !b.expr.IsZero() {
		f.cause = b.expr.Locate(0)
		lines = append(lines, strings.TrimSpace(b.expr.Src))
	}
	lines = append(lines, b.footers...)
	if b.hint != "" {
		lines = append(lines, "hint: "+b.hint)
	}
	f.message = strings.Join(lines, "\n")
	return f
}

// A findingsWriter is the common part of formats for other programs.
type findingsWriter struct {
	w    io.Writer
	text *textWriter // computes the findings, and counts
}

func newFindings(w io.Writer, o Options) findingsWriter {
	return findingsWriter{w, newTextWriter(w, o)}
}

// applyGitHub annotates manifests and policies.
type applyGitHub struct{ findingsWriter }

func newGitHub(w io.Writer, o Options) (*applyGitHub, error) {
	g := &applyGitHub{newFindings(w, o)}
	for _, r := range o.Rejected {
		if err := writeGitHub(w, rejectionFindings(r)...); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *applyGitHub) Write(it Item) error { return writeGitHub(g.w, g.text.findings(it)...) }

func (g *applyGitHub) Close() error {
	_, err := fmt.Fprintln(g.w, g.text.summary())
	return err
}

// applySARIF writes a result for each finding; policies are the rules.
type applySARIF struct {
	findingsWriter
	all []finding
}

func newSARIF(w io.Writer, o Options) *applySARIF {
	s := &applySARIF{findingsWriter: newFindings(w, o)}
	for _, r := range o.Rejected {
		s.all = append(s.all, rejectionFindings(r)...)
	}
	return s
}

func (s *applySARIF) Write(it Item) error {
	s.all = append(s.all, s.text.findings(it)...)
	return nil
}

func (s *applySARIF) Close() error {
	if why := s.text.unenforcedReason(); why != "" {
		s.all = append(s.all, finding{level: check.Warning, rule: "unenforced", title: "nothing enforced",
			message: why})
	}
	used := map[string]bool{}
	for _, f := range s.all {
		used[f.rule] = true
	}
	var rules []sarifRule
	for _, r := range otherRules {
		if used[r.ID] {
			rules = append(rules, r)
			delete(used, r.ID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		rules = append(rules, sarifRule{ID: name, Short: sarifText{"policy " + name}})
	}
	return writeSARIF(s.w, "apply", rules, s.all)
}

// applyJUnit writes a testsuite for each file and a testcase for each request; policies that the server would not store
// come first.
type applyJUnit struct {
	findingsWriter
	junit
}

func newJUnit(w io.Writer, o Options) *applyJUnit {
	j := &applyJUnit{newFindings(w, o), junit{Name: "celgate apply"}}
	for _, r := range o.Rejected {
		c := junitCase{Name: r.Ref.String()}
		for _, f := range rejectionFindings(r) {
			c.Errors = append(c.Errors, f.junit())
		}
		j.add(r.Place.File, r.Place, 0, c)
	}
	return j
}

func (j *applyJUnit) Write(it Item) error {
	c := junitCase{Name: strings.TrimSpace(it.subject())}
	var output []string
	for _, f := range j.text.findings(it) {
		switch {
		case f.level != check.Error:
			output = append(output, f.title+": "+f.message)
		case it.Failure != nil && !it.Failure.Skipped:
			c.Errors = append(c.Errors, f.junit())
		default:
			c.Failures = append(c.Failures, f.junit())
		}
	}
	c.Output = strings.Join(output, "\n")
	j.add(it.Place.File, it.Place, 0, c)
	return nil
}

func (j *applyJUnit) Close() error {
	if why := j.text.unenforcedReason(); why != "" { // a case of its own, so that every dashboard shows it
		c := junitCase{Name: "policies", Output: why}
		if j.text.inForce == 0 {
			c.Errors = []junitMessage{{why, "unenforced", ""}}
		}
		j.add("policies", policy.Position{}, 0, c)
	}
	return j.write(j.w)
}

func (f finding) junit() junitMessage {
	first, _, _ := strings.Cut(f.message, "\n")
	return junitMessage{first, f.rule, f.place.String() + "\n" + f.message}
}
