// Package differ compares celgate with the API server's own, unmodified admission plugins in one process: random
// policies on random objects, answered by both, compared in everything that a client, an audit log or a later
// request could see.
//
// The plugins' compilers and dispatchers are called directly, without the informers around them, so that a policy
// is in force at once. Objects reach them as in the server: built-in kinds in the internal version, custom resources as
// trees. Everything random follows from one seed.
package differ
