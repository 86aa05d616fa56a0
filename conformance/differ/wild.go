package differ

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/corpus"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A Wild is a live server with handwritten policies: those of folders, each with objects of its matched kinds near its
// fields and values.
//
// Each slot of a round contains one policy with one of its bindings, and its rules get the names of the slot's objects,
// as in [Live]. The rest of the policy does not change. Namespaces and params are generated if the folders do not
// contain them.
type Wild struct {
	*Live
	units   []*unit
	Skipped []string // skipped policies, with the reasons
}

// A unit is a policy of a folder with one of its bindings.
type unit struct {
	origin     string
	number     int
	c          *Case
	policy     *policy.Policy
	binding    *policy.Binding // nil if it cannot be read
	topic      *topic
	targets    map[*kind][]target
	kinds      []*kind  // of targets, in their order
	namespaces []string // where its objects are

	pool *pool // of a kind and an epoch
	kind *kind
	age  int
}

// A target is a kind of request that the rules of a policy match.
type target struct {
	operation celgate.Operation
	sub       string
}

// A find is one object of a folder. Policies belong to the bindings of the same folder, or of the same case of the
// corpus.
type find struct {
	scope, file string
	object      map[string]any
}

// StartWild starts a server and makes a world of the policies of folders in it.
func StartWild(ctx context.Context, folders ...string) (_ *Wild, err error) {
	w := &Wild{}
	var finds []find
	for _, folder := range folders {
		found, err := w.read(folder)
		if err != nil {
			return nil, err
		}
		finds = append(finds, found...)
	}
	if err := w.pair(finds); err != nil {
		return nil, err
	}
	if w.Live, err = startWorld(ctx, celgate.Newest); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.Stop()
		}
	}()
	if err := w.define(ctx, finds); err != nil {
		return nil, err
	}
	w.addTemplates(finds)
	params := w.paramKinds()
	if err := w.populate(ctx, finds, params); err != nil {
		return nil, err
	}
	w.aim()
	if len(w.units) == 0 {
		return nil, fmt.Errorf("no policy that can be asked about in %s", strings.Join(folders, ", "))
	}
	return w, w.warm(ctx, params)
}

// Policies returns the number of tested policies, counted once for each of their bindings.
func (w *Wild) Policies() int { return len(w.units) }

func (w *Wild) skip(format string, args ...any) {
	w.Skipped = append(w.Skipped, fmt.Sprintf(format, args...))
}

// read returns the objects of a folder, also those of cases of the corpus.
func (w *Wild) read(folder string) ([]find, error) {
	var finds []find
	for document, problem := range (manifest.Loader{}).Documents(folder) {
		switch {
		case problem != nil && !problem.Warning:
			w.skip("%s", problem.Error())
		case problem == nil:
			finds = append(finds, find{filepath.Dir(document.Source.File), document.Source.File, document.Object})
		}
	}
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".txtar" {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		c, err := conformance.Parse(file, content)
		if err != nil {
			w.skip("%s: %v", file, err)
			return nil
		}
		for _, object := range slices.Concat(c.Policies, c.State, []map[string]any{c.Old, c.Object}) {
			if object != nil {
				finds = append(finds, find{file, file, object})
			}
		}
		return nil
	})
	return finds, err
}

const admissionV1 = policyGroup + "/v1"

// policyKind returns the kind of a policy or of the policy of a binding, "" if the object is neither.
func policyKind(object map[string]any) (kind string, binding bool) {
	kind, _ = object["kind"].(string)
	kind, binding = strings.CutSuffix(kind, "Binding")
	if group := kindOf(object).Group; group != policyGroup ||
		kind != string(policy.Validating) && kind != string(policy.Mutating) {
		return "", false
	}
	return kind, binding
}

