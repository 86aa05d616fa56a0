// Package celgate answers what kube-apiserver's ValidatingAdmissionPolicies and MutatingAdmissionPolicies decide about
// a request, exactly as the server does and without one.
//
// The way of a request, and what stands at each step:
//
// # Load
//
// [Load] and [LoadFiles] read manifests, from an [io/fs.FS] or from files: the Set of the bundle has the policies and
// bindings, its Objects have what else a cluster may hold. [policy.NewSet] takes the Go types of k8s.io/api and
// unstructured objects instead, [policy.FromObject] a JSON tree.
//
// # Compile
//
// [New] compiles a set to an [Engine], which is immutable and safe for concurrent use. [Options] say for which
// Kubernetes minor and in which [Cluster]; zero Options are one of the newest minor with nothing in it. What the server
// would refuse to store takes no part and is in [Engine.Rejections], with the server's answer. [Live] replaces an engine
// by the next.
//
// # Prepare
//
// Policies do not see what an author wrote but what the server makes of it: decoded, pruned, defaulted, canonical. So a
// [Request] as its author wrote it and a [Prepared] one are two types, and an engine decides only about the second.
//
//   - [Engine.RequestFor] makes it of an object and of who does what with it ([As]).
//   - [Engine.Prepare] makes it of a Request that somebody else has made, for example a [Requester].
//   - [FromReview] takes the request of an AdmissionReview, which the server has prepared.
//
// # Match, evaluate, patch, decide
//
// [Engine.Admit] is the whole of it: [Engine.Mutate] and [Engine.Validate] with what the registry does in between. For
// each policy, binding and param that is for the request its expressions are evaluated with the server's budgets;
// mutations patch the object and are made a second time where they ask for it; failurePolicy and validationActions make
// a verdict of the outcomes.
//
// A [Decision] is data, a denial too; an error of Go means that the caller must act. It holds the server's answer
// (Status, Warnings, AuditAnnotations, Object) and why: an [Outcome] for each expression, a [Violation] for each
// failure, a [Change] for each mutation, and a [Note] where the answer holds a defect of the server or rests on what is
// not known.
//
// # Explain
//
// [Engine.Explain] makes one decision, if asked in another order of the mutating policies, and tells every step of it
// as an [explain.Event] and what each branch of an expression came to.
//
// Objects are JSON trees: map[string]any, []any, string, int64, float64, bool and nil. They are never changed, and
// results share what did not change.
package celgate
