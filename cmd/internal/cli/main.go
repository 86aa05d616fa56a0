// Package cli is the command line.
//
// Standard output carries the result and nothing else; everything that is said about the run goes to standard
// error, as "celgate: …" without a capital initial or a full stop, followed where a reader would be stuck by "hint: …".
// The exit status is 0 when all is clean, 1 when something is denied, 2 when the answer could not be found, and 3 when
// prove leaves something undecided.
// There is one file for each verb.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitClean  = 0
	exitDenied = 1
	exitFailed = 2

	exitUndecided = 3 // of prove alone
)

// Main runs the command line and returns the exit status.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &console{program: "celgate", stdin: stdin, stdout: stdout, stderr: stderr}
	return c.run(newRoot(c), args)
}

// Commands returns the commands of celgate as they are documented, for manual pages. Running them writes nothing.
func Commands() *cobra.Command {
	c := &console{program: "celgate", stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	root := newRoot(c)
	c.equip(root)
	return root
}

// Webhook runs the command line of celgate-webhook and returns the exit status. Elect is that of serve.Options.
func Webhook(args []string, stdin io.Reader, stdout, stderr io.Writer, elect Election) int {
	c := &console{program: "celgate-webhook", stdin: stdin, stdout: stdout, stderr: stderr}
	return c.run(newWebhook(c, elect), args)
}

// run runs the command of a program and returns the exit status.
func (c *console) run(root *cobra.Command, args []string) int {
	c.equip(root)
	root.SetArgs(args)
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		err = c.helpErr
	}
	if err == nil {
		return c.status
	}
	var usage *usageError
	if hintOf(err) == "" && (errors.As(err, &usage) || cmd == root) {
		err = withHint(err, "%s --help says more", cmd.CommandPath())
	}
	c.sayError(err)
	return exitFailed
}

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "celgate",
		Short: "Kubernetes admission policies, evaluated anywhere",
		Long: `celgate evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies as
kube-apiserver does, without a cluster: what they deny, warn about and change.`,
		Example: `  celgate apply -p policies/ manifests/
  helm template shop ./chart | celgate apply -p policies/ -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			if asked, _ := cmd.Flags().GetBool("version"); asked {
				return printVersion(cmd.OutOrStdout())
			}
			if text, ok := c.functionInput(); ok { // kustomize and kpt run functions without arguments
				return (&apply{console: c}).runFunction(cmd.Context(), text)
			}
			return cmd.Help()
		},
		SuggestionsMinimumDistance: 2,
	}
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") { // as a plugin of kubectl
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl celgate"}
	}
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"}) // replaces cobra's own, which would not be listed
	root.Flags().Bool("version", false, "print the version, as celgate version does")
	root.AddCommand(newApply(c), newCheck(c), newDerive(c), newDiff(c), newFormat(c), newExplain(c), newInit(c),
		newTest(c), newAudit(c), newState(c), newLower(c), newPlayground(c), newProve(c), newServe(c), newInstall(c),
		newUninstall(), newMigrate(c), newVersion(), newHelp(), newCompletion())
	return root
}

// equip adds the commands and flags that both programs have.
func (c *console) equip(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { c.helpErr = writeHelp(cmd.OutOrStdout(), cmd) })
	root.SetUsageFunc(func(cmd *cobra.Command) error { return writeHelp(cmd.OutOrStderr(), cmd) })
	root.PersistentFlags().BoolP("help", "h", false, "show what a command does and its flags")
	root.PersistentFlags().Lookup("help").Hidden = true
	completeShared(root)
}

// A usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// A hintedError has a hint for the reader.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

func withHint(err error, format string, args ...any) error {
	return &hintedError{err, fmt.Sprintf(format, args...)}
}

func hintOf(err error) string {
	var h *hintedError
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
