package requests

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// An Event is an event of kube-apiserver's audit log (audit.k8s.io/v1), as far as it describes the request.
type Event struct {
	AuditID    string
	Level      string
	Stage      string
	Verb       string
	RequestURI string
	Time       string // arrival of the request
	User       celgate.UserInfo
	Resource   schema.GroupVersionResource
	Sub        string // the subresource
	Namespace  string
	Name       string
	Code       int64 // of the response; 0: unknown
	Message    string

	RequestObject, ResponseObject map[string]any
	Patch                         []byte // of the verb patch
}

// ReadEvents reads a line of an audit log: an event, or a list of them as webhooks receive it.
func ReadEvents(line []byte) ([]*Event, error) {
	var tree map[string]any
	if err := utiljson.Unmarshal(line, &tree); err != nil {
		return nil, err
	}
	apiVersion, _ := tree["apiVersion"].(string)
	if !strings.HasPrefix(apiVersion, "audit.k8s.io/") {
		return nil, fmt.Errorf("%s %v is not an event of audit.k8s.io", cmp.Or(apiVersion, "an object"), tree["kind"])
	}
	if tree["kind"] != "EventList" {
		return []*Event{eventOf(tree)}, nil
	}
	items, _ := tree["items"].([]any)
	var all []*Event
	for _, item := range items {
		if event, ok := item.(map[string]any); ok {
			all = append(all, eventOf(event))
		}
	}
	return all, nil
}

func eventOf(tree map[string]any) *Event {
	text := func(m map[string]any, name string) string { s, _ := m[name].(string); return s }
	child := func(m map[string]any, name string) map[string]any { c, _ := m[name].(map[string]any); return c }
	user := child(tree, "user")
	if as := child(tree, "impersonatedUser"); as != nil { // the user for admission
		user = as
	}
	ref, status := child(tree, "objectRef"), child(tree, "responseStatus")
	e := &Event{
		AuditID: text(tree, "auditID"), Level: text(tree, "level"), Stage: text(tree, "stage"),
		Verb:       text(tree, "verb"),
		RequestURI: text(tree, "requestURI"), Time: text(tree, "requestReceivedTimestamp"),
		User: celgate.UserInfo{Username: text(user, "username"), UID: text(user, "uid"),
			Groups: texts(user["groups"])},
		Resource: schema.GroupVersionResource{Group: text(ref, "apiGroup"), Version: text(ref, "apiVersion"),
			Resource: text(ref, "resource")},
		Sub: text(ref, "subresource"), Namespace: text(ref, "namespace"), Name: text(ref, "name"),
		Message:       text(status, "message"),
		RequestObject: child(tree, "requestObject"), ResponseObject: child(tree, "responseObject"),
	}
	e.Code, _ = status["code"].(int64)
	for key, values := range child(user, "extra") {
		if e.User.Extra == nil {
			e.User.Extra = map[string]authenticationv1.ExtraValue{}
		}
		e.User.Extra[key] = texts(values)
	}
	if e.Verb == "patch" && tree["requestObject"] != nil {
		e.Patch, _ = json.Marshal(tree["requestObject"]) // was decoded from JSON
	}
	return e
}

