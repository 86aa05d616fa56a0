package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
)

// A Beside sends the reviews of a Handler to another webhook, too, and compares the answers. The other webhook's
// answers are only counted and logged. It is called after the Handler has answered, and does not delay the answer.
type Beside struct {
	URLs   map[Phase]string // the address for each phase
	Client *http.Client     // nil: the default, which does not follow redirects

	// Observe receives every comparison; may be nil.
	Observe func(Contrast)

	// Log receives a line for each disagreement and for each missing answer; may be nil.
	Log *slog.Logger

	asking  sync.WaitGroup
	waiting atomic.Int64 // queued reviews
	held    atomic.Int64 // their bytes
}

// A Contrast is the comparison of another webhook's answer with celgate's.
type Contrast struct {
	Phase   Phase
	Result  Agreement
	Request *celgate.Request
	Ours    string // the denial, and the other differences; empty: none
	Theirs  string
}

// An Agreement is the result of a comparison.
type Agreement string

// Agreements, in the order of precedence.
const (
	Same          Agreement = "same"
	OursDenies    Agreement = "ours_denies"   // only celgate denies
	TheirsDenies  Agreement = "theirs_denies" // only the other webhook denies
	OtherMessage  Agreement = "message"       // both deny, with different messages
	OtherObject   Agreement = "object"        // both allow, with different objects
	OtherWarnings Agreement = "warnings"      // both allow, with different warnings
	NoAnswer      Agreement = "no_answer"     // the other webhook did not answer
	Unasked       Agreement = "unasked"       // too many reviews were queued
)

// Agreements returns all values.
func Agreements() []Agreement {
	return []Agreement{Same, OursDenies, TheirsDenies, OtherMessage, OtherObject, OtherWarnings, NoAnswer, Unasked}
}

// Bounds of queued reviews, in number and bytes.
const (
	maxBeside      = 64
	maxBesideBytes = 16 << 20
	besideTimeout  = 10 * time.Second
)

// ask sends a review to the other webhook and compares its answer with celgate's. It returns at once.
func (b *Beside) ask(phase Phase, text string, r *celgate.Request, d *celgate.Decision) {
	if b == nil || b.URLs[phase] == "" {
		return
	}
	n := int64(len(text))
	if b.waiting.Add(1) > maxBeside || b.held.Add(n) > maxBesideBytes {
		b.waiting.Add(-1)
		b.held.Add(-n)
		b.tell(Contrast{Phase: phase, Result: Unasked, Request: r})
		return
	}
	b.asking.Go(func() {
		defer b.waiting.Add(-1)
		defer b.held.Add(-n)
		c := Contrast{Phase: phase, Result: NoAnswer, Request: r}
		defer func() {
			if v := recover(); v != nil { // a malformed answer must not end the program
				c.Result, c.Theirs = NoAnswer, fmt.Sprint("internal error: ", v)
			}
			b.tell(c)
		}()
		theirs, err := b.post(b.URLs[phase], text)
		if err != nil {
			c.Theirs = err.Error()
			return
		}
		if theirs.UID != r.UID {
			c.Theirs = fmt.Sprintf("the answer has the uid %q, not %q", theirs.UID, r.UID)
			return
		}
		c.compare(phase, d, theirs)
	})
}

// Wait returns when the queue is empty.
func (b *Beside) Wait() {
	if b != nil {
		b.asking.Wait()
	}
}

// post sends an unchanged review and reads the answer.
func (b *Beside) post(url, text string) (*response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), besideTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(text)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", jsonType)
	client := b.Client
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBody:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxBody)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	var out review
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, err
	}
	if out.Response == nil {
		return nil, errors.New("the answer does not have a response")
	}
	return out.Response, nil
}

// compare computes the difference of two answers; a denial by one side comes first.
func (c *Contrast) compare(phase Phase, d *celgate.Decision, theirs *response) {
	ours, said := "", ""
	if d.Status != nil {
		ours = d.Status.Message
	}
	if theirs.Status != nil {
		said = theirs.Status.Message
	}
	switch {
	case !d.Allowed && theirs.Allowed:
		c.Result, c.Ours = OursDenies, ours
		return
	case d.Allowed && !theirs.Allowed:
		c.Result, c.Theirs = TheirsDenies, said
		return
	case !d.Allowed:
		if c.Result = Same; ours != said {
			c.Result, c.Ours, c.Theirs = OtherMessage, ours, said
		}
		return
	}
	if phase == Mutating {
		mine := d.Object
		if !d.Mutated {
			mine = c.Request.Object
		}
		object, err := applyResponse(c.Request.Object, theirs)
		if err != nil {
			c.Result, c.Theirs = NoAnswer, "the patch: "+err.Error()
			return
		}
		if differing := diff(object, mine); len(differing) > 0 {
			c.Result = OtherObject
			c.Ours, c.Theirs = pathsOf(differing), pathsOf(diff(mine, object))
			return
		}
	}
	if warnings := d.WarningTexts(); !slices.Equal(warnings, theirs.Warnings) {
		c.Result, c.Ours, c.Theirs = OtherWarnings, fmt.Sprintf("%q", warnings), fmt.Sprintf("%q", theirs.Warnings)
		return
	}
	c.Result = Same
}

// applyResponse returns the object after the patch of an answer.
func applyResponse(object map[string]any, r *response) (map[string]any, error) {
	if len(r.Patch) == 0 {
		return object, nil
	}
	if r.PatchType != "JSONPatch" {
		return nil, fmt.Errorf("unknown patch type %q", r.PatchType)
	}
	var given []struct {
		Op    string           `json:"op"`
		Path  string           `json:"path"`
		From  string           `json:"from"`
		Value *json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(r.Patch, &given); err != nil {
		return nil, err
	}
	ops := make([]jsonpatch.Operation, len(given))
	for i, g := range given {
		ops[i] = jsonpatch.Operation{Op: g.Op, Path: g.Path, From: g.From}
		if g.Value != nil {
			ops[i].HasValue = true
			if err := kjson.UnmarshalCaseSensitivePreserveInts(*g.Value, &ops[i].Value); err != nil {
				return nil, err
			}
		} else if g.Op == "add" || g.Op == "replace" { // a null, which a nil pointer cannot express
			ops[i].HasValue = true
		}
	}
	after, err := jsonpatch.Apply(object, ops)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return object, nil
	}
	if err != nil {
		return nil, err
	}
	tree, ok := after.(map[string]any)
	if !ok {
		return nil, errors.New("the patch does not leave an object")
	}
	return tree, nil
}

// pathsOf lists the paths of operations without values, because readers of logs may not be permitted to read these.
func pathsOf(operations []operation) string {
	const most = 5
	var b bytes.Buffer
	for i, o := range operations {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(operations)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", o.Op, o.Path)
	}
	return b.String()
}

func (b *Beside) tell(c Contrast) {
	if b.Observe != nil {
		b.Observe(c)
	}
	if b.Log == nil || c.Result == Same {
		return
	}
	level := slog.LevelInfo
	if c.Result == NoAnswer {
		level = slog.LevelWarn
	}
	args := []any{"result", c.Result, "phase", c.Phase}
	switch c.Result {
	case OtherObject:
		args = append(args, "ours", c.Ours, "theirs", c.Theirs)
	case NoAnswer:
		args = append(args, "error", c.Theirs)
	default: // messages may hold values of params and objects
		if b.Log.Enabled(context.Background(), slog.LevelDebug) {
			args = append(args, "ours", c.Ours, "theirs", c.Theirs)
		}
	}
	args = append(args, logAttributes(c.Request)...)
	b.Log.Log(context.Background(), level, "another webhook", args...)
}
