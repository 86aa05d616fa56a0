// Package registry says what an API server refuses to store, between the mutating policies and the validating ones: the
// metadata of all kinds, and the objects of CustomResourceDefinitions.
package registry
