package webhook

import (
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A review is an admission.k8s.io/v1 AdmissionReview with the objects as JSON trees.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

// A request has the members of AdmissionRequest that an engine needs.
type request struct {
	UID         string                      `json:"uid"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`

	RequestKind        *metav1.GroupVersionKind     `json:"requestKind"`
	RequestResource    *metav1.GroupVersionResource `json:"requestResource"`
	RequestSubResource string                       `json:"requestSubResource"`

	Name      string                    `json:"name"`
	Namespace string                    `json:"namespace"`
	Operation celgate.Operation         `json:"operation"`
	UserInfo  authenticationv1.UserInfo `json:"userInfo"`
	Object    map[string]any            `json:"object"`
	OldObject map[string]any            `json:"oldObject"`
	DryRun    bool                      `json:"dryRun"`
	Options   map[string]any            `json:"options"`

	nulls bool // the trees may contain nulls
}

// A response is an AdmissionResponse.
type response struct {
	UID              string            `json:"uid"`
	Allowed          bool              `json:"allowed"`
	Status           *metav1.Status    `json:"status,omitempty"`
	Patch            []byte            `json:"patch,omitempty"`
	PatchType        string            `json:"patchType,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
	Warnings         []string          `json:"warnings,omitempty"`
}

const (
	reviewVersion = "admission.k8s.io/v1"
	reviewKind    = "AdmissionReview"
)

// read reads a review in one pass. It returns false for a body that a server does not write; unmarshal then decides.
func read(body string) (*review, bool) {
	in, from := &review{}, tree.NewReader(body)
	for name := range from.Members() {
		switch name {
		case "apiVersion":
			in.APIVersion = from.String()
		case "kind":
			in.Kind = from.String()
		case "request":
			in.Request = readRequest(from)
		default:
			return nil, false
		}
	}
	if in.Request != nil {
		in.Request.nulls = from.HasNull()
	}
	return in, from.Done()
}

func readRequest(from *tree.Reader) *request {
	r := &request{}
	for name := range from.Members() {
		switch name {
		case "uid":
			r.UID = from.String()
		case "kind":
			r.Kind = readKind(from)
		case "resource":
			r.Resource = readResource(from)
		case "subResource":
			r.SubResource = from.String()
		case "requestKind":
			kind := readKind(from)
			r.RequestKind = &kind
		case "requestResource":
			resource := readResource(from)
			r.RequestResource = &resource
		case "requestSubResource":
			r.RequestSubResource = from.String()
		case "name":
			r.Name = from.String()
		case "namespace":
			r.Namespace = from.String()
		case "operation":
			r.Operation = celgate.Operation(from.String())
		case "userInfo":
			r.UserInfo = readUser(from)
		case "object":
			r.Object = from.Object()
		case "oldObject":
			r.OldObject = from.Object()
		case "dryRun":
			r.DryRun = from.Bool()
		case "options":
			r.Options = from.Object()
		default:
			from.Value()
		}
	}
	return r
}

func readKind(from *tree.Reader) metav1.GroupVersionKind {
	group, version, kind := readType(from, "kind")
	return metav1.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

func readResource(from *tree.Reader) metav1.GroupVersionResource {
	group, version, resource := readType(from, "resource")
	return metav1.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// readType reads a group, a version and the third member.
func readType(from *tree.Reader, member string) (group, version, what string) {
	for name := range from.Members() {
		switch text := from.String(); name {
		case "group":
			group = text
		case "version":
			version = text
		case member:
			what = text
		}
	}
	return group, version, what
}

func readUser(from *tree.Reader) (user authenticationv1.UserInfo) {
	for name := range from.Members() {
		switch name {
		case "username":
			user.Username = from.String()
		case "uid":
			user.UID = from.String()
		case "groups":
			user.Groups = from.Strings()
		case "extra":
			user.Extra = map[string]authenticationv1.ExtraValue{}
			for key := range from.Members() {
				user.Extra[key] = from.Strings()
			}
		default:
			from.Value()
		}
	}
	return user
}

// unmarshal reads a review, or returns its error. Whole numbers become int64, others float64.
func unmarshal(body []byte) (*review, error) {
	in := &review{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, in); err != nil {
		return nil, fmt.Errorf("the body is not an AdmissionReview: %w", err)
	}
	if in.Request != nil {
		in.Request.nulls = true
	}
	return in, nil
}

// decode reads the request of a review. The error is the client's mistake.
func decode(body string) (*celgate.Request, error) {
	in, ok := read(body)
	if !ok {
		var err error
		if in, err = unmarshal([]byte(body)); err != nil {
			return nil, err
		}
	}
	if in.APIVersion != reviewVersion || in.Kind != reviewKind {
		return nil, fmt.Errorf("the body is %q of %q, not an %s of %s", shorten(in.Kind), shorten(in.APIVersion),
			reviewKind, reviewVersion)
	}
	r := in.Request
	if r == nil {
		return nil, errors.New("the AdmissionReview does not have a request")
	}
	if r.UID == "" {
		return nil, errors.New("the request does not have a uid")
	}
	if len(r.UID) > longestQuote { // the answer repeats it
		return nil, fmt.Errorf("the uid of the request is longer than %d bytes", longestQuote)
	}
	switch r.Operation {
	case celgate.Create, celgate.Update, celgate.Delete, celgate.Connect:
	default:
		return nil, fmt.Errorf("unknown operation %q", shorten(string(r.Operation)))
	}
	if r.nulls {
		tree.DropNoTime(r.Object)
		tree.DropNoTime(r.OldObject)
	}
	request := &celgate.Request{
		UID:         r.UID,
		Kind:        schema.GroupVersionKind(r.Kind),
		Resource:    schema.GroupVersionResource(r.Resource),
		SubResource: r.SubResource,
		Name:        r.Name,
		Namespace:   r.Namespace,
		Operation:   r.Operation,
		UserInfo:    r.UserInfo,
		DryRun:      r.DryRun,
		Object:      r.Object,
		OldObject:   r.OldObject,
		Options:     r.Options,
	}
	if r.RequestKind != nil && r.RequestResource != nil &&
		(*r.RequestKind != r.Kind || *r.RequestResource != r.Resource) {
		request.RequestKind = schema.GroupVersionKind(*r.RequestKind)
		request.RequestResource = schema.GroupVersionResource(*r.RequestResource)
		request.RequestSubResource = r.RequestSubResource
	}
	return request, nil
}

// readHeading reads a review about celgate's own kinds up to its objects; API servers write everything else before
// them. It returns nil if the review is about other kinds, or is written differently.
func readHeading(body string) *celgate.Request {
	if !strings.Contains(body[:min(len(body), 512)], policy.OwnGroup) { // of the kind, which follows the uid
		return nil
	}
	head, _, found := strings.Cut(body, `,"object":`)
	if !found || !strings.Contains(head, `"group":"`+policy.OwnGroup+`"`) {
		return nil
	}
	if r, err := decode(head + "}}"); err == nil && r.Resource.Group == policy.OwnGroup {
		return r
	}
	return nil
}
