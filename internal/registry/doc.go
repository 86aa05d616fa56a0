// Package registry reproduces the validation of an API server between the mutating and the validating policies: of the
// metadata of all kinds, of the objects of CustomResourceDefinitions, and of the most common built-in kinds, as far as
// their rules are known.
package registry

// Unvalidated names the part of objects of built-in kinds that this package does not validate, unless [Judges] is true.
const Unvalidated = "validation beyond metadata"
