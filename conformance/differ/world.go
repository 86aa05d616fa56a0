package differ

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	// The built-in kinds of the server's scheme.
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

//go:embed world/*.yaml
var files embed.FS

// A World holds the objects besides policies and requests: types, namespaces, params, permissions.
type World struct {
	minor       string // of the server
	mutating    string // the version in which it serves mutating policies; empty: it serves none
	types       *schema.Registry
	definitions []map[string]any // CustomResourceDefinitions
	state       []map[string]any // as it is stored
	cluster     celgate.Cluster
	authorizer  authorizer.Authorizer
	kinds       []*kind
	upstream    *upstream
}

// A kind is a kind of tested objects.
type kind struct {
	resource  *schema.Resource
	typ       *shape.Type
	templates []map[string]any // valid objects
	pool      []*object        // prepared ones
	age       int              // which pool it is
}

// An object is one object in both worlds.
type object struct {
	tree map[string]any // prepared; never changed
	hub  runtime.Object // in the form of the server's handlers
}

// A request is one question to both sides.
type request struct {
	*celgate.Request
	resource    *schema.Resource
	object, old *object
}

// NewWorld reads the world of the newest minor. It stands until ctx ends.
func NewWorld(ctx context.Context) (*World, error) {
	w, err := readWorld(ctx, celgate.Newest)
	if err != nil {
		return nil, err
	}
	w.upstream, err = newUpstream(ctx, w)
	return w, err
}

// readWorld reads the world of a minor without the server's side.
func readWorld(ctx context.Context, minor string) (*World, error) {
	w := &World{minor: minor, authorizer: authorizer.AuthorizerFunc(authorize)}
	types, err := builtin.Registry(minor)
	if err != nil {
		return nil, err
	}
	if w.mutating, err = conformance.MutatingVersion(minor); err != nil {
		return nil, err
	}
	types = conformance.Serve(types, policyGroup+"/"+w.mutating)
	if w.definitions, err = read("definitions"); err != nil {
		return nil, err
	}
	if w.types, err = types.WithCustomResources(w.definitions...); err != nil {
		return nil, err
	}
	objects, err := read("state")
	if err != nil {
		return nil, err
	}
	cluster, err := state.New(w.types, objects...)
	if err != nil {
		return nil, err
	}
	for _, o := range objects { // as it is stored
		metadata, _ := o["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		stored, err := cluster.Get(ctx, kindOf(o), namespace, fmt.Sprint(metadata["name"]))
		if err != nil {
			return nil, err
		}
		if stored, _, err = prepare.ReadStored(stored, w.types, kindOf(o)); err != nil {
			return nil, err
		}
		w.state = append(w.state, stored)
	}
	if cluster, err = state.New(w.types, w.state...); err != nil {
		return nil, err
	}
	w.cluster = authorized{cluster, w.authorizer}
	w.kinds, err = w.read("objects")
	return w, err
}

// read reads manifests of kinds, one of each that the minor has.
func (w *World) read(name string) ([]*kind, error) {
	templates, err := read(name)
	if err != nil {
		return nil, err
	}
	var kinds []*kind
	for _, t := range templates {
		gvk := kindOf(t)
		resource := w.types.ResourceFor(gvk)
		if resource == nil && w.minor != celgate.Newest {
			continue
		}
		if resource == nil {
			return nil, fmt.Errorf("no resource for %v", gvk)
		}
		kinds = append(kinds, &kind{resource: resource, typ: w.types.Type(gvk), templates: []map[string]any{t}})
	}
	return kinds, nil
}

func read(name string) ([]map[string]any, error) {
	text, err := files.ReadFile("world/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	return conformance.Documents(bytes.TrimSpace(text))
}

func kindOf(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return apischema.FromAPIVersionAndKind(apiVersion, kind)
}

type authorized struct {
	celgate.Cluster
	by authorizer.Authorizer
}

func (a authorized) Authorizer() authorizer.Authorizer { return a.by }

// authorize decides by the verb, and includes all attributes of the check in the reason.
func authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	fields, fieldErr := a.GetFieldSelector()
	labels, labelErr := a.GetLabelSelector()
	reason := fmt.Sprintf("%s %s by %v: %s/%s/%s/%s %s/%s %q %v %v %v %v", a.GetVerb(), a.GetUser().GetName(),
		a.GetUser().GetGroups(),
		a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName(),
		a.GetPath(), fields, fieldErr, labels, labelErr)
	switch {
	case strings.HasPrefix(a.GetVerb(), "g"):
		return authorizer.DecisionAllow, reason, nil
	case a.GetVerb() == "fail":
		return authorizer.DecisionNoOpinion, reason, errors.New("the authorizer fails")
	case a.GetVerb() == "create":
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionDeny, reason, nil
}
