package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// Store writes a cluster-scoped object directly into etcd, without the rules for writing, as a server of another minor
// would have left it. It supports only built-in kinds, whose keys do not contain a group.
func (s *Server) Store(ctx context.Context, resource string, object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	metadata, object = maps.Clone(metadata), maps.Clone(object)
	metadata["uid"], metadata["creationTimestamp"] = string(uuid.NewUUID()), time.Now().UTC().Format(time.RFC3339)
	object["metadata"] = metadata
	value, err := json.Marshal(object)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("/registry/%s/%s", resource, metadata["name"])
	body, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": value})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Etcd+"/v3/kv/put", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s", answer.Status)
	}
	return nil
}
