package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/celgate/celgate/internal/serve"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newServe(c *console) *cobra.Command {
	var o serve.Options
	var format, level string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer the admission webhooks of a cluster",
		Long: `Answer AdmissionReviews at /mutate and /validate with policies, for clusters
that do not serve admission policies themselves.`,
		Example: `  celgate serve --policy-dir policies/ --cert tls.crt --key tls.key`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Log, err = newLog(c.stderr, format, level); err != nil {
				return err
			}
			switch {
			case o.PolicyDir == "":
				return withHint(&usageError{errors.New("no policies to serve")}, "name a directory that holds them with --policy-dir")
			case o.Cert == "" || o.Key == "":
				return withHint(&usageError{errors.New("no certificate")}, "the API server calls webhooks over TLS only: give --cert and --key")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return serve.Run(ctx, o)
		},
	}
	group(cmd, "Policies", func(f *pflag.FlagSet) {
		f.StringVar(&o.PolicyDir, "policy-dir", "", "`DIR` with policies and bindings; what changes in it is in force within a second")
		f.StringVar(&o.KubeVersion, "kube-version", "", "`MINOR` of Kubernetes whose kinds and CEL are used")
	})
	group(cmd, "Server", func(f *pflag.FlagSet) {
		f.StringVar(&o.Listen, "listen", ":9443", "`ADDRESS` of the webhook; port 0 takes a free one")
		f.StringVar(&o.Cert, "cert", "", "`FILE` with the certificate, read again when it changes")
		f.StringVar(&o.Key, "key", "", "`FILE` with its key")
		f.StringVar(&format, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
		f.StringVar(&level, "log-level", "info", "`LEVEL` from which on lines are logged: debug, info, warn or error")
	})
	return cmd
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
