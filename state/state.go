// Package state implements the cluster of an engine with objects in memory.
//
// A [Cluster] holds the objects of files: namespaces, params, custom resources, RBAC and any others. It finds them by
// kind, namespace and name, also in another API version than in the file, and its authorizer evaluates the RBAC objects
// among them as kube-apiserver does.
//
// It also contains the objects of every cluster: the namespaces default, kube-system, kube-public and kube-node-lease,
// and the roles and bindings that kube-apiserver creates at startup (cluster-admin, admin, edit, view, system:*). A
// given object replaces the built-in one of its name.
package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A Cluster is a set of objects. It is immutable and safe for concurrent use. It has the methods of celgate.Cluster.
type Cluster struct {
	types      *schema.Registry
	tables     map[string]*table         // by storage
	namespaces map[string]map[string]any // the Namespaces among them, by name
	converted  sync.Map                  // conversion -> map[string]any, objects in another version
	listed     sync.Map                  // schema.GroupVersionKind -> []map[string]any, tables in another version
	access     func() *access            // the permissions of the RBAC objects, computed on first use
}

// A table holds the objects of one resource, in all its versions, sorted by namespace and name.
type table struct {
	rows    []row
	objects []map[string]any // of the rows, in their original versions
	kind    schema.GroupVersionKind
	mixed   bool // the rows have different kinds
}

// A row is one object with its identity.
type row struct {
	kind            schema.GroupVersionKind
	namespace, name string
	object          map[string]any
}

func (r row) compare(namespace, name string) int {
	if c := strings.Compare(r.namespace, namespace); c != 0 {
		return c
	}
	return strings.Compare(r.name, name)
}

func (r row) String() string {
	s := fmt.Sprintf("%s %q", kindText(r.kind), r.name)
	if r.namespace != "" {
		s += fmt.Sprintf(" in namespace %q", r.namespace)
	}
	return s
}

// An ObjectError is an error about one object of a call.
type ObjectError struct {
	Index int // in the arguments
	Err   error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("object %d: %v", e.Index, e.Err) }

func (e *ObjectError) Unwrap() error { return e.Err }

// New returns a cluster with the given objects and those of every cluster.
//
// The objects are stored unchanged: a caller who reads them from files passes them through prepare.ReadStored first, so
// that they have the form in which the server reads them. New completes two things on a copy, because they need more
// than the type of the object: a namespaced object without a namespace gets the namespace default, as in kubectl, and a
// Namespace gets the values that the server sets on create (see existingNamespace). The namespace of an object of a
// cluster-scoped kind is dropped, as on the server.
//
// The error joins an ObjectError for each invalid object: an object without apiVersion, kind or name, an RBAC object
// that cannot be decoded, or a duplicate, even in another version.
func New(types *schema.Registry, objects ...map[string]any) (*Cluster, error) {
	roles, err := bootstrap()
	if err != nil {
		return nil, err
	}
	empty := NewEmpty(types)
	existing, err := empty.rowsOf(slices.Concat(namespaces(), roles))
	if err != nil {
		return nil, err
	}
	return empty.withRows(existing).With(objects...)
}

// NewEmpty returns a cluster without any objects, not even those of every cluster. It is for objects of a cluster that
// another source completes.
func NewEmpty(types *schema.Registry) *Cluster { return (&Cluster{types: types}).withRows(nil) }

// With returns a cluster that also contains the objects; they replace objects with the same identity. The receiver does
// not change and shares the other objects. Objects and errors are as in [New].
func (c *Cluster) With(objects ...map[string]any) (*Cluster, error) {
	rows, err := c.rowsOf(objects)
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if problem := checkDecodable(r); problem != nil {
			err = errors.Join(err, &ObjectError{i, fmt.Errorf("%v: %w", r, problem)})
		}
	}
	if err != nil {
		return nil, err
	}
	return c.withRows(rows), nil
}

