// Package smtlib asks installed programs that solve questions in SMT-LIB.
package smtlib

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A Solver is an installed program. It is safe for concurrent use.
type Solver struct {
	Timeout time.Duration // for one question

	name, path string
}

// mostMemory is the maximum memory of one question, in MiB. On Linux it bounds all programs, elsewhere only z3.
const mostMemory = 4096

// arguments returns the arguments of a program. It also ends itself, some time after the timeout: nobody ends the child
// of a killed process.
func arguments(name string, timeout time.Duration) []string {
	limit := timeout + 2*time.Second
	if name == "z3" {
		return []string{"-in", "-smt2", fmt.Sprintf("-memory:%d", mostMemory), fmt.Sprintf("-T:%d", int(limit.Seconds()))}
	}
	return []string{"--lang=smt2", fmt.Sprintf("--tlimit=%d", limit.Milliseconds()), "-"}
}

// Names returns the names of the supported programs.
func Names() []string { return []string{"z3", "cvc5"} }

// Find returns an installed program.
func Find(name string, timeout time.Duration) (*Solver, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("unknown solver %q: one of %s", name, strings.Join(Names(), ", "))
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("the solver %s is not installed: %w", name, err)
	}
	return &Solver{Timeout: timeout, name: name, path: path}, nil
}

// Name returns the name of the program.
func (s *Solver) Name() string { return s.name }

// Ask returns the output of the program for a script. The error is that of the context, or says why there is no output.
func (s *Solver) Ask(ctx context.Context, script string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	run := exec.CommandContext(bounded, s.path, arguments(s.name, s.Timeout)...)
	var stdout, stderr bytes.Buffer
	run.Stdin, run.Stdout, run.Stderr = strings.NewReader(script), &stdout, &stderr
	run.WaitDelay = time.Second
	if err := run.Start(); err != nil {
		return "", err
	}
	boundMemory(run.Process.Pid)
	err := run.Wait()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case bounded.Err() != nil:
		return "", fmt.Errorf("no answer in %v", s.Timeout)
	case stdout.Len() > 0: // the status is also an error if there is no model to print
		return stdout.String(), nil
	case stderr.Len() > 0:
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return "", errors.New(first)
	case err == nil:
		err = errors.New("no output")
	}
	return "", err
}
