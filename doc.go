// Package celgate answers what kube-apiserver's ValidatingAdmissionPolicies and MutatingAdmissionPolicies decide about
// a request, exactly as the server does and without one.
//
// A request passes through the following steps.
//
// # Load
//
// [Load] and [LoadFiles] read manifests, from an [io/fs.FS] or from files: the Set of the bundle contains the policies
// and bindings, its Objects contain the other objects of a cluster. [policy.NewSet] takes the Go types of k8s.io/api
// and unstructured objects instead, [policy.FromObject] a JSON tree.
//
// # Compile
//
// [New] compiles a set to an [Engine], which is immutable and safe for concurrent use. [Options] select the Kubernetes
// minor and the [Cluster]; zero Options mean an empty cluster of the newest minor. Policies and bindings that the
// server would refuse to store are excluded and listed in [Engine.Rejections], with the server's answer. A
// server keeps the engine in force in an atomic.Pointer, and replaces it.
//
// # Prepare
//
// Policies do not see the author's object but the server's form of it: decoded, pruned, defaulted, canonical. So a
// [Request] as written and a [Prepared] request are two types, and an engine accepts only the second.
//
//   - [Engine.RequestFor] makes one from an object, a user and an operation ([As]).
//   - [Engine.Prepare] makes one from an existing Request, for example from [NewRequest] or
//     [NewRequestFromReview].
//   - [FromReview] takes the request of an AdmissionReview, which the server has prepared.
//
// # Match, evaluate, patch, decide
//
// [Engine.Admit] does everything: [Engine.Mutate], the work of the registry in between, and [Engine.Validate]. For each
// policy, binding and param that matches the request, it evaluates the expressions with the server's budgets; mutations
// patch the object, and run a second time if their policy requests it; failurePolicy and validationActions turn the
// outcomes into a verdict.
//
// A [Decision] is data, even if it is a denial; a Go error means that the caller must act. A Decision holds the
// server's answer (Status, Warnings, AuditAnnotations, Object) and why: an [Outcome] for each expression, a [Violation]
// for each failure, a [Change] for each mutation, and a [Note] if the answer reproduces a defect of the server or
// depends on unknown facts.
//
// # Explain
//
// [Engine.Explain] makes one decision, optionally with another order of the mutating policies, and reports every step
// as an [explain.Event], with the result of each branch of an expression. [Engine.Turns] returns the order in which
// mutating policies run, and why.
//
// Objects are JSON trees: map[string]any, []any, string, int64, float64, bool and nil. They never change, and results
// share their unchanged parts. [Engine.RequestFor], [Engine.Prepare] and [Options].Objects also accept other Go values
// in objects, such as int, []string and the types of k8s.io/api, and convert them.
package celgate
