package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/webhook"
)

// asJSON lists the cases in which the JSON form of an object between two webhooks matters, with the reason. A case that
// agrees again must be removed.
var asJSON = map[string]string{
	"prepare/job-labels-mutated-nothing": "a patch that changes nothing is not sent, so that the server goes on with its own object",
	"prepare/job-labels-removed":         "the labels that the mutation removes are back in the object that is sent, so that the server does not share them",
	"custom/empty-list-mapped":           "the list that is null in JSON is one until then, and validating policies inside the server see that",
}

// compareWebhook answers a case over HTTP: the reviews that the server would send, the patch applied with the server's
// library.
func compareWebhook(t *testing.T, c *Case, w *World, engine *celgate.Engine, rejected []Rejection) {
	t.Helper()
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return engine }})
	defer server.Close()
	got := &Want{Rejected: rejected}
	if err := w.replayOverHTTP(t.Context(), c, engine, server.URL, got); err != nil {
		t.Fatal(err)
	}
	want := *c.Want
	want.AuditAnnotations = sentAnnotations(want.AuditAnnotations)
	diff := describeUnexpected(c, got, Compare(&want, got), cmp.Or(unvalidated[c.Name], registered[c.Name]))
	switch why := asJSON[c.Name]; {
	case why == "":
		report(t, c, "webhook", diff)
	case diff == "":
		t.Errorf("agrees now, but is known to differ: %s", why)
	}
}

// sentAnnotations are annotations with the keys that a webhook may send.
func sentAnnotations(recorded map[string]string) map[string]string {
	if recorded == nil {
		return nil
	}
	sent := map[string]string{}
	for key, value := range recorded {
		key = strings.TrimPrefix(key, "validation.policy.admission.k8s.io/")
		sent[strings.ReplaceAll(key, "/", "_")] = value
	}
	return sent
}

// replayOverHTTP does the work of the server around its two calls of a webhook.
func (w *World) replayOverHTTP(ctx context.Context, c *Case, e *celgate.Engine, url string, got *Want) error {
	prepared, err := w.prepare(ctx, e, c, got)
	if prepared == nil || err != nil {
		return err
	}
	request := prepared.Request()
	answer, err := send(ctx, url+"/mutate", request)
	if err != nil {
		return err
	}
	got.take(answer, prepared.Warnings())
	if !*got.Allowed {
		return nil
	}
	mutated := *request
	shares := w.sharesLabels(request, c.Object)
	if answer.Patch != nil {
		if mutated.Object, err = applyPatch(request.Object, answer.Patch); err != nil {
			return err
		}
		shares = w.sharesLabels(request, mutated.Object)
	}
	next := mutated
	in := prepare.Input{
		Types: w.Types, Resource: w.Types.Resource(request.Resource), SubResource: request.SubResource,
		Operation: string(request.Operation),
		Namespace: request.Namespace, Object: mutated.Object, Old: request.OldObject, Options: request.Options,
		Name: request.Name, DryRun: request.DryRun, SharesLabels: shares,
		User: request.UserInfo,
	}
	next.Object = prepare.ObjectToValidate(in)
	in.Before, in.Object = in.Object, next.Object
	advice := prepare.Warnings(in, celgate.Newest)
	if metadata, _ := next.Object["metadata"].(map[string]any); metadata != nil && next.Operation == celgate.Create {
		if next.Name == "" {
			next.Name, _ = metadata["name"].(string)
		}
		if given, _ := metadata["namespace"].(string); given != "" && request.Namespace != "" &&
			given != request.Namespace && request.Kind.Kind != "Namespace" {
			*got.Allowed = false
			got.Status = Strip(&apierrors.NewBadRequest(
				"the namespace of the provided object does not match the namespace sent on the request").ErrStatus)
			return nil
		}
	}
	if given := fmt.Sprint(next.Object["kind"]); next.Object != nil && given != request.Kind.Kind &&
		w.Types.Resource(request.Resource).Definition != nil {
		*got.Allowed = false
		wrong := field.Invalid(field.NewPath("kind"), given, "must be "+request.Kind.Kind)
		got.Status = Strip(&apierrors.NewInvalid(request.Kind.GroupVersion().WithKind(given).GroupKind(), next.Name,
			field.ErrorList{wrong}).ErrStatus)
		return nil
	}
	if answer, err = send(ctx, url+"/validate", &next); err != nil {
		return err
	}
	got.take(answer, advice)
	if !*got.Allowed {
		return nil
	}
	got.Object = Settle(next.Object)
	got.Mutated = Differs(Settle(mutated.Object), got.Object)
	return nil
}

// sharesLabels reports that the server's decoding of an object leaves labels in one map. An object that cannot be
// decoded does not share labels.
func (w *World) sharesLabels(r *celgate.Request, object map[string]any) bool {
	if r.Operation == celgate.Delete {
		return false
	}
	result, _ := prepare.Object(prepare.Input{
		Types: w.Types, Resource: w.Types.Resource(r.Resource), SubResource: r.SubResource,
		Operation: string(r.Operation),
		Namespace: r.Namespace, Object: object, Old: r.OldObject,
	})
	return result.SharesLabels
}

func (w *Want) take(answer *admissionv1.AdmissionResponse, warnings []string) {
	*w.Allowed = answer.Allowed
	for _, warning := range slices.Concat(warnings, answer.Warnings) {
		if !slices.Contains(w.Warnings, warning) {
			w.Warnings = append(w.Warnings, warning)
		}
	}
	delete(answer.AuditAnnotations, "mutated_by")
	for key, value := range answer.AuditAnnotations {
		if w.AuditAnnotations == nil {
			w.AuditAnnotations = map[string]string{}
		}
		w.AuditAnnotations[key] = value
	}
	if !answer.Allowed {
		w.Status = Strip(answer.Result)
	}
}

// applyPatch applies a patch to an object as it is sent.
func applyPatch(object map[string]any, patch []byte) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	if text, err = operations.Apply(text); err != nil {
		return nil, fmt.Errorf("%s: %w", patch, err)
	}
	var tree map[string]any
	return tree, utiljson.Unmarshal(text, &tree)
}

// send sends a request as the server does.
func send(ctx context.Context, url string, r *celgate.Request) (*admissionv1.AdmissionResponse, error) {
	raw := func(tree map[string]any) runtime.RawExtension {
		if tree == nil {
			return runtime.RawExtension{}
		}
		text, _ := json.Marshal(tree) // a JSON tree
		return runtime.RawExtension{Raw: text}
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u", Kind: metav1.GroupVersionKind(r.Kind), Resource: metav1.GroupVersionResource(r.Resource),
			SubResource: r.SubResource,
			Name:        r.Name, Namespace: r.Namespace, Operation: r.Operation,
			DryRun: &r.DryRun, UserInfo: r.UserInfo,
			Object: raw(r.Object), OldObject: raw(r.OldObject), Options: raw(r.Options),
		},
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"?timeout=10s", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || response.StatusCode != http.StatusOK ||
		review.Response == nil {
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	return review.Response, nil
}
