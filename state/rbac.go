package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// authorize answers as the authorizer chain of kube-apiserver with the single mode RBAC:
// pkg/kubeapiserver/authorizer/reload.go (system:masters before every mode, reasons of modes without an opinion
// prefixed by their name), and plugin/pkg/auth/authorizer/rbac/rbac.go v1.37.2. If the order of bindings is undefined
// on the server, this visits them by name, so that the reason is always the same.
func (c *Cluster) authorize(_ context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	who := request.GetUser()
	if who == nil {
		return authorizer.DecisionNoOpinion, "", errors.New("no user on request")
	}
	if slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	a := c.access()
	var unresolved []error
	for _, b := range a.bindingsFor(request.GetNamespace()) {
		subject := b.subjectFor(who)
		if subject == nil {
			continue
		}
		rules, err := a.rulesOf(b)
		if err != nil {
			unresolved = append(unresolved, err)
			continue
		}
		if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return allows(&r, request) }) {
			return authorizer.DecisionAllow, "RBAC: allowed by " + b.grantTo(subject), nil
		}
	}
	if len(unresolved) > 0 {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("rbac: RBAC: %v", utilerrors.NewAggregate(unresolved)), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// access holds the permissions that the RBAC objects of a cluster grant.
type access struct {
	roles           map[string][]rbacv1.PolicyRule // by namespace/name
	clusterRoles    map[string][]rbacv1.PolicyRule
	bindings        map[string][]*binding // by namespace, each sorted by name
	clusterBindings []*binding            // sorted by name
}

// A binding is a RoleBinding, or a ClusterRoleBinding when its namespace is empty.
type binding struct {
	namespace, name string
	role            rbacv1.RoleRef
	subjects        []rbacv1.Subject
}

// newAccess reads the RBAC objects of the cluster, which checkDecodable has accepted.
func (c *Cluster) newAccess() *access {
	a := &access{
		roles:        map[string][]rbacv1.PolicyRule{},
		clusterRoles: map[string][]rbacv1.PolicyRule{},
		bindings:     map[string][]*binding{},
	}
	for _, role := range decodeAll[rbacv1.Role](c, "Role") {
		a.roles[role.Namespace+"/"+role.Name] = role.Rules
	}
	for _, role := range aggregate(decodeAll[rbacv1.ClusterRole](c, "ClusterRole")) {
		a.clusterRoles[role.Name] = role.Rules
	}
	for _, b := range decodeAll[rbacv1.RoleBinding](c, "RoleBinding") {
		a.bindings[b.Namespace] = append(a.bindings[b.Namespace], &binding{b.Namespace, b.Name, b.RoleRef, b.Subjects})
	}
	for _, b := range decodeAll[rbacv1.ClusterRoleBinding](c, "ClusterRoleBinding") {
		a.clusterBindings = append(a.clusterBindings, &binding{"", b.Name, b.RoleRef, b.Subjects})
	}
	return a
}

// decodeAll returns the objects of one kind of rbac.authorization.k8s.io/v1, sorted by namespace and name.
func decodeAll[T any](c *Cluster, kind string) []*T {
	objects, err := c.List(context.Background(), rbacv1.SchemeGroupVersion.WithKind(kind), "")
	if err != nil {
		return nil // an object of a version that RBAC does not have; checkDecodable has refused it
	}
	var all []*T
	for _, object := range objects {
		decoded := new(T)
		if decode(object, decoded) == nil {
			all = append(all, decoded)
		}
	}
	return all
}

func decode(object map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}

// checkDecodable returns an error for an invalid RBAC object, and nil for objects of other groups.
func checkDecodable(r row) error {
	if r.kind.Group != rbacv1.GroupName {
		return nil
	}
	var into any
	switch r.kind.Kind {
	case "Role":
		into = new(rbacv1.Role)
	case "ClusterRole":
		into = new(rbacv1.ClusterRole)
	case "RoleBinding":
		into = new(rbacv1.RoleBinding)
	case "ClusterRoleBinding":
		into = new(rbacv1.ClusterRoleBinding)
	default:
		return nil
	}
	if r.kind.Version != rbacv1.SchemeGroupVersion.Version {
		return fmt.Errorf("the API has no version %s, use %s", r.kind.GroupVersion(), rbacv1.SchemeGroupVersion)
	}
	return decode(r.object, into)
}

// aggregate sets the rules of cluster roles with an aggregationRule, as pkg/controller/clusterroleaggregation v1.37.2
// does until nothing changes: the rules of the selected roles in the order of selectors and names, without duplicates.
// Rules beside an aggregationRule are lost. A role with an invalid selector keeps its rules.
func aggregate(roles []*rbacv1.ClusterRole) []*rbacv1.ClusterRole {
	var aggregated []*rbacv1.ClusterRole
	sources := map[*rbacv1.ClusterRole][]*rbacv1.ClusterRole{}
	for _, role := range roles {
		if role.AggregationRule == nil {
			continue
		}
		if selected, err := selectRoles(role, roles); err == nil {
			sources[role] = selected
			aggregated = append(aggregated, role)
		}
	}
	for range len(aggregated) + 1 { // the longest chain has as many roles as exist; a cycle settles or never does
		settled := true
		for _, role := range aggregated {
			rules := union(sources[role])
			if !slices.EqualFunc(rules, role.Rules,
				func(a, b rbacv1.PolicyRule) bool { return ruleKey(a) == ruleKey(b) }) {
				role.Rules = rules
				settled = false
			}
		}
		if settled {
			break
		}
	}
	return roles
}

// selectRoles returns the roles whose rules the role aggregates, by selector and name.
func selectRoles(role *rbacv1.ClusterRole, roles []*rbacv1.ClusterRole) ([]*rbacv1.ClusterRole, error) {
	var selected []*rbacv1.ClusterRole
	for _, s := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			return nil, err
		}
		for _, other := range roles {
			if other != role && selector.Matches(labels.Set(other.Labels)) {
				selected = append(selected, other)
			}
		}
	}
	return selected, nil
}

