package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A catalogue is what the page reads before it has an engine.
type catalogue struct {
	About    json.RawMessage `json:"about"` // what the engine says of itself
	Examples []Example       `json:"examples"`
}

//go:embed answers.mjs
var answersSource string

// catalogue writes the examples, and the answer to each of them in a file of its own, of which the page reads one. It
// returns the name of the file with the examples.
func (b *builder) catalogue() (string, error) {
	list, err := examples(filepath.Join(b.root, "examples"))
	if err != nil {
		return "", err
	}
	about, answers, err := b.answers(list)
	if err != nil {
		return "", err
	}
	for i := range list {
		list[i].Answer = "answer-" + list[i].Name + "." + digest(answers[i]) + ".json"
		if list[i].Name == first {
			_, err = b.write(list[i].Answer, answers[i])
		} else {
			err = os.WriteFile(filepath.Join(b.out, list[i].Answer), answers[i], 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(catalogue{about, list})
	if err != nil {
		return "", err
	}
	return b.add("examples", ".json", text)
}

// answers lets the engine in node answer about examples.
func (b *builder) answers(list []Example) (about json.RawMessage, answers []json.RawMessage, err error) {
	root, err := goroot()
	if err != nil {
		return nil, nil, err
	}
	questions, err := json.Marshal(list)
	if err != nil {
		return nil, nil, err
	}
	script := filepath.Join(b.root, "bin", ".slim", "answers.mjs")
	if err := os.WriteFile(script, []byte(answersSource), 0o644); err != nil {
		return nil, nil, err
	}
	node := exec.Command("node", script, b.module(moduleNames[0]), filepath.Join(root, "lib", "wasm", "wasm_exec.js"))
	node.Stdin, node.Stderr = bytes.NewReader(questions), os.Stderr
	text, err := node.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("node answers: %w", err)
	}
	var made struct {
		About   json.RawMessage
		Answers []json.RawMessage
	}
	if err := json.Unmarshal(text, &made); err != nil {
		return nil, nil, err
	}
	return made.About, made.Answers, nil
}
