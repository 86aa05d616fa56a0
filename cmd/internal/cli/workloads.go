package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/workload"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// workloads configures whether and how objects that controllers create are evaluated, too.
type workloads struct {
	requests.Workloads
	given []string   // of --pods-of
	found *templates // matches of --pods-of
}

// templates record what --pods-of has matched.
type templates struct {
	mu    sync.Mutex
	kinds map[schema.GroupKind]bool  // the kinds that occur
	seen  map[string]map[string]bool // by named kind, the paths at which its objects have a template
}

// noteKind records the kind of an object.
func (t *templates) noteKind(kind schema.GroupKind) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kinds[kind] = true
}

// notePods records the Pod templates of an object whose kind is named; empty: not named.
func (t *templates) notePods(named string, pods []workload.Child) {
	if t == nil || named == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[named] == nil {
		t.seen[named] = map[string]bool{}
	}
	for _, pod := range pods {
		t.seen[named][pod.Path.String()] = true
	}
}

// conclude prints the values of --pods-of without effect. A kind without any template at its paths is an error; it is
// not if objects of the kind are missing, or a template is at one of several paths only.
func (w *workloads) conclude(c *console) {
	t := w.found
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, given := range w.given {
		name, path, _ := strings.Cut(given, "=")
		isNamed := func(kind schema.GroupKind) bool { return kind.String() == name || kind.Kind == name }
		kinds := slices.Collect(maps.Keys(t.kinds))
		at, met := t.seen[name]
		switch {
		case met && !at[strings.TrimPrefix(path, ".")]:
			if len(at) == 0 {
				c.raise(exitFailed)
			}
			c.say(fmt.Sprintf("--pods-of %s: objects of that kind do not have a Pod template at %s", given, path), "")
		case !slices.ContainsFunc(kinds, isNamed):
			hint := ""
			var names []string
			for _, kind := range kinds {
				names = append(names, kind.String())
			}
			slices.Sort(names)
			if similar := spell.Nearest(name, names, len(name)/3+1); similar != "" {
				hint = "did you mean " + similar + "?"
			}
			c.say("--pods-of "+given+": there are no objects of that kind", hint)
		}
	}
}

func (w *workloads) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.Off, "no-workloads", false, "do not evaluate the objects that controllers create for workloads,\ndown to Pods")
	f.StringArrayVar(&w.given, "pods-of", nil,
		"`KIND.GROUP=PATH` a custom kind whose objects have Pod templates at PATH, such as\n"+
			"Rollout.argoproj.io=spec.template, or in lists and maps\n"+
			"JobSet.example.com=spec.jobs[*].template; may be repeated, also for\none kind",
	)
	f.StringVar(&w.User, "controller-user", "",
		"`USER` the user of all controllers, such as system:kube-controller-manager\n(default: the service account of each)")
}

// check parses the flags.
func (w *workloads) check() error {
	w.PodsOf = requests.PodsOf{}
	for _, given := range w.given {
		kind, path, ok := strings.Cut(given, "=")
		if !ok || kind == "" || path == "" {
			return withHint(&usageError{fmt.Errorf("--pods-of is KIND.GROUP=PATH, not %q", given)},
				"for example Rollout.argoproj.io=spec.template")
		}
		if err := w.PodsOf.Add(kind, path); err != nil {
			return &usageError{fmt.Errorf("--pods-of %s: %w", given, err)}
		}
	}
	if w.Off && (len(w.given) > 0 || w.User != "") {
		return &usageError{errors.New("--no-workloads with --pods-of or --controller-user")}
	}
	if w.found = nil; len(w.given) > 0 {
		w.found = &templates{kinds: map[schema.GroupKind]bool{}, seen: map[string]map[string]bool{}}
	}
	return nil
}

// follow answers for the objects that controllers create from an object that would be stored, and from these in turn. A
// field of a child has the position of the template in the manifest. The error is a [requests.NoTemplateError].
func (d *decider) follow(ctx context.Context, doc *manifest.Document, r *celgate.Request,
	stored map[string]any) ([]report.Item, error) {
	if !d.workloads.Follows(r, d.world.types, d.engine) {
		return nil, nil
	}
	children, err := d.workloads.Children(stored)
	_, named := d.workloads.PathsOf(tree.Object(stored).Kind())
	d.templates.notePods(named, children)
	if err != nil {
		return nil, err
	}
	f := &followed{decider: d, doc: doc, creator: &report.Creator{Kind: r.Kind.Kind, Name: report.NameOf(r)}}
	f.answer(ctx, children, r, generation{place: doc.Place})
	return f.all, nil
}

// concludeWorkloads prints the values of --pods-of without effect, if a policy may match Pods.
func (d *decider) concludeWorkloads(c *console, w *workloads) {
	if requests.MayMatchChildren(d.world.types, d.engine) {
		w.conclude(c)
	}
}

// unfollowedNote says that the Pods of an object are not evaluated.
func unfollowedNote(err error) string { return "its Pods are not evaluated: " + err.Error() }

// followed collects the objects that are followed from one manifest.
type followed struct {
	*decider
	doc     *manifest.Document
	creator *report.Creator
	all     []report.Item
}

// A generation is the distance of objects from the manifest.
type generation struct {
	waiting string // the reason why they are not created now; empty: they are
	place   func(field string) policy.Locator
}

// answer answers for the children of an object that a request created, and for their children.
func (f *followed) answer(ctx context.Context, children []workload.Child, r *celgate.Request, of generation) {
	for _, c := range children {
		if ctx.Err() != nil {
			return
		}
		next := generation{cmp.Or(of.waiting, c.Waiting),
			func(field string) policy.Locator { return of.place(c.ParentPath(field)) }}
		it, stored := f.child(ctx, r, c, next)
		f.all = append(f.all, it)
		if stored != nil {
			more, _ := f.workloads.Children(stored) // a child has a built-in kind
			f.answer(ctx, more, it.Request, next)
		}
	}
}

// child answers for one child, and returns it as it would be stored, or nil if it would not be stored.
func (f *followed) child(ctx context.Context, parent *celgate.Request, c workload.Child, at generation) (report.Item,
	map[string]any) {
	kind := tree.Object(c.Object).Kind()
	it := answer{doc: f.doc, Item: report.Item{Place: f.doc.Position(), Kind: kind, Name: nameOf(c.Object),
		CreatedBy: f.creator}}
	if c.Template != "" {
		it.Place = at.place("spec").Locate(0)
	}
	request, err := f.workloads.ChildRequest(c, parent, f.world.types)
	if err != nil {
		it.Failure = &report.Failure{Message: err.Error()}
		return it.Item, nil
	}
	stored := f.decideAbout(ctx, &it, request, at.place)
	if at.waiting != "" && it.Decision != nil {
		it.Decision.Notes = append(it.Decision.Notes, celgate.Note{Message: "not created as long as " + at.waiting})
	}
	return it.Item, stored
}
