// Package requests makes requests from objects, events and workloads, with hints for documents from which none can be
// made.
package requests

import (
	"errors"
	"fmt"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
	"github.com/google/uuid"
)

// Namespace is the kind of namespaces.
var Namespace = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// Words describe how the reader can provide missing input.
type Words struct {
	State       string // "with -c"
	Old         string // "with --old or -c; …"
	Subresource string // "--subresource %s"
}

// Hint returns advice about an error of [celgate.NewRequest]; empty if there is none.
func (w *Words) Hint(err error) string {
	var kind *schema.ResourceError
	var pod *PodError
	switch {
	case errors.As(err, &pod) && pod.Missing:
		return "add it " + w.State
	case pod != nil:
		return pod.Hint
	case errors.Is(err, celgate.ErrNoOldObject):
		return "add it " + w.Old
	case !errors.As(err, &kind):
		return ""
	case len(kind.Among) > 0:
		return "name the resource too, as in " + fmt.Sprintf(w.Subresource, kind.Among[0]+"/"+kind.Subresource)
	case kind.Kind.Group == "kustomize.config.k8s.io":
		return "kustomize build DIR | celgate apply -p … -"
	case len(kind.Served) > 0:
		return strings.Join(kind.Served, ", ") + " is"
	case kind.OfSubresource:
		return "name it, as in " + fmt.Sprintf(w.Subresource, "deployments/scale")
	case !kind.Meant.Empty():
		return "did you mean " + kind.Meant.GroupVersion().String() + " " + kind.Meant.Kind + "?"
	case kind.Mistaken:
		return "the server does not have this kind in this group"
	}
	return "add its CustomResourceDefinition " + w.State
}

// UID returns the UID of the request made from a document.
func UID(d *manifest.Document, r *celgate.Request) string {
	identity := []string{d.Position().String(), r.Kind.String(), r.Namespace, r.Name, string(r.Operation)}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join(identity, "\n"))).String()
}
