package main

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"time"

	"github.com/celgate/celgate"
)

// loads measures the time and memory that celgate needs to compile 1,000 different policies.
func (b *bench) loads(out io.Writer, selected *regexp.Regexp) error {
	const name, policies = "load-1000", 1000
	if !selected.MatchString(name) {
		return nil
	}
	set, err := readSet(distinctPolicies(policies))
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	wall, cpu := time.Now(), processorTime()
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		return err
	}
	if rejected := engine.Rejections(); len(rejected) > 0 {
		return fmt.Errorf("%s: %v", name, rejected[0].Status.Message)
	}
	took, used := time.Since(wall), processorTime()-cpu
	runtime.GC()
	runtime.ReadMemStats(&after)
	fmt.Fprintf(out, "%s: %v (%v of processor time), %d kB per policy\n", name, took.Round(time.Millisecond),
		used.Round(time.Millisecond), (int64(after.HeapAlloc)-int64(before.HeapAlloc))/policies/1000)
	runtime.KeepAlive(engine)
	return nil
}
