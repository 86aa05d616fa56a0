package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/inline"
	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/wording"
)

// linked is the linked form of a policy.
type linked struct {
	of      *Policy    // the policy as written
	imports []*Library // in the order of Imports; nil for a missing one
	errs    field.ErrorList
}

// linkedLibrary is the linked form of a library.
type linkedLibrary struct {
	of      *Library // the library as written
	imports []*Library
	errs    field.ErrorList // about imports
	members map[string]inline.Member
	scopes  map[string][]scope.Steps // by full name
}

// linkErrors returns the errors about the imports of the library.
func (l *Library) linkErrors() field.ErrorList {
	if l.linked == nil {
		return nil
	}
	return l.linked.errs
}

// Source returns the policy before [Set.Link] linked it.
func (p *Policy) Source() *Policy {
	if p.linked != nil && p.linked.of != nil {
		return p.linked.of
	}
	return p
}

// Source is like [Policy.Source].
func (l *Library) Source() *Library {
	if l.linked != nil {
		return l.linked.of
	}
	return l
}

// ImportErrors returns errors about imported libraries that do not exist or are not valid, so that the policy cannot be
// evaluated.
func (p *Policy) ImportErrors() field.ErrorList {
	switch {
	case len(p.Imports) == 0:
		return nil
	case p.linked == nil:
		return field.ErrorList{field.NotFound(field.NewPath("spec", "imports").Index(0), p.Imports[0])}
	}
	return p.linked.errs
}

// Libraries returns the direct and indirect imports of a linked policy, each after its own imports.
func (p *Policy) Libraries() []*Library {
	if p.linked == nil {
		return nil
	}
	return closure(p.linked.imports)
}

// Libraries is like [Policy.Libraries].
func (l *Library) Libraries() []*Library {
	if l.linked == nil {
		return nil
	}
	return closure(l.linked.imports)
}

func closure(imports []*Library) (all []*Library) {
	for _, l := range imports {
		if l == nil || slices.Contains(all, l) {
			continue
		}
		for _, of := range closure(l.linked.imports) {
			if !slices.Contains(all, of) {
				all = append(all, of)
			}
		}
		all = append(all, l)
	}
	return all
}

// Link returns a set in which the parts of libraries that policies and libraries use are inlined, and abstract policies
// have the resource rules of their bindings. [ValidateLibrary] and [ValidatePolicy] report errors of imports. before is
// a linked set, or nil: policies and libraries with the same text and imports are reused as the same values.
func (s *Set) Link(before *Set) *Set {
	out := &Set{Bindings: s.Bindings}
	in := linking{policies: map[*Policy]*Policy{}, libraries: map[*Library]*Library{}, given: map[string]*Library{},
		made: map[string]*Library{}}
	if before != nil {
		in.remember(before)
	}
	for _, l := range s.Libraries {
		in.given[l.Name] = l
	}
	for _, l := range s.Libraries {
		out.Libraries = append(out.Libraries, in.library(l.Name))
	}
	for _, p := range s.Policies {
		if len(p.Imports) > 0 || p.Abstract {
			p = in.policy(p, s)
		}
		out.Policies = append(out.Policies, p)
	}
	return out
}

// A linking is one call of Link.
type linking struct {
	policies  map[*Policy]*Policy   // linked before, by the policy as written
	libraries map[*Library]*Library // likewise
	given     map[string]*Library
	made      map[string]*Library
	open      []string // the libraries being linked, each imported by the one before
}

// remember records the results of an earlier call.
func (in *linking) remember(before *Set) {
	for _, p := range before.Policies {
		if p.linked != nil {
			in.policies[p.Source()] = p
		}
	}
	for _, l := range before.Libraries {
		in.libraries[l.Source()] = l
	}
}

