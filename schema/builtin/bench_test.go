package builtin_test

import (
	"testing"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// BenchmarkStart measures the startup of a program before its first Deployment.
func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		r, err := builtin.Registry("1.37")
		if err != nil {
			b.Fatal(err)
		}
		if r.Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}) == nil {
			b.Fatal("no type")
		}
	}
}

func BenchmarkType(b *testing.B) {
	r := registry(b)
	b.ReportAllocs()
	for b.Loop() {
		r.Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	}
}