// pair makes the units: every policy with each binding that its folder has for it, or with one that binds it
// everywhere.
func (w *Wild) pair(finds []find) error {
	envs, err := celenv.New(celgate.Newest, quirks.SetOf(celgate.Newest))
	if err != nil {
		return err
	}
	type key struct{ scope, kind, name string }
	bindings := map[key][]map[string]any{}
	for _, f := range finds {
		if kind, binding := policyKind(f.object); binding {
			spec, _ := f.object["spec"].(map[string]any)
			k := key{f.scope, kind, fmt.Sprint(spec["policyName"])}
			bindings[k] = append(bindings[k], f.object)
		}
	}
	seen := map[string]bool{}
	for _, f := range finds {
		kind, binding := policyKind(f.object)
		if kind == "" || binding {
			continue
		}
		_, name := nameOf(f.object)
		bound := bindings[key{f.scope, kind, name}]
		if len(bound) == 0 {
			bound = []map[string]any{boundEverywhere(f.object)}
		}
		for _, b := range bound {
			// The server does not use the rest of the metadata. Every version has the same form.
			c := &Case{
				Policy:  map[string]any{"apiVersion": admissionV1, "kind": kind, "spec": f.object["spec"]},
				Binding: map[string]any{"apiVersion": admissionV1, "kind": kind + "Binding", "spec": b["spec"]},
			}
			text, err := json.Marshal([]any{kind, c.Policy["spec"], c.Binding["spec"]})
			if err != nil {
				return err
			}
			if seen[string(text)] {
				continue
			}
			seen[string(text)] = true
			u := &unit{origin: f.file + ": " + name, c: c}
			if u.policy, _, err = policy.FromObject(c.Policy, nil); err != nil {
				w.skip("%s: %v", u.origin, err)
				continue
			}
			if _, u.binding, err = policy.FromObject(c.Binding, nil); err != nil {
				w.skip("%s: %v", u.origin, err)
				continue
			}
			if u.topic, err = topicOf(envs, u.policy); err != nil {
				return err
			}
			w.units = append(w.units, u)
		}
	}
	return nil
}

// boundEverywhere makes a binding for a policy that has none.
func boundEverywhere(object map[string]any) map[string]any {
	spec := map[string]any{"policyName": "policy"}
	if kind, _ := policyKind(object); kind == string(policy.Validating) {
		spec["validationActions"] = []any{"Deny", "Audit"}
	}
	if own, _ := object["spec"].(map[string]any); own["paramKind"] != nil {
		spec["paramRef"] = map[string]any{"name": "params", "parameterNotFoundAction": "Deny"}
	}
	return map[string]any{"spec": spec}
}

// define creates the CustomResourceDefinitions on the server, one for each name, without those that need a webhook.
func (w *Wild) define(ctx context.Context, finds []find) error {
	base, held := w.world.types, map[any]bool{}
	for _, definition := range w.world.definitions {
		metadata, _ := definition["metadata"].(map[string]any)
		held[metadata["name"]] = true
	}
	for _, f := range finds {
		spec, _ := f.object["spec"].(map[string]any)
		conversion, _ := spec["conversion"].(map[string]any)
		_, name := nameOf(f.object)
		if f.object["apiVersion"] != "apiextensions.k8s.io/v1" || f.object["kind"] != "CustomResourceDefinition" ||
			held[name] || conversion["strategy"] == "Webhook" {
			continue
		}
		held[name] = true
		types, err := base.WithCustomResources(append(slices.Clone(w.world.definitions), f.object)...)
		if err != nil {
			w.skip("%s: %v", f.file, err)
			continue
		}
		switch _, err := w.recorder.Keep(ctx, f.object); {
		case corpus.IsRefusal(err):
			w.skip("%s: %v", f.file, err)
		case err != nil:
			return err
		default:
			w.world.types, w.world.definitions = types, append(w.world.definitions, f.object)
		}
	}
	return nil
}