// library returns a linked library; nil if it does not exist.
func (in *linking) library(name string) *Library {
	given := in.given[name]
	if made := in.made[name]; made != nil || given == nil {
		return made
	}
	in.open = append(in.open, name)
	imports, errs := in.imports(given.Imports)
	in.open = in.open[:len(in.open)-1]
	same := func(l *Library) bool {
		return l != nil && l.linked != nil && sameErrors(l.linked.errs, errs) &&
			slices.Equal(l.linked.imports, imports)
	}
	l := in.libraries[given.Source()]
	switch {
	case same(given):
		l = given
	case !same(l):
		l = linkLibrary(given.Source(), imports, errs)
		l.Stored = given.Stored
	}
	in.made[name] = l
	return l
}

// InvalidLibrary is the prefix of errors about an import that is not valid.
const InvalidLibrary = "the library is not valid: "

// MissesImport reports whether an error is about an imported library that does not exist or is not valid.
func MissesImport(err *field.Error) bool {
	return strings.HasPrefix(err.Field, "spec.imports") && (err.Type == field.ErrorTypeNotFound ||
		err.Type == field.ErrorTypeInvalid && strings.HasPrefix(err.Detail, InvalidLibrary))
}

// imports returns the libraries with the given names.
func (in *linking) imports(names []string) (all []*Library, errs field.ErrorList) {
	for i, name := range names {
		at := field.NewPath("spec", "imports").Index(i)
		if j := slices.Index(in.open, name); j >= 0 {
			errs = append(errs, field.Invalid(at, name, "cycle "+strings.Join(append(slices.Clone(in.open[j:]), name), " → ")))
			all = append(all, nil)
			continue
		}
		l := in.library(name)
		all = append(all, l)
		switch {
		case l == nil:
			err := field.NotFound(at, name)
			if near := spell.Nearest(name, slices.Sorted(maps.Keys(in.given)), max(1, len(name)/3)); near != "" {
				err.Detail = "did you mean " + near + "?"
			}
			errs = append(errs, err)
		case len(l.linked.errs) > 0:
			errs = append(errs, field.Invalid(at, name, InvalidLibrary+l.linked.errs[0].Error()))
		}
	}
	return all, errs
}

// policy returns a linked policy of a set.
func (in *linking) policy(given *Policy, set *Set) *Policy {
	imports, errs := in.imports(given.Imports)
	written := given.Source()
	complete := set.Complete(written)
	for _, p := range []*Policy{given, in.policies[written]} {
		if p != nil && p.linked != nil && sameErrors(p.linked.errs, errs) && slices.Equal(p.linked.imports, imports) &&
			(!p.Abstract || reflect.DeepEqual(p.MatchConstraints, complete.MatchConstraints)) {
			return p
		}
	}
	p := *complete
	p.Stored, p.Static = given.Stored, given.Static
	p.MatchConditions, p.Validations = slices.Clone(p.MatchConditions), slices.Clone(p.Validations)
	p.AuditAnnotations, p.Mutations = slices.Clone(p.AuditAnnotations), slices.Clone(p.Mutations)
	p.Variables = slices.Clone(p.Variables)
	p.linked = &linked{of: written, imports: imports, errs: errs}
	if len(p.Imports) > 0 {
		p.link(imports)
	}
	return &p
}

// MeantImport names the library that expressions of p probably meant by an undeclared name, from the given libraries;
// empty if the name does not belong to one that p does not import.
func (p *Policy) MeantImport(name string, libraries []*Library) string {
	for _, l := range libraries {
		if l.Name == name && !slices.Contains(p.Imports, name) {
			return "add " + name + " to spec.imports"
		}
	}
	return ""
}

