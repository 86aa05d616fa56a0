//go:build !nocerts

package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rootsOf returns the schemas of a definition.
func rootsOf(spec *apiextensions.CustomResourceDefinitionSpec) []*schemaProps {
	var all []*schemaProps
	if spec.Validation != nil && spec.Validation.OpenAPIV3Schema != nil {
		all = append(all, spec.Validation.OpenAPIV3Schema)
	}
	for _, v := range spec.Versions {
		if hasSchema(v) {
			all = append(all, v.Schema.OpenAPIV3Schema)
		}
	}
	return all
}

// anySchema reports whether a schema of a definition, or a schema within, satisfies a condition.
func anySchema(spec *apiextensions.CustomResourceDefinitionSpec, holds func(*schemaProps) bool) bool {
	return slices.ContainsFunc(rootsOf(spec), func(s *schemaProps) bool { return anyWithin(s, holds) })
}

// anyWithin reports whether a schema, or one within, satisfies a condition.
func anyWithin(s *schemaProps, holds func(*schemaProps) bool) bool {
	if s == nil {
		return false
	}
	if holds(s) {
		return true
	}
	inList := func(list []schemaProps) bool {
		for i := range list {
			if anyWithin(&list[i], holds) {
				return true
			}
		}
		return false
	}
	inMap := func(members map[string]schemaProps) bool {
		for _, member := range members {
			if anyWithin(&member, holds) {
				return true
			}
		}
		return false
	}
	for _, dependency := range s.Dependencies {
		if anyWithin(dependency.Schema, holds) {
			return true
		}
	}
	return s.Items != nil && (anyWithin(s.Items.Schema, holds) || inList(s.Items.JSONSchemas)) ||
		inList(s.AllOf) || inList(s.AnyOf) || inList(s.OneOf) || anyWithin(s.Not, holds) || inMap(s.Properties) ||
		s.AdditionalProperties != nil && anyWithin(s.AdditionalProperties.Schema, holds) ||
		inMap(s.PatternProperties) || s.AdditionalItems != nil && anyWithin(s.AdditionalItems.Schema, holds) ||
		inMap(s.Definitions)
}

func hasUnprunedDefaults(s *schemaProps) bool {
	if !anyWithin(s, func(s *schemaProps) bool { return s.Default != nil }) {
		return false
	}
	made, err := structural.NewStructural(s)
	if err != nil || len(structural.ValidateStructural(nil, made)) > 0 {
		return false
	}
	pruned := made.DeepCopy()
	return defaulting.PruneDefaults(pruned) == nil && !equality.Semantic.DeepEqual(made, pruned)
}

