package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	selectorvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/locals"
)

// Limits of pkg/apis/admissionregistration/validation/validation.go v1.37.2.
const (
	maxMatchConditions    = 64
	maxAuditAnnotations   = 20
	maxAuditAnnotationSrc = 5 * 1024
	reservedSuffix        = ".static.k8s.io"
)

// Allowed values of enumerated fields, in the server's order.
var (
	failurePolicies      = []FailurePolicy{Fail, Ignore}
	matchPolicies        = []MatchPolicy{Equivalent, Exact}
	reinvocationPolicies = []ReinvocationPolicy{IfNeeded, Never}
	patchTypes           = []PatchType{ApplyConfiguration, JSONPatch}
	actions              = []Action{Audit, Deny, Warn}
	notFoundActions      = []NotFoundAction{NotFoundDeny, NotFoundAllow}
	operations           = []word{"*", "CONNECT", "CREATE", "DELETE", "UPDATE"}
	mutatingOperations   = []word{"*", "CONNECT", "CREATE", "UPDATE"}
	scopes               = []word{"*", "Cluster", "Namespaced"}
	reasons              = []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
		metav1.StatusReasonRequestEntityTooLarge}
)

// A word is a string that messages print as JSON, like every enumerated value of the API.
type word string

// ValidatePolicy returns the server's errors about p when p is created, with its messages, field paths and order
// (pkg/apis/admissionregistration/validation/validation.go and pkg/registry/admissionregistration v1.37.2). Where the
// server's order is random, among the entries of a map, they are sorted. One rule is not the server's: the names of
// variables must differ.
//
// The argument compile compiles an expression as the server does when the policy is written, and returns the error: the
// server's text as Detail of a [field.Invalid], or of a [field.InternalError] if the server does not blame the
// expression, for example if it cannot be made a program. It is called in the server's order: match conditions,
// variables, then the rest, so that an expression may use the variables before it. Like the server, it gets the text of
// match conditions, audit annotations and mutations without surrounding white space. If compile is nil, nothing is
// compiled.
func ValidatePolicy(p *Policy, compile func(Part) *field.Error) field.ErrorList {
	v := validator{compile: compile}
	v.policy(p, nil)
	v.refuseReserved(p.Name)
	return v.distinct()
}

// ValidatePolicyUpdate returns the server's errors about p when p replaces old; see [ValidatePolicy]. A nil old is
// unknown, as for a stored policy: then none of p's expressions counts as unchanged.
func ValidatePolicyUpdate(p, old *Policy, compile func(Part) *field.Error) field.ErrorList {
	v := validator{compile: compile}
	v.policy(p, old)
	return v.distinct()
}

func (v *validator) policy(p, old *Policy) {
	v.metadata(p.Name, p.Metadata)
	spec := field.NewPath("spec")
	oneOf(v, spec.Child("failurePolicy"), p.FailurePolicy, failurePolicies)
	if p.ParamKind != nil {
		v.paramKind(p.ParamKind, spec.Child("paramKind"))
	}
	constraints := spec.Child("matchConstraints")
	if m := p.Source().MatchConstraints; m != nil {
		v.matchResources(m, constraints)
		v.ownMatch(m, constraints)
		if len(m.ResourceRules) == 0 && !p.Abstract {
			v.add(field.Required(constraints.Child("resourceRules"), ""))
		}
		if p.Mutates() && !p.Validates() {
			v.mutatingOperations(m, constraints)
		}
	} else if !p.Abstract {
		v.add(field.Required(constraints, ""))
	}
	if old == nil || !sameConditions(p, old) {
		v.matchConditions(p.MatchConditions, spec.Child("matchConditions"))
	}
	if old != nil && (p.Singleton != nil) != (old.Singleton != nil) {
		v.add(field.Invalid(spec.Child("singletonPolicy"), p.Singleton != nil, "field is immutable"))
	}
	if p.Kind == Admission {
		v.checkLinks(p, spec)
	}
	v.variables(p.Variables, spec.Child("variables"))
	switch p.Kind {
	case Mutating:
		v.checkMutating(p, spec)
	case Validating:
		v.checkValidating(p, spec)
	default:
		v.admission(p, spec)
	}
}