// MeantScope suggests the scope that was probably meant by the text of a path, from the given libraries; empty without
// a suggestion. named: the text is the name of a scope of a library that p does not import.
func (p *Policy) MeantScope(text string, libraries []*Library) (meant string, named bool) {
	names, of := scope.BuiltinNames(), map[string]string{}
	for _, l := range libraries {
		for _, s := range l.Scopes {
			name := l.Name + "." + s.Name
			names, of[name] = append(names, name), l.Name
		}
	}
	near := spell.Nearest(text, names, len(text)/4)
	library := of[near]
	missing := library != "" && !slices.Contains(p.Imports, library)
	switch {
	case near == "" || near == text && !missing:
		return "", false
	case near == text:
		return "add " + library + " to spec.imports", true
	case missing:
		return fmt.Sprintf("did you mean %s, with %s in spec.imports?", near, library), false
	}
	return "did you mean " + near + "?", false
}

func sameErrors(a, b field.ErrorList) bool {
	return slices.EqualFunc(a, b, func(a, b *field.Error) bool { return a.Error() == b.Error() })
}

// Reasons why expressions cannot use variables of libraries.
const (
	inConditions = "match conditions cannot use variables"
	inFunctions  = "a function can only use its parameters"
)

// link inlines the parts of libraries in the expressions and scopes of p, and puts the library variables that they use
// before those of p.
func (p *Policy) link(imports []*Library) {
	known, scopes := builtins(), map[string]map[string][]scope.Steps{}
	for _, l := range imports {
		if l != nil {
			known[l.Name], scopes[l.Name] = l.linked.members, l.linked.scopes
		}
	}
	uses := map[string]bool{}
	in := func(x *Expr, without string) {
		x.link(known, without)
		if x.inlined != nil {
			for _, name := range x.inlined.Uses {
				uses[name] = true
			}
		}
	}
	named := func(written Expr, read **scope.Scope) {
		library, _, _ := strings.Cut(written.Src, ".")
		if of, ok := scopes[library]; ok {
			s := scope.FindNamed(written.Src, of)
			*read = &s
		}
	}
	for i := range p.MatchConditions {
		in(&p.MatchConditions[i].Expr, inConditions)
	}
	for i := range p.Variables {
		in(&p.Variables[i].Expr, "")
	}
	for i := range p.Validations {
		x := &p.Validations[i]
		named(x.Scope, &x.within)
		in(&x.Expr, "")
		in(&x.MessageExpr, "")
	}
	for i := range p.AuditAnnotations {
		in(&p.AuditAnnotations[i].Expr, "")
	}
	for i := range p.Mutations {
		m := &p.Mutations[i]
		named(m.Scope, &m.within)
		for _, x := range []*Expr{&m.Expr, &m.Condition, &m.MessageExpr, &m.ForEach.Expr, &m.AtEnd} {
			in(x, "")
		}
	}
	p.Variables = append(usedVariables(closure(imports), uses), p.Variables...)
}

// usedVariables returns the used variables of libraries, and those that these use, each after its dependencies.
func usedVariables(libraries []*Library, uses map[string]bool) (all []NamedExpr) {
	for _, l := range slices.Backward(libraries) {
		for _, v := range slices.Backward(l.SharedVariables()) {
			if !uses[v.Full()] {
				continue
			}
			if v.Expr.inlined != nil {
				for _, name := range v.Expr.inlined.Uses {
					uses[name] = true
				}
			}
			all = append(all, v)
		}
	}
	slices.Reverse(all)
	return all
}

// SharedVariables returns the variables of a library as those of a policy that uses them.
func (l *Library) SharedVariables() []NamedExpr {
	all := slices.Clone(l.Variables)
	for i := range all {
		v := &all[i]
		v.Library, v.Name = l.Name, variableName(l.Name, v.Name)
		v.Expr.Field = l.Ref().String() + ": " + v.Expr.Field
	}
	return all
}

// variableName returns the name of a library variable as a member of variables. Names of libraries do not contain
// underscores.
func variableName(library, name string) string { return library + "_" + name }

// link inlines the parts of libraries in e.
func (e *Expr) link(known inline.Libraries, without string) {
	e.inlined, e.unresolved = inline.Expand(e.Src, known, without)
}

