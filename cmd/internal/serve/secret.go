package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/celgate/celgate/cmd/internal/kube"
)

// secretPoll is the longest time for which a replica keeps a certificate that the leader has replaced. The old one is
// valid for weeks.
const secretPoll = 10 * time.Second

// A secret is the certificate that the replicas share in a Secret and the leader renews. Nil means a certificate in
// files.
type secret struct {
	store    *kube.Secret
	rotation rotation
	log      *slog.Logger

	current atomic.Pointer[held]
	reading sync.Mutex
}

// held is a state of the Secret.
type held struct {
	version     string
	members     map[string][]byte
	certificate *tls.Certificate
}

// start reads the Secret, or makes it if it does not exist yet, and rereads it until the context ends.
func (s *secret) start(ctx context.Context) error {
	if err := s.read(ctx); err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			sleep(ctx, min(secretPoll, s.pace()))
			if err := s.read(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("cannot read the certificate", "error", err.Error())
			}
		}
	}()
	return nil
}

func (s *secret) read(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	members, version, err := s.store.Read(ctx)
	if err != nil {
		return err
	}
	if members == nil {
		if members, err = s.rotation.begin(time.Now()); err != nil {
			return err
		}
		if members, version, err = s.store.Create(ctx, members); err != nil {
			return err
		}
	}
	if now := s.current.Load(); now != nil && now.version == version {
		return nil
	}
	c, err := tls.X509KeyPair(members[certificate], members[certificateK])
	if err != nil {
		return err
	}
	s.current.Store(&held{version, members, &c})
	s.log.Info("certificate in use", "notAfter", c.Leaf.NotAfter)
	return nil
}

// renew makes the next step of the rotation if it is due, and reports whether it did. Only the leader calls it; the
// other replicas read the result. unknown is the reason why not every replica has the present content; empty if all
// have it.
func (s *secret) renew(ctx context.Context, unknown string) (bool, error) {
	now, current := time.Now(), s.current.Load()
	if s.rotation.waits(now, current.members) && unknown != "" {
		s.log.Error("cannot use the next authority yet", "reason", unknown)
	}
	next, due, err := s.rotation.advance(now, current.members, unknown == "")
	if !due || err != nil {
		return false, err
	}
	if err := s.store.Update(ctx, next, current.version); err != nil {
		return false, err
	}
	return true, s.read(ctx)
}

// bundle returns the authorities to trust.
func (s *secret) bundle() []byte { return s.current.Load().members[caCertificate] }

// mark identifies a state of the certificate and the authorities.
func (s *secret) mark() string {
	if s == nil {
		return ""
	}
	members, sum := s.current.Load().members, sha256.New()
	sum.Write(members[caCertificate])
	sum.Write(members[certificate])
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// pace is the time until the next look at the certificate.
func (s *secret) pace() time.Duration {
	if s == nil {
		return time.Hour
	}
	return s.rotation.certificate / 20
}

func (s *secret) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.current.Load().certificate, nil
}
