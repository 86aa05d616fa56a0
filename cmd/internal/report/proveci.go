package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/prove"
)

// writeProofsGitHub annotates policies: an error for a counterexample, at the clause that denies it, and a warning for
// each reason why an answer is open. A line without an annotation repeats each answer.
func writeProofsGitHub(w io.Writer, o Options, all []Proof) error {
	for _, r := range o.Rejected {
		if err := writeGitHub(w, rejectionFindings(r)...); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := writeGitHub(w, newTextWriter(io.Discard, o).proofFindings(p)...); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", answerWords[p.Answer].word, escapeControls(p.Claim)); err != nil {
			return err
		}
	}
	return nil
}

func (t *textWriter) proofFindings(p Proof) (all []finding) {
	word := answerWords[p.Answer].word
	if p.Found != nil {
		f := finding{level: check.Error, rule: word, title: word}
		lines := []string{"not true: " + p.Claim}
		for _, b := range t.exampleBlocks(p) {
			if !b.expr.IsZero() && !f.place.IsValid() {
				f.place = b.expr.Locate(0)
			}
			lines = append(lines, strings.TrimSpace(b.label+": "+b.message))
			for _, line := range b.diff {
				lines = append(lines, "  "+line)
			}
		}
		f.message = strings.Join(lines, "\n")
		all = append(all, f)
	}
	for _, r := range p.Result.Reasons {
		f := finding{level: check.Warning, rule: word, title: word, message: p.Claim + "\nbecause: " + r.Message}
		if !r.Expr.IsZero() {
			f.place = r.Expr.Locate(r.From)
			f.message += "\n" + strings.TrimSpace(r.Expr.Src)
		}
		all = append(all, f)
	}
	return all
}

// writeVacuitiesGitHub annotates the parts of policies without an effect.
func writeVacuitiesGitHub(w io.Writer, o Options, all []prove.Vacuity) error {
	for _, r := range o.Rejected {
		if err := writeGitHub(w, rejectionFindings(r)...); err != nil {
			return err
		}
	}
	for _, v := range all {
		f := finding{level: check.Warning, rule: "vacuous", title: "vacuous", message: "policy " + v.Policy + ": " +
			vacuousPart(v) + " " + v.Message}
		if !v.Expr.IsZero() {
			f.place = v.Expr.Locate(v.From)
			f.message += "\n" + cmp.Or(v.Part(), strings.TrimSpace(v.Expr.Src))
		}
		if err := writeGitHub(w, f); err != nil {
			return err
		}
	}
	return nil
}
