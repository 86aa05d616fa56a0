// Package corpus records the cases of internal/conformance from a live server, one at a time.
package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
)

// A Recorder runs cases on its own server.
type Recorder struct {
	minor    string
	mutating string // the version in which the server has mutating policies; empty: it has none
	server   *server.Server
	objects  objects
	webhooks *webhooks

	markers int                       // how many were made
	active  []map[string]any          // policies, bindings and marker of the last case, in the order of their creation
	gone    bool                      // the server has forgotten the policies of the case before active
	crds    map[string]map[string]any // CustomResourceDefinitions on the server, by name
	last    *conformance.Case         // whose state and policies are on the server
	created []map[string]any          // state and old object of the last case
}

// Start starts a server of a minor with the recorder's webhooks. Options may name admission plugins, and further flags.
func Start(ctx context.Context, minor string, options server.Options) (_ *Recorder, err error) {
	mutating, err := conformance.MutatingVersion(minor)
	if err != nil {
		return nil, err
	}
	options.Args = append(slices.Clone(options.Args),
		"--runtime-config=admissionregistration.k8s.io/v1beta1=true,admissionregistration.k8s.io/v1alpha1=true")
	if minor != celgate.Newest {
		options.Minor = minor
		options.Args = append(options.Args, server.MutatingGates(minor)...)
	}
	s, err := server.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	r := &Recorder{minor: minor, mutating: mutating, server: s,
		objects: objects{server: s}, crds: map[string]map[string]any{}, gone: true}
	defer func() {
		if err != nil {
			r.Stop()
		}
	}()
	if r.webhooks, err = startWebhooks(); err != nil {
		return nil, err
	}
	base, err := r.documents(foundation)
	if err != nil {
		return nil, err
	}
	for _, object := range append(base, r.webhooks.configurations()...) {
		err := poll(ctx, 30*time.Second, nil, func() (bool, error) {
			err := r.objects.create(ctx, object)
			var refused *refusal
			// The namespace default is created by the server itself, a moment after it is ready.
			return !errors.As(err, &refused) || refused.status.Code != http.StatusNotFound, err
		})
		if err != nil {
			return nil, err
		}
	}
	// The first marker waits until the server knows the schemas of its own kinds.
	if err := r.mark(ctx); err != nil {
		return nil, err
	}
	return r, r.clear(ctx)
}

// Stop ends the server.
func (r *Recorder) Stop() error {
	if r.webhooks != nil {
		r.webhooks.stop()
	}
	return r.server.Stop()
}

// documents reads policies of the recorder's own, as far as the server has their kinds.
func (r *Recorder) documents(text string) ([]map[string]any, error) {
	objects, err := conformance.Documents([]byte(text))
	if r.mutating == "" {
		objects = slices.DeleteFunc(objects, func(object map[string]any) bool {
			return strings.HasPrefix(fmt.Sprint(object["kind"]), "MutatingAdmissionPolicy")
		})
	}
	return conformance.WithPolicyVersion(objects, r.mutating), err
}

// foundation holds the objects on the server in every case: the permissions of the user dev, and policies without
// matching requests that keep the server's informers of param kinds alive. The server never restarts the informer of a
// built-in kind after the last policy with that paramKind is deleted, so without these policies the cache would contain
// a param of an earlier case.
var foundation = conformance.Rights + anchors("v1", "ConfigMap") + anchors("v1", "Secret") + anchors("v1",
	"Namespace") + anchors("v1", "Service") +
	anchors("v1", "ResourceQuota") + anchors(
	"apps/v1",
	"Deployment",
)

