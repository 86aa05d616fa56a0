package differ

import (
	"encoding/json"
	"maps"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/celgate/celgate/schema"
)

// A definition is a CustomResourceDefinition as the server serves it.
type definition struct {
	*apiextensionsv1.CustomResourceDefinition
	schemas map[string]*structural.Structural // by version
}

func newDefinition(tree map[string]any) (*definition, error) {
	d := &definition{&apiextensionsv1.CustomResourceDefinition{}, map[string]*structural.Structural{}}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, d.CustomResourceDefinition); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.Spec)
	for _, version := range d.Spec.Versions {
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
			version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return nil, err
		}
		s, err := structural.NewStructural(&internal)
		if err != nil {
			return nil, err
		}
		if err := defaulting.PruneDefaults(s); err != nil {
			return nil, err
		}
		d.schemas[version.Name] = s
	}
	return d, nil
}

// interfaces returns the object interfaces that the handlers of the custom resource pass to admission (as
// customresource_handler.go of apiextensions-apiserver v0.37.2).
func (d *definition) interfaces(resources runtime.EquivalentResourceMapper) (admission.ObjectInterfaces, error) {
	factory, err := conversion.NewCRConverterFactory(nil, nil)
	if err != nil {
		return nil, err
	}
	safe, _, err := factory.NewConverter(d.CustomResourceDefinition)
	if err != nil {
		return nil, err
	}
	return &admission.RuntimeObjectInterfaces{
		ObjectCreater: creator{}, ObjectTyper: crdserverscheme.NewUnstructuredObjectTyper(), ObjectDefaulter: d,
		ObjectConvertor: safe, EquivalentResourceMapper: resources,
	}, nil
}

// Default applies the defaults of the schema.
func (d *definition) Default(in runtime.Object) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		defaulting.Default(u.Object, d.schemas[u.GroupVersionKind().Version])
	}
}

type creator struct{}

// New returns an empty object of a kind.
func (creator) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// custom adds the schemas of a custom resource to the document of its group and version.
func (c *converters) custom(d *definition) error {
	for _, version := range d.Spec.Versions {
		document, err := builder.BuildOpenAPIV3(d.CustomResourceDefinition, version.Name, builder.Options{V2: false})
		if err != nil {
			return err
		}
		gv := schema.GroupVersion{Group: d.Spec.Group, Version: version.Name}
		if c.models[gv] == nil {
			c.models[gv] = map[string]*spec.Schema{}
		}
		maps.Copy(c.models[gv], document.Components.Schemas)
		if c.by[gv], err = managedfields.NewTypeConverter(c.models[gv], false); err != nil {
			return err
		}
	}
	return nil
}

func groupVersionOf(path string) (schema.GroupVersion, bool) {
	for _, prefix := range []string{"apis/", "api/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			words := strings.Split(rest, "/")
			switch {
			case prefix == "api/" && len(words) == 1:
				return schema.GroupVersion{Version: words[0]}, true
			case prefix == "apis/" && len(words) == 2:
				return schema.GroupVersion{Group: words[0], Version: words[1]}, true
			}
		}
	}
	return schema.GroupVersion{}, false
}
