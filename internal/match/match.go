// Package match decides whether a policy or binding matches a request, with the reason if it does not.
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

// Attributes are the matched properties of one request.
type Attributes struct {
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string
	Namespace   string // of a Namespace: its own name
	Name        string // empty with generateName
	Operation   string // CREATE, UPDATE, DELETE or CONNECT
	Object      map[string]any
	OldObject   map[string]any

	User   string // the user of the request
	Groups []string
}

// A World provides facts beyond the request.
type World struct {
	Types *schema.Registry
	// Namespace returns a namespace object; the error for a missing one is the server's NotFound.
	Namespace func(name string) (map[string]any, error)
	// Permitted reports whether the user has a permission. Only the dialect needs it.
	Permitted func(policy.Permission) bool
}

// A Result is the result of matching.
type Result struct {
	Matched bool
	// Resource and Kind are those of the match; with matchPolicy Equivalent they may differ from the requested ones.
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// By is the criterion that did not match.
	By Matcher

	own *own // the field of the dialect, if By is one
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

// Matchers.
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
	err error // of an invalid selector
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

// Resources returns false if a request for a.Resource, a.SubResource and a.Operation can neither match nor cause an
// error, whatever its other attributes: Match need not be called.
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

// IsCertain returns true if every request for a.Resource, a.SubResource and a.Operation matches c as requested,
// whatever its other attributes: Match need not be called. False means unknown.
func (c *Criteria) IsCertain(a *Attributes) bool {
	if c == nil {
		return true
	}
	if c.DependsOnLabels() || len(c.excludes)+len(c.own) > 0 {
		return false
	}
	return len(c.rules) == 0 || slices.ContainsFunc(c.rules, func(r rule) bool {
		return (r.scope == "" || r.scope == "*") && len(r.names)+len(r.kinds) == 0 && r.concerns(a, a.Resource)
	})
}

// DependsOnLabels reports whether c has a selector, so that Match may depend on labels of the object or of its
// namespace.
func (c *Criteria) DependsOnLabels() bool {
	return c != nil && (c.namespaces.selects() || c.objects.selects())
}

func (s selector) selects() bool { return s.err != nil || !s.Empty() }

// Match decides whether a matches c. The error is an *apierrors.StatusError where the server's is.
func (c *Criteria) Match(a *Attributes, w World) (Result, error) {
	if c == nil {
		return Direct(a), nil
	}
	// Errors of the selectors count only for requests that the rules match.
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
	result := Direct(a)
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

// Direct is the result for a request that matches as requested.
func Direct(a *Attributes) Result { return Result{Matched: true, Resource: a.Resource, Kind: a.Kind} }

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

// labelsOf returns the labels of an object. A patch may have made those of a custom object malformed: then it has none.
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

// matchRules returns the first rule that the request matches as sent, or else, with equivalents, the first rule that an
// equivalent resource matches.
func (c *Criteria) matchRules(rules []rule, a *Attributes, w World) (Result, error) {
	for i := range rules {
		if rules[i].matches(a, a.Resource, w) && rules[i].matchesName(a.Name) {
			return Direct(a), nil
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
				return Result{Matched: true, Resource: e.GroupVersionResource, Kind: kind}, nil
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

// matchesName reports whether the name matches: a request with generateName does not have a name yet and matches only
// rules without names.
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