// withRows returns a cluster that also contains the rows, which must not contain duplicates.
func (c *Cluster) withRows(rows []row) *Cluster {
	added := map[string][]row{}
	next := &Cluster{types: c.types, tables: maps.Clone(c.tables), namespaces: c.namespaces, access: c.access}
	for _, r := range rows {
		storage := c.storage(r.kind)
		added[storage] = append(added[storage], r)
		if r.kind.Group == rbacv1.GroupName {
			next.access = nil
		}
	}
	if next.tables == nil {
		next.tables = make(map[string]*table, len(added))
	}
	for storage, rows := range added {
		next.tables[storage] = next.tables[storage].withRows(rows)
	}
	if storage := next.storage(namespaceKind); len(added[storage]) > 0 {
		next.namespaces = next.tables[storage].indexByName()
	}
	if next.access == nil {
		next.access = sync.OnceValue(next.newAccess)
	}
	return next
}

// Add returns a cluster with one more object, like [Cluster.With]. The error is about the object alone.
func (c *Cluster) Add(object map[string]any) (*Cluster, error) {
	next, err := c.With(object)
	if wrong := (*ObjectError)(nil); errors.As(err, &wrong) {
		return nil, wrong.Err
	}
	return next, err
}

// rowsOf returns the rows of objects, in their order. The error joins the errors of the objects.
func (c *Cluster) rowsOf(objects []map[string]any) ([]row, error) {
	type identity struct{ storage, namespace, name string }
	seen := make(map[identity]int, len(objects))
	rows := make([]row, len(objects))
	var problems []error
	for i, object := range objects {
		r, err := c.rowOf(object)
		if err != nil {
			problems = append(problems, &ObjectError{i, err})
			continue
		}
		rows[i] = r
		id := identity{c.storage(r.kind), r.namespace, r.name}
		if first, ok := seen[id]; ok {
			problems = append(problems, &ObjectError{i,
				fmt.Errorf("%v is the same object as %v, object %d", r, rows[first], first)})
			continue
		}
		seen[id] = i
	}
	return rows, errors.Join(problems...)
}

// indexByName returns the objects of a table of a cluster-scoped kind with a single version.
func (t *table) indexByName() map[string]map[string]any {
	objects := make(map[string]map[string]any, len(t.rows))
	for _, r := range t.rows {
		objects[r.name] = r.object
	}
	return objects
}

// withRows returns a table that also contains the rows, which are unsorted and have distinct names. A nil table is
// empty.
func (t *table) withRows(rows []row) *table {
	sort.Slice(rows, func(i, j int) bool { return rows[i].compare(rows[j].namespace, rows[j].name) < 0 })
	merged := rows
	if t != nil {
		merged = make([]row, 0, len(t.rows)+len(rows))
		old := t.rows
		for _, r := range rows {
			i, found := slices.BinarySearchFunc(old, r, func(o, r row) int { return o.compare(r.namespace, r.name) })
			merged = append(append(merged, old[:i]...), r)
			if found {
				i++
			}
			old = old[i:]
		}
		merged = append(merged, old...)
	}
	next := &table{rows: merged, objects: make([]map[string]any, len(merged))}
	for i, r := range merged {
		next.objects[i] = r.object
		if i == 0 {
			next.kind = r.kind
		}
		next.mixed = next.mixed || r.kind != next.kind
	}
	return next
}

// Get returns one object, in the version of kind. A nil object without an error means that it does not exist. Namespace
// is empty for cluster-scoped kinds. The error means that the object cannot be converted to kind.
func (c *Cluster) Get(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	if kind == namespaceKind { // every request reads one
		return c.namespaces[name], nil
	}
	t := c.tables[c.storage(kind)]
	if t == nil {
		return nil, nil
	}
	i, found := slices.BinarySearchFunc(t.rows, name,
		func(r row, name string) int { return r.compare(namespace, name) })
	if !found {
		return nil, nil
	}
	return c.convertRow(kind, t.rows[i])
}

// List returns the objects of one kind, in the version of kind, of one namespace or of all (""), sorted by namespace
// and name. The error means that an object cannot be converted to kind.
func (c *Cluster) List(_ context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error) {
	t := c.tables[c.storage(kind)]
	if t == nil {
		return nil, nil
	}
	objects := t.objects
	if t.mixed || t.kind != kind {
		var err error
		if objects, err = c.listAs(kind, t); err != nil {
			return nil, err
		}
	}
	if namespace == "" {
		return slices.Clip(objects), nil
	}
	from := sort.Search(len(t.rows), func(i int) bool { return t.rows[i].namespace >= namespace })
	to := from + sort.Search(len(t.rows)-from, func(i int) bool { return t.rows[from+i].namespace > namespace })
	return objects[from:to:to], nil
}

