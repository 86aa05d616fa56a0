package report

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type jsonExplanation struct {
	Request  jsonRequest    `json:"request"`
	Creator  *jsonCreator   `json:"createdBy,omitempty"`
	Allowed  bool           `json:"allowed"`
	Message  string         `json:"message,omitempty"`
	Status   *metav1.Status `json:"status,omitempty"`
	Warnings []string       `json:"warnings,omitempty"`
	Policies []jsonStory    `json:"policies"`
	Cost     int64          `json:"cost"` // of all policies
	Changes  []jsonChanged  `json:"changes,omitempty"`
	Orders   []jsonOrder    `json:"otherOrders,omitempty"`
	Notes    []jsonNote     `json:"notes,omitempty"`
	Events   []jsonEvent    `json:"events"`

	Unchecked []string `json:"unchecked,omitempty"` // parts of the server that were not simulated
}

type jsonStory struct {
	Kind          policy.Kind          `json:"kind"`
	Phase         policy.Phase         `json:"phase,omitempty"` // of a policy with more than one phase
	Policy        string               `json:"policy"`
	Binding       string               `json:"binding,omitempty"`
	Param         string               `json:"param,omitempty"`
	Second        bool                 `json:"second,omitempty"`
	Matched       bool                 `json:"matched"`
	By            string               `json:"by,omitempty"`
	Reason        string               `json:"reason,omitempty"`
	Error         string               `json:"error,omitempty"`
	FailurePolicy policy.FailurePolicy `json:"failurePolicy,omitempty"`
	Compared      []jsonCompared       `json:"compared,omitempty"`
	Expressions   []jsonTold           `json:"expressions,omitempty"`
	Budgets       []jsonSpent          `json:"budgets,omitempty"`
}

type jsonCompared struct {
	Field   string `json:"field"`
	Binding bool   `json:"binding,omitempty"` // of the binding, not the policy
	Want    string `json:"want"`
	Got     string `json:"got"`
	Holds   bool   `json:"holds"`
}

type jsonTold struct {
	Field   string          `json:"field"`
	Verdict celgate.Verdict `json:"verdict"`
	Message string          `json:"message,omitempty"`
	Cost    int64           `json:"cost"`
	Values  []jsonValue     `json:"values,omitempty"`
}

type jsonValue struct {
	Expression string `json:"expression"`
	Value      string `json:"value"`
	Error      bool   `json:"error,omitempty"`
	LastItem   bool   `json:"lastItem,omitempty"`
	Item       string `json:"item,omitempty"`
	Field      string `json:"field,omitempty"` // of the object
}

func jsonValueOf(s explain.Step) jsonValue {
	return jsonValue{s.Text, s.Value, s.Error, s.Last, s.Item, s.Path}
}

type jsonSpent struct {
	Of    string `json:"of"`
	Cost  int64  `json:"cost"`
	Limit int64  `json:"limit"`
}

type jsonChanged struct {
	Policy  string         `json:"policy"`
	Binding string         `json:"binding"`
	Second  bool           `json:"second,omitempty"`
	Before  map[string]any `json:"before"`
	After   map[string]any `json:"after"`
}

type jsonOrder struct {
	Policies []string       `json:"policies"`
	Allowed  bool           `json:"allowed"`
	Message  string         `json:"message,omitempty"`
	Object   map[string]any `json:"object,omitempty"`
}

