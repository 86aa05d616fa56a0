package suite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/static"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/state"
)

// Options configure a run. The zero value runs everything.
type Options struct {
	Only        *regexp.Regexp // cases whose "suite/case" matches; nil: all
	KubeVersion string         // empty: the newest
	Update      bool           // write golden files instead of comparing with them
	Set         *policy.Set    // replaces the policies of the suites; nil: not replaced
	Static      []static.Dir   // of static policies, in addition to those of each suite
	Plugins     []string       // admission plugins that take part, see [celgate.Server]; nil: none
	FollowAll   bool           // workloads are followed even if no policy can match the created objects
	Coverage    *Coverage      // receives the coverage; may be nil
}

// A Result is the result of one request of a case.
type Result struct {
	Suite   string
	Name    string // of the case; with the object if there are several
	Place   policy.Position
	Status  Status
	Elapsed time.Duration

	Failures []Failure  // unmet expectations
	Problems []*Problem // reasons why it could not run
	Updated  string     // the golden file written
	Notes    []string   // reasons why the answer is uncertain

	Request  *celgate.Request
	Decision *celgate.Decision
	Created  []Created   // objects that controllers would create
	Set      *policy.Set // the policies and bindings of the suite
}

// UncheckedParts returns the parts of the API server that may still refuse or change the object of a case, or an object
// that controllers create for it, and that were not simulated.
func (r *Result) UncheckedParts() []string {
	var parts []string
	add := func(d *celgate.Decision) {
		if d == nil || !d.Allowed {
			return
		}
		for _, part := range d.UncheckedParts() {
			if !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	add(r.Decision)
	for _, made := range r.Created {
		add(made.Decision)
	}
	return parts
}

// A Status is the status of a case.
type Status string

// Statuses.
const (
	Passed Status = "passed"
	Failed Status = "failed"
	NotRun Status = "not run"
)

// A Failure is one unmet expectation.
type Failure struct {
	Place    policy.Position // of the expectation
	Expected string
	Got      string
	Hint     string   // empty: none
	Causes   []Cause  // the expressions that decided
	Notes    []string // policies that did not match, with reasons, and assumptions

	created bool // it concerns a created object
}

// Run runs every case and yields the results in the order of the suites. Cases run in parallel.
func Run(ctx context.Context, suites []*Suite, opts Options) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		queue := make(chan chan []Result, 4*runtime.GOMAXPROCS(0))
		go func() {
			defer close(queue)
			slots := make(chan struct{}, runtime.GOMAXPROCS(0))
			for _, s := range suites {
				r := &runner{suite: s, opts: opts}
				r.base = sync.OnceValues(func() (*arena, []*Problem) { return newArena(s, s.State, opts) })
				for _, c := range s.Cases {
					if opts.Only != nil && !opts.Only.MatchString(s.Name+"/"+c.Name) {
						continue
					}
					out := make(chan []Result, 1)
					select {
					case queue <- out:
					case <-ctx.Done():
						return
					}
					slots <- struct{}{}
					go func() {
						defer func() { <-slots }()
						out <- r.run(ctx, c)
					}()
				}
			}
		}()
		for out := range queue {
			for _, r := range <-out {
				if opts.Coverage != nil {
					opts.Coverage.Add(r)
				}
				if ctx.Err() != nil || !yield(r) {
					return
				}
			}
		}
		if opts.Coverage != nil {
			opts.Coverage.Sort()
		}
	}
}

// A runner runs the cases of one suite.
type runner struct {
	suite *Suite
	opts  Options
	base  func() (*arena, []*Problem)
}

