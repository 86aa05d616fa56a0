package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/deploy"
	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/internal/plugins"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

func newInstall(c *console) *cobra.Command {
	i := &installing{audit: audit{apply: apply{console: c}}}
	cmd := &cobra.Command{
		Use:   "install --print [--audit]",
		Short: "Print the manifests that put celgate into a cluster",
		Long: `install prints the manifests that put celgate into a cluster: its kinds, its roles, and
two replicas of celgate-webhook, from an image that you have built and pushed.

With --audit it prints a CronJob instead, which runs celgate audit in the cluster, and a
role that may list exactly the kinds that the policies can match: those of -p, which go
into a ConfigMap, or those in force in a live cluster. With --shards an Indexed Job shares
the work, namespace by namespace. With --every it is a Deployment that audits at an
interval and serves the counts as metrics. The flags about requests and workloads are
those of celgate audit; they become flags of its Pods.`,
		Example: `  celgate install --print --image registry.example.com/celgate@sha256:DIGEST | kubectl apply -f -

  # an audit every night, of policies that are not in force yet, by four Pods
  celgate install --print --audit -p policies/ --shards 4 --write-reports openreports \
      --image registry.example.com/celgate@sha256:DIGEST`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return i.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	group(cmd, "Flags", func(f *pflag.FlagSet) {
		f.BoolVar(&i.show, "print", false, "print the manifests")
		f.StringVar(&i.job.Image, "image", "", "`IMAGE` the image to run, best by digest; celgate publishes\nnone: build and push your own")
	})
	group(cmd, "Audit", func(f *pflag.FlagSet) {
		f.BoolVar(&i.audits, "audit", false, "a CronJob that audits the cluster, in place of the webhook")
		f.StringArrayVarP(&i.policies, "policy", "p", nil, "`FILE|DIR|-` policies and bindings; may be repeated")
		i.live.flags(f)
		f.StringVar(&i.job.Schedule, "schedule", "17 3 * * *", "`CRON` when to run (default \"17 3 * * *\")")
		f.DurationVar(&i.repeating.every, "every", 0,
			"`DURATION` a Deployment instead, which audits at this interval,\nsuch as 1h, and serves metrics")
		f.IntVar(&i.job.Shards, "shards", 1, "`N` how many Pods share the work (default 1)")
		f.StringVar(&i.job.Reports, "write-reports", "",
			"`KIND` openreports or policyreport: write reports to the cluster,\nas celgate audit does")
	})
	group(cmd, "Audited requests", func(f *pflag.FlagSet) {
		f.BoolVar(&i.deletions, "deletions", false, "also ask about the deletion of each object")
		i.asked.userFlags(f, "(default: none is known,\nand policies that look at the user are not audited)")
		i.workloads.flags(f)
	})
	completeWith(cmd, "write-reports", slices.Sorted(maps.Keys(reportKinds))...)
	return cmd
}

// asks returns the flags of the audit that select the questions.
func (i *installing) asks() []string {
	var flags []string
	if i.deletions {
		flags = append(flags, "--deletions")
	}
	if i.asked.user != "" {
		flags = append(flags, "--as="+i.asked.user)
	}
	for _, group := range i.asked.groups {
		flags = append(flags, "--as-group="+group)
	}
	if i.asked.uid != "" {
		flags = append(flags, "--as-uid="+i.asked.uid)
	}
	for _, key := range slices.Sorted(maps.Keys(i.asked.extra)) {
		for _, value := range i.asked.extra[key] {
			flags = append(flags, "--as-extra="+key+"="+value)
		}
	}
	if i.workloads.Off {
		flags = append(flags, "--no-workloads")
	}
	for _, given := range i.workloads.given {
		flags = append(flags, "--pods-of="+given)
	}
	if user := i.workloads.User; user != "" {
		flags = append(flags, "--controller-user="+user)
	}
	return flags
}

// An installing is one run of the verb.
type installing struct {
	audit
	show, audits bool
	job          auditJob
}

func (i *installing) run(ctx context.Context, out io.Writer) error {
	if !i.show {
		return withHint(&usageError{errors.New("celgate does not change a cluster itself")},
			"add --print, and pipe the output to kubectl apply -f -")
	}
	if err := i.checkInstall(); err != nil {
		return err
	}
	if i.job.Image == "" {
		i.say(
			"the manifests name the image \"celgate\", which is not in a registry",
			"name an image that your cluster can pull with --image, best by digest (registry.example.com/celgate@sha256:…); make image builds one")
		i.job.Image = "celgate"
	}
	text := append(append(deploy.Definitions(), "---\n"...), deploy.Server(i.job.Image)...)
	if i.audits {
		if err := i.match(ctx); err != nil {
			return err
		}
		text = []byte(auditManifests(&i.job))
	}
	_, err := out.Write(text)
	return err
}

// checkInstall refuses invalid combinations of flags.
func (i *installing) checkInstall() error {
	_, known := reportKinds[i.job.Reports]
	if i.every > 0 {
		i.job.Every = i.every.String()
	}
	if err := cmp.Or(i.workloads.check(), i.asked.check()); err != nil {
		return err
	}
	i.job.Asks = i.asks()
	switch {
	case !i.audits && (len(i.policies) > 0 || i.live != live{} || i.job.Reports != "" || i.job.Shards != 1 ||
		i.every != 0 || len(i.job.Asks) > 0):
		return &usageError{errors.New("flags for policies, shards, reports and requests need --audit")}
	case i.job.Reports != "" && !known:
		return &usageError{fmt.Errorf("--write-reports accepts openreports or policyreport, not %q", i.job.Reports)}
	case i.every < 0 || i.every > 0 && i.job.Shards != 1:
		return &usageError{errors.New("--every is a duration such as 1h, and cannot be combined with --shards")}
	case i.job.Shards < 1:
		return &usageError{fmt.Errorf("--shards is a number of Pods, not %d", i.job.Shards)}
	}
	return nil
}

// match computes the permissions of the audit: exactly the objects that the policies can match or read.
func (i *installing) match(ctx context.Context) error {
	loader := &manifest.Loader{Stdin: i.stdin}
	from, err := i.sources(ctx)
	if err != nil {
		return err
	}
	from.policies = nil // the manifests contain them
	from.inline, from.inlined = i.read(loader, i.policies), len(i.policies) > 0
	bundle := manifest.NewBundle(from.inline...)
	if from.inlined && len(bundle.Set.Policies)+len(bundle.Problems) == 0 {
		return noPoliciesError(i.policies, nil)
	}
	w, err := i.load(ctx, loader, from, nil)
	if err != nil {
		return err
	}
	of, err := i.auditor(w)
	if err != nil {
		return err
	}
	if i.status != exitClean {
		return errors.New("not all policies can be audited") // the reasons were printed
	}
	rights := grants{}
	for _, versions := range (&stocktaking{audit: &i.audit}).kinds(of) {
		rights.allow(versions[0].GroupResource(), "list")
	}
	if err := i.matchUnknown(of, rights); err != nil {
		return err
	}
	rights.allow(namespaceResource, "get", "list")
	if err := i.matchUser(of, rights); err != nil {
		return err
	}
	rights.allow(apischema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "list")
	for _, kind := range plugins.Kinds { // what the audit says about parts of the server other than policies
		if resource := w.types.ResourceFor(kind); resource != nil {
			rights.allow(resource.GroupResource(), "get", "list")
		}
	}
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		rights.allow(apischema.GroupResource{Group: nativeGroup, Resource: kind}, "list")
	}
	for _, p := range of.force.Policies {
		if p.ParamKind == nil {
			continue
		}
		gv, err := apischema.ParseGroupVersion(p.ParamKind.APIVersion)
		if err != nil {
			return err
		}
		resource := w.types.ResourceFor(gv.WithKind(p.ParamKind.Kind))
		if resource == nil {
			return withHint(fmt.Errorf("unknown kind %s %s of the params of policy %s",
				p.ParamKind.APIVersion, p.ParamKind.Kind, p.Name), "name a live cluster, or its definition with -p")
		}
		rights.allow(resource.GroupResource(), "get", "list")
	}
	if len(i.policies) == 0 {
		for _, kind := range []string{"validatingadmissionpolicies", "mutatingadmissionpolicies"} {
			for _, suffix := range []string{kind, strings.TrimSuffix(kind, "ies") + "ybindings"} {
				rights.allow(apischema.GroupResource{Group: nativeGroup, Resource: suffix}, "list")
			}
		}
	}
	if kind, ok := reportKinds[i.job.Reports]; ok {
		group, _, _ := strings.Cut(kind.APIVersion, "/")
		for _, resource := range []string{kind.Plural, kind.Plurals} {
			rights.allow(apischema.GroupResource{Group: group, Resource: resource}, "list", "create", "patch", "delete")
		}
	}
	i.job.Rules = rights.rules()
	i.job.Policies = ""
	for _, d := range from.inline {
		if i.job.Policies != "" {
			i.job.Policies += "---\n"
		}
		i.job.Policies += rewrite.YAML(d.Object, w.types.Type(tree.Object(d.Object).Kind()))
	}
	const most = 1 << 20 // the limit of a ConfigMap
	if len(i.job.Policies) >= most {
		return fmt.Errorf("the policies have %d bytes, but a ConfigMap holds at most %d", len(i.job.Policies), most)
	}
	return nil
}

