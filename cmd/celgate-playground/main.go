//go:build js

// Command celgate-playground is the engine of the page in a browser, as WebAssembly in a worker. It sets the function
// celgate(call, ask), which takes a question and returns an answer, both as JSON: see [playground.Ask]. With the tag
// prover it answers the questions of celgate prove instead, which most visitors do not ask: see [playground.Question].
package main

import (
	"encoding/json"
	"fmt"
	"syscall/js"
)

func main() {
	var answers session
	js.Global().Set("celgate", js.FuncOf(func(_ js.Value, args []js.Value) any {
		answer, err := call(&answers, args[0].String(), []byte(args[1].String()))
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
func call(s *session, name string, ask []byte) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			*s = session{}
			answer, err = nil, fmt.Errorf("internal error: %v", p)
		}
	}()
	return s.answer(name, ask)
}