// addTemplates creates templates for objects from the folders, and generates them for further kinds.
func (w *Wild) addTemplates(finds []find) {
	kinds := map[schema.GroupVersionKind]*kind{}
	for _, k := range w.world.kinds {
		kinds[k.resource.GroupVersionKind()] = k
	}
	add := func(gvk schema.GroupVersionKind) *kind {
		if kinds[gvk] == nil {
			r, typ := w.world.types.ResourceFor(gvk), w.world.types.Type(gvk)
			if r != nil && !r.NotServed && !r.OffByDefault && typ != nil {
				kinds[gvk] = &kind{resource: r, typ: typ}
				w.world.kinds = append(w.world.kinds, kinds[gvk])
			}
		}
		return kinds[gvk]
	}
	for _, f := range finds {
		metadata, _ := f.object["metadata"].(map[string]any)
		if isPolicy, _ := policyKind(f.object); isPolicy != "" || metadata == nil {
			continue
		}
		if k := add(kindOf(f.object)); k != nil && k.resource.Group != "apiextensions.k8s.io" {
			k.templates = append(k.templates, f.object)
		}
	}
	for _, r := range w.world.types.Resources() {
		if r.Definition != nil {
			add(r.GroupVersionKind())
		}
	}
	for i, k := range w.world.kinds {
		if len(k.templates) == 0 {
			g := w.world.generator(37, uint64(i))
			made := g.members(k.typ, 1)
			made["apiVersion"], made["kind"] = k.resource.GroupVersion().String(), k.resource.Kind
			k.templates = append(k.templates, made)
		}
		for i, t := range k.templates { // every one has a name
			t = maps.Clone(t)
			metadata, _ := t["metadata"].(map[string]any)
			if metadata = maps.Clone(metadata); metadata == nil {
				metadata = map[string]any{}
			}
			if name, _ := metadata["name"].(string); name == "" || len(name) > 40 {
				metadata["name"] = "made"
			}
			t["metadata"] = metadata
			k.templates[i] = t
		}
	}
}

// paramKinds returns the kinds of params that the server can know.
func (w *Wild) paramKinds() map[schema.GroupVersionKind]bool {
	params := map[schema.GroupVersionKind]bool{{Version: "v1", Kind: "ConfigMap"}: true}
	for _, u := range w.units {
		if kind, ok := u.paramKind(); ok && w.world.types.ResourceFor(kind) != nil {
			params[kind] = true
		}
	}
	return params
}

func (u *unit) paramKind() (kind schema.GroupVersionKind, ok bool) {
	if u.policy.ParamKind == nil {
		return kind, false
	}
	return kindOf(map[string]any{"apiVersion": u.policy.ParamKind.APIVersion, "kind": u.policy.ParamKind.Kind}), true
}

// populate creates namespaces, params and permissions: those of the folders, and others that the policies require.
func (w *Wild) populate(ctx context.Context, finds []find, params map[schema.GroupVersionKind]bool) error {
	held := map[string]bool{}
	for _, object := range w.exists {
		held[idOf(object)] = true
	}
	for _, f := range finds {
		if f.object["apiVersion"] == "v1" && f.object["kind"] == "Namespace" {
			if err := w.keep(ctx, held, stripServerFields(f.object)); err != nil {
				return err
			}
		}
	}
	if err := w.keepNamespaces(ctx, held); err != nil {
		return err
	}
	var more []map[string]any
	for _, f := range finds {
		if kind := kindOf(f.object); params[kind] && kind.Kind != "Namespace" ||
			kind.Group == "rbac.authorization.k8s.io" {
			own, name := nameOf(f.object)
			if r := w.world.types.ResourceFor(kind); name == "" || r != nil && r.Namespaced && own == "" {
				continue
			}
			more = append(more, stripServerFields(f.object))
		}
	}
	for _, u := range w.units {
		more = append(more, w.paramsFor(u)...)
	}
	for _, object := range more {
		if own, _ := nameOf(object); own != "" {
			if err := w.keep(ctx, held, namespace(own, nil, nil)); err != nil {
				return err
			}
		}
		if err := w.keep(ctx, held, object); err != nil {
			return err
		}
	}
	return nil
}

