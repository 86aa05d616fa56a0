package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/schema"
)

// aggregated asks for discovery in one document. Servers before 1.26 only know the last of the three media types.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// Discover returns the resources that the server serves, in the server's order. Every user may read them.
func (c *Client) Discover(ctx context.Context) ([]schema.Resource, error) {
	var all []schema.Resource
	for _, root := range []string{"/api", "/apis"} {
		text, err := c.get(ctx, root, aggregated)
		if err != nil {
			return nil, fmt.Errorf("read the API groups of the server: %w", err)
		}
		var list groupDiscovery
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("read the API groups of the server: %w", err)
		}
		if list.Kind == "APIGroupDiscoveryList" {
			all = append(all, list.resources()...)
			continue
		}
		for _, group := range list.groupVersions(root) {
			resources, err := c.resourcesOf(ctx, group)
			if err != nil && !apierrors.IsServiceUnavailable(err) { // an aggregated server is down
				return nil, err
			}
			all = append(all, resources...)
		}
	}
	return all, nil
}

// A groupDiscovery is the answer of /api or /apis: an APIGroupDiscoveryList, APIGroupList or APIVersions.
type groupDiscovery struct {
	Kind  string
	Items []struct {
		Metadata struct{ Name string }
		Versions []struct {
			Version   string
			Resources []struct {
				Resource     string
				ResponseKind metav1.GroupVersionKind
				Scope        string
				Subresources []struct {
					Subresource  string
					ResponseKind metav1.GroupVersionKind
				}
			}
		}
	}
	Groups   []metav1.APIGroup
	Versions []string
}

func (d *groupDiscovery) resources() []schema.Resource {
	var all []schema.Resource
	for _, group := range d.Items {
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				of := schema.Resource{
					GroupVersionResource: schema.GroupVersionResource{Group: group.Metadata.Name,
						Version: version.Version, Resource: r.Resource},
					Kind: r.ResponseKind.Kind, Namespaced: r.Scope == "Namespaced",
				}
				for _, s := range r.Subresources {
					kind := schema.GroupVersionKind(s.ResponseKind)
					if kind.Version == "" {
						kind = of.GroupVersion().WithKind(kind.Kind)
					}
					of.Subresources = append(of.Subresources, schema.Subresource{Name: s.Subresource, Kind: kind})
				}
				all = append(all, sortSubresources(of))
			}
		}
	}
	return all
}

func (d *groupDiscovery) groupVersions(root string) []schema.GroupVersion {
	var all []schema.GroupVersion
	if root == "/api" {
		for _, v := range d.Versions {
			all = append(all, schema.GroupVersion{Version: v})
		}
	}
	for _, g := range d.Groups {
		for _, v := range g.Versions {
			all = append(all, schema.GroupVersion{Group: g.Name, Version: v.Version})
		}
	}
	return all
}

// Serves reports whether the server serves a resource.
func (s *Snapshot) Serves(ctx context.Context, resource schema.GroupVersionResource) (bool, error) {
	all, err := s.client.resourcesOf(ctx, resource.GroupVersion())
	return slices.ContainsFunc(all, func(r schema.Resource) bool { return r.Resource == resource.Resource }), err
}

// resourcesOf returns the resources of one version of a group; none if it is not served.
func (c *Client) resourcesOf(ctx context.Context, of schema.GroupVersion) ([]schema.Resource, error) {
	text, err := c.get(ctx, pathOf(of), "application/json")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the resources of %s from the server: %w", of, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the resources of %s from the server: %w", of, err)
	}
	var all []schema.Resource
	for _, r := range list.APIResources {
		kind := apischema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		if kind.Version == "" { // the version of the list
			kind = of.WithKind(r.Kind)
		}
		name, sub, below := strings.Cut(r.Name, "/")
		if !below {
			all = append(all, schema.Resource{GroupVersionResource: of.WithResource(name), Kind: r.Kind,
				Namespaced: r.Namespaced})
			continue
		}
		for i := range all {
			if all[i].Resource == name {
				all[i].Subresources = append(all[i].Subresources, schema.Subresource{Name: sub, Kind: kind})
			}
		}
	}
	for i, r := range all {
		all[i] = sortSubresources(r)
	}
	return all, nil
}

func sortSubresources(r schema.Resource) schema.Resource {
	slices.SortFunc(r.Subresources, func(a, b schema.Subresource) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// pathOf returns the path of a version of a group.
func pathOf(of schema.GroupVersion) string {
	if of.Group == "" {
		return "/api/" + of.Version
	}
	return "/apis/" + of.Group + "/" + of.Version
}

// maxDocument bounds documents of discovery and OpenAPI; the largest known one has 3 MB.
const maxDocument = 64 << 20

// get reads a document of the server. An error carries the status of the response.
func (c *Client) get(ctx context.Context, path, accept string) ([]byte, error) {
	path, query, _ := strings.Cut(path, "?")
	target := c.base.JoinPath(path)
	target.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, apierrors.NewGenericServerResponse(response.StatusCode, "get", schema.GroupResource{}, "",
			string(body[:min(len(body), 200)]), 0, true)
	}
	return body, nil
}
