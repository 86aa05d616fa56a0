package manifest

import (
	"errors"
	"strings"

	"github.com/celgate/celgate/policy"
)

// A Bundle is documents by what they are for.
type Bundle struct {
	Set     policy.Set  // policies, bindings and libraries, the first of each kind and name, linked
	Objects []*Document // what else a cluster may hold, CustomResourceDefinitions too
	Reviews []*Document // AdmissionReviews
	Suites  []*Document // tests

	// Problems are documents that cannot be used: policies and bindings that are not such objects, with a
	// [policy.DecodeError], and those of a kind and name that there was before, with a [policy.DuplicateError].
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
			o, err := policy.Read(d.Object, d)
			if err != nil {
				b.Problems = append(b.Problems,
					Problem{Position: d.Position(), Message: err.Error(), Document: d, Err: err})
			}
			given.Add(o)
		}
	}
	unique, twice := given.Deduplicate()
	b.Set = *new(policy.Linker).Link(&unique)
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

// Definitions are the CustomResourceDefinitions among the objects.
func (b *Bundle) Definitions() []*Document { return Definitions(b.Objects) }

// Definitions are the CustomResourceDefinitions among documents.
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

// Trees are the objects of documents.
func Trees(docs []*Document) []map[string]any {
	all := make([]map[string]any, len(docs))
	for i, d := range docs {
		all[i] = d.Object
	}
	return all
}

// DocumentsOf are documents of objects that were read of no file.
func DocumentsOf(objects []map[string]any) []*Document {
	all := make([]*Document, len(objects))
	for i, object := range objects {
		all[i] = &Document{Object: object}
	}
	return all
}

// IsReview reports that an object is an AdmissionReview.
func IsReview(object map[string]any) bool {
	apiVersion, _ := object["apiVersion"].(string)
	return strings.HasPrefix(apiVersion, "admission.k8s.io/") && object["kind"] == "AdmissionReview"
}

// IsSuite reports that an object is a test for celgate.
func IsSuite(object map[string]any) bool {
	apiVersion, _ := object["apiVersion"].(string)
	return strings.HasPrefix(apiVersion, "celgate.dev/")
}