// run decides about every object of a case.
func (r *runner) run(ctx context.Context, c *Case) []Result {
	start := time.Now()
	first := Result{Suite: r.suite.Name, Name: c.Name, Place: c.Place}
	a, problems := r.arena(c)
	var docs []*manifest.Document
	if len(problems) == 0 {
		docs, problems = c.documents()
	}
	if len(problems) > 0 {
		first.Status, first.Problems = NotRun, problems
		return []Result{first}
	}
	first.Set = &a.set
	if m := c.Expect.Mutated; len(docs) > 1 && m != nil && (m.Golden != nil || m.Object != nil) {
		first.Status = NotRun
		first.Problems = []*Problem{{m.Place, "one object is expected, but the case has several",
			"take one of them, as in object: file.yaml#name"}}
		return []Result{first}
	}
	results := make([]Result, len(docs))
	for i, d := range docs {
		one := first
		if len(docs) > 1 {
			one.Name += fmt.Sprintf(" [%s]", describe(d.Object))
		}
		r.decide(ctx, c, a, &caseRun{Result: &one, doc: d})
		one.Elapsed = time.Since(start)
		start = time.Now()
		results[i] = one
	}
	return results
}

func describe(object map[string]any) string {
	name := tree.Object(object).Name()
	if prefix := tree.Object(object).Metadata().Text("generateName"); name == "" && prefix != "" {
		name = prefix + "*"
	}
	if namespace := tree.Object(object).Namespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return tree.Object(object).Kind().Kind + " " + name
}

func (r *runner) arena(c *Case) (*arena, []*Problem) {
	if len(c.State) == 0 {
		return r.base()
	}
	return newArena(r.suite, append(append([]Source{}, r.suite.State...), c.State...), r.opts)
}

// documents returns the manifests or the review of a case.
func (c *Case) documents() ([]*manifest.Document, []*Problem) {
	from := c.Asked.Object
	switch {
	case !c.Asked.Review.isZero():
		from = c.Asked.Review
	case from.isZero():
		from = c.Asked.Old
	}
	docs, problems := from.documents()
	if len(docs) == 0 && len(problems) == 0 {
		problems = append(problems, &Problem{from.Place, "no object in " + from.Path, ""})
	}
	return docs, problems
}

// A caseRun is the state of one object of a case.
type caseRun struct {
	*Result
	doc   *manifest.Document
	arena *arena
	ctx   context.Context

	workloads *requests.Workloads
	created   []*caseRun        // objects that controllers would create
	says      string            // the created object, such as "Pod shop/web-*"; empty: the object of the case itself
	prepared  *celgate.Prepared // nil if the server refuses to decode the object
	matched   []explain.Match   // see matches; nil: not computed yet
	how       explain.Options
}

// observation returns the options of the decision that counts for coverage.
func (r *runner) observation(a *arena) (how explain.Options) {
	if c := r.opts.Coverage; c != nil {
		how.Observe = func(seen explain.Observation) { c.Observe(&a.set, seen) }
	}
	return how
}

// decide makes the request of one document, decides it and compares the answer.
func (r *runner) decide(ctx context.Context, c *Case, a *arena, run *caseRun) {
	run.arena, run.ctx, run.how = a, ctx, r.observation(a)
	defer func() {
		if p := recover(); p != nil { // a panic of one case must not lose the results of the others
			run.setNotRun(&Problem{c.Place, fmt.Sprintf("internal error: %v", p),
				"please report it, with this:\n" + string(debug.Stack())})
		}
	}()
	request, id, problem := a.request(ctx, c, run.doc)
	if problem != nil {
		run.setNotRun(problem)
		return
	}
	if err := run.answer(request); err != nil {
		run.setNotRun(&Problem{Position: c.Place, Message: err.Error()})
		return
	}
	for _, message := range []string{a.assumes(ctx, run.Request), a.madeUpNote(id, run.Decision)} {
		if message != "" {
			run.note(message)
		}
	}
	given := c.Asked.Workloads
	run.workloads = &requests.Workloads{Off: given.Off, All: r.opts.FollowAll || len(c.Expect.Created) > 0,
		User: given.User, PodsOf: given.PodsOf}
	if run.Decision.Allowed && run.workloads.Follows(run.Request, a.types, a.engine) {
		if run.follow(run.workloads, run.Decision.Object, run.Request); run.Status == NotRun {
			return
		}
	}
	run.Status = Passed
	run.compare(&c.Expect, r.opts.Update)
	if len(run.Failures) > 0 {
		run.Status = Failed
		run.explain()
	}
}

