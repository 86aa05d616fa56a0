package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/celgate/celgate/cmd/internal/serve"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An Election is that of serve.Options.
type Election = func(ctx context.Context, r serve.Replica, lead func(context.Context)) error

// newServe is celgate serve: one replica, for trials and for whoever has a certificate.
func newServe(c *console) *cobra.Command {
	s := &serving{console: c}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer the admission webhooks of a cluster",
		Long: `Answer AdmissionReviews at /mutate and /validate, for clusters that do not serve
admission policies themselves. Policies are objects of the group policy.celgate.dev
in the cluster, files in a directory, or both.

This is one replica, for trials. What runs in a cluster is celgate-webhook: several
replicas that elect who writes, with a certificate of their own. celgate install
--print puts it there.`,
		Example: `  # policies, params and namespaces of a cluster, and the webhook configurations that they need
  celgate serve --kubeconfig ~/.kube/config --cert tls.crt --key tls.key --ca ca.crt --manage --url https://10.0.0.7:9443

  # policies of a directory, without a cluster: params and namespaces lie beside them
  celgate serve --alone --policy-dir policies/ --cert tls.crt --key tls.key`,
		Args: cobra.NoArgs,
		RunE: s.run,
	}
	s.flags(cmd)
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.BoolVar(&s.alone, "alone", false, "do without a cluster")
	})
	return cmd
}

// newWebhook is celgate-webhook: one of several replicas in a cluster.
func newWebhook(c *console, elect Election) *cobra.Command {
	s := &serving{console: c, cluster: true}
	s.Elect = elect
	cmd := &cobra.Command{
		Use:   "celgate-webhook [COMMAND] [flags]",
		Short: "Answer the admission webhooks of a cluster",
		Long: `Answer AdmissionReviews at /mutate and /validate, for clusters that do not serve
admission policies themselves. Policies are objects of the group policy.celgate.dev
in the cluster, files in a directory, or both. Of several replicas each answers, and
one writes: that which holds the Lease celgate.`,
		Example: `  # in a Pod, with a certificate of its own; celgate install --print has all that belongs to it
  celgate-webhook --manage --service celgate`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return nil
			case args[0] == "serve":
				return withHint(&usageError{errors.New("celgate-webhook has no command serve")},
					"leave it out: that is what it does")
			}
			return &usageError{fmt.Errorf("celgate-webhook takes flags only, not %q", args[0])}
		},
		RunE: s.run,
	}
	s.flags(cmd)
	group(cmd, "Webhook configurations", func(f *pflag.FlagSet) {
		f.StringVar(&s.Target.Service, "service", "",
			"`NAME` of the Service, in the namespace, by which the API server reaches the\nreplicas; without --cert they share a certificate in the Secret celgate")
		f.Int64Var(&s.Target.Port, "service-port", 443, "`PORT` of the Service (default 443)")
		f.DurationVar(&s.CertificateLife, "certificate-life", serve.CertificateLife,
			"`DURATION` for which that certificate is good; it is replaced in its last third\n(default 90 days)")
		f.DurationVar(&s.AuthorityLife, "authority-life", serve.AuthorityLife,
			"`DURATION` for which its authority is good, at least twice as long (default\n2 years)")
	})
	cmd.Flags().Bool("version", false, "print the version")
	cmd.AddCommand(newAudit(c)) // which runs from the same image
	return cmd
}

// A serving is what the flags of a program that serves say.
type serving struct {
	*console
	serve.Options
	cluster             bool // it is the program for clusters
	alone               bool
	kubeconfig, context string
	format, level       string
	beside              []string // as --shadow-webhook
	besideCA            string
}

