//go:build !nocerts

package registry

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/certs"
)

func init() {
	objectRules[definitionKind] = func(j *judge, object, old *place) {
		now, _ := object.value.(map[string]any)
		var before map[string]any
		if old != nil {
			before, _ = old.value.(map[string]any)
		}
		j.add(judgeDefinition(now, before, j.envs)...)
	}
}

// judgeDefinition returns the server's errors about a CustomResourceDefinition outside of its metadata, in the server's
// order; old is nil for a new one (apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go v0.37.2,
// which links a client and a server).
func judgeDefinition(object, old map[string]any, envs *celenv.Set) field.ErrorList {
	next, err := readDefinition(object)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	d := &definition{strict: strictSchemas{true, true, true, true, true, true}}
	if envs != nil {
		d.rules = envs.SchemaRules()
	}
	var before *apiextensions.CustomResourceDefinition
	if old != nil {
		if before, err = readDefinition(old); err != nil {
			return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
		}
		d.ratchet(next, before)
	}
	spec := field.NewPath("spec")
	d.spec(&next.Spec, spec)
	if before != nil {
		if d.established {
			d.add(metavalidation.ValidateImmutableField(next.Spec.Scope, before.Spec.Scope, spec.Child("scope"))...)
			d.add(metavalidation.ValidateImmutableField(next.Spec.Names.Kind, before.Spec.Names.Kind,
				spec.Child("names", "kind"))...)
		}
		d.add(metavalidation.ValidateImmutableField(next.Spec.Group, before.Spec.Group, spec.Child("group"))...)
		d.add(metavalidation.ValidateImmutableField(next.Spec.Names.Plural, before.Spec.Names.Plural,
			spec.Child("names", "plural"))...)
	}
	d.names(&next.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))
	d.storedVersions(next)
	d.approval(next, before)
	if next.Spec.PreserveUnknownFields != nil && *next.Spec.PreserveUnknownFields &&
		(before == nil || before.Spec.PreserveUnknownFields == nil || !*before.Spec.PreserveUnknownFields) {
		d.add(field.Invalid(spec.Child("preserveUnknownFields"), next.Spec.PreserveUnknownFields,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return d.errs
}

// readDefinition converts a tree to the form in which a server validates it: what all versions have in common is in the
// spec.
func readDefinition(object map[string]any) (*apiextensions.CustomResourceDefinition, error) {
	var given apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &given); err != nil {
		return nil, err
	}
	var d apiextensions.CustomResourceDefinition
	convert := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition
	return &d, convert(&given, &d, nil)
}

type (
	schemaProps  = apiextensions.JSONSchemaProps
	crdVersion   = apiextensions.CustomResourceDefinitionVersion
	subresources = apiextensions.CustomResourceSubresources
)

// A definition collects the errors about a CustomResourceDefinition.
type definition struct {
	errs        field.ErrorList
	strict      strictSchemas
	reviews     bool                // unrecognised versions of reviews are allowed
	established bool                // names are immutable
	authorities bool                // those of a webhook must be certificates
	rules       *celenv.SchemaRules // nil: expressions of rules are not compiled
	late        field.ErrorList     // about expressions of the present schema
	unchanged   map[string]bool     // versions whose schema an update does not change
	crowded     map[string]bool     // versions that may have too many selectable fields; "" for the whole
}

// strictSchemas are rules that an update of a definition that breaks them does not have to keep.
type strictSchemas struct {
	present, typed, structural, pruned, atomicSets, keys bool
}

func (d *definition) add(errs ...*field.Error) { d.errs = append(d.errs, errs...) }

// ratchet leaves out rules that the stored definition breaks.
func (d *definition) ratchet(next, old *apiextensions.CustomResourceDefinition) {
	d.established = apiextensions.IsCRDConditionTrue(old, apiextensions.Established)
	conversion := old.Spec.Conversion
	d.authorities = d.established && (conversion == nil || conversion.WebhookClientConfig == nil ||
		len(conversion.WebhookClientConfig.CABundle) == 0 ||
		certs.CheckAuthorities(conversion.WebhookClientConfig.CABundle) == nil)
	d.reviews = conversion != nil && len(conversion.ConversionReviewVersions) > 0 &&
		!slices.ContainsFunc(conversion.ConversionReviewVersions, isReviewVersion)
	of := &old.Spec
	d.strict.present = of.Validation != nil && of.Validation.OpenAPIV3Schema != nil ||
		!slices.ContainsFunc(of.Versions, func(v crdVersion) bool { return !hasSchema(v) })
	d.strict.typed = !anySchema(of, func(s *schemaProps) bool {
		return s.Type != "" && !slices.Contains(schemaTypes, s.Type)
	})
	d.strict.structural = !slices.ContainsFunc(rootsOf(of), func(s *schemaProps) bool {
		made, err := structural.NewStructural(s)
		return err != nil || len(structural.ValidateStructural(nil, made)) > 0
	})
	d.strict.pruned = !slices.ContainsFunc(rootsOf(of), hasUnprunedDefaults)
	d.strict.atomicSets = !anySchema(of, func(s *schemaProps) bool { return setItemError(s, nil) != nil })
	d.strict.keys = !anySchema(of, func(s *schemaProps) bool { return len(keyErrors(s, nil)) > 0 })
	if d.rules != nil {
		anySchema(of, func(s *schemaProps) bool {
			for _, rule := range s.XValidations {
				d.rules.Rules[rule.Rule], d.rules.Messages[rule.MessageExpression] = true, true
			}
			return false
		})
	}
	d.unchanged = map[string]bool{}
	for _, v := range next.Spec.Versions {
		now, err := apiextensions.GetSchemaForVersion(next, v.Name)
		was, errWas := apiextensions.GetSchemaForVersion(old, v.Name)
		if err == nil && errWas == nil && equality.Semantic.DeepEqual(now, was) {
			d.unchanged[v.Name] = true
		}
	}
	d.crowded = map[string]bool{}
	note := func(name string, fields, before []apiextensions.SelectableField) {
		if len(before) > mostSelectable && equality.Semantic.DeepEqual(fields, before) {
			d.crowded[name] = true
		}
	}
	note("", next.Spec.SelectableFields, of.SelectableFields)
	for _, v := range next.Spec.Versions {
		for _, was := range of.Versions {
			if was.Name == v.Name {
				note(v.Name, v.SelectableFields, was.SelectableFields)
			}
		}
	}
}

func hasSchema(v crdVersion) bool {
	return v.Schema != nil && v.Schema.OpenAPIV3Schema != nil
}

// spec judges the spec.
func (d *definition) spec(spec *apiextensions.CustomResourceDefinitionSpec, path *field.Path) {
	group := path.Child("group")
	if spec.Group == "" {
		d.add(field.Required(group, ""))
	} else if wrong := utilvalidation.IsDNS1123Subdomain(spec.Group); len(wrong) > 0 {
		d.add(field.Invalid(group, spec.Group, strings.Join(wrong, ",")))
	} else if !strings.Contains(spec.Group, ".") {
		d.add(field.Invalid(group, spec.Group, "should be a domain with at least one dot"))
	}
	d.oneOf(path.Child("scope"), string(spec.Scope), string(apiextensions.ClusterScoped),
		string(apiextensions.NamespaceScoped))
	preserves := spec.PreserveUnknownFields != nil && *spec.PreserveUnknownFields
	d.schemasPresent(spec, path, preserves)
	if anySchema(spec, func(s *schemaProps) bool { return s.Default != nil }) {
		d.strict.structural = true
		if spec.PreserveUnknownFields == nil || preserves {
			d.add(field.Invalid(path.Child("preserveUnknownFields"), true,
				"must be false in order to use defaults in the schema"))
		}
	}
	d.strict.structural = d.strict.structural || !preserves || anySchema(spec, hasExtensions)
	d.versions(spec, path.Child("versions"))
	for _, name := range []struct{ member, value string }{{"plural", spec.Names.Plural},
		{"singular", spec.Names.Singular}, {"kind", spec.Names.Kind}, {"listKind", spec.Names.ListKind}} {
		if name.value == "" {
			d.add(field.Required(path.Child("names", name.member), ""))
		}
	}
	d.names(&spec.Names, path.Child("names"))
	d.schema(spec.Validation, hasStatus(spec.Subresources) ||
		slices.ContainsFunc(spec.Versions, func(v crdVersion) bool {
			return hasStatus(v.Subresources)
		}), spec.Version, path.Child("validation"))
	d.subresources(spec.Subresources, path.Child("subresources"))
	d.columns(spec.AdditionalPrinterColumns, path.Child("additionalPrinterColumns"))
	if len(spec.SelectableFields) > 0 {
		if spec.Validation == nil {
			d.add(field.Invalid(path.Child("selectableFields"), "",
				"may only be set when validations.schema is included"))
		} else {
			d.selectable(spec.SelectableFields, spec.Validation.OpenAPIV3Schema, "", path)
		}
	}
	if spec.Conversion != nil {
		d.conversion(spec.Conversion, spec.PreserveUnknownFields == nil || preserves, path.Child("conversion"))
	}
}

func hasExtensions(s *schemaProps) bool {
	return s.XEmbeddedResource || s.XPreserveUnknownFields != nil || s.XIntOrString || len(s.XListMapKeys) > 0 ||
		s.XListType != nil || len(s.XValidations) > 0
}

func hasStatus(of *subresources) bool {
	return of != nil && of.Status != nil
}

// oneOf requires one of the known texts.
func (d *definition) oneOf(path *field.Path, text string, known ...string) {
	if text == "" {
		d.add(field.Required(path, ""))
	} else if !slices.Contains(known, text) {
		d.add(field.NotSupported(path, text, known))
	}
}

// schemasPresent requires schemas of versions.
func (d *definition) schemasPresent(spec *apiextensions.CustomResourceDefinitionSpec, path *field.Path,
	preserves bool) {
	if spec.Validation != nil && spec.Validation.OpenAPIV3Schema != nil || !d.strict.present && preserves {
		return
	}
	for i, v := range spec.Versions {
		at := path.Child("versions").Index(i).Child("schema").Child("openAPIV3Schema")
		switch {
		case hasSchema(v):
		case d.strict.present:
			d.add(field.Required(at, ""))
		case v.Served:
			d.add(field.Required(at, "because otherwise all fields are pruned"))
		}
	}
}

// versions judges the versions.
func (d *definition) versions(spec *apiextensions.CustomResourceDefinitionSpec, path *field.Path) {
	stored, unique, seen := 0, true, map[string]bool{}
	own := slices.ContainsFunc(spec.Versions, func(v crdVersion) bool {
		return v.Subresources != nil
	})
	for i := range spec.Versions {
		v, at := &spec.Versions[i], path.Index(i)
		if v.Storage {
			stored++
		}
		unique = unique && !seen[v.Name]
		seen[v.Name] = true
		if wrong := utilvalidation.IsDNS1035Label(v.Name); len(wrong) > 0 {
			d.add(field.Invalid(at.Child("name"), v.Name, strings.Join(wrong, ",")))
		}
		for _, wrong := range warningErrors(v.Deprecated, v.DeprecationWarning) {
			d.add(field.Invalid(at.Child("deprecationWarning"), v.DeprecationWarning, wrong))
		}
		of := spec.Subresources
		if own {
			first := slices.IndexFunc(spec.Versions, func(other crdVersion) bool {
				return other.Name == v.Name
			})
			of = spec.Versions[first].Subresources
		}
		d.schema(v.Schema, hasStatus(of), v.Name, at.Child("schema"))
		d.subresources(v.Subresources, at.Child("subresources"))
		d.columns(v.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))
		if len(v.SelectableFields) == 0 {
			continue
		}
		if !hasSchema(*v) {
			d.add(field.Invalid(at.Child("selectableFields"), "",
				"may only be set when `version.schema.openAPIV3Schema` is not included"))
		} else {
			d.selectable(v.SelectableFields, v.Schema.OpenAPIV3Schema, v.Name, at)
		}
	}
	if !unique {
		d.add(field.Invalid(path, spec.Versions, "must contain unique version names"))
	}
	if stored != 1 {
		d.add(field.Invalid(path, spec.Versions, "must have exactly one version marked as storage version"))
	}
	if spec.Version != "" {
		if wrong := utilvalidation.IsDNS1035Label(spec.Version); len(wrong) > 0 {
			d.add(field.Invalid(field.NewPath("spec", "version"), spec.Version, strings.Join(wrong, ",")))
		}
	}
}

