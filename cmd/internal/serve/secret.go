package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/celgate/celgate/kube"
)

// secretPoll is how long a replica may keep a certificate that the leader has replaced. The old one is good for weeks.
const secretPoll = 10 * time.Second

// A secret is a certificate that the replicas share in a Secret and the leader renews.
type secret struct {
	store *kube.Secret
	hosts []string
	log   *slog.Logger

	current atomic.Pointer[tls.Certificate]
	bundle  atomic.Pointer[[]byte]
	members atomic.Pointer[map[string][]byte] // of the Secret
	version string                            // of the Secret that current is of
}

// start reads the Secret, or makes it if this replica is the first to, and reads it again until the context ends.
func (s *secret) start(ctx context.Context) error {
	if err := s.read(ctx); err != nil {
		return err
	}
	go func() {
		tick := time.NewTicker(secretPoll)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := s.read(ctx); err != nil && ctx.Err() == nil {
					s.log.Error("certificate not read", "error", err.Error())
				}
			}
		}
	}()
	return nil
}

func (s *secret) read(ctx context.Context) error {
	pair, version, err := s.store.Read(ctx)
	if err != nil {
		return err
	}
	if pair == nil {
		if pair, err = newAuthority(time.Now(), s.hosts); err != nil {
			return err
		}
		if pair, version, err = s.store.Create(ctx, pair); err != nil {
			return err
		}
	}
	if version == s.version {
		return nil
	}
	return s.use(pair, version)
}

func (s *secret) use(pair map[string][]byte, version string) error {
	c, err := tls.X509KeyPair(pair[certificate], pair[certificateK])
	if err != nil {
		return err
	}
	bundle := pair[caCertificate]
	s.members.Store(&pair)
	s.bundle.Store(&bundle)
	s.current.Store(&c)
	s.version = version
	s.log.Info("certificate in use", "notAfter", c.Leaf.NotAfter)
	return nil
}

// renew does what is due about the certificate and its authority. Only the leader calls it; other replicas read what it wrote.
func (s *secret) renew(ctx context.Context) error {
	if _, due, err := advance(time.Now(), *s.members.Load(), s.hosts); !due || err != nil {
		return err
	}
	held, version, err := s.store.Read(ctx)
	if err != nil {
		return err
	}
	if held == nil {
		return errors.New("the Secret is gone")
	}
	next, due, err := advance(time.Now(), held, s.hosts)
	if !due || err != nil {
		return err
	}
	return s.store.Update(ctx, next, version)
}

func (s *secret) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current.Load(), nil }
