package celgate

import (
	"time"

	"github.com/celgate/celgate/internal/bound"
)

// Limits bound what the evaluation of one policy for one request may take. What it would take is predicted, so that no
// call is made that goes beyond them: its expression is an error instead, about which the failurePolicy decides. The
// API server has no such limits.
type Limits struct {
	Memory int64         // bytes of the values that expressions make; 0: the default
	Time   time.Duration // of calls that take longer than their cost says; 0: the default

	// Cost is what the expressions of all policies may cost together in one call of [Engine.Mutate] or
	// [Engine.Validate], in CEL cost units; 0: any number. Beyond, what is left is not evaluated: each policy is an
	// error of the type [CostError]. The policies before, in the order in which they run, are not concerned.
	Cost int64

	// Pool is memory that evaluations share, those of other engines too; nil: each may have its own. It is asked for
	// what goes beyond the first 256 KiB.
	Pool *MemoryPool
}

// A MemoryPool is an amount of memory that evaluations share.
type MemoryPool struct{ pool bound.Pool }

// NewMemoryPool returns a pool of some bytes.
func NewMemoryPool(bytes int64) *MemoryPool { return &MemoryPool{bound.Pool{Bytes: bytes}} }

// Usage returns how many bytes of it are in use.
func (p *MemoryPool) Usage() int64 { return p.pool.Usage() }

// ServedLimits are those of a server without more memory than a Pod of celgate has, without a pool.
func ServedLimits() Limits {
	return Limits{Memory: bound.Served.Bytes, Time: bound.Time(bound.Served.Steps)}
}

// bounds are those of an evaluation, where they are not set those of what predicts the API server's answer.
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

func (l *Limits) pool() *bound.Pool {
	if l.Pool == nil {
		return nil
	}
	return &l.Pool.pool
}
