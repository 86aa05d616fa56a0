// Package prepare makes the objects that kube-apiserver passes to policies.
//
// Before any policy sees a request, the server decodes its body into a Go type, drops undeclared members, applies
// defaults and converts the object to its internal version and back. [Object] does the same to JSON trees: for built-in
// kinds with the tables of package schema and the rules below, for custom resources with their structural schemas.
// [ReadStored] does it to existing objects, [Normalise] repeats the part that follows every mutation, and
// [ObjectToValidate] does the work between the mutating and the validating phase.
//
// Trees consist of map[string]any, []any, string, int64, float64, bool and nil. Inputs never change; results share
// unchanged parts with them.
//
// Values that the server draws at random or takes from its clock (uids, addresses and ports of Services, times) are
// made up in the server's form: equal requests get equal values. managedFields are not simulated; an update keeps those
// of the stored object.
package prepare

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Operations, as in admission requests.
const (
	create  = "CREATE"
	update  = "UPDATE"
	connect = "CONNECT"
)

// An Input is a request whose object is to be prepared.
type Input struct {
	Types       *schema.Registry
	Resource    *schema.Resource
	SubResource string
	Operation   string // CREATE, UPDATE, DELETE or CONNECT
	Namespace   string // of the request; a Namespace's own name counts as none
	Object      map[string]any
	Old         map[string]any // the stored object of an UPDATE, in the form that ReadStored returns

	Options map[string]any // of the request

	// User is the user of the request. Only CertificateSigningRequests keep it.
	User authenticationv1.UserInfo

	// DryRun means that the object will not be stored. It affects Evictions and the node ports of Services.
	DryRun bool

	// Name is that of the request. Only TokenRequests need it: their objects do not have a name.
	Name string

	// SharesLabels is that of the [Result] or [Normal] that made Object.
	SharesLabels bool

	// Before is the object from which [ObjectToValidate] made Object. Only the warnings about Pods need it.
	Before map[string]any

	// Now is the time of creation; the zero time means the current time.
	Now time.Time

	exists bool // the object was created long ago, by an unknown user
}

// A Result is a prepared object.
type Result struct {
	Object   map[string]any // nil if the input has none
	Unknown  []string       // the server's warnings about unknown fields, which come first
	Warnings []string       // the server's other warnings

	// SharesLabels means that the server holds the labels of the object and of its template in one map, which its
	// defaults share: labels that the registry adds to one are also in the other.
	SharesLabels bool
}

// kind returns the kind of the objects that the request takes.
func (in Input) kind() (schema.GroupVersionKind, bool) {
	if in.Resource == nil {
		return schema.GroupVersionKind{}, false
	}
	if in.SubResource == "" {
		return in.Resource.GroupVersionKind(), true
	}
	sub := in.Resource.Subresource(in.SubResource)
	if sub == nil {
		return schema.GroupVersionKind{}, false
	}
	return sub.Kind, true
}

// typ returns the type of the request's objects, or nil.
func (in Input) typ() *shape.Type {
	kind, ok := in.kind()
	if !ok || in.Types == nil {
		return nil
	}
	return in.Types.Type(kind)
}

// custom reports whether the request's objects are custom objects, as opposed to objects of a built-in kind.
func custom(t *shape.Type) bool { return t.Name == "" }

// Object returns the object as the policies of the mutating phase see it.
//
// The error is an *apierrors.StatusError, the server's response: to an object that it cannot decode (400), one in
// another namespace than the request (400), a dry run of a connection (400), or an unknown resource (404).
func Object(in Input) (Result, error) {
	if in.Operation == connect && in.DryRun { // as ConnectResource in endpoints/handlers/rest.go v0.37.2
		return Result{}, apierrors.NewBadRequest("dryRun is not supported")
	}
	if in.Object == nil {
		return Result{}, nil
	}
	kind, ok := in.kind()
	t := in.typ()
	if !ok || t == nil {
		return Result{}, notFoundError(in)
	}
	if err := checkKind(in.Object, kind); err != nil {
		return Result{}, err
	}
	obj, unknown, err := decode(in.Object, in.Types, kind, false)
	if err != nil {
		return Result{}, badRequest(kind, err)
	}
	if in.Operation == connect {
		return Result{Object: obj, Unknown: unknown}, nil
	}
	o := members{m: obj}
	if in.Operation == create && !keepsSystemMembers(in) {
		wipeSystemMembers(&o, t)
	}
	if err := matchNamespace(&o, in); err != nil {
		return Result{}, err
	}
	keepManagers(&o, in)
	shares := sharesLabels(t, in.Object)
	if in.Operation == update && in.SubResource == "" {
		keepJobPods(&o, in, shares)
	}
	var warnings []string
	if repeated := dedupOwners(&o); len(repeated) > 0 {
		warnings = append(warnings, ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "+
			"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "+strings.Join(repeated, ", "))
	}
	return Result{o.m, unknown, warnings, shares}, nil
}

