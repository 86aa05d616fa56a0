package cli

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the Kubernetes minors that are known",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersion(cmd.OutOrStdout())
		},
	}
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "celgate %s %s %s/%s\nkubernetes %s\n",
		report.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(builtin.Minors(), ", "))
	return err
}