func anchors(apiVersion, kind string) string {
	name := "anchor-" + strings.ToLower(kind)
	paramKind := fmt.Sprintf("{apiVersion: %s, kind: %s}", apiVersion, kind)
	match := "{resourceRules: [{apiGroups: [anchor.celgate.dev], apiVersions: [v1], operations: [CREATE], resources: [anchors]}]}"
	return fmt.Sprintf(`
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  paramKind: %[2]s
  matchConstraints: %[3]s
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  paramRef: {name: none, namespace: default, parameterNotFoundAction: Allow}
  validationActions: [Deny]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  paramKind: %[2]s
  reinvocationPolicy: Never
  matchConstraints: %[3]s
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'test', path: '/kind'}]"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  paramRef: {name: none, namespace: default, parameterNotFoundAction: Allow}
`, name, paramKind, match)
}

// Install creates the CustomResourceDefinitions of the cases, so that the server knows them when the cases run: schemas
// take seconds to arrive at mutations, and kinds half a minute to arrive at params. Definitions that an older minor
// refuses are left out: it cannot answer their cases.
func (r *Recorder) Install(ctx context.Context, cases []*conformance.Case) error {
	for _, c := range cases {
		for _, object := range c.State {
			if object["kind"] == "CustomResourceDefinition" && r.crds[text(object, "metadata", "name")] == nil {
				err := r.define(ctx, object)
				if err != nil && (r.minor == celgate.Newest || !IsRefusal(err)) {
					return fmt.Errorf("%s: %w", c.Name, err)
				}
			}
		}
	}
	return nil
}

