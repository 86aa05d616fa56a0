// Package server runs a real kube-apiserver with etcd on loopback, to get its answers.
//
// Both programs are built from Go modules and cached; nothing else is installed. A Server lives in a temporary folder.
// Its processes end when the caller stops it or is killed, and its files are removed when the caller stops it.
package server

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options are the settings of a Server. The corpus is recorded with the zero value.
type Options struct {
	AuditLevel string // of the audit log; empty: Metadata
	// Minor selects another kube-apiserver, such as "1.33". [Build] describes how it is built.
	Minor string

	// Plugins are in-tree admission plugins to leave on though they are in [Disturbing].
	Plugins []string

	// Disabled are in-tree admission plugins to turn off though they are not in [Disturbing].
	Disabled []string

	// Args are further flags of kube-apiserver.
	Args []string
}

// Disturbing are the admission plugins of kube-apiserver that are on by default and change objects or refuse requests
// for reasons other than admission policies. They are turned off, so that an object shows the effects of policies.
// NamespaceLifecycle stays on: without it, objects could be created in namespaces that do not exist.
var Disturbing = []string{
	"CertificateApproval",
	"CertificateSigning",
	"CertificateSubjectRestriction",
	"ClusterTrustBundleAttest",
	"DefaultIngressClass",
	"DefaultStorageClass",
	"DefaultTolerationSeconds",
	"LimitRanger",
	"NodeDeclaredFeatureValidator",
	"PersistentVolumeClaimResize",
	"PodGroupProtection",
	"PodResizeValidator",
	"PodSecurity",
	"PodTopologyLabels",
	"Priority",
	"ResourceQuota",
	"RuntimeClass",
	"ServiceAccount",
	"StorageObjectInUseProtection",
	"TaintNodesByCondition",
}

// A Server is a running kube-apiserver. Its user is in system:masters.
type Server struct {
	URL        string // https://127.0.0.1:…
	Etcd       string // http://127.0.0.1:…, where the server keeps its objects
	Token      string // bearer token of the user
	Kubeconfig string // path of a file for kubectl
	AuditLog   string // path of the audit log: one event a line
	Folder     string // everything else, with the output of both programs

	Client *http.Client // trusts the server; see Do, which also sends the token

	auditLevel      string
	etcd, apiserver *process
	controllers     *process // nil: none
}

// Start builds the programs if they are missing, starts both and waits until the server is ready.
func Start(ctx context.Context, options Options) (*Server, error) {
	etcdPath, apiserverPath, err := Build(ctx, options.Minor)
	if err != nil {
		return nil, err
	}
	// Another program may take a free port before the server listens on it, so the start is tried again.
	for try := range 3 {
		var s *Server
		if s, err = start(ctx, options, etcdPath, apiserverPath); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
		err = fmt.Errorf("try %d: %w", try+1, err)
	}
	return nil, err
}

func start(ctx context.Context, options Options, etcdPath, apiserverPath string) (_ *Server, err error) {
	folder, err := os.MkdirTemp("", "celgate-server-")
	if err != nil {
		return nil, err
	}
	s := &Server{
		Folder:     folder,
		Token:      rand.Text(),
		Kubeconfig: filepath.Join(folder, "kubeconfig"),
		AuditLog:   filepath.Join(folder, "audit.log"),
		auditLevel: options.AuditLevel,
	}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	etcdURL, peerURL := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	s.URL = "https://127.0.0.1:" + ports[2]
	if err := s.writeFiles(); err != nil {
		return nil, err
	}

	s.Etcd = etcdURL
	s.etcd, err = startProcess(folder, etcdPath,
		"--name=etcd", "--data-dir="+filepath.Join(folder, "etcd"), "--log-level=warn", "--unsafe-no-fsync",
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=etcd="+peerURL)
	if err != nil {
		return nil, err
	}
	disabled := slices.DeleteFunc(slices.Concat(Disturbing, options.Disabled), func(name string) bool {
		return slices.Contains(options.Plugins, name) || lacks(options.Minor, name)
	})
	key := filepath.Join(folder, "service-account.key")
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1", "--secure-port=" + ports[2], "--cert-dir=" + filepath.Join(folder, "cert"),
		"--token-auth-file=" + filepath.Join(folder, "tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--endpoint-reconciler-type=none",
		"--profiling=false",
		"--disable-admission-plugins=" + strings.Join(disabled, ","),
		"--audit-policy-file=" + filepath.Join(folder, "audit-policy.yaml"),
		"--audit-log-path=" + s.AuditLog, "--audit-log-mode=blocking",
	}
	s.apiserver, err = startProcess(folder, apiserverPath, append(args, options.Args...)...)
	if err != nil {
		return nil, err
	}
	return s, s.waitReady(ctx)
}

// Stop ends all programs and removes the folder.
func (s *Server) Stop() error {
	s.controllers.stop()
	s.apiserver.stop()
	s.etcd.stop()
	return os.RemoveAll(s.Folder)
}

// Wait returns when the context ends, or with an error when a program does.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.etcd.done:
		return s.etcd.exitError()
	case <-s.apiserver.done:
		return s.apiserver.exitError()
	}
}

