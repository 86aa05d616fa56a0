package celgate

import (
	"time"

	"github.com/celgate/celgate/internal/bound"
)

// Limits bound the resources for evaluating one policy for one request. The engine predicts the need of each function
// call; if it exceeds a limit, the expression is an error, to which failurePolicy applies. The API server does not have
// such limits.
type Limits struct {
	Memory int64         // bytes of the results of expressions; 0: the default
	Time   time.Duration // of calls that take longer than their cost suggests; 0: the default

	// Cost limits the total cost of the expressions of all policies in one call of [Engine.Mutate] or
	// [Engine.Validate], in CEL cost units; 0: unlimited. The remaining policies are not evaluated: each is an
	// [ErrRequestCost]. The policies before them, in the order in which they run, are not affected.
	Cost int64

	pool *bound.Pool // see Share
}

// Share makes all evaluations share an amount of memory, in all engines that get copies of these limits. The first 256
// KiB of each evaluation do not count. If bytes is 0, memory is not shared.
func (l *Limits) Share(bytes int64) {
	l.pool = nil
	if bytes > 0 {
		l.pool = &bound.Pool{Bytes: bytes}
	}
}

// SharedUsage returns the bytes in use of the memory that evaluations share.
func (l *Limits) SharedUsage() int64 {
	if l.pool == nil {
		return 0
	}
	return l.pool.Usage()
}

// ServedLimits returns limits for a server with the memory of a Pod of celgate; evaluations do not share memory.
func ServedLimits() Limits {
	return Limits{Memory: bound.Served.Bytes, Time: bound.Time(bound.Served.Steps)}
}

// bounds returns the bounds of an evaluation; the defaults are those for predicting the API server's answer.
func (l *Limits) bounds() bound.Limits {
	limits := bound.Predicted
	if l.Memory > 0 {
		limits.Bytes = l.Memory
	}
	if l.Time > 0 {
		limits.Steps = bound.Steps(l.Time)
	}
	return limits
}
