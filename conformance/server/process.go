package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// A process is a running program whose output goes to a file.
type process struct {
	name   string
	path   string
	args   []string
	folder string
	log    string // path of the output
	cmd    *exec.Cmd
	done   chan struct{} // closed when the program has ended
}

// startProcess starts a program whose output goes to the folder. The kernel kills it when this process ends, however it
// ends: see dieWithParent.
func startProcess(folder, path string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(path), path: path, args: args, folder: folder, done: make(chan struct{})}
	p.log = filepath.Join(folder, p.name+".log")
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = folder
	dieWithParent(p.cmd)

	started := make(chan error)
	go func() {
		// The kernel ties the life of the child to the thread that started it, so that thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		out.Close()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its state
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// stop ends the process and waits for its end.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // fails only when it has ended already
	<-p.done
}

// restart starts a process that has ended as it was started before.
func (p *process) restart() (*process, error) { return startProcess(p.folder, p.path, p.args...) }

// exitError returns an error with the end of the output if the process has ended.
func (p *process) exitError() error {
	select {
	case <-p.done:
		out, _ := os.ReadFile(p.log)
		out = out[max(0, len(out)-2000):]
		return fmt.Errorf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, out)
	default:
		return nil
	}
}
