package differ

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/celgate/celgate"
)

// A Run is one comparison of many cases.
type Run struct {
	Seed     uint64
	Time     time.Duration // ends after this; 0: no limit
	Policies int           // ends after so many; 0: no limit
	Requests int           // of each policy
	First    uint64        // index of the first policy
	Only     string        // only this kind
	Out      io.Writer     // differences are written to it
	Limit    int           // ends after so many differences
}

// Totals are the counts of a run.
type Totals struct {
	Seed        uint64 `json:"seed"`
	Kinds       int    `json:"kinds"` // with requests for their objects
	Policies    int    `json:"policies"`
	Rejected    int    `json:"rejected"` // policies that may not be written
	Comparisons int    `json:"comparisons"`
	Denied      int    `json:"denied"`
	Mutated     int    `json:"mutated"`
	Annotated   int    `json:"annotated"` // with warnings or audit annotations
	Unordered   int    `json:"unordered"` // the server's answer was one of several
	Differences int    `json:"differences"`

	Live *LiveTotals `json:"live,omitempty"` // of the run on a live server beside it
}

// Recorded are the totals of the last recorded runs.
type Recorded struct {
	Totals
	Minors map[string]*LiveTotals `json:"minors,omitempty"` // of runs on live servers of older minors
}

// Record writes the totals of a run to a file: those of the newest minor replace its earlier ones, and those of an
// older minor are added to the other totals in the file.
func (t *Totals) Record(file, minor string) error {
	var recorded Recorded
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		err = json.Unmarshal(text, &recorded)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	if minor == celgate.Newest {
		recorded.Totals = *t
	} else {
		if recorded.Minors == nil {
			recorded.Minors = map[string]*LiveTotals{}
		}
		recorded.Minors[minor] = t.Live
	}
	if text, err = json.MarshalIndent(recorded, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o666)
}

// Do compares until the time is over.
func (r *Run) Do(ctx context.Context, w *World) (*Totals, error) {
	t := &Totals{Seed: r.Seed, Kinds: len(w.kinds)}
	start := time.Now()
	for i := r.First; ; i++ {
		if r.Time > 0 && time.Since(start) > r.Time || r.Policies > 0 && t.Policies+t.Rejected >= r.Policies ||
			t.Differences >= r.Limit || ctx.Err() != nil {
			return t, nil
		}
		if err := r.comparePolicy(ctx, w, i, t); err != nil {
			return t, fmt.Errorf("policy %d of seed %d: %w", i, r.Seed, err)
		}
	}
}

const poolSize = 40

// comparePolicy compares one policy on many requests.
func (r *Run) comparePolicy(ctx context.Context, w *World, index uint64, t *Totals) error {
	g := w.generator(r.Seed, index)
	k := w.kinds[int(index)%len(w.kinds)]
	if r.Only != "" && k.resource.Kind != r.Only {
		return nil
	}
	// New objects now and then; which ones follows from the index alone, so that every policy can be met again.
	if age := int(index)/len(w.kinds)/16 + 1; k.age != age {
		k.age = age
		pool := w.generator(^r.Seed, index%uint64(len(w.kinds))<<32|uint64(age))
		if err := pool.fill(k, poolSize); err != nil {
			return err
		}
	}
	sample := pick(g, k.pool...)
	c := g.policy(k, sample)
	engine, err := w.engineOf(c)
	if errors.Is(err, errRejected) {
		t.Rejected++
		return nil
	}
	if err != nil {
		return err
	}
	server, err := w.upstream.compile(c)
	if err != nil {
		return err
	}
	t.Policies++
	for range r.Requests {
		q := g.request(k, sample)
		want := w.upstream.ask(ctx, server, q).settle()
		got, err := askEngine(ctx, engine, c, q)
		if err != nil {
			return err
		}
		got = got.settle()
		t.count(want, q)
		if sameAnswers(want, got) {
			continue
		}
		if w.isOneOfSeveral(ctx, server, q, got) {
			t.Unordered++
			continue
		}
		t.Differences++
		small, smallRequest := w.shrink(ctx, c, q)
		fmt.Fprintf(r.Out, "DIFFERENCE %d: policy %d of seed %d\n%s\n", t.Differences, index, r.Seed,
			w.report(ctx, small, smallRequest))
		return nil
	}
	return nil
}

func (t *Totals) count(a *answer, q *request) {
	t.Comparisons++
	switch {
	case a.Status != nil || a.Panic != "":
		t.Denied++
	case a.Object != nil && !equalTrees(a.Object, q.Object):
		t.Mutated++
	}
	if len(a.Warnings)+len(a.Audit) > 0 {
		t.Annotated++
	}
}

// generator returns a generator whose choices follow from two numbers.
func (w *World) generator(seed, index uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, index)), world: w}
}

// isOneOfSeveral reports whether the server itself sometimes gives this answer: iterations over Go maps and over the
// cache of params do not have a fixed order.
func (w *World) isOneOfSeveral(ctx context.Context, server *compiled, q *request, got *answer) bool {
	for range 2000 { // several params, each with its own order, have many answers
		if again := w.upstream.ask(ctx, server, q).settle(); sameAnswers(again, got) {
			return true
		}
	}
	return false
}
