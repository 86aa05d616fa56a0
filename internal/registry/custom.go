package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// Customs are the judges of custom resources, made on demand. The zero value is ready for use, and safe for concurrent
// use.
type Customs struct{ byResource sync.Map }

// CustomOf returns the judge of a custom resource; see [NewCustom].
func (c *Customs) CustomOf(resource *schema.Resource) (*Custom, error) {
	if found, ok := c.byResource.Load(resource); ok {
		return found.(*Custom), nil
	}
	made, err := NewCustom(resource.Definition, resource.Version)
	if err == nil {
		c.byResource.Store(resource, made)
	}
	return made, err
}

// A Custom judges the objects of one version of a CustomResourceDefinition. It is safe for concurrent use.
type Custom struct {
	kind       apischema.GroupVersionKind
	namespaced bool
	whole      validation.SchemaValidator
	status     validation.SchemaValidator // nil without a schema for it
	structural *structural.Structural
	rules      *cel.Validator // nil without x-kubernetes-validations
	scale      *apiextensions.CustomResourceSubresourceScale
}

// NewCustom returns the judge of a version of a CustomResourceDefinition of apiextensions.k8s.io/v1, as a JSON tree
// (apiextensions-apiserver pkg/apiserver/customresource_handler.go v0.37.2). An error means that a server would not
// have stored the schema.
func NewCustom(definition map[string]any, version string) (*Custom, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition, &crd); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version
	})
	if i < 0 {
		return nil, fmt.Errorf("CustomResourceDefinition %q has no version %s", crd.Name, version)
	}
	v := &crd.Spec.Versions[i]
	c := &Custom{
		kind:       apischema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind},
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}
	var props *apiextensions.JSONSchemaProps
	if v.Schema != nil {
		var internal apiextensions.CustomResourceValidation
		err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema,
			&internal, nil)
		if err != nil {
			return nil, err
		}
		props = internal.OpenAPIV3Schema
	}
	var err error
	if props != nil {
		if c.structural, err = structural.NewStructural(props); err != nil {
			return nil, err
		}
		c.rules = cel.NewValidator(c.structural, true, celconfig.PerCallLimit)
	}
	if c.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, err
	}
	if of := v.Subresources; of != nil {
		if status, ok := propertyOf(props, "status"); ok && of.Status != nil {
			if c.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				return nil, err
			}
		}
		if of.Scale != nil {
			c.scale = &apiextensions.CustomResourceSubresourceScale{
				SpecReplicasPath: of.Scale.SpecReplicasPath, StatusReplicasPath: of.Scale.StatusReplicasPath,
				LabelSelectorPath: of.Scale.LabelSelectorPath,
			}
		}
	}
	return c, nil
}

func propertyOf(props *apiextensions.JSONSchemaProps, name string) (apiextensions.JSONSchemaProps, bool) {
	if props == nil {
		return apiextensions.JSONSchemaProps{}, false
	}
	of, ok := props.Properties[name]
	return of, ok
}

// Create returns the server's errors about a new object, in the server's order (apiextensions-apiserver
// pkg/registry/customresource/{strategy,validator}.go and apiserver pkg/registry/rest/create.go v0.37.2).
func (c *Custom) Create(ctx context.Context, object map[string]any) field.ErrorList {
	errs := c.typeMeta(object)
	if len(errs) == 0 {
		errs = append(errs, c.metadata(ctx, object, nil)...)
		errs = append(errs, stable(validation.ValidateCustomResource(nil, object, c.whole))...)
		errs = append(errs, c.replicas(object, true)...)
	}
	errs = append(errs, stable(objectmeta.Validate(ctx, nil, object, c.structural, false))...)
	errs = append(errs, stable(listtype.ValidateListSetsAndMaps(nil, c.structural, object))...)
	errs = c.validations(ctx, errs, object, nil)
	if len(errs) == 0 {
		errs = commonMetadata(object, c.namespaced)
	}
	return errs
}

// Update returns the server's errors about an object that replaces old. Unchanged parts are not judged again: what
// rules say of them are warnings.
func (c *Custom) Update(ctx context.Context, object, old map[string]any) (errs field.ErrorList, warnings []string) {
	ctx, told := withRecorder(ctx)
	errs = c.update(ctx, object, old, false)
	return errs, told.texts()
}

// UpdateStatus is Update for the subresource status
// (apiextensions-apiserver pkg/registry/customresource/status_strategy.go v0.37.2).
func (c *Custom) UpdateStatus(ctx context.Context, object, old map[string]any) (errs field.ErrorList,
	warnings []string) {
	ctx, told := withRecorder(ctx)
	errs = c.update(ctx, object, old, true)
	return errs, told.texts()
}

// A recorder keeps warnings, each once.
type recorder map[string]bool

// AddWarning keeps a warning; the agent is that of a header.
func (r recorder) AddWarning(_, text string) { r[text] = true }

// texts returns the warnings in order, which the server sends in the random order of maps.
func (r recorder) texts() []string { return slices.Sorted(maps.Keys(r)) }