// warningErrors returns what is wrong with a deprecation warning.
func warningErrors(deprecated bool, warning *string) (wrong []string) {
	switch {
	case warning == nil:
		return nil
	case !deprecated:
		return []string{"can only be set for deprecated versions"}
	}
	if len(*warning) > 256 {
		wrong = append(wrong, "must be <= 256 characters long")
	}
	if *warning == "" {
		wrong = append(wrong, "must not be an empty string")
	}
	if i := strings.IndexFunc(*warning, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		wrong = append(wrong, fmt.Sprintf(
			"must only contain printable UTF-8 characters; non-printable character found at index %d", i))
	}
	return wrong
}

// names judges the names of a kind.
func (d *definition) names(names *apiextensions.CustomResourceDefinitionNames, path *field.Path) {
	judge := func(at *field.Path, name, label, prefix string) {
		if wrong := utilvalidation.IsDNS1035Label(label); len(wrong) > 0 {
			d.add(field.Invalid(at, name, prefix+strings.Join(wrong, ",")))
		}
	}
	const mixed = "may have mixed case, but should otherwise match: "
	for _, name := range []struct{ member, value, prefix string }{{"plural", names.Plural, ""},
		{"singular", names.Singular, ""}, {"kind", names.Kind, mixed}, {"listKind", names.ListKind, mixed}} {
		label := name.value
		if name.prefix != "" {
			label = strings.ToLower(label)
		}
		if label != "" {
			judge(path.Child(name.member), name.value, label, name.prefix)
		}
	}
	for i, name := range names.ShortNames {
		judge(path.Child("shortNames").Index(i), name, name, "")
	}
	if names.Kind != "" && names.Kind == names.ListKind {
		d.add(field.Invalid(path.Child("listKind"), names.ListKind, "kind and listKind may not be the same"))
	}
	for i, name := range names.Categories {
		judge(path.Child("categories").Index(i), name, name, "")
	}
}

