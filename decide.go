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
				failures = append(failures,
					auditedFailure{v.Message, v.Policy, v.Binding, v.index, v.Validation, v.Actions})
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
		d.Status, d.Denial = denialStatus(req, denial, d.Violations), denial
	}
}

// An auditedFailure is one element of the validation_failure annotation; the order of members is the server's.
type auditedFailure struct {
	Message           string          `json:"message"`
	Policy            string          `json:"policy"`
	Binding           string          `json:"binding"`
	ExpressionIndex   int             `json:"expressionIndex"`
	Validation        string          `json:"validation,omitempty"` // of the dialect
	ValidationActions []policy.Action `json:"validationActions"`
}

// denialStatus is the server's answer. A denial of a value in a scope has a cause for each value that the validation
// denies, and the texts of all of them in its message.
func denialStatus(req *Request, v *Violation, all []Violation) *metav1.Status {
	texts := v.Message
	var causes []metav1.StatusCause
	for i := range all {
		w := &all[i]
		if !w.beside(v) {
			continue
		}
		if len(causes) > 0 {
			texts += ", " + w.Message
		}
		causes = append(causes, metav1.StatusCause{Message: v.denial(w.Message), Field: w.Scope})
	}
	message := v.denial(texts)
	status := apierrors.NewForbidden(req.Resource.GroupResource(), req.displayName(), errors.New(message)).Status()
	if status.Reason = v.Reason; status.Reason == "" {
		status.Reason = metav1.StatusReasonInvalid
	}
	if status.Code = v.Code; v.Code == 0 {
		status.Code = reasonCode(status.Reason)
	}
	if len(causes) == 0 {
		causes = []metav1.StatusCause{{Message: message}}
	}
	status.Details.Causes = append(status.Details.Causes, causes...)
	return &status
}

// denial is the text of a denial.
func (v *Violation) denial(message string) string {
	if v.Binding != "" {
		return fmt.Sprintf("%s '%s' with binding '%s' denied request: %s", v.Kind, v.Policy, v.Binding, message)
	}
	return fmt.Sprintf("%s '%s' denied request: %s", v.Kind, v.Policy, message)
}

// beside reports that a violation is of a value in the scope of the one that is the answer, or that one itself.
func (v *Violation) beside(answer *Violation) bool {
	return v == answer || answer.Scope != "" && v.Scope != "" && v.index == answer.index && v.Kind == answer.Kind &&
		v.Policy == answer.Policy && v.Binding == answer.Binding && v.Param == answer.Param
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
