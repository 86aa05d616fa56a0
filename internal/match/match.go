// Package match decides whether a policy or binding is for a request, and says why not.
//
// The order of the steps and of their errors is that of pkg/admission/plugin/policy/matching/matching.go and
// pkg/admission/plugin/webhook/predicates v0.37.2.
package match

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// Attributes are what is matched: one request.
type Attributes struct {
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string
	Namespace   string // a Namespace has its own name
	Name        string // empty with generateName
	Operation   string // CREATE, UPDATE, DELETE or CONNECT
	Object      map[string]any
	OldObject   map[string]any

	User   string // who makes the request
	Groups []string
}

// A World is what matching needs to know beyond the request.
type World struct {
	Types *schema.Registry
	// Namespace returns a namespace object; the error of one that does not exist is the server's NotFound.
	Namespace func(name string) (map[string]any, error)
	// Permitted reports what the user may do. Only the dialect asks.
	Permitted func(policy.Permission) bool
}

// A Result says whether the request matched.
type Result struct {
	Matched bool
	// Resource and Kind are what it matched as, with matchPolicy Equivalent not always what was requested.
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// By is what did not match.
	By Matcher

	own *own // the field of the dialect that By is
}

// Reason says in words why a did not match.
func (r Result) Reason(a *Attributes) string {
	if r.own != nil {
		return r.own.reason(a)
	}
	switch r.By {
	case NamespaceSelector:
		return fmt.Sprintf("namespaceSelector does not match namespace %q", a.Namespace)
	case ObjectSelector:
		return "objectSelector does not match the labels of the object"
	case ExcludeResourceRules:
		return "excludeResourceRules match"
	case ResourceRules:
		return fmt.Sprintf("no resource rule matches %s of %s", a.Operation, describe(a))
	}
	return ""
}

// A Matcher is a part of match criteria, by the name that the API gives it.
type Matcher string

// The matchers.
const (
	NamespaceSelector    Matcher = "namespaceSelector"
	ObjectSelector       Matcher = "objectSelector"
	ExcludeResourceRules Matcher = "excludeResourceRules"
	ResourceRules        Matcher = "resourceRules"
)

// Criteria is a compiled [policy.MatchResources].
type Criteria struct {
	rules, excludes     []rule
	namespaces, objects selector
	equivalent          bool
	own                 []own
}

type selector struct {
	labels.Selector
	err error // of a selector that cannot be parsed
}

type rule struct {
	names, operations, groups, versions []string
	resources                           []resourcePattern
	scope                               string
	kinds                               []string // empty: all
}

// A resourcePattern is one entry of resources, such as pods/log.
type resourcePattern struct{ resource, subresource string }

// Compile parses the selectors and rules of m; nil matches everything.
func Compile(m *policy.MatchResources) *Criteria {
	if m == nil {
		return nil
	}
	return &Criteria{
		rules:      compileRules(m.ResourceRules),
		excludes:   compileRules(m.ExcludeRules),
		namespaces: parse(m.NamespaceSelector),
		objects:    parse(m.ObjectSelector),
		equivalent: m.MatchPolicy == policy.Equivalent,
		own:        compileOwn(m),
	}
}