// flags adds the flags that both programs have.
func (s *serving) flags(cmd *cobra.Command) {
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringVar(&s.PolicyDir, "policy-dir", "",
			"`DIR` with policies and bindings; what changes in it is in force within a\nsecond, unless something in it is wrong")
		f.StringVar(&s.StaticDir, "static-policies", "",
			"`DIR` in place of --policy-dir: with static policies by the rules of API\nservers that read them from files, asked before all others")
		f.BoolVar(&s.AllowEmpty, "allow-empty", false,
			"let the directory take policies out of force in ways that look like a\nmistake: nothing in a file, less in a file written in place, no binding")
		f.StringVar(&s.kubeconfig, "kubeconfig", "",
			"`FILE` that names the cluster; kubectl's by default, in a Pod its own")
		f.StringVar(&s.context, "context", "", "`NAME` of the context in it")
		f.BoolVar(&s.AllowSecretParams, "allow-secret-params", false,
			"take policies whose params are Secrets, which is to show those to whoever\nmay write such policies")
		f.BoolVar(&s.Shadow, "shadow", false,
			"evaluate and never act: count and log what policies would do to requests\nthat the API server has let through")
		f.StringArrayVar(&s.beside, "shadow-webhook", nil,
			"`[PHASE=]URL` ask another webhook too, and count and log where its answer is\nanother; PHASE is validate (default) or mutate, and both may be given")
		f.StringVar(&s.besideCA, "shadow-webhook-ca", "",
			"`FILE` with who signs its certificate; those of the system by default")
		minorFlag(f, &s.KubeVersion, "of Kubernetes whose kinds and CEL are used; the cluster's by default")
	})
	certificate := "`FILE` with the certificate, read again when it changes"
	if s.cluster {
		certificate += "; with --service\none of its own by default"
	}
	group(cmd, "Server", func(f *pflag.FlagSet) {
		f.StringVar(&s.Listen, "listen", ":9443", "`ADDRESS` of the webhook (default :9443); port 0 takes a free one")
		f.StringVar(&s.Cert, "cert", "", certificate)
		f.StringVar(&s.Key, "key", "", "`FILE` with its key")
		f.StringVar(&s.Callers.CA, "client-ca", "",
			"`FILE` with who signs the certificates of API servers: reviews of others\nare refused; read again when it changes")
		f.StringSliceVar(&s.Callers.Names, "allowed-client-names", nil,
			"`NAMES` of certificates that may ask, common or DNS names; all that\n--client-ca signed by default")
		f.Float64Var(&s.Callers.Rate, "client-rate", 0,
			"`NUMBER` of requests a second of one client, beyond which they get 429;\nno bound by default")
		f.StringVar(&s.Ops, "metrics-listen", "", "`ADDRESS` of /metrics, /healthz and /readyz, without TLS")
		f.BoolVar(&s.Profile, "pprof", false, "serve /debug/pprof there too")
		f.DurationVar(&s.DrainDelay, "drain-delay", 0,
			"`DURATION` for which requests are taken after the signal to end; none\nby default")
		f.StringVar(&s.format, "log-format", "text", "`FORMAT` of the log on standard error: text (default) or json")
		f.StringVar(&s.level, "log-level", "info",
			"`LEVEL` from which on lines are logged: debug, info (default), warn or error")
	})
	group(cmd, "Webhook configurations", func(f *pflag.FlagSet) {
		f.BoolVar(&s.Manage, "manage", false, "write the configurations that the policies need")
		f.StringVar(&s.Target.URL, "url", "", "`URL` at which the API server reaches this server")
		f.StringVar(&s.Target.Namespace, "namespace", "",
			"`NAMESPACE` of celgate, which policies never see; that of the Pod or context")
		f.StringVar(&s.CA, "ca", "", "`FILE` with the certificate that signed --cert")
	})
}

