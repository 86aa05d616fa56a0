package workload

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/celgate/celgate/internal/tree"
)

// hashOf returns a placeholder for the hash of a pod template: equal for equal templates and of the same form as the
// hash of the controllers, but with another value, because theirs is a hash of Go structs.
func hashOf(template tree.Object) string {
	text, err := json.Marshal(map[string]any(template)) // members are sorted
	if err != nil {
		text = nil // trees of JSON values always encode
	}
	h := fnv.New32a()
	_, _ = h.Write(text) // never fails
	return encode(fmt.Sprint(h.Sum32()))
}
