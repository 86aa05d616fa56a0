package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestDelay expects the percentage of before once a collection has ended.
func TestDelay(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	delay(percent)
	if have := goal(); have != percent {
		t.Fatalf("before a collection: have %d, want %d", have, percent)
	}
	runtime.GC()
	for range 1000 {
		if goal() == 70 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("after a collection: have %d, want 70", goal())
}

// goal returns the percentage by which the heap may grow between collections.
func goal() uint64 {
	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