// withRecorder returns a context for the packages of the server whose warnings the recorder keeps.
func withRecorder(ctx context.Context) (context.Context, recorder) {
	r := recorder{}
	return warning.WithWarningRecorder(ctx, r), r
}

func (c *Custom) update(ctx context.Context, object, old map[string]any, onlyStatus bool) field.ErrorList {
	correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: c.structural})
	errs := commonMetadataUpdate(object, old, c.namespaced)
	if wrong := c.typeMeta(object); len(wrong) > 0 {
		errs = append(errs, wrong...)
	} else {
		errs = append(errs, c.metadata(ctx, object, old)...)
		if onlyStatus {
			errs = append(errs, c.statusSchema(object, old, correlated)...)
		} else {
			errs = append(errs, stable(validation.ValidateCustomResourceUpdate(nil, object, old, c.whole,
				validation.WithRatcheting(correlated)))...)
		}
		errs = append(errs, c.replicas(object, !onlyStatus)...)
	}
	if !onlyStatus {
		errs = append(errs, stable(objectmeta.Validate(ctx, nil, object, c.structural, false))...)
	}
	if len(listtype.ValidateListSetsAndMaps(nil, c.structural, old)) == 0 {
		errs = append(errs, stable(listtype.ValidateListSetsAndMaps(nil, c.structural, object))...)
	}
	return c.validations(ctx, errs, object, old, cel.WithRatcheting(correlated))
}

// statusSchema validates the status of an update against its schema.
func (c *Custom) statusSchema(object, old map[string]any, correlated *common.CorrelatedObject) field.ErrorList {
	status, ok := object["status"]
	if !ok {
		return nil
	}
	var options []validation.ValidationOption
	if c.structural != nil {
		options = append(options, validation.WithRatcheting(correlated.Key("status")))
	}
	return stable(validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old["status"], c.status, options...))
}

func (c *Custom) typeMeta(object map[string]any) field.ErrorList {
	var errs field.ErrorList
	for _, of := range []struct{ member, want string }{
		{"kind", c.kind.Kind}, {"apiVersion", c.kind.GroupVersion().String()},
	} {
		if got, _ := object[of.member].(string); got != of.want {
			errs = append(errs, field.Invalid(field.NewPath(of.member), got, "must be "+of.want))
		}
	}
	return errs
}

// metadata applies the declarative rules of names; old is nil for a new object.
func (c *Custom) metadata(ctx context.Context, object, old map[string]any) field.ErrorList {
	meta, errs := metaOf(object)
	if len(errs) > 0 {
		return errs
	}
	path := field.NewPath("metadata")
	if old == nil {
		return metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, meta, nil, c.namespaced,
			metavalidation.NameIsDNSSubdomain, path, true)
	}
	before, errs := metaOf(old)
	if len(errs) > 0 {
		return errs
	}
	return metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Update, meta, before, c.namespaced, nil, path,
		true)
}

func metaOf(object map[string]any) (*metav1.ObjectMeta, field.ErrorList) {
	var meta metav1.ObjectMeta
	raw := object["metadata"]
	if raw == nil {
		return &meta, nil
	}
	path := field.NewPath("metadata")
	members, ok := tree.Object(withoutManagedFields(object))["metadata"].(map[string]any)
	if !ok {
		return nil, field.ErrorList{field.Invalid(path, raw, fmt.Sprintf("expected map[string]interface{}, got %T", raw))}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(members, &meta); err != nil {
		return nil, field.ErrorList{field.Invalid(path, raw, err.Error())}
	}
	return &meta, nil
}

// replicas applies the rules of the subresource scale; those of the spec only if requested.
func (c *Custom) replicas(object map[string]any, spec bool) field.ErrorList {
	if c.scale == nil {
		return nil
	}
	var errs field.ErrorList
	number := func(path string) {
		n, _, err := unstructured.NestedInt64(object, members(path)...)
		at := field.NewPath(path)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, n, err.Error()))
		case n < 0:
			errs = append(errs, field.Invalid(at, n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			errs = append(errs, field.Invalid(at, n, fmt.Sprintf("should be less than or equal to %d", math.MaxInt32)))
		}
	}
	if spec {
		number(c.scale.SpecReplicasPath)
	}
	number(c.scale.StatusReplicasPath)
	if path := c.scale.LabelSelectorPath; path != nil {
		text, _, err := unstructured.NestedString(object, members(*path)...)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), text, err.Error()))
		}
	}
	return errs
}

func members(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// validations adds the errors of the x-kubernetes-validations, unless they cannot be evaluated for an object of this
// form.
func (c *Custom) validations(ctx context.Context, errs field.ErrorList, object, old map[string]any,
	options ...cel.Option) field.ErrorList {
	if c.rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was "+
				"invalid; correct the existing errors to complete validation"))
		}
	}
	var before any // an untyped nil: there is no old object
	if old != nil {
		before = old
	}
	found, _ := c.rules.Validate(ctx, nil, c.structural, object, before, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, stable(found)...)
}

// stable sorts errors that the server returns in the random order of maps.
func stable(errs field.ErrorList) field.ErrorList {
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Detail, b.Detail))
	})
	return errs
}
