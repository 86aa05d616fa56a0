package cli

import (
	"errors"
	"io"

	"github.com/celgate/celgate/deploy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newInstall(c *console) *cobra.Command {
	var image string
	var show bool
	cmd := &cobra.Command{
		Use:   "install --print",
		Short: "Print the manifests that put celgate into a cluster",
		Long: `Print the manifests that put celgate into a cluster: its kinds, its rights, two replicas
of celgate-webhook, from an image that you have built and pushed.`,
		Example: "  celgate install --print --image registry.example.com/celgate@sha256:DIGEST | kubectl apply -f -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !show {
				return withHint(&usageError{errors.New("celgate changes no cluster by itself")},
					"give --print, and the output to kubectl apply -f -")
			}
			if image == "" {
				c.say(
					"the manifests name the image \"celgate\", which is in no registry",
					"give --image what your cluster can pull, best by digest (registry.example.com/celgate@sha256:…), which nobody can change; make image builds it")
				image = "celgate"
			}
			_, err := cmd.OutOrStdout().Write(append(append(deploy.Definitions(), "---\n"...), deploy.Server(image)...))
			return err
		},
	}
	group(cmd, "Flags", func(f *pflag.FlagSet) {
		f.BoolVar(&show, "print", false, "print the manifests")
		f.StringVar(&image, "image", "", "`IMAGE` to run, best by digest; no registry has one for everybody")
	})
	return cmd
}

func newUninstall() *cobra.Command {
	var show bool
	cmd := &cobra.Command{
		Use:   "uninstall --print",
		Short: "Print what to delete to take celgate out of a cluster",
		Long: `Print what to delete to take celgate out of a cluster, in the order in which no request
is lost: first what writes the webhook configurations, then those. Policies stay, with
their kinds; a comment says how to delete them.`,
		Example: "  celgate uninstall --print | sh",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !show {
				return withHint(&usageError{errors.New("celgate changes no cluster by itself")},
					"give --print, and the output to sh")
			}
			_, err := io.WriteString(cmd.OutOrStdout(), uninstall)
			return err
		},
	}
	group(cmd, "Flags", func(f *pflag.FlagSet) { f.BoolVar(&show, "print", false, "print the commands") })
	return cmd
}

// The replicas must not write the configurations again, and must answer as long as these exist: they lose the right
// first.
const uninstall = `kubectl delete clusterrolebinding celgate
kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations celgate --ignore-not-found
kubectl delete namespace celgate-system
kubectl delete clusterrolebinding celgate-params
kubectl delete clusterrole celgate celgate-params
# and with all policies:
# kubectl delete customresourcedefinitions -l app.kubernetes.io/name=celgate
`
