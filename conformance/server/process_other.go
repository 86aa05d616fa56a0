//go:build !linux

package server

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// dieWithParent does nothing where the kernel cannot do it: a killed test leaves its servers behind.
func dieWithParent(*exec.Cmd) {}

// freeze is for Linux.
func freeze(*os.Process, time.Duration) error {
	return errors.New("processes can be frozen on Linux only")
}

// lock does nothing: two processes may build the same program at the same time, and the last one wins.
func lock(string) (unlock func(), err error) { return func() {}, nil }
