package cli

import (
	"slices"
	"strings"

	"github.com/celgate/celgate/cmd/internal/proofs"
	"github.com/celgate/celgate/policy"
	"github.com/spf13/pflag"
)

// unboundFlag adds --without-bindings.
func (c *console) unboundFlag(f *pflag.FlagSet) {
	f.BoolVar(&c.unboundToo, "without-bindings", false,
		"policies that no binding names are in force everywhere,\nvalidations with the action Deny, and without params")
}

// bindUnbound binds the policies that no binding names, validations with the action Deny, and prints them.
func (w *world) bindUnbound(c *console) {
	var denying, changing, without, abstract, namespaced []string
	for _, p := range slices.Clone(w.set.Policies) {
		if p.Static || w.set.Binds(p.Ref()) {
			continue
		}
		if p.Abstract {
			abstract = append(abstract, p.Name)
			continue
		}
		if len(p.Bindable) > 0 && !slices.Contains(p.Bindable, policy.BindableCluster) {
			namespaced = append(namespaced, p.Name)
			continue
		}
		b := proofs.NewBinding(p)
		for w.set.Binding(b.Ref()) != nil {
			b.Name += "-without-bindings"
		}
		w.set.Bindings = append(w.set.Bindings, b)
		if p.Validates() {
			denying = append(denying, p.Name)
		} else {
			changing = append(changing, p.Name)
		}
		if p.ParamKind != nil && p.DefaultParams == nil {
			without = append(without, p.Name)
		}
	}
	if len(abstract) > 0 {
		c.say("not bound, because only bindings have the rules of an abstract policy: "+listFew(abstract), "")
	}
	if len(namespaced) > 0 {
		c.say("not bound, because only bindings of namespaces may name the policy: "+listFew(namespaced), "")
	}
	hint := ""
	if len(without) > 0 {
		hint = "params are null for " + strings.Join(without, ", ") + ": a binding selects them"
	}
	if len(denying) > 0 {
		c.say("bound everywhere with the action Deny, although they do not have a binding: "+listFew(denying), hint)
		hint = ""
	}
	if len(changing) > 0 {
		c.say("bound everywhere, although they do not have a binding: "+listFew(changing), hint)
	}
}
