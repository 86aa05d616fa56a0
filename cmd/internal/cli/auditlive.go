package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"

	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A stocktaking reads the objects of a live cluster, kind by kind and page by page.
type stocktaking struct {
	*audit
	expected atomic.Int64 // the number of objects, as far as it is known
	seen     int64
}

func (s *stocktaking) prepare(ctx context.Context, _ *manifest.Loader) (sources, error) {
	return s.sources(ctx)
}

// assumeNamespaces does nothing: the cluster has all of its namespaces.
func (s *stocktaking) assumeNamespaces(context.Context, *world) error { return nil }

func (s *stocktaking) total() int { return int(s.expected.Load()) }

func (s *stocktaking) close() {}

// kinds returns the resources to list, each with its possible versions, the best first. Resources that share their
// objects are one.
func (s *stocktaking) kinds(of *auditor) [][]*schema.Resource {
	var order []string
	by := map[string][]*schema.Resource{}
	for _, r := range of.world.types.Resources() {
		if r.NotServed || !of.wants(r.GroupVersionKind()) {
			continue
		}
		if by[r.Storage] == nil {
			order = append(order, r.Storage)
		}
		by[r.Storage] = append(by[r.Storage], r)
	}
	var all [][]*schema.Resource
	for _, storage := range order {
		versions := by[storage]
		slices.SortStableFunc(versions, func(x, y *schema.Resource) int {
			off := func(r *schema.Resource) int {
				if r.OffByDefault {
					return 1
				}
				return 0
			}
			return cmp.Or(off(x)-off(y), version.CompareKubeAwareVersionStrings(y.Version, x.Version))
		})
		all = append(all, versions)
	}
	return all
}

// subjects yields the objects of the kinds that policies match. A kind that cannot be listed is reported.
func (s *stocktaking) subjects(ctx context.Context, of *auditor) iter.Seq[subjectOf] {
	return func(yield func(subjectOf) bool) {
		for _, versions := range s.kinds(of) {
			r, err := readServed(versions, func(r *schema.Resource) error {
				stopped, err := s.list(ctx, of, r, yield)
				if stopped {
					return errStopped
				}
				return err
			})
			if errors.Is(err, errStopped) || ctx.Err() != nil {
				return
			}
			if err != nil {
				of.noteUnlisted(report.Unread{What: r.GroupResource().String(), Message: err.Error()})
			}
		}
		s.tellUnknown(ctx, of)
	}
}

// tellUnknown reports resources that policies match and whose schemas are not known, such as those of an aggregated
// API.
func (s *stocktaking) tellUnknown(ctx context.Context, of *auditor) {
	seen := map[schema.GroupVersionResource]bool{}
	for _, p := range of.force.Policies {
		for _, rule := range p.Rules() {
			for resource := range namedResources(rule) {
				if seen[resource] || of.world.types.Resource(resource) != nil || ctx.Err() != nil {
					continue
				}
				seen[resource] = true
				served, err := of.world.live.Serves(ctx, resource)
				switch {
				case err != nil:
					of.noteUnlisted(report.Unread{What: resource.GroupResource().String(), Message: err.Error()})
				case served:
					of.noteUnlisted(report.Unread{What: resource.GroupResource().String(),
						Message: "the server serves it, but does not have its schema"})
				}
			}
		}
	}
}

// namedResources yields the resources that a rule names, without wildcards.
func namedResources(rule policy.Rule) iter.Seq[schema.GroupVersionResource] {
	return func(yield func(schema.GroupVersionResource) bool) {
		for _, group := range rule.APIGroups {
			for _, version := range rule.APIVersions {
				for _, name := range rule.Resources {
					of := schema.GroupVersionResource{Group: group, Version: version, Resource: name}
					if !strings.ContainsAny(group+version+name, "*/") && !yield(of) {
						return
					}
				}
			}
		}
	}
}

// errStopped means that the consumer has stopped.
var errStopped = errors.New("stopped")

// readServed reads the first version of a resource that is served, and returns it; nil if none is.
func readServed(versions []*schema.Resource, read func(*schema.Resource) error) (*schema.Resource, error) {
	for _, r := range versions {
		if err := read(r); !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			return r, err
		}
	}
	return nil, nil
}

func (s *stocktaking) sizes(ctx context.Context, of *auditor) (map[string]int, error) {
	sizes := map[string]int{}
	for _, versions := range s.kinds(of) {
		_, err := readServed(versions, func(r *schema.Resource) error {
			more, err := of.world.live.Sizes(ctx, r.GroupVersionResource)
			for namespace, n := range more {
				sizes[namespace] += n
			}
			return err
		})
		if err != nil && !apierrors.IsForbidden(err) { // its shards report that
			return nil, err
		}
	}
	return sizes, nil
}

// list yields all objects of a resource, or those of the namespaces of a shard.
func (s *stocktaking) list(ctx context.Context, of *auditor, r *schema.Resource,
	yield func(subjectOf) bool) (stopped bool, err error) {
	namespaces := []string{""}
	if of.mine != nil {
		namespaces = slices.Sorted(maps.Keys(of.mine))
	}
	for _, namespace := range namespaces {
		if of.mine != nil && (namespace == "") == r.Namespaced {
			continue
		}
		if stopped, err = s.listIn(ctx, of, r, namespace, yield); stopped || err != nil {
			return stopped, err
		}
	}
	return false, nil
}

func (s *stocktaking) listIn(ctx context.Context, of *auditor, r *schema.Resource, namespace string,
	yield func(subjectOf) bool) (stopped bool, err error) {
	later := false
	for page, err := range of.world.live.Pages(ctx, r.GroupVersionResource, namespace) {
		if err != nil {
			of.readTo(r, "")
			return false, err
		}
		of.readTo(r, page.Version)
		if page.Later && !later {
			later = true
			of.noteUnlisted(report.Unread{What: r.GroupResource().String(),
				Message: "the listing took too long: its later pages show a newer state than its first ones"})
		}
		s.expected.Store(s.seen + int64(len(page.Objects)) + page.Remaining)
		for _, object := range page.Objects {
			s.seen++
			if !yield(subjectOf{doc: &manifest.Document{Object: object}}) {
				return true, nil
			}
		}
	}
	return false, nil
}

// readTo records how far a resource was read. Only the reading goroutine calls it.
func (of *auditor) readTo(r *schema.Resource, version string) {
	of.unreadMu.Lock()
	defer of.unreadMu.Unlock()
	of.audit.ReadTo(r.GroupResource().String(), version)
}

// noteUnlisted records an incomplete read. Only the reading goroutine calls it.
func (of *auditor) noteUnlisted(u report.Unread) {
	of.unreadMu.Lock()
	defer of.unreadMu.Unlock()
	of.unreads = append(of.unreads, u)
}

// sayUnlisted prints incomplete reads and adds them to the report.
func (a *audit) sayUnlisted(of *auditor) {
	of.unreadMu.Lock()
	defer of.unreadMu.Unlock()
	for _, u := range of.unreads {
		a.raise(exitFailed)
		a.say(fmt.Sprintf("%s: %s", u.What, u.Message), "")
	}
	of.audit.Unread = append(of.audit.Unread, of.unreads...)
	of.unreads = nil
	for reason, n := range of.left {
		of.audit.Leave(reason, n)
	}
}
