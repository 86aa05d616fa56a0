package celgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/sequence"
	"github.com/celgate/celgate/internal/shape"
	construction "github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// policyRefusal returns the registry's error about a request that writes a policy or a binding: by its write-time
// rules, then by the user's permissions to read params (as pkg/registry/admissionregistration v1.37.2). An UPDATE may
// keep what the old object had.
func (e *Engine) policyRefusal(ctx context.Context, req *Request) error {
	if req.Object == nil || req.SubResource != "" || req.Resource.Group != policyGroup || !policyResource(req.Resource.GroupResource()) ||
		req.Operation != Create && req.Operation != Update {
		return nil
	}
	p, b, err := policy.FromObject(req.Object, nil)
	var undecodable *policy.DecodeError
	if errors.As(err, &undecodable) {
		return &apierrors.StatusError{ErrStatus: *undecodable.Status()}
	} else if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var oldPolicy *policy.Policy
	var oldBinding *policy.Binding
	if req.Operation == Update && req.OldObject != nil {
		if oldPolicy, oldBinding, err = policy.FromObject(req.OldObject, nil); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	written := compile.Written{Policy: p, OldPolicy: oldPolicy, Binding: b, OldBinding: oldBinding}
	errs := e.WriteErrors(written)
	if len(errs) == 0 && !req.UserAssumed {
		if err := e.ParamsForbidden(ctx, req, written); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: *e.invalidStatus(policy.Ref{Kind: req.Kind.Kind, Name: req.Name}, errs)}
}

// WriteErrors returns the errors of a server of the engine's minor about a policy or binding that is being written. An
// UPDATE may keep expressions of the old object (pkg/apis/admissionregistration/validation/validation.go v1.37.2).
func (e *Engine) WriteErrors(w compile.Written) field.ErrorList {
	if w.Policy != nil {
		w.Policy = e.linkPolicy(w.Policy)
		if errs := e.slowPatterns(w.Policy); len(errs) > 0 {
			return errs
		}
		if errs := e.importErrors(w.Policy); len(errs) > 0 && len(w.Policy.ImportErrors()) == 0 {
			return errs // errors of a library are not repeated for its users
		}
	}
	errs := w.Errors(e.envs, e.knowsStatic())
	switch {
	case len(errs) > 0:
	case w.Binding != nil:
		errs = e.sizes.BindingErrors(w.Binding, w.OldBinding)
		if w.Others != nil {
			errs = append(errs, e.sizes.ManyBindings(w.Binding, w.OldBinding, w.Others)...)
		}
	default:
		errs = slices.Concat(e.sizes.PolicyErrors(w.Policy, w.OldPolicy), e.scopeErrors(w), e.typeErrors(w),
			sequence.Vacuous(e.envs, w.Policy), e.defaultParamErrors(w), e.templateErrors(w.Policy))
	}
	return errs
}

// constraintsOf returns the match constraints of a policy that is being written: of an abstract one those by the
// bindings in force.
func (e *Engine) constraintsOf(p *policy.Policy) *policy.MatchResources {
	if !p.Abstract {
		return p.MatchConstraints
	}
	if known := e.policies[p.Ref()]; known != nil && known.Abstract {
		return known.MatchConstraints
	}
	return nil
}

// typeErrors returns the errors in mutations of a policy of the dialect that hold for every kind that it matches. An
// UPDATE may keep old mutations.
func (e *Engine) typeErrors(w compile.Written) (errs field.ErrorList) {
	p := w.Policy
	constraints := e.constraintsOf(p)
	if !p.Mutates() || !p.EnforcesTypes() || !construction.KnowsAll(e.types, constraints) {
		return nil
	}
	had := map[string]bool{}
	if w.OldPolicy != nil {
		for x := range w.OldPolicy.Expressions() {
			had[x.Src] = true
		}
	}
	var params *shape.Type
	if p.ParamKind != nil {
		params = e.types.Type(apischema.FromAPIVersionAndKind(p.ParamKind.APIVersion, p.ParamKind.Kind))
	}
	refused, err := construction.NewChecker(e.envs).Complaints(p,
		construction.KindsOf(e.types, constraints), params)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	for _, c := range refused {
		if !had[c.Src] {
			errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: c.Field, BadValue: c.Src,
				Detail: c.Detail})
		}
	}
	return errs
}

