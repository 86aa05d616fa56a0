package celgate

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// decide turns the violations of validating policies into the decision: failed validations by the actions of their
// binding, errors of configuration and of audit annotations as denials. Only the first denial is the answer, as in
// validating/dispatcher.go v0.37.2.
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
				failures = append(failures, v.auditFailure())
			case policy.Warn:
				d.warnOf(v)
			}
		}
		if v.Reference != "" && !slices.Contains(v.Actions, policy.Audit) {
			failures = append(failures, v.auditFailure())
		}
		if v.warnsOf(req) {
			d.warnOf(v)
		}
	}
	if len(failures) > 1 && known.Has(quirks.FirstFailureAudited) {
		d.note(quirks.FirstFailureAudited, "")
		failures = failures[:1]
	}
	d.auditFailures(failures)
	if denial != nil {
		d.Allowed = false
		d.Status, d.Denial = denialStatus(req, denial, d.Violations), denial
	}
}

// warnOf warns the client of a violation.
func (d *Decision) warnOf(v *Violation) {
	text := fmt.Sprintf("Validation failed for %s '%s' with binding '%s': %s", v.Kind, v.Policy, v.Binding, v.clientText())
	d.warn(Warning{text, v})
}

// denialStatus returns the server's answer. The denial of a value in a scope has a cause for each value that the
// validation denies, and all of their texts in its message.
func denialStatus(req *Request, v *Violation, all []Violation) *metav1.Status {
	texts := v.clientText()
	var causes []metav1.StatusCause
	for i := range all {
		w := &all[i]
		if !w.belongsTo(v) {
			continue
		}
		if v.Reference != "" && w != v {
			continue // the client must not see their number and places
		}
		if len(causes) > 0 {
			texts += ", " + w.Message
		}
		cause := metav1.StatusCause{Message: v.denial(w.clientText()), Field: w.Scope}
		if v.Reference != "" {
			cause.Field = ""
		}
		causes = append(causes, cause)
	}
	message := v.denial(texts)
	status := apierrors.NewForbidden(req.Resource.GroupResource(), req.displayName(), errors.New(message)).Status()
	if status.Reason = v.Reason; status.Reason == "" {
		status.Reason = metav1.StatusReasonInvalid
	}
	if status.Code = v.Code; v.Code == 0 {
		status.Code = policy.CodeOf(status.Reason)
	}
	if len(causes) == 0 {
		causes = []metav1.StatusCause{{Message: message}}
	}
	status.Details.Causes = append(status.Details.Causes, causes...)
	return &status
}

// denial returns the text of a denial.
func (v *Violation) denial(message string) string {
	if v.Binding != "" {
		return fmt.Sprintf("%s '%s' with binding '%s' denied request: %s", v.Kind, v.Policy, v.Binding, message)
	}
	return fmt.Sprintf("%s '%s' denied request: %s", v.Kind, v.Policy, message)
}

// belongsTo reports whether a violation is the answer, or concerns another value in the same scope.
func (v *Violation) belongsTo(answer *Violation) bool {
	return v == answer || answer.Scope != "" && v.Scope != "" && v.index == answer.index && v.Kind == answer.Kind &&
		v.Policy == answer.Policy && v.Binding == answer.Binding && v.Param == answer.Param
}
