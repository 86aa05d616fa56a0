package celgate_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema"
)

const madeUpPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: asks}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: ["*"]}]}
  validations: [{expression: EXPRESSION}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: asks}
spec: {policyName: asks, validationActions: [Warn]}
`

// TestMadeUp tests values that only a server knows: a note reports it if the answer may depend on them.
func TestMadeUp(t *testing.T) {
	service := func(spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"name": "web", "namespace": "default"}, "spec": spec}
	}
	ports := []any{map[string]any{"port": int64(80)}}
	given := map[string]any{"clusterIP": "10.0.0.9", "ports": ports}
	aged := service(given)
	aged["metadata"] = map[string]any{"name": "web", "namespace": "default", "resourceVersion": "7",
		"creationTimestamp": "2021-01-01T00:00:00Z"}
	for _, c := range []struct {
		expression string
		old, new   map[string]any
		want       string // in the only note; empty: none
	}{
		{"object.spec.clusterIP.startsWith('10.')", nil, service(map[string]any{"ports": ports}),
			"the address of a Service"},
		{"object.spec.clusterIP.startsWith('10.')", nil, service(given), ""},
		{"has(object.spec.clusterIP) && object.spec.clusterIP != 'None' && size(object.spec.clusterIPs) == 1", nil,
			service(map[string]any{"ports": ports}), ""},
		{"!object.spec.ports.exists(p, has(p.nodePort))", nil,
			service(map[string]any{"ports": ports, "type": "NodePort"}), ""},
		{"object.spec.ports.all(p, p.nodePort < 31000)", nil,
			service(map[string]any{"ports": ports, "type": "NodePort"}), "the node ports of a Service"},
		{"object.spec.ipFamilies == ['IPv4']", nil, service(map[string]any{"ports": ports}), ""},
		{"timestamp(oldObject.metadata.creationTimestamp) < timestamp('2021-01-01T00:00:00Z')", service(given),
			service(given), "when a stored object was created"},
		{"timestamp(oldObject.metadata.creationTimestamp) < timestamp('2021-01-01T00:00:00Z')", aged, service(given),
			""},
		{"!has(object.metadata.managedFields)", nil, service(given), "managedFields"},
		{"oldObject.metadata.managedFields.exists(m, m.manager == 'x')", aged, service(given), "managedFields"},
	} {
		engine, _ := prepareBench(t, strings.Replace(madeUpPolicy, "EXPRESSION", `"`+c.expression+`"`, 1))
		req := &celgate.Request{
			Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Service"},
			Resource: schema.GroupVersionResource{Version: "v1", Resource: "services"},
			Name:     "web", Namespace: "default", Operation: celgate.Create, Object: c.new, OldObject: c.old,
		}
		if c.old != nil {
			req.Operation = celgate.Update
		}
		ready, err := engine.Prepare(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		d, err := engine.Admit(t.Context(), ready)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.want == "" && len(d.Notes) > 0,
			c.want != "" && (len(d.Notes) != 1 || !strings.Contains(d.Notes[0].Message, c.want)):
			t.Errorf("%s: notes %v, want %q", c.expression, d.Notes, c.want)
		}
	}
}
