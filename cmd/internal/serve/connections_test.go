package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// dialFrom connects from a local address.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Skip(err) // not all systems have many loopback addresses
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// isClosed reports whether the other side closes a connection within a moment.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) // never fails for an open connection
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestLimited connects more often than there may be connections.
func TestLimited(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := limit(listener, 4)
	accepted := make(chan net.Conn, 20)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	at := listener.Addr().String()
	var greedy []net.Conn
	for range 4 {
		greedy = append(greedy, dialFrom(t, "127.0.0.1", at))
		<-accepted
	}
	if !isClosed(dialFrom(t, "127.0.0.1", at)) {
		t.Error("there is room for one more")
	}
	modest := dialFrom(t, "127.0.0.2", at)
	own := <-accepted
	if isClosed(modest) || !isClosed(greedy[0]) || isClosed(greedy[1]) {
		t.Error("another address finds no room, or not the oldest one gives way")
	}
	second := dialFrom(t, "127.0.0.2", at)
	<-accepted
	third := dialFrom(t, "127.0.0.2", at) // which has as many as the other one now
	if isClosed(modest) || isClosed(second) || !isClosed(greedy[1]) || !isClosed(third) {
		t.Error("the room is not shared")
	}
	own.Close()
	own.Close()
	if fourth := dialFrom(t, "127.0.0.2", at); isClosed(fourth) {
		t.Error("what is closed counts")
	}
}

// TestConnections sends requests that keep a connection open and others, and long headers.
func TestConnections(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"one.yaml": one}, nil)
	address := r.log.await(t, `listening address=(\S+)`)
	for name, test := range map[string]struct {
		method, path, filler string
		code                 int
		kept                 bool
	}{
		"a review":            {http.MethodPost, "/validate", "", http.StatusBadRequest, true},
		"a review of a proxy": {http.MethodPost, "/validate", strings.Repeat("x", 4<<10), http.StatusBadRequest, true},
		"health":              {http.MethodGet, "/healthz", "", http.StatusOK, false},
		"readiness":           {http.MethodGet, "/readyz", "", http.StatusOK, false},
		"nothing":             {http.MethodGet, "/", "", http.StatusNotFound, false},
		"long headers":        {http.MethodPost, "/validate", strings.Repeat("x", 20<<10), 431, false},
	} {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("%s: over %s", name, got)
		}
		defer c.Close()
		client := &http.Client{Transport: &http.Transport{
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil },
		}}
		request, err := http.NewRequest(test.method, "https://"+address+test.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("X", test.filler)
		response, err := client.Do(request)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != test.code || response.Close == test.kept {
			t.Errorf("%s: %s, closed %v", name, response.Status, response.Close)
		}
	}
}
