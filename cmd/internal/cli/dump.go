package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/plugins"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A dump is objects in files. They are read twice: first for everything that policies read besides the objects, then
// for the objects.
type dump struct {
	*audit
	paths      []string
	spooled    string // the file with the content of standard input; empty: not read
	count      int
	namespaces map[string]bool // of objects
	loader     *manifest.Loader
}

// prepare reads everything that policies read besides the objects, and the policies if they are not given.
func (d *dump) prepare(_ context.Context, loader *manifest.Loader) (sources, error) {
	from := sources{version: d.kubeVersion, workloads: &d.workloads.Workloads}
	sampled := map[schema.GroupVersionKind]bool{}
	d.loader, d.paths, d.namespaces = loader, slices.Clone(d.state), map[string]bool{}
	from.inline = d.read(loader, d.policies)
	bundle := manifest.NewBundle(from.inline...)
	if len(d.policies) > 0 && len(bundle.Set.Policies)+len(bundle.Problems) == 0 {
		return from, noPoliciesError(d.policies, nil)
	}
	if err := d.spool(); err != nil {
		return from, err
	}
	w := &world{set: bundle.Set}
	if len(d.policies) == 0 { // only a complete set of policies tells which objects are params
		for doc := range d.documents(true) {
			if policy.IsRecognised(doc.Object) {
				from.inline = append(from.inline, doc)
			}
		}
		w.set = manifest.NewBundle(from.inline...).Set
	}
	shared := w.findShared()
	for doc := range d.documents(len(d.policies) > 0) {
		d.count++
		if kind := tree.Object(doc.Object).Kind(); !sampled[kind] && from.takesPlain(kind) {
			sampled[kind] = true
			from.samples = append(from.samples, doc)
		}
		if namespace := tree.Object(doc.Object).Namespace(); namespace != "" {
			d.namespaces[namespace] = true
		}
		if shared(doc.Object) || isAround(doc.Object) || d.asked.rests(doc.Object) ||
			len(manifest.Definitions([]*manifest.Document{doc})) > 0 {
			from.inlineState = append(from.inlineState, doc)
		}
	}
	return from, nil
}

// isAround reports whether parts of a server other than policies read an object: its admission plugins, or the calls of
// webhooks.
func isAround(object map[string]any) bool {
	kind := tree.Object(object).Kind().GroupKind()
	return plugins.LooksAt(kind) ||
		kind.Group == "admissionregistration.k8s.io" && strings.HasSuffix(kind.Kind, "WebhookConfiguration")
}

// rests reports whether an object may affect the identity of the user of requests.
func (a *asked) rests(object map[string]any) bool {
	switch kind := tree.Object(object).Kind(); {
	case !a.knowsUser() || kind.Group != "":
		return false
	case kind.Kind == "ServiceAccount":
		return a.pod != "" || strings.HasPrefix(a.user, "system:serviceaccount:") &&
			strings.HasSuffix(a.user, ":"+tree.Object(object).Name())
	case kind.Kind == "Pod":
		return a.pod == nameOf(object)
	default:
		return a.pod != "" && kind.Kind == "Node"
	}
}

// spool writes standard input to a file, because it is read twice.
func (d *dump) spool() error {
	i := slices.Index(d.paths, "-")
	if i < 0 {
		return nil
	}
	file, err := os.CreateTemp("", "celgate-audit-*.yaml")
	if err != nil {
		return err
	}
	d.spooled = file.Name()
	d.paths[i] = d.spooled
	_, err = io.Copy(file, d.stdin)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// close removes that file.
func (d *dump) close() {
	if d.spooled != "" {
		_ = os.Remove(d.spooled) // the operating system cleans up its temporary files
	}
}

// documents yields the documents of the files, and prints problems if say is set.
func (d *dump) documents(say bool) iter.Seq[*manifest.Document] {
	return func(yield func(*manifest.Document) bool) {
		for doc, problem := range d.loader.Documents(d.paths...) {
			if problem == nil {
				if d.spooled != "" && doc.Source.File == d.spooled {
					doc.Source.File = "<stdin>"
				}
				if !yield(doc) {
					return
				}
				continue
			}
			if !say {
				continue
			}
			if !problem.Warning {
				d.raise(exitFailed)
			}
			d.say(problem.Error(), "")
		}
	}
}

func (d *dump) total() int { return d.count }

// subjects yields the objects.
func (d *dump) subjects(ctx context.Context, of *auditor) iter.Seq[subjectOf] {
	return func(yield func(subjectOf) bool) {
		for doc := range d.documents(false) {
			if isReview(doc.Object) || of.mine != nil && !of.mine[of.namespaceOf(doc.Object)] {
				continue
			}
			if ctx.Err() != nil || !yield(subjectOf{doc: doc}) {
				return
			}
		}
	}
}

func (d *dump) sizes(_ context.Context, of *auditor) (map[string]int, error) {
	sizes := map[string]int{}
	for doc := range d.documents(false) {
		if !isReview(doc.Object) {
			sizes[of.namespaceOf(doc.Object)]++
		}
	}
	return sizes, nil
}

// assumeNamespaces adds the namespaces of objects that are not given.
func (d *dump) assumeNamespaces(ctx context.Context, w *world) error {
	missing := map[string]bool{}
	for name := range d.namespaces {
		known, err := w.cluster.Get(ctx, namespaceKind, "", name)
		if err != nil {
			return err
		}
		if known == nil {
			missing[name] = true
		}
	}
	if err := w.assume(missing); err != nil {
		return err
	}
	if names := slices.Sorted(maps.Keys(missing)); len(names) > 0 && newNotes(&w.set, w, &d.asked).namespaces {
		d.say(fmt.Sprintf("namespaces that are not given are assumed to exist without labels of their own: %s",
			listFew(names)), "")
	}
	return nil
}