// linkLibrary returns a library with the parts that others can use.
func linkLibrary(written *Library, imports []*Library, errs field.ErrorList) *Library {
	l := *written
	l.Variables, l.Functions = slices.Clone(l.Variables), slices.Clone(l.Functions)
	l.linked = &linkedLibrary{of: written, imports: imports, errs: errs, members: map[string]inline.Member{},
		scopes: map[string][]scope.Steps{}}
	known := builtins()
	for _, other := range imports {
		if other != nil {
			known[other.Name] = other.linked.members
		}
	}
	known[l.Name] = l.linked.members
	for _, v := range l.Variables {
		l.linked.members[v.Name] = inline.Member{Variable: variableName(l.Name, v.Name)}
	}
	order := functionOrder{library: &l, known: known, state: make([]bool, len(l.Functions))}
	for i := range l.Functions {
		order.link(i)
	}
	for i := range l.Variables {
		l.Variables[i].Expr.link(known, "")
	}
	for _, s := range l.Scopes {
		var paths []scope.Steps
		for _, x := range s.Paths {
			of := scope.Parse(x.Src)
			paths = append(paths, of.Paths...)
		}
		l.linked.scopes[l.Name+"."+s.Name] = paths
	}
	return &l
}

// Prefixes of errors about functions whose callers have the same error.
const (
	callsItself  = "a function must not call itself: "
	callsInvalid = "it calls "
)

// functionOrder links functions, each after those that it calls.
type functionOrder struct {
	library *Library
	known   inline.Libraries
	state   []bool   // by index: whether it was begun
	open    []string // the functions being linked, each called by the one before
}

func (o *functionOrder) link(i int) {
	if o.state[i] {
		return
	}
	o.state[i] = true
	f := &o.library.Functions[i]
	o.open = append(o.open, f.Name)
	defer func() { o.open = o.open[:len(o.open)-1] }()
	called := inline.NamesOf(f.Expr.Src, o.library.Name)
	for _, name := range slices.SortedFunc(maps.Keys(called), func(a, b string) int { return called[a] - called[b] }) {
		if j := slices.Index(o.open, name); j >= 0 {
			names := append(slices.Clone(o.open[j:]), name)
			for k := range names {
				names[k] = o.library.Name + "." + names[k]
			}
			f.Expr.unresolved = &inline.Error{At: called[name], Text: callsItself + strings.Join(names, " → ")}
			return
		}
		if j := slices.IndexFunc(o.library.Functions, func(f Function) bool { return f.Name == name }); j >= 0 {
			o.link(j)
			if wrong := o.library.Functions[j].Expr.unresolved; wrong != nil {
				text := wrong.Text
				if !strings.HasPrefix(text, callsItself) && !strings.HasPrefix(text, callsInvalid) {
					text = callsInvalid + o.library.Name + "." + name + ", which is not valid: " + text
				}
				f.Expr.unresolved = &inline.Error{At: called[name], Text: text}
				return
			}
		}
	}
	f.Expr.link(o.known, inFunctions)
	member := inline.Member{Body: inline.Body(f.Expr.Code()), Gives: conversion(f.Type)}
	for _, p := range f.Params {
		member.Params, member.Takes = append(member.Params, p.Name), append(member.Takes, conversion(p.Type))
	}
	if _, taken := o.library.linked.members[f.Name]; !taken {
		o.library.linked.members[f.Name] = member
	}
}

// conversion returns the CEL function that converts a value to a type; empty for types without one.
func conversion(typ string) string {
	if t, ok := inline.ParseType(typ); ok && len(t.Of) == 0 && t.Name != "dyn" {
		return t.Name
	}
	return ""
}

// Problem returns the first library name in x that does not exist or cannot be used there, with its offset in Src;
// empty if there is none.
func (e Expr) Problem() (at int, text string) {
	if e.unresolved == nil {
		return 0, ""
	}
	return e.unresolved.At, e.unresolved.Text
}

