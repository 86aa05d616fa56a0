package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
)

// kinds are the kinds of a server as last read. docs/design/0007-kinds.md defines which source counts for what.
type kinds struct {
	client *Client

	// other is set when the server's minor is not that of the tables: the members of built-in kinds then come from the
	// server's own documents.
	other bool

	mu        sync.Mutex
	resources []schema.Resource
	documents map[schema.GroupVersion]document
	revisions int // the number of changes
}

// A document is the types of an OpenAPI v3 document.
type document struct {
	url   string // with a hash of the content
	types map[schema.GroupVersionKind]*shape.Type
}

// refresh reads the served resources, and the changed documents of kinds that known does not define completely. It
// reports whether anything changed. Parts that cannot be read keep their last state.
func (k *kinds) refresh(ctx context.Context, known *schema.Registry) (bool, error) {
	resources, err := k.client.Discover(ctx)
	if err != nil {
		return false, err
	}
	wanted := map[schema.GroupVersion]bool{}
	for _, r := range resources {
		of := known.Resource(r.GroupVersionResource)
		if of == nil || of != nil && of.Definition == nil && k.other {
			wanted[r.GroupVersion()] = true
		}
	}
	k.mu.Lock()
	last, lastResources := k.documents, k.resources
	k.mu.Unlock()
	next, err := k.read(ctx, known, wanted, last)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resources, k.documents = resources, next
	urls := func(d map[schema.GroupVersion]document) map[schema.GroupVersion]string {
		all := map[schema.GroupVersion]string{}
		for gv, each := range d {
			all[gv] = each.url
		}
		return all
	}
	different := !reflect.DeepEqual(lastResources, resources) || !maps.Equal(urls(last), urls(next))
	if different {
		k.revisions++
	}
	return different, err
}

// revision changes whenever the kinds change.
func (k *kinds) revision() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.revisions
}

// read returns the documents of the wanted versions: the last ones if they have not changed or cannot be read.
func (k *kinds) read(ctx context.Context, known *schema.Registry, wanted map[schema.GroupVersion]bool,
	last map[schema.GroupVersion]document) (map[schema.GroupVersion]document, error) {
	next := map[schema.GroupVersion]document{}
	if len(wanted) == 0 {
		return next, nil
	}
	text, err := k.client.get(ctx, "/openapi/v3", "application/json")
	if err != nil {
		return last, fmt.Errorf("schemas: %w", err)
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return last, fmt.Errorf("schemas: %w", err)
	}
	var errs []error
	for _, gv := range slices.SortedFunc(maps.Keys(wanted),
		func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
		url := index.Paths[strings.TrimPrefix(pathOf(gv), "/")].ServerRelativeURL
		before, read := last[gv]
		if read {
			next[gv] = before
		}
		if url == "" || read && before.url == url { // an aggregated server may not publish a document
			continue
		}
		text, err := k.client.get(ctx, url, "application/json")
		if err == nil {
			var types map[schema.GroupVersionKind]*shape.Type
			if types, err = known.OpenAPITypes(text); err == nil {
				next[gv] = document{url, types}
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("schemas of %s: %w", gv, err))
		}
	}
	return next, errors.Join(errs...)
}

// narrow returns a registry of the served kinds. A registry of definitions knows its kinds best and is not narrowed.
func (k *kinds) narrow(known *schema.Registry) *schema.Registry {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.resources) == 0 {
		return known
	}
	types := map[schema.GroupVersionKind]*shape.Type{}
	for _, d := range k.documents {
		maps.Copy(types, d.types)
	}
	return known.WithServed(k.resources, types)
}
