package prove

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// A program is a policy with the syntax trees of its expressions.
type program struct {
	*policy.Policy
	origin      string     // the name of the policy of which it is the native form; else its own
	conditions  []*ast.AST // nil: it does not compile
	variables   map[string]*ast.AST
	exprs       map[string]policy.Expr // of variables
	validations []*ast.AST
	messages    []*ast.AST // of validations
	annotations []*ast.AST
	mutations   []*ast.AST
}

// compileProgram checks the expressions of a policy.
func compileProgram(envs *celenv.Set, p *policy.Policy) (*program, error) {
	scope := envs.Scope(celenv.Run, false)
	defer scope.Close()
	out := &program{Policy: p, variables: map[string]*ast.AST{}, exprs: map[string]policy.Expr{}}
	check := func(x policy.Expr, use policy.Use) (*cel.Ast, error) {
		env, err := scope.Env(compile.Declare(p, use, ""))
		if err != nil {
			return nil, err
		}
		checked, issues := celenv.Compile(env, x.Src)
		if issues != nil && len(issues.Errors()) > 0 {
			return nil, nil
		}
		return checked, nil
	}
	tree := func(checked *cel.Ast) *ast.AST {
		if checked == nil {
			return nil
		}
		return checked.NativeRep()
	}
	for _, v := range p.Variables {
		checked, err := check(v.Expr, policy.UseVariable)
		if err != nil {
			return nil, err
		}
		var t *cel.Type
		if checked != nil {
			t = checked.OutputType()
		}
		scope.Declare(v.Name, t)
		out.variables[v.Name], out.exprs[v.Name] = tree(checked), v.Expr
	}
	for _, c := range p.MatchConditions {
		checked, err := check(c.Expr, policy.UseMatchCondition)
		if err != nil {
			return nil, err
		}
		out.conditions = append(out.conditions, tree(checked))
	}
	for i := range p.Validations {
		checked, err := check(p.Validations[i].Expr, policy.UseValidation)
		if err != nil {
			return nil, err
		}
		message, err := check(p.Validations[i].MessageExpr, policy.UseMessageExpression)
		if err != nil {
			return nil, err
		}
		out.validations, out.messages = append(out.validations, tree(checked)), append(out.messages, tree(message))
	}
	for _, x := range p.AuditAnnotations {
		checked, err := check(x.Expr, policy.UseAuditAnnotation)
		if err != nil {
			return nil, err
		}
		out.annotations = append(out.annotations, tree(checked))
	}
	err := compileMutations(out, func(x policy.Expr, use policy.Use) (*ast.AST, error) {
		checked, err := check(x, use)
		return tree(checked), err
	})
	return out, err
}

// An invocation is the evaluation of a policy with one binding, for all requests of a case.
type invocation struct {
	roots       map[string]*value // with the params
	conditions  []*value
	matched     solve.Formula // by rules and selectors
	exists      solve.Formula // the param
	no          solve.Formula // a condition is false
	applies     solve.Formula // matched, and all conditions are true
	failing     solve.Formula // the conditions have an error that denies
	validations []solve.Formula
	values      []*value        // of validations
	messages    []solve.Formula // a messageExpression is the message; nil: not evaluated
}

// deny returns the condition under which it denies a request.
func (i *invocation) deny(s *solve.Store) solve.Formula {
	return s.Disjoin(i.failing, s.Any(i.validations...))
}

// invoke evaluates a policy with a binding.
func (r *request) invoke(p *program, b *policy.Binding) *invocation {
	m, s := r.m, r.m.store
	out := r.match(p, b, nil)
	if out.matched == solve.False {
		for range p.Validations {
			out.validations = append(out.validations, solve.False)
			out.values = append(out.values, failure())
		}
		return out
	}
	expressions := r.evaluator(p, out.roots)
	for i, x := range p.validations {
		v := m.toBool(expressions.valueOf(x, p.Policy.Validations[i].Expr))
		denied := s.Conjoin(v.isBool, v.truth.Negate())
		if p.FailurePolicy != policy.Ignore {
			denied = s.Disjoin(denied, v.err)
		}
		out.values = append(out.values, v)
		out.validations = append(out.validations, s.Conjoin(out.applies, denied))
	}
	return out
}

