package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/celgate/celgate/schema/builtin"
	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the Kubernetes minors that are known",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "celgate %s %s %s/%s\nkubernetes %s\n",
				version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(builtin.Minors(), ", "))
			return err
		},
	}
}

// version is what the Go tool recorded: the tag of a release, or the commit of a build from source.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
