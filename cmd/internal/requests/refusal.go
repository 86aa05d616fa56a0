package requests

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refusal returns the status of an error that is the server's answer; false for any other.
func Refusal(err error) (*metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil, false
	}
	s := status.Status()
	return &s, true
}
