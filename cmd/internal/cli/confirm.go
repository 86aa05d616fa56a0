package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// confirming compares answers with those that the live server gives to dry runs of the same requests.
type confirming struct {
	server *kube.Snapshot

	// The policies are not those of the server: only its other refusals are of interest.
	otherPolicies bool
}

// confirm compares an answer with the server's answer to the original request. It returns nil without --confirm.
func (d *decider) confirm(ctx context.Context, it *answer, sent *celgate.Request) *report.Confirmation {
	c := d.confirming
	if c == nil {
		return nil
	}
	if isReview(it.doc.Object) {
		return &report.Confirmation{Unasked: "an AdmissionReview cannot be sent"}
	}
	object, err := c.server.Try(ctx, sentRequest(sent))
	refused, answered := requests.Refusal(err)
	if err != nil && !answered {
		return &report.Confirmation{Unasked: err.Error()}
	}
	own := it.Decision
	switch {
	case refused != nil && d.isNotThereYet(ctx, sent, refused):
		return &report.Confirmation{
			Unasked: "an object of the manifests is missing in the cluster: " + refused.Message}
	case refused != nil && own.Allowed:
		return &report.Confirmation{Differences: []string{"the server refuses it: " + refused.Message}, Refused: true}
	case c.otherPolicies, refused != nil && sameRefusal(refused, own):
		return &report.Confirmation{}
	case refused != nil:
		return &report.Confirmation{Differences: []string{"the server refuses it in other words: " + refused.Message}}
	case !own.Allowed:
		return &report.Confirmation{Differences: []string{"the server does not refuse it"}}
	case sent.Operation == celgate.Delete:
		return &report.Confirmation{}
	}
	return &report.Confirmation{Differences: d.differences(own.Object, object, sent)}
}

// sentRequest is a request as a client sends it.
func sentRequest(r *celgate.Request) kube.Trial {
	t := kube.Trial{Resource: r.Resource, SubResource: r.SubResource, Operation: r.Operation, Namespace: r.Namespace,
		Name: r.Name, Object: r.Object}
	if r.Kind == namespaceKind { // its request is in itself, its path is not
		t.Namespace = ""
	}
	if r.Operation != celgate.Update {
		return t
	}
	// A manifest does not contain a version: it applies to the current object.
	o := tree.Object(r.Object)
	if version := tree.Object(r.OldObject).Metadata()["resourceVersion"]; version != nil &&
		o.Metadata()["resourceVersion"] == nil {
		t.Object = o.WithMetadata(o.Metadata().With(map[string]any{"resourceVersion": version}))
	}
	return t
}

// isNotThereYet reports a refusal because of a namespace or a kind from the manifests that does not exist in the
// cluster yet.
func (d *decider) isNotThereYet(ctx context.Context, r *celgate.Request, refused *metav1.Status) bool {
	if refused.Code != http.StatusNotFound {
		return false
	}
	if resource := d.world.types.Resource(r.Resource); resource != nil && resource.Definition != nil {
		if served, err := d.world.live.Serves(ctx, r.Resource); err == nil && !served {
			return true
		}
	}
	given, err := d.world.cluster.Get(ctx, namespaceKind, "", r.Namespace)
	return err == nil && given != nil && refused.Details != nil && refused.Details.Kind == "namespaces"
}

// sameRefusal compares a refusal of the server with that of a decision. Of several policies that deny a request the
// server names one by chance, and the parts of some messages come in the order of a map.
func sameRefusal(server *metav1.Status, own *celgate.Decision) bool {
	if own.Status == nil || server.Code != own.Status.Code {
		return false
	}
	if slices.Equal(partsOf(server.Message), partsOf(own.Status.Message)) {
		return true
	}
	return slices.ContainsFunc(own.Violations, func(v celgate.Violation) bool {
		return slices.Contains(v.Actions, policy.Deny) && strings.Contains(server.Message, "'"+v.Policy+"'") &&
			strings.Contains(server.Message, v.Message)
	})
}

// partsOf returns the words of a message in the order of their letters.
func partsOf(message string) []string {
	parts := strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune("[], ", r) })
	slices.Sort(parts)
	return parts
}

// differences describes how the object of the server differs.
func (d *decider) differences(own, server map[string]any, r *celgate.Request) (all []string) {
	own, server = comparable(own), comparable(server)
	for _, h := range rewrite.Diff(own, server, d.world.types.Type(r.Kind)) {
		where := h.Path
		if where == "" {
			where = "the object"
		}
		all = append(all, fmt.Sprintf("the server has in %s: %s", where, strings.Join(h.Lines, "; ")))
	}
	return all
}

// comparable returns an object without values that only the server knows, and with the same name for all volumes of
// tokens.
func comparable(object map[string]any) map[string]any {
	o := tree.Object(object)
	metadata := map[string]any{}
	for key, value := range o.Metadata() {
		switch key {
		case "managedFields", "uid", "creationTimestamp", "resourceVersion", "generation":
		case "name":
			if o.Metadata()["generateName"] == nil {
				metadata[key] = value
			}
		default:
			metadata[key] = value
		}
	}
	out, _ := withoutDrawn(o.WithMetadata(metadata), "").(map[string]any)
	return out
}

// drawn are the members of objects that the server draws or allots.
var drawn = map[string]bool{"clusterIP": true, "clusterIPs": true, "nodePort": true, "healthCheckNodePort": true,
	"startTime": true, "lastPhaseTransitionTime": true, "batch.kubernetes.io/controller-uid": true, "controller-uid": true}

func withoutDrawn(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			if !drawn[key] || member == "None" {
				out[key] = withoutDrawn(member, key)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutDrawn(v[i], "")
		}
		return out
	case string:
		if prefix := "kube-api-access-"; key == "name" && strings.HasPrefix(v, prefix) {
			return prefix + "*"
		}
	case float64: // a decoded answer has integers where a Go type of the server has floats
		if n := int64(v); float64(n) == v {
			return n
		}
	}
	return v
}
