package prepare_test

import (
	"testing"

	"github.com/celgate/celgate/internal/prepare"
)

func BenchmarkDeployment(b *testing.B) {
	types := registry(b)
	in := input(types, "apps/v1", "deployments", "CREATE", tree(b, "deployment.yaml"))
	result, err := prepare.Object(in)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Object", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := prepare.Object(in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Normalise", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := prepare.Normalise(result.Object, types, in.Resource.GroupVersionKind()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ForValidation", func(b *testing.B) {
		in.Object = result.Object
		b.ReportAllocs()
		for b.Loop() {
			prepare.ObjectToValidate(in)
		}
	})
}
