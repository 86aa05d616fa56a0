package policy

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/inline"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/spell"
)

// linked is what a policy has of libraries.
type linked struct {
	of      *Policy    // as it was written
	imports []*Library // of the names in Imports; nil where there is none
	errs    field.ErrorList
}

// linkedLibrary is what a library has of others, and what others have of it.
type linkedLibrary struct {
	of      *Library // as it was written
	imports []*Library
	errs    field.ErrorList // about imports
	members map[string]inline.Member
	scopes  map[string][]scope.Steps // by their full names
}

// linkErrors is what is wrong with the imports of the library.
func (l *Library) linkErrors() field.ErrorList {
	if l.linked == nil {
		return nil
	}
	return l.linked.errs
}

// Source is the policy as it was before a [Linker] linked it.
func (p *Policy) Source() *Policy {
	if p.linked != nil && p.linked.of != nil {
		return p.linked.of
	}
	return p
}

// Source is as [Policy.Source].
func (l *Library) Source() *Library {
	if l.linked != nil {
		return l.linked.of
	}
	return l
}

// ImportErrors returns why a policy cannot be evaluated: libraries that it imports are not there, or are not valid.
func (p *Policy) ImportErrors() field.ErrorList {
	switch {
	case len(p.Imports) == 0:
		return nil
	case p.linked == nil:
		return field.ErrorList{field.NotFound(field.NewPath("spec", "imports").Index(0), p.Imports[0])}
	}
	return p.linked.errs
}

// Libraries returns the libraries that a linked policy imports, and those that these do, each behind those that it
// imports.
func (p *Policy) Libraries() []*Library {
	if p.linked == nil {
		return nil
	}
	return closure(p.linked.imports)
}

// Libraries is as [Policy.Libraries].
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

// A Linker puts what policies import of libraries in the place of what names it. What it has linked, and finds again
// with the same libraries, is the same value again. The zero Linker is ready for use, by one goroutine at a time.
type Linker struct {
	policies  map[*Policy]*Policy // by what was written
	libraries map[*Library]*Library
}

// Link returns a set whose policies and libraries are linked with the libraries of the set. What is wrong with them is
// among the errors of [ValidateLibrary] and [ValidatePolicy].
func (k *Linker) Link(set *Set) *Set {
	out := &Set{Bindings: set.Bindings}
	in := linking{before: k, given: map[string]*Library{}, made: map[string]*Library{}}
	for _, l := range set.Libraries {
		in.given[l.Name] = l
	}
	libraries := map[*Library]*Library{}
	for _, l := range set.Libraries {
		of := in.library(l.Name)
		libraries[of.Source()] = of
		out.Libraries = append(out.Libraries, of)
	}
	policies := map[*Policy]*Policy{}
	for _, p := range set.Policies {
		if len(p.Imports) > 0 {
			p = in.policy(p)
			policies[p.Source()] = p
		}
		out.Policies = append(out.Policies, p)
	}
	k.policies, k.libraries = policies, libraries
	return out
}

// A linking is one call of Link.
type linking struct {
	before *Linker
	given  map[string]*Library
	made   map[string]*Library
	open   []string // the libraries that are being linked, each imported by the one before
}

// library returns a library that is linked; nil if there is none of the name.
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
	l := in.before.libraries[given.Source()]
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

// InvalidLibrary begins what is said of an import that is not valid.
const InvalidLibrary = "the library is not valid: "

// imports returns the libraries of some names.
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

// policy returns a linked policy.
func (in *linking) policy(given *Policy) *Policy {
	imports, errs := in.imports(given.Imports)
	written := given.Source()
	for _, p := range []*Policy{given, in.before.policies[written]} {
		if p != nil && p.linked != nil && sameErrors(p.linked.errs, errs) && slices.Equal(p.linked.imports, imports) {
			return p
		}
	}
	p := *written
	p.Stored, p.Static = given.Stored, given.Static
	p.MatchConditions, p.Validations = slices.Clone(p.MatchConditions), slices.Clone(p.Validations)
	p.AuditAnnotations, p.Mutations = slices.Clone(p.AuditAnnotations), slices.Clone(p.Mutations)
	p.Variables = slices.Clone(p.Variables)
	p.linked = &linked{of: written, imports: imports, errs: errs}
	p.link(imports)
	return &p
}

