package playground

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkKey changes a manifest, as each key does, and asks.
func BenchmarkKey(b *testing.B) {
	text := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../../../examples/replica-limit", name))
		if err != nil {
			b.Fatal(err)
		}
		return string(text)
	}
	ask := Ask{Policies: text("policy.yaml"), State: text("state.yaml"), Objects: text("fail.yaml") + "---\n" + text("pass.yaml")}
	var session Session
	b.ReportAllocs()
	for b.Loop() {
		ask.Objects += "#"
		if _, err := session.Ask(b.Context(), ask); err != nil {
			b.Fatal(err)
		}
	}
}
