//go:build js && prover

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/celgate/celgate/cmd/internal/playground"
)

// A session proves.
type session struct{ playground.Prover }

func (s *session) answer(name string, text []byte) (any, error) {
	if name != "prove" {
		return nil, fmt.Errorf("unknown call %q", name)
	}
	var question playground.Question
	if err := json.Unmarshal(text, &question); err != nil {
		return nil, err
	}
	return s.Prove(context.Background(), question)
}