// keep makes an object exist, unless one of its kind and name is held.
func (w *Wild) keep(ctx context.Context, held map[string]bool, object map[string]any) error {
	if r := w.world.types.ResourceFor(kindOf(object)); r == nil || held[idOf(object)] {
		return nil
	} else if metadata, _ := object["metadata"].(map[string]any); !r.Namespaced {
		delete(metadata, "namespace")
	}
	held[idOf(object)] = true
	stored, err := w.recorder.Keep(ctx, object)
	if corpus.IsRefusal(err) {
		w.skip("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	w.exists = append(w.exists, stored)
	if kindOf(object).Group == "rbac.authorization.k8s.io" {
		w.further = append(w.further, object)
	} else {
		w.world.state = append(w.world.state, object)
	}
	return nil
}

// keepNamespaces creates the namespaces that each unit requires.
func (w *Wild) keepNamespaces(ctx context.Context, held map[string]bool) error {
	for _, u := range w.units {
		u.namespaces = []string{"default", "shop", "test"}
		for i, made := range w.namespacesFor(u) {
			metadata, _ := made["metadata"].(map[string]any)
			name, _ := metadata["name"].(string)
			if name == "" {
				name = fmt.Sprintf("near-%d-%d", len(held), i)
			}
			labels, _ := metadata["labels"].(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			if err := w.keep(ctx, held, namespace(name, labels, annotations)); err != nil {
				return err
			}
			if held["/v1, Kind=Namespace /"+name] {
				u.namespaces = append(u.namespaces, name)
			}
		}
	}
	return nil
}

func namespace(name string, labels, annotations map[string]any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": name, "labels": labels, "annotations": annotations,
	}}
}

// idOf names an object by its kind, namespace and name.
func idOf(object map[string]any) string {
	namespace, name := nameOf(object)
	return fmt.Sprint(kindOf(object), " ", namespace, "/", name)
}

// namespacesFor makes namespaces that a policy and its binding select, or speak of. Those without a name get one.
func (w *Wild) namespacesFor(u *unit) []map[string]any {
	var all []map[string]any
	add := func(metadata map[string]any) { all = append(all, map[string]any{"metadata": metadata}) }
	chosen := map[string]any{"metadata": map[string]any{}}
	for _, m := range []*policy.MatchResources{u.policy.MatchConstraints, u.binding.MatchResources} {
		if m != nil {
			addSelected(chosen, m.NamespaceSelector)
		}
	}
	if metadata, _ := chosen["metadata"].(map[string]any); metadata["labels"] != nil {
		labels, _ := metadata["labels"].(map[string]any)
		metadata["name"] = labels["kubernetes.io/metadata.name"]
		add(metadata)
	}
	t := u.topic
	g := w.world.generator(38, uint64(len(t.texts)))
	g.texts, g.numbers = t.texts, t.numbers
	if paths := t.paths["namespaceObject"]; len(paths) > 0 {
		typ := w.world.types.Type(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		for range 3 {
			made := g.nearManifest(typ, map[string]any{"metadata": map[string]any{}}, paths)
			metadata, _ := made["metadata"].(map[string]any)
			add(map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]})
		}
	}
	if t.speaksOf("request", "namespace") || t.speaksOf("namespaceObject", "metadata", "name") {
		for _, text := range t.texts {
			if len(validation.IsDNS1123Label(text)) == 0 && len(all) < 6 {
				add(map[string]any{"name": text})
			}
		}
	}
	return all
}

// paramsFor makes the params that a binding refers to.
func (w *Wild) paramsFor(u *unit) []map[string]any {
	kind, ok := u.paramKind()
	r := w.world.types.ResourceFor(kind)
	ref := u.binding.ParamRef
	if !ok || r == nil || ref == nil || kind.Kind == "Namespace" {
		return nil
	}
	namespaces := []string{""}
	if r.Namespaced {
		if namespaces = []string{ref.Namespace}; ref.Namespace == "" {
			namespaces = u.namespaces[1:] // not in default, so that they are missed somewhere
		}
	}
	g := w.world.generator(39, uint64(len(u.topic.texts)))
	g.texts, g.numbers = u.topic.texts, u.topic.numbers
	var all []map[string]any
	for i, namespace := range namespaces {
		var template map[string]any
		for _, k := range w.world.kinds {
			if k.resource == r {
				template = k.templates[0]
			}
		}
		if template == nil {
			template = map[string]any{
				"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": map[string]any{},
			}
		}
		name := ref.Name
		if name == "" {
			name = fmt.Sprintf("params-%d", i)
		}
		made := template
		for _, p := range u.topic.paths["params"] {
			made, _ = g.put(w.world.types.Type(kind), made, p.Split()).(map[string]any)
		}
		made = stripServerFields(made)
		metadata := map[string]any{"name": name}
		if namespace != "" {
			metadata["namespace"] = namespace
		}
		made["metadata"] = metadata
		addSelected(made, ref.Selector)
		all = append(all, made)
	}
	return all
}

