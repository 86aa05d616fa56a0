package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A nuisance is a hostile client that can reach the port and tries to block other requests. It runs until the context
// ends; the fate of its connections does not matter.
type nuisance struct {
	name string
	do   func(ctx context.Context, at *target, seed *rand.Rand)
}

// target is the server that nuisances are about.
type target struct {
	address string
	trusted *x509.CertPool
	counts  *atomic.Int64 // connections and streams
}

// dial opens a connection, with or without HTTP/2.
func (a *target) dial(ctx context.Context, protocols ...string) (*tls.Conn, error) {
	a.counts.Add(1)
	d := tls.Dialer{Config: &tls.Config{RootCAs: a.trusted, ServerName: "celgate.test", NextProtos: protocols}}
	c, err := d.DialContext(ctx, "tcp", a.address)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // never fails for an open connection
	return c.(*tls.Conn), nil
}

// nuisances send data that an API server never sends. Each is bounded: some connections at a time, for some seconds.
var nuisances = []nuisance{
	{"bare TCP connections", func(ctx context.Context, at *target, _ *rand.Rand) {
		at.counts.Add(1)
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.address); err == nil {
			defer c.Close()
			wait(ctx, 200*time.Millisecond)
		}
	}},
	{"slow headers", func(ctx context.Context, at *target, _ *rand.Rand) {
		c, err := at.dial(ctx, "http/1.1")
		if err != nil {
			return
		}
		defer c.Close()
		for _, part := range []string{"POST /validate HTTP/1.1\r\n", "Host: celgate.test\r\n", "X: ", "y", "\r\n"} {
			if _, err := io.WriteString(c, part); err != nil {
				return
			}
			wait(ctx, 300*time.Millisecond)
		}
	}},
	{"slow bodies", func(ctx context.Context, at *target, _ *rand.Rand) {
		c, err := at.dial(ctx, "http/1.1")
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /validate?timeout=2s HTTP/1.1\r\nHost: celgate.test\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"); err != nil {
			return
		}
		for range 10 {
			if _, err := c.Write(bytes.Repeat([]byte(" "), 100)); err != nil {
				return
			}
			wait(ctx, 200*time.Millisecond)
		}
	}},
	{"garbage", func(ctx context.Context, at *target, seed *rand.Rand) {
		c, err := at.dial(ctx, "http/1.1")
		if err != nil {
			return
		}
		defer c.Close()
		junk := make([]byte, 1+seed.IntN(5000))
		for i := range junk {
			junk[i] = byte(seed.Uint32())
		}
		_, _ = c.Write(junk)
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 10000))
	}},
	{"odd reviews", func(ctx context.Context, at *target, seed *rand.Rand) {
		c, err := at.dial(ctx, "http/1.1")
		if err != nil {
			return
		}
		defer c.Close()
		bodies := []string{
			"", "{}", "[]", "null", `{"request":`, strings.Repeat("[", 100000),
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":1}}`,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","object":` + strings.Repeat(`{"a":`, 5000) + strings.Repeat("}", 5000) + `}}`,
		}
		body := bodies[seed.IntN(len(bodies))]
		fmt.Fprintf(c, "POST /%s?timeout=%ds HTTP/1.1\r\nHost: celgate.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			[]string{"validate", "mutate", "other", "../etc"}[seed.IntN(4)],
			seed.IntN(40),
			len(body),
			body,
		)
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1_000_000))
	}},
	{"bodies of maps alone", func(ctx context.Context, at *target, seed *rand.Rand) {
		n := 1000 << seed.IntN(9) // up to 2.5 MB, which are 70 MB in memory; those of more than 160 MB are refused
		at.review(ctx, `{"data":[`+strings.Repeat(`{"":{}},`, n)+`0]}`)
	}},
	{"bodies of small texts", func(ctx context.Context, at *target, seed *rand.Rand) {
		n := 1000 << seed.IntN(9)
		at.review(ctx, `{"data":[`+strings.Repeat(`"aaa",`, n)+`0]}`)
	}},
	{"HTTP/2 streams that are reset", func(ctx context.Context, at *target, _ *rand.Rand) {
		at.frames(ctx, func(f *http2.Framer, headers []byte) {
			for id := uint32(1); id < 2000; id += 2 {
				at.counts.Add(1)
				if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers,
					EndHeaders: true}) != nil ||
					f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
					return
				}
			}
		})
	}},
	{"HTTP/2 streams that stay open", func(ctx context.Context, at *target, _ *rand.Rand) {
		at.frames(ctx, func(f *http2.Framer, headers []byte) {
			for id := uint32(1); id < 1000; id += 2 {
				at.counts.Add(1)
				if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers,
					EndHeaders: true}) != nil {
					return
				}
			}
			wait(ctx, time.Second)
		})
	}},
	{"HTTP/2 settings and pings", func(ctx context.Context, at *target, _ *rand.Rand) {
		at.frames(ctx, func(f *http2.Framer, _ []byte) {
			for i := range 2000 {
				if f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i + 1)}) != nil ||
					f.WritePing(false, [8]byte{}) != nil {
					return
				}
			}
		})
	}},
	{"HTTP/2 headers without an end", func(ctx context.Context, at *target, _ *rand.Rand) {
		at.frames(ctx, func(f *http2.Framer, headers []byte) {
			if f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers}) != nil {
				return
			}
			for range 2000 {
				if f.WriteContinuation(1, false, bytes.Repeat([]byte{0x00}, 1000)) != nil {
					return
				}
			}
		})
	}},
}

// review sends a review of an object and waits for the answer.
func (a *target) review(ctx context.Context, object string) {
	c, err := a.dial(ctx, "http/1.1")
	if err != nil {
		return
	}
	defer c.Close()
	body := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE",` +
		`"resource":{"version":"v1","resource":"configmaps"},"name":"x","namespace":"x","object":` + object + `}}`
	fmt.Fprintf(c, "POST /validate?timeout=2s HTTP/1.1\r\nHost: celgate.test\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1_000_000))
}

// frames starts HTTP/2 without negotiation, and sends the given frames. Headers are those of a review.
func (a *target) frames(ctx context.Context, send func(f *http2.Framer, headers []byte)) {
	c, err := a.dial(ctx, "h2", "http/1.1")
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":authority", "celgate.test"}, {":path", "/validate?timeout=2s"},
		{"content-type", "application/json"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // into memory
	}
	f := http2.NewFramer(c, nil)
	if f.WriteSettings() == nil {
		send(f, headers.Bytes())
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// spoil damages a directory of policies as disks and users might, and repairs it. Readiness reports both. It returns
// the number of repetitions.
func spoil(ctx context.Context, dir string, seed *rand.Rand, ready func() error) (times int, err error) {
	path := filepath.Join(dir, "p.yaml")
	good, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	soon := func(what string, right func() bool) error {
		for end := time.Now().Add(30 * time.Second); ctx.Err() == nil && !right(); wait(ctx, 50*time.Millisecond) {
			if time.Now().After(end) {
				if err := ready(); err != nil {
					return fmt.Errorf("%s: not ready: %w", what, err)
				}
				return fmt.Errorf("%s: it is ready", what)
			}
		}
		return nil
	}
	for i, bad := range [][]byte{nil, good[:seed.IntN(len(good)-10)], []byte("# nothing\n"), []byte("apiVersion: [\n"),
		bytes.Repeat([]byte("a: b\n"), 100_000)} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			return times, err
		}
		if err := soon(fmt.Sprintf("spoiled (%d)", i), func() bool { return ready() != nil }); err != nil {
			return times, err
		}
		times++
		wait(ctx, time.Second)
		if ctx.Err() != nil {
			break
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		return times, err
	}
	return times, soon("put right", func() bool { return ready() == nil })
}
