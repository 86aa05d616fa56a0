package prove

import (
	"errors"
	"fmt"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/compile"
	lowering "github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/policy"
)

// A Manifest returns the object from which a policy or a binding of a set was made, nil if there is none.
type Manifest func(policy.Ref) map[string]any

// A lowered set is the native form of a set.
type lowered struct {
	set     *policy.Set
	origins map[policy.Ref]string // the names of the policies of the dialect, by those of their native forms
	outside []Reason              // policies and bindings without a native form, which the set lacks
}

// lower returns the native form of a set. Formulas are made of it, while engines evaluate the set itself.
func (r *Room) lower(set *policy.Set, manifest Manifest) (*lowered, error) {
	out := &lowered{set: &policy.Set{}, origins: map[policy.Ref]string{}}
	l := lowering.New(set, r.Types, r.envs)
	for _, p := range set.Policies {
		if p.Kind != policy.Admission {
			out.set.Policies = append(out.set.Policies, p)
			continue
		}
		object := manifest(p.Ref())
		if object == nil {
			out.refuse(p.Name, p.Ref(), "", "its manifest is not known")
			continue
		}
		natives, refusals := l.Policy(object, p)
		if len(refusals) == 0 {
			natives, refusals = r.checkNatives(natives)
		}
		for _, x := range refusals {
			out.refuse(p.Name, p.Ref(), x.Field, x.Reason)
		}
		if len(refusals) == 0 {
			if err := out.add(natives, p); err != nil {
				return nil, err
			}
		}
	}
	for _, b := range set.Bindings {
		if b.Kind != policy.Admission {
			out.set.Bindings = append(out.set.Bindings, b)
			continue
		}
		object := manifest(b.Ref())
		if object == nil {
			object = objectOf(b)
		}
		natives, refusals := l.Binding(object, b)
		for _, x := range refusals {
			out.refuse(b.PolicyRef().Name, b.Ref(), x.Field, x.Reason)
		}
		if err := out.add(natives, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// objectOf returns the manifest of a binding that was not read: one that selects everything.
func objectOf(b *policy.Binding) map[string]any {
	actions := make([]any, len(b.Actions))
	for i, a := range b.Actions {
		actions[i] = string(a)
	}
	return map[string]any{"apiVersion": b.APIVersion, "kind": b.Kind.Binding(), "metadata": map[string]any{"name": b.Name},
		"spec": map[string]any{"policyName": b.PolicyName, "validationActions": actions}}
}

// refuse records that an object does not have a native form.
func (l *lowered) refuse(name string, of policy.Ref, field, why string) {
	message := fmt.Sprintf("%s has no native form, and prove does not support it: ", of)
	if field != "" {
		message += field + ": "
	}
	l.outside = append(l.outside, Reason{Policy: name, Message: message + why})
}

// checkNatives refuses native forms that a server would not store or would evaluate in another way.
func (r *Room) checkNatives(natives []map[string]any) ([]map[string]any, []lowering.Refusal) {
	set := &policy.Set{}
	for _, object := range natives {
		if err := set.Add(object, nil); err != nil {
			return nil, []lowering.Refusal{{Field: "", Reason: err.Error()}}
		}
	}
	var all []lowering.Refusal
	for _, p := range set.Policies {
		for _, found := range compile.NativeErrors(r.envs, p) {
			all = append(all, lowering.Refusal{Field: found.Field, Reason: found.Err.Error()})
		}
	}
	engine, err := celgate.New(set, celgate.Options{KubeVersion: r.KubeVersion, Types: r.Types})
	if err != nil {
		return nil, append(all, lowering.Refusal{Reason: err.Error()})
	}
	for _, rejected := range engine.Rejections() {
		all = append(all, lowering.Refusal{Reason: rejected.Status.Message})
	}
	return natives, all
}

// add adds native objects, the forms of a policy or of a binding.
func (l *lowered) add(natives []map[string]any, of *policy.Policy) error {
	for _, object := range natives {
		ref := policy.RefOf(object)
		if err := l.set.Add(object, nil); err != nil {
			if twice := (*policy.DuplicateError)(nil); errors.As(err, &twice) {
				l.refuse(ref.Name, ref, "", "there is another one")
				continue
			}
			return err
		}
		if made := l.set.Policy(ref); made != nil && of != nil {
			l.origins[ref] = of.Name
			locate(made, of)
		}
	}
	return nil
}

// locate gives the expressions of a native policy the places of those of the policy from which it was made.
func locate(made, of *policy.Policy) {
	find := func(x *policy.Expr) {
		for y := range of.Expressions() {
			if y.Src == x.Src && (x.Place == nil || y.Field == x.Field) {
				x.Place = y.Place
			}
		}
	}
	for _, all := range [][]policy.NamedExpr{made.MatchConditions, made.Variables, made.AuditAnnotations} {
		for i := range all {
			find(&all[i].Expr)
		}
	}
	for i := range made.Validations {
		find(&made.Validations[i].Expr)
		find(&made.Validations[i].MessageExpr)
	}
	for i := range made.Mutations {
		find(&made.Mutations[i].Expr)
	}
}
