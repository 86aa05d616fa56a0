package corpus

import (
	"context"
	"errors"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/conformance"
)

// side is how many calls are under way at a time where order does not matter.
const side = 8

// Each calls do for 0 to n-1, a few at a time, and returns all errors.
func Each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var next sync.Mutex
	at := 0
	var wait sync.WaitGroup
	for range min(side, n) {
		wait.Go(func() {
			for {
				next.Lock()
				i := at
				at++
				next.Unlock()
				if i >= n {
					return
				}
				errs[i] = do(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Keep creates an object that stays on the server, such as one that all cases of a round share, and returns its stored
// form. A CustomResourceDefinition is served when Keep returns.
func (r *Recorder) Keep(ctx context.Context, object map[string]any) (map[string]any, error) {
	if object["kind"] == "CustomResourceDefinition" {
		return object, r.define(ctx, object)
	}
	err := r.objects.create(ctx, object)
	var refused *refusal
	if errors.As(err, &refused) && refused.status.Code == http.StatusConflict { // it exists in every cluster
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return r.objects.get(ctx, object)
}

// IsRefusal reports an error that is the server's answer to an object that was to be created.
func IsRefusal(err error) bool {
	var refused *refusal
	return errors.As(err, &refused)
}

// KeepParams keeps the server's cache of a param kind alive, independent of other policies: see foundation.
func (r *Recorder) KeepParams(ctx context.Context, apiVersion, kind string) error {
	policies, err := r.documents(anchors(apiVersion, kind))
	if err != nil {
		return err
	}
	for _, policy := range policies {
		if _, err := r.Keep(ctx, policy); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes an object that Keep created.
func (r *Recorder) Remove(ctx context.Context, object map[string]any) error {
	return r.objects.remove(ctx, object)
}

// Try sends the request of a case as a dry run to the server while policies do not match it, and returns the object
// that would be stored, or the status of the refusal.
func (r *Recorder) Try(ctx context.Context, c *conformance.Case) (map[string]any, *metav1.Status, error) {
	call, err := r.call(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	call.Query.Set("dryRun", "All")
	answer, err := r.server.Do(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	if status := answer.Status(); status != nil {
		return nil, status, nil
	}
	object, err := answer.Object()
	return object, nil, err
}

// Enforce puts the policies of many cases in force at once, after those of the last round are removed, and returns the
// refused policies of each case. Only their match rules separate the cases.
func (r *Recorder) Enforce(ctx context.Context, cases []*conformance.Case) ([][]conformance.Rejection, error) {
	if err := r.clear(ctx); err != nil {
		return nil, err
	}
	rejected := make([][]conformance.Rejection, len(cases))
	written := make([][]map[string]any, len(cases))
	err := Each(len(cases), func(i int) (err error) {
		written[i], rejected[i], err = r.write(ctx, cases[i].Policies)
		return err
	})
	for _, policies := range written {
		r.active = append(r.active, policies...)
	}
	if err != nil {
		return nil, err
	}
	return rejected, r.mark(ctx)
}

// An Observation is all that could be seen of one request.
type Observation struct {
	Want    *conformance.Want
	Passed  bool           // the mutating phase let the request pass
	Mutated map[string]any // the object at the end of the mutating phase, without later changes
	Panic   bool           // the server panicked, so it did not answer

	// Review is the request in the unmodified review of the validating webhook: the view of policies. It is nil without
	// a review.
	Review map[string]any
}

// Ask sends the request of a case whose policies are in force and whose old object is stored. Several goroutines may
// call it with requests of different users or names.
func (r *Recorder) Ask(ctx context.Context, c *conformance.Case) (*Observation, error) {
	want := &conformance.Want{Minors: []string{r.minor}}
	seen, err := r.send(ctx, c, want)
	if errors.Is(err, errPanic) {
		return &Observation{Want: want, Panic: true}, nil
	}
	if err != nil {
		return nil, err
	}
	object, _ := seen.mutating["object"].(map[string]any)
	return &Observation{Want: want, Passed: seen.mutating != nil, Mutated: conformance.Settle(object),
		Review: seen.validating}, nil
}
