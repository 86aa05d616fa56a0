package differ

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/corpus"
	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

// A Live is the world on a live server.
//
// A policy takes about a second to be in force there, so a round puts many in force at once, each for its own names:
// the rules of a policy list the names of its objects in resourceNames. Only the names separate the policies of a
// round, so objects, namespaces and selectors are as random as in one process. The requests are dry runs; without
// policies, the server would accept all their objects.
type Live struct {
	world    *World
	recorder *corpus.Recorder
	rights   []map[string]any // RBAC objects
	further  []map[string]any // RBAC objects that only checks of authorizer need
	exists   []map[string]any // the objects on the server before every round, in the form of the server
	pools    map[*kind]*pool
	epoch    int              // which pools they are
	trials   int              // smaller cases that were tried
	stored   []map[string]any // objects of the last round, which its policies may protect
}

// A pool holds the manifests for the requests of a kind, which the server accepts.
type pool struct {
	creates []creation
	updates []update
	refusal string // the server's answer to the last refused manifest
}

// A creation is the manifest of an object that does not exist.
type creation struct {
	manifest map[string]any
	managers any // the managedFields that the server gives to its object, which celgate does not compute
}

// An update is a manifest with possible new versions.
type update struct {
	old  map[string]any
	news []map[string]any
}

// StartLive starts a server of a minor and makes the world in it.
func StartLive(ctx context.Context, minor string) (_ *Live, err error) {
	l, err := startWorld(ctx, minor)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Stop()
		}
	}()
	params := map[schema.GroupVersionKind]bool{}
	for _, object := range l.world.state {
		if kind := kindOf(object); kind.Kind != "Namespace" {
			params[kind] = true
		}
	}
	return l, l.warm(ctx, params)
}

// startWorld starts a server with the objects of the world. The server may not know them yet when policies need them.
func startWorld(ctx context.Context, minor string) (_ *Live, err error) {
	w, err := readWorld(ctx, minor)
	if err != nil {
		return nil, err
	}
	l := &Live{world: w, epoch: -1}
	if l.rights, err = read("rbac"); err != nil {
		return nil, err
	}
	objects, err := read("state")
	if err != nil {
		return nil, err
	}
	if l.recorder, err = corpus.Start(ctx, minor, server.Options{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Stop()
		}
	}()
	for _, definition := range w.definitions {
		if _, err := l.recorder.Keep(ctx, definition); err != nil {
			return nil, err
		}
	}
	for _, object := range slices.Concat(objects, l.rights) {
		stored, err := l.recorder.Keep(ctx, object)
		if err != nil {
			return nil, err
		}
		l.exists = append(l.exists, stored)
	}
	return l, nil
}

// Stop ends the server.
func (l *Live) Stop() error { return l.recorder.Stop() }

