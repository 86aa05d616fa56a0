package celgate_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// TestDeletions sends deletions under a policy that denies all of them, so that the answer shows whether policies run.
// TestDeletions of conformance/live compares the same with a server.
func TestDeletions(t *testing.T) {
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := celgate.Load(fstest.MapFS{"policy.yaml": {Data: []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keep}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [DELETE], resources: ["*"]}]
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keep}
spec: {policyName: keep, validationActions: [Deny]}
`)}}, "policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := celgate.New(&bundle.Set, celgate.Options{Types: types})
	if err != nil {
		t.Fatal(err)
	}
	const denied = "denied request"
	object := func(kind string, metadata, spec map[string]any) map[string]any {
		metadata["name"] = "web"
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
	}
	leaving := func(seconds any) map[string]any {
		m := map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}
		if seconds != nil {
			m["deletionGracePeriodSeconds"] = seconds
		}
		return object("Pod", m, map[string]any{"nodeName": "n", "containers": []any{
			map[string]any{"name": "c", "image": "i"}}})
	}
	known := map[string]any{"uid": "u", "resourceVersion": "7"}
	for _, c := range []struct {
		name    string
		old     map[string]any
		options map[string]any
		want    string // in the message; empty: allowed
	}{
		{"plain", object("ConfigMap", map[string]any{}, nil), nil, denied},
		{"wrong uid", object("ConfigMap", known, nil), optionsWith("uid", "other"),
			"the UID in the precondition (other) does not match the UID in record (u)"},
		{"wrong version", object("ConfigMap", known, nil), optionsWith("resourceVersion", "6"),
			"the ResourceVersion in the precondition (6) does not match the ResourceVersion in record (7)"},
		{"right version", object("ConfigMap", known, nil), optionsWith("resourceVersion", "7"), denied},
		{"version nobody knows", object("ConfigMap", map[string]any{}, nil), optionsWith("resourceVersion", "6"), denied},
		{"namespace", object("Namespace", known, nil), optionsWith("resourceVersion", "6"),
			"Precondition failed: ResourceVersion in precondition: 6, ResourceVersion in object meta: 7"},
		{"pod leaving", leaving(int64(30)), nil, ""},
		{"pod leaving, no sooner", leaving(int64(30)), map[string]any{"gracePeriodSeconds": int64(30)}, ""},
		{"pod leaving, sooner", leaving(int64(30)), map[string]any{"gracePeriodSeconds": int64(5)}, denied},
		{"pod leaving now", leaving(int64(0)), nil, denied},
		{"pod leaving, no period", leaving(nil), nil, denied},
		{"namespace leaving", object("Namespace", map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"},
			map[string]any{"finalizers": []any{"kubernetes"}}), nil, ""},
		{"two ways", object("ConfigMap", map[string]any{}, nil),
			map[string]any{"orphanDependents": true, "propagationPolicy": "Orphan"},
			"orphanDependents and deletionPropagation cannot be both set"},
		{"unknown way", object("ConfigMap", map[string]any{}, nil), map[string]any{"propagationPolicy": "Sideways"},
			`Unsupported value: "Sideways"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := c.old["kind"].(string)
			req := &celgate.Request{
				Kind:     schema.GroupVersionKind{Version: "v1", Kind: kind},
				Resource: schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(kind) + "s"},
				Name:     "web", Namespace: "default",
				Operation: celgate.Delete, OldObject: c.old, Options: c.options,
			}
			got, err := message(t, engine, req)
			if err != nil {
				t.Fatal(err)
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func optionsWith(precondition, value string) map[string]any {
	return map[string]any{"preconditions": map[string]any{precondition: value}}
}

// message returns that of the denial of a request, or nothing.
func message(t *testing.T, engine *celgate.Engine, req *celgate.Request) (string, error) {
	prepared, err := engine.Prepare(t.Context(), req)
	var refused *apierrors.StatusError
	if errors.As(err, &refused) {
		return refused.ErrStatus.Message, nil
	}
	if err != nil {
		return "", err
	}
	d, err := engine.Admit(t.Context(), prepared)
	if err != nil || d.Allowed {
		return "", err
	}
	return d.Status.Message, nil
}
