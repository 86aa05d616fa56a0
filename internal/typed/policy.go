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

// A Mode says what becomes of a mistake.
type Mode string

// The modes.
const (
	Enforce Mode = "Enforce" // refused where it is one for all kinds, else a warning
	Warn    Mode = "Warn"
	Off     Mode = "Off" // expressions are not checked against types, as those of released policies are not
)

// A Kind is one that a policy matches.
type Kind struct {
	schema.GroupVersionKind
	Type *shape.Type // nil: nothing is known of it, and nothing is refused
}

// A Complaint is what is wrong with one expression for one kind.
type Complaint struct {
	policy.Expr
	Kind    schema.GroupVersionKind
	Detail  string // as the server words what does not compile, with the place in the text
	Refused bool   // the policy is not to be stored
}

// Policy complains about the variables and mutations of a policy for the kinds that it matches, one complaint for an
// expression and kind. Params is the type of its params, or nil.
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

// Complaints complains about the expressions of a policy that are wrong for every kind that it matches, whatever the
// values are, one complaint each. Nothing is refused while a kind is not known.
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

// detail words what is wrong with the types of an expression for a kind as the server words what does not compile.
func (k Kind) detail(text string) string {
	return fmt.Sprintf("compilation failed for %s %s: %s", k.GroupVersion(), k.Kind, text)
}

// text renders what is wrong with the types of an expression as cel-go renders what does not compile; empty for
// nothing. What is no matter of types is left out.
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
// may be compared and mixed, since none has a type when expressions run.
func IsTelling(message string) bool {
	said := wording.Read(message)
	return said.Kind == wording.UndefinedField || said.Kind == wording.NoOverload &&
		!strings.ContainsAny(said.Got, "./@$") && !strings.Contains(said.Got, objectName)
}
