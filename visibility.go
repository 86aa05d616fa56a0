package celgate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/celgate/celgate/policy"
)

const (
	failureAnnotation  = "validation.policy.admission.k8s.io/validation_failure"
	maxAuditedFailures = 50 // maxValidationFailures in validating/dispatcher.go v0.37.2
)

// An auditedFailure is one element of the validation_failure annotation; the order of members is the server's.
type auditedFailure struct {
	Message           string          `json:"message"`
	Policy            string          `json:"policy"`
	Binding           string          `json:"binding"`
	ExpressionIndex   int             `json:"expressionIndex"`
	Validation        string          `json:"validation,omitempty"` // of the dialect
	ValidationActions []policy.Action `json:"validationActions"`
	Reference         string          `json:"reference,omitempty"` // of the dialect
}

// reference returns a text that identifies a violation without revealing it.
func reference(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%s\x00", part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// clientText returns the text of a violation for the client.
func (v *Violation) clientText() string {
	if v.Reference != "" {
		return "reference " + v.Reference
	}
	return v.Message
}

// warnsOf reports whether the client is warned of a violation, in addition to its actions.
func (v *Violation) warnsOf(req *Request) bool {
	return req.DryRun && v.tellsDryRun && !slices.Contains(v.Actions, policy.Deny) &&
		!slices.Contains(v.Actions, policy.Warn)
}

// auditFailure returns the element of a violation in the validation_failure annotation.
func (v *Violation) auditFailure() auditedFailure {
	return auditedFailure{v.Message, v.Policy, v.Binding, v.index, v.Validation, v.Actions, v.Reference}
}

// auditFailures writes the validation_failure annotation.
func (d *Decision) auditFailures(failures []auditedFailure) {
	if len(failures) == 0 {
		return
	}
	// Like the server's, this JSON escapes <, > and &.
	text, err := json.Marshal(failures[:min(len(failures), maxAuditedFailures)])
	if err == nil {
		d.annotate(failureAnnotation, string(text))
	}
}
