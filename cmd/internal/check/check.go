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
	Field      string // the field path in the server's notation, such as "spec.validations[0].expression"
	Position   policy.Position

	// Expr is the faulty expression and From..To the faulty bytes of its text; zero if the problem is elsewhere.
	Expr     policy.Expr
	From, To int

	// Server returns the warning that the API server will write to status.typeChecking; nil if there is none.
	Server func() string

	// Example shows the problem on a generated object, line by line; nil if policies were not evaluated for it.
	Example []string

	// Fix is a change of the author's text that solves the problem and changes nothing else; nil if none is certain.
	Fix *Fix

	// Ignored is the reason of the annotation that suppresses the diagnostic; empty if it is reported.
	Ignored string
}

// A Fix changes one policy or binding.
type Fix struct {
	// Edits are changes of the text of the expression of the diagnostic.
	Edits []Edit
	// Object changes the object that was read from the file; nil if Edits are the whole fix.
	Object func(map[string]any)
}

// An Edit replaces the bytes From..To of an expression.
type Edit struct {
	From, To int
	New      string
}

// An Analyzer finds one kind of problem.
type Analyzer struct {
	Code     string // such as "CG101"; it never changes its meaning
	Name     string
	Severity Severity // the default severity of its diagnostics
	Title    string   // one line
	Text     string   // an explanation: the problem, its cause, the behaviour of the server
	Before   string   // an example with the problem
	After    string   // the example without it
	run      func(*pass)
}

// Analyzers returns all analyzers, by code.
func Analyzers() []*Analyzer {
	all := slices.Concat(writeTime, references, libraries, types, mutations, traps, interplay, reach, costs, loops,
		proved)
	slices.SortFunc(all, func(a, b *Analyzer) int { return strings.Compare(a.Code, b.Code) })
	return all
}

// ServerWarnings returns the analyzer whose diagnostics are what the API server writes into status.typeChecking.
func ServerWarnings() *Analyzer { return types[0] }

// An Input holds the policies and bindings to check, and the cluster around them.
type Input struct {
	Set         *policy.Set
	Types       *schema.Registry
	KubeVersion string // a minor such as "1.37"

	// State holds objects of the cluster as they are written, for example params. Other objects may exist too.
	State []map[string]any

	Sizes policy.Limits // the limits of a webhook; the zero value is unlimited

	// Prove changes diagnostics by proofs: it adds some, adds examples, and removes those that are proved wrong. nil:
	// nothing is proved.
	Prove func(context.Context, []Diagnostic) ([]Diagnostic, error)
}

// Run returns the diagnostics of the analyzers, in the order of files and lines. It returns an error if the input
// cannot be analysed or the context ends.
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
	if in.Prove != nil {
		if all, err = in.Prove(ctx, all); err != nil {
			return nil, err
		}
	}
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

// A pass is one run of an analyzer.
type pass struct {
	*subject
	analyzer *Analyzer
	found    []Diagnostic
}

// report adds a diagnostic, with the analyzer's code and default severity.
func (p *pass) report(d Diagnostic) {
	d.Code = p.analyzer.Code
	d.Severity = cmp.Or(d.Severity, p.analyzer.Severity)
	p.found = append(p.found, d)
}

// fix adds a change of the object to the last diagnostic.
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

// reportLibrary reports a problem at a field of a library.
func (p *pass) reportLibrary(l *policy.Library, path, suggestion, format string, args ...any) {
	p.report(Diagnostic{
		Message: fmt.Sprintf(format, args...), Suggestion: suggestion, Ref: l.Ref(), Field: path,
		Position: l.Locate(&field.Error{Field: path}),
	})
}

// NewDiagnostic returns a diagnostic of the analyzer with a code about the bytes from..to of an expression.
func NewDiagnostic(code string, pol *policy.Policy, e policy.Expr, from, to int) Diagnostic {
	d := diagnosticIn(pol, e, from, to)
	d.Code = code
	for _, a := range Analyzers() {
		if a.Code == code {
			d.Severity = a.Severity
		}
	}
	return d
}

// diagnosticIn returns a diagnostic about the bytes from..to of an expression.
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
