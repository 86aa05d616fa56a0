package webhook

import (
	"context"
	"net/http"
	"strings"
)

const (
	mapBytes  = 340 // of a map with a few members, including its own entry in a list or map
	itemBytes = 48  // of a member or an item
	ordinary  = 20  // bytes in memory for a byte of an ordinary body, at most
)

// weigh returns the number of bytes that a body counts as, and waits until its decoded form fits in memory; unload
// releases that. Most bodies count as their length; `{"":{"":…` takes 52 times its length. Short bodies do not wait,
// because only a few are read at once.
func (f *InFlight) weigh(ctx context.Context, text string) (weight int64, unload func(), err error) {
	length := int64(len(text))
	if f == nil {
		return length, func() {}, nil
	}
	values := int64(strings.Count(text, "{"))*mapBytes + int64(strings.Count(text, ",")+strings.Count(text, "["))*itemBytes
	weight = max(length, values/ordinary)
	switch {
	case weight <= shortBody:
		return weight, func() {}, nil
	case weight > maxBody:
		return 0, nil, refuse(http.StatusRequestEntityTooLarge,
			"the body has too many values: they would take about %d MB", values/1_000_000)
	}
	if err := acquire(ctx, f.made, weight); err != nil {
		return 0, nil, err
	}
	f.bytes.Add(weight - length)
	return weight, func() {
		f.bytes.Add(length - weight)
		f.made.Release(weight)
	}, nil
}
