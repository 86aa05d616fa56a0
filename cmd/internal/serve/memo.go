package serve

import "sync"

// A memo keeps metrics by what they count: the client library finds one by a hash of the texts of all its labels, a
// thirtieth of the time of a request.
type memo[K comparable, V any] struct {
	make func(K) V

	mu    sync.RWMutex
	known map[K]V
}

func newMemo[K comparable, V any](make func(K) V) *memo[K, V] {
	return &memo[K, V]{make: make, known: map[K]V{}}
}

func (m *memo[K, V]) get(key K) V {
	m.mu.RLock()
	v, ok := m.known[key]
	m.mu.RUnlock()
	if ok {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v = m.make(key)
	m.known[key] = v
	return v
}

// forget forgets everything after do, while nothing is made: do may remove what was made.
func (m *memo[K, V]) forget(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	clear(m.known)
}