// sameConditions reports whether an update keeps the match conditions and the declarations that they may use. The
// server does not compile unchanged conditions again.
func sameConditions(p, old *Policy) bool {
	if (p.ParamKind == nil) != (old.ParamKind == nil) || p.ParamKind != nil && *p.ParamKind != *old.ParamKind {
		return false
	}
	return slices.EqualFunc(p.MatchConditions, old.MatchConditions, func(a, b NamedExpr) bool {
		return a.Name == b.Name && a.Expr.Src == b.Expr.Src
	})
}

// ValidateBinding returns the server's errors about b when b is created; see [ValidatePolicy].
func ValidateBinding(b *Binding) field.ErrorList {
	v := &validator{}
	v.checkBinding(b)
	v.refuseReserved(b.Name)
	return v.applyDeclarative(b)
}

// ValidateBindingUpdate returns the server's errors about b when b replaces another binding.
func ValidateBindingUpdate(b *Binding) field.ErrorList {
	v := &validator{}
	v.checkBinding(b)
	return v.applyDeclarative(b)
}

func (v *validator) checkBinding(b *Binding) {
	name := b.Name
	if b.Namespace != "" {
		name = b.Metadata.Name
		v.checkNamespaced(b, field.NewPath("spec"))
	}
	v.metadata(name, b.Metadata)
	spec := field.NewPath("spec")
	policyName := spec.Child("policyName")
	switch {
	case b.PolicyName != "":
		v.texts(policyName, b.PolicyName, metavalidation.NameIsDNSSubdomain(b.PolicyName, false))
	case b.Kind == Mutating:
		v.add(field.Required(policyName, ""))
	}
	if b.ParamRef != nil {
		allowed := notFoundActions
		if b.Kind == Admission {
			allowed = append(slices.Clone(allowed), NotFoundDefault)
		}
		v.paramRef(b.ParamRef, allowed, spec.Child("paramRef"))
	}
	if b.MatchResources != nil {
		v.matchResources(b.MatchResources, spec.Child("matchResources"))
		v.ownMatch(b.MatchResources, spec.Child("matchResources"))
		if b.Kind == Mutating {
			v.mutatingOperations(b.MatchResources, spec.Child("matchResources"))
		}
	}
	if b.Kind != Mutating {
		v.actions(b.Actions, spec.Child("validationActions"))
	}
	if b.Kind == Admission {
		v.policies(b, spec)
		v.visibility(b.Visibility, spec.Child("visibility"))
		v.mutationActions(b.MutationActions, spec.Child("mutationActions"))
		v.enforcement(b, spec.Child("enforcement"))
	}
}

// applyDeclarative adds the errors of the server's declarative rules, which come last
// (pkg/apis/admissionregistration/v1/zz_generated.validations.go v1.37.2).
func (v *validator) applyDeclarative(b *Binding) field.ErrorList {
	spec := field.NewPath("spec")
	policyName := spec.Child("policyName")
	if b.Kind != Mutating && b.PolicyName == "" && len(b.Policies) == 0 {
		v.add(field.Required(policyName, ""))
	}
	if b.Kind != Mutating && len(b.Actions) == 0 {
		v.add(field.Required(spec.Child("validationActions"), ""))
	}
	return v.distinct()
}

// Invalid returns the server's answer, of code 422, to an object with errs.
func (r Ref) Invalid(errs field.ErrorList) *metav1.Status {
	of := schema.GroupKind{Group: group, Kind: r.Kind}
	if family, _ := KindOf(r.Kind); family == Admission || r.Kind == LibraryKind {
		of.Group = OwnGroup
	}
	status := apierrors.NewInvalid(of, r.Name, errs).Status()
	return &status
}

