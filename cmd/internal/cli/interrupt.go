package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is the time for an orderly end after the first signal.
const patience = 700 * time.Millisecond

// interruptible returns a context that ends with the first SIGINT or SIGTERM. After a short time, or with a second
// signal, the program ends at once, whatever still runs, such as an evaluation that does not watch its context. The
// returned function marks an orderly end: from then on the program's own exit code counts.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		var first os.Signal
		select {
		case first = <-signals:
		case <-ctx.Done():
			return
		case <-ended:
			return
		}
		cancel()
		status := 128 + int(syscall.SIGINT)
		if first == syscall.SIGTERM {
			status = 128 + int(syscall.SIGTERM)
		}
		select {
		case <-ended:
			return
		case <-signals:
		case <-time.After(patience):
		}
		os.Exit(status)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
		cancel()
	}
}
