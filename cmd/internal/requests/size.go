package requests

import (
	"fmt"

	"github.com/celgate/celgate"
)

const (
	// mostSent is the largest body of a request (as MaxRequestBodyBytes of pkg/server/config.go v0.37.2).
	mostSent = 3 << 20
	// mostStored is what etcd stores of one object, unless it is told otherwise (--max-request-bytes).
	mostStored = 3 << 19
)

// NoteSize returns the note about an object that a server does not take for its size; nil if it is small enough. The
// server answers before it asks policies, or once it has: celgate decides all the same.
func NoteSize(r *celgate.Request) *celgate.Note {
	if r.Object == nil || r.Operation != celgate.Create && r.Operation != celgate.Update {
		return nil
	}
	switch size := sizeOf(r.Object); {
	case size > mostSent:
		return &celgate.Note{Message: fmt.Sprintf(
			"the object is too large for a server, which takes requests of 3 MiB (413 RequestEntityTooLarge): "+
				"as JSON it has %.1f MiB",
			float64(size)/(1<<20),
		),
		}
	case size > mostStored && !r.DryRun:
		return &celgate.Note{Message: fmt.Sprintf(
			"the object may be too large to be stored: etcd takes 1.5 MiB unless it is told otherwise, "+
				"and as JSON the object has %.1f MiB",
			float64(size)/(1<<20),
		),
		}
	}
	return nil
}

// sizeOf returns the length of a value as JSON, nearly: escapes and long numbers are not counted.
func sizeOf(v any) int {
	switch v := v.(type) {
	case map[string]any:
		n := len("{}")
		for name, member := range v {
			n += len(name) + len(`"":,`) + sizeOf(member)
		}
		return n
	case []any:
		n := len("[]")
		for _, item := range v {
			n += len(",") + sizeOf(item)
		}
		return n
	case string:
		return len(v) + len(`""`)
	}
	return len("true")
}