// aim determines the requests that the policies match, and drops policies for which it cannot generate an object.
func (w *Wild) aim() {
	var all []*unit
	for _, u := range w.units {
		u.number = len(all)
		u.targets = map[*kind][]target{}
		if u.policy.MatchConstraints == nil || len(u.policy.MatchConstraints.ResourceRules) == 0 { // never in force
			u.kinds = w.world.kinds[:1]
			u.targets[u.kinds[0]] = []target{{operation: celgate.Create}}
			all = append(all, u)
			continue
		}
		criteria := match.Compile(u.policy.MatchConstraints)
		for _, k := range w.world.kinds {
			for _, t := range targetsOf(k) {
				a := &match.Attributes{
					Kind: k.resource.GroupVersionKind(), Resource: k.resource.GroupVersionResource,
					SubResource: t.sub, Operation: string(t.operation),
				}
				if criteria.Resources(a, w.world.types) {
					u.targets[k] = append(u.targets[k], t)
				}
			}
			if len(u.targets[k]) > 0 {
				u.kinds = append(u.kinds, k)
			}
		}
		if len(u.kinds) == 0 {
			w.skip("%s: there are no objects of what its rules are about", u.origin)
			continue
		}
		all = append(all, u)
	}
	w.units = all
}

// targetsOf returns the requests about objects of a kind that can be made.
func targetsOf(k *kind) []target {
	targets := []target{{celgate.Create, ""}}
	if createOnly(k) {
		return targets
	}
	targets = append(targets, target{celgate.Update, ""}, target{celgate.Delete, ""})
	for _, sub := range k.resource.Subresources {
		switch {
		case sub.Name == "status" && sub.Kind == k.resource.GroupVersionKind(), sub.Name == "scale",
			sub.Name == "ephemeralcontainers":
			targets = append(targets, target{celgate.Update, sub.Name})
		case k.resource.Resource == "pods" && slices.Contains([]string{"exec", "attach", "portforward"}, sub.Name):
			targets = append(targets, target{celgate.Connect, sub.Name})
		}
	}
	return targets
}

// epochPasses is the number of passes of a policy over the same pool of objects.
const epochPasses = 3

// wildSlot makes a slot of a unit; nil if the server takes none of its objects. The same numbers make the same slot.
func (w *Wild) wildSlot(ctx context.Context, seed uint64, u *unit, pass, requests int, token string) (*slot, error) {
	if age := pass/epochPasses + 1; u.age != age {
		g := w.generatorFor(u, ^seed, uint64(age))
		k := pick(g, u.kinds...)
		manifest := func() map[string]any { return w.manifest(g, u, k) }
		vary := func(of map[string]any) map[string]any { return g.nearManifest(k.typ, of, u.topic.paths["object"]) }
		pool, err := w.fill(ctx, k, fmt.Sprintf("pool%d", u.number), manifest, vary)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.origin, err)
		}
		u.pool, u.kind, u.age = pool, k, age
	}
	if len(u.pool.creates) == 0 {
		return nil, nil
	}
	g := w.generatorFor(u, seed, uint64(pass))
	s := &slot{kind: u.kind, token: token}
	var news update
	if len(u.pool.updates) > 0 {
		news = pick(g, u.pool.updates...)
		s.old = withName(news.old, token+"-old")
	}
	for range requests {
		t := pick(g, u.targets[u.kind]...)
		if s.old == nil && t.operation != celgate.Create || g.chance(5) { // sometimes an object that it does not match
			t = target{operation: celgate.Create}
		}
		q := &question{kind: u.kind, operation: t.operation, sub: t.sub, user: g.user(u.topic)}
		switch {
		case t.operation == celgate.Create:
			c := pick(g, u.pool.creates...)
			q.object, q.managers = withName(c.manifest, token), c.managers
		case t.operation == celgate.Update:
			q.object = withName(pick(g, news.news...), token+"-old")
			g.narrow(q, s.old)
		case t.operation == celgate.Connect:
			q.object = g.options(u.kind.resource.Subresource(t.sub))
		}
		s.questions = append(s.questions, q)
	}
	s.c = s.isolate(u.c)
	return s, nil
}

