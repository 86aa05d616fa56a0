package main

import (
	"testing"
)

// BenchmarkCelgate measures celgate's side alone, for profiles.
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