// storedVersions judges the stored versions, to which the server adds the storage version.
func (d *definition) storedVersions(of *apiextensions.CustomResourceDefinition) {
	path := field.NewPath("status", "storedVersions")
	all := of.Status.StoredVersions
	if len(all) == 0 {
		d.add(field.Invalid(path, all, "must have at least one stored version"))
		return
	}
	missing := map[string]bool{}
	for _, name := range all {
		missing[name] = true
	}
	for _, v := range of.Spec.Versions {
		if v.Storage && !missing[v.Name] { // also the second one of that name
			d.add(field.Invalid(path, all, "must have the storage version "+v.Name))
		}
		delete(missing, v.Name)
	}
	for i, name := range all {
		if missing[name] {
			d.add(field.Invalid(path.Index(i), name, fmt.Sprintf("missing from spec.versions; %[1]s was previously a "+
				"storage version, and must remain in spec.versions until a storage migration ensures no data remains "+
				"persisted in %[1]s and removes %[1]s from status.storedVersions", name)))
		}
	}
}

// approval judges the annotation that groups of the community need. An update may keep its state.
func (d *definition) approval(next, old *apiextensions.CustomResourceDefinition) {
	group := "." + next.Spec.Group
	if !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".kubernetes.io") {
		return
	}
	const name = apiextensionsv1.KubeAPIApprovedAnnotation
	text := next.Annotations[name]
	state := approvalOf(text)
	if old != nil && approvalOf(old.Annotations[name]) == state {
		return
	}
	path := field.NewPath("metadata", "annotations").Key(name)
	const see = ", see https://github.com/kubernetes/enhancements/pull/1111"
	switch state {
	case "missing":
		d.add(field.Required(path, fmt.Sprintf("protected groups must have approval annotation %q"+see, name)))
	case "invalid":
		d.add(field.Invalid(path, text, fmt.Sprintf("protected groups must have approval annotation %q with either a "+
			"URL or a reason starting with \"unapproved\""+see, name)))
	}
}

