package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/celgate/celgate/cmd/internal/serve"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newServe(c *console) *cobra.Command {
	var o serve.Options
	var kubeconfig, context, format, level string
	var alone bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer the admission webhooks of a cluster",
		Long: `Answer AdmissionReviews at /mutate and /validate, for clusters that do not serve
admission policies themselves. Policies are objects of the group policy.celgate.dev
in the cluster, files in a directory, or both.`,
		Example: `  # policies, params and namespaces of a cluster, and the webhook configurations that they need
  celgate serve --kubeconfig ~/.kube/config --cert tls.crt --key tls.key --ca ca.crt --manage --url https://10.0.0.7:9443

  # the same in a Pod, with a certificate of its own; celgate install --print has all that belongs to it
  celgate serve --manage --service celgate

  # policies of a directory, without a cluster: params and namespaces lie beside them
  celgate serve --alone --policy-dir policies/ --cert tls.crt --key tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Log, err = newLog(c.stderr, format, level); err != nil {
				return err
			}
			if !alone {
				if o.Cluster, err = connect(kubeconfig, context); err != nil {
					return withHint(err, "name a cluster with --kubeconfig, or do without one with --alone")
				}
				if o.Target.Namespace == "" && o.Target.URL == "" {
					o.Target.Namespace = o.Cluster.Namespace()
				}
			}
			if err := checkServe(&o, alone); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return serve.Run(ctx, o)
		},
	}
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringVar(&o.PolicyDir, "policy-dir", "", "`DIR` with policies and bindings; what changes in it is in force within a\nsecond, unless something in it is wrong")
		f.BoolVar(&o.AllowEmpty, "allow-empty", false, "let the directory take policies out of force in ways that look like a\nmistake: nothing in a file, half of a file, a policy without its binding")
		f.StringVar(&kubeconfig, "kubeconfig", "", "`FILE` that names the cluster; kubectl's by default, in a Pod its own")
		f.StringVar(&context, "context", "", "`NAME` of the context in it")
		f.BoolVar(&alone, "alone", false, "do without a cluster")
		f.BoolVar(&o.AllowSecretParams, "allow-secret-params", false, "take policies whose params are Secrets, which is to show those to whoever\nmay write such policies")
		f.BoolVar(&o.Shadow, "shadow", false, "evaluate and never act: count and log what policies would do to requests\nthat the API server has let through")
		minorFlag(f, &o.KubeVersion, "of Kubernetes whose kinds and CEL are used; the cluster's by default")
	})
	group(cmd, "Server", func(f *pflag.FlagSet) {
		f.StringVar(&o.Listen, "listen", ":9443", "`ADDRESS` of the webhook (default :9443); port 0 takes a free one")
		f.StringVar(&o.Cert, "cert", "", "`FILE` with the certificate, read again when it changes; without, --service\ngets one that is kept in the Secret celgate")
		f.StringVar(&o.Key, "key", "", "`FILE` with its key")
		f.StringVar(&o.Callers.CA, "client-ca", "", "`FILE` with who signs the certificates of API servers: reviews of others\nare refused; read again when it changes")
		f.StringSliceVar(&o.Callers.Names, "allowed-client-names", nil, "`NAMES` of certificates that may ask, common or DNS names; all that\n--client-ca signed by default")
		f.Float64Var(&o.Callers.Rate, "client-rate", 0, "`NUMBER` of requests a second of one client, beyond which they get 429;\nno bound by default")
		f.StringVar(&o.Ops, "metrics-listen", "", "`ADDRESS` of /metrics, /healthz and /readyz, without TLS")
		f.BoolVar(&o.Profile, "pprof", false, "serve /debug/pprof there too")
		f.DurationVar(&o.DrainDelay, "drain-delay", 0, "`DURATION` for which requests are taken after the signal to end; none\nby default")
		f.StringVar(&format, "log-format", "text", "`FORMAT` of the log on standard error: text (default) or json")
		f.StringVar(&level, "log-level", "info", "`LEVEL` from which on lines are logged: debug, info (default), warn or error")
	})
	group(cmd, "Webhook configurations", func(f *pflag.FlagSet) {
		f.BoolVar(&o.Manage, "manage", false, "write the configurations that the policies need")
		f.StringVar(&o.Target.URL, "url", "", "`URL` at which the API server reaches this server, or")
		f.StringVar(&o.Target.Service, "service", "", "`NAME` of the Service, in the namespace")
		f.Int64Var(&o.Target.Port, "service-port", 443, "`PORT` of the Service (default 443)")
		f.StringVar(&o.Target.Namespace, "namespace", "", "`NAMESPACE` of celgate, which policies never see; that of the Pod or context")
		f.StringVar(&o.CA, "ca", "", "`FILE` with the certificate that signed --cert")
	})
	return cmd
}

// checkServe finds options that make no sense together, and fills in the identity.
func checkServe(o *serve.Options, alone bool) error {
	switch {
	case alone && o.PolicyDir == "":
		return withHint(&usageError{errors.New("no policies to serve")}, "name a directory that holds them with --policy-dir")
	case alone && o.Manage:
		return &usageError{errors.New("--manage needs a cluster: leave out --alone")}
	case (o.Cert == "") != (o.Key == ""):
		return &usageError{errors.New("--cert and --key belong together")}
	case len(o.Callers.Names) > 0 && o.Callers.CA == "":
		return &usageError{errors.New("--allowed-client-names needs --client-ca")}
	case o.Callers.Rate < 0:
		return &usageError{errors.New("--client-rate is a number of requests a second")}
	case o.Cert == "" && (alone || o.Target.Service == "" || !o.Manage):
		return withHint(&usageError{errors.New("no certificate")},
			"the API server calls webhooks over TLS only: give --cert and --key, or --manage and --service for one that celgate makes itself")
	case o.Manage && (o.Target.URL == "") == (o.Target.Service == ""):
		return withHint(&usageError{errors.New("--manage needs to know how the API server reaches this server")}, "give one of --url and --service")
	}
	if o.Manage {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		o.Identity = fmt.Sprintf("%s_%d", host, os.Getpid())
	}
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
