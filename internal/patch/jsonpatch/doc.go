// Package jsonpatch applies RFC 6902 operations to JSON trees with the results of kube-apiserver.
//
// The server passes the operations of a MutatingAdmissionPolicy to gopkg.in/evanphx/json-patch.v4 v4.13.0, as
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch.go v0.37.2 shows. That library departs from
// the RFC in ways that policies can see, and this package does the same:
//
//   - The text of a path before its first slash is ignored: "spec/replicas" is the member "replicas" of the document.
//     A path without a slash, the empty one included, leads nowhere, except in replace and test where the empty path is
//     the document.
//   - Negative indices count from the end; leading zeros and a sign are fine.
//   - replace of a member that does not exist adds it; of an array index it is an error.
//   - copy of a member that does not exist sets null.
//   - test of a missing member passes without a value and fails with any value, null included.
//   - Numbers are compared by their JSON text, null at the top of a value equals the empty object or array.
//   - The server writes op, path and from as Go string literals, not as JSON. Where the two differ (DEL, most control
//     characters, characters beyond the basic plane that do not print) the text cannot be decoded.
//
// A null that an operation has set is not the same as a null of the document: paths lead through it, to an object
// without members. Where the server's library panics, assigning below such a null, testing arrays that hold null, or
// missing the value of an operation on the whole document, [Apply] returns a [*PanicError].
package jsonpatch