// schema judges the schema of one version, or of all; version is its name, or that of the first.
func (d *definition) schema(of *apiextensions.CustomResourceValidation, status bool, version string, path *field.Path) {
	if of == nil {
		return
	}
	before := len(d.errs)
	var late field.ErrorList
	if s := of.OpenAPIV3Schema; s != nil {
		at := path.Child("openAPIV3Schema")
		if status {
			d.rootWithStatus(s, path)
		}
		if s.Nullable {
			d.add(field.Forbidden(path.Child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"))
		}
		var scope *ruleScope
		if d.strict.structural {
			known := len(d.errs)
			if late = d.structural(s, at); len(d.errs) == known && len(late) == 0 {
				scope = newRuleScope(s)
			}
		}
		d.late = nil
		d.schemaNode(s, at, schemaNode{isRoot: true, scope: scope, unchanged: d.unchanged[version]})
		d.add(d.late...)
		if len(d.errs) == before {
			d.add(late...)
		}
		if scope != nil {
			d.judgeCosts(scope.costs, at)
		}
	}
	if len(d.errs) == before {
		if _, _, err := validation.NewSchemaValidator(of.OpenAPIV3Schema); err != nil {
			d.add(field.Invalid(path, "", fmt.Sprintf("error building validator: %v", err)))
		}
	}
}

// structural requires a structural schema with valid defaults. It returns errors that count only without others.
func (d *definition) structural(s *schemaProps, path *field.Path) (late field.ErrorList) {
	made, err := structural.NewStructural(s)
	if err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	if errs := structural.ValidateStructural(path, made); len(errs) > 0 {
		d.add(stable(errs)...)
		return nil
	}
	errs, err := defaulting.ValidateDefaults(context.Background(), path, made, true, d.strict.pruned)
	if err != nil {
		d.add(field.Invalid(path, "", err.Error()))
	} else {
		d.add(stable(errs)...)
	}
	return nil
}

// rootWithStatus judges the root of a schema whose status is a subresource.
func (d *definition) rootWithStatus(s *schemaProps, path *field.Path) {
	allowed := []string{"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum",
		"ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf",
		"Required", "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"}
	if s.Type != "" && s.Type != "object" && !hasForbiddenBeforeType(s) {
		d.add(field.Invalid(path.Child("openAPIV3Schema.type"), s.Type,
			`only "object" is allowed as the type at the root of the schema if the status subresource is enabled`))
		return
	}
	if hasForbiddenBeforeType(s) || hasForbiddenAfterType(s) {
		d.add(field.Invalid(path.Child("openAPIV3Schema"), *s, fmt.Sprintf(
			"only %v fields are allowed at the root of the schema if the status subresource is enabled", allowed)))
	}
}

// hasForbiddenBeforeType reports whether a root has a member that precedes its type in the Go struct, and that it may
// not have if its status is a subresource.
func hasForbiddenBeforeType(s *schemaProps) bool {
	return s.ID != "" || s.Schema != "" || s.Ref != nil
}

// hasForbiddenAfterType is hasForbiddenBeforeType for the members after the type.
func hasForbiddenAfterType(s *schemaProps) bool {
	return s.Nullable || s.Default != nil || s.Enum != nil || s.MaxProperties != nil || s.MinProperties != nil ||
		s.AllOf != nil || s.OneOf != nil || s.AnyOf != nil || s.Not != nil || s.AdditionalProperties != nil ||
		s.PatternProperties != nil || s.Dependencies != nil || s.AdditionalItems != nil || s.Definitions != nil ||
		s.XEmbeddedResource || s.XIntOrString || s.XListMapKeys != nil || s.XListType != nil || s.XMapType != nil
}

// A schemaNode is the surroundings of a schema within a schema.
type schemaNode struct {
	isRoot   bool
	inMeta   bool   // within apiVersion, kind or metadata of an object
	defaults string // why defaults are not allowed; empty: they are

	scope        *ruleScope  // nil: expressions of rules are not compiled
	uncorrelated *field.Path // the outermost schema around whose old values are not known; nil: none
	unchanged    bool        // an update does not change the schema of the version
}

// outside returns the surroundings without the scope of rules.
func (in schemaNode) outside() schemaNode {
	in.scope = nil
	return in
}

// uncorrelate records that the old values within a schema are not known.
func (in schemaNode) uncorrelate(path *field.Path) schemaNode {
	if in.uncorrelated == nil {
		in.uncorrelated = path
	}
	return in
}

// schemaNode judges a schema and those within. Maps are walked in the order of their keys; the server's is random.
func (d *definition) schemaNode(s *schemaProps, path *field.Path, in schemaNode) {
	if s == nil {
		return
	}
	before := len(d.errs)
	d.judgeMembers(s, path, in)
	if s.UniqueItems {
		d.add(field.Forbidden(path.Child("uniqueItems"),
			"uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	below := in
	below.isRoot = false
	d.childSchemas(s, path, in, below)
	d.extensions(s, path)
	for i := range s.XValidations {
		d.rule(s, &s.XValidations[i], path.Child("x-kubernetes-validations").Index(i))
	}
	if len(s.XValidations) > 0 && in.scope != nil && d.rules != nil && len(d.errs) == before {
		d.compile(s, in.scope, path, in)
	}
}

// childSchemas judges the schemas within a schema.
func (d *definition) childSchemas(s *schemaProps, path *field.Path, in, below schemaNode) {
	if more := s.AdditionalProperties; more != nil {
		at := path.Child("additionalProperties")
		if len(s.Properties) != 0 && (!more.Allows || more.Schema != nil) {
			d.add(field.Forbidden(at, "additionalProperties and properties are mutual exclusive"))
		}
		values := below
		if in.inMeta {
			values.defaults = "inside additionalProperties applying to object metadata"
		}
		values.scope = in.scope.child(more.Schema, stepValue)
		d.schemaNode(more.Schema, at, values)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member, property := s.Properties[name], below
		property.scope = in.scope.child(&member, stepProperty(name))
		if !cel.MapIsCorrelatable(s.XMapType) {
			property = property.uncorrelate(path)
		}
		if (in.isRoot || s.XEmbeddedResource) && slices.Contains([]string{"metadata", "kind", "apiVersion"}, name) {
			property.inMeta = true
			if in.isRoot {
				property.defaults = "in top-level " + name
			}
		}
		d.schemaNode(&member, path.Child("properties").Key(name), property)
	}
	d.schemaNode(s.Not, path.Child("not"), below.outside())
	for _, list := range []struct {
		name string
		of   []schemaProps
	}{{"allOf", s.AllOf}, {"oneOf", s.OneOf}, {"anyOf", s.AnyOf}} {
		for i := range list.of {
			d.schemaNode(&list.of[i], path.Child(list.name).Index(i), below.outside())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Definitions)) {
		member := s.Definitions[name]
		d.schemaNode(&member, path.Child("definitions").Key(name), below.outside())
	}
	if s.Items != nil {
		item := below
		if s.XListType == nil || *s.XListType != "map" {
			item = item.uncorrelate(path)
		}
		item.scope = in.scope.child(s.Items.Schema, stepItem)
		d.schemaNode(s.Items.Schema, path.Child("items"), item)
		for i := range s.Items.JSONSchemas {
			item.scope = in.scope.child(&s.Items.JSONSchemas[i], stepItem)
			d.schemaNode(&s.Items.JSONSchemas[i], path.Child("items").Index(i), item)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		d.schemaNode(s.Dependencies[name].Schema, path.Child("dependencies").Key(name), below.outside())
	}
}

// judgeMembers judges the members of a schema that no definition may have.
func (d *definition) judgeMembers(s *schemaProps, path *field.Path, in schemaNode) {
	if d.strict.typed && s.Type != "" && !slices.Contains(schemaTypes, s.Type) {
		d.add(field.NotSupported(path.Child("type"), s.Type, schemaTypes))
	}
	if s.Default != nil && in.defaults != "" {
		d.add(field.Forbidden(path.Child("default"), "must not be set "+in.defaults))
	}
	for _, member := range []struct {
		name string
		has  bool
	}{{"id", s.ID != ""}, {"additionalItems", s.AdditionalItems != nil},
		{"patternProperties", len(s.PatternProperties) != 0}, {"definitions", len(s.Definitions) != 0},
		{"dependencies", s.Dependencies != nil}, {"$ref", s.Ref != nil}} {
		if member.has {
			d.add(field.Forbidden(path.Child(member.name), member.name+" is not supported"))
		}
	}
	if s.Type == "null" {
		d.add(field.Forbidden(path.Child("type"), "type cannot be set to null, use nullable as an alternative"))
	}
	if s.Items != nil && len(s.Items.JSONSchemas) != 0 {
		d.add(field.Forbidden(path.Child("items"), "items must be a schema object and not an array"))
	}
	if in.inMeta && s.XEmbeddedResource {
		d.add(field.Forbidden(path.Child("x-kubernetes-embedded-resource"), "must not be used inside of resource meta"))
	}
}

// extensions judges the members of a schema that only Kubernetes knows, except for rules.
func (d *definition) extensions(s *schemaProps, path *field.Path) {
	if keep := s.XPreserveUnknownFields; keep != nil && !*keep {
		d.add(field.Invalid(path.Child("x-kubernetes-preserve-unknown-fields"), *keep, "must be true or undefined"))
	}
	d.typedBy(s, path, "x-kubernetes-map-type", "object", s.XMapType, "atomic", "granular")
	if !d.typedBy(s, path, "x-kubernetes-list-type", "array", s.XListType) && d.strict.atomicSets {
		if err := setItemError(s, path); err != nil {
			d.add(err)
		}
	}
	listType := path.Child("x-kubernetes-list-type")
	kind := ""
	if s.XListType != nil {
		kind = *s.XListType
		if known := []string{"atomic", "set", "map"}; !slices.Contains(known, kind) {
			d.add(field.NotSupported(listType, kind, known))
		}
	}
	if len(s.XListMapKeys) > 0 && kind != "map" {
		const must = "must be map if x-kubernetes-list-map-keys is non-empty"
		if s.XListType == nil {
			d.add(field.Required(listType, must))
		} else {
			d.add(field.Invalid(listType, kind, must))
		}
	}
	if kind == "map" {
		d.mapList(s, path)
	}
	if d.strict.keys {
		d.add(keyErrors(s, path)...)
	}
}

// typedBy requires a type for a member, and one of the known values, if any. It reports whether the type is wrong.
func (d *definition) typedBy(s *schemaProps, path *field.Path, member, typ string, value *string,
	known ...string) (wrong bool) {
	if value == nil {
		return false
	}
	must := "must be " + typ + " if " + member + " is specified"
	switch {
	case s.Type == "":
		d.add(field.Required(path.Child("type"), must))
	case s.Type != typ:
		d.add(field.Invalid(path.Child("type"), s.Type, must))
	}
	if len(known) > 0 && !slices.Contains(known, *value) {
		d.add(field.NotSupported(path.Child(member), *value, known))
	}
	return s.Type != typ
}

// setItemError returns the error about items of a set that are not atomic; nil: none.
func setItemError(s *schemaProps, path *field.Path) *field.Error {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return nil
	}
	const must = "must be atomic as item of a list with x-kubernetes-list-type=set"
	item := s.Items.Schema
	switch {
	case item.Type == "array" && item.XListType != nil && *item.XListType != "atomic":
		return field.Invalid(path.Child("items").Child("x-kubernetes-list-type"), item.XListType, must)
	case item.Type == "object" && (item.XMapType == nil || *item.XMapType != "atomic"):
		return field.Invalid(path.Child("items").Child("x-kubernetes-map-type"), item.XListType, must)
	}
	return nil
}

// mapList judges a list with keys.
func (d *definition) mapList(s *schemaProps, path *field.Path) {
	keys, items := path.Child("x-kubernetes-list-map-keys"), path.Child("items")
	if len(s.XListMapKeys) == 0 {
		d.add(field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
	}
	switch {
	case s.Items == nil:
		d.add(field.Required(items, "must have a schema if x-kubernetes-list-type is map"))
		return
	case s.Items.Schema == nil:
		d.add(field.Invalid(items, s.Items, "must only have a single schema if x-kubernetes-list-type is map"))
		return
	case s.Items.Schema.Type != "object":
		d.add(field.Invalid(items.Child("type"), s.Items.Schema.Type,
			"must be object if parent array's x-kubernetes-list-type is map"))
		return
	}
	for i, key := range s.XListMapKeys {
		if member, ok := s.Items.Schema.Properties[key]; !ok {
			d.add(field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
		} else if member.Type == "array" || member.Type == "object" {
			d.add(field.Invalid(items.Child("properties").Key(key).Child("type"), s.Items.Schema.Type,
				"must be a scalar type if parent array's x-kubernetes-list-type is map"))
		}
		if slices.Contains(s.XListMapKeys[:i], key) {
			d.add(field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		}
	}
}

// keyErrors returns the errors about items and keys of sets and maps that may be missing.
func keyErrors(s *schemaProps, path *field.Path) (errs field.ErrorList) {
	if s.Items == nil || s.Items.Schema == nil || s.XListType == nil || *s.XListType != "set" && *s.XListType != "map" {
		return nil
	}
	item, items := s.Items.Schema, path.Child("items")
	if item.Nullable {
		errs = append(errs, field.Forbidden(items.Child("nullable"),
			"cannot be nullable when x-kubernetes-list-type is "+*s.XListType))
	}
	if *s.XListType != "map" {
		return errs
	}
	for _, key := range s.XListMapKeys {
		member, ok := item.Properties[key]
		at := items.Child("properties").Key(key)
		if ok && !slices.Contains(item.Required, key) && member.Default == nil {
			errs = append(errs, field.Required(at.Child("default"),
				"this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
		if ok && member.Nullable {
			errs = append(errs, field.Forbidden(at.Child("nullable"),
				"this property is in x-kubernetes-list-map-keys, so it cannot be nullable"))
		}
	}
	return errs
}

// rule judges a validation rule, except for its expressions.
func (d *definition) rule(s *schemaProps, rule *apiextensions.ValidationRule, path *field.Path) {
	isBlank := func(text string) bool { return text != "" && strings.TrimSpace(text) == "" }
	breaks := func(text string) bool { return strings.ContainsAny(text, "\n\r") }
	expression, message := strings.TrimSpace(rule.Rule), strings.TrimSpace(rule.Message)
	switch {
	case expression == "":
		d.add(field.Required(path.Child("rule"), "rule is not specified"))
	case isBlank(rule.Message):
		d.add(field.Invalid(path.Child("message"), rule.Message, "must be non-empty if specified"))
	case breaks(message):
		d.add(field.Invalid(path.Child("message"), rule.Message, "must not contain line breaks"))
	case breaks(expression) && message == "":
		d.add(field.Required(path.Child("message"), "message must be specified if rule contains line breaks"))
	}
	if isBlank(rule.MessageExpression) {
		d.add(field.Required(path.Child("messageExpression"), "messageExpression must be non-empty if specified"))
	}
	reasons := []string{"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"}
	if rule.Reason != nil && !slices.Contains(reasons, string(*rule.Reason)) {
		d.add(field.NotSupported(path.Child("reason"), *rule.Reason, reasons))
	}
	at := path.Child("fieldPath")
	if isBlank(rule.FieldPath) {
		d.add(field.Invalid(at, rule.FieldPath, "must be non-empty if specified"))
	}
	if breaks(rule.FieldPath) {
		d.add(field.Invalid(at, rule.FieldPath, "must not contain line breaks"))
	}
	if rule.FieldPath == "" {
		return
	}
	if made, err := structural.NewStructural(s); err == nil {
		if _, _, err := cel.ValidFieldPath(rule.FieldPath, made); err != nil {
			d.add(field.Invalid(at, rule.FieldPath, "must be a valid path"))
		}
	}
}
