package smtlib

import "golang.org/x/sys/unix"

// boundMemory bounds the memory of a process. If that fails, its time is still bounded.
func boundMemory(pid int) {
	const most = mostMemory << 20
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}, nil)
}