// define creates or updates a CustomResourceDefinition and waits until the server serves it.
func (r *Recorder) define(ctx context.Context, crd map[string]any) error {
	name := text(crd, "metadata", "name")
	if old := r.crds[name]; old != nil {
		if reflect.DeepEqual(old, crd) {
			return nil
		}
		if err := r.objects.remove(ctx, old); err != nil {
			return err
		}
	}
	if err := r.objects.create(ctx, crd); err != nil {
		return err
	}
	r.crds[name] = crd
	group, resource := text(crd, "spec", "group"), text(crd, "spec", "names", "plural")
	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if version["served"] != true {
			continue
		}
		gv := schema.GroupVersion{Group: group, Version: text(version, "name")}
		r.objects.forget(gv)
		err := poll(ctx, 20*time.Second, errors.New(name+" is not served"), func() (bool, error) {
			_, err := r.objects.discover(ctx, gv, func(found metav1.APIResource) bool { return found.Name == resource })
			if err != nil {
				return false, nil
			}
			answer, err := r.server.Do(ctx, server.Call{Method: http.MethodGet, Path: prefix(gv) + "/" + resource})
			return err == nil && answer.Code == http.StatusOK, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Record runs one case and returns the answer, or all answers if the case has several.
func (r *Recorder) Record(ctx context.Context, c *conformance.Case) (*conformance.Want, error) {
	if c.Request == nil || c.Request.Answers < 2 {
		return r.record(ctx, c)
	}
	answers := map[string]*conformance.Want{}
	// The server walks a map of Go, and a small one begins at one of its eight slots: of two policies, one is the first
	// seven times of eight. Twenty turns for each answer miss the rare one once in two hundred runs.
	for range 200 * c.Request.Answers {
		want, err := r.record(ctx, c)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(want)
		if err != nil {
			return nil, err
		}
		answers[string(text)] = want
		if len(answers) == c.Request.Answers {
			break
		}
		if err := r.clear(ctx); err != nil { // the order is drawn when policies are taken up
			return nil, err
		}
	}
	if len(answers) < c.Request.Answers && r.minor == celgate.Newest { // an older minor may have fewer
		return nil, fmt.Errorf("%d answers, not %d", len(answers), c.Request.Answers)
	}
	var all []*conformance.Want
	for _, text := range slices.Sorted(maps.Keys(answers)) {
		all = append(all, answers[text])
	}
	all[0].Others = all[1:]
	return all[0], nil
}

// RecordAnew is Record with policies that are written again.
func (r *Recorder) RecordAnew(ctx context.Context, c *conformance.Case) (*conformance.Want, error) {
	if err := r.clear(ctx); err != nil {
		return nil, err
	}
	return r.Record(ctx, c)
}

func (r *Recorder) record(ctx context.Context, c *conformance.Case) (*conformance.Want, error) {
	want := &conformance.Want{Minors: []string{r.minor}}
	if r.last != nil && c.SamePolicies(r.last) && c.Old == nil && r.last.Old == nil &&
		(r.last.Want == nil || r.last.Want.Rejected == nil) {
		want.Rejected = nil
	} else {
		if err := r.clear(ctx); err != nil {
			return nil, err
		}
		rejected, err := r.setUp(ctx, c)
		var refused *refusal
		if errors.As(err, &refused) && r.minor != celgate.Newest {
			want.Unable = refused.Error()
			return want, nil
		}
		if err != nil {
			return nil, err
		}
		want.Rejected = rejected
		r.last = c
		if rejected != nil {
			r.last = nil // the next case must write its policies
		}
	}
	if c.Request == nil {
		return want, nil
	}
	_, err := r.send(ctx, c, want)
	var refused *refusal
	if r.minor != celgate.Newest && (errors.Is(err, errPanic) || errors.As(err, &refused)) {
		return &conformance.Want{Minors: want.Minors, Unable: err.Error()}, nil
	}
	return want, err
}

// setUp creates the objects of the case and waits until its policies are in force.
func (r *Recorder) setUp(ctx context.Context, c *conformance.Case) ([]conformance.Rejection, error) {
	if len(c.State) > 0 || c.Old != nil {
		if err := r.forgotten(ctx); err != nil {
			return nil, err
		}
	}
	for _, object := range c.State {
		if object["kind"] == "CustomResourceDefinition" {
			if err := r.define(ctx, object); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.create(ctx, object); err != nil {
			return nil, err
		}
	}
	switch {
	case c.Old != nil && c.Request != nil && c.Request.Stored:
		if err := r.objects.store(ctx, c.Old); err != nil {
			return nil, err
		}
		r.created = append(r.created, c.Old)
	case c.Old != nil:
		if err := r.create(ctx, c.Old); err != nil {
			return nil, err
		}
	}
	for _, policy := range c.Stored {
		if err := r.objects.store(ctx, policy); err != nil {
			return nil, err
		}
		r.active = append(r.active, policy)
	}
	written, rejected, err := r.write(ctx, c.Policies)
	r.active = append(r.active, written...)
	if err != nil {
		return nil, err
	}
	if c.Request == nil {
		return rejected, nil
	}
	if err := r.AwaitPermission(ctx, c.Request); err != nil {
		return nil, err
	}
	if len(c.Policies) == 0 && len(c.Stored) == 0 && r.gone {
		return rejected, nil
	}
	return rejected, r.mark(ctx)
}

// write creates policies and bindings, and returns those that were written and those that the server refused. One of a
// kind that it does not serve is an error.
func (r *Recorder) write(ctx context.Context, policies []map[string]any) (written []map[string]any,
	rejected []conformance.Rejection, err error) {
	for _, policy := range policies {
		err := r.objects.create(ctx, policy)
		var refused *refusal
		switch {
		case errors.As(err, &refused) && !refused.unserved && refused.status.Code != http.StatusConflict:
			rejected = append(rejected, conformance.Rejection{
				Kind: text(policy, "kind"), Name: text(policy, "metadata", "name"),
				Status: conformance.Strip(refused.status),
			})
		case err != nil:
			return written, rejected, err
		default:
			written = append(written, policy)
		}
	}
	return written, rejected, nil
}

func (r *Recorder) create(ctx context.Context, object map[string]any) error {
	if err := r.objects.create(ctx, object); err != nil {
		return err
	}
	r.created = append(r.created, object)
	return nil
}

// AwaitPermission waits until RBAC permits the user to send the request.
func (r *Recorder) AwaitPermission(ctx context.Context, request *conformance.Request) error {
	gv, err := schema.ParseGroupVersion(request.APIVersion)
	if err != nil {
		return err
	}
	verb := map[string]string{"CREATE": "create", "UPDATE": "update", "DELETE": "delete",
		"CONNECT": "create"}[request.Operation]
	review := map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{
			"user": request.User, "groups": append(slices.Clone(request.Groups), "system:authenticated"),
			"resourceAttributes": map[string]any{
				"verb": verb, "group": gv.Group, "version": gv.Version, "resource": request.Resource,
				"subresource": request.Subresource, "namespace": request.Namespace, "name": request.Name,
			},
		},
	}
	return poll(ctx, 5*time.Second, fmt.Errorf("%s may not %s %s", request.User, verb, request.Resource),
		func() (bool, error) {
			answer, err := r.server.Do(ctx, server.Call{
				Method: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", Body: review,
			})
			if err != nil {
				return false, err
			}
			object, err := answer.Object()
			status, _ := object["status"].(map[string]any)
			return status["allowed"] == true, err
		},
	)
}

// marker holds the policies that show, by a warning about a Lease, that all earlier objects are in force.
const marker = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [coordination.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [leases]}]
  matchConditions: [{name: marker, expression: "object.metadata.name == 'NAME'"}]
  validations:
  - expression: "false"
    messageExpression: "'NAME' + (has(object.metadata.labels) && 'NAME' in object.metadata.labels ? ' twice' : '')"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  reinvocationPolicy: Never
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{apiGroups: [coordination.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [leases]}]
  matchConditions: [{name: marker, expression: "object.metadata.name == 'NAME'"}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{NAME: 'x'}}}"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Warn]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
`

// mark waits until the server has taken up all policies and bindings that were written before.
func (r *Recorder) mark(ctx context.Context) error {
	r.markers++
	name := "marker" + strconv.Itoa(r.markers)
	policies, err := r.documents(strings.ReplaceAll(marker, "NAME", name))
	if err != nil {
		return err
	}
	for _, policy := range policies {
		if err := r.objects.create(ctx, policy); err != nil {
			return err
		}
		r.active = append(r.active, policy)
	}
	r.gone = false
	return poll(ctx, 20*time.Second, errors.New("the policies do not come into force"), func() (bool, error) {
		answer, err := r.lease(ctx, name)
		ending := name + " twice"
		if r.mutating == "" {
			ending = name
		}
		return err == nil && hasWarning(answer, ending), err
	})
}

// lease sends the request that the marker policies match.
func (r *Recorder) lease(ctx context.Context, name string) (*server.Answer, error) {
	return r.server.Do(ctx, server.Call{
		Method: http.MethodPost, Path: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
		Query: url.Values{"dryRun": {"All"}},
		Body: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": name}},
	})
}

func hasWarning(answer *server.Answer, ending string) bool {
	return slices.ContainsFunc(answer.Warnings, func(w string) bool { return strings.HasSuffix(w, ending) })
}

// clear removes the last case from the server. Its policies may stay in force for a second: see forgotten.
func (r *Recorder) clear(ctx context.Context) error {
	for _, policy := range r.active {
		if err := r.objects.remove(ctx, policy); err != nil {
			return err
		}
	}
	r.active, r.last = nil, nil
	for len(r.created) > 0 {
		object := r.created[len(r.created)-1]
		err := r.objects.remove(ctx, object)
		var refused *refusal
		if errors.As(err, &refused) && !r.gone {
			if err := r.forgotten(ctx); err != nil {
				return err
			}
			continue
		}
		r.created = r.created[:len(r.created)-1]
		if err != nil {
			return err
		}
	}
	return nil
}

// forgotten waits until the policies that clear removed are no longer in force.
func (r *Recorder) forgotten(ctx context.Context) error {
	if r.gone {
		return nil
	}
	name := "marker" + strconv.Itoa(r.markers)
	err := poll(ctx, 20*time.Second, errors.New("the policies stay in force"), func() (bool, error) {
		answer, err := r.lease(ctx, name)
		if err != nil || answer.Code >= 400 || hasWarning(answer, name) {
			return false, err
		}
		return !bytes.Contains(answer.Body, []byte(`"`+name+`":"x"`)), nil
	})
	r.gone = err == nil
	return err
}

// errPanic reports a panic of the server.
var errPanic = errors.New("the server panics")

// send sends the request of the case and records the answer. It returns the reviews that the webhooks received.
func (r *Recorder) send(ctx context.Context, c *conformance.Case, want *conformance.Want) (*view, error) {
	call, err := r.call(ctx, c)
	if err != nil {
		return nil, err
	}
	offset, err := r.auditSize()
	if err != nil {
		return nil, err
	}
	var answer *server.Answer
	var seen *view
	late := errors.New("the server does not know the CustomResourceDefinition yet")
	err = poll(ctx, 60*time.Second, late, func() (bool, error) {
		seen = r.webhooks.watch(c.Request)
		defer r.webhooks.unwatch(seen)
		if answer, err = r.server.Do(ctx, call); err != nil {
			if strings.Contains(err.Error(),
				"INTERNAL_ERROR; received from peer") { // how a panic ends a stream of HTTP/2
				err = errPanic
			}
			return false, err
		}
		return !r.tooEarly(c, answer), nil
	})
	if err != nil {
		return nil, err
	}
	status := answer.Status()
	allowed := status == nil || seen.validating != nil
	want.Allowed = &allowed
	want.Warnings = answer.Warnings
	if allowed {
		object, _ := seen.validating["object"].(map[string]any)
		want.Object = conformance.Settle(object)
		object, _ = seen.mutating["object"].(map[string]any)
		want.Mutated = conformance.Differs(conformance.Settle(object), want.Object)
	} else {
		want.Status = conformance.Strip(status)
	}
	if want.AuditAnnotations, err = r.auditAnnotations(ctx, c, answer.AuditID, offset); err != nil {
		return nil, err
	}
	if allowed && !c.Request.DryRun && status == nil && c.Request.Subresource == "" && c.Request.Operation == "CREATE" {
		return seen, r.removeCreated(answer)
	}
	return seen, nil
}

// removeCreated registers the object that the request created for removal by clear.
func (r *Recorder) removeCreated(answer *server.Answer) error {
	object, err := answer.Object()
	if err == nil && text(object, "metadata", "uid") != "" { // reviews are answered, not stored
		r.created = append(r.created, object)
		r.last = nil
	}
	return err
}

// tooEarly reports whether the answer comes from a server that has not taken up a CustomResourceDefinition yet.
func (r *Recorder) tooEarly(c *conformance.Case, answer *server.Answer) bool {
	defines := slices.ContainsFunc(c.State, func(object map[string]any) bool {
		return object["kind"] == "CustomResourceDefinition"
	})
	if !defines {
		return false
	}
	early := func(text string) bool {
		return strings.Contains(text, "There can be a delay between when CustomResourceDefinitions are created") ||
			strings.Contains(text, "failed to find resource referenced by paramKind")
	}
	status := answer.Status()
	return status != nil && early(status.Message) || slices.ContainsFunc(answer.Warnings, early)
}

// call returns the HTTP request of the case.
func (r *Recorder) call(ctx context.Context, c *conformance.Case) (server.Call, error) {
	request := c.Request
	call := server.Call{
		User: request.User, UID: request.UID, Groups: request.Groups, Extra: request.Extra, Query: url.Values{},
	}
	gv, err := schema.ParseGroupVersion(request.APIVersion)
	if err != nil {
		return call, err
	}
	resource, err := r.objects.discover(ctx, gv,
		func(found metav1.APIResource) bool { return found.Name == request.Resource })
	if err != nil {
		return call, err
	}
	if request.Subresource != "" {
		if _, err := r.objects.discover(ctx, gv, func(found metav1.APIResource) bool {
			return found.Name == request.Resource+"/"+request.Subresource
		}); err != nil {
			return call, err
		}
	}
	call.Path = prefix(gv)
	if resource[0].Namespaced {
		call.Path += "/namespaces/" + request.Namespace
	}
	call.Path += "/" + request.Resource
	if request.Operation != "CREATE" && !request.Collection || request.Subresource != "" || request.Apply != "" {
		call.Path += "/" + request.Name
	}
	if request.Subresource != "" {
		call.Path += "/" + request.Subresource
	}
	if request.DryRun {
		call.Query.Set("dryRun", "All")
	}
	if request.FieldValidation != "" {
		call.Query.Set("fieldValidation", request.FieldValidation)
	}
	if request.Apply != "" {
		call.Method, call.Body, call.ContentType = http.MethodPatch, c.Object, "application/apply-patch+yaml"
		call.Query.Set("fieldManager", request.Apply)
		return call, nil
	}
	switch request.Operation {
	case "CREATE":
		call.Method, call.Body = http.MethodPost, c.Object
	case "UPDATE":
		call.Method = http.MethodPut
		call.Body, err = r.withResourceVersion(ctx, c)
	case "DELETE":
		call.Method = http.MethodDelete
		if c.Object != nil {
			options := maps.Clone(c.Object)
			if request.DryRun { // the server ignores the query if the request has a body
				options["dryRun"] = []any{"All"}
			}
			call.Body = options
		}
	case "CONNECT":
		call.Method = http.MethodPost
		options(call.Query, c.Object)
	}
	return call, err
}

// withResourceVersion returns the object of an UPDATE with the stored object's resourceVersion, without which some
// kinds cannot be updated.
func (r *Recorder) withResourceVersion(ctx context.Context, c *conformance.Case) (map[string]any, error) {
	object := c.Object
	if metadata, _ := object["metadata"].(map[string]any); c.Old == nil || metadata == nil ||
		metadata["resourceVersion"] != nil {
		return object, nil
	}
	stored, err := r.objects.get(ctx, c.Old)
	if err != nil || stored == nil {
		return object, err
	}
	object = runtime.DeepCopyJSON(object)
	object["metadata"].(map[string]any)["resourceVersion"] = text(stored, "metadata", "resourceVersion")
	return object, nil
}

// options adds the members of the options object of a CONNECT to the query.
func options(query url.Values, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch value := object[name].(type) {
		case []any:
			for _, item := range value {
				query.Add(name, fmt.Sprint(item))
			}
		default:
			if name != "apiVersion" && name != "kind" {
				query.Set(name, fmt.Sprint(value))
			}
		}
	}
}

func (r *Recorder) auditSize() (int64, error) {
	file, err := os.Stat(r.server.AuditLog)
	if err != nil {
		return 0, err
	}
	return file.Size(), nil
}

// auditAnnotations returns the annotations of policies in the audit event of a request, which was logged after offset.
func (r *Recorder) auditAnnotations(ctx context.Context, c *conformance.Case, id string,
	offset int64) (map[string]string, error) {
	names := map[string]bool{"validation.policy.admission.k8s.io": true, "pod-security.kubernetes.io": true}
	for _, policy := range c.Policies {
		names[text(policy, "metadata", "name")] = true
	}
	var annotations map[string]string
	err := poll(ctx, 5*time.Second, errors.New("no audit event"), func() (bool, error) {
		file, err := os.Open(r.server.AuditLog)
		if err != nil {
			return false, err
		}
		defer file.Close()
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return false, err
		}
		content, err := io.ReadAll(file)
		if err != nil {
			return false, err
		}
		for line := range bytes.Lines(content) {
			var event struct {
				AuditID     string
				Annotations map[string]string
			}
			if !bytes.Contains(line, []byte(id)) || json.Unmarshal(line, &event) != nil || event.AuditID != id {
				continue
			}
			for key, value := range event.Annotations {
				if owner, _, _ := strings.Cut(key, "/"); names[owner] {
					if annotations == nil {
						annotations = map[string]string{}
					}
					annotations[key] = value
				}
			}
			return true, nil
		}
		return false, nil
	})
	return annotations, err
}
