package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A migration is one run of the verb.
type migration struct {
	apply
	verify bool
	limit  int

	snapshot *kube.Snapshot
	handover *kube.Handover
	moves    []map[string]any // the objects of handover.Own whose kinds the server serves
}

func newMigrate(c *console) *cobra.Command {
	m := &migration{apply: apply{console: c}}
	cmd := &cobra.Command{
		Use:   "migrate [--context NAME] [--verify]",
		Short: "Hand policies over to a server that enforces them itself",
		Long: `migrate prints the policies and bindings of policy.celgate.dev in a cluster as those of
admissionregistration.k8s.io, in the version that the server serves. Kinds that the
server does not serve stay with celgate serve, which stops enforcing a binding once the
server enforces its native copy. So do policies of policy.celgate.dev/v1alpha1, which no
server has: see celgate lower.

Once the output is applied, --verify checks whether celgate's own policies can be deleted:
each has a native copy with the same spec, the server acts on the copies, and server and
celgate agree about all stored objects. migrate sends each object in two dry-run requests:
an update that changes nothing, and the creation of a copy. To see whether the server
acts on policies, it stores one policy and one binding for a moment, about a ConfigMap
name that nobody uses.

The exit status is 0 when celgate's policies can be deleted, 1 when they cannot, and 2
when migrate could not find out.`,
		Example: `  celgate migrate --context prod | kubectl apply -f -
  celgate migrate --context prod --verify`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.migrate(cmd.Context()) },
	}
	group(cmd, "Flags", func(f *pflag.FlagSet) {
		f.StringVar(&m.live.kubeconfig, "kubeconfig", "", "`FILE` the kubeconfig of the cluster (default: kubectl's)")
		f.StringVar(&m.live.context, "context", "", "`NAME` a context of the kubeconfig")
		f.BoolVar(&m.verify, "verify", false, "check whether the server has taken over")
		f.IntVar(&m.limit, "limit", 500, "`NUMBER` how many objects of each kind to ask about (default 500)")
	})
	return cmd
}

func (m *migration) migrate(ctx context.Context) error {
	client, err := connect(m.live.kubeconfig, m.live.context)
	if err != nil {
		return err
	}
	m.asked.namespace = client.Namespace()
	from, err := m.snap(ctx, client)
	if err != nil {
		return err
	}
	m.snapshot = from.live
	if m.handover, err = m.snapshot.Handover(ctx); err != nil {
		return err
	}
	m.sayDialect()
	if len(m.handover.Own) == 0 {
		return errors.New("the cluster does not have policies of " + policy.OwnGroup + "/v1")
	}
	stay := map[string]int{}
	for _, own := range m.handover.Own {
		if m.handover.Manifest(own) == nil {
			stay[own["kind"].(string)]++
		} else {
			m.moves = append(m.moves, own)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(stay)) {
		m.say(fmt.Sprintf("the server does not serve %s: %d stay with celgate serve", kind, stay[kind]), "")
	}
	switch {
	case len(m.moves) == 0:
		return withHint(errors.New("the server does not serve any of the kinds"), "celgate serve keeps enforcing them until it does")
	case m.verify:
		return m.check(ctx, from)
	}
	types, _ := m.snapshot.Types()
	var out strings.Builder
	for _, own := range m.moves {
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		kind := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1",
			Kind: own["kind"].(string)}
		out.WriteString(rewrite.YAML(m.handover.Manifest(own), types.Type(kind)))
	}
	_, err = io.WriteString(m.stdout, out.String())
	return err
}

// sayDialect prints the policies and bindings that a server cannot take over.
func (m *migration) sayDialect() {
	count := map[string]int{}
	for _, own := range m.handover.Dialect {
		count[own["kind"].(string)]++
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		m.say(fmt.Sprintf("no server has %s of %s: %d stay with celgate serve", kind, policy.Dialect, count[kind]),
			"celgate lower prints the parts that native policies can express")
	}
}

