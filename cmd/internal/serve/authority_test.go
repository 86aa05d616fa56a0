package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/celgate/celgate/cmd/internal/kube"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// years is the rotation of certificates for hosts as it is by default.
func years(hosts []string) rotation {
	return rotation{hosts: hosts, authority: AuthorityLife, certificate: CertificateLife}
}

// A simulated replica keeps the last version of the Secret that it read.
type simulated struct {
	held  map[string][]byte
	clock time.Duration // by which it is wrong

	until time.Time // it reads nothing before
	mute  bool      // nor reports, so other replicas do not know of it
}

// TestRotation runs whole lives of authorities and certificates, with replicas whose clocks are up to an hour wrong and
// which do not read the Secret for a while, with changing leaders and with times in which the configurations cannot be
// written. At every moment, the configurations trust the certificate of every replica, by a clock of an API server that
// is up to an hour wrong.
func TestRotation(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for certificates")
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := years([]string{"celgate.celgate-system.svc"})
			stored, err := r.begin(start)
			if err != nil {
				t.Fatal(err)
			}
			replicas := []*simulated{{clock: -time.Hour}, {}, {clock: time.Hour}}
			for _, one := range replicas {
				one.held = stored
			}
			trusted := stored[caCertificate] // by the configurations
			var blocked time.Time            // until then they cannot be written
			var leader *simulated
			authorities, leaves, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
			step := 5 * time.Hour
			for now := start; now.Before(start.AddDate(10, 0, 0)); now = now.Add(step) {
				if random.IntN(400) == 0 { // shorter than the life of a certificate when the next one is made
					one := replicas[random.IntN(len(replicas))]
					one.until, one.mute = now.Add(time.Duration(random.IntN(25*24))*time.Hour), random.IntN(2) == 0
				}
				if random.IntN(400) == 0 {
					blocked = now.Add(time.Duration(random.IntN(25*24)) * time.Hour)
				}
				known := !now.Before(blocked)
				for _, one := range replicas {
					if !now.Before(one.until) {
						one.held, one.mute = stored, false
					}
				}
				if leader == nil || now.Before(leader.until) || random.IntN(50) == 0 {
					leader = replicas[random.IntN(len(replicas))]
				}
				if !now.Before(leader.until) {
					if known {
						trusted = leader.held[caCertificate]
					}
					for _, one := range replicas {
						known = known && (one.mute || bytes.Equal(one.held[certificate], stored[certificate]) &&
							bytes.Equal(one.held[caCertificate], stored[caCertificate]))
					}
					if stored, _, err = r.advance(now.Add(leader.clock), leader.held, known); err != nil {
						t.Fatal(now, err)
					}
				}
				authorities[string(stored[caKey])], leaves[string(stored[certificate])] = true, true
				if all, err := certificates(stored[caCertificate]); err != nil || len(all) > 2 {
					t.Fatal(now, len(all), "authorities are trusted", err)
				}
				for i, one := range replicas {
					state := string(one.held[certificate]) + string(trusted)
					if seen[state] && now.Sub(start)/step%40 != 0 {
						continue // as at a step before
					}
					seen[state] = true
					for _, wrong := range []time.Duration{-time.Hour, 0, time.Hour} {
						if err := handshake(one.held, trusted, r.hosts[0], now.Add(wrong)); err != nil {
							t.Fatal(now, wrong, i, err)
						}
					}
				}
			}
			if len(authorities) < 6 || len(leaves) < 40 {
				t.Errorf("%d authorities and %d certificates in ten years", len(authorities), len(leaves))
			}
		})
	}
}

// handshake returns the reason why a client that trusts a bundle refuses the certificate of a replica.
func handshake(held map[string][]byte, trusted []byte, host string, now time.Time) error {
	pair, err := tls.X509KeyPair(held[certificate], held[certificateK])
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now})
	return err
}