// UnservedReason returns the error of kubectl if a server does not serve a kind in apiVersion; "" if it serves it. The
// function versions returns the versions in which a kind is served by default, and those that flags can enable. A kind
// with only the latter counts as enabled. If not even ValidatingAdmissionPolicies are known, the result is "". Objects
// of [OwnGroup] are served by their CustomResourceDefinition.
func UnservedReason(apiVersion, kind, minor string,
	versions func(schema.GroupKind) (served, optional []string)) string {
	version, native := strings.CutPrefix(apiVersion, group+"/")
	served, optional := versions(schema.GroupKind{Group: group, Kind: kind})
	if len(served) == 0 {
		served = optional
	}
	if !native || slices.Contains(served, version) {
		return ""
	}
	message := fmt.Sprintf("no matches for kind %q in version %q: Kubernetes %s ", kind, apiVersion, minor)
	if len(served) > 0 {
		return message + fmt.Sprintf("serves it in %s/%s", group, strings.Join(served, ", "+group+"/"))
	}
	if known, _ := versions(schema.GroupKind{Group: group, Kind: string(Validating)}); len(known) == 0 {
		return ""
	}
	return message + "does not serve it"
}

// A validator collects the errors of one object.
type validator struct {
	compile func(Part) *field.Error // may be nil
	static  bool                    // a file, to which the server does not add values
	errs    field.ErrorList
}

func (v *validator) add(errs ...*field.Error) { v.errs = append(v.errs, errs...) }

// distinct returns the errors without those that read like one before
// (apiserver pkg/registry/rest/validate.go v0.37.2: field.ErrorList.Filter aggregates).
func (v *validator) distinct() field.ErrorList {
	seen := map[string]bool{}
	return slices.DeleteFunc(v.errs, func(err *field.Error) bool {
		text := err.Error()
		repeated := seen[text]
		seen[text] = true
		return repeated
	})
}

// texts adds one error about value for each text.
func (v *validator) texts(path *field.Path, value string, texts []string) {
	for _, text := range texts {
		v.add(field.Invalid(path, value, text))
	}
}

// oneOf adds an error unless value is one of those allowed.
func oneOf[T ~string](v *validator, path *field.Path, value T, allowed []T) {
	if !slices.Contains(allowed, value) {
		v.add(field.NotSupported(path, value, allowed))
	}
}

// metadata checks metadata as the server does on create, after it has set the members that a client may not set
// (apiserver pkg/registry/rest/{create,meta}.go v0.37.2).
func (v *validator) metadata(name string, meta metav1.ObjectMeta) {
	path := field.NewPath("metadata")
	if v.static {
		meta.Name = name
		v.add(metavalidation.ValidateObjectMeta(&meta, false, metavalidation.NameIsDNSSubdomain, path)...)
		return
	}
	names := metav1.ObjectMeta{Name: name, GenerateName: meta.GenerateName}
	v.add(metavalidation.ValidateObjectMeta(&names, false, metavalidation.NameIsDNSSubdomain, path)...)
	v.labels(meta.Labels, path.Child("labels"))
	annotations := path.Child("annotations")
	for _, key := range slices.Sorted(maps.Keys(meta.Annotations)) {
		v.add(metavalidation.ValidateAnnotations(map[string]string{key: ""}, annotations)...)
	}
	if metavalidation.ValidateAnnotationsSize(meta.Annotations) != nil {
		v.add(field.TooLong(annotations, "", metavalidation.TotalAnnotationSizeLimitB))
	}
	v.add(metavalidation.ValidateOwnerReferences(meta.OwnerReferences, path.Child("ownerReferences"))...)
	v.add(metavalidation.ValidateFinalizers(meta.Finalizers, path.Child("finalizers"))...)
}

func (v *validator) labels(labels map[string]string, path *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		v.add(selectorvalidation.ValidateLabels(map[string]string{key: labels[key]}, path)...)
	}
}

