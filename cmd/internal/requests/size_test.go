package requests_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/requests"
)

// TestNoteSize has objects on both sides of the limits of a server, which answered 413 to a body of 3.2 MB, dry run or
// not, and 500 "etcdserver: request is too large" to one of 1.6 MB that is stored.
func TestNoteSize(t *testing.T) {
	for _, c := range []struct {
		bytes  int
		op     celgate.Operation
		dryRun bool
		want   string
	}{
		{1_400_000, celgate.Create, false, ""},
		{1_700_000, celgate.Create, false, "etcd accepts 1.5 MiB"},
		{1_700_000, celgate.Update, false, "etcd accepts 1.5 MiB"},
		{1_700_000, celgate.Create, true, ""},
		{3_000_000, celgate.Create, true, ""},
		{3_200_000, celgate.Create, true, "413 RequestEntityTooLarge"},
		{3_200_000, celgate.Delete, false, ""},
		{3_200_000, celgate.Connect, false, ""},
	} {
		data := map[string]any{"b": true, "n": int64(1), "l": []any{"x", nil}}
		object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}
		empty, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		data["text"] = strings.Repeat("x", c.bytes-len(empty))
		note := requests.NoteSize(&celgate.Request{Operation: c.op, DryRun: c.dryRun, Object: object})
		switch {
		case note == nil && c.want != "":
			t.Errorf("%+v: no note", c)
		case note != nil && (c.want == "" || !strings.Contains(note.Message, c.want)):
			t.Errorf("%+v: %s", c, note.Message)
		}
	}
}
