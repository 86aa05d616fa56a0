package manifest

import (
	"errors"
	"strings"

	"github.com/celgate/celgate/policy"
)

// A Bundle is a set of documents, sorted by their use.
type Bundle struct {
	Set     policy.Set  // policies, bindings and libraries, the first of each kind and name, linked
	Objects []*Document // other objects of a cluster, including CustomResourceDefinitions
	Reviews []*Document // AdmissionReviews
	Suites  []*Document // tests

	// Problems are documents that cannot be used: policies and bindings that cannot be decoded, with a
	// [policy.DecodeError], and those with the kind and name of an earlier one, with a [policy.DuplicateError].
	Problems []Problem
}

// NewBundle sorts documents. Their order is kept.
func NewBundle(docs ...*Document) *Bundle {
	b := &Bundle{}
	given := policy.Set{}
	for _, d := range docs {
		switch {
		case IsReview(d.Object):
			b.Reviews = append(b.Reviews, d)
		case IsSuite(d.Object):
			b.Suites = append(b.Suites, d)
		case !policy.IsRecognised(d.Object):
			b.Objects = append(b.Objects, d)
		default:
			if err := given.Add(d.Object, d.Place); err != nil {
				b.Problems = append(b.Problems,
					Problem{Position: d.Position(), Message: err.Error(), Document: d, Err: err})
			}
		}
	}
	unique, twice := given.Deduplicate()
	b.Set = *unique.Link(nil)
	for _, err := range twice {
		b.Problems = append(b.Problems, Problem{
			Position: err.Position, Message: err.Ref.String() + " is given twice",
			Hint: "the first is at " + err.First.String(), Err: err,
		})
	}
	return b
}

// Err joins the problems; nil if there are none.
func (b *Bundle) Err() error {
	var errs []error
	for _, p := range b.Problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// Definitions returns the CustomResourceDefinitions among the objects.
func (b *Bundle) Definitions() []*Document { return Definitions(b.Objects) }

// Definitions returns the CustomResourceDefinitions among documents.
func Definitions(docs []*Document) []*Document {
	var all []*Document
	for _, d := range docs {
		apiVersion, _ := d.Object["apiVersion"].(string)
		if strings.HasPrefix(apiVersion, "apiextensions.k8s.io/") && d.Object["kind"] == "CustomResourceDefinition" {
			all = append(all, d)
		}
	}
	return all
}

// Trees returns the objects of documents.
func Trees(docs []*Document) []map[string]any {
	all := make([]map[string]any, len(docs))
	for i, d := range docs {
		all[i] = d.Object
	}
	return all
}

// DocumentsOf returns documents for objects that were not read from a file.
func DocumentsOf(objects []map[string]any) []*Document {
	all := make([]*Document, len(objects))
	for i, object := range objects {
		all[i] = &Document{Object: object}
	}
	return all
}

// IsReview reports whether an object is an AdmissionReview.
func IsReview(object map[string]any) bool {
	apiVersion, _ := object["apiVersion"].(string)
	return strings.HasPrefix(apiVersion, "admission.k8s.io/") && object["kind"] == "AdmissionReview"
}

// IsSuite reports whether an object is a test suite of celgate.
func IsSuite(object map[string]any) bool {
	apiVersion, _ := object["apiVersion"].(string)
	return strings.HasPrefix(apiVersion, "celgate.dev/")
}