// check prints whether the server has taken over.
func (m *migration) check(ctx context.Context, from sources) error {
	same := m.compareSpecs()
	if same == 0 || m.status != exitClean {
		m.say("not verified further: the manifests are not all in the cluster",
			"celgate migrate prints them, for kubectl apply -f -")
		return nil
	}
	fmt.Fprintf(m.stdout, "%s exist natively with the same spec\n",
		plural(same, "policy or binding", "policies and bindings"))
	w, err := m.world(from)
	if err != nil {
		return err
	}
	kinds := map[policy.Kind]bool{}
	for _, own := range m.moves {
		kind, _ := policy.KindOf(own["kind"].(string))
		kinds[kind] = true
	}
	moved := slices.Sorted(maps.Keys(kinds))
	for _, kind := range moved {
		acts, err := m.snapshot.Probe(ctx, m.handover, kind, m.asked.namespace)
		if err != nil {
			return err
		}
		if !acts {
			m.raise(exitDenied)
			m.say(fmt.Sprintf("the server does not act on native %s objects", kind),
				"its admission plugin "+string(kind)+" is turned off")
			continue
		}
		fmt.Fprintf(m.stdout, "the server acts on %s objects\n", kind)
	}
	if m.status != exitClean {
		return nil
	}
	if err := m.replay(ctx, w); err != nil {
		return err
	}
	switch {
	case m.status != exitClean:
	case len(m.moves) < len(m.handover.Own):
		fmt.Fprintf(m.stdout, "the %s objects of %s and their bindings can be deleted\n", moved[0], policy.OwnGroup)
	default:
		fmt.Fprintf(m.stdout, "the policies of %s can be deleted\n", policy.OwnGroup)
	}
	return nil
}

// compareSpecs returns the number of celgate's own objects whose native copies have the same spec.
func (m *migration) compareSpecs() int {
	same := 0
	for _, own := range m.moves {
		native := m.handover.Native[policy.RefOf(own)]
		switch {
		case native == nil:
			m.raise(exitDenied)
			m.say(describe(own)+" does not exist natively", "")
		case !tree.Equal(native["spec"], own["spec"]):
			m.raise(exitDenied)
			m.say(describe(own)+" has another spec natively", "")
		default:
			same++
		}
	}
	return same
}

// world returns the world of the live cluster, with all of celgate's own policies: those that stay act as webhooks.
func (m *migration) world(from sources) (*world, error) {
	w := &world{version: from.version, live: from.live, assumed: map[string]bool{}}
	if err := w.addKinds(m.console); err != nil {
		return nil, err
	}
	w.stored = state.NewEmpty(w.types)
	w.cluster = w.stored
	var docs []*manifest.Document
	for _, own := range m.handover.Own {
		docs = append(docs, &manifest.Document{Object: policy.Native(own)})
	}
	for _, own := range m.handover.Dialect {
		docs = append(docs, &manifest.Document{Object: own})
	}
	w.addPolicies(m.console, docs)
	return w, nil
}

// A tally counts the results of a replay.
type tally struct{ agree, acted, differ, other int }

// replay sends stored objects as dry-run requests and compares the server's answers with celgate's.
func (m *migration) replay(ctx context.Context, w *world) error {
	options := w.options()
	options.WithoutQuirks = true
	engine, err := celgate.New(&w.set, options)
	if err != nil {
		return err
	}
	var t tally
	done := map[string]bool{}
	for _, r := range w.types.Resources() {
		if r.NotServed || r.OffByDefault || done[r.Storage] || !w.canMatch(r) {
			continue
		}
		done[r.Storage] = true
		list, err := m.snapshot.List(ctx, r.GroupVersionKind(), "")
		if err != nil {
			return err
		}
		if len(list) > m.limit {
			m.say(fmt.Sprintf("of %d %s, %d are compared", len(list), r.GroupResource(), m.limit),
				"--limit raises that")
			list = list[:m.limit]
		}
		for _, object := range list {
			for _, operation := range []celgate.Operation{celgate.Update, celgate.Create} {
				if err := m.compare(ctx, w, &t, &trial{engine, r, operation, object}); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprintf(m.stdout, "%s: %d agree (%d of them denied or changed), %d disagree, %d refused for other reasons\n",
		plural(t.agree+t.differ+t.other, "dry-run request", "dry-run requests"), t.agree, t.acted, t.differ, t.other)
	if err := w.unreadError(); err != nil {
		m.raise(exitFailed)
		m.sayError(err)
	}
	return nil
}

// canMatch reports whether a rule of a policy can match a resource.
func (w *world) canMatch(r *schema.Resource) bool {
	has := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return s == name || s == "*" || s == "*/*" })
	}
	return slices.ContainsFunc(w.set.Policies, func(p *policy.Policy) bool {
		return slices.ContainsFunc(p.Rules(), func(rule policy.Rule) bool {
			return has(rule.APIGroups, r.Group) && has(rule.Resources, r.Resource)
		})
	})
}

