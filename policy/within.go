package policy

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/scope"
)

// ParsedScope is what the scope of a mutation means.
func (m *Mutation) ParsedScope() *scope.Scope { return parsedScope(m.within, m.Scope) }

// ParsedScope is what the scope of a validation means.
func (x *Validation) ParsedScope() *scope.Scope { return parsedScope(x.within, x.Scope) }

// parsedScope returns a scope that was read, or reads it: that of a policy which a program has made.
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

// scope checks a scope that was written.
func (v *validator) scope(s *scope.Scope, path *field.Path) {
	if err := s.Err(); err != nil {
		v.add(field.Invalid(path, s.Text, err.Error()))
	}
}

// Locals are the names that the expressions of a mutation may use beside those that all may use, joined by commas.
func (m *Mutation) Locals() string {
	names := localNames(m.ParsedScope(), locals.Item, locals.Key)
	if m.ForEach.Name != "" {
		names = append(names, m.ForEach.Name)
	}
	return locals.Join(names...)
}

// Locals are the names that the expressions of a validation may use beside those that all may use, joined by commas.
func (x *Validation) Locals() string {
	return locals.Join(localNames(x.ParsedScope(), locals.Scope, locals.OldScope)...)
}

// localNames returns the names that expressions have in a scope: those of the values and those of their places.
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
