package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/celgate/celgate/internal/spell"
	dialect "github.com/celgate/celgate/policy/internal/v1alpha1"
)

// group is the API group of the four kinds.
const group = admissionv1.GroupName

// OwnGroup is the API group of celgate's own kinds. In its version v1, the kinds have the names and specs of the
// policies and bindings of admissionregistration.k8s.io/v1, for clusters that do not serve those; in version Dialect,
// they have more fields.
const OwnGroup = dialect.Group

// DisabledAnnotation is the annotation that disables an object of OwnGroup if its value is "true".
const DisabledAnnotation = "celgate.dev/disabled"

// Dialect is the API version of [Admission] policies and their bindings.
const Dialect = dialect.Group + "/" + dialect.Version

// Native converts an object of OwnGroup in v1 to admissionregistration.k8s.io/v1, without its status, and removes the
// status of an object of the dialect. It returns other objects unchanged.
func Native(obj map[string]any) map[string]any {
	switch obj["apiVersion"] {
	case OwnGroup + "/v1":
		native := maps.Clone(obj)
		native["apiVersion"] = group + "/v1"
		delete(native, "status")
		return native
	case Dialect:
		if _, ok := obj["status"]; ok {
			obj = maps.Clone(obj)
			delete(obj, "status")
		}
	}
	return obj
}

// IsRecognised reports whether obj is of a kind of this package: a ValidatingAdmissionPolicy, a MutatingAdmissionPolicy
// or a binding of one, in version v1, v1beta1 or v1alpha1, or in version v1 of [OwnGroup]; an AdmissionPolicy, a
// binding of one or an AdmissionPolicyLibrary in version [Dialect].
func IsRecognised(obj map[string]any) bool {
	obj = Native(obj)
	kind, _ := obj["kind"].(string)
	return newTyped(versionOf(obj), kind) != nil
}

// An object is the result of reading an object of these kinds: exactly one member is not nil.
type object struct {
	policy  *Policy
	binding *Binding
	library *Library
}

// Add reads a policy, a binding or a library and adds it to the set. The server's defaults are applied. The object is
// decoded strictly, as the server does for kubectl: an unknown field or a value of a wrong type gives a [*DecodeError],
// which names all of them, and nothing is added. The rules that the server applies to a decoded object are not applied:
// see [ValidatePolicy], [ValidateBinding] and [ValidateLibrary].
//
// An object with metadata.generateName and no name gets a name, always the same for the same content. The object is
// neither changed nor retained.
//
// The argument place finds the values of the object in its file; nil if it was not read from a file. A path is a field
// path, such as "spec.validations[0].expression" or metadata.labels["a.b/c"]; an empty path means the object. The place
// of an absent value is that of its nearest parent.
func (s *Set) Add(obj map[string]any, place func(path string) Locator) error {
	o, err := read(obj, place)
	switch {
	case o.policy != nil:
		s.Policies = append(s.Policies, o.policy)
	case o.binding != nil:
		s.Bindings = append(s.Bindings, o.binding)
	case o.library != nil:
		s.Libraries = append(s.Libraries, o.library)
	}
	return err
}

// FromObject reads a policy or a binding, as [Set.Add] does: on success exactly one of them is not nil.
func FromObject(obj map[string]any, place func(path string) Locator) (*Policy, *Binding, error) {
	o, err := read(obj, place)
	if err == nil && o.library != nil {
		err = fmt.Errorf("%v %v is not an admission policy or binding", obj["apiVersion"], obj["kind"])
	}
	return o.policy, o.binding, err
}

