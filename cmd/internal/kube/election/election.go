// Package election makes one of several replicas the leader. It is separate from package kube because client-go's
// election links the typed clients and the scheme of all kinds, which only the program for clusters needs.
package election

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/celgate/celgate/cmd/internal/kube"
)

// The values of kube-controller-manager.
const (
	leaseDuration = 15 * time.Second // others take a Lease that has not been renewed for so long
	renewDeadline = 10 * time.Second // a holder that could not renew for so long gives up
	retryPeriod   = 2 * time.Second
)

// A Candidate is a replica that competes for a Lease.
type Candidate struct {
	Client    *kube.Client
	Namespace string // of the Lease
	Name      string // of the Lease
	Identity  string // of this replica, such as the name of its Pod
	Log       *slog.Logger
}

// Lead runs lead whenever this replica holds the Lease, until ctx ends. The context of lead ends before others may take
// a Lease that was not renewed, and lead has returned before the Lease is released.
func (c *Candidate) Lead(ctx context.Context, lead func(context.Context)) error {
	lease, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, c.Namespace, c.Name,
		resourcelock.ResourceLockConfig{Identity: c.Identity}, c.Client.Config(), renewDeadline)
	for err == nil && ctx.Err() == nil {
		err = c.term(ctx, lease, lead)
	}
	return err
}

// term waits for the Lease and holds it once.
func (c *Candidate) term(ctx context.Context, lease resourcelock.Interface, lead func(context.Context)) error {
	leading, stop := context.WithCancel(ctx)
	defer stop()
	held := &lock{Interface: lease, expiry: time.AfterFunc(leaseDuration, stop)}
	held.expiry.Stop() // until the Lease is held
	defer held.expiry.Stop()
	began := make(chan struct{}, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: held, Name: c.Name, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { began <- struct{}{} },
			OnStoppedLeading: stop,
		},
	})
	if err != nil {
		return err
	}
	logged := klog.NewContext(context.WithoutCancel(ctx), logr.FromSlogHandler(c.Log.Handler()))
	holding, release := context.WithCancel(logged)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(holding)
	}()
	select {
	case <-began:
		lead(leading)
	case <-leading.Done():
	}
	release()
	<-ended
	return nil
}

// A lock ends lead when the Lease was not renewed for too long. The elector alone would do so only after trying to
// release the Lease, which may block until another replica leads.
type lock struct {
	resourcelock.Interface
	expiry *time.Timer
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(func() error { return l.Interface.Create(ctx, record) })
}

func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(func() error { return l.Interface.Update(ctx, record) })
}

func (l *lock) renew(write func() error) error {
	end := time.Now().Add(renewDeadline + retryPeriod) // counted from before the server's own count
	err := write()
	if err == nil {
		l.expiry.Reset(time.Until(end))
	}
	return err
}
