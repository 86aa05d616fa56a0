package celgate

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/policy"
)

// link returns a set that is linked, and rejects the libraries that are none. What before has linked and checked is
// taken over.
func (e *Engine) link(set *policy.Set, before *Engine) *policy.Set {
	known := map[*policy.Library]field.ErrorList{}
	if before != nil && before.minor == e.minor {
		e.shared.linker, known = before.shared.linker, before.shared.errs
	}
	set = e.shared.linker.Link(set)
	e.shared.all, e.shared.errs = set.Libraries, map[*policy.Library]field.ErrorList{}
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

// Failing returns the policies in force that are errors for every request that they match, because a library that they
// import is not there or is not valid, or no longer has what they use of it.
func (e *Engine) Failing() []Rejection { return e.failing }

// linkPolicy returns a policy that is written with the libraries of the engine.
func (e *Engine) linkPolicy(p *policy.Policy) *policy.Policy {
	if len(p.Imports) == 0 {
		return p
	}
	var linker policy.Linker
	return linker.Link(&policy.Set{Policies: []*policy.Policy{p}, Libraries: e.shared.all}).Policies[0]
}

// importErrors returns why what a policy imports cannot be used.
func (e *Engine) importErrors(p *policy.Policy) field.ErrorList {
	errs := slices.Clone(p.ImportErrors())
	if len(errs) > 0 {
		return errs
	}
	for _, l := range p.Libraries() {
		if wrong := e.shared.errs[l]; len(wrong) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "imports"), l.Name,
				policy.InvalidLibrary+wrong[0].Error()))
		}
	}
	return errs
}

// isOfImports reports an error about what a policy or a library imports.
func isOfImports(err error) bool {
	var wrong *field.Error
	return errors.As(err, &wrong) && strings.HasPrefix(wrong.Field, "spec.imports")
}

// MissesImport reports an error about a library that is imported and is not there, or is not valid.
func MissesImport(err *field.Error) bool {
	return isOfImports(err) && (err.Type == field.ErrorTypeNotFound ||
		err.Type == field.ErrorTypeInvalid && strings.HasPrefix(err.Detail, policy.InvalidLibrary))
}

// LibraryErrors returns what is wrong with a library that is written to the cluster of the engine.
func (e *Engine) LibraryErrors(l *policy.Library) field.ErrorList {
	others := map[string]*policy.Library{}
	for _, other := range e.shared.all {
		others[other.Name] = other
	}
	others[l.Name] = l
	var linker policy.Linker
	set := linker.Link(&policy.Set{Libraries: slices.Collect(maps.Values(others))})
	for _, made := range set.Libraries {
		if made.Name == l.Name {
			return compile.Library(e.envs, made)
		}
	}
	return nil
}