func sameErrors(a, b field.ErrorList) bool {
	return slices.EqualFunc(a, b, func(a, b *field.Error) bool { return a.Error() == b.Error() })
}

// Why expressions name no variables.
const (
	inConditions = "match conditions see none"
	inFunctions  = "a function sees its arguments alone"
)

// link puts what the expressions and scopes of p name of libraries in its place, and the variables that they use before
// those of p.
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
		in(&p.AuditAnnotations[i].ValueExpr, "")
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

// usedVariables returns those variables of libraries, each behind those that they import, that are used, and those that
// these use.
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

// variableName is what a policy that uses a variable of a library calls it, as a member of variables. No name of a
// library has an underscore.
func variableName(library, name string) string { return library + "_" + name }

// link puts into e what it names of libraries.
func (e *Expr) link(known inline.Libraries, without string) {
	e.inlined, e.unresolved = inline.Expand(e.Src, known, without)
}

// linkLibrary returns a library with what others can use of it.
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

// functionOrder links functions, each behind those that it calls.
type functionOrder struct {
	library *Library
	known   inline.Libraries
	state   []bool   // by index: begun
	open    []string // the functions that are being linked, each called by the one before
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
			f.Expr.unresolved = &inline.Error{At: called[name], Text: "a function must not call itself: " + strings.Join(names, " → ")}
			return
		}
		if j := slices.IndexFunc(o.library.Functions, func(f Function) bool { return f.Name == name }); j >= 0 {
			o.link(j)
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

// conversion is the function of CEL that makes a value one of a type; empty for types that have none.
func conversion(typ string) string {
	if t, ok := ParseType(typ); ok && len(t.Of) == 0 && t.Name != "dyn" {
		return t.Name
	}
	return ""
}

// Problem is what of a library x names that is not there, or cannot be named so, with the byte of Src where it does;
// empty if there is nothing.
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

// checkLinks refuses what of a policy is called as something of a library is.
func (v *validator) checkLinks(p *Policy, spec *field.Path) {
	v.imports(p.Imports, spec.Child("imports"), p.ImportErrors())
	if len(p.ImportErrors()) > 0 {
		v.compile = nil // what the libraries have is not known
	}
	theirs := map[string]string{}
	i := 0
	for _, x := range p.Variables {
		if x.Library != "" {
			theirs[x.Name] = x.Full()
			continue
		}
		if of, taken := theirs[x.Name]; taken {
			v.add(field.Invalid(spec.Child("variables").Index(i).Child("name"), x.Name, "the variable "+of+" is called so"))
		}
		i++
	}
	for i, m := range p.Mutations {
		if slices.Contains(p.Imports, m.ForEach.Name) {
			v.add(field.Invalid(spec.Child("mutations").Index(i).Child("forEach", "name"), m.ForEach.Name,
				"a library that is imported is called so"))
		}
	}
}

// libraryVariable refuses a variable of a library that has no meaning in the policy: one of params in a policy without.
func (v *validator) libraryVariable(x NamedExpr) {
	if v.compile == nil {
		return
	}
	if err := v.compile(Part{Expr: x.Expr, Use: UseVariable, Name: x.Name}); err != nil {
		v.add(&field.Error{Type: err.Type, Field: "spec.imports", BadValue: x.Full(), Detail: err.Detail})
	}
}

// Full is what expressions call a variable: variables.NAME, or LIBRARY.NAME.
func (x NamedExpr) Full() string {
	if x.Library == "" {
		return "variables." + x.Name
	}
	return x.Library + "." + strings.TrimPrefix(x.Name, x.Library+"_")
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
