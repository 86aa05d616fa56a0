// Package needs finds the facts that policies read and that stored objects do not contain: the user of a request, its
// changes, and requests that store nothing. An audit of stored objects reports answers that depend on them as unknown.
package needs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Need is a fact that an expression or a rule depends on.
type Need string

// Needs.
const (
	User       Need = "user"       // request.userInfo: the user of the request
	Authorizer Need = "authorizer" // the permissions of that user
	// the object before: in an update without changes it equals the new one
	OldObject   Need = "oldObject"
	Connect     Need = "CONNECT"     // a request that stores nothing
	Delete      Need = "DELETE"      // a deletion
	Subresource Need = "subresource" // a request to a subresource, such as scale or exec
)

// A Limit is one need of one policy.
type Limit struct {
	Kind   policy.Kind
	Policy string
	Need   Need
	Field  string          // the server's path of the expression or rule
	Place  policy.Position // of it
	Of     string          // named subresources; empty for other needs

	// Whole means that the policy cannot be evaluated at all without the fact.
	Whole bool
}

// Given describes the known facts besides stored objects.
type Given struct {
	Minor     string // of the Kubernetes whose CEL is used, such as "1.37"
	User      bool   // the user is known
	Deletions bool   // deletions are evaluated
}

// Find returns the unmet needs of the policies of a set, in their order.
func Find(set *policy.Set, given Given) ([]Limit, error) {
	envs, err := celenv.New(given.Minor, quirks.SetOf(given.Minor))
	if err != nil {
		return nil, err
	}
	scope := envs.Scope(celenv.Run, false)
	defer scope.Close()
	env, err := scope.Env(celenv.Declared{Params: true, Authorizer: true, Patch: true, Dialect: true, Extended: true,
		Objects: true})
	if err != nil {
		return nil, err
	}
	var all []Limit
	for _, p := range set.Policies {
		f := &finder{given: given, env: env, policy: p, variables: map[string]effects.Result{}, uses: map[string]uses{}}
		f.rules()
		f.expressions()
		for _, b := range set.Bindings {
			if b.MatchResources != nil && b.Binds(p) {
				f.matchers(b.MatchResources, "spec.matchResources", b.Locate)
			}
		}
		all = append(all, f.limits...)
	}
	return all, nil
}

// A finder finds what one policy needs.
type finder struct {
	given     Given
	env       *cel.Env
	policy    *policy.Policy
	variables map[string]effects.Result
	uses      map[string]uses // of variables, by name
	limits    []Limit
}

// uses are the needs of an expression.
type uses struct{ user, authorizer, old bool }

func (f *finder) add(l Limit) {
	l.Kind, l.Policy = f.policy.Kind, f.policy.Name
	f.limits = append(f.limits, l)
}

// rules finds requests that are never made for stored objects.
func (f *finder) rules() {
	if f.policy.MatchConstraints == nil {
		return
	}
	f.matchers(f.policy.MatchConstraints, "spec.matchConstraints", f.policy.Locate)
	asked := false
	var found []Limit
	need := func(n Need, path, of string) {
		if i := slices.IndexFunc(found, func(l Limit) bool { return l.Need == n }); i >= 0 {
			if of != "" && !slices.Contains(strings.Split(found[i].Of, ", "), of) {
				found[i].Of += ", " + of
			}
			return
		}
		found = append(found, Limit{Need: n, Field: path, Place: f.policy.Locate(&field.Error{Field: path}), Of: of})
	}
	for i, rule := range f.policy.MatchConstraints.ResourceRules {
		path := fmt.Sprintf("spec.matchConstraints.resourceRules[%d]", i)
		has := func(op string) bool {
			return slices.Contains(rule.Operations, op) || slices.Contains(rule.Operations, "*")
		}
		whole, below := false, false
		for _, resource := range rule.Resources {
			_, sub, named := strings.Cut(resource, "/")
			whole = whole || !named || resource == "*/*"
			below = below || named
			if named && sub != "" {
				need(Subresource, path, resource)
			}
		}
		if whole && (has("CREATE") || has("UPDATE") || has("DELETE") && f.given.Deletions) {
			asked = true
		}
		if whole && has("DELETE") && !f.given.Deletions {
			need(Delete, path, "")
		}
		if slices.Contains(rule.Operations, "CONNECT") || below && has("CONNECT") {
			need(Connect, path, "")
		}
	}
	for _, l := range found {
		l.Whole = !asked
		f.add(l)
	}
}