// matchUser adds the permission to ask what the user of requests may do.
func (i *installing) matchUser(of *auditor, rights grants) error {
	if !i.asked.knowsUser() {
		return nil
	}
	limits, err := needs.Find(of.force, needs.Given{Minor: minorOrNewest(of.world.version), Deletions: i.deletions})
	if slices.ContainsFunc(limits, func(l needs.Limit) bool { return l.Need == needs.Authorizer }) {
		rights.allow(apischema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, "create")
	}
	return err
}

// matchUnknown adds the permission to list resources that policies name, and that neither a live cluster nor a
// definition describes.
func (i *installing) matchUnknown(of *auditor, rights grants) error {
	known := map[apischema.GroupResource]bool{}
	kinds := map[string]bool{}
	for _, r := range of.world.types.Resources() {
		known[r.GroupResource()] = true
		kind := r.GroupVersionKind().GroupKind()
		kinds[kind.String()], kinds[kind.Kind] = true, true
	}
	for _, named := range slices.Sorted(maps.Keys(i.workloads.PodsOf)) {
		if !kinds[named] && requests.MayMatchChildren(of.world.types, of.engine) {
			return withHint(fmt.Errorf("unknown kind %s of --pods-of", named),
				"name a live cluster, or its definition with -p")
		}
	}
	if i.live != (live{}) {
		return nil // a resource that does not exist there cannot be listed
	}
	all := false
	for _, p := range of.force.Policies {
		for _, rule := range p.Rules() {
			if !slices.ContainsFunc(of.asks, func(op celgate.Operation) bool {
				return slices.Contains(rule.Operations, string(op)) || slices.Contains(rule.Operations, "*")
			}) {
				continue
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					r := apischema.GroupResource{Group: group, Resource: resource}
					switch {
					case group == "*" || resource == "*" || resource == "*/*":
						all = true
					case !known[r] && !strings.Contains(resource, "/"):
						rights.allow(r, "list")
					}
				}
			}
		}
	}
	if all {
		i.say("policies match resources by *: the role lists the built-in ones and those that -p defines",
			"name a live cluster, and the role lists its custom kinds too")
	}
	return nil
}

