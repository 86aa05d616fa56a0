package serve

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/kube"
	"github.com/celgate/celgate/webhook"
)

// heal is how often what is written is written again, though nothing has changed here: others may have changed it.
const heal = 30 * time.Second

// write writes to the cluster what celgate owns there, while this replica is the leader.
func (l *loader) write(ctx context.Context) {
	if !l.Manage {
		return
	}
	lease := &kube.Lease{Client: l.Cluster, Namespace: cmp.Or(l.Target.Namespace, l.Cluster.Namespace()), Name: "celgate", Identity: l.Identity}
	lease.Lead(ctx, func(ctx context.Context) {
		l.Log.Info("leading", "identity", l.Identity)
		l.metrics.leader.Set(1)
		defer l.metrics.leader.Set(0)
		for ctx.Err() == nil {
			current := l.current.Load()
			wait := heal
			if current == nil || !l.writeOnce(ctx, current) {
				wait = retry
			}
			var changed chan struct{}
			if current != nil {
				changed = current.changed
			}
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(wait):
			}
		}
	})
}

// writeOnce reports whether everything is written.
func (l *loader) writeOnce(ctx context.Context, current *loaded) bool {
	good := true
	failed := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			good = false
			l.Log.Error("not written", "what", what, "error", err.Error())
		}
	}
	if l.secret != nil {
		failed("certificate", l.secret.renew(ctx))
	}
	target, err := l.target()
	if err != nil {
		failed("configurations", err) // with an authority that is not the right one, nobody could be asked
		return false
	}
	mutating, validating := webhook.Configurations(current.set, target)
	failed("MutatingWebhookConfiguration", l.Cluster.ApplyConfiguration(ctx, mutating))
	failed("ValidatingWebhookConfiguration", l.Cluster.ApplyConfiguration(ctx, validating))
	for _, s := range current.sources {
		s, same := l.world.Load().Latest(s)
		if !same {
			continue // what has become of its successor is said soon
		}
		failed("status", l.Cluster.WriteStatus(ctx, s, l.conditions(current, s)...))
	}
	return good
}

// target is where the API server finds this server, and whom it is to trust.
func (l *loader) target() (webhook.Target, error) {
	t := l.Target
	var err error
	switch {
	case l.secret != nil:
		t.CABundle = *l.secret.bundle.Load()
	case l.CA != "":
		t.CABundle, err = os.ReadFile(l.CA)
	}
	return t, err
}

// conditions say what has become of a policy or binding.
func (l *loader) conditions(current *loaded, s kube.Source) []kube.Condition {
	compiled := kube.Condition{Type: "Compiled", True: true, Reason: "Compiled"}
	id := ""
	switch {
	case s.Err != nil:
		compiled = kube.Condition{Type: "Compiled", Reason: "Invalid", Message: s.Err.Error()}
	case s.Policy != nil:
		id = string(s.Policy.Kind) + " " + s.Policy.Name
	default:
		id = string(s.Binding.Kind) + "Binding " + s.Binding.Name
	}
	if r, bad := current.rejected[id]; bad {
		compiled = kube.Condition{Type: "Compiled", Reason: "Invalid", Message: r.Status.Message}
	}
	conditions := []kube.Condition{compiled}
	if s.Policy == nil || !compiled.True {
		return conditions
	}
	if p := s.Policy.ParamKind; p != nil {
		readable := kube.Condition{Type: "ParamsReadable", True: true, Reason: "Watched"}
		if err := l.world.Load().ParamError(apischema.FromAPIVersionAndKind(p.APIVersion, p.Kind)); err != nil {
			readable = kube.Condition{Type: "ParamsReadable", Reason: "Unreadable", Message: fmt.Sprintf(
				"%v; grant get, list and watch with a ClusterRole labelled policy.celgate.dev/aggregate-to-params: \"true\"", err)}
		}
		conditions = append(conditions, readable)
	}
	return conditions
}
