package celgate

import "sync/atomic"

// Live is the engine in force. Readers never wait: what changes policies compiles a new engine and puts it in place
// of the old one, which requests that have begun keep. The zero value holds none.
type Live struct{ engine atomic.Pointer[Engine] }

// Engine returns the engine in force, nil before the first.
func (l *Live) Engine() *Engine { return l.engine.Load() }

// Replace puts an engine in force.
func (l *Live) Replace(e *Engine) { l.engine.Store(e) }
