package cli

import (
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
	"github.com/spf13/pflag"
)

// unboundFlag adds --without-bindings.
func (c *console) unboundFlag(f *pflag.FlagSet) {
	f.BoolVar(&c.unboundToo, "without-bindings", false,
		"policies that no binding names are in force everywhere,\nwith the action Deny and without params")
}

// bindUnbound binds the policies that no binding names, with the action Deny, and prints them.
func (w *world) bindUnbound(c *console) {
	var bound, without, abstract []string
	for _, p := range slices.Clone(w.set.Policies) {
		if p.Static || w.set.Binds(p.Ref()) {
			continue
		}
		if p.Abstract {
			abstract = append(abstract, p.Name)
			continue
		}
		b := &policy.Binding{Kind: p.Kind, APIVersion: p.APIVersion, Name: p.Name, PolicyName: p.Name, Stored: p.Stored}
		for w.set.Binding(b.Ref()) != nil {
			b.Name += "-without-bindings"
		}
		if p.Validates() {
			b.Actions = []policy.Action{policy.Deny}
		}
		if p.Kind == policy.Admission {
			b.Actions, b.MutationActions = []policy.Action{policy.Deny}, []policy.Action{policy.Apply}
		}
		w.set.Bindings = append(w.set.Bindings, b)
		bound = append(bound, p.Name)
		if p.ParamKind != nil {
			without = append(without, p.Name)
		}
	}
	if len(abstract) > 0 {
		c.say("not bound, because only bindings have the rules of an abstract policy: "+listFew(abstract), "")
	}
	if len(bound) == 0 {
		return
	}
	hint := ""
	if len(without) > 0 {
		hint = "params are null for " + strings.Join(without, ", ") + ": a binding selects them"
	}
	c.say("bound everywhere with the action Deny, although they do not have a binding: "+listFew(bound), hint)
}
