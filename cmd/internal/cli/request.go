package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

var namespaceKind = requests.Namespace

// asked describes the requests made for manifests. An AdmissionReview is complete and does not use it.
type asked struct {
	operation   string // empty: CREATE, or UPDATE of an existing object
	old         *state.Cluster
	subresource string // "scale", or with its resource "deployments/scale"
	user        string
	groups      []string
	uid         string
	extra       map[string]authenticationv1.ExtraValue
	pod         string             // "namespace/name" of the Pod that makes the requests
	identity    *requests.Identity // the identity of user or pod; nil: user as given
	self        *celgate.UserInfo  // the user of a live cluster; nil: defaultUser
	dryRun      bool
	namespace   string // of manifests without one
}

// names reports whether another user or another old object is named than those of a live cluster.
func (a *asked) names() bool {
	return a.user != "" || len(a.groups) > 0 || a.uid != "" || len(a.extra) > 0 || a.pod != ""
}

// defaultUser makes the requests when no user is given.
const defaultUser = celgate.DefaultUser

// usedFlags returns the flags in use that an AdmissionReview contradicts.
func (a *asked) usedFlags() []string {
	var flags []string
	for name, used := range map[string]bool{
		"--operation": a.operation != "", "--old": a.old != nil, "--subresource": a.subresource != "",
		"--as": a.user != "", "--as-group": len(a.groups) > 0,
		"--as-uid": a.uid != "", "--as-extra": len(a.extra) > 0, "--as-pod": a.pod != "", "--dry-run": a.dryRun,
	} {
		if used {
			flags = append(flags, name)
		}
	}
	slices.Sort(flags)
	return flags
}

// words name the flags that provide missing input.
var words = requests.Words{
	State:       "with -c",
	Old:         "with --old or -c; with --old and the same file the update changes nothing",
	Subresource: "--subresource %s",
}

// request makes the request of a document: the one in an AdmissionReview, or the one that sends the manifest.
func (w *world) request(ctx context.Context, d *manifest.Document, a *asked) (*celgate.Request, error) {
	r, err := w.requestOf(ctx, d, a)
	if hint := words.Hint(err); hint != "" {
		return nil, &hintedError{err, hint}
	}
	return r, err
}

func (w *world) requestOf(ctx context.Context, d *manifest.Document, a *asked) (*celgate.Request, error) {
	if isReview(d.Object) {
		if flags := a.usedFlags(); len(flags) > 0 {
			return nil, fmt.Errorf("an AdmissionReview already contains the value of %s", strings.Join(flags, ", "))
		}
		return celgate.NewRequestFromReview(w.types, d.Object)
	}
	r, err := celgate.NewRequest(ctx, w.types, w.exist(w.stored), d.Object, a.toAs())
	if err == nil {
		r.UID = requests.UID(d, r)
	}
	return r, err
}

func (a *asked) toAs() celgate.As {
	as := celgate.As{
		Operation: celgate.Operation(a.operation), Subresource: a.subresource, Namespace: a.namespace, DryRun: a.dryRun,
		User: a.user, Groups: a.groups, UID: a.uid, Extra: a.extra, Self: a.self,
	}
	if a.old != nil {
		as.Old = a.old.Get
	}
	if a.identity != nil {
		as.User, as.Self = "", &a.identity.UserInfo
	}
	return as
}

// identify determines the user of requests. The service account of a live cluster is read if a policy reads properties
// of its token.
func (w *world) identify(ctx context.Context, a *asked) error {
	reads := slices.ContainsFunc(w.set.Policies, requests.ReadsToken)
	if a.user == "" && a.pod == "" || a.pod == "" && w.live != nil && !reads {
		return nil
	}
	id, err := requests.IdentityOf(ctx, w.exist(w.stored), a.toAs(), a.pod)
	if hint := words.Hint(err); hint != "" {
		return withHint(fmt.Errorf("--as-pod: %w", err), "%s", hint)
	}
	a.identity = id
	return err
}

// target returns the resource of requests for objects of a kind.
func (w *world) target(kind schema.GroupVersionKind, subresource string) (*schema.Resource, error) {
	to, _, err := w.types.Target(kind, subresource)
	return to, err
}

// isReview reports whether an object is an AdmissionReview, in either version.
func isReview(object map[string]any) bool { return manifest.IsReview(object) }

// oldCluster returns a cluster with the objects of --old.
func (w *world) oldCluster(c *console, docs []*manifest.Document, namespace string) (*state.Cluster, error) {
	none, err := state.New(w.types)
	if err != nil {
		return nil, err
	}
	placed := make([]*manifest.Document, len(docs))
	for i, d := range docs {
		in := *d
		of := w.types.ResourceFor(tree.Object(d.Object).Kind())
		if of == nil {
			of = &schema.Resource{Namespaced: true} // the common case
		}
		in.Object = of.WithNamespace(d.Object, namespace)
		placed[i] = &in
	}
	return w.withDocuments(c, none, placed), nil
}

// describe returns the kind and name of an object.
func describe(object map[string]any) string {
	return tree.Object(object).Text("kind") + " " + nameOf(object)
}

// nameOf returns "namespace/name" or "name".
func nameOf(object map[string]any) string {
	name := tree.Object(object).Name()
	if name == "" {
		if prefix := tree.Object(object).Metadata().Text("generateName"); prefix != "" {
			name = prefix + "*"
		}
	}
	if namespace := tree.Object(object).Namespace(); namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// prefixPlace puts a place before a message.
func prefixPlace(place policy.Position, message string) string {
	if s := place.String(); s != "" {
		return s + ": " + message
	}
	return message
}
