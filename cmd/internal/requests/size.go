package requests

import (
	"fmt"

	"github.com/celgate/celgate"
)

const (
	// mostSent is the largest body of a request (as MaxRequestBodyBytes of pkg/server/config.go v0.37.2).
	mostSent = 3 << 20
	// mostStored is the largest object in etcd by default (--max-request-bytes).
	mostStored = 3 << 19
)

// NoteSize returns a note about an object that is too large for a server; nil if it is small enough. The server refuses
// it before or after policies; celgate decides anyway.
func NoteSize(r *celgate.Request) *celgate.Note {
	if r.Object == nil || r.Operation != celgate.Create && r.Operation != celgate.Update {
		return nil
	}
	switch size := sizeOf(r.Object); {
	case size > mostSent:
		return &celgate.Note{Message: fmt.Sprintf(
			"the object is too large for a server, which accepts requests of 3 MiB (413 RequestEntityTooLarge): "+
				"as JSON it has %.1f MiB",
			float64(size)/(1<<20),
		),
		}
	case size > mostStored && !r.DryRun:
		return &celgate.Note{Message: fmt.Sprintf(
			"the object may be too large to be stored: etcd accepts 1.5 MiB by default, "+
				"and as JSON the object has %.1f MiB",
			float64(size)/(1<<20),
		),
		}
	}
	return nil
}

// sizeOf returns the approximate length of a value as JSON: escapes and long numbers are not counted.
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