func read(obj map[string]any, place func(path string) Locator) (object, error) {
	apiVersion, _ := obj["apiVersion"].(string)
	obj = Native(obj)
	version := versionOf(obj)
	kind, _ := obj["kind"].(string)
	into := newTyped(version, kind)
	if into == nil {
		return object{}, fmt.Errorf("%v %v is not an admission policy or binding", obj["apiVersion"], obj["kind"])
	}
	data, err := decode(obj, func() any { return newTyped(version, kind) }, place)
	if err != nil {
		err.Version, err.Kind = apiVersion[strings.LastIndexByte(apiVersion, '/')+1:], kind
		return object{}, err
	}
	c := converter{apiVersion: apiVersion, version: version, place: place}
	if version != Dialect {
		// The versions differ in the defaults, not in the fields, so that v1 can hold all of them.
		into = newTyped("v1", kind)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		return object{}, fmt.Errorf("%s %s: %w", c.apiVersion, kind, err)
	}
	return c.object(into, data), nil
}

// object converts a decoded value; data is its JSON.
func (c converter) object(decoded any, data []byte) object {
	switch in := decoded.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{policy: c.convertValidating(in)}
	case *admissionv1.MutatingAdmissionPolicy:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{policy: c.convertMutating(in)}
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{binding: c.validatingBinding(in)}
	case *admissionv1.MutatingAdmissionPolicyBinding:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{binding: c.mutatingBinding(in)}
	case *dialect.AdmissionPolicy:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{policy: c.admission(in)}
	case *dialect.AdmissionPolicyBinding:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{binding: c.admissionBinding(in)}
	case *dialect.NamespacedAdmissionPolicyBinding:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{binding: c.namespacedBinding(in)}
	case *dialect.AdmissionPolicyLibrary:
		fillGeneratedName(&in.ObjectMeta, data)
		return object{library: c.library(in)}
	}
	panic(fmt.Sprintf("no conversion of %T", decoded)) // cannot happen: newTyped has all types
}

// versionOf returns the version of an object of admissionregistration.k8s.io, or Dialect; "" if it is neither.
func versionOf(obj map[string]any) string {
	apiVersion, _ := obj["apiVersion"].(string)
	if apiVersion == Dialect {
		return Dialect
	}
	version, ok := strings.CutPrefix(apiVersion, group+"/")
	if !ok {
		return ""
	}
	return version
}

// newTyped returns a new object of the API's Go type; nil if there is none.
func newTyped(version, kind string) any {
	switch version + " " + kind {
	case "v1 ValidatingAdmissionPolicy":
		return new(admissionv1.ValidatingAdmissionPolicy)
	case "v1 ValidatingAdmissionPolicyBinding":
		return new(admissionv1.ValidatingAdmissionPolicyBinding)
	case "v1 MutatingAdmissionPolicy":
		return new(admissionv1.MutatingAdmissionPolicy)
	case "v1 MutatingAdmissionPolicyBinding":
		return new(admissionv1.MutatingAdmissionPolicyBinding)
	case "v1beta1 ValidatingAdmissionPolicy":
		return new(admissionv1beta1.ValidatingAdmissionPolicy)
	case "v1beta1 ValidatingAdmissionPolicyBinding":
		return new(admissionv1beta1.ValidatingAdmissionPolicyBinding)
	case "v1beta1 MutatingAdmissionPolicy":
		return new(admissionv1beta1.MutatingAdmissionPolicy)
	case "v1beta1 MutatingAdmissionPolicyBinding":
		return new(admissionv1beta1.MutatingAdmissionPolicyBinding)
	case "v1alpha1 ValidatingAdmissionPolicy":
		return new(admissionv1alpha1.ValidatingAdmissionPolicy)
	case "v1alpha1 ValidatingAdmissionPolicyBinding":
		return new(admissionv1alpha1.ValidatingAdmissionPolicyBinding)
	case "v1alpha1 MutatingAdmissionPolicy":
		return new(admissionv1alpha1.MutatingAdmissionPolicy)
	case "v1alpha1 MutatingAdmissionPolicyBinding":
		return new(admissionv1alpha1.MutatingAdmissionPolicyBinding)
	case Dialect + " AdmissionPolicy":
		return new(dialect.AdmissionPolicy)
	case Dialect + " AdmissionPolicyBinding":
		return new(dialect.AdmissionPolicyBinding)
	case Dialect + " " + NamespacedBinding:
		return new(dialect.NamespacedAdmissionPolicyBinding)
	case Dialect + " " + LibraryKind:
		return new(dialect.AdmissionPolicyLibrary)
	}
	return nil
}

