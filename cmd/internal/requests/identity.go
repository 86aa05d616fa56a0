package requests

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// An Identity is the user of requests, with the properties that are made up because they were not given.
type Identity struct {
	celgate.UserInfo
	madeUp []madeUp
}

// A madeUp is a property that was not given.
type madeUp struct{ key, what string } // of an extra attribute, "" for the uid; such as "the uid of Node n1"

// Extra attributes that the API server takes from the token of a service account (as the validator in
// pkg/serviceaccount/claims.go v1.37.2 and UserInfo in apiserver/pkg/authentication/serviceaccount/util.go v0.37.2).
const (
	credentialKey = user.CredentialIDKey
	podNameKey    = serviceaccount.PodNameKey
	podUIDKey     = serviceaccount.PodUIDKey
	nodeNameKey   = serviceaccount.NodeNameKey
	nodeUIDKey    = serviceaccount.NodeUIDKey
)

// A PodError means that a Pod cannot be the sender of requests.
type PodError struct {
	Message string
	Missing bool   // it does not exist in the state
	Hint    string // otherwise, advice
}

func (e *PodError) Error() string { return e.Message }

// IdentityOf returns the user of requests: a Pod, "namespace/name", with the token bound to it, or else the user of as.
// A service account has a token of its own; properties that the API server reads from such a token are filled in unless
// they were given. A user with given groups is impersonated, and has only these groups. The error is a [PodError], or a
// read error.
func IdentityOf(ctx context.Context, cluster celgate.Cluster, as celgate.As, pod string) (*Identity, error) {
	if pod != "" {
		return podIdentity(ctx, cluster, as, pod)
	}
	if as.User == "" && as.Self != nil {
		return &Identity{UserInfo: *as.Self}, nil
	}
	name := cmp.Or(as.User, celgate.DefaultUser)
	id := &Identity{UserInfo: celgate.UserInfo{Username: name, UID: as.UID, Groups: state.Groups(name, as.Groups),
		Extra: as.Extra}}
	if namespace, name, err := serviceaccount.SplitUsername(id.Username); err == nil && len(as.Groups) == 0 {
		if err := id.fillFromToken(ctx, cluster, namespace, name); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func podIdentity(ctx context.Context, cluster celgate.Cluster, a celgate.As, named string) (*Identity, error) {
	namespace, name, ok := strings.Cut(named, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, &PodError{Message: fmt.Sprintf("a Pod is NAMESPACE/NAME, not %q", named),
			Hint: "for example shop/web-0"}
	}
	pod, err := cluster.Get(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, namespace, name)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, &PodError{Message: "unknown Pod " + named, Missing: true}
	}
	spec, _ := pod["spec"].(map[string]any)
	text := func(member string) string {
		s, _ := spec[member].(string)
		return s
	}
	account := text("serviceAccountName")
	if account == "" {
		if account = text("serviceAccount"); account == "" {
			account = "default"
		}
	}
	if mounts, given := spec["automountServiceAccountToken"].(bool); given && !mounts && !projectsToken(spec) {
		return nil, &PodError{Message: "the Pod " + named + " does not have a token: automountServiceAccountToken is false",
			Hint: "name a user"}
	}
	username := serviceaccount.MakeUsername(namespace, account)
	id := &Identity{UserInfo: celgate.UserInfo{Username: username, UID: a.UID, Groups: state.Groups(username, nil),
		Extra: maps.Clone(a.Extra)}}
	if id.Extra == nil {
		id.Extra = map[string]authenticationv1.ExtraValue{}
	}
	id.set(podNameKey, name)
	if uid := tree.Object(pod).Metadata().Text("uid"); uid != "" {
		id.set(podUIDKey, uid)
	} else {
		id.makeUp(podUIDKey, "Pod", named)
	}
	if node := text("nodeName"); node != "" {
		id.set(nodeNameKey, node)
		known, err := cluster.Get(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "", node)
		if err != nil {
			return nil, err
		}
		if uid := tree.Object(known).Metadata().Text("uid"); uid != "" {
			id.set(nodeUIDKey, uid)
		} else {
			id.makeUp(nodeUIDKey, "Node", node)
		}
	}
	return id, id.fillFromToken(ctx, cluster, namespace, account)
}

// projectsToken reports whether a Pod requests a token itself.
func projectsToken(spec map[string]any) bool {
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		projected, _ := volume["projected"].(map[string]any)
		sources, _ := projected["sources"].([]any)
		for _, s := range sources {
			if source, _ := s.(map[string]any); source["serviceAccountToken"] != nil {
				return true
			}
		}
	}
	return false
}

// fillFromToken fills in the properties in the token of a service account.
func (id *Identity) fillFromToken(ctx context.Context, cluster celgate.Cluster, namespace, name string) error {
	if id.UID == "" {
		account, err := cluster.Get(ctx, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, namespace,
			name)
		if err != nil {
			return err
		}
		if id.UID = tree.Object(account).Metadata().Text("uid"); id.UID == "" {
			id.UID = uidOf("ServiceAccount", namespace+"/"+name)
			id.madeUp = append(id.madeUp, madeUp{"", "the uid of ServiceAccount " + namespace + "/" + name})
		}
	}
	if id.Extra = maps.Clone(id.Extra); id.Extra == nil {
		id.Extra = map[string]authenticationv1.ExtraValue{}
	}
	if _, said := id.Extra[credentialKey]; !said { // each token has its own
		id.set(credentialKey, "JTI="+uidOf("token of", namespace+"/"+name))
		id.madeUp = append(id.madeUp, madeUp{credentialKey, "the id of the token"})
	}
	return nil
}

// set sets an attribute unless it was given.
func (id *Identity) set(key, value string) {
	if _, said := id.Extra[key]; !said {
		id.Extra[key] = []string{value}
	}
}

// makeUp sets an attribute to a made-up uid of an object.
func (id *Identity) makeUp(key, kind, name string) {
	if _, said := id.Extra[key]; said {
		return
	}
	id.set(key, uidOf(kind, name))
	id.madeUp = append(id.madeUp, madeUp{key, "the uid of " + kind + " " + name})
}

// uidOf makes up a uid, the same in every run.
func uidOf(kind, name string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(kind+" "+name)).String()
}

// ReadsToken reports whether a policy reads properties of the user other than name and groups.
func ReadsToken(p *policy.Policy) bool {
	for e := range p.Expressions() {
		for src, found := e.Src, true; found; {
			if _, src, found = strings.Cut(src, "userInfo"); found && !strings.HasPrefix(src, ".username") &&
				!strings.HasPrefix(src, ".groups") {
				return true
			}
		}
	}
	return false
}

// NoteFor returns a note about a policy that decided and reads made-up properties; "" if it does not.
func (id *Identity) NoteFor(p *policy.Policy) string {
	if id == nil || len(id.madeUp) == 0 || !ReadsToken(p) {
		return ""
	}
	var text strings.Builder
	for e := range p.Expressions() {
		text.WriteString(e.Src + "\n")
	}
	src := text.String()
	whole := strings.Contains(src, "extra") && !strings.Contains(src, "authentication.kubernetes.io/")
	var all []string
	for _, m := range id.madeUp {
		if m.key == "" && strings.Contains(src, "uid") || m.key != "" && (whole || strings.Contains(src, m.key)) {
			all = append(all, m.what)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "policies depend on the token of the user, for which celgate assumed " + joinNames(all)
}

func joinNames(all []string) string {
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return all[0]
}
