package celgate

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
)

// link returns a linked set, and rejects invalid libraries. Results of before are reused.
func (e *Engine) link(set *policy.Set, before *Engine) *policy.Set {
	known := map[*policy.Library]field.ErrorList{}
	if before != nil && before.minor == e.minor {
		set, known = set.Link(before.shared.linked), before.shared.errs
	} else {
		set = set.Link(nil)
	}
	e.shared.linked, e.shared.errs = set, map[*policy.Library]field.ErrorList{}
	byName := func(a, b *policy.Library) int { return strings.Compare(a.Name, b.Name) }
	for _, l := range slices.SortedFunc(slices.Values(set.Libraries), byName) {
		errs, checked := known[l]
		if !checked {
			errs = compile.Library(e.envs, l)
		}
		e.shared.errs[l] = errs
		if len(errs) > 0 {
			e.rejected = append(e.rejected, Rejection{l.APIVersion, l.Ref(), l.Ref().Invalid(errs), l.Position})
		}
	}
	return set
}

// Failing returns the policies in force that fail for every request that they match, because an imported library does
// not exist, is not valid, or no longer has a part that they use.
func (e *Engine) Failing() []Rejection { return e.failing }

// linkPolicy links a newly written policy with the libraries of the engine.
func (e *Engine) linkPolicy(p *policy.Policy) *policy.Policy {
	if len(p.Imports) == 0 {
		return p
	}
	set := policy.Set{Policies: []*policy.Policy{p}, Libraries: e.shared.linked.Libraries}
	return set.Link(nil).Policies[0]
}

// importErrors returns the errors about the imports of a policy.
func (e *Engine) importErrors(p *policy.Policy) field.ErrorList {
	errs := slices.Clone(p.ImportErrors())
	if len(errs) > 0 {
		return errs
	}
	for _, l := range p.Libraries() {
		if wrong := e.shared.errs[l]; len(wrong) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "imports"), l.Name,
				policy.InvalidLibrary+firstProblem(wrong[0])))
		}
	}
	return errs
}

// firstProblem returns an error about a part of a library in one line.
func firstProblem(err *field.Error) string {
	if problems := wording.Problems(err.Detail); len(problems) > 0 {
		return err.Field + ": " + problems[0].Message
	}
	return err.Error()
}

// isOfImports reports whether an error is about the imports of a policy or a library.
func isOfImports(err error) bool {
	var wrong *field.Error
	return errors.As(err, &wrong) && strings.HasPrefix(wrong.Field, "spec.imports")
}

// LibraryErrors returns the errors of a library that is being written to the engine's cluster.
func (e *Engine) LibraryErrors(l *policy.Library) field.ErrorList {
	others := map[string]*policy.Library{}
	for _, other := range e.shared.linked.Libraries {
		others[other.Name] = other
	}
	others[l.Name] = l
	set := policy.Set{Libraries: slices.Collect(maps.Values(others))}
	for _, made := range set.Link(nil).Libraries {
		if made.Name == l.Name {
			return compile.Library(e.envs, made)
		}
	}
	return nil
}
