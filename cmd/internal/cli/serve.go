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

// newServe makes celgate serve: one replica, for trials and for servers with a certificate of their own.
func newServe(c *console) *cobra.Command {
	s := &serving{console: c}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer the admission webhooks of a cluster",
		Long: `serve answers AdmissionReviews at /mutate and /validate, for clusters that do not
serve admission policies themselves. Policies are objects of the group
policy.celgate.dev in the cluster, files in a directory, or both.

celgate serve is one replica, for trials. In a cluster run celgate-webhook: several
replicas with a certificate of their own, one of which writes to the cluster. celgate
install --print prints its manifests.`,
		Example: `  # with the policies, params and namespaces of a cluster; write the webhook configurations
  celgate serve --kubeconfig ~/.kube/config --cert tls.crt --key tls.key --ca ca.crt --manage --url https://10.0.0.7:9443

  # without a cluster: policies from a directory, with params and namespaces beside them
  celgate serve --alone --policy-dir policies/ --cert tls.crt --key tls.key`,
		Args: cobra.NoArgs,
		RunE: s.run,
	}
	s.flags(cmd)
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.BoolVar(&s.alone, "alone", false, "run without a cluster")
	})
	return cmd
}

// newWebhook makes celgate-webhook: one of several replicas in a cluster.
func newWebhook(c *console, elect Election) *cobra.Command {
	s := &serving{console: c, cluster: true}
	s.Elect = elect
	cmd := &cobra.Command{
		Use:   "celgate-webhook [COMMAND] [flags]",
		Short: "Answer the admission webhooks of a cluster",
		Long: `celgate-webhook answers AdmissionReviews at /mutate and /validate, for clusters that
do not serve admission policies themselves. Policies are objects of the group
policy.celgate.dev in the cluster, files in a directory, or both. Every replica
answers; only the holder of the Lease celgate writes to the cluster.`,
		Example: `  # in a Pod, with a certificate of its own; celgate install --print prints the manifests
  celgate-webhook --manage --service celgate`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return nil
			case args[0] == "serve":
				return withHint(&usageError{errors.New("celgate-webhook does not have the command serve")},
					"leave it out: celgate-webhook always serves")
			}
			return &usageError{fmt.Errorf("celgate-webhook accepts flags only, not %q", args[0])}
		},
		RunE: s.run,
	}
	s.flags(cmd)
	group(cmd, "Webhook configurations", func(f *pflag.FlagSet) {
		f.StringVar(&s.Target.Service, "service", "",
			"`NAME` the Service, in --namespace, through which the API server reaches\nthe replicas; without --cert they share a certificate in the Secret celgate")
		f.Int64Var(&s.Target.Port, "service-port", 443, "`PORT` the port of the Service (default 443)")
		f.DurationVar(&s.CertificateLife, "certificate-life", serve.CertificateLife,
			"`DURATION` how long that certificate is valid; it is replaced in its last\nthird (default 90 days)")
		f.DurationVar(&s.AuthorityLife, "authority-life", serve.AuthorityLife,
			"`DURATION` how long its authority is valid, at least twice as long\n(default 2 years)")
	})
	cmd.Flags().Bool("version", false, "print the version")
	cmd.AddCommand(newAudit(c)) // it runs from the same image
	return cmd
}

// A serving holds the flags of a server.
type serving struct {
	*console
	serve.Options
	cluster             bool // the program for clusters
	alone               bool
	kubeconfig, context string
	format, level       string
	beside              []string // of --shadow-webhook
	besideCA            string
}

