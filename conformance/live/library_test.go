package live

import (
	"path/filepath"
	"strings"
	"testing"
)

const namingLibrary = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyLibrary
metadata: {name: naming}
spec:
  functions:
  - {name: fits, params: [{name: text, type: string}], type: bool, expression: 'text.startsWith("a-")'}
  scopes:
  - {name: values, paths: ["data[*]"]}
`

// TestAuditOfLibrary audits a cluster that has policies with a library and an abstract one. When the library changes,
// everything is audited again.
func TestAuditOfLibrary(t *testing.T) {
	putDefinitions(t)
	put(t, namingLibrary+`
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: naming}
spec:
  abstract: true
  imports: [naming]
  matchConditions: [{name: here, expression: request.namespace == "library"}]
  validations:
  - {expression: naming.fits(object.metadata.name), message: another name}
  - {scope: naming.values, expression: naming.fits(scope), message: another value}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: naming}
spec:
  policyName: naming
  matchResources: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
`)
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: library}}")
	put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a-good, namespace: library}, data: {k: a-value}}")
	put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, namespace: library}, data: {k: value}}")
	put(t, "{apiVersion: v1, kind: Service, metadata: {name: bad, namespace: library}, spec: {ports: [{port: 80}]}}")
	last := filepath.Join(t.TempDir(), "last.json")
	audit := func(wants []string, never string, args ...string) {
		t.Helper()
		r := celgate(t, "", append([]string{"audit", "--kubeconfig=" + api.Kubeconfig, "-o", "text"}, args...)...)
		for _, want := range wants {
			if !strings.Contains(r.stdout+r.stderr, want) {
				t.Errorf("%q is not in %+v", want, r)
			}
		}
		if r.code != 1 || strings.Contains(r.stdout, never) {
			t.Errorf("%+v", r)
		}
	}
	audit([]string{"denied: another name", "denied: data[k]: another value", "ConfigMap library/bad"}, "library/a-good", "-o", "json="+last)
	put(t, strings.Replace(namingLibrary, `"a-"`, `"b"`, 1))
	audit([]string{"all objects are audited again: policies or bindings have changed since", "ConfigMap library/a-good"},
		"ConfigMap library/kube-root", "--changed-since", last)
}
