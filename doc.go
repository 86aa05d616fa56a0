// Package celgate answers what kube-apiserver's ValidatingAdmissionPolicies and MutatingAdmissionPolicies decide about a request.
package celgate