func (r *Result) setNotRun(p *Problem) {
	r.Status, r.Problems, r.Decision, r.Failures, r.Created = NotRun, []*Problem{p}, nil, nil, nil
}

// request makes the request of a case for one document, and returns its user; nil for a review.
func (a *arena) request(ctx context.Context, c *Case, doc *manifest.Document) (*celgate.Request, *requests.Identity,
	*Problem) {
	fail := func(place policy.Position, err error) (*celgate.Request, *requests.Identity, *Problem) {
		return nil, nil, &Problem{Position: place, Message: err.Error(), Hint: words.Hint(err)}
	}
	if manifest.IsReview(doc.Object) {
		r, err := celgate.NewRequestFromReview(a.types, doc.Object)
		if err != nil {
			return fail(c.Place, err)
		}
		return r, nil, nil
	}
	if !c.Asked.Review.isZero() {
		return fail(doc.Position(), errors.New("review is not an AdmissionReview"))
	}
	asked := celgate.As{
		Operation: celgate.Operation(c.Asked.Operation), Subresource: c.Asked.Subresource, User: c.Asked.User,
		Groups: c.Asked.Groups,
		UID:    c.Asked.UID, Extra: c.Asked.Extra,
		DryRun: c.Asked.DryRun, Namespace: c.Asked.Namespace,
	}
	id, err := requests.IdentityOf(ctx, a.cluster, asked, c.Asked.Pod)
	if err != nil {
		return fail(c.Asked.podPlace, err)
	}
	if asked.User != "" || c.Asked.Pod != "" {
		asked.User, asked.Self = "", &id.UserInfo
	}
	olds, problems := c.olds(doc)
	if len(problems) > 0 {
		return nil, nil, problems[0]
	}
	object, err := applyPatches(doc.Object, c.Asked.Patches)
	if err != nil {
		return fail(c.Place, err)
	}
	if len(olds) > 0 {
		before, err := state.New(a.types)
		if err != nil {
			return fail(c.Place, err)
		}
		for _, old := range olds {
			if old, err = applyPatches(old, c.Asked.OldPatches); err != nil {
				return fail(c.Place, err)
			}
			if to, _, err := a.types.Target(tree.Object(old).Kind(), asked.Subresource); err == nil {
				old = to.WithNamespace(old, asked.Namespace)
			}
			if before, err = before.With(store(old, a.types)); err != nil {
				return fail(c.Asked.Old.place(c), err)
			}
		}
		asked.Old = before.Get
	}
	r, err := celgate.NewRequest(ctx, a.types, a.cluster, object, asked)
	if err != nil {
		return fail(c.Place, err)
	}
	r.UID = requests.UID(doc, r)
	return r, id, nil
}

func (s *Source) place(c *Case) policy.Position {
	if s == nil {
		return c.Place
	}
	return s.Place
}

// olds returns the objects before an update. Without any, oldPatch applied to the object itself.
func (c *Case) olds(doc *manifest.Document) ([]map[string]any, []*Problem) {
	if c.Asked.Old.isZero() {
		if len(c.Asked.OldPatches) > 0 {
			return []map[string]any{doc.Object}, nil
		}
		return nil, nil
	}
	docs, problems := c.Asked.Old.documents()
	var all []map[string]any
	for _, d := range docs {
		all = append(all, d.Object)
	}
	return all, problems
}

// applyPatches applies JSON merge patches (RFC 7386) to a copy.
func applyPatches(object map[string]any, patches []map[string]any) (map[string]any, error) {
	for _, p := range patches {
		next, ok := mergePatch(object, p).(map[string]any)
		if !ok {
			return nil, errors.New("a patch that leaves no object")
		}
		object = next
	}
	return object, nil
}

func mergePatch(v any, patch map[string]any) any {
	m, _ := v.(map[string]any)
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	for k, p := range patch {
		switch p := p.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			m[k] = mergePatch(m[k], p)
		default:
			m[k] = p
		}
	}
	return m
}
