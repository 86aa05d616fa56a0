package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/workload"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

// workloads says whether and how the objects are followed that controllers make of what is asked about.
type workloads struct {
	off    bool
	user   string            // of all controllers; empty: each has a service account
	podsOf map[string]string // KIND.GROUP of further kinds to the path of their pod template
	given  []string          // as --pods-of
}

func (w *workloads) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.off, "no-workloads", false, "do not follow workloads to the objects that controllers make of them, down to Pods")
	f.StringArrayVar(&w.given, "pods-of", nil, "`KIND.GROUP=PATH` a custom kind whose objects hold the template of Pods at PATH,\n"+
		"as in Rollout.argoproj.io=spec.template; may be repeated")
	f.StringVar(&w.user, "controller-user", "", "`USER` the user of all controllers, such as system:kube-controller-manager\n(default: the service account of each)")
}

// check reads the flags.
func (w *workloads) check() error {
	w.podsOf = map[string]string{}
	for _, given := range w.given {
		kind, path, ok := strings.Cut(given, "=")
		if !ok || kind == "" || path == "" {
			return withHint(&usageError{fmt.Errorf("--pods-of is KIND.GROUP=PATH, not %q", given)}, "for example Rollout.argoproj.io=spec.template")
		}
		w.podsOf[kind] = path
	}
	if w.off && (len(w.given) > 0 || w.user != "") {
		return &usageError{errors.New("--no-workloads with --pods-of or --controller-user")}
	}
	return nil
}

// children are what the controller of a stored object makes of it.
func (w *workloads) children(object map[string]any) []workload.Child {
	if children := workload.Children(object); len(children) > 0 {
		return children
	}
	kind := kindOf(object).GroupKind()
	for _, name := range []string{kind.String(), kind.Kind} {
		if path := w.podsOf[name]; path != "" {
			if child, ok := workload.PodOf(object, path); ok {
				return []workload.Child{child}
			}
		}
	}
	return nil
}

// requester is who sends the request that creates a child.
func (w *workloads) requester(c workload.Child, asked celgate.UserInfo) celgate.UserInfo {
	switch name := w.user; {
	case name != "":
		return celgate.UserInfo{Username: name, Groups: state.Groups(name, nil)}
	case c.Controller == "":
		return asked
	}
	name := "system:serviceaccount:kube-system:" + c.Controller
	return celgate.UserInfo{Username: name, Groups: state.Groups(name, nil)}
}

// maxChildren bounds how many objects are followed from one manifest, and maxDepth how far.
const (
	maxChildren = 64
	maxDepth    = 4
)

// follow answers for what controllers make of an object that would be stored, and of that. The place of a field of a child is that
// of the template in the manifest that it comes from.
func (d *decider) follow(ctx context.Context, doc *manifest.Document, r *celgate.Request, stored map[string]any) []report.Item {
	if d.workloads == nil || d.workloads.off || !d.mayMatchChildren() || r.SubResource != "" || r.Operation != celgate.Create && r.Operation != celgate.Update {
		return nil
	}
	f := &followed{decider: d, doc: doc, creator: &report.Creator{Kind: r.Kind.Kind, Name: report.NameOf(r)}}
	f.children(ctx, stored, r, generation{place: doc.Place})
	return f.all
}

// made are the kinds of objects that controllers make.
var made = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
}

// mayMatchChildren reports whether a policy is for anything that controllers make.
func (d *decider) mayMatchChildren() bool {
	return slices.ContainsFunc(made, func(kind schema.GroupVersionKind) bool {
		r := d.world.types.ResourceFor(kind)
		return r != nil && d.engine.MayMatch(r.GroupVersionResource, "", celgate.Create)
	})
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
	if of.number >= maxDepth {
		return
	}
	for _, c := range f.workloads.children(object) {
		if len(f.all) >= maxChildren || ctx.Err() != nil {
			return
		}
		next := generation{of.number + 1, cmp.Or(of.waiting, c.Waiting), func(field string) policy.Locator { return of.place(c.ParentPath(field)) }}
		it, stored := f.child(ctx, r, c, next)
		f.all = append(f.all, it)
		if stored != nil {
			f.children(ctx, stored, it.Request, next)
		}
	}
}

// child answers for one child, and returns it as it would be stored, nil if it would not be.
func (f *followed) child(ctx context.Context, parent *celgate.Request, c workload.Child, at generation) (report.Item, map[string]any) {
	kind := kindOf(c.Object)
	it := answer{doc: f.doc, Item: report.Item{Place: f.doc.Position(), Kind: kind, Name: nameOf(c.Object), CreatedBy: f.creator}}
	if c.Template != "" {
		it.Place = at.place("spec").Locate(0)
	}
	resource := f.world.types.ResourceFor(kind)
	if resource == nil {
		it.Failure = &report.Failure{Message: "nothing is known about the kind " + kind.String()}
		return it.Item, nil
	}
	request := &celgate.Request{
		Kind: kind, Resource: resource.GroupVersionResource, Name: metadataOf(c.Object, "name"), Namespace: parent.Namespace,
		Operation: celgate.Create, DryRun: parent.DryRun, UserInfo: f.workloads.requester(c, parent.UserInfo), Object: c.Object,
		Options: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
		UID:     uuid.NewSHA1(uuid.NameSpaceURL, []byte(parent.UID+"\n"+kind.String()+"\n"+c.Template)).String(),
	}
	stored := f.decideAbout(ctx, &it, request, at.place)
	if at.waiting != "" && it.Decision != nil {
		it.Decision.Notes = append(it.Decision.Notes, celgate.Note{Message: "not created as long as " + at.waiting})
	}
	return it.Item, stored
}