// decode decodes an object as the server decodes the body of a request, or a stored object. Warnings have the server's
// words.
func decode(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind, stored bool) (map[string]any,
	[]string, error) {
	t := types.Type(kind)
	if custom(t) {
		return decodeCustom(obj, t, kind)
	}
	p := pass{round: rounds(kind), stored: stored}
	out, _ := p.object(t, obj, nil)
	var warnings []string
	if p.failed || p.unknown {
		unknown, err := problems(t, obj)
		if err != nil {
			return nil, nil, err
		}
		if p.failed {
			return nil, nil, errors.New("json: unsupported value") // not a JSON value
		}
		warnings = unknownFields(unknown)
	}
	out, err := throughHub(t, setKind(out, kind), nil, types)
	return out, warnings, err
}

func decodeCustom(obj map[string]any, t *shape.Type, kind schema.GroupVersionKind) (map[string]any, []string, error) {
	s := structure{prune: true}
	out, _ := s.object(t, obj, nil)
	var warnings []string
	if s.failed || s.unknown {
		unknown, err := customProblems(t, obj)
		if err != nil {
			return nil, nil, err
		}
		if s.failed {
			return nil, nil, errors.New("json: unsupported value")
		}
		warnings = unknownFields(unknown)
	}
	return setKind(out, kind), warnings, nil
}

func unknownFields(paths []string) []string {
	warnings := make([]string, len(paths))
	for i, path := range paths {
		warnings[i] = fmt.Sprintf("unknown field %q", path)
	}
	return warnings
}

// setKind sets apiVersion and kind, which an object of a request may omit.
func setKind(obj map[string]any, kind schema.GroupVersionKind) map[string]any {
	o := members{m: obj}
	if version := kind.GroupVersion().String(); o.m["apiVersion"] != version {
		o.set("apiVersion", version)
	}
	if o.m["kind"] != kind.Kind {
		o.set("kind", kind.Kind)
	}
	return o.m
}

// rounds reports whether the resource lists of a kind are rounded. That is a default of the core types, in the groups
// that were generated with them.
func rounds(kind schema.GroupVersionKind) bool {
	switch kind.Group {
	case "", "apps", "batch", "storage.k8s.io":
		return true
	}
	return false
}

// Normalise returns an object after a mutation, as the next mutation sees it: decoded into its Go type and encoded
// again, and defaulted. Decoding is lenient: undeclared members are dropped, integers lose the bits that do not fit. A
// custom object only gets its defaults. Unchanged parts are shared with obj; without changes obj itself is returned.
//
// The error is the one of the server's conversion: "unable to convert unstructured object to …".
func Normalise(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) (map[string]any, error) {
	out, _, err := normalise(obj, nil, mutatedType(obj, types, kind), kind)
	return out, err
}

// mutatedType returns the type of an object after a mutation: that of the kind, except for a custom object that a patch
// turned into one of another version, or of a kind without defaults.
func mutatedType(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) *shape.Type {
	t := types.Type(kind)
	if t == nil || !custom(t) {
		return t
	}
	given := tree.Object(obj).Kind()
	if given == kind {
		return t
	}
	if other := types.Type(given); other != nil && given.GroupKind() == kind.GroupKind() {
		return other
	}
	return anything
}

// normalise normalises the parts of obj that are not shared with known. truncated: an integer did not fit into its
// field.
func normalise(obj, known map[string]any, t *shape.Type, kind schema.GroupVersionKind) (out map[string]any,
	truncated bool, err error) {
	if t == nil {
		return nil, false, fmt.Errorf("unable to convert unstructured object to %v: no kind %q is registered for version %q", kind, kind.Kind, kind.GroupVersion())
	}
	if custom(t) {
		s := structure{}
		out, _ = s.object(t, obj, known)
		return out, false, nil
	}
	p := pass{lenient: true, round: rounds(kind)}
	out, _ = p.object(t, obj, known)
	if p.failed {
		return nil, false, fmt.Errorf("unable to convert unstructured object to %v: %w", kind, mistake(t, obj))
	}
	return setKind(out, kind), p.truncated, nil
}

// Hold returns a mutated object as the server holds it between the phases: through the internal version of its kind and
// back. before is the object that it held until then. The error is that of the conversion.
func Hold(obj, before map[string]any, types *schema.Registry, kind schema.GroupVersionKind) (map[string]any, error) {
	t := types.Type(kind)
	switch {
	case t == nil:
		return obj, nil
	case custom(t):
		return holdCustom(obj, types, kind)
	}
	return throughHub(t, obj, before, types)
}

// holdCustom sets the version of a custom object to that of the request, because a patch may have changed it (as
// apiextensions-apiserver pkg/apiserver/conversion/converter.go v0.37.2).
func holdCustom(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) (map[string]any, error) {
	given := tree.Object(obj).Kind()
	if given.GroupVersion() == kind.GroupVersion() {
		return obj, nil
	}
	if given.Group != kind.Group {
		return nil, fmt.Errorf("%v is unstructured and is not suitable for converting to %q", given,
			kind.GroupVersion())
	}
	if types.ResourceFor(given.GroupVersion().WithKind(kind.Kind)) == nil {
		return nil, fmt.Errorf("request to convert CR from an invalid group/version: %v", given.GroupVersion())
	}
	name := obj["kind"] // may differ from that of the resource
	o := members{m: obj}
	o.set("kind", kind.Kind)
	converted, err := types.Convert(o.m, kind)
	if err != nil {
		return nil, err
	}
	converted["kind"] = name
	return converted, nil
}