// TestRotationSteps tests the condition of each step.
func TestRotationSteps(t *testing.T) {
	r := years([]string{"celgate.test"})
	now := start
	held, err := r.begin(now)
	if err != nil {
		t.Fatal(err)
	}
	advance := func(after time.Duration, known bool) bool {
		t.Helper()
		now = now.Add(after)
		next, changed, err := r.advance(now, held, known)
		if err != nil {
			t.Fatal(err)
		}
		held = next
		return changed
	}
	signedBy := func() int { // the place in the bundle
		t.Helper()
		all, err := certificates(held[caCertificate])
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(held[certificate], held[certificateK])
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range all {
			if pair.Leaf.CheckSignatureFrom(c) == nil {
				return i + 1
			}
		}
		return 0
	}
	if advance(time.Hour, true) {
		t.Error("something changes after an hour")
	}
	if !advance(AuthorityLife*2/3, true) || held[nextCertificate] == nil || signedBy() != 1 {
		t.Fatal("no next authority in the last third")
	}
	advance(0, true) // the certificate is due, too
	oldest, err := certificates(held[caCertificate])
	if err != nil || len(oldest) != 2 {
		t.Fatal(oldest, err)
	}
	if advance(time.Hour, true) {
		t.Error("the next authority signs after an hour")
	}
	if advance(trustTime, false) || r.waits(now, held) {
		t.Error("the next authority signs though not everybody knows it")
	}
	if advance(20*24*time.Hour, false) || !r.waits(now, held) {
		t.Error("the next authority signs though not everybody knows it, or nobody is told that it waits")
	}
	if !advance(0, true) || held[nextCertificate] != nil || signedBy() != 1 {
		t.Fatal("the next authority does not sign")
	}
	if all, err := certificates(held[caCertificate]); err != nil || len(all) != 2 || !all[0].Equal(oldest[1]) ||
		!all[1].Equal(oldest[0]) {
		t.Fatal("not both are trusted", err)
	}
	for now.Before(oldest[0].NotAfter) {
		advance(24*time.Hour, true)
		if all, err := certificates(held[caCertificate]); err != nil ||
			len(all) != 2 && now.Before(oldest[0].NotAfter) {
			t.Fatal(now, "the old one is not trusted until it ends", err)
		}
	}
	advance(2*time.Hour, true)
	if all, err := certificates(held[caCertificate]); err != nil || len(all) != 1 {
		t.Error("the old one is trusted after its end", err)
	}
}

// TestRotationLate does not renew anything until all has expired: then the new authority is trusted, whichever replicas
// know it.
func TestRotationLate(t *testing.T) {
	r := years([]string{"celgate.test"})
	held, err := r.begin(start)
	if err != nil {
		t.Fatal(err)
	}
	now := start.Add(AuthorityLife + time.Hour)
	for range 2 {
		if held, _, err = r.advance(now, held, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := handshake(held, held[caCertificate], r.hosts[0], now); err != nil {
		t.Error(err)
	}
}

// TestDue tests one certificate at several times, and for several hosts.
func TestDue(t *testing.T) {
	r := years([]string{"celgate.test"})
	held, err := r.begin(start)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.X509KeyPair(held[certificate], held[certificateK])
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		after time.Duration
		hosts []string
		want  bool
	}{
		{0, r.hosts, false}, {CertificateLife / 2, r.hosts, false}, {CertificateLife * 3 / 4, r.hosts, true},
		{0, []string{"other.svc"}, true},
	} {
		if got := years(test.hosts).isDue(start.Add(test.after), c.Leaf); got != test.want {
			t.Errorf("due after %s for %v: %t", test.after, test.hosts, got)
		}
	}
}

// TestLacking counts replicas with an older state than the leader.
func TestLacking(t *testing.T) {
	for _, test := range []struct {
		marks []string
		want  string
	}{
		{nil, "0 of 0 replicas do not have it"}, {[]string{"new"}, ""}, {[]string{"new", "new"}, ""},
		{[]string{"new", "old", ""}, "2 of 3 replicas do not have it"},
	} {
		w := &writing{}
		for _, mark := range test.marks {
			w.all = append(w.all, kube.Report{Certificate: mark})
		}
		if got := w.lackingText("new"); got != test.want {
			t.Errorf("%q: %q, want %q", test.marks, got, test.want)
		}
	}
}