// match evaluates the rules, the selectors and the match conditions of a policy with a binding; of a mutating policy
// for the object so far.
func (r *request) match(p *program, b *policy.Binding, object *value) *invocation {
	m, s := r.m, r.m.store
	if p.Kind == policy.Validating && !m.mutates {
		r.tie()
	}
	out := &invocation{no: solve.False, applies: solve.False, failing: solve.False}
	out.matched = s.Conjoin(r.matches(p.Policy, p.MatchConstraints), r.matches(p.Policy, b.MatchResources))
	if out.matched == solve.False {
		out.exists = solve.False
		for range p.conditions {
			out.conditions = append(out.conditions, failure())
		}
		return out
	}
	out.roots, out.exists = r.rootsFor(p.Policy, b)
	withoutNamespace := cloneRoots(out.roots)
	if object != nil {
		withoutNamespace = r.mutationRoots(out.roots, object)
	}
	withoutNamespace["namespaceObject"] = newLeaf(nullLeaf{})
	expressions := r.evaluator(p, withoutNamespace)
	failing := solve.False
	for i, c := range p.conditions {
		v := m.toBool(expressions.valueOf(c, p.MatchConditions[i].Expr))
		out.conditions = append(out.conditions, v)
		out.no = s.Disjoin(out.no, s.Conjoin(v.isBool, v.truth.Negate()))
		failing = s.Disjoin(failing, v.err)
	}
	out.applies = s.All(out.matched, out.exists, out.no.Negate(), failing.Negate())
	if p.FailurePolicy != policy.Ignore {
		out.failing = s.All(out.matched, out.exists, out.no.Negate(), failing)
		if b.ParamRef != nil && b.ParamRef.NotFoundAction != policy.NotFoundAllow {
			out.failing = s.Disjoin(out.failing, s.Conjoin(out.matched, out.exists.Negate()))
		}
	}
	return out
}

func cloneRoots(roots map[string]*value) map[string]*value {
	out := map[string]*value{}
	for k, v := range roots {
		out[k] = v
	}
	return out
}

// An evaluator evaluates expressions of a policy, and each of its variables once.
type evaluator struct {
	*frame
	of    *program
	known map[string]*value // variables
}

func (r *request) evaluator(p *program, roots map[string]*value) *evaluator {
	e := &evaluator{&frame{machine: r.m, roots: roots}, p, map[string]*value{}}
	e.frame.variables = e.variable
	return e
}

// valueOf returns the value of an expression.
func (e *evaluator) valueOf(tree *ast.AST, x policy.Expr) *value {
	if tree == nil {
		return failure()
	}
	before := e.at
	e.at = source{policy: e.of.Policy, expr: x, ast: tree}
	defer func() { e.at = before }()
	return e.evaluate(tree.Expr(), nil)
}

// variable returns the value of a variable; nil: the policy does not have it.
func (e *evaluator) variable(name string) *value {
	if e.known[name] == nil {
		tree, ok := e.of.variables[name]
		if !ok {
			return nil
		}
		e.known[name] = failure() // of a variable that uses itself
		e.known[name] = e.valueOf(tree, e.of.exprs[name])
	}
	return e.known[name]
}

// rootsFor returns the names with the params that a binding selects, and the condition that there are any. A selector
// may select several params, but one is enough: a denial needs only one of them, and a request is admitted if each of
// them admits it.
func (r *request) rootsFor(p *policy.Policy, b *policy.Binding) (map[string]*value, solve.Formula) {
	if p.ParamKind == nil {
		return r.roots, solve.True
	}
	roots := cloneRoots(r.roots)
	if b.ParamRef == nil {
		roots["params"] = newLeaf(nullLeaf{})
		return roots, solve.True
	}
	gv, err := apischema.ParseGroupVersion(p.ParamKind.APIVersion)
	kind := gv.WithKind(p.ParamKind.Kind)
	key := fmt.Sprint(kind, b.ParamRef.Namespace, "/", b.ParamRef.Name, metav1.FormatLabelSelector(b.ParamRef.Selector))
	param := r.params[key]
	if param == nil {
		param = &params{kind: kind, ref: b.ParamRef, exists: r.m.store.NewBool(), name: textOf(b.ParamRef.Name)}
		if b.ParamRef.Name == "" {
			param.name = textLeaf{x: r.m.newName("params"), isVar: true}
		}
		namespace := r.inNamespace
		if b.ParamRef.Namespace != "" {
			namespace = textOf(b.ParamRef.Namespace)
		}
		if t := r.types.Type(kind); err == nil && t != nil {
			own := r.types.ResourceFor(kind)
			param.node = r.newObject("params", kind, t, own == nil || own.Definition == nil)
			param.node.identify(param.name, namespace, own != nil && own.Namespaced)
			param.value = newLeaf(param.node)
		} else {
			param.value = r.m.opaqueValue("params "+key, nil, "params")
		}
		r.params[key] = param
	}
	roots["params"] = param.value
	return roots, param.exists
}

