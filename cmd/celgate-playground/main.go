//go:build js

// Command celgate-playground is the engine of the page in a browser, as WebAssembly in a worker. It sets the function
// celgate(call, ask), which takes a question and returns an answer, both as JSON: see [playground.Ask].
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall/js"

	"github.com/celgate/celgate/cmd/internal/playground"
	"github.com/celgate/celgate/cmd/internal/report"
)

func main() {
	var session playground.Session
	js.Global().Set("celgate", js.FuncOf(func(_ js.Value, args []js.Value) any {
		answer, err := call(&session, args[0].String(), args[1].String())
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			text, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		return string(text)
	}))
	select {} // the functions stay callable
}

// call answers one call. A panic is an answer too: the page goes on with the next question.
func call(session *playground.Session, name, text string) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			*session = playground.Session{}
			answer, err = nil, fmt.Errorf("internal error: %v", p)
		}
	}()
	var ask playground.Ask
	if err := json.Unmarshal([]byte(text), &ask); err != nil {
		return nil, err
	}
	switch name {
	case "ask":
		return session.Ask(context.Background(), ask)
	case "check":
		return session.Check(context.Background(), ask)
	case "about":
		return map[string]any{"version": report.Version(), "minors": playground.Minors()}, nil
	}
	return nil, fmt.Errorf("unknown call %q", name)
}
