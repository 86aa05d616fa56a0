package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

const (
	pollInterval = time.Second           // of the directory
	settle       = 20 * time.Millisecond // one apply changes several objects
	paramTimeout = 2 * time.Second       // the longest wait of a new set of policies for the params that it names
	retry        = 2 * time.Second

	// lingering is the time for which a policy stays behind the webhook of its previous failurePolicy, too: until the
	// API server is sure to use the new configuration, even if the leader has to be replaced first.
	lingering = 30 * time.Second
)

type engines = atomic.Pointer[celgate.Engine]

// A loader keeps the engines current.
type loader struct {
	Options
	evaluations *webhook.Evaluations
	limits      celgate.Limits // of evaluations, which share their memory

	metrics *metrics
	fights  fights

	all, fail, ignore engines // of all policies, or if the configurations are managed, by failurePolicy

	running   running
	inFlight  *webhook.InFlight
	secret    *secret // nil with a certificate of files
	directory *directory
	folder    *folder // the last valid one; empty without a directory
	world     atomic.Pointer[kube.World]
	current   atomic.Pointer[loaded]
	seal      atomic.Pointer[webhook.Seal]
	withheld  map[policy.Ref]string // reasons, to log each once
	trouble   atomic.Pointer[error] // the reason why the content of the directory is not in force
	unread    atomic.Pointer[error] // files that cannot be read; their last content stays in force
	beat      atomic.Int64          // the last iteration of the loop; 0 before the first

	// configured is set once the API server has celgate's configurations.
	configured atomic.Bool

	again chan struct{}            // signals a change of something that is not watched
	moved map[policy.Ref]time.Time // the last change of failurePolicy of each validating policy
}

// loaded is the set in force.
type loaded struct {
	set      *policy.Set
	types    *schema.Registry
	minor    string
	sources  []kube.Source
	rejected map[policy.Ref]celgate.Rejection
	failing  map[policy.Ref]celgate.Rejection // policies in force that fail because of their imports
	changed  chan struct{}                    // closed when another set is in force
}

const (
	stuck     = 30 * time.Second // a loader that has been silent for so long is not ready
	stuckLong = 2 * time.Minute  // or dead
)

// checkTurning returns an error if the loop has not run for some time; nil if it has, or has not begun.
func (l *loader) checkTurning(limit time.Duration) error {
	last := l.beat.Load()
	if since := time.Since(time.Unix(0, last)); last != 0 && since > limit {
		return fmt.Errorf("the policies have not been checked for changes for %s", since.Round(time.Second))
	}
	return nil
}

// checkReady returns the reason why the server cannot answer with current policies; nil if it can.
func (l *loader) checkReady() error {
	if l.current.Load() == nil {
		return errors.New("policies are not loaded yet")
	}
	if l.Manage && !l.configured.Load() {
		return errors.New("the API server does not have the webhook configurations yet")
	}
	if err := l.checkTurning(stuck); err != nil {
		return err
	}
	if w := l.world.Load(); w != nil {
		return w.CheckSynced()
	}
	return nil
}

// start reads the directory for the first time; an error in it is fatal. Without a cluster it also compiles the
// policies.
func (l *loader) start() error {
	l.folder, l.moved, l.again = &folder{}, map[policy.Ref]time.Time{}, make(chan struct{}, 1)
	if dir := cmp.Or(l.PolicyDir, l.StaticDir); dir != "" {
		l.directory = &directory{path: dir, static: l.StaticDir != "", allowEmpty: l.AllowEmpty, allowSecretParams: l.AllowSecretParams,
			alone: l.Cluster == nil}
		f, err := l.directory.read()
		if err = cmp.Or(err, l.directory.unread); err != nil {
			return err
		}
		if err := l.directory.opens(nil, f); err != nil {
			return err
		}
		l.folder = f
	}
	if l.Cluster != nil {
		return nil
	}
	start := time.Now()
	err := l.build(l.folder)
	l.metrics.load(time.Since(start), err)
	return err
}

