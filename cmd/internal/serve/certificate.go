package serve

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// A keyPair is a certificate in files, reread when they change. Open connections keep the old one.
type keyPair struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]time.Time
	looked  time.Time
}

// lookAgain is the time between two looks at the files.
const lookAgain = time.Second

// load reads the files for the first time.
func (k *keyPair) load() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.read()
}

func (k *keyPair) read() error {
	stamp := k.times()
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		return err
	}
	k.current, k.stamp, k.looked = &pair, stamp, time.Now()
	return nil
}

func (k *keyPair) times() (stamp [2]time.Time) {
	for i, path := range []string{k.cert, k.key} {
		if info, err := os.Stat(path); err == nil {
			stamp[i] = info.ModTime()
		}
	}
	return stamp
}

// get is for tls.Config.GetCertificate. If the files are not a pair, such as while they are being replaced, the last
// pair stays in use.
func (k *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.looked) >= lookAgain {
		k.looked = now
		if k.times() != k.stamp {
			if err := k.read(); err != nil {
				k.log.Error("cannot reload the certificate", "error", err.Error())
			} else {
				k.log.Info("certificate reloaded", "notAfter", k.current.Leaf.NotAfter)
			}
		}
	}
	return k.current, nil
}
