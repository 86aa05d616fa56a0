package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

var namespaceKind = requests.Namespace

// asked says how requests are made of manifests. AdmissionReviews say all of it themselves.
type asked struct {
	operation   string // empty: CREATE, or UPDATE of an object that exists
	old         *state.Cluster
	subresource string // "scale", or with the resource that it belongs to "deployments/scale"
	user        string
	groups      []string
	uid         string
	extra       map[string][]string
	pod         string             // "namespace/name" of the Pod that makes them
	identity    *requests.Identity // what user and pod come to; nil: see user
	self        *celgate.UserInfo  // of a live cluster; nil: defaultUser
	dryRun      bool
	namespace   string // of manifests that name none
}

// defaultUser makes the requests when no user is given.
const defaultUser = celgate.DefaultUser

// usedFlags names the flags in use that an AdmissionReview contradicts.
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

// words are how a reader of this command line gives what is missing.
var words = requests.Words{
	State:       "with -c",
	Old:         "with --old or -c; with --old and the same file the update changes nothing",
	Subresource: "--subresource %s",
}

// requester makes requests in the world.
func (w *world) requester() *celgate.Requester {
	return &celgate.Requester{Types: w.types, Stored: w.exist(w.stored).Get}
}

// request makes a request of a document: the one that an AdmissionReview holds, or the one that sends the manifest.
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
			return nil, fmt.Errorf("an AdmissionReview already says what %s would", strings.Join(flags, ", "))
		}
		return w.requester().ReviewRequest(d.Object)
	}
	r, err := w.requester().Request(ctx, d.Object, a.as())
	if err == nil {
		r.UID = requests.UID(d, r)
	}
	return r, err
}

func (a *asked) as() celgate.As {
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

// identify finds out who makes the requests. The service account of a live cluster is read if a policy looks at its
// token.
func (w *world) identify(ctx context.Context, a *asked) error {
	reads := slices.ContainsFunc(w.set.Policies, requests.ReadsToken)
	if a.user == "" && a.pod == "" || a.pod == "" && w.live != nil && !reads {
		return nil
	}
	id, err := requests.IdentityOf(ctx, w.requester(), a.as(), a.pod)
	if hint := words.Hint(err); hint != "" {
		return withHint(fmt.Errorf("--as-pod: %w", err), "%s", hint)
	}
	a.identity = id
	return err
}

// target finds the resource that objects of a kind are sent to.
func (w *world) target(kind schema.GroupVersionKind, subresource string) (*schema.Resource, error) {
	to, _, err := w.requester().Target(kind, subresource)
	return to, err
}

// namespaceOf returns the namespace of the request for an object.
func (w *world) namespaceOf(object map[string]any, to *schema.Resource, a *asked) string {
	return w.requester().NamespaceOf(object, to, a.as())
}

func withNamespace(object map[string]any, r *celgate.Request) map[string]any {
	return celgate.WithNamespace(object, r)
}

// isReview reports an AdmissionReview, in either version.
func isReview(object map[string]any) bool { return manifest.IsReview(object) }

// oldCluster holds the objects of --old.
func (w *world) oldCluster(c *console, docs []*manifest.Document, namespace string) (*state.Cluster, error) {
	none, err := state.New(w.types)
	if err != nil {
		return nil, err
	}
	placed := make([]*manifest.Document, len(docs))
	for i, d := range docs {
		in := *d
		kind := tree.Object(d.Object).Kind()
		if r := w.types.ResourceFor(kind); r == nil || r.Namespaced {
			in.Object = withNamespace(d.Object, &celgate.Request{Kind: kind, Namespace: cmp.Or(namespace, "default")})
		}
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
