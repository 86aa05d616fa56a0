package celgate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

const (
	failureAnnotation  = "validation.policy.admission.k8s.io/validation_failure"
	maxAuditedFailures = 50 // as maxValidationFailures in validating/dispatcher.go v0.37.2
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
				text := fmt.Sprintf("Validation failed for %s '%s' with binding '%s': %s", v.Kind, v.Policy,
					v.Binding, v.Message)
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

func denialStatus(req *Request, v *Violation) *metav1.Status {
	message := fmt.Sprintf("%s '%s' denied request: %s", v.Kind, v.Policy, v.Message)
	if v.Binding != "" {
		message = fmt.Sprintf("%s '%s' with binding '%s' denied request: %s", v.Kind, v.Policy, v.Binding,
			v.Message)
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