// refuseReserved refuses names reserved for policies in files of the server.
func (v *validator) refuseReserved(name string) {
	if strings.HasSuffix(name, reservedSuffix) {
		v.add(field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf(
			"names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", reservedSuffix)))
	}
}

func (v *validator) paramKind(k *ParamKind, path *field.Path) {
	apiVersion := path.Child("apiVersion")
	slash := strings.Index(k.APIVersion, "/")
	groupName, version := "", k.APIVersion
	if slash >= 0 {
		groupName, version = k.APIVersion[:slash], k.APIVersion[slash+1:]
	}
	switch {
	case k.APIVersion == "":
		v.add(field.Required(apiVersion, ""))
	case strings.Contains(version, "/"):
		v.add(field.Invalid(apiVersion, k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion))
	default:
		if groupName != "" {
			v.addJoined(apiVersion, groupName, "", validation.IsDNS1123Subdomain(groupName))
		}
		if version == "" {
			v.add(field.Invalid(apiVersion, k.APIVersion, "version must be specified"))
		} else {
			v.addJoined(apiVersion, version, "", validation.IsDNS1035Label(version))
		}
	}
	if kind := path.Child("kind"); k.Kind == "" {
		v.add(field.Required(kind, ""))
	} else {
		v.addJoined(kind, k.Kind, "may have mixed case, but should otherwise match: ",
			validation.IsDNS1035Label(strings.ToLower(k.Kind)))
	}
}

// addJoined adds a single error about value with all texts.
func (v *validator) addJoined(path *field.Path, value, prefix string, texts []string) {
	if len(texts) > 0 {
		v.add(field.Invalid(path, value, prefix+strings.Join(texts, ",")))
	}
}

func (v *validator) matchResources(m *MatchResources, path *field.Path) {
	oneOf(v, path.Child("matchPolicy"), m.MatchPolicy, matchPolicies)
	v.requiredSelector(m.NamespaceSelector, path.Child("namespaceSelector"))
	v.requiredSelector(m.ObjectSelector, path.Child("objectSelector"))
	for i, r := range m.ResourceRules {
		v.rule(r, path.Child("resourceRules").Index(i))
	}
	for i, r := range m.ExcludeRules {
		v.rule(r, path.Child("excludeResourceRules").Index(i))
	}
}

func (v *validator) requiredSelector(s *metav1.LabelSelector, path *field.Path) {
	if s == nil {
		v.add(field.Required(path, ""))
		return
	}
	v.selector(s, path)
}

func (v *validator) selector(s *metav1.LabelSelector, path *field.Path) {
	v.labels(s.MatchLabels, path.Child("matchLabels"))
	expressions := metav1.LabelSelector{MatchExpressions: s.MatchExpressions}
	v.add(selectorvalidation.ValidateLabelSelector(&expressions, selectorvalidation.LabelSelectorValidationOptions{},
		path)...)
}

