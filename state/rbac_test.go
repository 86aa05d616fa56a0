package state_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/celgate/celgate/state"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// request reads "verb group resource/subresource namespace name" with - for empty, or "verb /path".
func request(text string, who user.Info) authorizer.Attributes {
	words := strings.Fields(strings.ReplaceAll(text, " -", " \x00"))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\x00", "")
	}
	if len(words) == 2 {
		return authorizer.AttributesRecord{User: who, Verb: words[0], Path: words[1]}
	}
	resource, subresource, _ := strings.Cut(words[2], "/")
	return authorizer.AttributesRecord{
		User: who, Verb: words[0], APIGroup: words[1], APIVersion: "*", Resource: resource, Subresource: subresource,
		Namespace: words[3], Name: words[4], ResourceRequest: true,
	}
}

func TestAuthorizer(t *testing.T) {
	rbac := cluster(t, file(t, "access.yaml")).Authorizer()
	const (
		readers  = `RBAC: allowed by RoleBinding "readers/store" of Role "reader" to `
		viewers  = `RBAC: allowed by RoleBinding "viewers/store" of ClusterRole "view" to Group "viewers"`
		scalers  = `RBAC: allowed by ClusterRoleBinding "scalers" of ClusterRole "scaler" to Group "scalers"`
		admins   = `RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "admin" to Group "admins"`
		painters = `RBAC: allowed by ClusterRoleBinding "painters" of ClusterRole "circle-1" to Group "painters"`
	)
	for _, test := range []struct {
		user, request string
		want          authorizer.Decision
		reason        string
	}{
		{"root,system:masters", "burn - pods - -", authorizer.DecisionAllow, ""},
		{"root,system:masters", "get /anything", authorizer.DecisionAllow, ""},
		{"jane", "get - pods store p", authorizer.DecisionAllow, readers + `User "jane"`},
		{"jane", "list - pods store -", authorizer.DecisionAllow, readers + `User "jane"`},
		{"jane", "delete - pods store p", authorizer.DecisionNoOpinion, ""},
		{"jane", "get - pods other p", authorizer.DecisionNoOpinion, ""},
		{"jane", "get - pods - p", authorizer.DecisionNoOpinion, ""},
		{"jane", "get apps pods store p", authorizer.DecisionNoOpinion, ""},
		{"jane", "get - pods/log store p", authorizer.DecisionAllow, readers + `User "jane"`},
		{"jane", "get - pods/exec store p", authorizer.DecisionNoOpinion, ""},
		{"jane", "get - configmaps store settings", authorizer.DecisionAllow, readers + `User "jane"`},
		{"jane", "get - configmaps store other", authorizer.DecisionNoOpinion, ""},
		{"jane", "get - configmaps store -", authorizer.DecisionNoOpinion, ""},
		{"system:serviceaccount:store:robot", "get - pods store p", authorizer.DecisionAllow,
			readers + `ServiceAccount "robot/store"`},
		{"system:serviceaccount:tools:robot", "get - pods store p", authorizer.DecisionAllow,
			readers + `ServiceAccount "robot/tools"`},
		{"system:serviceaccount:other:robot", "get - pods store p", authorizer.DecisionNoOpinion, ""},
		{"max,viewers", "get - services store s", authorizer.DecisionAllow, viewers},
		{"max,viewers", "get - secrets store s", authorizer.DecisionNoOpinion, ""},
		{"max,viewers", "get example.com widgets store w", authorizer.DecisionAllow, viewers},
		{"max,scalers", "update apps statefulsets/scale any s", authorizer.DecisionAllow, scalers},
		{"max,scalers", "update apps deployments/status any s", authorizer.DecisionNoOpinion, ""},
		{"max,scalers", "update apps deployments any s", authorizer.DecisionNoOpinion, ""},
		{"max,scalers", "get /healthz", authorizer.DecisionAllow, scalers},
		{"max,scalers", "get /healthz/ping", authorizer.DecisionNoOpinion, ""},
		{"max,scalers", "get /metrics/slis", authorizer.DecisionAllow, scalers},
		{"max,scalers", "get /metrics", authorizer.DecisionNoOpinion, ""},
		{"lost", "get - pods store p", authorizer.DecisionNoOpinion,
			`rbac: RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]`},
		{"lost", "get - pods other p", authorizer.DecisionNoOpinion,
			`rbac: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{"eve,admins", "get example.com widgets any w", authorizer.DecisionAllow, admins},
		{"eve,admins", "create apps deployments any d", authorizer.DecisionAllow, admins},
		{"eve,admins", "create rbac.authorization.k8s.io roles any r", authorizer.DecisionAllow, admins},
		{"eve,admins", "create - nodes - n", authorizer.DecisionNoOpinion, ""},
		{"art,painters", "draw example.com circles - c", authorizer.DecisionAllow, painters},
		{"max,system:authenticated", "create authorization.k8s.io selfsubjectaccessreviews - -",
			authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group "system:authenticated"`},
		{"max,system:authenticated", "get /openapi/v3", authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"`},
		{"system:anonymous,system:unauthenticated", "get /version", authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:unauthenticated"`},
		{"system:serviceaccount:kube-system:replicaset-controller", "create - pods store -", authorizer.DecisionAllow,
			`RBAC: allowed by ClusterRoleBinding "system:controller:replicaset-controller" of ClusterRole "system:controller:replicaset-controller" to ServiceAccount "replicaset-controller/kube-system"`},
	} {
		names := strings.Split(test.user, ",")
		who := &user.DefaultInfo{Name: names[0], Groups: names[1:]}
		decision, reason, err := rbac.Authorize(t.Context(), request(test.request, who))
		if err != nil {
			t.Errorf("%s: %s: %v", test.user, test.request, err)
		}
		if decision != test.want || reason != test.reason {
			t.Errorf("%s: %s\ngot  %v %q\nwant %v %q", test.user, test.request, decision, reason, test.want,
				test.reason)
		}
	}
}

func TestAuthorizerOfNewState(t *testing.T) {
	before := cluster(t, `{apiVersion: v1, kind: Namespace, metadata: {name: store}}`)
	after, err := before.With(trees(t, file(t, "access.yaml"))...)
	if err != nil {
		t.Fatal(err)
	}
	who := &user.DefaultInfo{Name: "jane"}
	for c, want := range map[*state.Cluster]authorizer.Decision{before: authorizer.DecisionNoOpinion,
		after: authorizer.DecisionAllow} {
		if got, _, _ := c.Authorizer().Authorize(t.Context(), request("get - pods store p", who)); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestGroups(t *testing.T) {
	for _, test := range []struct{ user, named, want string }{
		{"jane", "", "system:authenticated"},
		{"jane", "a b", "a b system:authenticated"},
		{"jane", "system:authenticated a", "system:authenticated a"},
		{"jane", "system:unauthenticated", "system:unauthenticated"},
		{"system:anonymous", "", "system:unauthenticated"},
		{"system:anonymous", "a", "a system:unauthenticated"},
		{"system:serviceaccount:store:robot", "",
			"system:serviceaccounts system:serviceaccounts:store system:authenticated"},
		{"system:serviceaccount:store:robot", "a", "a system:authenticated"},
		{"system:serviceaccount:broken", "", "system:authenticated"},
	} {
		if got := strings.Join(state.Groups(test.user, strings.Fields(test.named)), " "); got != test.want {
			t.Errorf("%s of %q: got %q, want %q", test.user, test.named, got, test.want)
		}
	}
}

// FuzzCluster adds any JSON to a cluster and queries it: the cluster must answer or return an error.
func FuzzCluster(f *testing.F) {
	for _, tree := range trees(f, file(f, "access.yaml")+"\n---\n"+objects) {
		text, err := json.Marshal(tree)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "get", "pods", "store", "/healthz")
	}
	r := types(f)
	f.Fuzz(func(t *testing.T, text []byte, verb, resource, namespace, path string) {
		var tree map[string]any
		if json.Unmarshal(text, &tree) != nil {
			return
		}
		c, err := state.New(r, tree)
		if err != nil {
			return
		}
		apiVersion, _ := tree["apiVersion"].(string)
		name, _ := tree["kind"].(string)
		metadata, _ := tree["metadata"].(map[string]any)
		called, _ := metadata["name"].(string)
		of := apischema.FromAPIVersionAndKind(apiVersion, name)
		all, err := c.List(t.Context(), of, "")
		if err != nil || len(all) == 0 {
			t.Errorf("%s is not listed: %v", text, err)
		}
		if _, err := c.Get(t.Context(), of, namespace, called); err != nil {
			t.Error(err)
		}
		who := &user.DefaultInfo{Name: "jane", Groups: []string{"admins", "scalers"}}
		for _, a := range []authorizer.AttributesRecord{
			{User: who, Verb: verb, Resource: resource, Subresource: path, Namespace: namespace, ResourceRequest: true},
			{User: who, Verb: verb, Path: path},
			{Verb: verb, Path: path},
		} {
			if _, _, err := c.Authorizer().Authorize(t.Context(), a); (err != nil) != (a.User == nil) {
				t.Errorf("%v: %v", a, err)
			}
		}
	})
}