// scopeErrors returns the errors about scopes of a policy that are paths: none of the matched kinds has the path, or it
// is the name of a scope of a library that the policy does not import. An UPDATE may keep old scopes.
func (e *Engine) scopeErrors(w compile.Written) (errs field.ErrorList) {
	p := w.Policy
	had := map[string]bool{}
	if w.OldPolicy != nil {
		for x := range w.OldPolicy.Scopes() {
			had[x.Src] = true
		}
	}
	constraints := e.constraintsOf(p)
	kinds := construction.KindsOf(e.types, constraints)
	enforced := p.EnforcesTypes() && construction.KnowsAll(e.types, constraints)
	for x, s := range p.Scopes() {
		problem, near := construction.Astray(kinds, s)
		meant, named := p.MeantScope(s.Text, e.shared.linked.Libraries)
		switch {
		case had[x.Src]:
			continue
		case named && (problem != "" || len(kinds) == 0):
			problem = "a scope of a library that the policy does not import"
		case problem == "" || !enforced:
			continue
		}
		if meant = cmp.Or(meant, near); meant != "" {
			problem += " (" + meant + ")"
		}
		errs = append(errs,
			&field.Error{Type: field.ErrorTypeInvalid, Field: x.Field, BadValue: x.Src, Detail: problem})
	}
	return errs
}

// storedErrors returns the reasons why a stored policy is not valid, or why it fails: it was valid when it was written,
// and a library has changed since, or was deleted. Its server has accepted it, so expressions are not judged as new
// ones: one that does not compile fails when it is evaluated, as on the server. If celgate replaces the server, the
// policy may not have been checked, so its expressions must compile.
func (e *Engine) storedErrors(p *policy.Policy) (refused, fails field.ErrorList) {
	wrong := policy.ValidatePolicyUpdate(p, nil, nil)
	imports := e.importErrors(p)
	if !e.standsIn || len(imports) > 0 {
		return wrong.Filter(isOfImports), imports
	}
	if errs := e.slowPatterns(p); len(errs) > 0 {
		return errs, nil
	}
	checker := compile.NewStoredChecker(e.envs, p)
	defer checker.Close()
	errs := policy.ValidatePolicyUpdate(p, nil, checker.Compile)
	if len(wrong) == 0 && len(p.Imports) > 0 {
		return nil, errs
	}
	return errs, nil
}

// patternTime is the longest time for parsing the regular expressions of one policy if celgate replaces the server.
// Ordinary policies take some microseconds.
const patternTime = 2 * time.Second

// slowPatterns refuses a policy whose regular expressions would take too long to compile.
func (e *Engine) slowPatterns(p *policy.Policy) field.ErrorList {
	if !e.standsIn {
		return nil
	}
	var took time.Duration
	for x := range p.Expressions() {
		took += bound.Time(bound.FoldingSteps(x.Code()))
		if took > patternTime {
			return field.ErrorList{{Type: field.ErrorTypeForbidden, Field: x.Field, Detail: fmt.Sprintf(
				"compiling the regular expressions of the policy takes about %v or more, which exceeds the limit of %v",
				took.Round(100*time.Millisecond), patternTime)}}
		}
	}
	return nil
}