// matches returns the condition under which rules and selectors match.
func (r *request) matches(p *policy.Policy, c *policy.MatchResources) solve.Formula {
	if c == nil {
		return solve.True
	}
	s := r.m.store
	rules := r.anyRule(p, c, c.ResourceRules)
	if len(c.ResourceRules) == 0 {
		rules = solve.True
	}
	return s.All(rules, r.anyRule(p, c, c.ExcludeRules).Negate(), r.selectsNamespace(c.NamespaceSelector),
		r.selectsObject(c.ObjectSelector))
}

func (r *request) anyRule(p *policy.Policy, c *policy.MatchResources, rules []policy.Rule) solve.Formula {
	s := r.m.store
	out := solve.False
	for _, rule := range rules {
		if !coversOperation(rule, r.Operation) {
			continue
		}
		if typed.Covers(rule, r.Resource, r.SubResource) {
			out = s.Disjoin(out, r.isNamed(rule.ResourceNames))
			continue
		}
		if c.MatchPolicy == policy.Exact {
			continue
		}
		for _, other := range r.types.Equivalents(r.Resource.GroupVersionResource, r.SubResource) {
			if other != r.Resource && typed.Covers(rule, other, r.SubResource) {
				r.m.at = source{policy: p}
				v := r.m.opaqueValue("equivalent "+p.Name, nil, "a match through the equivalent version "+
					other.Version+" of "+other.Resource)
				out = s.Disjoin(out, r.m.toBool(v).truth)
				break
			}
		}
	}
	return out
}

func (r *request) isNamed(names []string) solve.Formula {
	if len(names) == 0 {
		return solve.True
	}
	out := solve.False
	for _, name := range names {
		out = r.m.store.Disjoin(out, r.m.sameText(r.name, textOf(name)))
	}
	return out
}

func coversOperation(rule policy.Rule, operation string) bool {
	return slices.Contains(rule.Operations, "*") || slices.Contains(rule.Operations, operation)
}

func (r *request) selectsNamespace(sel *metav1.LabelSelector) solve.Formula {
	if isEverything(sel) {
		return solve.True
	}
	switch {
	case r.isNamespace() && r.after != nil:
		return r.selects(sel, r.after)
	case r.isNamespace() && r.object != nil:
		return r.selects(sel, newLeaf(r.object))
	case r.isNamespace() && r.oldObject != nil:
		return r.selects(sel, newLeaf(r.oldObject))
	case r.namespace != nil:
		return r.selects(sel, newLeaf(r.namespace))
	}
	return solve.True // of a cluster-scoped object
}

func (r *request) selectsObject(sel *metav1.LabelSelector) solve.Formula {
	if isEverything(sel) {
		return solve.True
	}
	out := solve.False
	switch {
	case r.after != nil:
		out = r.selects(sel, r.after)
	case r.object != nil:
		out = r.selects(sel, newLeaf(r.object))
	}
	if r.oldObject != nil {
		out = r.m.store.Disjoin(out, r.selects(sel, newLeaf(r.oldObject)))
	}
	return out
}

func isEverything(sel *metav1.LabelSelector) bool {
	return sel == nil || len(sel.MatchLabels)+len(sel.MatchExpressions) == 0
}