// A converter turns decoded objects into policies and bindings.
type converter struct {
	apiVersion string // as written
	version    string // of apiVersion
	place      func(path string) Locator
}

// policy returns the common part of policies of all kinds.
func (c converter) policy(kind Kind, metadata metav1.ObjectMeta, fails *admissionv1.FailurePolicyType,
	params *admissionv1.ParamKind, constraints *admissionv1.MatchResources, conditions []admissionv1.MatchCondition,
	variables []admissionv1.Variable) *Policy {
	return &Policy{
		Kind:             kind,
		APIVersion:       c.apiVersion,
		Name:             metadata.Name,
		Metadata:         metadata,
		Position:         c.position(),
		FailurePolicy:    failurePolicy(fails),
		ParamKind:        params,
		MatchConstraints: matchResources(constraints),
		MatchConditions:  c.matchConditions(conditions),
		Variables:        c.variables(variables),
		place:            c.place,
	}
}

// convertBinding returns the common part of bindings of all kinds.
func (c converter) convertBinding(kind Kind, metadata metav1.ObjectMeta, name string, params *admissionv1.ParamRef,
	resources *admissionv1.MatchResources) *Binding {
	return &Binding{
		Kind:           kind,
		APIVersion:     c.apiVersion,
		Name:           metadata.Name,
		Metadata:       metadata,
		Position:       c.position(),
		PolicyName:     name,
		ParamRef:       c.paramRef(params),
		MatchResources: matchResources(resources),
		place:          c.place,
	}
}

func (c converter) convertValidating(in *admissionv1.ValidatingAdmissionPolicy) *Policy {
	p := c.policy(Validating, in.ObjectMeta, in.Spec.FailurePolicy, in.Spec.ParamKind, in.Spec.MatchConstraints,
		in.Spec.MatchConditions, in.Spec.Variables)
	c.validations(p, in.Spec.Validations)
	c.auditAnnotations(p, in.Spec.AuditAnnotations)
	return p
}

func (c converter) validations(p *Policy, in []admissionv1.Validation) {
	for i, v := range in {
		p.Validations = append(p.Validations, c.validation("spec.validations"+index(i), v))
	}
}

func (c converter) validation(path string, v admissionv1.Validation) Validation {
	out := Validation{Expr: c.expr(path+".expression", v.Expression), Message: v.Message}
	if v.MessageExpression != "" {
		out.MessageExpr = c.expr(path+".messageExpression", v.MessageExpression)
	}
	if v.Reason != nil {
		out.Reason, out.emptyReason = *v.Reason, *v.Reason == ""
	}
	return out
}

func (c converter) auditAnnotations(p *Policy, in []admissionv1.AuditAnnotation) {
	for i, a := range in {
		p.AuditAnnotations = append(p.AuditAnnotations, NamedExpr{
			Name: a.Key,
			Expr: c.expr("spec.auditAnnotations"+index(i)+".valueExpression", a.ValueExpression),
		})
	}
}

func (c converter) convertMutating(in *admissionv1.MutatingAdmissionPolicy) *Policy {
	p := c.policy(Mutating, in.ObjectMeta, in.Spec.FailurePolicy, in.Spec.ParamKind, in.Spec.MatchConstraints,
		in.Spec.MatchConditions, in.Spec.Variables)
	p.Reinvocation = in.Spec.ReinvocationPolicy
	for i, m := range in.Spec.Mutations {
		p.Mutations = append(p.Mutations, c.mutation("spec.mutations"+index(i), m.PatchType,
			m.ApplyConfiguration, m.JSONPatch))
	}
	return p
}

