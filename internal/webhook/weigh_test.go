package webhook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The size of a body counts with its tree, and a body with a much larger tree than others of its length is refused.
func TestWeigh(t *testing.T) {
	nest := func(n int) string { return strings.Repeat(`{"":`, n) + "0" + strings.Repeat("}", n) }
	row := func(n, depth int) string { return "[" + strings.Repeat(nest(depth)+",", n) + "0]" }
	for _, c := range []struct {
		name, text string
		want       int64 // bytes in flight; 0: refused
	}{
		{"one text", `{"data": {"a": "` + strings.Repeat("a", 1_000_000) + `"}}`, 1_000_020},
		{"a Pod", `{"spec": {"containers": [{"name": "app", "image": "registry.example.com/app:1.0"}]}}`, 85},
		{"maps alone", row(400, 100), 700_000},
		{"as many as fit", row(13_000, 100), 0},
	} {
		f := NewInFlight(maxBody)
		n := int64(len(c.text))
		text, part, err := f.read(t.Context(), httptest.NewRecorder(), strings.NewReader(c.text), n)
		if err != nil {
			t.Fatal(err)
		}
		_, unload, err := f.weigh(t.Context(), text)
		var refused *httpError
		if c.want == 0 {
			if !errors.As(err, &refused) || refused.code != http.StatusRequestEntityTooLarge ||
				f.Bytes() != n {
				t.Errorf("%s: %v, %d bytes", c.name, err, f.Bytes())
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := f.Bytes(); got < c.want/2 || got > c.want*2 {
			t.Errorf("%s: %d bytes in flight, not about %d", c.name, got, c.want)
		}
		unload()
		if part.keep(0); f.Bytes() != 0 {
			t.Errorf("%s: %d bytes are not given back", c.name, f.Bytes())
		}
	}
}
