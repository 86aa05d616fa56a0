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
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// An Identity is who makes the requests, and what of it is made up because nothing says it.
type Identity struct {
	celgate.UserInfo
	madeUp []madeUp
}

// madeUp is what nothing says.
type madeUp struct{ key, what string } // of an extra attribute, "" for the uid; such as "the uid of Node n1"

// The extra attributes that the API server takes from the token of a service account (as the validator in
// pkg/serviceaccount/claims.go v1.37.2 and UserInfo in apiserver/pkg/authentication/serviceaccount/util.go v0.37.2).
const (
	credentialKey = user.CredentialIDKey
	podNameKey    = serviceaccount.PodNameKey
	podUIDKey     = serviceaccount.PodUIDKey
	nodeNameKey   = serviceaccount.NodeNameKey
	nodeUIDKey    = serviceaccount.NodeUIDKey
)

// A PodError says that a Pod makes no requests.
type PodError struct {
	Message string
	Missing bool   // it is not among what exists
	Hint    string // else, what helps
}

func (e *PodError) Error() string { return e.Message }

// IdentityOf returns who makes the requests that are asked for: a Pod, "namespace/name", with the token that is bound
// to it, or else whom as says. A service account has a token of its own; what the API server reads in such a token is
// filled in where nothing else was said. Who names groups impersonates, and gets no more than these. The error is a
// [PodError], or says what cannot be read.
func IdentityOf(ctx context.Context, q *celgate.Requester, as celgate.As, pod string) (*Identity, error) {
	if pod != "" {
		return podIdentity(ctx, q, as, pod)
	}
	if as.User == "" && as.Self != nil {
		return &Identity{UserInfo: *as.Self}, nil
	}
	name := cmp.Or(as.User, celgate.DefaultUser)
	id := &Identity{UserInfo: celgate.UserInfo{Username: name, UID: as.UID, Groups: state.Groups(name, as.Groups),
		Extra: as.Extra}}
	if namespace, name, err := serviceaccount.SplitUsername(id.Username); err == nil && len(as.Groups) == 0 {
		if err := id.fillFromToken(ctx, q, namespace, name); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func podIdentity(ctx context.Context, w *celgate.Requester, a celgate.As, named string) (*Identity, error) {
	namespace, name, ok := strings.Cut(named, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, &PodError{Message: fmt.Sprintf("a Pod is NAMESPACE/NAME, not %q", named),
			Hint: "for example shop/web-0"}
	}
	pod, err := w.Stored(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, namespace, name)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, &PodError{Message: "there is no Pod " + named, Missing: true}
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
		return nil, &PodError{Message: "the Pod " + named + " has no token: automountServiceAccountToken is false",
			Hint: "name a user"}
	}
	username := serviceaccount.MakeUsername(namespace, account)
	id := &Identity{UserInfo: celgate.UserInfo{Username: username, UID: a.UID, Groups: state.Groups(username, nil),
		Extra: maps.Clone(a.Extra)}}
	if id.Extra == nil {
		id.Extra = map[string][]string{}
	}
	id.set(podNameKey, name)
	if uid := tree.Object(pod).Metadata().Text("uid"); uid != "" {
		id.set(podUIDKey, uid)
	} else {
		id.makeUp(podUIDKey, "Pod", named)
	}
	if node := text("nodeName"); node != "" {
		id.set(nodeNameKey, node)
		known, err := w.Stored(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Node"}, "", node)
		if err != nil {
			return nil, err
		}
		if uid := tree.Object(known).Metadata().Text("uid"); uid != "" {
			id.set(nodeUIDKey, uid)
		} else {
			id.makeUp(nodeUIDKey, "Node", node)
		}
	}
	return id, id.fillFromToken(ctx, w, namespace, account)
}

// projectsToken reports that a Pod asks for a token itself.
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

// fillFromToken fills in what the token of a service account says of it.
func (id *Identity) fillFromToken(ctx context.Context, w *celgate.Requester, namespace, name string) error {
	if id.UID == "" {
		account, err := w.Stored(ctx, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, namespace,
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
		id.Extra = map[string][]string{}
	}
	if _, said := id.Extra[credentialKey]; !said { // a token has one, and each another
		id.set(credentialKey, "JTI="+uidOf("token of", namespace+"/"+name))
		id.madeUp = append(id.madeUp, madeUp{credentialKey, "the id of the token"})
	}
	return nil
}

// set gives an attribute a value, unless it was given one.
func (id *Identity) set(key, value string) {
	if _, said := id.Extra[key]; !said {
		id.Extra[key] = []string{value}
	}
}

// makeUp gives an attribute the uid of an object of which none is known.
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

// ReadsToken reports that a policy looks at more of the user than the name and the groups.
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

// NoteFor returns what is to be noted where a policy decided that looks at what is made up; "" if it does not.
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
	return "policies look at the token of the user, of which celgate made up " + joinNames(all)
}

func joinNames(all []string) string {
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return all[0]
}
