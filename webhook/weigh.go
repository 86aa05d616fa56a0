package webhook

import (
	"context"
	"net/http"
	"strings"
)

const (
	mapBytes  = 340 // of a map with a few members, and what stands for it in lists and maps
	itemBytes = 48  // of a member or an item
	ordinary  = 20  // bytes in memory for a byte of a body, at most, of what people write
)

// weigh counts a body for as much as its tree takes, once it is there: `{"":{"":…` takes 52 times its length. done gives
// back what was counted before.
func (f *InFlight) weigh(ctx context.Context, text string, done func()) (func(), error) {
	if f == nil {
		return done, nil
	}
	values := int64(strings.Count(text, "{"))*mapBytes + int64(strings.Count(text, ",")+strings.Count(text, "["))*itemBytes
	weight := values / ordinary
	switch {
	case weight <= int64(len(text)):
		return done, nil
	case weight > maxBody:
		done()
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body has too many values: they would take about %d MB", values/1_000_000)
	}
	done() // whoever waits holds nothing that others wait for
	return f.acquire(ctx, weight)
}
