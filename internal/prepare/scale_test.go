package prepare_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/schema/builtin"
)

func parseTree(t *testing.T, text string) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(asJSON, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestScale(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	types, err = types.WithCustomResources(parseTree(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.size.wanted, statusReplicasPath: .status.size, labelSelectorPath: .status.pick}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ resource, object, want, err string }{
		"deployment": {
			"apps/v1/deployments",
			`{metadata: {name: a, namespace: n, uid: u, resourceVersion: "3", labels: {b: c}}, spec: {replicas: 2, selector: {matchLabels: {b: c, a: d}}}, status: {replicas: 1}}`,
			`{metadata: {name: a, namespace: n, uid: u, resourceVersion: "3"}, spec: {replicas: 2}, status: {replicas: 1, selector: "a=d,b=c"}}`, "",
		},
		"nothing there": {
			"apps/v1/replicasets",
			`{metadata: {name: a}, spec: {replicas: 0}}`,
			`{metadata: {name: a}, spec: {}, status: {replicas: 0}}`, "",
		},
		"replication controller": {
			"/v1/replicationcontrollers",
			`{metadata: {name: a}, spec: {replicas: 2, selector: {b: c}}}`,
			`{metadata: {name: a}, spec: {replicas: 2}, status: {replicas: 0, selector: b=c}}`, "",
		},
		"operator unknown": {
			"apps/v1/deployments",
			`{metadata: {name: a}, spec: {selector: {matchExpressions: [{key: a, operator: Like}]}}}`,
			``, `spec.selector: "Like" is not a valid label selector operator`,
		},
		"selector of another type": {
			"apps/v1/deployments", `{metadata: {name: a}, spec: {selector: {matchLabels: [a]}}}`, ``, "spec.selector: ",
		},
		"custom": {
			"example.com/v1/things",
			`{metadata: {name: a}, spec: {size: {wanted: 4}}, status: {size: 3, pick: b=c}}`,
			`{metadata: {name: a}, spec: {replicas: 4}, status: {replicas: 3, selector: b=c}}`, "",
		},
		"custom without": {
			"example.com/v1/things", `{metadata: {name: a}, spec: {size: 4}}`,
			`{metadata: {name: a}, spec: {}, status: {replicas: 0}}`, "",
		},
		"custom of another type": {
			"example.com/v1/things", `{metadata: {name: a}, spec: {size: {wanted: many}}}`, ``,
			"spec.size.wanted: many is not an integer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			group, rest, _ := strings.Cut(c.resource, "/")
			version, name, _ := strings.Cut(rest, "/")
			resource := types.Resource(apischema.GroupVersionResource{Group: group, Version: version, Resource: name})
			got, err := prepare.Scale(parseTree(t, c.object), resource)
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("%v, not %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := parseTree(t, c.want)
			want["apiVersion"], want["kind"] = "autoscaling/v1", "Scale"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