// warm waits until the server knows the custom kinds in all policies, also with params of these kinds, and the
// permissions of the users.
func (l *Live) warm(ctx context.Context, params map[schema.GroupVersionKind]bool) error {
	var cases []*conformance.Case
	for kind := range params {
		if err := l.recorder.KeepParams(ctx, kind.GroupVersion().String(), kind.Kind); err != nil {
			return err
		}
	}
	wait := func(k *kind, param schema.GroupVersionKind) {
		i := len(cases)
		q := &question{kind: k, operation: celgate.Create, user: liveUsers[i%len(liveUsers)]}
		s := &slot{kind: k, token: fmt.Sprintf("warm%d", i), questions: []*question{q}}
		q.object = withName(k.templates[0], s.token)
		s.c = s.isolate(l.world.probe(k, param))
		c := s.corpusCase(q)
		c.State = l.world.definitions // makes Ask wait for them
		cases = append(cases, c)
	}
	config := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	for _, k := range l.world.kinds {
		if k.resource.Definition != nil {
			wait(k, config)
		}
	}
	for kind := range params {
		if kind != config {
			wait(l.world.kinds[0], kind)
		}
	}
	if _, err := l.recorder.Enforce(ctx, cases); err != nil {
		return err
	}
	for _, c := range cases {
		if err := l.recorder.AwaitPermission(ctx, c.Request); err != nil {
			return err
		}
		if _, err := l.recorder.Ask(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// probe returns a policy about new objects of a kind, with params of another, that the server takes up once it knows
// both kinds.
func (w *World) probe(k *kind, param schema.GroupVersionKind) *Case {
	name, does := "ValidatingAdmissionPolicy", `validations: [{expression: "true"}]`
	bound := "validationActions: [Deny], "
	if w.mutating != "" {
		name, bound = "MutatingAdmissionPolicy", ""
		does = `reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: ` +
			`{expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{a: 'b'}}}"}}]`
	}
	r := k.resource
	c := &Case{
		Policy: tree(`{kind: %s, spec: {paramKind: {apiVersion: %s, kind: %s}, matchConstraints: {resourceRules:
[{apiGroups: [%q], apiVersions: [%s], operations: [CREATE], resources: [%s]}]}, %s}}`,
			name, param.GroupVersion(), param.Kind, r.Group, r.Version, r.Resource, does),
		Binding: tree(`{kind: %sBinding, spec: {%sparamRef: {name: limits, parameterNotFoundAction: Allow}}}`, name, bound),
	}
	for _, object := range []map[string]any{c.Policy, c.Binding} {
		object["apiVersion"] = w.policyVersion(w.mutating != "")
	}
	return c
}

// tree reads a template in YAML.
func tree(format string, args ...any) map[string]any {
	trees, err := conformance.Documents(fmt.Appendf(nil, format, args...))
	if err != nil || len(trees) != 1 {
		panic(fmt.Sprintf("%d trees: %v", len(trees), err)) // the templates are in this file
	}
	return trees[0]
}

// liveUsers may send every request; see world/rbac.yaml. All are in system:authenticated.
var liveUsers = []celgate.UserInfo{
	{Username: "alice", Groups: []string{"devs"}},
	{Username: "bob", UID: "7", Extra: map[string]authenticationv1.ExtraValue{"scope": {"a", "b"}}},
	{Username: "system:serviceaccount:shop:robot",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop"}},
}

// A slot is a policy of a round with its requests.
type slot struct {
	kind      *kind
	token     string // in the names of everything in this slot
	c         *Case
	old       map[string]any // a manifest whose object exists during the round; nil for none
	stored    map[string]any // that object
	questions []*question
}

// A question is a request of a slot.
type question struct {
	kind      *kind
	operation celgate.Operation
	sub       string // subresource
	object    map[string]any
	managers  any // see creation
	user      celgate.UserInfo
}

// stripServerFields returns a copy of a manifest without the fields that the server sets.
func stripServerFields(manifest map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(manifest)
	metadata, _ := out["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink",
		"managedFields", "generateName", "finalizers"} {
		delete(metadata, name)
	}
	return out
}

// withName returns a bare manifest with a token in its name.
func withName(manifest map[string]any, token string) map[string]any {
	out := stripServerFields(manifest)
	metadata, _ := out["metadata"].(map[string]any)
	name := fmt.Sprint(metadata["name"], "-", token)
	metadata["name"] = name
	if out["kind"] == "CustomResourceDefinition" { // which is called after its group
		spec, _ := out["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		if group, ok := strings.CutPrefix(name, fmt.Sprint(names["plural"], ".")); ok {
			spec["group"] = group
		}
	}
	return out
}

// nameOf returns namespace and name of an object.
func nameOf(object map[string]any) (namespace, name string) {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ = metadata["namespace"].(string)
	name, _ = metadata["name"].(string)
	return namespace, name
}

// isolate returns a case whose policy matches only objects of the slot.
func (s *slot) isolate(c *Case) *Case {
	policy, binding := runtime.DeepCopyJSON(c.Policy), runtime.DeepCopyJSON(c.Binding)
	var names []any
	if s.old != nil {
		_, name := nameOf(s.old)
		names = append(names, name)
	}
	for _, q := range s.questions {
		if _, name := nameOf(q.object); name != "" && !slices.Contains(names, any(name)) {
			names = append(names, name)
		}
	}
	spec, _ := policy["spec"].(map[string]any)
	constraints, _ := spec["matchConstraints"].(map[string]any)
	rules, _ := constraints["resourceRules"].([]any)
	for _, rule := range rules {
		if rule, ok := rule.(map[string]any); ok {
			rule["resourceNames"] = names
		}
	}
	policy["metadata"] = map[string]any{"name": "policy-" + s.token}
	binding["metadata"] = map[string]any{"name": "binding-" + s.token}
	if bound, ok := binding["spec"].(map[string]any); ok {
		bound["policyName"] = "policy-" + s.token
		ref, _ := bound["paramRef"].(map[string]any)
		if selector, ok := ref["selector"].(map[string]any); ok &&
			len(selector) == 0 { // not the objects of other slots
			ref["selector"] = map[string]any{"matchLabels": map[string]any{"kind": "limits"}}
		}
	}
	return &Case{policy, binding}
}

// corpusCase returns a question as a case of the corpus.
func (s *slot) corpusCase(q *question) *conformance.Case {
	r := q.kind.resource
	c := &conformance.Case{Policies: []map[string]any{s.c.Policy, s.c.Binding}, Object: q.object,
		Request: &conformance.Request{
			Operation: string(
				q.operation,
			), APIVersion: r.GroupVersion().String(), Resource: r.Resource, Subresource: q.sub,
			User: q.user.Username, UID: q.user.UID, Groups: q.user.Groups, Extra: q.user.Extra,
			DryRun: q.operation != celgate.Connect,
		},
	}
	main := q.object
	if q.operation != celgate.Create {
		c.Old = s.stored
		main = s.stored
	}
	c.Request.Namespace, c.Request.Name = nameOf(main)
	if q.operation == celgate.Update { // unconditional updates are not for all kinds
		c.Object = maps.Clone(q.object)
		metadata, _ := q.object["metadata"].(map[string]any)
		own := maps.Clone(metadata)
		stored, _ := s.stored["metadata"].(map[string]any)
		own["resourceVersion"] = stored["resourceVersion"]
		c.Object["metadata"] = own
	}
	return c
}

// withManagedFields returns the case with the managedFields of the object.
func (q *question) withManagedFields(c *conformance.Case) *conformance.Case {
	if q.managers == nil {
		return c
	}
	own := *c
	own.Object = maps.Clone(c.Object)
	metadata, _ := c.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["managedFields"] = q.managers
	own.Object["metadata"] = metadata
	return &own
}

// createOnly reports kinds whose objects would affect other requests on the server.
func createOnly(k *kind) bool {
	return isUnseen(k) || k.resource.Group == "apiextensions.k8s.io" || k.resource.Group == "apiregistration.k8s.io"
}

// isUnseen reports kinds without webhook calls for their requests.
func isUnseen(k *kind) bool { return k.resource.Group == policyGroup }

// refill makes the pools of an epoch.
func (l *Live) refill(ctx context.Context, seed uint64, epoch int) error {
	if l.epoch == epoch {
		return nil
	}
	pools := make([]*pool, len(l.world.kinds))
	err := corpus.Each(len(pools), func(i int) (err error) {
		g, k := l.world.generator(^seed, 1<<48|uint64(i)<<32|uint64(epoch)), l.world.kinds[i]
		pools[i], err = l.fill(ctx, k, fmt.Sprintf("pool%d", i), func() map[string]any { return k.templates[0] },
			func(manifest map[string]any) map[string]any {
				return g.decorate(k.typ, manifest, 1+g.IntN(5))
			},
		)
		if err == nil && len(pools[i].creates) == 0 {
			err = fmt.Errorf("the server does not take the %s of world/objects.yaml: %s", k.resource.Kind,
				pools[i].refusal)
		}
		return err
	})
	if err != nil {
		return err
	}
	l.pools, l.epoch = map[*kind]*pool{}, epoch
	for i, k := range l.world.kinds {
		l.pools[k] = pools[i]
	}
	return nil
}

const (
	poolCreates = 8
	poolUpdates = 2
	poolNews    = 5
)

// fill makes a pool of a kind. Its objects are variants of manifests, the first one the manifest itself.
func (l *Live) fill(ctx context.Context, k *kind, token string, manifest func() map[string]any,
	vary func(map[string]any) map[string]any) (*pool, error) {
	try := func(operation celgate.Operation, object, stored map[string]any) (map[string]any, *metav1.Status, error) {
		s := &slot{kind: k, c: &Case{}, stored: stored}
		return l.recorder.Try(ctx, s.corpusCase(
			&question{kind: k, operation: operation, object: withName(object, token), user: liveUsers[0]}))
	}
	p := &pool{}
	for tries := 0; len(p.creates) < poolCreates && tries < 5*poolCreates; tries++ {
		manifest := manifest()
		if tries > 0 {
			manifest = vary(manifest)
		}
		if !k.resource.Namespaced {
			metadata, _ := manifest["metadata"].(map[string]any)
			delete(metadata, "namespace")
		}
		created, refusal, err := try(celgate.Create, manifest, nil)
		switch {
		case err != nil:
			return nil, err
		case created != nil:
			metadata, _ := created["metadata"].(map[string]any)
			p.creates = append(p.creates, creation{manifest, metadata["managedFields"]})
		default:
			p.refusal = refusal.Message
		}
	}
	if len(p.creates) == 0 || createOnly(k) {
		return p, nil
	}
	for i := range poolUpdates {
		u := update{old: maps.Clone(p.creates[(i*poolCreates/2+1)%len(p.creates)].manifest)}
		delete(u.old, "status") // whose rules are others
		stored, err := l.recorder.Keep(ctx, withName(u.old, token))
		if corpus.IsRefusal(err) { // conflicts that dry runs do not detect, such as a taken port
			continue
		}
		if err != nil {
			return nil, err
		}
		for tries := 0; len(u.news) < poolNews && tries < 4*poolNews; tries++ {
			next := u.old
			if tries > 0 {
				next = vary(u.old)
			}
			updated, _, err := try(celgate.Update, next, stored)
			if err != nil {
				return nil, err
			}
			if updated != nil {
				u.news = append(u.news, next)
			}
		}
		if err := l.recorder.Remove(ctx, stored); err != nil {
			return nil, err
		}
		if len(u.news) > 0 {
			p.updates = append(p.updates, u)
		}
	}
	return p, nil
}

// slot makes a policy and its requests.
func (l *Live) slot(g *generator, k *kind, token string, requests int) *slot {
	s := &slot{kind: k, token: token}
	p := l.pools[k]
	var u update
	if len(p.updates) > 0 {
		u = pick(g, p.updates...)
		s.old = withName(u.old, token+"-old")
	}
	for range requests {
		q := &question{kind: k, operation: celgate.Create, user: pick(g, liveUsers...)}
		if s.old != nil {
			q.operation = pick(g, celgate.Create, celgate.Create, celgate.Create, celgate.Create, celgate.Update,
				celgate.Update, celgate.Update, celgate.Delete)
		}
		switch q.operation {
		case celgate.Create:
			c := pick(g, p.creates...)
			q.object, q.managers = withName(c.manifest, token), c.managers
		case celgate.Update:
			q.object = withName(pick(g, u.news...), token+"-old")
			l.narrow(g, q)
		}
		s.questions = append(s.questions, q)
	}
	sample := s.questions[0].object
	if sample == nil || s.questions[0].sub != "" {
		sample = s.old
	}
	s.c = s.isolate(g.policy(k, &object{tree: l.prepare(k, sample)}))
	return s
}

// narrow makes some updates ones of a subresource.
func (l *Live) narrow(g *generator, q *question) {
	switch r := q.kind.resource; g.IntN(5) {
	case 0:
		if status := r.Subresource("status"); status != nil && status.Kind == r.GroupVersionKind() {
			q.sub = status.Name
		}
	case 1:
		if scale := r.Subresource("scale"); scale != nil {
			q.sub = scale.Name
		}
	}
	g.narrow(q, nil)
}

// narrow gives an update the object of its subresource.
func (g *generator) narrow(q *question, old map[string]any) {
	switch q.sub {
	case "scale":
		scale := q.kind.resource.Subresource(q.sub)
		namespace, name := nameOf(q.object)
		q.object = map[string]any{
			"apiVersion": scale.Kind.GroupVersion().String(), "kind": scale.Kind.Kind,
			"metadata": map[string]any{"name": name, "namespace": namespace},
			"spec":     map[string]any{"replicas": int64(g.IntN(4))},
		}
	case "ephemeralcontainers":
		q.object = runtime.DeepCopyJSON(old)
		spec, _ := q.object["spec"].(map[string]any)
		container := map[string]any{"name": "debug", "image": "registry.example.com/debug:1"}
		if elem := q.kind.typ.Field("spec").Type.Field("ephemeralContainers").Type.Elem; g.chance(60) {
			g.change(elem, container, 1)
		}
		spec["ephemeralContainers"] = []any{container}
	}
}

// prepare returns a manifest as policies see it.
func (l *Live) prepare(k *kind, manifest map[string]any) map[string]any {
	namespace, _ := nameOf(manifest)
	result, err := prepare.Object(prepare.Input{Types: l.world.types, Resource: k.resource, Operation: "CREATE",
		Namespace: namespace, Object: manifest})
	if err != nil {
		return manifest
	}
	return result.Object
}

// A finding is the result of a round for one question, or for the creation of a slot's policies if the question is nil.
type finding struct {
	slot     *slot
	question *question
	want     *conformance.Want
	diff     string
	compared bool // false if the server's registry refused the request before policies were evaluated
	mutated  bool // the policy changed the object
	several  bool // the server's answer varies
}

// round puts the slots in force and sends all their requests.
func (l *Live) round(ctx context.Context, slots []*slot) ([]finding, error) {
	err := corpus.Each(len(slots), func(i int) (err error) {
		s := slots[i]
		if s.old == nil {
			return nil
		}
		if s.stored, err = l.recorder.Keep(ctx, s.old); corpus.IsRefusal(
			err,
		) { // another slot uses a resource that it needs, such as a port
			s.old, err = nil, nil
			s.questions = slices.DeleteFunc(s.questions,
				func(q *question) bool { return q.operation != celgate.Create })
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	cases := make([]*conformance.Case, len(slots))
	existing := slices.Clone(l.exists)
	for i, s := range slots {
		cases[i] = &conformance.Case{Policies: []map[string]any{s.c.Policy, s.c.Binding}}
		if s.stored != nil {
			existing = append(existing, s.stored)
		}
	}
	world := &conformance.World{Minor: l.world.minor, Types: l.world.types}
	if world.Cluster, err = state.New(l.world.types, existing...); err != nil {
		return nil, err
	}
	rejected, err := l.recorder.Enforce(ctx, cases)
	if err != nil {
		return nil, err
	}
	if err := corpus.Each(len(l.stored), func(i int) error { return l.recorder.Remove(ctx, l.stored[i]) }); err != nil {
		return nil, err
	}
	l.stored = existing[len(l.exists):]
	findings := make([][]finding, len(slots))
	err = corpus.Each(len(slots), func(i int) (err error) {
		findings[i], err = l.ask(ctx, world, slots[i], rejected[i])
		return err
	})
	return slices.Concat(findings...), err
}

// ask sends the requests of a slot.
func (l *Live) ask(ctx context.Context, world *conformance.World, s *slot, rejected []conformance.Rejection) ([]finding,
	error) {
	engine, ours, err := world.Engine([]map[string]any{s.c.Policy, s.c.Binding})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.token, err)
	}
	if len(rejected)+len(ours) > 0 {
		want := &conformance.Want{Rejected: rejected}
		diff := conformance.Compare(settledWant(want), settledWant(&conformance.Want{Rejected: ours}))
		return []finding{{slot: s, want: want, diff: diff, compared: true}}, nil
	}
	var findings []finding
	for _, q := range s.questions {
		c := s.corpusCase(q)
		got := &conformance.Want{}
		mutating, err := world.Answer(ctx, engine, q.withManagedFields(c), got)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.token, err)
		}
		got = settledWant(got)
		f := finding{slot: s, question: q, mutated: mutating != nil && mutating.Mutated}
		for try := range 40 { // answers that vary on the server soon repeat
			seen, err := l.recorder.Ask(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.token, err)
			}
			diff, compared := s.compare(seen, got, mutating)
			if try == 0 {
				f.want, f.diff, f.compared = seen.Want, diff, compared
			}
			if diff == "" {
				f.several, f.diff = try > 0, ""
				break
			}
		}
		findings = append(findings, f)
	}
	return findings, nil
}

// compare returns the differences between the answers, and whether they were comparable.
func (s *slot) compare(seen *corpus.Observation, got *conformance.Want, mutating *celgate.Decision) (diff string,
	compared bool) {
	if seen.Panic {
		if got.Status == nil || got.Status.Code != 500 {
			return "- the server panics\n", true
		}
		return "", true
	}
	want := settledWant(seen.Want)
	diff = conformance.Compare(want, got)
	// Webhooks are not called for their own configurations, so the object after the mutating phase is not visible.
	if diff == "" || want.Status == nil || !seen.Passed && !isUnseen(s.kind) ||
		strings.Contains(want.Status.Message, "policy-"+s.token) {
		return diff, true
	}
	// The registry refused the result of the mutating phase, which celgate does not predict.
	if s.c.Policy["kind"] != "MutatingAdmissionPolicy" || isUnseen(s.kind) {
		return "", false
	}
	if mutating == nil || !mutating.Allowed {
		return diff, true
	}
	object := conformance.Settle(mutating.Object)
	if object != nil && seen.Mutated != nil {
		object["kind"] = seen.Mutated["kind"] // webhooks see the kind of the request, even if a patch changed it
	}
	return conformance.Compare(settledWant(&conformance.Want{Object: seen.Mutated}),
		settledWant(&conformance.Want{Object: object})), true
}

// settledWant returns an answer without accepted differences.
func settledWant(w *conformance.Want) *conformance.Want {
	made := func(text string) string {
		text = madeAddress.ReplaceAllString(text, "<address>")
		return currentTime.ReplaceAllString(madeUID.ReplaceAllString(text, "<uid>"), "<time>")
	}
	settle := func(text string) string { return made(settledText(text)) }
	status := func(of *metav1.Status) *metav1.Status {
		if of == nil {
			return nil
		}
		s := (&answer{Status: of}).settle().Status
		s.Message = settle(s.Message)
		if s.Details != nil {
			for i := range s.Details.Causes {
				s.Details.Causes[i].Message = settle(s.Details.Causes[i].Message)
			}
		}
		return s
	}
	s := *w
	s.Status = status(w.Status)
	s.Rejected = slices.Clone(w.Rejected)
	for i, r := range s.Rejected {
		s.Rejected[i].Status = status(r.Status)
	}
	s.Warnings = slices.Clone(w.Warnings)
	for i, text := range s.Warnings {
		s.Warnings[i] = settle(text)
	}
	s.AuditAnnotations = maps.Clone(w.AuditAnnotations)
	for key, text := range s.AuditAnnotations {
		s.AuditAnnotations[key] = settle(text)
	}
	s.Object, _ = mapStrings(w.Object, made).(map[string]any)
	s.Mutated, _ = mapStrings(w.Mutated, made).(map[string]any)
	return &s
}

// mapStrings returns a copy of a tree with every string replaced.
func mapStrings(tree any, by func(string) string) any {
	switch v := tree.(type) {
	case string:
		return by(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = mapStrings(item, by)
		}
		return out
	case map[string]any:
		if v == nil {
			return v
		}
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = mapStrings(item, by)
		}
		return out
	}
	return tree
}

var (
	madeAddress = regexp.MustCompile(`10\.(?:0|96)\.[0-9]{1,3}\.[0-9]{1,3}\b`) // of a Service

	madeUID     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	currentTime = regexp.MustCompile(
		`20(?:2[6-9]|[3-9][0-9])-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z`,
	) // of no generated object
)

// A LiveRun is one comparison with a live server.
type LiveRun struct {
	Run
	Rounds int     // ends after so many; 0: no limit
	Slots  int     // policies of a round
	Share  float64 // of the time, at most 1; the rest is left to others
	Whole  bool    // differences are printed as they were found, not made smaller
}

// LiveTotals are the counts of a run on a live server.
type LiveTotals struct {
	Seed     uint64 `json:"seed"`
	Rounds   int    `json:"rounds"`
	Policies int    `json:"policies"`
	// policies that the server refused to store; each is a comparison, of the messages
	Rejected    int `json:"rejected"`
	Comparisons int `json:"comparisons"`
	Denied      int `json:"denied"`
	Mutated     int `json:"mutated"`
	Annotated   int `json:"annotated"`
	Unordered   int `json:"unordered"`
	// requests that the registry refused before policies saw them: not compared
	Refused     int `json:"refused"`
	Unmade      int `json:"unmade,omitempty"` // policies of which the server took no object
	Differences int `json:"differences"`
}

// epochRounds is how many rounds use the same objects.
const epochRounds = 8

// Do compares until the time is over.
func (r *LiveRun) Do(ctx context.Context, l *Live) (*LiveTotals, error) {
	t := &LiveTotals{Seed: r.Seed}
	start := time.Now()
	for i := int(r.First); ; i++ {
		if r.Time > 0 && time.Since(start) > r.Time || r.Rounds > 0 && t.Rounds >= r.Rounds ||
			t.Differences >= r.Limit || ctx.Err() != nil {
			return t, nil
		}
		began := time.Now()
		if err := r.compareRound(ctx, l, i, t); err != nil {
			if ctx.Err() != nil {
				return t, nil
			}
			return t, fmt.Errorf("round %d of seed %d: %w", i, r.Seed, err)
		}
		if rest := time.Duration(float64(time.Since(began)) * (1/r.Share - 1)); rest > 0 &&
			(r.Time == 0 || time.Since(start)+rest < r.Time) {
			select {
			case <-ctx.Done():
			case <-time.After(rest):
			}
		}
	}
}

// compareRound compares one round.
func (r *LiveRun) compareRound(ctx context.Context, l *Live, index int, t *LiveTotals) error {
	if err := l.refill(ctx, r.Seed, index/epochRounds); err != nil {
		return err
	}
	var slots []*slot
	for i := range r.Slots {
		number := index*r.Slots + i
		k := l.world.kinds[number%len(l.world.kinds)]
		if r.Only != "" && k.resource.Kind != r.Only {
			continue
		}
		g := l.world.generator(r.Seed, 1<<63|uint64(number))
		slots = append(slots, l.slot(g, k, "q"+strconv.FormatInt(int64(number), 36), r.Requests))
	}
	return r.compare(ctx, l, index, slots, t)
}

// compare compares the slots of a round, and prints the differences.
func (r *LiveRun) compare(ctx context.Context, l *Live, index int, slots []*slot, t *LiveTotals) error {
	findings, err := l.round(ctx, slots)
	if err != nil {
		return err
	}
	t.Rounds++
	t.Policies += len(slots)
	var different []finding
	for _, f := range findings {
		t.count(f)
		if f.diff != "" && (len(different) == 0 || different[len(different)-1].slot != f.slot) {
			different = append(different, f)
		}
	}
	for _, f := range different {
		t.Differences++
		fmt.Fprintf(r.Out, "DIFFERENCE %d on the live server: %s in round %d of seed %d\n- server + celgate\n%s\n",
			t.Differences, f.slot.token, index, r.Seed, f.diff)
		if r.Whole {
			fmt.Fprintln(r.Out, l.report(f))
			continue
		}
		small, err := l.shrink(ctx, f)
		if err != nil {
			return err
		}
		fmt.Fprintf(r.Out, "DIFFERENCE %d, smaller:\n%s\n%s\n", t.Differences, small.diff, l.report(small))
	}
	return nil
}

func (t *LiveTotals) count(f finding) {
	switch {
	case f.question == nil:
		t.Policies--
		t.Rejected++
	case !f.compared:
		t.Refused++
		return
	}
	t.Comparisons++
	if f.several {
		t.Unordered++
	}
	if f.question == nil {
		return
	}
	switch {
	case f.want.Status != nil:
		t.Denied++
	case f.mutated:
		t.Mutated++
	}
	if len(f.want.Warnings)+len(f.want.AuditAnnotations) > 0 {
		t.Annotated++
	}
}
