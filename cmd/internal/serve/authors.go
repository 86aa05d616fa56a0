package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

const (
	sealName   = "celgate-seal" // of the seal; not that of the certificate, which is deleted to get a new authority
	sealMember = "key"
	sealLength = 32
)

// readSeal reads the key of the seal, or makes it if it does not exist yet. Policies with params are not in force
// without it.
func (l *loader) readSeal(ctx context.Context) error {
	store := &kube.Secret{Client: l.Cluster, Namespace: l.namespace(), Name: sealName}
	members, _, err := store.Read(ctx)
	if err == nil && members == nil {
		key := make([]byte, sealLength)
		_, _ = rand.Read(key) // never fails
		members, _, err = store.Create(ctx, map[string][]byte{sealMember: key})
	}
	if err != nil {
		return err
	}
	if len(members[sealMember]) < sealLength {
		return fmt.Errorf("the Secret %s does not have a key %s of at least %d bytes", sealName, sealMember, sealLength)
	}
	l.seal.Store(webhook.NewSeal(members[sealMember]))
	return nil
}

// keepSeal tries to read the key until it succeeds, and then reloads the policies that need it.
func (l *loader) keepSeal(ctx context.Context) {
	for {
		err := l.readSeal(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
		l.Log.Error("policies with params are not in force", "error", fmt.Sprintf("key of the seal: %v", err))
		sleep(ctx, retry)
	}
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// withhold removes from the set: bindings and policies with params whose author is not known to have the right to read
// them, and policies with Secrets as params.
func (l *loader) withhold(sources []kube.Source, set *policy.Set) {
	withheld := map[policy.Ref]string{}
	seal := l.seal.Load()
	for i := range sources {
		s := &sources[i]
		s.Withheld = nil
		switch {
		case s.Err != nil || s.Native && !l.Shadow:
		case s.Policy != nil && !l.AllowSecretParams && webhook.SecretParams(s.Policy.ParamKind):
			s.Withheld = &kube.Condition{Type: "Ready", Reason: kube.SecretParams, Message: webhook.SecretsRefused}
		case !seal.Holds(s.Object, s.Policy, s.Binding):
			s.Withheld = &kube.Condition{Type: "Ready", Reason: kube.AuthorUnknown,
				Message: "written without a call to celgate, so it is not known whether its author may read the params. " +
					"A user with permission to read them can put it in force with: kubectl annotate --overwrite " +
					s.Resource + "." + policy.OwnGroup + " NAME celgate.dev/approved=\"$(date)\"",
			}
		}
		if s.Withheld == nil || s.Disabled {
			continue
		}
		withheld[s.Ref()] = s.Withheld.Reason
		set.Policies = slices.DeleteFunc(set.Policies, func(p *policy.Policy) bool { return p == s.Policy })
		set.Bindings = slices.DeleteFunc(set.Bindings, func(b *policy.Binding) bool { return b == s.Binding })
		if l.withheld[s.Ref()] != s.Withheld.Reason {
			l.Log.Error("not in force", "object", s.Ref().String(), "reason", s.Withheld.Reason)
		}
	}
	l.withheld = withheld
	l.metrics.policies.WithLabelValues("withheld").Set(float64(len(withheld)))
}

// findPolicies returns the candidates for the policy of a binding: of each name the one in the directory, which wins,
// and the one now in the cluster, which may be in force soon. It is an error if there are none.
func (l *loader) findPolicies(ctx context.Context, b *policy.Binding) ([]*policy.Policy, error) {
	world := l.world.Load()
	if world == nil {
		return nil, errors.New("the cluster has not been read yet")
	}
	var policies []*policy.Policy
	for _, ref := range b.PolicyRefs() {
		found := len(policies)
		own, err := world.Find(ctx, ref)
		if err != nil {
			return nil, err
		}
		if own != nil {
			policies = append(policies, own)
		}
		if current := l.current.Load(); current != nil {
			if p := current.set.Policy(ref); p != nil && (own == nil || !sameKind(p.ParamKind, own.ParamKind)) {
				policies = append(policies, p)
			}
		}
		if len(policies) == found {
			return nil, errors.New("not found")
		}
	}
	return policies, nil
}

func sameKind(a, b *policy.ParamKind) bool { return a == b || a != nil && b != nil && *a == *b }
