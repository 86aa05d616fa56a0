package serve

import (
	"net"
	"sync"
)

// A limited listener bounds the number of connections. At the bound, a new connection replaces the oldest one of the
// address that has most, so that one client cannot lock out the others; a new connection of that address itself is
// closed at once.
type limited struct {
	net.Listener
	most int

	mu    sync.Mutex
	n     int
	peers map[string][]*connection // by address, the oldest first
}

// A connection counts until it is closed.
type connection struct {
	net.Conn
	by   *limited
	peer string
	once sync.Once
}

func limit(l net.Listener, most int) *limited {
	return &limited{Listener: l, most: most, peers: map[string][]*connection{}}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			peer = c.RemoteAddr().String()
		}
		next := &connection{Conn: c, by: l, peer: peer}
		out := l.take(next)
		if out != nil {
			_ = out.Close() // it no longer counts, whether or not this succeeds
		}
		if out != next {
			return next, nil
		}
	}
}

// take counts a connection, and returns the one that must be closed for it; nil if there is room.
func (l *limited) take(next *connection) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out *connection
	if l.n >= l.most {
		out = next
		most := len(l.peers[next.peer])
		for _, all := range l.peers {
			if len(all) > most {
				out, most = all[0], len(all)
			}
		}
		if out == next {
			return out
		}
		l.drop(out)
	}
	l.peers[next.peer] = append(l.peers[next.peer], next)
	l.n++
	return out
}

// drop stops counting a connection.
func (l *limited) drop(c *connection) {
	all := l.peers[c.peer]
	for i, each := range all {
		if each == c {
			l.n--
			if len(all) == 1 {
				delete(l.peers, c.peer)
				return
			}
			l.peers[c.peer] = append(all[:i:i], all[i+1:]...)
			return
		}
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.once.Do(func() {
		c.by.mu.Lock()
		defer c.by.mu.Unlock()
		c.by.drop(c)
	})
	return c.Conn.Close()
}
