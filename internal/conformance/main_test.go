package conformance

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/celgate/celgate/internal/plan"
)

// TestMain makes a panic in a plan fail the tests: otherwise cel-go would answer in its place, and the panic would go
// unnoticed.
func TestMain(m *testing.M) {
	plan.Panicked = func(reason any) {
		if err, ok := reason.(runtime.Error); ok && strings.Contains(err.Error(), "hash of unhashable type") {
			return // as in cel-go, whose text is recorded
		}
		panic(fmt.Sprintf("a plan panicked: %v", reason))
	}
	debug.SetGCPercent(400) // each case leaves much behind, and little of it lives
	os.Exit(m.Run())
}

var loadCorpus = sync.OnceValues(func() ([]*Case, error) { return Load(os.DirFS("testdata")) })

// corpus returns the recorded cases, which no test changes.
func corpus(t *testing.T) []*Case {
	t.Helper()
	cases, err := loadCorpus()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}