func texts(v any) []string {
	list, _ := v.([]any)
	var all []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// Asks reports whether an event is about a finished write that admission policies may see.
func (e *Event) Asks() bool {
	return e.Stage == "ResponseComplete" && e.Resource.Resource != "" &&
		slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Operation returns the operation for admission. A create of a connecting subresource is CONNECT.
func (e *Event) Operation() celgate.Operation {
	switch {
	case slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, e.Sub):
		return celgate.Connect
	case e.Verb == "create":
		return celgate.Create
	case e.Verb == "delete" || e.Verb == "deletecollection":
		return celgate.Delete
	}
	return celgate.Update
}

// StoredObject returns the object after the request, from the response; nil if it is not there.
func (e *Event) StoredObject() map[string]any {
	if !e.HasSucceeded() || e.ResponseObject == nil || e.ResponseObject["kind"] == "Status" ||
		tree.Object(e.ResponseObject).Metadata().Text("uid") == "" {
		return nil
	}
	return e.ResponseObject
}

// HasSucceeded reports whether the request succeeded, and HasFailed whether it failed: for an event without a status
// both are false.
func (e *Event) HasSucceeded() bool { return e.Code >= 200 && e.Code < 300 }

// HasFailed is explained with [Event.HasSucceeded].
func (e *Event) HasFailed() bool { return e.Code != 0 && !e.HasSucceeded() }

// DryRun reports whether nothing was written.
func (e *Event) DryRun() bool { return len(e.query()["dryRun"]) > 0 }

func (e *Event) query() url.Values {
	_, query, _ := strings.Cut(e.RequestURI, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	return values
}

// Reasons why a request of an event cannot be repeated.
var (
	ErrNoBody    = errors.New("the log does not contain the body: its level is Metadata, or the request failed before that")
	ErrNoOld     = errors.New("the previous object is not known: the log does not contain an earlier answer with it")
	ErrNoResult  = errors.New("the result of a patch is not known: the log contains neither the answer nor the previous object")
	ErrMany      = errors.New("the deletion of a collection does not name its objects")
	ErrNoOptions = errors.New("the log does not contain the options of a CONNECT")
)

// EventRequest makes the request of an event again. old is the object before it, nil if unknown; asOld: policies do not
// read it, and the new object may stand for it.
func EventRequest(types *schema.Registry, e *Event, old map[string]any, asOld bool) (*celgate.Request, error) {
	resource := types.Resource(e.Resource)
	if resource == nil {
		return nil, fmt.Errorf("unknown resource %s", e.Resource.GroupResource())
	}
	kind, ok := types.KindFor(e.Resource, e.Sub)
	if !ok {
		return nil, fmt.Errorf("%s does not have a subresource %s", e.Resource.GroupResource(), e.Sub)
	}
	r := &celgate.Request{
		UID: e.AuditID, Kind: kind, Resource: e.Resource, SubResource: e.Sub, Namespace: e.Namespace,
		Operation: e.Operation(),
		Name:      cmp.Or(e.Name, tree.Object(e.RequestObject).Name()), UserInfo: e.User, DryRun: e.DryRun(),
	}
	if resource.GroupVersionKind() == Namespace {
		r.Namespace = r.Name
	}
	var err error
	switch {
	case r.Operation == celgate.Connect:
		return nil, ErrNoOptions
	case e.Verb == "deletecollection":
		return nil, ErrMany
	case r.Operation == celgate.Delete:
		r.OldObject = old
		if old == nil && e.HasSucceeded() && e.ResponseObject != nil && e.ResponseObject["kind"] == kind.Kind {
			r.OldObject = e.ResponseObject
		}
		if r.OldObject == nil {
			return nil, ErrNoOld
		}
	case e.RequestObject == nil && e.Patch == nil:
		return nil, ErrNoBody
	case e.Verb == "patch":
		if r.Object, err = e.patchedObject(old); err != nil {
			return nil, err
		}
		r.OldObject = old
		if e.isCreate() {
			r.Operation, r.OldObject = celgate.Create, nil
		}
	default:
		r.Object, r.OldObject = e.RequestObject, old
	}
	if r.Operation == celgate.Create {
		r.OldObject = nil
	}
	if r.Operation == celgate.Update && r.OldObject == nil {
		if !asOld {
			return nil, ErrNoOld
		}
		r.OldObject = r.Object
	}
	r.Options = e.options(r)
	return r, nil
}

// isCreate reports whether a patch created an object, as an apply does.
func (e *Event) isCreate() bool { return e.Code == 201 }

// patchedObject returns the result of a patch: from the response, or by applying a patch without lists.
func (e *Event) patchedObject(old map[string]any) (map[string]any, error) {
	if old != nil && !strings.Contains(string(e.Patch), "$") {
		whole, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		var next []byte
		if strings.HasPrefix(string(e.Patch), "[") {
			var patch jsonpatch.Patch
			if patch, err = jsonpatch.DecodePatch(e.Patch); err == nil {
				next, err = patch.Apply(whole)
			}
		} else if !hasLists(e.Patch) && tree.Object(e.RequestObject).Name() == "" { // an apply names its object
			next, err = jsonpatch.MergePatch(whole, e.Patch)
		}
		if next != nil && err == nil {
			var tree map[string]any
			if err := utiljson.Unmarshal(next, &tree); err != nil {
				return nil, err
			}
			return tree, nil
		}
	}
	if stored := e.StoredObject(); stored != nil {
		return stored, nil
	}
	return nil, ErrNoResult
}

// hasLists reports whether a patch sets lists, which kinds of patches treat differently.
func hasLists(patch []byte) bool { return strings.Contains(string(patch), "[") }

// options returns the options of the request, from its URL.
func (e *Event) options(r *celgate.Request) map[string]any {
	if r.Operation == celgate.Delete {
		options := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}
		if e.RequestObject != nil && e.RequestObject["kind"] == "DeleteOptions" {
			options = maps.Clone(e.RequestObject)
			options["apiVersion"] = "meta.k8s.io/v1"
		}
		return options
	}
	options := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
	if r.Operation == celgate.Update {
		options["kind"] = "UpdateOptions"
	}
	if r.DryRun {
		options["dryRun"] = []any{"All"}
	}
	for _, name := range []string{"fieldManager", "fieldValidation"} {
		if value := e.query().Get(name); value != "" {
			options[name] = value
		}
	}
	return options
}
