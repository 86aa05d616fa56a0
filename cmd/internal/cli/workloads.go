package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/requests"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/workload"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// workloads says whether and how the objects are followed that controllers make of what is asked about.
type workloads struct {
	requests.Workloads
	given []string // as --pods-of
}

func (w *workloads) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.Off, "no-workloads", false, "do not follow workloads to the objects that controllers make of them, down to Pods")
	f.StringArrayVar(&w.given, "pods-of", nil,
		"`KIND.GROUP=PATH` a custom kind whose objects hold the template of Pods at PATH,\n"+
			"as in Rollout.argoproj.io=spec.template; may be repeated",
	)
	f.StringVar(&w.User, "controller-user", "",
		"`USER` the user of all controllers, such as system:kube-controller-manager\n(default: the service account of each)")
}

// check reads the flags.
func (w *workloads) check() error {
	w.PodsOf = map[string]string{}
	for _, given := range w.given {
		kind, path, ok := strings.Cut(given, "=")
		if !ok || kind == "" || path == "" {
			return withHint(&usageError{fmt.Errorf("--pods-of is KIND.GROUP=PATH, not %q", given)},
				"for example Rollout.argoproj.io=spec.template")
		}
		w.PodsOf[kind] = path
	}
	if w.Off && (len(w.given) > 0 || w.User != "") {
		return &usageError{errors.New("--no-workloads with --pods-of or --controller-user")}
	}
	return nil
}

// follow answers for what controllers make of an object that would be stored, and of that. The place of a field of a
// child is that of the template in the manifest that it comes from.
func (d *decider) follow(ctx context.Context, doc *manifest.Document, r *celgate.Request,
	stored map[string]any) []report.Item {
	if !d.workloads.Follows(r, d.world.types, d.engine) {
		return nil
	}
	f := &followed{decider: d, doc: doc, creator: &report.Creator{Kind: r.Kind.Kind, Name: report.NameOf(r)}}
	f.children(ctx, stored, r, generation{place: doc.Place})
	return f.all
}

// followed are the objects that are followed from one manifest.
type followed struct {
	*decider
	doc     *manifest.Document
	creator *report.Creator
	all     []report.Item
}

// A generation is how far objects are from the manifest.
type generation struct {
	number  int
	waiting string // why nothing of it is created now; empty: it is
	place   func(field string) policy.Locator
}

// children answers for the children of an object that a request created.
func (f *followed) children(ctx context.Context, object map[string]any, r *celgate.Request, of generation) {
	if of.number >= requests.MaxDepth {
		return
	}
	for _, c := range f.workloads.Children(object) {
		if len(f.all) >= requests.MaxChildren || ctx.Err() != nil {
			return
		}
		next := generation{of.number + 1, cmp.Or(of.waiting, c.Waiting),
			func(field string) policy.Locator { return of.place(c.ParentPath(field)) }}
		it, stored := f.child(ctx, r, c, next)
		f.all = append(f.all, it)
		if stored != nil {
			f.children(ctx, stored, it.Request, next)
		}
	}
}

// child answers for one child, and returns it as it would be stored, nil if it would not be.
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