// run puts changes in force until the context ends.
func (l *loader) run(ctx context.Context) {
	var changes <-chan struct{} // nil without a cluster
	var writing chan struct{}
	if l.Cluster != nil {
		world := l.watch(ctx)
		if world == nil {
			return
		}
		l.world.Store(world)
		changes = world.Changes()
		if err := l.readSeal(ctx); err != nil { // before the first load, so that nothing leaves force for a moment
			l.Log.Error("cannot read the key of the seal", "error", err.Error())
		}
		l.reload(ctx, false)
		writing = make(chan struct{})
		go func() {
			defer close(writing)
			var both sync.WaitGroup
			both.Go(func() { l.keepSeal(ctx) })
			both.Go(func() { l.awaitConfigurations(ctx) })
			both.Go(func() { l.report(ctx) })
			both.Go(func() { l.write(ctx) })
			both.Wait()
		}()
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		l.beat.Store(time.Now().UnixNano())
		directoryChanged := false
		select {
		case <-ctx.Done():
			if writing != nil {
				<-writing
			}
			return
		case <-changes:
			time.Sleep(settle)
		case <-l.again:
		case <-tick.C:
			// A set that could not be compiled is tried again, because the cause may be in the cluster.
			if directoryChanged = l.lookAtDirectory(); !directoryChanged && l.current.Load() != nil &&
				!l.hasLingered() {
				continue
			}
		}
		l.reload(ctx, directoryChanged)
	}
}

