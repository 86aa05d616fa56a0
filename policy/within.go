package policy

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/scope"
)

// ParsedScope returns the parsed scope of the mutation.
func (m *Mutation) ParsedScope() *scope.Scope { return parsedScope(m.within, m.Scope) }

// ParsedScope returns the parsed scope of the validation.
func (x *Validation) ParsedScope() *scope.Scope { return parsedScope(x.within, x.Scope) }

// Scopes returns the scopes of the validations and mutations of p, as written and parsed.
func (p *Policy) Scopes() iter.Seq2[Expr, *scope.Scope] {
	return func(yield func(Expr, *scope.Scope) bool) {
		for i := range p.Validations {
			if x := &p.Validations[i]; !x.Scope.IsZero() && !yield(x.Scope, x.ParsedScope()) {
				return
			}
		}
		for i := range p.Mutations {
			if m := &p.Mutations[i]; !m.Scope.IsZero() && !yield(m.Scope, m.ParsedScope()) {
				return
			}
		}
	}
}

func (p *Policy) hasScopes() bool {
	for range p.Scopes() {
		return true
	}
	return false
}

// parsedScope returns the scope read with the policy, or parses it for a policy made by a program.
func parsedScope(read *scope.Scope, written Expr) *scope.Scope {
	switch {
	case read != nil:
		return read
	case written.IsZero():
		return &scope.Scope{}
	}
	s := scope.Parse(written.Src)
	return &s
}

// scope checks a written scope.
func (v *validator) scope(s *scope.Scope, path *field.Path) {
	if err := s.Err(); err != nil {
		v.add(field.Invalid(path, s.Text, err.Error()))
	}
}

// Locals returns the names that only the expressions of this mutation may use, joined by commas.
func (m *Mutation) Locals() string {
	names := localNames(m.ParsedScope(), locals.Item, locals.Key)
	if m.ForEach.Name != "" {
		names = append(names, m.ForEach.Name)
	}
	return locals.Join(names...)
}

// Locals returns the additional names that the expressions of a validation may use, joined by commas.
func (x *Validation) Locals() string {
	return locals.Join(localNames(x.ParsedScope(), locals.Scope, locals.OldScope)...)
}

// localNames returns the names that expressions may use in a scope: those of the values and of their places.
func localNames(s *scope.Scope, values ...string) []string {
	if s.IsZero() {
		return nil
	}
	names := append(values, locals.Path(locals.Whole))
	for _, name := range s.Names() {
		names = append(names, locals.Path(name))
	}
	return names
}
