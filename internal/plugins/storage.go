package plugins

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var (
	storageKind = schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}
	ingressKind = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "IngressClass"}
)

const betaStorageClass = "volume.beta.kubernetes.io/storage-class"

// defaultStorage is plugin/pkg/admission/storage/storageclass/setdefault/admission.go.
func defaultStorage(c *call) error {
	annotations := tree.Object(c.Object).At("metadata", "annotations")
	if c.spec()["storageClassName"] != nil || annotations[betaStorageClass] != nil {
		return nil
	}
	return c.setDefaultClass(storageKind, "storageClassName", "storageclass.kubernetes.io/is-default-class",
		"storageclass.beta.kubernetes.io/is-default-class")
}

// defaultIngress is plugin/pkg/admission/network/defaultingressclass/admission.go.
func defaultIngress(c *call) error {
	annotations := tree.Object(c.Object).At("metadata", "annotations")
	if c.spec()["ingressClassName"] != nil || annotations["kubernetes.io/ingress.class"] != nil {
		return nil
	}
	return c.setDefaultClass(ingressKind, "ingressClassName", "ingressclass.kubernetes.io/is-default-class")
}

// setDefaultClass sets a member of the spec to the default class, which one of the annotations marks: the newest, of
// several with the same time the first by name.
func (c *call) setDefaultClass(kind schema.GroupVersionKind, member string, annotations ...string) error {
	classes, err := c.list(kind, "")
	if err != nil {
		return err
	}
	var defaults []tree.Object
	for _, class := range classes {
		o := tree.Object(class)
		if slices.ContainsFunc(annotations, func(key string) bool { return o.Annotation(key) == "true" }) {
			defaults = append(defaults, o)
		}
	}
	if len(defaults) == 0 {
		return nil
	}
	newest := slices.MinFunc(defaults, func(a, b tree.Object) int {
		return cmp.Or(createdAt(b).Compare(createdAt(a)), cmp.Compare(a.Name(), b.Name()))
	})
	c.setSpec(map[string]any{member: newest.Name()})
	return nil
}

func createdAt(o tree.Object) time.Time {
	at, _ := time.Parse(time.RFC3339, o.Metadata().Text("creationTimestamp"))
	return at
}

var protections = map[string]string{"persistentvolumes": "kubernetes.io/pv-protection",
	"persistentvolumeclaims": "kubernetes.io/pvc-protection", "volumeattributesclasses": "kubernetes.io/vac-protection"}

// protectStorage is plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go.
func protectStorage(c *call) error {
	finalizer := protections[c.Resource.Resource]
	metadata := tree.Object(c.answer.Object).Metadata()
	finalizers := metadata.List("finalizers")
	if !slices.Contains(finalizers, any(finalizer)) {
		c.answer.Object = tree.Object(c.answer.Object).WithMetadata(
			metadata.With(map[string]any{"finalizers": append(slices.Clip(finalizers), finalizer)}))
	}
	return nil
}

// resizeClaim is plugin/pkg/admission/storage/persistentvolume/resize/admission.go.
func resizeClaim(c *call) error {
	size := func(claim map[string]any) resource.Quantity {
		text := tree.Object(claim).At("spec", "resources", "requests").Text("storage")
		q, _ := resource.ParseQuantity(text)
		return q
	}
	was := size(c.Old)
	if now := size(c.Object); now.Cmp(was) <= 0 {
		return nil
	}
	if tree.Object(c.Old).At("status").Text("phase") != "Bound" {
		return c.forbid("Only bound persistent volume claims can be expanded")
	}
	className := func(claim map[string]any) string {
		o := tree.Object(claim)
		return cmp.Or(o.Annotation(betaStorageClass), o.At("spec").Text("storageClassName"))
	}
	refusal := c.forbid("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	name := className(c.Object)
	if name == "" || name != className(c.Old) {
		return refusal
	}
	class, err := c.get(storageKind, "", name)
	if err != nil {
		return err
	}
	if class["allowVolumeExpansion"] != true {
		return refusal
	}
	return nil
}