func approvalOf(text string) string {
	link, err := url.ParseRequestURI(text)
	switch {
	case text == "":
		return "missing"
	case strings.HasPrefix(text, "unapproved"):
		return "bypassed"
	case err == nil && link.Host != "" && link.Scheme != "":
		return "approved"
	}
	return "invalid"
}

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
	schemaTypes   = []string{"array", "boolean", "integer", "number", "object", "string"}
)

// columns judges printer columns.
func (d *definition) columns(columns []apiextensions.CustomResourceColumnDefinition, path *field.Path) {
	for i, column := range columns {
		at := path.Index(i)
		if column.Name == "" {
			d.add(field.Required(at.Child("name"), ""))
		}
		if known := "must be one of " + strings.Join(columnTypes, ","); column.Type == "" {
			d.add(field.Required(at.Child("type"), known))
		} else if !slices.Contains(columnTypes, column.Type) {
			d.add(field.Invalid(at.Child("type"), column.Type, known))
		}
		if column.Format != "" && !slices.Contains(columnFormats, column.Format) {
			d.add(field.Invalid(at.Child("format"), column.Format, "must be one of "+strings.Join(columnFormats, ",")))
		}
		if column.JSONPath == "" {
			d.add(field.Required(at.Child("JSONPath"), ""))
		} else {
			d.jsonPath(column.JSONPath, at.Child("JSONPath"))
		}
	}
}