func (c converter) mutation(path string, as PatchType, apply *admissionv1.ApplyConfiguration,
	patch *admissionv1.JSONPatch) Mutation {
	out := Mutation{PatchType: as}
	switch as {
	case ApplyConfiguration:
		out.absent, out.extra = apply == nil, patch != nil
		if apply != nil {
			out.Expr = c.expr(path+".applyConfiguration.expression", apply.Expression)
		}
	case JSONPatch:
		out.absent, out.extra = patch == nil, apply != nil
		if patch != nil {
			out.Expr = c.expr(path+".jsonPatch.expression", patch.Expression)
		}
	}
	return out
}

func (c converter) validatingBinding(in *admissionv1.ValidatingAdmissionPolicyBinding) *Binding {
	b := c.convertBinding(Validating, in.ObjectMeta, in.Spec.PolicyName, in.Spec.ParamRef, in.Spec.MatchResources)
	b.Actions = append(b.Actions, in.Spec.ValidationActions...)
	return b
}

func (c converter) mutatingBinding(in *admissionv1.MutatingAdmissionPolicyBinding) *Binding {
	return c.convertBinding(Mutating, in.ObjectMeta, in.Spec.PolicyName, in.Spec.ParamRef, in.Spec.MatchResources)
}

func (c converter) matchConditions(in []admissionv1.MatchCondition) []NamedExpr {
	var out []NamedExpr
	for i, m := range in {
		out = append(out, NamedExpr{Name: m.Name, Expr: c.expr("spec.matchConditions"+index(i)+".expression", m.Expression)})
	}
	return out
}

func (c converter) variables(in []admissionv1.Variable) []NamedExpr {
	var out []NamedExpr
	for i, v := range in {
		out = append(out, NamedExpr{Name: v.Name, Expr: c.expr("spec.variables"+index(i)+".expression", v.Expression)})
	}
	return out
}

// paramRef also sets the default of parameterNotFoundAction, which only v1alpha1 has
// (pkg/apis/admissionregistration/v1alpha1/defaults.go v1.37.2).
func (c converter) paramRef(in *admissionv1.ParamRef) *ParamRef {
	if in == nil {
		return nil
	}
	out := &ParamRef{Name: in.Name, Namespace: in.Namespace, Selector: in.Selector}
	switch {
	case in.ParameterNotFoundAction != nil:
		out.NotFoundAction = *in.ParameterNotFoundAction
	case c.version == "v1alpha1":
		out.NotFoundAction = NotFoundDeny
	}
	return out
}

func (c converter) expr(path, src string) Expr {
	e := Expr{Src: src, Field: path}
	if c.place != nil {
		e.Place = c.place(path)
	}
	return e
}

func (c converter) position() Position { return locate(c.place, "") }

