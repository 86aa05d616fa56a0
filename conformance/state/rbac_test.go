// Package state compares the authorizer of package state with kube-apiserver's own, on generated roles, bindings and
// requests, and its built-in roles with those that a kube-apiserver creates.
package state

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"

	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// objects are RBAC objects; they are the getters and listers of the server's authorizer, with the errors of its
// listers.
type objects struct {
	roles           []*rbacv1.Role
	bindings        []*rbacv1.RoleBinding
	clusterRoles    []*rbacv1.ClusterRole
	clusterBindings []*rbacv1.ClusterRoleBinding
}

func (o *objects) GetRole(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	for _, r := range o.roles {
		if r.Namespace == namespace && r.Name == name {
			return r, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("role"), name)
}

func (o *objects) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	for _, r := range o.clusterRoles {
		if r.Name == name {
			return r, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), name)
}

func (o *objects) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	return slices.DeleteFunc(slices.Clone(o.bindings),
		func(b *rbacv1.RoleBinding) bool { return b.Namespace != namespace }), nil
}

func (o *objects) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return o.clusterBindings, nil
}

// bootstrap returns the objects that a kube-apiserver creates at startup, without aggregated rules, because controllers
// do not run here. Everything is sorted by name, the order of package state.
func bootstrap() *objects {
	var o objects
	clusterRoles := append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...)
	for i := range clusterRoles {
		o.clusterRoles = append(o.clusterRoles, &clusterRoles[i])
	}
	clusterBindings := append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...)
	for i := range clusterBindings {
		o.clusterBindings = append(o.clusterBindings, &clusterBindings[i])
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for i := range roles {
			o.roles = append(o.roles, &roles[i])
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for i := range bindings {
			o.bindings = append(o.bindings, &bindings[i])
		}
	}
	o.sort()
	return &o
}

func (o *objects) sort() {
	slices.SortFunc(o.roles, func(a, b *rbacv1.Role) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(o.bindings, func(a, b *rbacv1.RoleBinding) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.clusterRoles, func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(o.clusterBindings, func(a, b *rbacv1.ClusterRoleBinding) int { return cmp.Compare(a.Name, b.Name) })
}

// trees returns the objects as package state takes them.
func (o *objects) trees(t testing.TB) []map[string]any {
	var trees []map[string]any
	add := func(kind string, object any) {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		tree["apiVersion"], tree["kind"] = "rbac.authorization.k8s.io/v1", kind
		trees = append(trees, tree)
	}
	for _, r := range o.roles {
		add("Role", r)
	}
	for _, b := range o.bindings {
		add("RoleBinding", b)
	}
	for _, r := range o.clusterRoles {
		add("ClusterRole", r)
	}
	for _, b := range o.clusterBindings {
		add("ClusterRoleBinding", b)
	}
	return trees
}

func cluster(t testing.TB, objects ...map[string]any) *state.Cluster {
	t.Helper()
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	c, err := state.New(types, objects...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// list returns the objects of one RBAC kind in a cluster.
func list[T any](t testing.TB, c *state.Cluster, kind string) []*T {
	t.Helper()
	trees, err := c.List(t.Context(), rbacv1.SchemeGroupVersion.WithKind(kind), "")
	if err != nil {
		t.Fatal(err)
	}
	var all []*T
	for _, tree := range trees {
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

func TestBootstrap(t *testing.T) {
	c, want := cluster(t), bootstrap()
	slices.SortStableFunc(want.bindings, func(a,
		b *rbacv1.RoleBinding) int {
		return cmp.Compare(a.Namespace, b.Namespace)
	})
	ignored := gocmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(metav1.TypeMeta{})}
	for _, diff := range []string{
		gocmp.Diff(want.clusterRoles, list[rbacv1.ClusterRole](t, c, "ClusterRole"), ignored),
		gocmp.Diff(want.clusterBindings, list[rbacv1.ClusterRoleBinding](t, c, "ClusterRoleBinding"), ignored),
		gocmp.Diff(want.roles, list[rbacv1.Role](t, c, "Role"), ignored),
		gocmp.Diff(want.bindings, list[rbacv1.RoleBinding](t, c, "RoleBinding"), ignored),
	} {
		if diff != "" {
			t.Errorf("(-server +state)\n%s", diff)
		}
	}
}

// A dice makes up RBAC objects and requests of few words, so that they meet.
type dice struct{ *rand.Rand }

func (d dice) one(words ...string) string { return words[d.IntN(len(words))] }

func (d dice) some(words ...string) []string {
	var picked []string
	for _, w := range words {
		if d.IntN(3) == 0 {
			picked = append(picked, w)
		}
	}
	return picked
}

func (d dice) rules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for range d.IntN(4) {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs:           d.some("get", "use", "*", ""),
			APIGroups:       d.some("", "apps", "*"),
			Resources:       d.some("pods", "pods/exec", "pods/*", "*/exec", "*/", "*", "*/*", "/exec", ""),
			ResourceNames:   d.some("a", "", "*"),
			NonResourceURLs: d.some("*", "/", "/a", "/a*", "/a/**", "/a/*/b", ""),
		})
	}
	return rules
}

func (d dice) subjects() []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for range d.IntN(4) {
		subjects = append(subjects, rbacv1.Subject{
			Kind:      d.one("User", "Group", "ServiceAccount", "Robot"),
			Name:      d.one("jane", "staff", "sa", "system:serviceaccount:n:sa", "system:masters", ""),
			Namespace: d.one("", "n", "m"),
		})
	}
	return subjects
}

func (d dice) ref() rbacv1.RoleRef {
	return rbacv1.RoleRef{Kind: d.one("Role", "ClusterRole", "ClusterRole", "Other"), Name: d.one("0", "1", "gone")}
}

func (d dice) objects() *objects {
	var o objects
	for i := range 2 {
		name := strconv.Itoa(i)
		o.clusterRoles = append(o.clusterRoles,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: d.rules()})
		o.clusterBindings = append(o.clusterBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{Kind: d.one("ClusterRole", "ClusterRole", "Other"),
				Name: d.one("0", "1", "gone")},
			Subjects: d.subjects(),
		})
		for _, namespace := range []string{"m", "n"} {
			meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
			o.roles = append(o.roles, &rbacv1.Role{ObjectMeta: meta, Rules: d.rules()})
			o.bindings = append(o.bindings, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: d.ref(),
				Subjects: d.subjects()})
		}
	}
	return &o
}

