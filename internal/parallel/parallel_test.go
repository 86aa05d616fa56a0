package parallel_test

import (
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/celgate/celgate/internal/parallel"
)

func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		done, workers := make([]atomic.Int64, n), 0
		parallel.Each(n, func() func(int) {
			workers++
			return func(i int) { done[i].Add(1) }
		})
		if want := min(n, runtime.GOMAXPROCS(0)); workers != want {
			t.Errorf("%d: %d workers, not %d", n, workers, want)
		}
		for i := range done {
			if times := done[i].Load(); times != 1 {
				t.Errorf("%d is done %d times", i, times)
			}
		}
	}
}

func TestMap(t *testing.T) {
	if got := parallel.Map([]int{1, 2, 3}, func(n int) int { return n * n }); !reflect.DeepEqual(got, []int{1, 4, 9}) {
		t.Errorf("%v", got)
	}
}