// RestartAPIServer kills kube-apiserver and starts it again. It returns when that is ready.
func (s *Server) RestartAPIServer(ctx context.Context) (err error) {
	s.apiserver.stop()
	if s.apiserver, err = s.apiserver.restart(); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// StopEtcd kills etcd for a time, starts it again and returns when the API server is ready.
func (s *Server) StopEtcd(ctx context.Context, d time.Duration) (err error) {
	s.etcd.stop()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	if s.etcd, err = s.etcd.restart(); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// Freeze suspends a process, so that its connections stay open without answers, and resumes it after a duration.
func Freeze(p *os.Process, d time.Duration) error { return freeze(p, d) }

// FreezeAPIServer freezes kube-apiserver for a time and returns when it is ready.
func (s *Server) FreezeAPIServer(ctx context.Context, d time.Duration) error {
	if err := freeze(s.apiserver.cmd.Process, d); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// FreezeEtcd does so with etcd.
func (s *Server) FreezeEtcd(ctx context.Context, d time.Duration) error {
	if err := freeze(s.etcd.cmd.Process, d); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

func (s *Server) writeFiles() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return err
	}
	uid := make([]byte, 8)
	_, _ = rand.Read(uid) // never fails
	for name, content := range map[string]string{
		"service-account.key": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"tokens.csv":          fmt.Sprintf("%s,admin,%s,system:masters\n", s.Token, hex.EncodeToString(uid)),
		"audit-policy.yaml": `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: ` + cmp.Or(s.auditLevel, "Metadata") + `
`,
		"kubeconfig": s.KubeconfigAs("", "default"),
	} {
		if err := os.WriteFile(filepath.Join(s.Folder, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// KubeconfigAs returns a kubeconfig of the administrator, who impersonates the user unless it is empty, with a
// namespace.
func (s *Server) KubeconfigAs(user, namespace string) string {
	as := ""
	if user != "" {
		as = fmt.Sprintf("as: %q, ", user)
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: celgate
contexts:
- name: celgate
  context: {cluster: celgate, user: admin, namespace: %s}
clusters:
- name: celgate
  cluster: {server: "%s", certificate-authority: "%s"}
users:
- name: admin
  user: {%stoken: "%s"}
`, namespace, s.URL, s.certificate(), as, s.Token)
}

// certificate is the path where kube-apiserver writes its own certificate and that of its signer.
func (s *Server) certificate() string { return filepath.Join(s.Folder, "cert", "apiserver.crt") }

// waitReady returns when the server is ready, or with an error when a program ends or the context does.
func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	last := errors.New("no answer yet")
	for {
		if err := errors.Join(s.etcd.exitError(), s.apiserver.exitError()); err != nil {
			return err
		}
		if s.Client == nil {
			s.Client = s.newClient()
		}
		if s.Client != nil {
			answer, err := s.Do(ctx, Call{Method: http.MethodGet, Path: "/readyz"})
			if err == nil && answer.Code == http.StatusOK {
				return nil
			}
			last = err
			if err == nil {
				last = fmt.Errorf("readyz: %s", answer.Body)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready: %w", last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// newClient returns a client that trusts the server's certificate, or nil while the certificate does not exist.
func (s *Server) newClient() *http.Client {
	certificate, err := os.ReadFile(s.certificate())
	if err != nil {
		return nil
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(certificate) {
		return nil
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: trusted},
		MaxIdleConnsPerHost: 8,
		ForceAttemptHTTP2:   true,
	}}
}

// freePorts returns ports of loopback that are free now.
func freePorts(n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all at the end, so that they differ
		_, ports[i], _ = net.SplitHostPort(listener.Addr().String())
	}
	return ports, nil
}
