package typed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A Mode determines the effect of a mistake.
type Mode string

// The modes.
const (
	Enforce Mode = "Enforce" // refused if the mistake applies to all kinds, otherwise a warning
	Warn    Mode = "Warn"
	Off     Mode = "Off" // expressions are not checked against types, as in released policies
)

// A Kind is a kind that a policy matches.
type Kind struct {
	schema.GroupVersionKind
	Type *shape.Type // nil: the type is not known, and nothing is refused
}

// A Complaint describes the mistakes in one expression for one kind.
type Complaint struct {
	policy.Expr
	Kind    schema.GroupVersionKind
	Detail  string // in the words of the server for compile errors, with the position in the text
	Refused bool   // the server must not store the policy
}

// Policy returns the complaints about the variables and mutations of a policy for the kinds that it matches, one for
// each expression and kind. Params is the type of its params, or nil.
func (c *Checker) Policy(p *policy.Policy, kinds []Kind, params *shape.Type, mode Mode) ([]Complaint, error) {
	if mode == Off {
		return nil, nil
	}
	var all []Complaint
	complaints := map[string]int{} // by field
	known := 0
	for _, kind := range kinds {
		if kind.Type == nil {
			continue
		}
		known++
		findings, err := c.Kind(p, kind.Type, params)
		if err != nil {
			return nil, err
		}
		for _, f := range findings {
			if text := f.text(); text != "" {
				complaints[f.Field]++
				all = append(all, Complaint{Expr: f.Expr, Kind: kind.GroupVersionKind, Detail: kind.detail(text)})
			}
		}
	}
	for i := range all {
		all[i].Refused = mode == Enforce && known == len(kinds) && complaints[all[i].Field] == known
	}
	return all, nil
}

// Complaints returns the complaints about expressions that are wrong for every matched kind, whatever the values are,
// one for each expression. It returns none while a kind is not known.
func (c *Checker) Complaints(p *policy.Policy, kinds []Kind, params *shape.Type) ([]Complaint, error) {
	var refused []Complaint
	for i, kind := range kinds {
		if kind.Type == nil {
			return nil, nil
		}
		findings, err := c.Kind(p, kind.Type, params)
		if err != nil {
			return nil, err
		}
		wrong := map[string]bool{} // by field
		for _, f := range findings {
			f.Problems = slices.DeleteFunc(f.Problems, func(p Problem) bool { return p.Doubtful })
			text := f.text()
			if wrong[f.Field] = text != ""; text != "" && i == 0 {
				refused = append(refused, Complaint{Expr: f.Expr, Kind: kind.GroupVersionKind, Refused: true,
					Detail: kind.detail(text)})
			}
		}
		refused = slices.DeleteFunc(refused, func(c Complaint) bool { return !wrong[c.Field] })
		if len(refused) == 0 {
			return nil, nil
		}
	}
	return refused, nil
}

// detail describes the type errors of an expression for a kind in the words of the server for compile errors.
func (k Kind) detail(text string) string {
	return fmt.Sprintf("compilation failed for %s %s: %s", k.GroupVersion(), k.Kind, text)
}

// text describes the type errors of an expression in the format of cel-go for compile errors; empty without errors. It
// leaves out mistakes that are not type errors.
func (f *Finding) text() string {
	source := f.Tree.Source()
	found := common.NewErrors(source)
	add := func(id int64, at common.Location, message string) { found.ReportErrorAtID(id, at, "%s", message) }
	for _, e := range f.Issues {
		if IsTelling(e.Message) {
			add(e.ExprID, e.Location, e.Message)
		}
	}
	problems := slices.DeleteFunc(slices.Clone(f.Problems),
		func(p Problem) bool { return p.Class == AtomicValue || p.Class == MissingKey })
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), strings.Compare(a.Message, b.Message))
	})
	info := f.Tree.NativeRep().SourceInfo()
	for _, p := range problems {
		message := p.Message
		if p.Suggestion != "" {
			message += " (" + p.Suggestion + ")"
		}
		add(p.ID, info.GetStartLocation(p.ID), message)
	}
	if len(found.GetErrors()) == 0 {
		return ""
	}
	return celenv.Quote(cel.NewIssues(found), f.Src)
}

// IsTelling reports a message of cel-go about types that is true whatever the values are. Objects of different types
// may be compared and mixed, because objects do not have types at run time.
func IsTelling(message string) bool {
	said := wording.Read(message)
	return said.Kind == wording.UndefinedField || said.Kind == wording.NoOverload &&
		!strings.ContainsAny(said.Got, "./@$") && !strings.Contains(said.Got, objectName)
}
