package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// A minor is the value of --kube-version: a minor version of Kubernetes, or a whole version as kubectl prints it.
type minor string

var versionText = pattern.New(`^v?(\d+\.\d+)(?:[.+-].*)?$`)

// Set takes 1.37, v1.37.2 and the like.
func (m *minor) Set(text string) error {
	v, err := minorOf(text)
	*m = minor(v)
	return err
}

func (m *minor) String() string { return string(*m) }

// Type implements pflag.Value.
func (m *minor) Type() string { return "minor" }

// minorOf returns the known minor version that a text names.
func minorOf(text string) (string, error) {
	found := versionText().FindStringSubmatch(text)
	if found == nil {
		return "", withHint(&usageError{fmt.Errorf("%q is not a version of Kubernetes", text)},
			"a version is like 1.37 or v1.37.2")
	}
	if !slices.Contains(builtin.Minors(), found[1]) {
		return "", withHint(&usageError{fmt.Errorf("unknown version %s of Kubernetes", found[1])},
			"celgate knows Kubernetes %s", strings.Join(builtin.Minors(), ", "))
	}
	return found[1], nil
}

// minorFlag adds --kube-version.
func minorFlag(f *pflag.FlagSet, to *string, usage string) {
	f.Var((*minor)(to), "kube-version", "`MINOR` "+usage)
}

// flags adds the flags about requests for manifests.
func (a *asked) flags(f *pflag.FlagSet, oldFile *string) {
	f.StringVarP(&a.namespace, "namespace", "n", "",
		"`NAME` the namespace of manifests without one (default \"default\", or the context's with a live cluster)")
	f.StringVar(&a.operation, "operation", "",
		"`OPERATION` CREATE, UPDATE, DELETE or CONNECT, instead of CREATE or\nUPDATE by the cluster state")
	f.StringVar(oldFile, "old", "", "`FILE|DIR|-` the stored objects before an update or a deletion")
	f.StringVar(&a.subresource, "subresource", "", "`NAME` a subresource, such as status or deployments/scale")
	a.identityFlags(f, "(default "+defaultUser+", or the kubeconfig's with a live cluster)")
	f.BoolVar(&a.dryRun, "dry-run", false, "make dry-run requests")
}

// identityFlags adds the flags about the user of requests; unnamed documents the default.
func (a *asked) identityFlags(f *pflag.FlagSet, unnamed string) {
	a.userFlags(f, unnamed)
	f.StringVar(&a.pod, "as-pod", "", "`NAMESPACE/NAME` the Pod that makes the requests with the token of\n"+
		"its service account; it must exist in the cluster state")
}

// userFlags adds the flags that name a user.
func (a *asked) userFlags(f *pflag.FlagSet, unnamed string) {
	f.StringVar(&a.user, "as", "", "`USER` the user who makes the requests "+unnamed)
	f.StringArrayVar(&a.groups, "as-group", nil, "`GROUP` a group of that user; may be repeated")
	f.StringVar(&a.uid, "as-uid", "", "`UID` the uid of that user")
	f.Var((*extra)(&a.extra), "as-extra",
		"`KEY=VALUE` an extra attribute of that user; may be repeated, also\nwith the same key")
}

// knowsUser reports whether the user of the requests is known.
func (a *asked) knowsUser() bool { return a.user != "" || a.pod != "" }

// check refuses invalid flags.
func (a *asked) check() error {
	a.operation = strings.ToUpper(a.operation)
	if op := a.operation; op != "" && !slices.Contains(operations, op) {
		return &usageError{fmt.Errorf("--operation is CREATE, UPDATE, DELETE or CONNECT, not %q", op)}
	}
	if a.pod != "" {
		switch {
		case a.user != "":
			return &usageError{errors.New("--as-pod and --as cannot be combined")}
		case len(a.groups) > 0:
			return &usageError{errors.New("--as-pod and --as-group cannot be combined")}
		}
		return nil
	}
	if a.user == "" {
		switch {
		case len(a.groups) > 0:
			return &usageError{errors.New("--as-group without --as")}
		case a.uid != "":
			return &usageError{errors.New("--as-uid without --as")}
		case len(a.extra) > 0:
			return &usageError{errors.New("--as-extra without --as")}
		}
	}
	return nil
}

var operations = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}

// extra is the value of --as-extra.
type extra map[string]authenticationv1.ExtraValue

// Set adds a value of a key. Keys are in lower case, as the API server makes them.
func (e *extra) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("write KEY=VALUE, for example scopes=view")
	}
	if *e == nil {
		*e = extra{}
	}
	key = strings.ToLower(key)
	(*e)[key] = append((*e)[key], value)
	return nil
}

func (e *extra) String() string { return "" }

// Type implements pflag.Value.
func (e *extra) Type() string { return "extra" }

// completeWith makes shells complete a flag with fixed values. It ignores a missing flag.
func completeWith(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeShared makes shells complete the flags that several commands have.
func completeShared(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeShared(sub)
	}
	if cmd.Flags().Lookup("kube-version") != nil {
		completeWith(cmd, "kube-version", builtin.Minors()...)
	}
	if cmd.Flags().Lookup("operation") != nil {
		completeWith(cmd, "operation", operations...)
	}
	if cmd.Flags().Lookup("context") != nil {
		_ = cmd.RegisterFlagCompletionFunc("context",
			func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				kubeconfig := cmd.Flags().Lookup("kubeconfig").Value.String()
				return kube.Contexts(kubeconfig), cobra.ShellCompDirectiveNoFileComp
			},
		)
	}
}

// flagError adds a hint about the flag that was probably meant, and removes the text that pflag adds to an error with a
// hint.
func flagError(cmd *cobra.Command, err error) error {
	if hinted := (*hintedError)(nil); errors.As(err, &hinted) {
		return hinted
	}
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return &usageError{err}
	}
	name := unknown.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := spell.Nearest(name, names, len(name)/3+1); near != "" {
		return withHint(&usageError{err}, "did you mean --%s?", near)
	}
	if name == "service" || name == "service-port" {
		return withHint(&usageError{err}, "in a cluster, run celgate-webhook, which has it")
	}
	return &usageError{err}
}

// connect connects to the cluster that flags name. The error for an unknown context lists the known ones.
func connect(kubeconfig, context string) (*kube.Client, error) {
	client, err := kube.Connect(kubeconfig, context)
	if err == nil || context == "" {
		return client, err
	}
	known := kube.Contexts(kubeconfig)
	if slices.Contains(known, context) || len(known) == 0 {
		return nil, err
	}
	if near := spell.Nearest(context, known, len(context)/3+1); near != "" {
		return nil, withHint(err, "did you mean %s?", near)
	}
	return nil, withHint(err, "there are %s", strings.Join(known, ", "))
}

// kubeVersionUsage is what --kube-version means where the policies decide.
const kubeVersionUsage = "the Kubernetes whose CEL, kinds and defaults are used (default " + celgate.Newest + ", or that of the live cluster)"