// selects returns the condition under which a selector matches an object, as labels.Selector does.
func (r *request) selects(sel *metav1.LabelSelector, object *value) solve.Formula {
	s, f := r.m.store, &frame{machine: r.m}
	labels := object
	for _, name := range []string{"metadata", "labels"} {
		labels = r.m.lift([]*value{labels}, func(l []leaf) *value { return f.get(l[0], name) })
	}
	has := func(key string, values ...string) solve.Formula {
		v := r.m.lift([]*value{labels}, func(l []leaf) *value { return f.get(l[0], key) })
		if len(values) == 0 {
			return v.err.Negate()
		}
		one := solve.False
		for _, a := range v.parts() {
			switch t := a.leaf.(type) {
			case textLeaf:
				for _, value := range values {
					one = s.Disjoin(one, s.Conjoin(a.when, r.m.sameText(t, textOf(value))))
				}
			case opaqueLeaf:
				for _, value := range values {
					same := r.m.toBool(f.equality(t, textOf(value)))
					one = s.Disjoin(one, s.Conjoin(a.when, same.truth))
				}
			}
		}
		return one
	}
	out := solve.True
	for _, key := range slices.Sorted(maps.Keys(sel.MatchLabels)) {
		out = s.Conjoin(out, has(key, sel.MatchLabels[key]))
	}
	for _, e := range sel.MatchExpressions {
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			out = s.Conjoin(out, has(e.Key, e.Values...))
		case metav1.LabelSelectorOpNotIn:
			out = s.Conjoin(out, has(e.Key, e.Values...).Negate())
		case metav1.LabelSelectorOpExists:
			out = s.Conjoin(out, has(e.Key))
		case metav1.LabelSelectorOpDoesNotExist:
			out = s.Conjoin(out, has(e.Key).Negate())
		}
	}
	return out
}

// casesOf returns the classes of requests that the rules of policies match.
func casesOf(types *schema.Registry, policies []*policy.Policy) []Case {
	var all []Case
	seen := map[Case]bool{}
	add := func(res *schema.Resource, sub string, kind schema.GroupVersionKind, rule policy.Rule) {
		for _, op := range operationsOf(sub) {
			c := Case{res, sub, op, kind}
			if coversOperation(rule, op) && !seen[c] {
				seen[c] = true
				all = append(all, c)
			}
		}
	}
	for _, p := range policies {
		if p.MatchConstraints == nil {
			continue
		}
		for _, rule := range p.MatchConstraints.ResourceRules {
			for _, res := range types.Resources() {
				if celgate.Exempt(res.GroupVersionResource.GroupResource(), p.Static) || res.NotServed ||
					res.OffByDefault && !slices.Contains(rule.APIVersions, res.Version) {
					continue
				}
				if typed.Covers(rule, res, "") {
					add(res, "", res.GroupVersionKind(), rule)
				}
				for _, sub := range res.Subresources {
					if typed.Covers(rule, res, sub.Name) {
						add(res, sub.Name, sub.Kind, rule)
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Case) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Resource.String(), b.Resource.String()),
			strings.Compare(a.SubResource, b.SubResource), strings.Compare(a.Operation, b.Operation))
	})
	return all
}

// operationsOf returns the operations that a server has for a resource or a subresource.
func operationsOf(sub string) []string {
	switch sub {
	case "":
		return []string{"CREATE", "UPDATE", "DELETE"}
	case "binding", "eviction", "token":
		return []string{"CREATE"}
	case "attach", "exec", "portforward", "proxy", "log":
		return []string{"CONNECT"}
	}
	return []string{"UPDATE"}
}

// isKept reports whether a set contains a clause unchanged.
func (s *Side) isKept(k clause) bool {
	for _, p := range s.programs {
		for b := range s.native.set.EachBinding() {
			if b.Binds(p.Policy) && denies(b) && sameText(k.program.Policy, p.Policy) &&
				reflect.DeepEqual(k.binding.MatchResources, b.MatchResources) &&
				reflect.DeepEqual(k.binding.ParamRef, b.ParamRef) && hasRule(p.Policy, k) {
				return true
			}
		}
	}
	return false
}

func hasRule(p *policy.Policy, k clause) bool {
	return k.index < 0 || slices.ContainsFunc(p.Validations, func(v policy.Validation) bool {
		return v.Expr.Src == k.program.Policy.Validations[k.index].Expr.Src
	})
}

// sameText reports whether two policies are equal except for their validations.
func sameText(a, b *policy.Policy) bool {
	texts := func(all []policy.NamedExpr) (list []string) {
		for _, x := range all {
			list = append(list, x.Name, x.Expr.Src)
		}
		return list
	}
	return a.FailurePolicy == b.FailurePolicy && reflect.DeepEqual(a.ParamKind, b.ParamKind) &&
		reflect.DeepEqual(a.MatchConstraints, b.MatchConstraints) &&
		slices.Equal(texts(a.MatchConditions), texts(b.MatchConditions)) &&
		slices.Equal(texts(a.Variables), texts(b.Variables))
}

// rank sorts common requests first.
func rank(c Case) int {
	switch {
	case c.SubResource != "":
		return 9
	case c.Operation == "CREATE":
		return 0
	case c.Operation == "UPDATE":
		return 1
	}
	return 2
}
