package main

import (
	"testing"

	"github.com/celgate/celgate"
)

// BenchmarkCelgate measures celgate's side alone, for profiles: go test -bench Celgate/validation-20 -cpuprofile FILE.
func BenchmarkCelgate(b *testing.B) {
	for _, w := range workloads() {
		if w.slow {
			continue
		}
		b.Run(w.name, func(b *testing.B) {
			e, err := newEngine(&w)
			if err != nil {
				b.Fatal(err)
			}
			do, err := e.prepare(1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoad makes 1,000 different policies ready.
func BenchmarkLoad(b *testing.B) {
	set, err := readSet(distinctPolicies(1000))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := celgate.New(set, celgate.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