// locate returns the position of the value at path; zero if it is not known.
func locate(place func(path string) Locator, path string) Position {
	if place == nil {
		return Position{}
	}
	at := place(path)
	if at == nil {
		return Position{}
	}
	return at.Locate(0)
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// failurePolicy applies the default of pkg/apis/admissionregistration/v1/defaults.go v1.37.2.
func failurePolicy(in *admissionv1.FailurePolicyType) FailurePolicy {
	if in == nil {
		return Fail
	}
	return *in
}

// matchResources applies the defaults of pkg/apis/admissionregistration/v1/defaults.go v1.37.2. Like the server, it
// keeps "", which is refused later.
func matchResources(in *admissionv1.MatchResources) *MatchResources {
	if in == nil {
		return nil
	}
	out := &MatchResources{
		NamespaceSelector: cmp.Or(in.NamespaceSelector, &metav1.LabelSelector{}),
		ObjectSelector:    cmp.Or(in.ObjectSelector, &metav1.LabelSelector{}),
		MatchPolicy:       Equivalent,
		ResourceRules:     rules(in.ResourceRules),
		ExcludeRules:      rules(in.ExcludeResourceRules),
	}
	if in.MatchPolicy != nil {
		out.MatchPolicy = *in.MatchPolicy
	}
	return out
}

func rules(in []admissionv1.NamedRuleWithOperations) []Rule {
	var out []Rule
	for _, r := range in {
		rule := Rule{
			ResourceNames: r.ResourceNames,
			APIGroups:     r.APIGroups,
			APIVersions:   r.APIVersions,
			Resources:     r.Resources,
			Scope:         string(admissionv1.AllScopes),
		}
		for _, op := range r.Operations {
			rule.Operations = append(rule.Operations, string(op))
		}
		if r.Scope != nil {
			rule.Scope = string(*r.Scope)
		}
		out = append(out, rule)
	}
	return out
}

// fillGeneratedName sets the name of an object that has only a generateName. The server's suffix is random; this one is
// derived from the content, in the server's form (apiserver pkg/storage/names/generate.go v0.37.2).
func fillGeneratedName(meta *metav1.ObjectMeta, data []byte) {
	const suffix, longest = 5, 63
	if meta.Name != "" || meta.GenerateName == "" {
		return
	}
	h := fnv.New64a()
	h.Write(data)
	sum := h.Sum64()
	name := []byte(meta.GenerateName[:min(len(meta.GenerateName), longest-suffix)])
	for range suffix {
		const letters = "bcdfghjklmnpqrstvwxz2456789"
		name = append(name, letters[sum%uint64(len(letters))])
		sum /= uint64(len(letters))
	}
	meta.Name = string(name)
}

// A Problem is one reason why an object cannot be decoded, or is decoded differently than its author meant.
type Problem struct {
	Position Position
	Field    string // the path of the field, with indices; "" if unknown
	Message  string // in the server's words
	Hint     string // for an unknown field: the name that was probably meant; else empty
}

// A DecodeError describes why an object cannot be decoded as a policy or binding.
type DecodeError struct {
	Version, Kind string
	Problems      []Problem // at least one, in the order of the file where that is known
	first         string    // the server's message, which stops at the first wrong value
}

// Error returns the server's message.
func (e *DecodeError) Error() string { return e.Status().Message }

// Status returns the server's answer, of code 400.
func (e *DecodeError) Status() *metav1.Status {
	status := apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s",
		e.Kind, e.Version, e.Kind, e.first)).Status()
	return &status
}

// maxProblems bounds the work on a thoroughly invalid object; the server stops at the same number of unknown fields.
const maxProblems = 100

// decode decodes obj strictly and returns its JSON text. The server stops at the first value of a wrong type; here that
// value is removed and decoding repeated, so that all of them are found.
func decode(obj map[string]any, blank func() any, place func(path string) Locator) (
	[]byte, *DecodeError) {
	var failed DecodeError
	add := func(path string, err error) {
		failed.Problems = append(failed.Problems, Problem{locate(place, path), path, err.Error(), ""})
		if failed.first == "" {
			failed.first = err.Error()
		}
	}
	var tree any = obj
	var data []byte
	for range maxProblems {
		var err error
		if data, err = json.Marshal(tree); err != nil {
			add("", err)
			break
		}
		unknown, err := kjson.UnmarshalStrict(data, blank())
		if err == nil {
			if len(unknown) > 0 && failed.first == "" {
				failed.first = runtime.NewStrictDecodingError(unknown).Error()
			}
			for _, err := range unknown {
				path := ""
				if at := kjson.FieldError(nil); errors.As(err, &at) {
					path = at.FieldPath()
				}
				add(path, err)
				if near := nearField(reflect.TypeOf(blank()), path); near != "" {
					failed.Problems[len(failed.Problems)-1].Hint = "did you mean " + near + "?"
				}
			}
			break
		}
		var wrong *json.UnmarshalTypeError
		if !errors.As(err, &wrong) {
			add("", err)
			break
		}
		path := valueAt(data, wrong.Offset)
		add(path.String(), err)
		rest, ok := without(tree, path)
		if !ok {
			break
		}
		tree = rest
	}
	if len(failed.Problems) == 0 {
		return data, nil
	}
	slices.SortStableFunc(failed.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	return nil, &failed
}

// nearField returns the name of the field that was probably meant by the last step of a path; empty if none is near.
func nearField(t reflect.Type, path string) string {
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		name, index, _ := strings.Cut(step, "[")
		if t = fieldsOf(t)[name]; t == nil {
			return ""
		}
		for range strings.Count(index, "]") {
			if t = pointedType(t); t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
				return ""
			}
			t = t.Elem()
		}
	}
	wrong := steps[len(steps)-1]
	return spell.Nearest(wrong, slices.Sorted(maps.Keys(fieldsOf(t))), max(2, len(wrong)/4))
}