var namespaceResource = apischema.GroupResource{Resource: "namespaces"}

// grants are verbs by resource.
type grants map[apischema.GroupResource][]string

func (g grants) allow(resource apischema.GroupResource, verbs ...string) {
	all := append(g[resource], verbs...)
	slices.Sort(all)
	g[resource] = slices.Compact(all)
}

// rules returns the grants as rules; resources of a group with the same verbs share a rule.
func (g grants) rules() []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	resources := slices.SortedFunc(maps.Keys(g), func(x, y apischema.GroupResource) int {
		return cmp.Or(strings.Compare(x.Group, y.Group), strings.Compare(x.Resource, y.Resource))
	})
	for _, r := range resources {
		i := slices.IndexFunc(all, func(had rbacv1.PolicyRule) bool {
			return had.APIGroups[0] == r.Group && slices.Equal(had.Verbs, g[r])
		})
		if i < 0 {
			i, all = len(all), append(all, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Verbs: g[r]})
		}
		all[i].Resources = append(all[i].Resources, r.Resource)
	}
	return all
}

func newUninstall() *cobra.Command {
	var show bool
	cmd := &cobra.Command{
		Use:   "uninstall --print",
		Short: "Print the commands that remove celgate from a cluster",
		Long: `uninstall prints the commands that remove celgate from a cluster, in an order that
loses no request: first the writer of the webhook configurations, then these. Policies
and their kinds stay; a comment shows how to delete them.`,
		Example: "  celgate uninstall --print | sh",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !show {
				return withHint(&usageError{errors.New("celgate does not change a cluster itself")},
					"add --print, and pipe the output to sh")
			}
			_, err := io.WriteString(cmd.OutOrStdout(), uninstall)
			return err
		},
	}
	group(cmd, "Flags", func(f *pflag.FlagSet) { f.BoolVar(&show, "print", false, "print the commands") })
	return cmd
}

// The replicas lose their permissions first: they must not write the configurations again, and must answer as long as
// the configurations exist.
const uninstall = `kubectl delete clusterrolebinding celgate
kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations celgate --ignore-not-found
kubectl delete namespace celgate-system
kubectl delete clusterrolebinding celgate-params
kubectl delete clusterrole celgate celgate-params
kubectl delete clusterrolebinding,clusterrole celgate-audit --ignore-not-found
# and with all policies:
# kubectl delete customresourcedefinitions -l app.kubernetes.io/name=celgate
`