// matchers finds criteria of the dialect.
func (f *finder) matchers(m *policy.MatchResources, path string, locate func(*field.Error) policy.Position) {
	if f.given.User {
		return
	}
	for _, x := range []struct {
		name  string
		need  Need
		given bool
	}{
		{"subjects", User, len(m.Subjects) > 0}, {"excludeSubjects", User, len(m.ExcludeSubjects) > 0},
		{"permissions", Authorizer, len(m.Permissions) > 0},
		{"excludePermissions", Authorizer, len(m.ExcludePermissions) > 0},
	} {
		if at := path + "." + x.name; x.given {
			f.add(Limit{Need: x.need, Field: at, Place: locate(&field.Error{Field: at}), Whole: true})
		}
	}
}

// expressions finds the needs of expressions that decide: not those of messages and audit annotations.
func (f *finder) expressions() {
	needing := 0
	var ofValidations []int // indexes of limits
	for x := range f.policy.Expressions() {
		switch x.Use {
		case policy.UseMessageExpression, policy.UseAuditAnnotation:
		case policy.UseVariable:
			_, f.uses[x.Name] = f.read(x.Expr, x.Name)
		case policy.UseValidation:
			from := len(f.limits)
			if f.expression(x.Expr, false) {
				needing++
			}
			for i := from; i < len(f.limits); i++ {
				ofValidations = append(ofValidations, i)
			}
		default:
			f.expression(x.Expr, true)
		}
	}
	if needing > 0 && needing == len(f.policy.Validations) {
		for _, i := range ofValidations {
			if f.limits[i].Need != OldObject {
				f.limits[i].Whole = true
			}
		}
	}
}

// expression adds the needs of an expression, and reports whether its value depends on the user. Such an expression
// decides about the whole policy, or about itself.
func (f *finder) expression(e policy.Expr, whole bool) bool {
	ok, u := f.read(e, "")
	if !ok {
		return false // an error of the policy, for all users
	}
	at := e.Locate(0)
	if !f.given.User && u.user {
		f.add(Limit{Need: User, Field: e.Field, Place: at, Whole: whole})
	}
	if !f.given.User && u.authorizer {
		f.add(Limit{Need: Authorizer, Field: e.Field, Place: at, Whole: whole})
	}
	if u.old && f.matches("UPDATE") {
		f.add(Limit{Need: OldObject, Field: e.Field, Place: at})
	}
	return !f.given.User && (u.user || u.authorizer)
}

func (f *finder) matches(operation string) bool {
	return slices.ContainsFunc(f.policy.Rules(), func(r policy.Rule) bool {
		return slices.Contains(r.Operations, operation) || slices.Contains(r.Operations, "*")
	})
}

// read returns the needs of an expression and its variables; false if it cannot be parsed. name is that of the variable
// with the expression, if any.
func (f *finder) read(e policy.Expr, name string) (bool, uses) {
	parsed, issues := celenv.ParseOwn(f.env, celenv.Declared{}, e)
	if issues.Err() != nil {
		return false, uses{}
	}
	tree := parsed.NativeRep().Expr()
	reads := effects.ReadsOf(tree, f.variables)
	if name != "" {
		f.variables[name] = reads.Result(tree)
	}
	u := uses{
		user:       reads.Uses(effects.NewPath("request", "userInfo")),
		authorizer: reads.Uses(effects.NewPath("authorizer")),
		old:        reads.Uses(effects.NewPath("oldObject")),
	}
	for _, r := range reads.List {
		if r.Path == effects.NewPath("request") && !memberIsRead(reads, r) { // the whole request may flow anywhere
			u.user = true
		}
	}
	for _, v := range reads.Variables {
		of := f.uses[v]
		u.user, u.authorizer, u.old = u.user || of.user, u.authorizer || of.authorizer, u.old || of.old
	}
	return true, u
}

// memberIsRead reports whether the next read is of a member of this one.
func memberIsRead(reads *effects.Reads, r effects.Read) bool {
	n := slices.Index(reads.List, r)
	return n+1 < len(reads.List) && reads.List[n+1].Path != r.Path && r.Path.Contains(reads.List[n+1].Path)
}