func (d dice) request() authorizer.AttributesRecord {
	who := &user.DefaultInfo{
		Name: d.one("jane", "max", "system:serviceaccount:n:sa", "system:serviceaccount:m:sa",
			"system:serviceaccount::sa", "sa", ""),
		Groups: d.some("staff", "jane", "system:authenticated", "", "system:masters"),
	}
	return authorizer.AttributesRecord{
		User: who, Verb: d.one("get", "use", "list", "", "*"),
		APIGroup: d.one("", "apps", "*", "rbac.authorization.k8s.io"), APIVersion: "*",
		Resource: d.one("pods", "nodes", "*", ""), Subresource: d.one("", "", "exec", "*", "log"),
		Namespace: d.one("", "n", "m", "o"), Name: d.one("", "a", "b", "*"),
		Path: d.one("/a", "/a/x/b", "/", "", "/api", "/healthz", "/openapi/v3"), ResourceRequest: d.IntN(4) != 0,
	}
}

func TestAuthorizer(t *testing.T) {
	allowed := 0
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 0))}
		given := d.objects()
		c := cluster(t, given.trees(t)...)
		all := bootstrap()
		all.clusterRoles = append(all.clusterRoles, given.clusterRoles...)
		all.clusterBindings = append(all.clusterBindings, given.clusterBindings...)
		all.roles = append(all.roles, given.roles...)
		all.bindings = append(all.bindings, given.bindings...)
		all.sort()
		server, err := union.New(
			union.NamedAuthorizer{AuthorizerName: "kubernetes.io/system-privileged-group",
				Authorizer: authorizerfactory.NewPrivilegedGroups("system:masters")},
			union.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: rbac.New(all, all, all, all)},
		)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			request := d.request()
			want, wantReason, wantErr := server.Authorize(t.Context(), request)
			got, gotReason, gotErr := c.Authorizer().Authorize(t.Context(), request)
			if got != want || gotReason != wantReason || gotErr != nil || wantErr != nil {
				t.Fatalf("seed %d: %+v %v\ngot  %v %q %v\nwant %v %q %v", seed, request, request.User, got, gotReason,
					gotErr, want, wantReason, wantErr)
			}
			if got == authorizer.DecisionAllow {
				allowed++
			}
		}
	}
	if allowed < 1000 {
		t.Errorf("only %d requests were allowed: the dice are bad", allowed)
	}
}