func parse(s *metav1.LabelSelector) selector {
	if s == nil { // the server's default
		return selector{Selector: labels.Everything()}
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	return selector{parsed, err}
}

func compileRules(rules []policy.Rule) []rule {
	compiled := make([]rule, len(rules))
	for i, r := range rules {
		compiled[i] = rule{
			names: r.ResourceNames, operations: r.Operations, groups: r.APIGroups, versions: r.APIVersions,
			scope: r.Scope, kinds: r.Kinds,
		}
		for _, pattern := range r.Resources {
			resource, subresource, _ := strings.Cut(pattern, "/")
			compiled[i].resources = append(compiled[i].resources, resourcePattern{resource, subresource})
		}
	}
	return compiled
}

// Resources is false if no request for a.Resource, a.SubResource and a.Operation can match or fail to: whatever else
// the request is, Match does not need to be asked.
func (c *Criteria) Resources(a *Attributes, types *schema.Registry) bool {
	if c == nil || len(c.rules) == 0 {
		return true
	}
	concerns := func(resource schema.GroupVersionResource) bool {
		for _, rules := range [][]rule{c.rules, c.excludes} {
			for i := range rules {
				if rules[i].concerns(a, resource) && rules[i].matchesKind(a, resource, types) {
					return true
				}
			}
		}
		return false
	}
	if concerns(a.Resource) {
		return true
	}
	if !c.equivalent {
		return false
	}
	return slices.ContainsFunc(types.Equivalents(a.Resource, a.SubResource), func(r *schema.Resource) bool {
		return concerns(r.GroupVersionResource)
	})
}

// DependsOnLabels reports that c has a selector: what Match says may depend on labels of the object or of its
// namespace.
func (c *Criteria) DependsOnLabels() bool {
	return c != nil && (c.namespaces.selects() || c.objects.selects())
}

func (s selector) selects() bool { return s.err != nil || !s.Empty() }

// Match decides whether a matches c. The error is a *apierrors.StatusError where the server has one.
func (c *Criteria) Match(a *Attributes, w World) (Result, error) {
	if c == nil {
		return matchedAs(a.Resource, a.Kind)
	}
	// Errors of the selectors count only for requests that the rules select.
	inNamespaces, namespaceErr := c.matchNamespace(a, w)
	if !inNamespaces && namespaceErr == nil {
		return Result{By: NamespaceSelector}, nil
	}
	isObject, objectErr := c.matchObject(a)
	if !isObject && objectErr == nil {
		return Result{By: ObjectSelector}, nil
	}
	excluded, err := c.matchRules(c.excludes, a, w)
	if err != nil {
		return Result{}, err
	}
	if excluded.Matched {
		return Result{By: ExcludeResourceRules}, nil
	}
	result := Result{Matched: true, Resource: a.Resource, Kind: a.Kind}
	if len(c.rules) > 0 {
		if result, err = c.matchRules(c.rules, a, w); err != nil {
			return Result{}, err
		}
	}
	switch {
	case !result.Matched:
		return Result{By: ResourceRules}, nil
	case namespaceErr != nil:
		return Result{}, namespaceErr
	case objectErr != nil:
		return Result{}, objectErr
	}
	for i := range c.own {
		if o := &c.own[i]; !o.holds(a, w) {
			return Result{By: o.by, own: o}, nil
		}
	}
	return result, nil
}

func matchedAs(resource schema.GroupVersionResource, kind schema.GroupVersionKind) (Result, error) {
	return Result{Matched: true, Resource: resource, Kind: kind}, nil
}

func describe(a *Attributes) string {
	s := a.Resource.GroupVersion().String() + " " + a.Resource.Resource
	if a.SubResource != "" {
		s += "/" + a.SubResource
	}
	return s
}

func (c *Criteria) matchNamespace(a *Attributes, w World) (bool, error) {
	isNamespace := a.Resource.Resource == "namespaces"
	if a.Namespace == "" && !isNamespace {
		return true, nil
	}
	if c.namespaces.err != nil {
		return false, apierrors.NewInternalError(c.namespaces.err)
	}
	if c.namespaces.Empty() {
		return true, nil
	}
	object := a.Object
	if !isNamespace || a.SubResource != "" || a.Operation != "CREATE" && a.Operation != "UPDATE" {
		var err error
		if object, err = w.Namespace(a.Namespace); err != nil {
			if apierrors.IsNotFound(err) {
				return false, err
			}
			return false, apierrors.NewInternalError(err)
		}
	}
	return c.namespaces.Matches(labelsOf(object)), nil
}

func (c *Criteria) matchObject(a *Attributes) (bool, error) {
	if c.objects.err != nil {
		return false, apierrors.NewInternalError(c.objects.err)
	}
	if c.objects.Empty() {
		return true, nil
	}
	if a.Operation == "CONNECT" { // its options are an object without metadata
		return false, nil
	}
	for _, object := range []map[string]any{a.Object, a.OldObject} {
		if object != nil && c.objects.Matches(labelsOf(object)) {
			return true, nil
		}
	}
	return false, nil
}

// labelsOf returns the labels of an object. A patch may make anything of those of a custom object: it has none then.
func labelsOf(object map[string]any) labelSet {
	set := labelSet(tree.Object(object).Labels())
	for _, v := range set {
		if _, ok := v.(string); !ok {
			return nil
		}
	}
	return set
}

// Labels returns the labels of an object.
func Labels(object map[string]any) labels.Labels { return labelsOf(object) }

// A labelSet reads labels from a JSON tree.
type labelSet map[string]any

func (s labelSet) Has(label string) bool { _, ok := s[label]; return ok }

func (s labelSet) Get(label string) string { v, _ := s[label].(string); return v }

func (s labelSet) Lookup(label string) (string, bool) {
	v, ok := s[label].(string)
	return v, ok
}

// matchRules looks for the first rule that the request matches as it is, then, if equivalents count, for the
// first rule that an equivalent resource matches.
func (c *Criteria) matchRules(rules []rule, a *Attributes, w World) (Result, error) {
	for i := range rules {
		if rules[i].matches(a, a.Resource, w) && rules[i].matchesName(a.Name) {
			return matchedAs(a.Resource, a.Kind)
		}
	}
	if !c.equivalent || len(rules) == 0 {
		return Result{}, nil
	}
	equivalents := w.Types.Equivalents(a.Resource, a.SubResource)
	for i := range rules {
		for _, e := range equivalents {
			if e.GroupVersionResource == a.Resource || !rules[i].matches(a, e.GroupVersionResource, w) {
				continue
			}
			kind, ok := w.Types.KindFor(e.GroupVersionResource, a.SubResource)
			if !ok {
				return Result{}, fmt.Errorf("unable to convert to %v: unknown kind", e.GroupVersionResource)
			}
			if rules[i].matchesName(a.Name) {
				return matchedAs(e.GroupVersionResource, kind)
			}
		}
	}
	return Result{}, nil
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func (r *rule) matches(a *Attributes, resource schema.GroupVersionResource, w World) bool {
	return r.matchesScope(resource, a.Namespace) && r.concerns(a, resource) && r.matchesKind(a, resource, w.Types)
}

func (r *rule) concerns(a *Attributes, resource schema.GroupVersionResource) bool {
	return contains(r.operations, a.Operation) &&
		contains(r.groups, resource.Group) &&
		contains(r.versions, resource.Version) &&
		r.matchesResource(resource.Resource, a.SubResource)
}

func (r *rule) matchesScope(resource schema.GroupVersionResource, namespace string) bool {
	// Requests for a Namespace have its name as their namespace, but it is cluster-scoped.
	namespaced := namespace != "" && resource != namespaces
	switch r.scope {
	case "", "*":
		return true
	case "Namespaced":
		return namespaced
	case "Cluster":
		return !namespaced
	}
	return false
}

func (r *rule) matchesResource(resource, subresource string) bool {
	for _, p := range r.resources {
		if (p.resource == "*" || p.resource == resource) && (p.subresource == "*" || p.subresource == subresource) {
			return true
		}
	}
	return false
}

// matchesName: a request with generateName has no name yet and matches only rules without names.
func (r *rule) matchesName(name string) bool {
	return len(r.names) == 0 || slices.Contains(r.names, name)
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == "*" || item == s {
			return true
		}
	}
	return false
}