func (w *Wild) generatorFor(u *unit, seed, index uint64) *generator {
	g := w.world.generator(seed, index<<32|uint64(u.number))
	g.texts, g.numbers = u.topic.texts, u.topic.numbers
	return g
}

// manifest draws the template of an object: with the labels that the policy selects, in one of its namespaces.
func (w *Wild) manifest(g *generator, u *unit, k *kind) map[string]any {
	manifest := stripServerFields(pick(g, k.templates...))
	metadata, _ := manifest["metadata"].(map[string]any)
	if delete(metadata, "namespace"); k.resource.Namespaced {
		metadata["namespace"] = u.namespaces[len(u.namespaces)-1]
		if g.chance(40) {
			metadata["namespace"] = pick(g, u.namespaces...)
		}
	}
	for _, m := range []*policy.MatchResources{u.policy.MatchConstraints, u.binding.MatchResources} {
		if m != nil && g.chance(90) {
			addSelected(manifest, m.ObjectSelector)
		}
	}
	return manifest
}

// options makes the options of a CONNECT.
func (g *generator) options(sub *schema.Subresource) map[string]any {
	options := map[string]any{"apiVersion": sub.Kind.GroupVersion().String(), "kind": sub.Kind.Kind}
	switch sub.Name {
	case "portforward":
		options["ports"] = []any{pick[any](g, int64(80), int64(8080))}
	case "exec":
		options["command"] = []any{pick(g, "sh", "ls"), "-c"}
		fallthrough
	default:
		for _, name := range []string{"stdin", "stdout", "tty"} {
			if g.chance(50) {
				options[name] = true
			}
		}
		if text := g.makeWord(); g.chance(50) && text != "" {
			options["container"] = text
		}
	}
	return options
}

// A WildRun is one comparison of the policies of folders.
type WildRun struct {
	LiveRun
}

// Do compares until the time is over.
func (r *WildRun) Do(ctx context.Context, w *Wild) (*LiveTotals, error) {
	t := &LiveTotals{Seed: r.Seed}
	start := time.Now()
	order := rand.New(rand.NewPCG(r.Seed, 40)).Perm(len(w.units))
	for i := int(r.First); ; i++ {
		if r.Time > 0 && time.Since(start) > r.Time || r.Rounds > 0 && t.Rounds >= r.Rounds ||
			t.Differences >= r.Limit || ctx.Err() != nil {
			return t, nil
		}
		made := make([]*slot, min(r.Slots, len(order)))
		err := corpus.Each(len(made), func(j int) (err error) {
			number := i*len(made) + j
			u := w.units[order[number%len(order)]]
			token := "q" + strconv.FormatInt(int64(number), 36)
			made[j], err = w.wildSlot(ctx, r.Seed, u, number/len(order), r.Requests, token)
			return err
		})
		slots := slices.DeleteFunc(made, func(s *slot) bool { return s == nil })
		if err == nil {
			t.Unmade += min(r.Slots, len(order)) - len(slots)
			err = r.compare(ctx, w.Live, i, slots, t)
		}
		if err != nil && ctx.Err() == nil {
			return t, fmt.Errorf("round %d of seed %d: %w", i, r.Seed, err)
		}
	}
}