// union returns the rules of the roles, without duplicates.
func union(roles []*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	seen := map[string]bool{}
	for _, role := range roles {
		for _, rule := range role.Rules {
			if key := ruleKey(rule); !seen[key] {
				seen[key] = true
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// ruleKey is equal for semantically equal rules.
func ruleKey(r rbacv1.PolicyRule) string {
	return fmt.Sprintf("%q %q %q %q %q", r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs)
}

// bindingsFor returns the bindings that apply to a request in the namespace, cluster role bindings first.
func (a *access) bindingsFor(namespace string) []*binding {
	if namespace == "" || len(a.bindings[namespace]) == 0 {
		return a.clusterBindings
	}
	return slices.Concat(a.clusterBindings, a.bindings[namespace])
}

// rulesOf returns the rules that a binding grants. The error has the text of the server's lister.
func (a *access) rulesOf(b *binding) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var found bool
	switch b.role.Kind {
	case "Role":
		if b.namespace == "" { // the registry refuses such a binding
			return nil, errors.New("must provide namespace when getting role")
		}
		rules, found = a.roles[b.namespace+"/"+b.role.Name]
	case "ClusterRole":
		rules, found = a.clusterRoles[b.role.Name]
	default:
		return nil, fmt.Errorf("unsupported role reference kind: %q", b.role.Kind)
	}
	if !found {
		return nil, fmt.Errorf("%s.%s %q not found", strings.ToLower(b.role.Kind), rbacv1.GroupName, b.role.Name)
	}
	return rules, nil
}

// subjectFor returns the first subject that describes the user, or nil.
func (b *binding) subjectFor(who user.Info) *rbacv1.Subject {
	for i := range b.subjects {
		s := &b.subjects[i]
		var is bool
		switch s.Kind {
		case rbacv1.UserKind:
			is = who.GetName() == s.Name
		case rbacv1.GroupKind:
			is = slices.Contains(who.GetGroups(), s.Name)
		case rbacv1.ServiceAccountKind:
			namespace := s.Namespace
			if namespace == "" {
				namespace = b.namespace
			}
			is = namespace != "" && serviceaccount.MatchesUsername(namespace, s.Name, who.GetName())
		}
		if is {
			return s
		}
	}
	return nil
}

// grantTo describes the binding to the subject, with the text and the unusual order (name before namespace) of
// pkg/registry/rbac/validation/rule.go v1.37.2.
func (b *binding) grantTo(s *rbacv1.Subject) string {
	kind, name := "ClusterRoleBinding", b.name
	if b.namespace != "" {
		kind, name = "RoleBinding", b.name+"/"+b.namespace
	}
	subject := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		if s.Namespace != "" {
			subject += "/" + s.Namespace
		} else {
			subject += "/" + b.namespace
		}
	}
	return fmt.Sprintf("%s %q of %s %q to %s %q", kind, name, b.role.Kind, b.role.Name, s.Kind, subject)
}

// allows reports whether a rule allows a request, as RuleAllows of plugin/pkg/auth/authorizer/rbac/rbac.go v1.37.2.
func allows(rule *rbacv1.PolicyRule, request authorizer.Attributes) bool {
	if !listHas(rule.Verbs, request.GetVerb()) {
		return false
	}
	if !request.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs,
			func(url string) bool { return coversURL(url, request.GetPath()) })
	}
	name := request.GetName()
	return listHas(rule.APIGroups, request.GetAPIGroup()) &&
		coversResource(rule.Resources, request.GetResource(), request.GetSubresource()) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name))
}

// listHas reports whether the list contains the value or "*".
func listHas(list []string, value string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}

// coversResource reports whether one of the resources of a rule covers a resource and subresource. "*" also covers
// subresources, "*/scale" those of every resource; "pods/*" does not cover any.
func coversResource(resources []string, resource, subresource string) bool {
	if subresource == "" {
		return listHas(resources, resource)
	}
	return listHas(resources, resource+"/"+subresource) || slices.Contains(resources, "*/"+subresource)
}

// coversURL reports whether a URL of a rule, which may end in "*", covers a path.
func coversURL(url, path string) bool {
	if url == path {
		return true
	}
	prefix, ok := strings.CutSuffix(url, "*")
	return ok && strings.HasPrefix(path, strings.TrimRight(prefix, "*"))
}