// A trial is one request that the server and celgate answer.
type trial struct {
	engine    *celgate.Engine
	resource  *schema.Resource
	operation celgate.Operation
	object    map[string]any
}

func (m *migration) compare(ctx context.Context, w *world, t *tally, of *trial) error {
	object := of.object
	if of.operation == celgate.Create {
		object = copyOf(object)
	}
	asked := m.asked
	asked.operation, asked.dryRun = string(of.operation), true
	request, err := w.request(ctx, &manifest.Document{Object: object}, &asked)
	if err != nil {
		return err
	}
	prepared, err := of.engine.Prepare(ctx, request)
	if err != nil { // the server would refuse it before any policy is evaluated
		t.other++
		return nil
	}
	own, err := of.engine.Admit(ctx, prepared)
	if err != nil {
		return err
	}
	if len(own.Outcomes)+len(own.Violations) == 0 {
		return nil // no policy matches it
	}
	answer, refused := m.snapshot.Try(ctx, kube.Trial{Resource: of.resource.GroupVersionResource,
		Operation: of.operation, Namespace: tree.Object(object).Namespace(), Name: tree.Object(object).Name(),
		Object: object})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	differ := func(format string, args ...any) {
		t.differ++
		m.raise(exitDenied)
		m.say(fmt.Sprintf("%s %s: ", of.operation, describe(object))+fmt.Sprintf(format, args...), "")
	}
	var status apierrors.APIStatus
	switch {
	case refused != nil && !errors.As(refused, &status):
		return refused
	case refused != nil && !own.Allowed && status.Status().Message == own.Status.Message:
		t.agree++
		t.acted++
	case refused != nil && m.deniedByOurs(w, status.Status().Message):
		differ("the server says %q, celgate %q", status.Status().Message, verdict(own))
	case refused != nil:
		t.other++
	case !own.Allowed:
		differ("the server allows it, celgate says %q", verdict(own))
	case len(own.Changes) > 0 && !holds(answer, own.Changes[len(own.Changes)-1].After, prepared.Request().Object):
		differ("the server did not change it as celgate would")
	case len(own.Changes) == 0 && of.operation == celgate.Update &&
		!tree.Equal(answer["spec"], of.object["spec"]):
		differ("the server changes it, celgate would not")
	default:
		t.agree++
		if len(own.Changes) > 0 {
			t.acted++
		}
	}
	return nil
}

// deniedByOurs reports whether a denial names one of the policies.
func (m *migration) deniedByOurs(w *world, message string) bool {
	return slices.ContainsFunc(w.set.Policies,
		func(p *policy.Policy) bool { return p.Name == wording.Denier(message) })
}

func verdict(d *celgate.Decision) string {
	if d.Allowed {
		return "allowed"
	}
	return d.Status.Message
}

// holds reports whether got has the changes from before to after. Others may have added to it.
func holds(got, after, before any) bool {
	if tree.Equal(after, before) {
		return true
	}
	switch after := after.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		b, _ := before.(map[string]any)
		if !ok {
			return false
		}
		for name := range b {
			if _, stays := after[name]; !stays && g[name] != nil {
				return false
			}
		}
		for name, value := range after {
			if !holds(g[name], value, b[name]) {
				return false
			}
		}
		return true
	case []any:
		g, _ := got.([]any)
		for _, item := range after {
			if !slices.ContainsFunc(g, func(candidate any) bool { return holds(candidate, item, nil) }) {
				return false
			}
		}
		return true
	}
	return tree.Equal(got, after)
}

// copyOf returns an object that can be created beside the original, without the members that the server sets.
func copyOf(object map[string]any) map[string]any {
	created := requests.Copy(object)
	old := tree.Object(created).Metadata()
	metadata := map[string]any{}
	for _, member := range []string{"namespace", "labels", "annotations"} {
		if value, ok := old[member]; ok {
			metadata[member] = value
		}
	}
	name := old.Text("name")
	metadata["name"] = strings.TrimRight(name[:min(len(name), 40)], "-.") + "-celgate"
	created["metadata"] = metadata
	return created
}
