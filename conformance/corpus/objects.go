package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/conformance/server"
)

// objects creates and removes objects on a server as its admin.
type objects struct {
	server    *server.Server
	mu        sync.Mutex
	resources map[schema.GroupVersion][]metav1.APIResource // the result of discovery
}

// A refusal is the server's status to a request that had to succeed.
type refusal struct {
	what     string
	status   *metav1.Status
	unserved bool // it does not serve the kind or resource
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: %d %s", r.what, r.status.Code, r.status.Message)
}

// text returns the string at the path of members, "" if it does not exist.
func text(object map[string]any, path ...string) string {
	for _, member := range path[:len(path)-1] {
		object, _ = object[member].(map[string]any)
	}
	s, _ := object[path[len(path)-1]].(string)
	return s
}

func prefix(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// discover returns the requested resources of a group version, in order. It repeats discovery if the known result
// contains none of them, because CustomResourceDefinitions come and go.
func (o *objects) discover(ctx context.Context, gv schema.GroupVersion,
	wanted func(metav1.APIResource) bool) ([]metav1.APIResource, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	find := func() (found []metav1.APIResource) {
		for _, resource := range o.resources[gv] {
			if wanted(resource) {
				found = append(found, resource)
			}
		}
		return found
	}
	if found := find(); found != nil {
		return found, nil
	}
	answer, err := o.server.Do(ctx, server.Call{Method: http.MethodGet, Path: prefix(gv)})
	if err != nil {
		return nil, err
	}
	if status := answer.Status(); status != nil {
		return nil, &refusal{"discover " + gv.String(), status, true}
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, err
	}
	if o.resources == nil {
		o.resources = map[schema.GroupVersion][]metav1.APIResource{}
	}
	o.resources[gv] = list.APIResources
	if found := find(); found != nil {
		return found, nil
	}
	return nil, &refusal{"discover " + gv.String(), notServed(), true}
}

// notServed is the answer of a server to a request for a resource that it does not serve.
func notServed() *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		Message: "the server could not find the requested resource"}
}

// forget drops the result of discovery for a group version.
func (o *objects) forget(gv schema.GroupVersion) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.resources, gv)
}

// collection returns the path of the collection in which an object lives, and whether its status is a subresource.
func (o *objects) collection(ctx context.Context, object map[string]any) (path string, status bool, err error) {
	gv, err := schema.ParseGroupVersion(text(object, "apiVersion"))
	if err != nil {
		return "", false, err
	}
	kind := text(object, "kind")
	own := "" // the name of the resource, which comes before those of its subresources
	found, err := o.discover(ctx, gv, func(r metav1.APIResource) bool {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			own = r.Name
			return true
		}
		return own != "" && r.Name == own+"/status"
	})
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", kind, err)
	}
	resource := found[0]
	path = prefix(gv)
	if resource.Namespaced {
		namespace := text(object, "metadata", "namespace")
		if namespace == "" {
			return "", false, fmt.Errorf("%s %s: no namespace", kind, text(object, "metadata", "name"))
		}
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource.Name, len(found) > 1, nil
}

// create creates an object with its status. The server refuses unknown fields, as for kubectl.
func (o *objects) create(ctx context.Context, object map[string]any) error {
	path, hasStatus, err := o.collection(ctx, object)
	if err != nil {
		return err
	}
	what := "create " + text(object, "kind") + " " + text(object, "metadata", "name")
	answer, err := o.server.Do(ctx, server.Call{Method: http.MethodPost, Path: path, Body: object,
		Query: url.Values{"fieldValidation": {"Strict"}}})
	if err != nil {
		return err
	}
	if status := answer.Status(); status != nil {
		return &refusal{what: what, status: status}
	}
	if object["status"] == nil || !hasStatus {
		return nil
	}
	stored, err := answer.Object()
	if err != nil {
		return err
	}
	stored["status"] = object["status"]
	answer, err = o.server.Do(ctx, server.Call{Method: http.MethodPut,
		Path: path + "/" + text(object, "metadata", "name") + "/status", Body: stored})
	if err != nil {
		return err
	}
	if status := answer.Status(); status != nil {
		return &refusal{what: what + ": status", status: status}
	}
	return nil
}

// store puts an object of no namespace into etcd.
func (o *objects) store(ctx context.Context, object map[string]any) error {
	path, _, err := o.collection(ctx, object)
	if err != nil {
		return err
	}
	return o.server.Store(ctx, path[strings.LastIndexByte(path, '/')+1:], object)
}

// get returns an object in the form of the server, nil if it does not exist.
func (o *objects) get(ctx context.Context, object map[string]any) (map[string]any, error) {
	path, _, err := o.collection(ctx, object)
	if err != nil {
		return nil, err
	}
	answer, err := o.server.Do(ctx, server.Call{Method: http.MethodGet,
		Path: path + "/" + text(object, "metadata", "name")})
	if err != nil || answer.Code == http.StatusNotFound {
		return nil, err
	}
	if status := answer.Status(); status != nil {
		return nil, &refusal{what: "get " + path, status: status}
	}
	return answer.Object()
}

// remove removes an object and waits until it no longer exists. It finalizes namespaces, because controllers do not
// run.
func (o *objects) remove(ctx context.Context, object map[string]any) error {
	path, _, err := o.collection(ctx, object)
	if err != nil {
		return err
	}
	path += "/" + text(object, "metadata", "name")
	answer, err := o.server.Do(ctx, server.Call{
		Method: http.MethodDelete, Path: path,
		Query: url.Values{"gracePeriodSeconds": {"0"}, "propagationPolicy": {"Background"}},
	})
	if err != nil || answer.Code == http.StatusNotFound {
		return err
	}
	if status := answer.Status(); status != nil && status.Code != http.StatusConflict {
		return &refusal{what: "delete " + path, status: status}
	}
	return poll(ctx, 10*time.Second, errors.New(path+" does not go away"), func() (bool, error) {
		stored, err := o.get(ctx, object)
		if stored == nil || err != nil {
			return true, err
		}
		if stored["kind"] == "Namespace" {
			final := maps.Clone(stored)
			final["spec"] = map[string]any{}
			_, err = o.server.Do(ctx, server.Call{Method: http.MethodPut, Path: path + "/finalize", Body: final})
			return false, err
		}
		if metadata, _ := stored["metadata"].(map[string]any); metadata["finalizers"] != nil {
			_, err = o.server.Do(ctx, server.Call{
				Method: http.MethodPatch, Path: path, ContentType: "application/merge-patch+json",
				Body: map[string]any{"metadata": map[string]any{"finalizers": nil}},
			})
		}
		return false, err
	})
}
