package policy

import (
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// goTypes has the kinds of Go types, whose values from a typed client do not contain them.
var goTypes = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, admissionv1beta1.AddToScheme, admissionv1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
})

// NewSet makes a set from Go values: the types of k8s.io/api/admissionregistration in v1, v1beta1 and v1alpha1,
// unstructured objects, and lists of either. They are read as by [FromObject], and not retained. Two objects of one
// kind and name are a [*DuplicateError].
func NewSet(objects ...runtime.Object) (*Set, error) {
	set := &Set{}
	for _, object := range objects {
		if err := set.add(object); err != nil {
			return nil, err
		}
	}
	if _, twice := set.Deduplicate(); len(twice) > 0 {
		return nil, twice[0]
	}
	return set, nil
}

func (s *Set) add(object runtime.Object) error {
	if meta.IsListType(object) {
		return meta.EachListItem(object, s.add)
	}
	tree, err := treeOf(object)
	if err != nil {
		return err
	}
	return s.Add(tree, nil)
}

// treeOf returns an object as a JSON tree, with the kind of its Go type if unset.
func treeOf(object runtime.Object) (map[string]any, error) {
	if u, ok := object.(runtime.Unstructured); ok {
		return u.UnstructuredContent(), nil
	}
	kinds, _, err := goTypes().ObjectKinds(object)
	if err != nil {
		return nil, fmt.Errorf("%T is not an admission policy or binding", object)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	kind := kinds[0]
	if given := object.GetObjectKind().GroupVersionKind(); given != (schema.GroupVersionKind{}) {
		kind = given
	}
	tree["apiVersion"], tree["kind"] = kind.ToAPIVersionAndKind()
	return tree, nil
}
