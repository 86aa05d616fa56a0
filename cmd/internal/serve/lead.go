package serve

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

const (
	// heal is the interval at which everything written is compared again: others may have changed it.
	heal = 30 * time.Second

	// probed is the time until the readiness of a replica is known to its clients.
	probed = 2 * time.Second

	// rolloutPoll is the poll interval while a replica is behind.
	rolloutPoll = time.Second
)

// replicas is the place where all replicas report the policies that they have in force.
func (l *loader) replicas() *kube.Replicas {
	return &kube.Replicas{Client: l.Cluster, Namespace: l.namespace(), Identity: l.Identity}
}

func (l *loader) namespace() string { return cmp.Or(l.Target.Namespace, l.Cluster.Namespace()) }

// report tells the leader which policies this replica has in force, until the context ends. It begins when clients know
// that the replica is ready, so that a policy is not Ready before requests reach a replica that has it.
func (l *loader) report(ctx context.Context) {
	if !l.Manage {
		return
	}
	for !l.configured.Load() && ctx.Err() == nil {
		sleep(ctx, settle)
	}
	sleep(ctx, probed)
	replicas := l.replicas()
	for ctx.Err() == nil {
		var changed chan struct{}
		var fought <-chan struct{}
		wait := min(kube.ReplicaRenewal, l.secret.pace())
		if current := l.current.Load(); current != nil {
			changed = current.changed
			loaded := kube.Loaded{}
			for _, s := range current.sources {
				loaded.Add(s.Object)
			}
			report := kube.Report{Loaded: loaded, Certificate: l.secret.mark()}
			report.Fights, fought = l.fights.list()
			if err := replicas.Report(ctx, report); err != nil && ctx.Err() == nil {
				l.Log.Error("cannot report the policies in force", "error", err.Error())
				wait = retry
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-fought:
		case <-time.After(wait):
		}
	}
	replicas.Leave(context.WithoutCancel(ctx))
}

// awaitConfigurations waits until the API server has celgate's configurations, whichever replica writes them. Before
// that it sends no reviews, and a rollout that waits for readiness should wait for them, too.
func (l *loader) awaitConfigurations(ctx context.Context) {
	for asked := 0; l.Manage && ctx.Err() == nil; asked++ {
		there, err := l.Cluster.HasConfigurations(ctx, cmp.Or(l.Target.Name, "celgate"))
		switch {
		case there && asked > 0:
			sleep(ctx, time.Second) // until the API server uses the configuration that it has just stored
			fallthrough
		case there:
			l.configured.Store(true)
			return
		case err != nil && ctx.Err() == nil:
			l.Log.Error("cannot read the webhook configurations", "error", err.Error())
			sleep(ctx, retry)
		default:
			sleep(ctx, settle)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// write keeps up to date what celgate owns in the cluster, while this replica is the leader.
func (l *loader) write(ctx context.Context) {
	if !l.Manage {
		return
	}
	elect := l.Elect
	if elect == nil {
		elect = func(ctx context.Context, _ Replica, lead func(context.Context)) error { lead(ctx); return nil }
	}
	replica := Replica{Cluster: l.Cluster, Namespace: l.namespace(), Identity: l.Identity, Log: l.Log}
	err := elect(ctx, replica, func(ctx context.Context) {
		l.Log.Info("leading", "identity", l.Identity)
		l.metrics.leader.Set(1)
		defer l.metrics.leader.Set(0)
		replicas, checked := l.replicas(), &typeChecks{}
		for ctx.Err() == nil {
			current := l.current.Load()
			wait := retry
			var changed chan struct{}
			own, fought := l.fights.list()
			if current != nil {
				changed = current.changed
				turns, err := turnsOf(l.fail.Load(), l.ignore.Load())
				if err != nil {
					l.Log.Error("cannot determine the order of mutating policies", "error", err.Error())
				}
				wait = l.writeOnce(ctx, &writing{loaded: current, replicas: replicas, checks: checked, turns: turns,
					shadow: l.Shadow, fights: own})
			}
			select {
			case <-ctx.Done():
			case <-changed:
			case <-fought:
			case <-time.After(wait):
			}
		}
	})
	if err != nil {
		l.Log.Error("cannot elect a leader", "error", err.Error())
	}
}

// A writing is one run of writeOnce.
type writing struct {
	*loaded
	replicas *kube.Replicas
	checks   *typeChecks
	turns    map[policy.Ref]turn
	shadow   bool
	fights   []kube.Fight  // seen by this replica
	all      []kube.Report // of all replicas
	waiting  bool          // some replica does not have everything in force
	unasked  error         // the reason why the configurations are not written; nil: they are written
	reaches  map[*policy.MatchResources]reach
}

// writeOnce writes everything that is out of date, and returns the time until the next run.
func (l *loader) writeOnce(ctx context.Context, w *writing) time.Duration {
	wait := min(heal, l.secret.pace())
	failed := func(what string, err error) bool {
		if err != nil && ctx.Err() == nil {
			wait = min(wait, retry)
			l.Log.Error("cannot write to the cluster", "what", what, "error", err.Error())
		}
		return err != nil
	}
	if l.secret != nil { // a new leader must not write old authorities
		failed("certificate", l.secret.read(ctx))
	}
	mark := l.secret.mark()
	target, err := l.target()
	if err != nil {
		failed("configurations", err) // a configuration that trusts the wrong authority would make every call fail
		return wait
	}
	unknown := "" // the reason why the certificate is not known everywhere
	mutating, validating := webhook.Configurations(w.set, target)
	for _, configuration := range []map[string]any{mutating, validating} {
		if err := l.Cluster.ApplyConfiguration(ctx, configuration); failed(fmt.Sprint(configuration["kind"]), err) {
			w.unasked = err
			unknown = "the webhook configurations cannot be written"
		}
	}
	w.all, err = w.replicas.All(ctx)
	if failed("status", err) {
		unknown = "the replicas cannot be read"
	}
	if l.secret != nil {
		if l.secret.mark() != mark {
			unknown = "it has just changed"
		}
		changed, err := l.secret.renew(ctx, cmp.Or(unknown, w.lackingText(mark)))
		failed("certificate", err)
		if changed {
			wait = min(wait, rolloutPoll)
		}
	}
	for _, s := range w.sources {
		latest, same := l.world.Load().Reread(s)
		if !same {
			continue // its successor reports soon
		}
		latest.Disabled, latest.Native, latest.Withheld = s.Disabled, s.Native, s.Withheld
		failed("status", l.Cluster.WriteStatus(ctx, latest, l.status(w, latest)))
	}
	if w.waiting {
		wait = min(wait, rolloutPoll)
	}
	return wait
}

// lackingText says how many replicas lack a state of the certificate's Secret, or returns "" if all have it.
func (w *writing) lackingText(mark string) string {
	n := 0
	for _, replica := range w.all {
		if replica.Certificate != mark {
			n++
		}
	}
	if n == 0 && len(w.all) > 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d replicas do not have it", n, len(w.all))
}

// target is the address of this server for the API server, and the authorities to trust.
func (l *loader) target() (webhook.Target, error) {
	t := l.Target
	t.Shadow, t.Leases = l.Shadow, l.namespace()
	var err error
	switch {
	case l.secret != nil:
		t.CABundle = l.secret.bundle()
	case l.CA != "":
		t.CABundle, err = os.ReadFile(l.CA)
	}
	return t, err
}