// ParamsForbidden returns the registry's error if the user who writes a policy or binding may not read its params:
// every object of a paramKind, the objects of a paramRef (authorize in
// pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding} v1.37.2). It is nil if the cluster
// does not have an authorizer.
func (e *Engine) ParamsForbidden(ctx context.Context, req *Request, w compile.Written) *field.Error {
	if e.cluster.Authorizer() == nil || slices.Contains(req.UserInfo.Groups, user.SystemPrivilegedGroup) {
		return nil
	}
	if b := w.Binding; b != nil && b.Namespace != "" {
		if err := e.mayBind(ctx, b, req); err != nil {
			return err
		}
	}
	spec := field.NewPath("spec")
	switch p, old, b := w.Policy, w.OldPolicy, w.Binding; {
	case p != nil && p.ParamKind != nil && (old == nil || w.Unasked || old.ParamKind == nil ||
		*old.ParamKind != *p.ParamKind):
		if err := e.mayReadKind(ctx, p.ParamKind, req); err != nil {
			return field.Forbidden(spec.Child("paramKind"), err.Error())
		}
	case b != nil && b.ParamRef != nil: // also on an UPDATE: the server compares pointers
		named := w.Named
		if named == nil {
			named = e.policyNamed
		}
		policies, policyErr := named(ctx, b)
		kinds := []*policy.ParamKind{nil} // of all resources, without a policy
		if policyErr == nil && len(policies) > 0 {
			kinds = paramKinds(policies, len(b.Policies) > 0)
		}
		for _, kind := range kinds {
			if err := e.mayReadParam(ctx, b, kind, policyErr, req); err != nil {
				return field.Forbidden(spec.Child("paramRef"), err.Error())
			}
		}
	}
	return nil
}

// paramKinds returns the kinds of the params of policies; nil stands for an unknown one. With several, policies without
// params do not count.
func paramKinds(policies []*policy.Policy, several bool) []*policy.ParamKind {
	var kinds []*policy.ParamKind
	for _, p := range policies {
		if p.ParamKind != nil || !several {
			kinds = append(kinds, p.ParamKind)
		}
	}
	if kinds == nil {
		kinds = []*policy.ParamKind{nil}
	}
	return kinds
}

// An internalParamKind is a paramKind in the server's own type, which messages print without the names of its fields.
type internalParamKind struct{ APIVersion, Kind string }

// mayReadKind returns an error unless the user may get every object of a paramKind.
func (e *Engine) mayReadKind(ctx context.Context, kind *policy.ParamKind, req *Request) error {
	attributes, _, _ := e.paramAttributes(kind)
	attributes.Verb, attributes.Name, attributes.Namespace = "get", "*", "*"
	who := userOf(req)
	attributes.User = who
	asked := authorize(ctx, e.cluster.Authorizer(), attributes)
	if asked.err != nil || asked.decision == authorizer.DecisionAllow {
		return asked.err
	}
	return fmt.Errorf("user %v must have \"get\" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)", who, kind.Kind, kind.APIVersion)
}

// mayReadParam returns an error unless the user may read the objects of a kind that a paramRef selects; policyErr is
// the reason why the kind is not known.
func (e *Engine) mayReadParam(ctx context.Context, b *policy.Binding, kind *policy.ParamKind, policyErr error,
	req *Request) error {
	attributes, parseErr, resolveErr := e.paramAttributes(kind)
	attributes.Verb, attributes.Name, attributes.Namespace = "get", b.ParamRef.Name, b.ParamRef.Namespace
	if attributes.Name == "" {
		attributes.Verb = "list"
	}
	who := userOf(req)
	attributes.User = who
	asked := authorize(ctx, e.cluster.Authorizer(), attributes)
	const everywhere = "to determine minimum required permissions and user %v does not have \"%v\" permission for all groups, versions and resources"
	switch {
	case asked.err != nil && b.Kind == policy.Validating:
		return fmt.Errorf("failed to authorize request: %w", asked.err)
	case asked.err != nil || asked.decision == authorizer.DecisionAllow:
		return asked.err
	case policyErr != nil:
		names := b.PolicyName
		for i, ref := range b.Policies {
			names += strings.Repeat(", ", min(i, 1)) + ref.Name
		}
		return fmt.Errorf("unable to get policy %s "+everywhere, names, who, attributes.Verb)
	case parseErr != nil:
		return fmt.Errorf("unable to parse paramKind %v "+everywhere, (*internalParamKind)(kind), who, attributes.Verb)
	case resolveErr != nil:
		return fmt.Errorf("unable to resolve paramKind %v "+everywhere, (*internalParamKind)(kind), who, attributes.Verb)
	case b.Kind == policy.Mutating: // the server has these arguments swapped
		return fmt.Errorf("user %v does not have \"%v\" permission on the object referenced by paramRef",
			attributes.Verb, who)
	}
	return fmt.Errorf("user %v does not have \"%v\" permission on the object referenced by paramRef", who,
		attributes.Verb)
}

