package workload

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/celgate/celgate/internal/tree"
)

// hashOf stands for the hash of a pod template: the same for an equal template, of the same form as the controllers',
// and another value, since theirs is one of Go structs.
func hashOf(template tree.Object) string {
	text, err := json.Marshal(map[string]any(template)) // members are sorted
	if err != nil {
		text = nil // trees of JSON values have no such error
	}
	h := fnv.New32a()
	_, _ = h.Write(text) // never fails
	return encode(fmt.Sprint(h.Sum32()))
}