// jsonPath requires a path in dot notation, and reports whether it is one.
func (d *definition) jsonPath(text string, path *field.Path) bool {
	if text[0] != '.' {
		d.add(field.Invalid(path, text, "must be a simple json path starting with ."))
		return false
	}
	return true
}

// subresources judges the subresources of a kind.
func (d *definition) subresources(of *subresources, path *field.Path) {
	if of == nil || of.Scale == nil {
		return
	}
	judge := func(member, text, where string, below ...string) {
		at := path.Child("scale." + member)
		if d.jsonPath(text, at) &&
			!slices.ContainsFunc(below, func(prefix string) bool { return strings.HasPrefix(text, prefix) }) {
			d.add(field.Invalid(at, text, "should be a json path under "+where))
		}
	}
	for _, p := range []struct{ member, text, below string }{
		{"specReplicasPath", of.Scale.SpecReplicasPath, ".spec"},
		{"statusReplicasPath", of.Scale.StatusReplicasPath, ".status"}} {
		if p.text == "" {
			d.add(field.Required(path.Child("scale."+p.member), ""))
		} else {
			judge(p.member, p.text, p.below, p.below+".")
		}
	}
	if selector := of.Scale.LabelSelectorPath; selector != nil && *selector != "" {
		judge("labelSelectorPath", *selector, "either .spec or .status", ".spec.", ".status.")
	}
}

// mostSelectable is the number of fields that a version may select by.
const mostSelectable = 8

