package live

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAuditBeside compares files with the cluster: findings in both are left out, and each of the others is reported
// for one of the two.
func TestAuditBeside(t *testing.T) {
	folder := t.TempDir()
	policies, files := filepath.Join(folder, "policies.yaml"), filepath.Join(folder, "files.yaml")
	write(t, policies, strings.ReplaceAll(shardPolicies, "shards", "beside"))
	namespace := "{apiVersion: v1, kind: Namespace, metadata: {name: beside, labels: {celgate-test: beside, owner: x}}}"
	object := func(name, labels string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: beside, labels: {" + labels + "}}}"
	}
	keep(t, namespace)
	for _, text := range []string{object("same", ""), object("mended", ""), object("gone", ""), object("good", "owner: x")} {
		put(t, text)
	}
	write(t, files, strings.Join([]string{namespace, object("same", ""), object("mended", "owner: x"), object("new", ""),
		object("good", "owner: x")}, "\n---\n"))
	args := []string{"audit", "--kubeconfig=" + api.Kubeconfig, "-p", policies, "-c", files}
	r := celgate(t, "", args...)
	for _, want := range []string{
		"ConfigMap beside/new (create, update), only in the files  " + files + ":",
		"ConfigMap beside/mended (create, update), only in the cluster\n",
		"ConfigMap beside/gone (create, update), only in the cluster\n",
		"\n1 finding only in the files, 2 only in the cluster, and 1 in both, which are left out; 1 policy in force\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in %+v", want, r)
		}
	}
	if r.code != 1 || strings.Contains(r.stdout, "beside/same") || strings.Contains(r.stdout, "beside/good") {
		t.Errorf("%+v", r)
	}
	write(t, files, strings.Join([]string{namespace, object("same", ""), object("mended", ""), object("gone", "")}, "\n---\n"))
	if r := celgate(t, "", args...); r.code != 0 || !strings.HasPrefix(r.stdout, "0 findings only in the files, 0 only") {
		t.Errorf("%+v", r)
	}
}
