package live

import (
	"flag"
	"testing"

	engine "github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/differ"
)

var fieldsMinor = flag.String("fields-minor", engine.Newest, "whose server TestFields asks")

// TestFields compares, for every kind, all fields that policies see of a new, an updated and a deleted object.
func TestFields(t *testing.T) {
	l, err := differ.StartLive(t.Context(), *fieldsMinor)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	}()
	found, err := l.CompareFields(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found.Differences {
		t.Error(d)
	}
	if t.Logf("%d fields of %d requests", found.Fields, found.Requests); found.Requests < 150 {
		t.Errorf("only %d requests were compared", found.Requests)
	}
}