// trim returns e without the white space around it.
func (e Expr) trim() Expr {
	src := strings.TrimLeftFunc(e.Src, unicode.IsSpace)
	lead := len(e.Src) - len(src)
	e.Src = strings.TrimSpace(src)
	if e.inlined != nil {
		e.inlined = e.inlined.Trim(lead)
	}
	if e.unresolved != nil {
		e.unresolved = &inline.Error{At: max(e.unresolved.At-lead, 0), Text: e.unresolved.Text}
	}
	return e
}

// checkLinks refuses names in a policy that conflict with names of its libraries.
func (v *validator) checkLinks(p *Policy, spec *field.Path) {
	v.imports(p.Imports, spec.Child("imports"), p.ImportErrors())
	if len(p.ImportErrors()) > 0 {
		v.compile = nil // the members of the libraries are not known
	}
	theirs := map[string]string{}
	i := 0
	for _, x := range p.Variables {
		if x.Library != "" {
			theirs[x.Name] = x.Full()
			continue
		}
		if of, taken := theirs[x.Name]; taken {
			v.add(field.Invalid(spec.Child("variables").Index(i).Child("name"), x.Name, "is also the name of the variable "+of))
		}
		i++
	}
	for i, m := range p.Mutations {
		if slices.Contains(p.Imports, m.ForEach.Name) {
			v.add(field.Invalid(spec.Child("mutations").Index(i).Child("forEach", "name"), m.ForEach.Name,
				"is also the name of an imported library"))
		}
	}
}

// libraryVariable refuses a library variable that cannot be evaluated in the policy, such as one of params in a policy
// without.
func (v *validator) libraryVariable(x NamedExpr) {
	if v.compile == nil {
		return
	}
	if err := v.compile(Part{Expr: x.Expr, Use: UseVariable, Name: x.Name}); err != nil {
		detail := err.Detail
		if problems := wording.Problems(detail); len(problems) > 0 { // its positions are in the library
			detail = problems[0].Message
		}
		v.add(&field.Error{Type: err.Type, Field: "spec.imports", BadValue: x.Full(), Detail: detail})
	}
}

// Full returns the name of a variable in expressions: variables.NAME, or LIBRARY.NAME.
func (x NamedExpr) Full() string {
	if x.Library == "" {
		return "variables." + x.Name
	}
	return x.Library + "." + strings.TrimPrefix(x.Name, x.Library+"_")
}

// FullName returns the name of a variable of the policy in expressions, given its name as a member of variables: see
// [NamedExpr.Full].
func (p *Policy) FullName(variable string) string {
	for _, x := range p.Variables {
		if x.Library != "" && x.Name == variable {
			return x.Full()
		}
	}
	return "variables." + variable
}

var variableReference = pattern.New(`\bvariables\.\w+`)

// ShowVariables returns a text about expressions with the names that authors use for variables of libraries.
func (p *Policy) ShowVariables(text string) string {
	if len(p.Imports) == 0 {
		return text
	}
	return variableReference().ReplaceAllStringFunc(text, func(name string) string {
		return p.FullName(strings.TrimPrefix(name, "variables."))
	})
}

// builtins are the libraries that every policy and library of the dialect may use.
func builtins() inline.Libraries { return inline.Libraries{"selectors": selectors} }

var selectors = map[string]inline.Member{"matches": {
	Params: []string{"labels", "selector"},
	Body: strings.Join(strings.Fields(`
		dyn(selector).?matchLabels.orValue({}).all(key, key in labels && labels[key] == dyn(selector).matchLabels[key]) &&
		dyn(selector).?matchExpressions.orValue([]).all(term,
			term.operator == "In" ? term.key in labels && labels[term.key] in term.values :
			term.operator == "NotIn" ? !(term.key in labels && labels[term.key] in term.values) :
			term.operator == "Exists" ? term.key in labels :
			term.operator == "DoesNotExist" ? !(term.key in labels) : {"": false}[term.operator])`), " "),
}}