// paramAttributes returns the attributes for the resource of a kind, or for all resources if it is unknown.
func (e *Engine) paramAttributes(kind *policy.ParamKind) (a authorizer.AttributesRecord, parseErr, resolveErr error) {
	a = authorizer.AttributesRecord{ResourceRequest: true, APIGroup: "*", APIVersion: "*", Resource: "*"}
	if kind == nil {
		return a, nil, nil
	}
	gv, err := apischema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return a, err, nil
	}
	a.APIGroup, a.APIVersion = gv.Group, gv.Version
	resource := e.types.ResourceFor(gv.WithKind(kind.Kind))
	if resource == nil || resource.NotServed || resource.OffByDefault {
		return a, nil, errors.New("no such resource")
	}
	a.Resource = resource.Resource
	return a, nil, nil
}

// policyNamed returns the policies of a binding, from the engine or the cluster.
func (e *Engine) policyNamed(ctx context.Context, b *policy.Binding) ([]*policy.Policy, error) {
	var all []*policy.Policy
	for _, ref := range b.PolicyRefs() {
		p := e.policies[ref]
		if p == nil {
			kind := schema.GroupVersionKind{Group: policyGroup, Version: "v1", Kind: ref.Kind}
			if ref.Kind == string(policy.Admission) {
				kind = apischema.FromAPIVersionAndKind(policy.Dialect, ref.Kind)
			}
			object, err := e.cluster.Get(ctx, kind, "", ref.Name)
			if err != nil {
				return nil, err
			}
			if object == nil {
				return nil, errors.New("not found")
			}
			if p, _, err = policy.FromObject(object, nil); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// mayBind returns an error unless the user may bind a policy in the namespace of a binding: with the verb bind, as for
// roles (RBAC requires it for writing a RoleBinding).
func (e *Engine) mayBind(ctx context.Context, b *policy.Binding, req *Request) *field.Error {
	who := userOf(req)
	for i, ref := range b.PolicyRefs() {
		asked := authorize(ctx, e.cluster.Authorizer(), authorizer.AttributesRecord{User: who, Verb: "bind",
			Namespace: b.Namespace, APIGroup: policy.OwnGroup, APIVersion: "*", Resource: "admissionpolicies", Name: ref.Name,
			ResourceRequest: true})
		if asked.err == nil && asked.decision == authorizer.DecisionAllow {
			continue
		}
		if asked.err != nil {
			return field.Forbidden(b.PolicyPath(i), asked.err.Error())
		}
		return field.Forbidden(b.PolicyPath(i), fmt.Sprintf("user %v must have \"bind\" permission on the AdmissionPolicy %s in namespace %s", who,
			ref.Name, b.Namespace))
	}
	return nil
}

// invalidStatus returns the server's refusal of a policy or binding, in the words of its minor.
func (e *Engine) invalidStatus(of policy.Ref, errs field.ErrorList) *metav1.Status {
	if family, _ := policy.KindOf(of.Kind); family != policy.Admission && !e.standsIn {
		errs = quirks.PolicyRefusals(e.minor, errs)
	}
	return of.Invalid(errs)
}