// watch connects to the cluster, retrying until it succeeds.
func (l *loader) watch(ctx context.Context) *kube.World {
	for {
		world, err := l.Cluster.Watch(ctx)
		if err == nil {
			l.metrics.registry.MustRegister(watches{world})
			if known := world.KnownMinor(); known != world.Minor() {
				l.Log.Warn("using the kinds and CEL of another Kubernetes minor", "server", world.Minor(), "known", known)
			}
			return world
		}
		if ctx.Err() != nil {
			return nil
		}
		l.Log.Error("cannot read the cluster", "error", err.Error())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}

// reload puts the present content of the directory and the cluster in force. If that fails, the last good set stays in
// force.
func (l *loader) reload(ctx context.Context, directoryChanged bool) {
	start := time.Now()
	var unread error
	if directoryChanged {
		var next *folder
		if next, unread = l.directory.read(); unread == nil {
			unread = l.directory.opens(l.folder, next)
		}
		if unread == nil {
			err := l.put(ctx, next)
			l.metrics.load(time.Since(start), err)
			l.directoryTrouble(err, "cannot use the policies, the last set stays in force")
			if err == nil {
				return
			}
			unread = err
		} else {
			l.directoryTrouble(unread, "cannot use the directory of policies, the last set stays in force")
		}
		if l.Cluster == nil {
			l.metrics.load(time.Since(start), unread)
			return
		}
	}
	err := l.put(ctx, l.folder)
	l.metrics.load(time.Since(start), errors.Join(unread, err))
	if err != nil {
		l.Log.Error("cannot use the policies, the last set stays in force", "error", err.Error())
	}
}

// put puts the policies of a folder in force, with those of the cluster.
func (l *loader) put(ctx context.Context, f *folder) error {
	if world := l.world.Load(); world != nil {
		return l.buildIn(ctx, world, f)
	}
	return l.build(f)
}

// directoryTrouble records and logs the reason why the content of the directory is not in force; nil if it is.
func (l *loader) directoryTrouble(err error, message string) {
	if err == nil {
		l.trouble.Store(nil)
		return
	}
	l.trouble.Store(&err)
	l.Log.Error(message, "error", err.Error())
}

// lookAtDirectory reports whether the content of the directory has changed, and logs the files that cannot be read.
func (l *loader) lookAtDirectory() bool {
	if l.directory == nil {
		return false
	}
	changed := l.directory.hasChanged()
	unread := l.directory.unread
	if last := l.unread.Swap(&unread); unread != nil && !changed &&
		(last == nil || *last == nil || (*last).Error() != unread.Error()) {
		l.Log.Error("cannot read files, their last content stays in force", "error", unread.Error())
	}
	return changed
}

// directoryError returns the reason why the content of the directory is not entirely in force; nil if it is.
func (l *loader) directoryError() error {
	var errs []error
	for _, each := range []*error{l.trouble.Load(), l.unread.Load()} {
		if each != nil {
			errs = append(errs, *each)
		}
	}
	return errors.Join(errs...)
}

// buildIn puts the policies of a folder and of the cluster in force. Of two with the same name the folder's wins.
func (l *loader) buildIn(ctx context.Context, world *kube.World, f *folder) error {
	types, err := world.Types()
	if err != nil {
		l.Log.Warn("some kinds are missing or outdated", "error", err.Error())
	}
	sources, set := world.Sources()
	for _, s := range sources {
		if s.Err != nil {
			l.Log.Error("cannot read an object", "resource", s.Resource, "error", s.Err.Error())
		}
	}
	l.withhold(sources, set)
	over := f.set
	if l.Shadow { // native policies are compared, too
		for _, s := range sources {
			if s.Native && !s.Disabled && s.Withheld == nil {
				set.Bindings = append(set.Bindings, s.Binding)
			}
		}
	} else {
		over.Bindings = slices.DeleteFunc(slices.Clone(over.Bindings), world.IsHandedOver)
	}
	set = overlay(over, set)
	if err := world.NativeError(); err != nil {
		l.Log.Warn("cannot read the native policies", "error", err.Error())
	}
	waiting, cancel := context.WithTimeout(ctx, paramTimeout)
	defer cancel()
	if err := world.Follow(waiting, set); err != nil {
		l.Log.Warn("cannot read params", "error", err.Error())
	}
	return l.compile(f, set, sources, celgate.Options{
		KubeVersion: cmp.Or(l.KubeVersion, world.KnownMinor()), Types: types, Cluster: world, WithoutQuirks: true,
		Timed: true, Metered: l.RuleMetrics,
	})
}

// overlay returns over, with the members of under whose names it does not have.
func overlay(over policy.Set, under *policy.Set) *policy.Set {
	set := &policy.Set{Policies: slices.Clone(over.Policies), Bindings: slices.Clone(over.Bindings),
		Libraries: slices.Clone(over.Libraries)}
	for _, l := range under.Libraries {
		if over.Library(l.Ref()) == nil {
			set.Libraries = append(set.Libraries, l)
		}
	}
	for _, p := range under.Policies {
		if over.Policy(p.Ref()) == nil {
			set.Policies = append(set.Policies, p)
		}
	}
	for _, b := range under.Bindings {
		if over.Binding(b.Ref()) == nil {
			set.Bindings = append(set.Bindings, b)
		}
	}
	return set
}

// build puts the policies of a folder in force, with its other objects as the state.
func (l *loader) build(f *folder) error {
	minor := cmp.Or(l.KubeVersion, celgate.Newest)
	types, err := builtin.Registry(minor)
	if err != nil {
		return err
	}
	if types, err = types.WithCustomResources(f.definitions()...); err != nil {
		return err
	}
	objects, err := f.storeObjects(types)
	if err != nil {
		return err
	}
	cluster, err := state.New(types, objects...)
	if err != nil {
		return err
	}
	return l.compile(f, &f.set, nil, celgate.Options{KubeVersion: minor, Types: types, Cluster: alone{cluster},
		WithoutQuirks: true, Timed: true, Metered: l.RuleMetrics})
}

func (f *folder) definitions() []map[string]any {
	return manifest.Trees(manifest.Definitions(f.objects))
}

func (f *folder) storeObjects(types *schema.Registry) ([]map[string]any, error) {
	objects := make([]map[string]any, len(f.objects))
	for i, d := range f.objects {
		object := d.Object
		apiVersion, _ := object["apiVersion"].(string)
		kind, _ := object["kind"].(string)
		var err error
		if objects[i], _, err = prepare.ReadStored(object, types,
			apischema.FromAPIVersionAndKind(apiVersion, kind)); err != nil {
			return nil, fmt.Errorf("%s %s: %w", apiVersion, kind, err)
		}
	}
	return objects, nil
}

// compile puts a set in force. A folder's policy that breaks a rule is an error, which leaves the last set in force; a
// rejected policy of the cluster is left out, because others there do not depend on it.
func (l *loader) compile(f *folder, set *policy.Set, sources []kube.Source, options celgate.Options) error {
	start := time.Now()
	options.Limits, options.Sizes = l.limits, l.Sizes
	l.noteMoved(set)
	replace, rejected, err := l.compileAll(set, options)
	failing := failingOf(replace)
	if err != nil {
		return err
	}
	took := time.Since(start)
	l.metrics.compiling.Observe(took.Seconds())
	var errs []error
	for _, ref := range slices.SortedFunc(maps.Keys(rejected), policy.Ref.Compare) {
		r := rejected[ref]
		if f.has(ref) {
			errs = append(errs, fmt.Errorf("%s: %s", cmp.Or(f.place(r).String(), ref.String()), r.Status.Message))
		} else {
			l.Log.Error("policy rejected", "kind", r.Kind, "policy", r.Name, "error", r.Status.Message)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for ref, r := range failing {
		l.Log.Error("policy fails", "kind", r.Kind, "policy", ref.Name, "error", r.Status.Message)
	}
	force := &policy.Set{ // for the configurations, which leave out the rules of rejected policies
		Libraries: slices.DeleteFunc(slices.Clone(set.Libraries),
			func(l *policy.Library) bool { _, bad := rejected[l.Ref()]; return bad }),
		Policies: slices.DeleteFunc(slices.Clone(set.Policies),
			func(p *policy.Policy) bool { _, bad := rejected[p.Ref()]; return bad }),
		Bindings: slices.DeleteFunc(slices.Clone(set.Bindings),
			func(b *policy.Binding) bool { _, bad := rejected[b.Ref()]; return bad }),
	}
	l.folder = f
	for live, engine := range replace {
		live.Store(engine)
	}
	last := l.current.Swap(&loaded{set: force, types: options.Types, minor: options.KubeVersion, sources: sources,
		rejected: rejected, failing: failing, changed: make(chan struct{})})
	if last != nil {
		close(last.changed)
	}
	l.metrics.policies.WithLabelValues("inforce").Set(float64(len(force.Policies) + len(force.Bindings)))
	l.metrics.policies.WithLabelValues("rejected").Set(float64(len(rejected)))
	l.metrics.count(set, force, rejected)
	level := slog.LevelInfo
	if last != nil && slices.Equal(last.set.Policies, force.Policies) &&
		slices.Equal(last.set.Bindings, force.Bindings) && len(last.rejected) == len(rejected) {
		level = slog.LevelDebug // the cause was a change of kinds, or of native policies
	}
	l.Log.Log(context.Background(), level, "policies in force", "policies", len(force.Policies), "bindings",
		len(force.Bindings), "rejected", len(rejected),
		"took",
		took.String(),
	)
	return nil
}

// compileAll compiles a set for all engines, and returns the rejections. A binding of several policies is in force in
// none of the engines unless all of its policies are: each engine knows only some of them.
func (l *loader) compileAll(set *policy.Set, options celgate.Options) (map[*engines]*celgate.Engine,
	map[policy.Ref]celgate.Rejection, error) {
	made, rejected := map[*engines]*celgate.Engine{}, map[policy.Ref]celgate.Rejection{}
	compile := func(set *policy.Set) error {
		for live, part := range l.parts(set) {
			options.Before = cmp.Or(made[live], live.Load())
			engine, err := celgate.New(part, options)
			if err != nil {
				return err
			}
			made[live] = engine
			for _, r := range engine.Rejections() {
				if p := part.Policy(r.Ref); p == nil || slices.Contains(set.Policies, p) { // not if it only lingers
					rejected[r.Ref] = r
				}
			}
		}
		return nil
	}
	if err := compile(set); err != nil || !l.Manage {
		return made, rejected, err
	}
	whole := &policy.Set{Policies: set.Policies, Libraries: set.Libraries}
	valid := validOf(set, rejected)
	for _, b := range set.Bindings {
		_, bad := rejected[b.Ref()]
		switch errs := b.CheckTogether(valid); {
		case len(b.Policies) == 0 || !bad && len(errs) == 0:
			whole.Bindings = append(whole.Bindings, b)
		case len(errs) > 0 && len(policy.ValidateBindingUpdate(b)) == 0: // an engine knows only some of the policies
			rejected[b.Ref()] = celgate.Rejection{APIVersion: b.APIVersion, Ref: b.Ref(), Status: b.Ref().Invalid(errs),
				Position: b.Position}
		}
	}
	if len(whole.Bindings) == len(set.Bindings) {
		return made, rejected, nil
	}
	return made, rejected, compile(whole)
}

// failingOf returns the policies that are errors for every request.
func failingOf(engines map[*engines]*celgate.Engine) map[policy.Ref]celgate.Rejection {
	failing := map[policy.Ref]celgate.Rejection{}
	for _, e := range engines {
		for _, r := range e.Failing() {
			failing[r.Ref] = r
		}
	}
	return failing
}

// validOf returns the policies of a set that are not rejected.
func validOf(set *policy.Set, rejected map[policy.Ref]celgate.Rejection) map[policy.Ref]*policy.Policy {
	valid := map[policy.Ref]*policy.Policy{}
	for _, p := range set.Policies {
		if _, bad := rejected[p.Ref()]; !bad {
			valid[p.Ref()] = p
		}
	}
	return valid
}

// parts returns the sets of the engines.
func (l *loader) parts(set *policy.Set) map[*engines]*policy.Set {
	if !l.Manage {
		return map[*engines]*policy.Set{&l.all: set}
	}
	return map[*engines]*policy.Set{
		&l.fail:   webhook.Split(set, policy.Fail, l.lingeringPolicies(set, policy.Fail)...),
		&l.ignore: webhook.Split(set, policy.Ignore, l.lingeringPolicies(set, policy.Ignore)...),
	}
}

// noteMoved records the validating policies whose failurePolicy has changed since the last set.
func (l *loader) noteMoved(set *policy.Set) {
	last := map[policy.Ref]policy.FailurePolicy{}
	if current := l.current.Load(); current != nil {
		for _, p := range current.set.Policies {
			if p.Validates() {
				last[p.Ref()] = p.FailurePolicy
			}
		}
	}
	maps.DeleteFunc(l.moved, func(_ policy.Ref, at time.Time) bool { return time.Since(at) >= lingering })
	for _, p := range set.Policies {
		if was, known := last[p.Ref()]; known && was != p.FailurePolicy && p.Validates() {
			l.moved[p.Ref()] = time.Now()
		}
	}
}

// lingeringPolicies returns the validating policies that had this failurePolicy until a moment ago. Without them a
// request could fall between two webhooks: one that no longer has the policy, and one that is not called yet. If both
// are called, the request is denied twice, which does no harm. Mutations move at once, because applying one twice may
// give another result.
func (l *loader) lingeringPolicies(set *policy.Set, fp policy.FailurePolicy) []*policy.Policy {
	var all []*policy.Policy
	for _, p := range set.Policies {
		if _, moved := l.moved[p.Ref()]; !moved || p.FailurePolicy == fp {
			continue
		}
		if judges := p.WithoutMutations(); judges != nil && judges.Validates() {
			all = append(all, judges)
		}
	}
	return all
}

// hasLingered reports whether a policy has lingered long enough.
func (l *loader) hasLingered() bool {
	for _, at := range l.moved {
		if time.Since(at) >= lingering {
			return true
		}
	}
	return false
}

// currentSet returns the set in force.
func (l *loader) currentSet() *policy.Set {
	if current := l.current.Load(); current != nil {
		return current.set
	}
	return &policy.Set{}
}

// place returns the position of the first mistake of a rejected policy or binding.
func (f *folder) place(r celgate.Rejection) policy.Position {
	if r.Status.Details == nil || len(r.Status.Details.Causes) == 0 {
		return r.Position
	}
	mistake := &field.Error{Field: r.Status.Details.Causes[0].Field}
	if p := f.set.Policy(r.Ref); p != nil {
		return p.Locate(mistake)
	}
	if of := f.set.Library(r.Ref); of != nil {
		return of.Locate(mistake)
	}
	if b := f.set.Binding(r.Ref); b != nil {
		return b.Locate(mistake)
	}
	return r.Position
}

// has reports whether the folder has a policy or binding.
func (f *folder) has(ref policy.Ref) bool {
	return f.set.Policy(ref) != nil || f.set.Binding(ref) != nil || f.set.Library(ref) != nil
}
