package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is how long what runs has to end in order after the first signal.
const patience = 700 * time.Millisecond

// interruptible ends the context with the first SIGINT or SIGTERM. What has not ended soon after, as an evaluation that
// looks at no context, ends with the program, and so does everything with a second signal. The function it returns says
// that all has ended in order: from then on the program's own exit code counts.
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
