// Package check finds mistakes in admission policies without a request.
//
// An [Analyzer] is a value: a code, the text of its reference page, and a function that finds the problem. [Run] gives
// each analyzer the policies, their bindings and the types of the kinds that they match, and returns the [Diagnostic]s
// in the order of the files. There is one file for each subject: the analyzers of a file are in its variable.
package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Severity says how bad a diagnostic is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the policy cannot be stored, or fails when it is used
	Warning Severity = "warning" // it does not do what its author meant, for some requests
	Note    Severity = "note"    // worth knowing; no reason to fail a build
)

// A Diagnostic is one problem, with its place.
type Diagnostic struct {
	Code       string
	Severity   Severity
	Message    string // one sentence without an initial capital and a full stop
	Suggestion string // what to do; empty if there is nothing better than the reference page

	policy.Ref        // of the policy or binding that it is about
	Field      string // the server's field path, such as "spec.validations[0].expression"
	Position   policy.Position

	// Expr is the expression that is to blame and From..To the bytes of its text; zero if none is.
	Expr     policy.Expr
	From, To int

	// Server returns what the API server will write into status.typeChecking about the expression; nil if nothing.
	Server func() string

	// Example shows the problem on an object: what was found by running policies.
	Example []string

	// Fix is a change of the author's text that takes the problem away and nothing else; nil if none is sure.
	Fix *Fix

	// Ignored is the reason that an annotation of the policy gives for not reporting it; empty: it is reported.
	Ignored string
}

// A Fix changes one policy or binding.
type Fix struct {
	// Edits are changes of the text of the expression of the diagnostic.
	Edits []Edit
	// Object changes the object as it is read from the file; nil if the edits are all.
	Object func(map[string]any)
}

// An Edit puts a text in the place of the bytes From..To of an expression.
type Edit struct {
	From, To int
	New      string
}

// An Analyzer finds one kind of problem.
type Analyzer struct {
	Code     string // such as "CG101"; it never changes its meaning
	Name     string
	Severity Severity // of its diagnostics, when they do not say otherwise
	Title    string   // one line
	Text     string   // what is wrong, why, and what the server does
	Before   string   // an example that is reported
	After    string   // and how to write it
	run      func(*pass)
}

// Analyzers returns all analyzers, by code.
func Analyzers() []*Analyzer {
	all := slices.Concat(writeTime, references, types, mutations, traps, interplay, reach, costs, loops)
	slices.SortFunc(all, func(a, b *Analyzer) int { return strings.Compare(a.Code, b.Code) })
	return all
}

// ServerWarnings returns the analyzer whose diagnostics are what the API server writes into status.typeChecking.
func ServerWarnings() *Analyzer { return types[0] }

// An Input is what is checked.
type Input struct {
	Set         *policy.Set
	Types       *schema.Registry
	KubeVersion string // a minor such as "1.37"

	// State are objects that exist in the cluster, such as params, as they are written; those that are not here may
	// exist too.
	State []map[string]any

	Sizes policy.Limits // of a webhook; the zero value: it has none
}

// Run returns what the analyzers find, in the order of files and lines. The error is of an input for which nothing can
// be said, or the end of the context.
func Run(ctx context.Context, in Input, analyzers ...*Analyzer) ([]Diagnostic, error) {
	envs, err := celenv.New(in.KubeVersion, quirks.SetOf(in.KubeVersion))
	if err != nil {
		return nil, err
	}
	shared := newSubject(ctx, in, envs)
	for _, a := range Analyzers() {
		shared.codes[a.Code] = true
	}
	var all []Diagnostic
	for _, a := range analyzers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := &pass{subject: shared, analyzer: a}
		a.run(p)
		all = append(all, p.found...)
	}
	if shared.err != nil {
		return nil, shared.err
	}
	wrong := map[fieldRef]bool{}
	for _, d := range all {
		if d.Severity == Error && d.Code != "CG211" {
			wrong[fieldRef{d.Ref, d.Field}] = true
		}
	}
	all = slices.DeleteFunc(all, func(d Diagnostic) bool { // what was run says no more than what is known of its text
		return d.Code == "CG211" && wrong[fieldRef{d.Ref, d.Field}]
	})
	shared.ignore(all)
	slices.SortStableFunc(all, func(a, b Diagnostic) int {
		return cmp.Or(strings.Compare(a.Position.File, b.Position.File), cmp.Compare(a.Position.Line, b.Position.Line),
			cmp.Compare(a.Position.Column, b.Position.Column), strings.Compare(a.Code, b.Code),
			strings.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(all, func(a, b Diagnostic) bool {
		return a.Code == b.Code && a.Position == b.Position && a.Message == b.Message && a.Field == b.Field
	}), nil
}

// A fieldRef is a field of a policy or binding.
type fieldRef struct {
	policy.Ref
	field string
}

// A pass is one analyzer at work.
type pass struct {
	*subject
	analyzer *Analyzer
	found    []Diagnostic
}

// report adds a diagnostic with what it does not say of itself.
func (p *pass) report(d Diagnostic) {
	d.Code = p.analyzer.Code
	d.Severity = cmp.Or(d.Severity, p.analyzer.Severity)
	p.found = append(p.found, d)
}

// fix adds a change of the object to what was reported last.
func (p *pass) fix(change func(map[string]any)) { p.found[len(p.found)-1].Fix = &Fix{Object: change} }

// reportField reports a problem at a field of a policy.
func (p *pass) reportField(pol *policy.Policy, path, suggestion, format string, args ...any) {
	p.report(Diagnostic{
		Message: fmt.Sprintf(format, args...), Suggestion: suggestion, Ref: pol.Ref(), Field: path,
		Position: pol.Locate(&field.Error{Field: path}),
	})
}

// reportBinding reports a problem at a field of a binding.
func (p *pass) reportBinding(b *policy.Binding, path, suggestion, format string, args ...any) {
	p.report(Diagnostic{
		Message: fmt.Sprintf(format, args...), Suggestion: suggestion, Ref: b.Ref(), Field: path,
		Position: b.Locate(&field.Error{Field: path}),
	})
}

// diagnosticIn is the diagnostic of the bytes from..to of an expression.
func diagnosticIn(pol *policy.Policy, e policy.Expr, from, to int) Diagnostic {
	return Diagnostic{
		Ref: pol.Ref(), Field: e.Field, Expr: e, From: from, To: to,
		Position: placeIn(pol, e, from),
	}
}

func placeIn(pol *policy.Policy, e policy.Expr, offset int) policy.Position {
	if at := e.Locate(offset); at.IsValid() {
		return at
	}
	return pol.Locate(&field.Error{Field: e.Field})
}