func (v *validator) rule(r Rule, path *field.Path) {
	for i, name := range r.ResourceNames {
		at := path.Child("resourceNames").Index(i)
		v.texts(at, name, content.IsPathSegmentName(name))
		if slices.Contains(r.ResourceNames[:i], name) {
			v.add(field.Duplicate(at, name))
		}
	}
	type OperationType string // named as that of the server, which older minors print
	wildcardList(v, listOf[OperationType](r.Operations), path.Child("operations"), "operations")
	for i, op := range r.Operations {
		oneOf(v, path.Child("operations").Index(i), word(op), operations)
	}
	wildcardList(v, r.APIGroups, path.Child("apiGroups"), "API groups")
	wildcardList(v, r.APIVersions, path.Child("apiVersions"), "API versions")
	for i, version := range r.APIVersions {
		if version == "" {
			v.add(field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	v.resources(r.Resources, path.Child("resources"))
	oneOf(v, path.Child("scope"), word(r.Scope), scopes)
}

func listOf[S ~string](texts []string) []S {
	var all []S
	for _, text := range texts {
		all = append(all, S(text))
	}
	return all
}

// wildcardList requires at least one item, and "*" only alone.
func wildcardList[S ~string](v *validator, items []S, path *field.Path, what string) {
	switch {
	case len(items) == 0:
		v.add(field.Required(path, ""))
	case len(items) > 1 && slices.Contains(items, "*"):
		v.add(field.Invalid(path, items, "if '*' is present, must not specify other "+what))
	}
}

// resources refuses resources that a wildcard covers, as far as the server checks: an overlap of subresources only
// after the wildcard, and "*" with plain resources only if the last plain item is not "*".
func (v *validator) resources(items []string, path *field.Path) {
	if len(items) == 0 {
		v.add(field.Required(path, ""))
	}
	lastPlain := "*"
	for i, item := range items {
		resource, sub, isSub := strings.Cut(item, "/")
		switch {
		case item == "":
			v.add(field.Required(path.Index(i), ""))
		case !isSub:
			lastPlain = item
		default:
			for _, wildcard := range []string{resource + "/*", "*/" + sub} {
				if slices.Contains(items[:i], wildcard) {
					v.add(field.Invalid(path.Index(i), item,
						fmt.Sprintf("if '%s' is present, must not specify %s", wildcard, item)))
				}
			}
		}
	}
	if len(items) > 1 && slices.Contains(items, "*/*") {
		v.add(field.Invalid(path, items, "if '*/*' is present, must not specify other resources"))
	}
	if lastPlain != "*" && slices.Contains(items, "*") {
		v.add(field.Invalid(path, items, "if '*' is present, must not specify other resources without subresources"))
	}
}

// mutatingOperations refuses operations that cannot be mutated; the server's path does not have indices.
func (v *validator) mutatingOperations(m *MatchResources, path *field.Path) {
	for _, r := range m.ResourceRules {
		for _, op := range r.Operations {
			oneOf(v, path.Child("resourceRules", "operations"), word(op), mutatingOperations)
		}
	}
}

func (v *validator) matchConditions(conditions []NamedExpr, path *field.Path) {
	if len(conditions) > maxMatchConditions {
		v.add(field.TooMany(path, len(conditions), maxMatchConditions))
	}
	seen := map[string]bool{}
	for i, c := range conditions {
		at := path.Index(i)
		v.checkTrimmed(UseMatchCondition, "", c.Expr, at.Child("expression"))
		if c.Name == "" {
			v.add(field.Required(at.Child("name"), ""))
			continue
		}
		v.texts(at.Child("name"), c.Name, validation.IsQualifiedName(c.Name))
		if seen[c.Name] {
			v.add(field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
	}
}

// checkTrimmed checks a required expression, compiled and printed without surrounding white space.
func (v *validator) checkTrimmed(use Use, locals string, x Expr, path *field.Path) {
	if x = x.trim(); x.Src == "" {
		v.add(field.Required(path, ""))
		return
	}
	v.expression(use, locals, x, path)
}

// expression checks an expression that is not blank.
func (v *validator) expression(use Use, locals string, x Expr, path *field.Path) {
	v.checkCompiled(Part{Expr: x, Use: use, Locals: locals}, x.Src, path)
}

// checkCompiled adds the error of an expression that does not compile, with the text as written.
func (v *validator) checkCompiled(x Part, written string, path *field.Path) {
	if v.compile == nil {
		return
	}
	switch err := v.compile(x); {
	case err == nil:
	case err.Type == field.ErrorTypeInternal:
		v.add(field.InternalError(path, errors.New(err.Detail)))
	default:
		v.add(field.Invalid(path, written, err.Detail))
	}
}

// variables also refuses a duplicate name, which the server does not: there it is undefined which of the two an
// expression reads.
func (v *validator) variables(variables []NamedExpr, path *field.Path) {
	seen := map[string]bool{}
	theirs := 0 // of libraries
	for i, x := range variables {
		if x.Library != "" {
			v.libraryVariable(x)
			theirs++
			continue
		}
		i -= theirs
		name, expression := path.Index(i).Child("name"), path.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(x.Name) == "":
			v.add(field.Required(name, "name is not specified"))
		case !locals.IsIdentifier(x.Name):
			v.add(field.Invalid(name, x.Name, "must be a valid CEL identifier"))
		}
		switch {
		case strings.TrimSpace(x.Expr.Src) == "":
			v.add(field.Required(expression, "expression is not specified"))
		case !seen[x.Name]:
			v.checkCompiled(Part{Expr: x.Expr, Use: UseVariable, Name: x.Name}, x.Expr.Src, expression)
		}
		if x.Name != "" && seen[x.Name] {
			duplicate := field.Duplicate(name, x.Name)
			duplicate.Detail = "each variable must have a name of its own"
			v.add(duplicate)
		}
		seen[x.Name] = true
	}
}

// checkValidating checks the members of a ValidatingAdmissionPolicy.
func (v *validator) checkValidating(p *Policy, spec *field.Path) {
	validations, annotations := spec.Child("validations"), spec.Child("auditAnnotations")
	if len(p.Validations) == 0 && len(p.AuditAnnotations) == 0 {
		const detail = "validations or auditAnnotations must contain at least one item"
		v.add(field.Required(validations, detail), field.Required(annotations, detail))
		return
	}
	for i, x := range p.Validations {
		v.validation(x, validations.Index(i))
		if x.Reason != "" || x.emptyReason {
			oneOf(v, validations.Index(i).Child("reason"), x.Reason, reasonsOf(p.Kind))
		}
	}
	if len(p.AuditAnnotations) > maxAuditAnnotations {
		v.add(field.Invalid(annotations, shownAnnotations(p.AuditAnnotations),
			fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	seen := map[string]bool{}
	for i, a := range p.AuditAnnotations {
		v.auditAnnotation(p.Name, a, annotations.Index(i))
		if seen[a.Name] {
			v.add(field.Duplicate(annotations.Index(i).Child("key"), a.Name))
		}
		seen[a.Name] = true
	}
}

func (v *validator) validation(x Validation, path *field.Path) {
	v.scope(x.ParsedScope(), path.Child("scope"))
	if expression := path.Child("expression"); strings.TrimSpace(x.Expr.Src) == "" {
		v.add(field.Required(expression, "expression is not specified"))
	} else {
		v.expression(UseValidation, x.Locals(), x.Expr, expression)
	}
	v.message(x.Message, x.MessageExpr, x.Locals(), path)
}

// message checks message and messageExpression.
func (v *validator) message(text string, expr Expr, locals string, path *field.Path) {
	const blank = "must be non-empty if specified"
	if src, expression := expr.Src, path.Child("messageExpression"); strings.TrimSpace(src) != "" {
		v.expression(UseMessageExpression, locals, expr, expression)
	} else if src != "" {
		v.add(field.Invalid(expression, src, blank))
	}
	message := strings.TrimSpace(text)
	if text != "" && message == "" {
		v.add(field.Invalid(path.Child("message"), text, blank))
	} else if strings.ContainsAny(message, "\n\r") {
		v.add(field.Invalid(path.Child("message"), text, "must not contain line breaks"))
	}
}

func (v *validator) auditAnnotation(policyName string, a NamedExpr, path *field.Path) {
	key, value := path.Child("key"), path.Child("valueExpression")
	if policyName == "" {
		v.add(field.Invalid(key, a.Name, "requires metadata.name be non-empty"))
	} else {
		name := policyName + "/" + a.Name
		v.texts(key, name, validation.IsQualifiedName(name))
	}
	switch x := a.Expr.trim(); {
	case x.Src == "":
		v.add(field.Required(value, "valueExpression is not specified"))
	case len(x.Src) > maxAuditAnnotationSrc:
		v.add(field.Required(value, fmt.Sprintf("must not exceed %d bytes in length", maxAuditAnnotationSrc)))
	default:
		v.checkCompiled(Part{Expr: x, Use: UseAuditAnnotation}, a.Expr.Src, value)
	}
}

// shownAnnotations returns the form in which the server's messages print audit annotations, in a type named as the
// server's, which older minors print.
func shownAnnotations(annotations []NamedExpr) any {
	type AuditAnnotation struct{ Key, ValueExpression string }
	var out []AuditAnnotation
	for _, a := range annotations {
		out = append(out, AuditAnnotation{a.Name, a.Expr.Src})
	}
	return out
}

// checkMutating checks the members of a MutatingAdmissionPolicy.
func (v *validator) checkMutating(p *Policy, spec *field.Path) {
	v.mutations(p, spec.Child("mutations"))
	if path := spec.Child("reinvocationPolicy"); p.Reinvocation == "" {
		v.add(field.Required(path, ""))
	} else {
		oneOf(v, path, p.Reinvocation, reinvocationPolicies)
	}
}

func (v *validator) mutations(p *Policy, path *field.Path) {
	mutations := p.Mutations
	if len(mutations) == 0 {
		v.add(field.Required(path, "mutations must contain at least one item"))
	}
	allowed := patchTypes
	if p.Kind == Admission {
		allowed = append(slices.Clone(allowed), JSONMergePatch)
	}
	for i, m := range mutations {
		at := path.Index(i)
		switch {
		case m.PatchType == "":
			v.add(field.Required(at.Child("patchType"), ""))
		case m.PatchType == ApplyConfiguration:
			v.member(m, at, "applyConfiguration", cmp.Or(m.other, "jsonPatch"))
		case m.PatchType == JSONPatch:
			v.member(m, at, "jsonPatch", cmp.Or(m.other, "applyConfiguration"))
		case slices.Contains(allowed, m.PatchType):
			v.member(m, at, "jsonMergePatch", m.other)
		default:
			oneOf(v, at.Child("patchType"), m.PatchType, allowed)
		}
	}
}

// member checks that a mutation has the member for its patchType and not the other one.
func (v *validator) member(m Mutation, path *field.Path, named, other string) {
	if m.absent {
		v.add(field.Required(path.Child(named), "must be specified when patchType is "+string(m.PatchType)))
	} else {
		v.checkTrimmed(m.Use(), m.Locals(), m.Expr, path.Child(named, "expression"))
	}
	if m.extra {
		v.add(field.Invalid(path.Child(other), "{"+other+"}",
			"must not be specified when patchType is "+string(m.PatchType)))
	}
}

func (v *validator) paramRef(r *ParamRef, notFound []NotFoundAction, path *field.Path) {
	const exclusive = "name and selector are mutually exclusive"
	both := r.Name != "" && r.Selector != nil
	if r.Name != "" {
		v.texts(path.Child("name"), r.Name, content.IsPathSegmentName(r.Name))
	}
	if both {
		v.add(field.Forbidden(path.Child("name"), exclusive))
	}
	if r.Selector != nil {
		v.selector(r.Selector, path.Child("selector"))
	}
	if both {
		v.add(field.Forbidden(path.Child("selector"), exclusive))
	}
	if r.Name == "" && r.Selector == nil {
		v.add(field.Required(path, "one of name or selector must be specified"))
	}
	if action := path.Child("parameterNotFoundAction"); r.NotFoundAction == "" {
		v.add(field.Required(action, ""))
	} else {
		oneOf(v, action, r.NotFoundAction, notFound)
	}
}

func (v *validator) actions(list []Action, path *field.Path) {
	for i, a := range list {
		oneOf(v, path.Index(i), a, actions)
		if slices.Contains(list[:i], a) {
			v.add(field.Duplicate(path.Index(i), a))
		}
	}
	if slices.Contains(list, Deny) && slices.Contains(list, Warn) {
		v.add(field.Invalid(path, list, "must not contain both Deny and Warn "+
			"(repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
}