func pointedType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// fieldsOf returns the fields of a struct, or of the struct behind a pointer, by their JSON names; nil for other types.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t = pointedType(t); t.Kind() != reflect.Struct {
		return nil
	}
	all := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && strings.Contains(options, "inline"):
			maps.Copy(all, fieldsOf(f.Type))
		case name != "" && name != "-":
			all[name] = f.Type
		}
	}
	return all
}

// A treePath leads to a value in a JSON tree: keys (string) and indices (int).
type treePath []any

// String returns the path as a field path, with a key that is not a plain name in quotes and brackets.
func (p treePath) String() string {
	var b strings.Builder
	for _, step := range p {
		switch step := step.(type) {
		case int:
			b.WriteString(index(step))
		case string:
			if step == "" || strings.ContainsAny(step, "./[]\"'\\ ") {
				b.WriteString("[" + strconv.Quote(step) + "]")
				continue
			}
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

// valueAt returns the path of the value whose decoding failed at offset of the JSON text: a scalar that ends there, or
// an object or list that has just begun; nil if there is none.
func valueAt(data []byte, offset int64) treePath {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var path treePath // the last step is the place of the next value; nil: a key follows
	for {
		token, err := d.Token()
		if err != nil {
			return nil
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			path = path[:len(path)-1]
			path.next()
			continue
		}
		if n := len(path); n > 0 && path[n-1] == nil {
			path[n-1] = token // a key
			continue
		}
		if d.InputOffset() == offset {
			return path
		}
		switch token {
		case json.Delim('{'):
			path = append(path, nil)
		case json.Delim('['):
			path = append(path, 0)
		default:
			path.next()
		}
	}
}

// next moves the path past a complete value.
func (p treePath) next() {
	if len(p) == 0 {
		return
	}
	switch last := p[len(p)-1].(type) {
	case int:
		p[len(p)-1] = last + 1
	default:
		p[len(p)-1] = nil
	}
}

// without returns a tree with null in place of the value at path, sharing all other parts; false if there is no value
// at path.
func without(tree any, path treePath) (any, bool) {
	if len(path) == 0 {
		return nil, false
	}
	var child any
	switch step := path[0].(type) {
	case string:
		parent, ok := tree.(map[string]any)
		if !ok {
			return nil, false
		}
		child = parent[step]
	case int:
		parent, ok := tree.([]any)
		if !ok || step >= len(parent) {
			return nil, false
		}
		child = parent[step]
	}
	if child == nil {
		return nil, false
	}
	var rest any
	if len(path) > 1 {
		var ok bool
		if rest, ok = without(child, path[1:]); !ok {
			return nil, false
		}
	}
	switch step := path[0].(type) {
	case string:
		out := make(map[string]any, len(tree.(map[string]any)))
		for k, v := range tree.(map[string]any) {
			out[k] = v
		}
		out[step] = rest
		return out, true
	case int:
		out := slices.Clone(tree.([]any))
		out[step] = rest
		return out, true
	}
	return nil, false
}