// flags adds the flags that both programs have.
func (s *serving) flags(cmd *cobra.Command) {
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringVar(&s.PolicyDir, "policy-dir", "",
			"`DIR` a directory of policies and bindings; a change takes effect within a\nsecond, unless the directory has errors")
		f.StringVar(&s.StaticDir, "static-policies", "",
			"`DIR` in place of --policy-dir: static policies, by the rules of API\nservers that read them from files; they are asked before all others")
		f.BoolVar(&s.AllowEmpty, "allow-empty", false,
			"let changes of the directory take policies out of force even if they look\nlike a mistake: an empty file, less in a file written in place, no binding")
		f.StringVar(&s.kubeconfig, "kubeconfig", "",
			"`FILE` the kubeconfig of the cluster (default: kubectl's, or in a Pod\nthe cluster of the Pod)")
		f.StringVar(&s.context, "context", "", "`NAME` a context of the kubeconfig")
		f.BoolVar(&s.AllowSecretParams, "allow-secret-params", false,
			"accept policies whose params are Secrets: users who may write such\npolicies can then read the Secrets")
		f.Var(&sizes{of: &s.Sizes, cost: &s.RequestCost}, "limits",
			"`NAME=NUMBER,...` the most of bindings-per-policy, rules (of each list that\nmatches), validations and mutations of a policy that is written, and of CEL\nunits of cost-per-request (default: no limit)")
		f.BoolVar(&s.Shadow, "shadow", false,
			"evaluate but never act: count and log what policies would do to requests\nthat the API server has let through")
		f.StringArrayVar(&s.beside, "shadow-webhook", nil,
			"`[PHASE=]URL` ask another webhook too, and count and log where its answer\ndiffers; PHASE is validate (default) or mutate, and both may be given")
		f.StringVar(&s.besideCA, "shadow-webhook-ca", "",
			"`FILE` the authority of its certificate (default: those of the system)")
		minorFlag(f, &s.KubeVersion, "the Kubernetes whose kinds and CEL are used\n(default: the cluster's)")
	})
	certificate := "`FILE` the certificate, read again when it changes"
	if s.cluster {
		certificate += "; with --service\ncelgate makes one by default"
	}
	group(cmd, "Server", func(f *pflag.FlagSet) {
		f.StringVar(&s.Listen, "listen", ":9443", "`ADDRESS` the address of the webhook (default :9443); port 0 takes a free one")
		f.StringVar(&s.Cert, "cert", "", certificate)
		f.StringVar(&s.Key, "key", "", "`FILE` the key of the certificate")
		f.StringVar(&s.Callers.CA, "client-ca", "",
			"`FILE` the authority of the certificates of API servers: requests of other\nclients are refused; read again when it changes")
		f.StringSliceVar(&s.Callers.Names, "allowed-client-names", nil,
			"`NAMES` the common or DNS names of client certificates that are accepted\n(default: all that --client-ca signed)")
		f.Float64Var(&s.Callers.Rate, "client-rate", 0,
			"`NUMBER` requests a second that one client may send; beyond, it gets 429\n(default: no limit)")
		f.StringVar(&s.Ops, "metrics-listen", "", "`ADDRESS` serve /metrics, /healthz and /readyz here, without TLS")
		f.BoolVar(&s.Profile, "pprof", false, "serve /debug/pprof there too")
		f.BoolVar(&s.RuleMetrics, "rule-metrics", false,
			"count single validations, match conditions and variables, and the spent part\nof each budget")
		f.DurationVar(&s.DrainDelay, "drain-delay", 0,
			"`DURATION` how long to keep answering after the signal to end\n(default: not at all)")
		f.StringVar(&s.format, "log-format", "text", "`FORMAT` the format of the log on standard error: text (default) or json")
		f.StringVar(&s.level, "log-level", "info",
			"`LEVEL` the lowest level to log: debug, info (default), warn or error")
	})
	group(cmd, "Webhook configurations", func(f *pflag.FlagSet) {
		f.BoolVar(&s.Manage, "manage", false, "write the configurations that the policies need")
		f.StringVar(&s.Target.URL, "url", "", "`URL` where the API server reaches this server")
		f.StringVar(&s.Target.Namespace, "namespace", "",
			"`NAMESPACE` the namespace of celgate, exempt from all policies\n(default: that of the Pod or context)")
		f.StringVar(&s.CA, "ca", "", "`FILE` the authority that signed --cert")
	})
}

// run serves until it is interrupted.
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

// check refuses invalid combinations of flags.
func (s *serving) check() error {
	certificate, reached := "set --cert and --key",
		"set --url; in a cluster, run celgate-webhook, which has --service"
	if s.cluster {
		certificate, reached = certificate+", or --manage and --service for a certificate that the replicas issue themselves",
			"set one of --url and --service"
	}
	switch {
	case s.PolicyDir != "" && s.StaticDir != "":
		return &usageError{errors.New("--policy-dir and --static-policies cannot be combined")}
	case s.alone && s.PolicyDir == "" && s.StaticDir == "":
		return withHint(&usageError{errors.New("the source of the policies is missing")},
			"name a directory with policies with --policy-dir")
	case s.alone && s.Manage:
		return &usageError{errors.New("--manage needs a cluster: leave out --alone")}
	case (s.Cert == "") != (s.Key == ""):
		return &usageError{errors.New("--cert and --key must be set together")}
	case len(s.Callers.Names) > 0 && s.Callers.CA == "":
		return &usageError{errors.New("--allowed-client-names needs --client-ca")}
	case len(s.beside) > 0 && s.Manage:
		return withHint(
			&usageError{errors.New("--shadow-webhook and --manage cannot be combined")},
			"with --manage each request comes twice, once for each failurePolicy; compare with one replica without --manage")
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

// compare configures the comparison with another webhook.
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
	transport.Proxy = nil // the API server calls webhooks without a proxy
	if s.besideCA != "" {
		text, err := os.ReadFile(s.besideCA)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: the file does not contain a certificate in PEM", s.besideCA)
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
