package celgate

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var (
	namespaceResource  = schema.GroupResource{Resource: "namespaces"}
	definitionResource = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	priorityClasses    = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
	systemPriorities   = map[string]bool{"system-node-critical": true, "system-cluster-critical": true}
)

// A deletion is a DELETE of one object, with the options of the client.
type deletion struct {
	*Request
	options *metav1.DeleteOptions
}

// refusal returns the registry's answer to a deletion that it refuses before policies are evaluated: of a system
// priority class (Delete in pkg/registry/scheduling/priorityclass/storage/storage.go v1.37.2), and of an object that
// differs from the preconditions (rest.BeforeDelete in k8s.io/apiserver v0.37.2, and the equivalents for namespaces and
// definitions). A uid or resourceVersion that the stored object lacks is not compared.
func (d *deletion) refusal(stored map[string]any) error {
	if resource := d.Resource.GroupResource(); resource == priorityClasses && systemPriorities[d.Name] {
		return apierrors.NewForbidden(resource, d.Name,
			errors.New("this is a system priority class and cannot be deleted"))
	}
	wanted := d.options.Preconditions
	if wanted == nil || stored == nil {
		return nil
	}
	uid, version := tree.Object(stored).Metadata().Text("uid"), tree.Object(stored).Metadata().Text("resourceVersion")
	switch {
	case uid != "" && wanted.UID != nil && string(*wanted.UID) != uid:
		return d.conflict("UID", string(*wanted.UID), uid, "deleted and then recreated")
	case version != "" && wanted.ResourceVersion != nil && *wanted.ResourceVersion != version:
		return d.conflict("ResourceVersion", *wanted.ResourceVersion, version, "modified")
	}
	return nil
}

func (d *deletion) conflict(what, sent, stored, happened string) error {
	if resource := d.Resource.GroupResource(); resource == namespaceResource || resource == definitionResource {
		return apierrors.NewConflict(resource, d.Name,
			fmt.Errorf("Precondition failed: %[1]s in precondition: %[2]v, %[1]s in object meta: %[3]v",
				what, sent, stored))
	}
	return apierrors.NewConflict(schema.GroupResource{Group: d.Kind.Group, Resource: d.Kind.Kind}, d.Name,
		fmt.Errorf("the %[1]s in the precondition (%[2]s) does not match the %[1]s in record (%[3]s). "+
			"The object might have been %[4]s", what, sent, stored, happened))
}

// isPending reports whether the object is being deleted already and the deletion does not change that, so that policies
// are not evaluated: a Pod without a shorter grace period (rest.BeforeDelete), a namespace that is not empty yet
// (Delete in pkg/registry/core/namespace/storage/storage.go).
func (d *deletion) isPending(stored map[string]any) bool {
	metadata := tree.Object(stored).Metadata()
	if metadata["deletionTimestamp"] == nil {
		return false
	}
	switch d.Resource.GroupResource() {
	case namespaceResource:
		return len(tree.Object(stored).At("spec").List("finalizers")) > 0
	case schema.GroupResource{Resource: "pods"}:
		left, asked := metadata.Number("deletionGracePeriodSeconds", 0), d.options.GracePeriodSeconds
		return left != 0 && (asked == nil || seconds(*asked) >= seconds(left))
	}
	return false
}

// seconds returns the grace period that the server uses.
func seconds(period int64) int64 {
	if period < 0 {
		return 1
	}
	return period
}
