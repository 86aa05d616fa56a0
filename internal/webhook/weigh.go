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

// weigh says how many bytes a body counts as, once it is there, and waits until what is made of so many fits in memory,
// which unload gives back. Most count as their length; `{"":{"":…` takes 52 times as much memory as it has bytes. Short
// bodies wait for nobody, as few are read at once.
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