// A jsonEvent is one event of the engine's trace. Its members depend on op.
type jsonEvent struct {
	Op      explain.Op   `json:"op"`
	Kind    policy.Kind  `json:"kind"`
	Phase   policy.Phase `json:"phase,omitempty"` // of a policy with more than one phase
	Policy  string       `json:"policy,omitempty"`
	Binding string       `json:"binding,omitempty"`
	Param   string       `json:"param,omitempty"`
	Second  bool         `json:"second,omitempty"`

	Matched  *bool          `json:"matched,omitempty"`
	By       string         `json:"by,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Error    string         `json:"error,omitempty"`
	Compared []jsonCompared `json:"compared,omitempty"`

	Field    string          `json:"field,omitempty"`
	Variable string          `json:"variable,omitempty"`
	Value    string          `json:"value,omitempty"`
	Failed   bool            `json:"failed,omitempty"`
	Values   []jsonValue     `json:"values,omitempty"`
	Verdict  celgate.Verdict `json:"verdict,omitempty"`
	Message  string          `json:"message,omitempty"`
	Cost     *int64          `json:"cost,omitempty"`

	Mutation *jsonMutation `json:"mutation,omitempty"`
}

type jsonMutation struct {
	Index     int                     `json:"index"`
	PatchType policy.PatchType        `json:"patchType"`
	As        metav1.GroupVersionKind `json:"as"`
	Before    map[string]any          `json:"before"`
	Patch     any                     `json:"patch,omitempty"`
	Patched   map[string]any          `json:"patched,omitempty"` // before it is normalised
	After     map[string]any          `json:"after,omitempty"`
	Dropped   bool                    `json:"dropped,omitempty"`
	Stopped   *int                    `json:"stopped,omitempty"` // the operation that could not be applied
}

// writeExplanations writes explanations as [Explain] does in the format json. Objects without an answer are left out.
func writeExplanations(w io.Writer, all []Explanation, o Options) error {
	items := []jsonExplanation{}
	for _, e := range all {
		if e.Failure == nil {
			items = append(items, jsonExplanationOf(e, o))
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"apiVersion": APIVersion, "kind": "ExplanationList", "items": items})
}

// ExplanationJSON returns an explanation as [Explain] lists it in the format json, without spaces.
func ExplanationJSON(e Explanation, o Options) (json.RawMessage, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(jsonExplanationOf(e, o))
	return text.Bytes(), err
}

func jsonExplanationOf(e Explanation, o Options) jsonExplanation {
	item := jsonExplanation{
		Request: itemOf(e.Request, e.Decision).Request, Creator: e.creator(), Allowed: e.Decision.Allowed,
		Status: e.Decision.Status, Warnings: e.Decision.WarningTexts(), Policies: []jsonStory{}, Events: []jsonEvent{},
		Cost: e.Decision.Cost, Unchecked: e.Decision.UncheckedParts(),
	}
	if e.Decision.Status != nil {
		item.Message = e.Decision.Status.Message
	}
	for _, one := range storyOf(e.Events) {
		item.Policies = append(item.Policies, jsonStoryOf(one, o))
	}
	for _, c := range e.Changes {
		item.Changes = append(item.Changes, jsonChanged{c.Policy, c.Binding, c.Second, c.Before, c.After})
	}
	for _, other := range e.Orders {
		order := jsonOrder{Policies: other.Policies, Allowed: other.Decision.Allowed, Object: other.Decision.Object}
		if other.Decision.Status != nil {
			order.Message = other.Decision.Status.Message
		}
		item.Orders = append(item.Orders, order)
	}
	for _, n := range e.Decision.Notes {
		item.Notes = append(item.Notes, noteOf(n))
	}
	for _, x := range e.Events {
		item.Events = append(item.Events, jsonEventOf(x))
	}
	return item
}

func jsonStoryOf(one *told, o Options) jsonStory {
	s := jsonStory{Kind: one.kind, Phase: phaseOf(one.kind, one.phase), Policy: one.policy,
		Binding: one.binding, Param: one.param, Second: one.second,
		Matched: !one.failed}
	if o.Set != nil {
		for _, p := range o.Set.Policies {
			if p.Kind == one.kind && p.Name == one.policy {
				s.FailurePolicy = p.FailurePolicy
			}
		}
	}
	for _, m := range one.matches {
		s.Compared = append(s.Compared, comparedOf(m)...)
		if m.Err != nil {
			s.Error = m.Err.Error()
		}
		if !m.Matched {
			s.By, s.Reason = m.By, m.Reason
		}
	}
	for _, x := range one.outcomes {
		told := jsonTold{Field: x.Field(), Verdict: x.Verdict, Message: x.Message, Cost: x.Cost}
		for _, v := range x.variables {
			told.Values = append(told.Values,
				jsonValue{Expression: v.Evaluation.Policy.FullName(v.Variable), Value: v.Value, Error: v.Failed})
		}
		if x.evaluation != nil {
			told.Values = append(told.Values, valuesOf(x.evaluation.Reason.Values)...)
		}
		if x.Verdict == celgate.Skip && strings.HasPrefix(x.Field(), "spec.matchConditions") {
			s.Matched, s.By = false, "matchConditions"
			s.Reason = "the match condition " + x.Field() + " is false"
		}
		s.Expressions = append(s.Expressions, told)
	}
	if one.skipped != "" {
		s.Matched, s.By, s.Reason = false, "reinvocationPolicy", one.skipped
	}
	for _, x := range one.sumCosts() {
		s.Budgets = append(s.Budgets, jsonSpent{x.of, x.cost, x.limit})
	}
	return s
}

func comparedOf(m explain.Match) []jsonCompared {
	var all []jsonCompared
	for _, c := range m.Compared {
		all = append(all, jsonCompared{c.Field, m.Binding != "", c.Want, c.Got, c.Holds})
	}
	return all
}

func valuesOf(steps []explain.Step) []jsonValue {
	var all []jsonValue
	for _, s := range steps {
		all = append(all, jsonValueOf(s))
	}
	return all
}

func jsonEventOf(x Event) jsonEvent {
	e := jsonEvent{Op: x.Op, Kind: x.Kind, Phase: phaseOf(x.Kind, x.Phase), Policy: x.Policy,
		Binding: x.Binding, Param: x.Param, Second: x.Second}
	switch {
	case x.Match != nil:
		e.Matched, e.By, e.Reason, e.Compared = &x.Match.Matched, x.Match.By, x.Match.Reason, comparedOf(*x.Match)
		if x.Match.Err != nil {
			e.Error = x.Match.Err.Error()
		}
	case x.Evaluation != nil:
		e.Field, e.Value, e.Failed, e.Values = x.Evaluation.Expr.Field, x.Value, x.Failed, valuesOf(x.Steps)
		if x.Variable != "" {
			e.Variable = strings.TrimPrefix(x.Evaluation.Policy.FullName(x.Variable), "variables.")
		}
	case x.Result != nil:
		e.Field, e.Verdict, e.Message, e.Cost = x.Result.Field(), x.Result.Verdict, x.Result.Message, &x.Result.Cost
	case x.Mutation != nil:
		m := x.Mutation
		e.Field = m.Expr.Field
		e.Mutation = &jsonMutation{
			Index: m.Index, PatchType: m.Type, As: jsonKind(m.As), Before: m.Before, Patch: m.Patch, Patched: m.Patched,
			After: m.After, Dropped: m.Dropped,
		}
		if m.Stopped >= 0 {
			e.Mutation.Stopped = &m.Stopped
		}
	}
	return e
}

// phaseOf returns the phase if the kind has more than one.
func phaseOf(kind policy.Kind, phase policy.Phase) policy.Phase {
	if kind == policy.Admission {
		return phase
	}
	return ""
}

func jsonKind(k schema.GroupVersionKind) metav1.GroupVersionKind {
	return metav1.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}