// run serves until it is told to end.
func (s *serving) run(cmd *cobra.Command, _ []string) error {
	if asked, _ := cmd.Flags().GetBool("version"); asked {
		return printVersion(cmd.OutOrStdout())
	}
	var err error
	if s.Log, err = newLog(s.stderr, s.format, s.level); err != nil {
		return err
	}
	if !s.alone {
		if s.Cluster, err = connect(s.kubeconfig, s.context); err != nil {
			hint := "name a cluster with --kubeconfig, or do without one with --alone"
			if s.cluster {
				hint = "name a cluster with --kubeconfig, or do without one with celgate serve --alone"
			}
			return withHint(err, "%s", hint)
		}
		if s.Target.Namespace == "" && s.Target.URL == "" {
			s.Target.Namespace = s.Cluster.Namespace()
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := s.compare(); err != nil {
		return err
	}
	if s.Manage {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		s.Identity = fmt.Sprintf("%s_%d", host, os.Getpid())
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return serve.Run(ctx, s.Options)
}

// check finds options that make no sense together.
func (s *serving) check() error {
	certificate, reached := "give --cert and --key",
		"give --url; in a cluster run celgate-webhook, which knows --service"
	if s.cluster {
		certificate, reached = certificate+", or --manage and --service for one that the replicas make themselves",
			"give one of --url and --service"
	}
	switch {
	case s.PolicyDir != "" && s.StaticDir != "":
		return &usageError{errors.New("--policy-dir and --static-policies do not go together")}
	case s.alone && s.PolicyDir == "" && s.StaticDir == "":
		return withHint(&usageError{errors.New("no policies to serve")},
			"name a directory that holds them with --policy-dir")
	case s.alone && s.Manage:
		return &usageError{errors.New("--manage needs a cluster: leave out --alone")}
	case (s.Cert == "") != (s.Key == ""):
		return &usageError{errors.New("--cert and --key belong together")}
	case len(s.Callers.Names) > 0 && s.Callers.CA == "":
		return &usageError{errors.New("--allowed-client-names needs --client-ca")}
	case len(s.beside) > 0 && s.Manage:
		return withHint(
			&usageError{errors.New("--shadow-webhook and --manage do not go together")},
			"with --manage a request comes twice, for policies of each failurePolicy; compare with one replica that is asked once")
	case s.besideCA != "" && len(s.beside) == 0:
		return &usageError{errors.New("--shadow-webhook-ca without --shadow-webhook")}
	case s.Callers.Rate < 0:
		return &usageError{errors.New("--client-rate is a number of requests a second")}
	case s.Cert == "" && (s.Target.Service == "" || !s.Manage):
		return withHint(&usageError{errors.New("no certificate")}, "the API server calls webhooks over TLS only: %s",
			certificate)
	case s.cluster && (s.CertificateLife < time.Minute || s.AuthorityLife < 2*s.CertificateLife):
		return &usageError{errors.New("--certificate-life is at least a minute, and --authority-life at least twice as long")}
	case s.Manage && (s.Target.URL == "") == (s.Target.Service == ""):
		return withHint(&usageError{errors.New("--manage needs to know how the API server reaches this server")}, "%s",
			reached)
	}
	return nil
}

// compare makes what asks another webhook.
func (s *serving) compare() error {
	if len(s.beside) == 0 {
		return nil
	}
	b := &webhook.Beside{URLs: map[webhook.Phase]string{}, Log: s.Log}
	for _, given := range s.beside {
		phase, address := webhook.Validating, given
		if name, rest, ok := strings.Cut(given, "="); ok && !strings.ContainsAny(name, ":/?") {
			if phase = webhook.Phase(name); phase != webhook.Validating && phase != webhook.Mutating {
				return &usageError{fmt.Errorf("--shadow-webhook: a phase is validate or mutate, not %q", name)}
			}
			address = rest
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return withHint(&usageError{fmt.Errorf("--shadow-webhook: %q is not a URL", address)},
				"for example https://policies.example.com/v1/admit")
		}
		if b.URLs[phase] != "" {
			return &usageError{fmt.Errorf("--shadow-webhook: two for the phase %s", phase)}
		}
		b.URLs[phase] = address
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the API server asks webhooks without one
	if s.besideCA != "" {
		text, err := os.ReadFile(s.besideCA)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: no certificate in it", s.besideCA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	b.Client = &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.Beside = b
	return nil
}

func newLog(w io.Writer, format, level string) (*slog.Logger, error) {
	var options slog.HandlerOptions
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, &usageError{fmt.Errorf("--log-level is debug, info, warn or error, not %q", level)}
	}
	options.Level = least
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	}
	return nil, &usageError{fmt.Errorf("--log-format is text or json, not %q", format)}
}