// ObjectToValidate returns the object as the policies of the validating phase see it: with a name and the other
// metadata that the server sets, and after the strategy of its resource.
//
// The uid and the suffix of a generated name are derived from the object's resource, namespace and name, so that equal
// requests have equal results.
func ObjectToValidate(in Input) map[string]any {
	t := in.typ()
	if in.Object == nil || t == nil || in.Operation == connect {
		return in.Object
	}
	if in.SubResource == "scale" && in.Old["kind"] == "Scale" {
		return scaleAfter(in.Object, in.Old)
	}
	obj := in.Object
	if !custom(t) {
		if out, err := throughHub(t, obj, nil, in.Types); err == nil {
			obj = out
		}
	}
	o := members{m: obj}
	dedupOwners(&o)
	old := mapAt(in.Old, "metadata")
	switch {
	case in.Operation == create && in.SubResource == "":
		fillSystemMembers(&o, in)
		_ = matchNamespace(&o, in) // the caller refuses a namespace that differs from the request's
	case in.Operation == create && in.SubResource == "eviction":
		propagateDryRun(&o, in)
	case in.Operation == create && in.SubResource == "token":
		_ = matchNamespace(&o, in)
		completeTokenRequest(&o, in)
	case in.Operation == update && in.Old != nil:
		_ = matchNamespace(&o, in)
		o.edit("metadata", func(meta *members) { meta.take("generation", old) })
	}
	strategyOf(in).apply(&o, in)
	if in.Operation == update && in.Old != nil {
		keepSystemMembers(&o, old)
	}
	return o.m
}

// strategyOf returns the strategy of the request's resource. Custom resources have one of their own
// (apiextensions-apiserver pkg/registry/customresource/strategy.go v0.37.2): changes of everything but metadata count.
func strategyOf(in Input) strategy {
	s := strategyFor(in.Resource)
	if in.Resource.Definition == nil {
		return s
	}
	for name := range in.Object {
		if name != "metadata" && (name != "status" || !s.status) {
			s.counted = append(s.counted, name)
		}
	}
	for name := range in.Old {
		if _, given := in.Object[name]; !given && name != "metadata" && (name != "status" || !s.status) {
			s.counted = append(s.counted, name)
		}
	}
	return s
}

// draw returns bytes in place of the server's random ones.
func draw(in Input, purpose string) []byte {
	meta := members{m: mapAt(in.Object, "metadata")}
	sum := sha256.Sum256([]byte(strings.Join([]string{purpose, in.Resource.Group, in.Resource.Resource, in.Namespace,
		meta.text("name"), meta.text("generateName")}, "\x00")))
	return sum[:]
}

// uid returns the uid of a new object, in the form of a random UUID.
func uid(in Input) string {
	b := draw(in, "uid")
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := hex.EncodeToString(b[:16])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// generateName returns base with a suffix, like k8s.io/apiserver pkg/storage/names v0.37.2.
func generateName(base string, in Input) string {
	const (
		alphabet = "bcdfghjklmnpqrstvwxz2456789"
		longest  = 63 - 5
	)
	suffix := draw(in, "name")[:5]
	for i, b := range suffix {
		suffix[i] = alphabet[int(b)%len(alphabet)]
	}
	return base[:min(len(base), longest)] + string(suffix)
}

func checkKind(obj map[string]any, kind schema.GroupVersionKind) error {
	given := members{m: obj}
	name, version := given.text("kind"), given.text("apiVersion")
	if name == "" || version == "" {
		return nil // defaulted from the request
	}
	if name != kind.Kind {
		group, _, _ := strings.Cut(kind.Group, ".")
		if group == "" {
			group = "core"
		}
		version = version[strings.LastIndexByte(version, '/')+1:]
		return apierrors.NewBadRequest(
			fmt.Sprintf("%s in version %q cannot be handled as a %s: converting (%s.%s) to (%s.%s): unknown conversion",
				name, version, kind.Kind, version, name, group, kind.Kind),
		)
	}
	if version != kind.GroupVersion().String() {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)", version,
			kind.GroupVersion()))
	}
	return nil
}

func badRequest(kind schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", kind.Kind,
		kind.Version, kind.Kind, err))
}

func notFoundError(in Input) error {
	resource := ""
	if in.Resource != nil {
		resource = in.Resource.Resource
		if in.SubResource != "" {
			resource += "/" + in.SubResource
		}
	}
	return apierrors.NewGenericServerResponse(404, strings.ToLower(in.Operation),
		schema.GroupResource{Resource: resource}, "", "", 0, false)
}
