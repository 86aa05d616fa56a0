package celgate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

const (
	failureAnnotation   = "validation.policy.admission.k8s.io/validation_failure"
	maxAuditedFailures  = 50 // as maxValidationFailures in validating/dispatcher.go v0.37.2
	unknownName         = "Unknown"
	nameCannotBeFetched = "Unknown/errorGettingName"
)

// decide folds the violations of validating policies into the decision: failed validations by the actions of
// their binding, errors of configuration and of audit annotations as denials. Only the first denial is the
// answer, as in validating/dispatcher.go v0.37.2.
func (d *Decision) decide(req *Request, known quirks.Set) {
	var failures []auditedFailure
	var denial *Violation
	for i := range d.Violations {
		v := &d.Violations[i]
		for _, action := range v.Actions {
			switch action {
			case policy.Deny:
				if denial == nil {
					denial = v
				}
			case policy.Audit:
				failures = append(failures, auditedFailure{v.Message, v.Policy, v.Binding, v.index, v.Actions})
			case policy.Warn:
				text := fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", v.Policy, v.Binding, v.Message)
				d.warn(Warning{text, v})
			}
		}
	}
	if len(failures) > 1 && known.Has(quirks.FirstFailureAudited) {
		d.note(quirks.FirstFailureAudited, "")
		failures = failures[:1]
	}
	if len(failures) > 0 {
		// Like the server's, this JSON escapes <, > and &.
		text, err := json.Marshal(failures[:min(len(failures), maxAuditedFailures)])
		if err == nil {
			d.annotate(failureAnnotation, string(text))
		}
	}
	if denial != nil {
		d.Allowed = false
		d.Status, d.Denial = denialStatus(req, denial), denial
	}
}

// An auditedFailure is one element of the validation_failure annotation; the order of members is the server's.
type auditedFailure struct {
	Message           string          `json:"message"`
	Policy            string          `json:"policy"`
	Binding           string          `json:"binding"`
	ExpressionIndex   int             `json:"expressionIndex"`
	ValidationActions []policy.Action `json:"validationActions"`
}

// send makes the warnings those that the client gets: before them what preparing the request gave.
func (d *Decision) send(p *Prepared) *Decision {
	own := d.Warnings
	if len(p.warnings) > 0 {
		d.Warnings = make([]Warning, 0, len(p.warnings)+len(own))
		for _, text := range p.warnings {
			d.warn(Warning{Text: text})
		}
		for _, w := range own {
			d.warn(w)
		}
	}
	d.Warnings = sendable(d.Warnings)
	return d
}

// warn adds a warning; the server sends equal texts once.
func (d *Decision) warn(w Warning) {
	if !slices.ContainsFunc(d.Warnings, func(sent Warning) bool { return sent.Text == w.Text }) {
		d.Warnings = append(d.Warnings, w)
	}
}

func (d *Decision) annotate(key, value string) {
	if d.AuditAnnotations == nil {
		d.AuditAnnotations = map[string]string{}
	}
	d.AuditAnnotations[key] = value
}

// refuse ends the request with the server's status for err.
func (d *Decision) refuse(err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	d.Allowed, d.Status = false, &s
}

func denialStatus(req *Request, v *Violation) *metav1.Status {
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", v.Policy, v.Message)
	if v.Binding != "" {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", v.Policy, v.Binding, v.Message)
	}
	status := apierrors.NewForbidden(req.Resource.GroupResource(), req.displayName(), errors.New(message)).Status()
	if status.Reason = v.Reason; status.Reason == "" {
		status.Reason = metav1.StatusReasonInvalid
	}
	status.Code = reasonCode(status.Reason)
	status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: message})
	return &status
}

func reasonCode(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// displayName is the name that a refusal shows, as pkg/admission/errors.go v0.37.2 finds it.
func (r *Request) displayName() string {
	if r.Name != "" {
		return r.Name
	}
	if r.Object == nil {
		return unknownName
	}
	if r.Operation == Connect { // the options have no metadata
		return nameCannotBeFetched
	}
	metadata, _ := r.Object["metadata"].(map[string]any)
	for _, member := range []string{"name", "generateName"} {
		if name, _ := metadata[member].(string); name != "" {
			return name
		}
	}
	return unknownName
}

// annotations collects the audit annotations of one policy over its bindings and params.
type annotations struct {
	keys   []string
	values map[string][]string
}

func (a *annotations) add(key, value string) {
	if a.values == nil {
		a.values = map[string][]string{}
	}
	if _, seen := a.values[key]; !seen {
		a.keys = append(a.keys, key)
	}
	for _, v := range a.values[key] {
		if v == value {
			return
		}
	}
	a.values[key] = append(a.values[key], value)
}

func (a *annotations) publish(policyName string, d *Decision) {
	for _, key := range a.keys {
		d.annotate(policyName+"/"+key, strings.Join(a.values[key], ", "))
	}
}
