package state

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

//go:generate go run generate.go

//go:embed bootstrap.json
var bootstrapJSON string

// bootstrap returns the roles and bindings that kube-apiserver 1.37 creates at startup. The objects are shared and must
// not be changed.
var bootstrap = sync.OnceValues(func() ([]map[string]any, error) {
	var objects []map[string]any
	for line := range strings.Lines(bootstrapJSON) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			return nil, fmt.Errorf("embedded bootstrap.json: %w", err)
		}
		objects = append(objects, object)
	}
	return objects, nil
})
