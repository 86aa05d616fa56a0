package serve

import (
	"context"
	"runtime"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"
)

func TestCollectLater(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
	becomes := func(what string, right func(percent uint64) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			runtime.GC()
			runtimemetrics.Read(percent)
			if right(percent[0].Value.Uint64()) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: GOGC is %d", what, percent[0].Value.Uint64())
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	collectLater(ctx)
	becomes("a small heap", func(p uint64) bool { return p > 100 })
	large := make([]byte, 2*garbage)
	becomes("a large heap", func(p uint64) bool { return p == 100 })
	runtime.KeepAlive(large)
	becomes("a small heap again", func(p uint64) bool { return p > 100 })
	cancel()
	becomes("after the end", func(p uint64) bool { return p == 100 })
}