// selectable judges the fields that a version of a kind selects by.
func (d *definition) selectable(fields []apiextensions.SelectableField, schema *schemaProps,
	version string, path *field.Path) {
	made, err := structural.NewStructural(schema)
	if err != nil {
		d.add(field.Invalid(path.Child("schema.openAPIV3Schema"), "", err.Error()))
	}
	if made == nil {
		made = &structural.Structural{} // the server panics if there is no error about the text of a path
	}
	path = path.Child("selectableFields")
	seen := map[string]bool{}
	for i, f := range fields {
		at := path.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			d.add(field.Required(at, ""))
			continue
		}
		found, of, err := cel.ValidFieldPath(f.JSONPath, made, cel.WithFieldPathAllowArrayNotation(false))
		if err != nil {
			d.add(field.Invalid(at, f.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if found.Root().String() == "metadata" {
			d.add(field.Invalid(at, f.JSONPath, "must not point to fields in metadata"))
		}
		if of == nil || !slices.Contains([]string{"string", "boolean", "integer"}, of.Type) {
			d.add(field.Invalid(at, f.JSONPath, "must point to a field of type string, boolean or integer. "+
				"Enum string fields and strings with formats are allowed."))
		}
		if seen[found.String()] {
			d.add(field.Duplicate(at, f.JSONPath))
		}
		seen[found.String()] = true
	}
	if len(seen) > mostSelectable && !d.crowded[version] {
		d.add(field.TooMany(path, len(seen), mostSelectable))
	}
}

// conversion judges the conversion between versions.
func (d *definition) conversion(c *apiextensions.CustomResourceConversion, preserves bool, path *field.Path) {
	strategy, client := path.Child("strategy"), path.Child("webhookClientConfig")
	if preserves && c.Strategy != apiextensions.NoneConverter {
		d.add(field.Invalid(strategy, c.Strategy, "must be None if spec.preserveUnknownFields is true"))
	}
	d.oneOf(strategy, string(c.Strategy), string(apiextensions.NoneConverter), string(apiextensions.WebhookConverter))
	if c.Strategy != apiextensions.WebhookConverter {
		const without = "should not be set when strategy is not set to Webhook"
		if c.WebhookClientConfig != nil {
			d.add(field.Forbidden(client, without))
		}
		if len(c.ConversionReviewVersions) > 0 {
			d.add(field.Forbidden(path.Child("conversionReviewVersions"), without))
		}
		return
	}
	switch to := c.WebhookClientConfig; {
	case to == nil:
		d.add(field.Required(client, "required when strategy is set to Webhook"))
	case (to.URL == nil) == (to.Service == nil):
		d.add(field.Required(client, "exactly one of url or service is required"))
	case to.URL != nil:
		d.webhookURL(*to.URL, client.Child("url"))
	default:
		d.webhookService(to.Service, client.Child("service"))
	}
	if to := c.WebhookClientConfig; to != nil && len(to.CABundle) > 0 && d.authorities {
		if err := certs.CheckAuthorities(to.CABundle); err != nil {
			d.add(field.Invalid(client.Child("caBundle"), to.CABundle, err.Error()))
		}
	}
	d.reviewVersions(c.ConversionReviewVersions, path.Child("conversionReviewVersions"))
}

// webhookURL judges the URL of a webhook (apiserver pkg/util/webhook/validation.go v0.37.2).
func (d *definition) webhookURL(text string, path *field.Path) {
	const form = "; desired format: https://host[/path]"
	link, err := url.Parse(text)
	if err != nil {
		d.add(field.Required(path, "url must be a valid URL: "+err.Error()+form))
		return
	}
	if link.Scheme != "https" {
		d.add(field.Invalid(path, link.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if link.Host == "" {
		d.add(field.Invalid(path, link.Host, "host must be specified"+form))
	}
	if link.User != nil {
		d.add(field.Invalid(path, link.User.String(), "user information is not permitted in the URL"))
	}
	if link.Fragment != "" {
		d.add(field.Invalid(path, link.Fragment, "fragments are not permitted in the URL"))
	}
	if link.RawQuery != "" {
		d.add(field.Invalid(path, link.RawQuery, "query parameters are not permitted in the URL"))
	}
}

// webhookService judges the Service of a webhook. The server has name and namespace swapped.
func (d *definition) webhookService(s *apiextensions.ServiceReference, path *field.Path) {
	if s.Namespace == "" {
		d.add(field.Required(path.Child("name"), ""))
	}
	if s.Name == "" {
		d.add(field.Required(path.Child("namespace"), ""))
	}
	if wrong := utilvalidation.IsValidPortNum(int(s.Port)); wrong != nil {
		d.add(field.Invalid(path.Child("port"), s.Port, "port is not valid: "+strings.Join(wrong, ", ")))
	}
	if s.Path == nil || *s.Path == "/" || *s.Path == "" {
		return
	}
	at, text := path.Child("path"), *s.Path
	if text == "//" {
		d.add(field.Invalid(at, text, "segment[0] may not be empty"))
		return
	}
	if !strings.HasPrefix(text, "/") {
		d.add(field.Invalid(at, text, "must start with a '/'"))
	}
	for i, step := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if step == "" {
			d.add(field.Invalid(at, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, wrong := range utilvalidation.IsDNS1123Subdomain(step) {
			d.add(field.Invalid(at, text, fmt.Sprintf("segment[%d]: %v", i, wrong)))
		}
	}
}

func isReviewVersion(name string) bool { return name == "v1" || name == "v1beta1" }

// reviewVersions judges the versions of reviews that a webhook for conversion reads.
func (d *definition) reviewVersions(names []string, path *field.Path) {
	if len(names) == 0 {
		d.add(field.Required(path, ""))
		return
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			d.add(field.Invalid(path.Index(i), name, "duplicate version"))
			continue
		}
		for _, wrong := range utilvalidation.IsDNS1035Label(name) {
			d.add(field.Invalid(path.Index(i), name, wrong))
		}
	}
	if !d.reviews && !slices.ContainsFunc(names, isReviewVersion) {
		d.add(field.Invalid(path, names, "must include at least one of v1, v1beta1"))
	}
}