// Authorizer returns an authorizer that evaluates the RBAC objects of the cluster as kube-apiserver does with
// --authorization-mode=RBAC.
func (c *Cluster) Authorizer() authorizer.Authorizer { return authorizer.AuthorizerFunc(c.authorize) }

// A conversion identifies an object and the requested kind.
type conversion struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// convertRow returns the object of the row in the version of kind.
func (c *Cluster) convertRow(kind schema.GroupVersionKind, r row) (map[string]any, error) {
	if r.kind == kind {
		return r.object, nil
	}
	key := conversion{kind, r.namespace, r.name}
	if known, ok := c.converted.Load(key); ok {
		return known.(map[string]any), nil
	}
	if c.types == nil {
		return nil, fmt.Errorf("%v cannot be read as %s: no types are known", r, kindText(kind))
	}
	object, err := c.types.Convert(r.object, kind)
	if to := c.resource(kind); err == nil && to != nil && to.Definition != nil {
		object, _, err = prepare.Canonical(object, c.types, kind) // prunes and defaults by the schema of the version
	}
	if err != nil {
		return nil, fmt.Errorf("%v cannot be read as %s: %w", r, kindText(kind), err)
	}
	known, _ := c.converted.LoadOrStore(key, object)
	return known.(map[string]any), nil
}

// listAs returns the objects of the table in the version of kind, in the order of its rows.
func (c *Cluster) listAs(kind schema.GroupVersionKind, t *table) ([]map[string]any, error) {
	if known, ok := c.listed.Load(kind); ok {
		return known.([]map[string]any), nil
	}
	objects := make([]map[string]any, len(t.rows))
	for i, r := range t.rows {
		object, err := c.convertRow(kind, r)
		if err != nil {
			return nil, err
		}
		objects[i] = object
	}
	c.listed.Store(kind, objects)
	return objects, nil
}

// storage returns the key of the table with the objects of a kind: the key of the resource, so that its versions share
// the table, or the group and kind if the type is unknown.
func (c *Cluster) storage(kind schema.GroupVersionKind) string {
	if r := c.resource(kind); r != nil && r.Storage != "" {
		return r.Storage
	}
	return "\x00" + kind.Group + "/" + kind.Kind
}

func (c *Cluster) resource(kind schema.GroupVersionKind) *schema.Resource {
	if c.types == nil {
		return nil
	}
	return c.types.ResourceFor(kind)
}

// rowOf returns the identity of an object, and the object in the form that the cluster stores.
func (c *Cluster) rowOf(object map[string]any) (row, error) {
	o := tree.Object(object)
	apiVersion, kind, name, namespace := o.Text("apiVersion"), o.Text("kind"), o.Name(), o.Namespace()
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	switch {
	case version == "" || strings.Contains(version, "/"):
		return row{}, fmt.Errorf("%q is not an apiVersion", apiVersion)
	case kind == "":
		return row{}, fmt.Errorf("an object of %s has no kind", apiVersion)
	case name == "":
		return row{}, fmt.Errorf("%s without metadata.name: an object that exists has a name", kind)
	}
	r := row{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, namespace, name, object}
	if resource := c.resource(r.kind); resource != nil {
		switch {
		case resource.Namespaced && namespace == "":
			r.namespace = "default"
			r.object = withMetadata(object, "namespace", "default")
		case !resource.Namespaced && namespace != "":
			r.namespace = ""
			r.object = withMetadata(object, "namespace", nil)
		}
	}
	if r.kind == namespaceKind {
		r.namespace = ""
		r.object = existingNamespace(r.object, name)
	}
	return r, nil
}

// withMetadata returns a copy of the object with one member of its metadata changed, or removed if the value is nil.
func withMetadata(object map[string]any, member string, value any) map[string]any {
	o := tree.Object(object)
	if value == nil {
		return o.WithMetadata(o.Metadata().Without(member))
	}
	return o.WithMetadata(o.Metadata().With(map[string]any{member: value}))
}

// kindText returns the kind in the form "HorizontalPodAutoscaler autoscaling/v2".
func kindText(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}
