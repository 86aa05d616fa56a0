//go:build js && !prover

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/celgate/celgate/cmd/internal/playground"
	"github.com/celgate/celgate/cmd/internal/report"
)

// A session decides and checks.
type session struct{ playground.Session }

func (s *session) answer(name string, text []byte) (any, error) {
	var ask playground.Ask
	if err := json.Unmarshal(text, &ask); err != nil {
		return nil, err
	}
	switch name {
	case "ask":
		return s.Ask(context.Background(), ask)
	case "check":
		return s.Check(context.Background(), ask)
	case "about":
		return map[string]any{"version": report.Version(), "minors": playground.Minors()}, nil
	}
	return nil, fmt.Errorf("unknown call %q", name)
}
