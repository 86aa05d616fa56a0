package prove

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"
)

var (
	comparisonCount = flag.Int("comparisons", 0, "how many answers of formulas and engines are compared; 0: some thousands")
	comparisonSeed  = flag.Uint64("seed", 1, "draws expressions and objects")
)

// TestAgreement compares the values of formulas with those of an engine, on random objects of several kinds: true,
// false or an error. Every prepared object must satisfy the assumed facts.
func TestAgreement(t *testing.T) {
	want := *comparisonCount
	if want == 0 {
		want = 20_000
		if testing.Short() {
			want = 4000
		}
	}
	r := room(t)
	a := newAgreement(t, r, *comparisonSeed, 7)
	rng := a.rand
	compared := map[string]int{} // by case
	for a.compared < want && !t.Failed() {
		cases := a.casesFor(agreementKinds[rng.IntN(len(agreementKinds))])
		c := cases[rng.IntN(len(cases))]
		g := &writer{rand: rng, types: r.Types, kind: c.Kind}
		roots := g.roots()
		if c.Operation == "UPDATE" {
			roots = append(roots, place{"oldObject", r.Types.Type(c.Kind)})
		}
		before := a.compared
		a.expression(c, "("+g.boolean(3, roots)+") && true") // a member alone has no bool type
		compared[c.String()] += a.compared - before
	}
	for _, name := range []string{"UPDATE v1 pods", "UPDATE v1 pods/status", "UPDATE v1 pods/ephemeralcontainers",
		"UPDATE v1 deployments/scale.apps", "UPDATE v1 services", "UPDATE v1 namespaces/finalize"} {
		if compared[name] == 0 && !testing.Short() {
			t.Errorf("%s is not compared", name)
		}
	}
	t.Log(compared)
	t.Logf("%d comparisons of %d expressions: %v, outside %v", a.compared, a.expressions, a.seen, a.outside)
}

// TestAgreementOfExamples does the same with handwritten expressions.
func TestAgreementOfExamples(t *testing.T) {
	r := room(t)
	a := newAgreement(t, r, 2, 7)
	for _, text := range agreementExpressions {
		kind, expression, _ := strings.Cut(text, ": ")
		i := slices.IndexFunc(agreementKinds, func(k schema.GroupVersionKind) bool { return k.Kind == kind })
		a.expression(a.casesFor(agreementKinds[i])[0], expression)
	}
	t.Logf("%d comparisons of %d expressions: %v, outside %v", a.compared, a.expressions, a.seen, a.outside)
}

var agreementKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Service"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, {Version: "v1", Kind: "Namespace"},
}

var agreementExpressions = []string{
	"Pod: object.spec.containers.all(c, c.image.startsWith('a/'))",
	"Pod: object.spec.containers.exists_one(c, c.image.startsWith('a/'))",
	"Pod: object.spec.containers.filter(c, has(c.securityContext)).size() == 1",
	"Pod: object.spec.containers.map(c, c.image)[0] == 'a'",
	"Pod: object.spec.containers[1].image == 'a'",
	"Pod: (object.spec.containers + object.spec.?initContainers.orValue([])).all(c, c.image.endsWith(':1'))",
	"Pod: object.spec.containers.all(c, c.?securityContext.?runAsUser.orValue(1) > 0)",
	"Pod: object.spec.containers.all(c, c.securityContext.capabilities.drop.exists(d, d == 'ALL'))",
	"Pod: object.spec.containers.all(c, 'ALL' in c.securityContext.capabilities.drop)",
	"Pod: has(object.spec.securityContext) && has(object.spec.restartPolicy) && object.spec.containers.all(c, has(c.imagePullPolicy))",
	"Pod: object.spec.volumes.all(v, !has(v.hostPath))",
	"Deployment: has(object.spec.replicas) && has(object.spec.template.spec.securityContext)",
	"Service: has(object.spec.type) && has(object.spec.sessionAffinity)",
	"Pod: object.spec.?volumes.orValue([]).all(v, has(v.configMap) || has(v.emptyDir))",
	"Pod: object.metadata.labels['a'] == 'b' && object.metadata.labels.all(k, k.startsWith('a'))",
	"Pod: object.metadata.?labels[?'a'].orValue('b') in ['b', 'c']",
	"Pod: object.metadata.labels.exists(k, object.metadata.labels[k] == 'x')",
	"Pod: has(object.spec.hostNetwork) && object.spec.hostNetwork || has(object.metadata.annotations) && size(object.metadata.annotations) > 1",
	"Pod: object.spec.containers.all(c, c.name.size() < 3)",
	"Pod: object.spec.containers.all(c, c.image.lowerAscii() == 'ab')",
	"Pod: object.spec.containers.all(c, ('x' + c.image + 'y').matches('^xa+y$'))",
	"Pod: object.spec.priority + 1 > 5 && object.spec.priority * 2 < 100",
	"Pod: object.spec.priority - 9223372036854775807 < 0",
	"Pod: object.spec.containers.all(c, c.?ports.orValue([]).all(p, p.containerPort > 1024 && p.?hostPort.orValue(0) == 0))",
	"Pod: object.spec.containers.map(c, c.image).exists(i, i == 'a')",
	"Pod: object.spec.nodeSelector == null || object.spec.nodeSelector['a'] == 'b'",
	"Pod: object.spec.containers.exists(c, c.image == c.name)",
	"Pod: object.spec.containers.all(c, c.name != object.metadata.name)",
	"Pod: request.operation == 'CREATE' && request.name == object.metadata.name && request.namespace != 'kube-system'",
	"Pod: has(request.userInfo.groups) && request.userInfo.groups.exists(g, g == 'a')",
	"Pod: oldObject == null && object != null",
	"Pod: has(oldObject.metadata)",
	"Pod: {'a': 1, 'b': 2}[object.spec.containers[0].image] == 1",
	"Pod: sets.contains(['a', 'b'], object.spec.containers.map(c, c.image))",
	"Pod: sets.intersects(object.spec.containers.map(c, c.image), ['a', 'b'])",
	"Pod: object.spec.containers.map(c, c.image) == ['a']",
	"Pod: object.spec.?securityContext.?seccompProfile.?type.optMap(x, x == 'a').orValue(false)",
	"Pod: object.spec.containers.all(i, c, i < 1 || c.image != 'a')",
	"Pod: namespaceObject.metadata.?labels[?'a'].orValue('b') == 'b'",
	"Service: object.spec.ports.all(p, p.targetPort == 80 || p.targetPort == 'http')",
	"Service: object.spec.type in ['ClusterIP', 'NodePort'] ? object.spec.ports.size() >= 1 : false",
	"Service: object.spec.?selector.orValue({}).all(k, v, k == v)",
	"ConfigMap: object.data['a'].matches('^[a-z]{2,3}$') || 'b' in object.data",
	"ConfigMap: object.?data.orValue({}).exists(k, object.data[k].contains('x'))",
	"ConfigMap: has(object.immutable) && object.immutable",
	"ClusterRole: object.rules.all(r, r.verbs.all(v, v != '*'))",
	"ClusterRole: has(object.rules) && object.rules != null && object.rules.exists(r, 'a' in r.?resources.orValue([]))",
	"Deployment: object.spec.replicas <= 5 && object.spec.replicas != 3",
	"Deployment: object.spec.selector.matchLabels == object.spec.template.metadata.labels || true",
	"Deployment: object.spec.strategy.?rollingUpdate.?maxSurge == optional.of(1) || true",
	"Deployment: object.spec.?strategy.?type.orValue('x') == 'Recreate'",
	"Ingress: object.spec.?rules.orValue([]).all(r, r.?host.orValue('').endsWith('.example.com'))",
	"Namespace: object.metadata.labels['a'] == object.metadata.name",
	"ConfigMap: int(object.data['a']) < 3 && int(object.data['a']) >= -2",
	"ConfigMap: int(object.data.a) == 12 || int(object.data.a) != 5 && 7 > int(object.data.b)",
	"ConfigMap: int('0' + object.data.a) <= 9223372036854775807",
	"Deployment: string(object.spec.replicas) == '1' || string(object.spec.replicas) in ['2', '03']",
	"Deployment: string(object.spec.replicas) == string(object.spec.minReadySeconds) || int(string(object.spec.replicas)) > 1",
	"Deployment: object.spec.replicas / 2 <= 0 && object.spec.replicas / 3 != -1 && 1 <= object.spec.replicas / 2",
	"Deployment: object.spec.replicas / 0 == 1 || 7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1",
	"Pod: object.spec.containers.map(c, c.image).sort().all(i, i != 'a')",
	"Pod: size(object.metadata.labels.map(k, k).sort().filter(k, k == 'a')) == 1",
	"Pod: 'a' in object.spec.containers.map(c, c.image).sort() && sets.contains(['a', 'b'], object.spec.containers.map(c, c.name).sort())",
	"ConfigMap: quantity(object.data.a).compareTo(quantity('500G')) <= 0",
	"ConfigMap: quantity(object.data.a).isLessThan(quantity(object.data.b)) || quantity(object.data.a) == quantity('1k')",
	"ConfigMap: isQuantity(object.data.a) && sign(quantity(object.data.a)) >= 0",
	"ConfigMap: quantity(object.data.a).add(quantity('100m')).isGreaterThan(quantity('0.2').sub(1))",
	"ConfigMap: quantity(object.data.a).sub(3).compareTo(quantity(object.data.b)) == 1",
	"Pod: object.spec.containers.all(c, quantity(c.resources.limits['cpu']).isLessThan(quantity('2')))",
	"Pod: object.spec.containers.all(c, c.resources.requests.all(k, quantity(c.resources.requests[k]).compareTo(quantity(c.resources.limits[k])) <= 0))",
	"Pod: authorizer.group('').resource('pods').namespace(object.metadata.namespace).check('get').allowed()",
	"Pod: authorizer.group('apps').resource('deployments').subresource('scale').name(object.metadata.name).check('get').allowed() || authorizer.path('/x').check('get').allowed()",
	"Pod: authorizer.requestResource.check('approve').allowed()",
	"Pod: object.spec.containers.all(c, authorizer.group('a').resource('images').name(c.image).check('use').allowed())",
	"Pod: authorizer.serviceAccount('default', 'a').group('').resource('pods').name(object.spec.nodeName).check('get').allowed()",
	"Pod: authorizer.group('').resource(' ').check('get').allowed() || authorizer.serviceAccount('A', 'a').path('/').check('get').allowed()",
}

// An agreement compares formulas with an engine.
type agreement struct {
	room                  *Room
	rand                  *rand.Rand
	t                     *testing.T
	compared, expressions int
	seen                  map[string]int // by verdict
	outside               map[string]int // by cause
	cluster               *state.Cluster // of the last questions to an authorizer
}

func newAgreement(t *testing.T, r *Room, seed, stream uint64) *agreement {
	return &agreement{room: r, rand: rand.New(rand.NewPCG(seed, stream)), t: t, seen: map[string]int{},
		outside: map[string]int{}}
}

// creation returns a request for a new object that has the members that sides read. The first side is evaluated twice:
// it may read what another one has made known.
func (a *agreement) creation(kind schema.GroupVersionKind, sides ...*Side) *request {
	m := newMachine(map[string]int{}, map[string][]string{})
	req := newRequest(m, Case{Resource: a.room.Types.ResourceFor(kind), Operation: "CREATE", Kind: kind}, a.room.Types)
	for _, s := range append(sides, sides[0]) {
		clause := s.clauses()[0]
		req.invoke(clause.program, clause.binding)
	}
	return req
}

// The number of objects for each expression. One that asks the authorizer needs a cluster for each object.
const (
	objectsOfExpression = 40
	objectsOfQuestion   = 4
)

// casesFor returns the cases of a kind and its subresources that write objects; the first one is CREATE.
func (a *agreement) casesFor(kind schema.GroupVersionKind) []Case {
	res := a.room.Types.ResourceFor(kind)
	all := []Case{{Resource: res, Operation: "CREATE", Kind: kind}, {Resource: res, Operation: "UPDATE", Kind: kind}}
	for _, sub := range res.Subresources {
		if slices.Contains(operationsOf(sub.Name), "UPDATE") {
			all = append(all, Case{res, sub.Name, "UPDATE", sub.Kind})
		}
	}
	return all
}

func (a *agreement) expression(c Case, text string) {
	resource := c.Resource.Resource
	if c.SubResource != "" {
		resource += "/" + c.SubResource
	}
	side := sideOf(a.t, a.room, one(c.Resource.Group, c.Resource.Version, resource, text))
	k := side.clauses()[0]
	if k.program.validations[0] == nil {
		a.t.Fatalf("%s does not compile", text)
	}
	sizes, keys := map[string]int{}, map[string][]string{}
	var m *machine
	var req *request
	var inv *invocation
	var before int
	for range 60 {
		m = newMachine(sizes, keys)
		req = newRequest(m, c, a.room.Types)
		before = len(m.unknown)
		inv = req.invoke(k.program, k.binding)
		if m.settle() {
			break
		}
	}
	if len(m.unknown) > before {
		a.seen["outside"]++
		a.outside[m.unknown[before].what]++
		return
	}
	a.expressions++
	p := newPool(k.program.validations[0])
	objects := objectsOfExpression
	if len(m.accesses) > 0 {
		objects = objectsOfQuestion
	}
	for range objects {
		a.compare(req, inv, side, text, p)
	}
}

// request draws a request in the form that policies see; nil if the object cannot be decoded.
func (a *agreement) request(req *request, side *Side, p *pool) (*celgate.Request, *celgate.Prepared) {
	object := a.object(req.object, p)
	made := &celgate.Request{Kind: req.Kind, Resource: req.Resource.GroupVersionResource, SubResource: req.SubResource,
		Operation: celgate.Operation(req.Operation), Name: []string{"a", "b", "kube-system"}[a.rand.IntN(3)],
		Object: object, UserInfo: celgate.UserInfo{Username: "someone"}}
	switch {
	case req.Resource.Namespaced:
		made.Namespace = "default"
	case req.isNamespace():
		made.Namespace = made.Name
	}
	if req.oldObject != nil {
		made.OldObject = a.object(req.oldObject, p)
	}
	for _, o := range []map[string]any{made.Object, made.OldObject} {
		if meta, _ := o["metadata"].(map[string]any); meta != nil {
			meta["name"] = made.Name
			if req.Resource.Namespaced {
				meta["namespace"] = made.Namespace
			}
		}
	}
	if user, _ := p.tree(a.rand, req.user, 0).(map[string]any); user != nil {
		made.UserInfo = userOf(user)
	}
	prepared, err := a.prepare(side.engine, made, req)
	if err != nil {
		a.seen["not decoded"]++
		return nil, nil
	}
	return made, prepared
}

// object draws an object without a name.
func (a *agreement) object(n *node, p *pool) map[string]any {
	object, _ := p.tree(a.rand, n, 0).(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		object["metadata"] = meta
	}
	delete(meta, "generateName")
	return object
}

// prepare prepares a request for validating policies. The object of an update is that after the registry's work.
func (a *agreement) prepare(engine *celgate.Engine, made *celgate.Request, req *request) (*celgate.Prepared, error) {
	prepared, err := engine.Prepare(context.Background(), made)
	if err != nil || req.Operation != "UPDATE" {
		return prepared, err
	}
	sent := prepared.Request()
	return prepared.WithObject(prepare.ObjectToValidate(prepare.Input{Types: a.room.Types, Resource: req.Resource,
		SubResource: sent.SubResource, Operation: string(sent.Operation), Namespace: sent.Namespace, Name: sent.Name,
		Object: sent.Object, Old: sent.OldObject})), nil
}

func (a *agreement) compare(req *request, inv *invocation, side *Side, text string, p *pool) {
	m := req.m
	made, prepared := a.request(req, side, p)
	if made == nil {
		return
	}
	engine := side.engine
	if len(m.accesses) > 0 {
		engine = a.grant(req, made, prepared, side)
		var err error
		if prepared, err = a.prepare(engine, made, req); err != nil {
			a.t.Fatal(err)
		}
	}
	d, err := engine.Validate(context.Background(), prepared)
	if err != nil || len(d.Outcomes) == 0 {
		a.seen["not asked"]++
		return
	}
	if strings.Contains(d.Outcomes[0].Message, "cost limit exceeded") { // three questions to the authorizer
		a.seen["too expensive"]++
		return
	}
	at, fits := assign(req, made, prepared)
	if at.wrong != "" {
		a.fail(text, prepared.Request().Object, "a fact does not hold: "+at.wrong)
	}
	if !fits {
		a.seen["larger"]++
		return
	}
	if !a.derive(at, made) {
		a.seen["finer"]++
		return
	}
	v := inv.values[0]
	facts := m.store.Evaluate(at, m.store.Facts()...)
	if i := slices.Index(facts, false); i >= 0 && req.namespace == nil {
		a.fail(text, prepared.Request().Object, "a fact does not hold")
	}
	is := m.store.Evaluate(at, v.err, v.truth)
	says, want := "Deny", string(d.Outcomes[0].Verdict)
	switch {
	case is[0]:
		says = "Error"
	case is[1]:
		says = "Admit"
	}
	a.compared++
	a.seen[want]++
	if says != want {
		a.fail(text, prepared.Request().Object, fmt.Sprintf("formula %s, engine %s %s", says, want, d.Outcomes[0].Message))
	}
}

// assign assigns the values of a request.
func assign(req *request, made *celgate.Request, prepared *celgate.Prepared) (*assignment, bool) {
	at := newAssignment(req.m)
	fits := at.node(req.oldObject, prepared.Request().OldObject)
	fits = at.node(req.object, prepared.Request().Object) && fits
	at.text(req.name, made.Name)
	at.text(req.inNamespace, made.Namespace)
	fits = at.node(req.user, userTree(made.UserInfo)) && fits
	if req.namespace != nil {
		fits = at.node(req.namespace, map[string]any{"metadata": map[string]any{"name": "default",
			"labels": map[string]any{"kubernetes.io/metadata.name": "default"}, "uid": "", "creationTimestamp": nil},
			"spec": map[string]any{"finalizers": []any{"kubernetes"}}, "status": map[string]any{"phase": "Active"}}) && fits
	}
	return at, fits
}

// grant returns an engine in whose cluster some of the questions of a formula have the answer yes.
func (a *agreement) grant(req *request, made *celgate.Request, prepared *celgate.Prepared, side *Side) *celgate.Engine {
	at, _ := assign(req, made, prepared)
	objects := []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}}}
	for i, q := range req.m.accesses {
		if a.rand.IntN(2) > 0 && q.verb.render(at.Text) != "" {
			texts := func(l textLeaf) string { return l.render(at.Text) }
			objects = append(objects, q.grant(i, texts, made.UserInfo)...)
		}
	}
	cluster, err := state.New(a.room.Types, objects...)
	if err != nil {
		a.t.Fatal(err)
	}
	engine, err := celgate.New(side.Set, celgate.Options{KubeVersion: a.room.KubeVersion, Types: a.room.Types,
		Cluster: cluster, Before: side.engine})
	if err != nil {
		a.t.Fatal(err)
	}
	a.cluster = cluster
	return engine
}

// derive assigns what follows from the texts: numbers of quantities, and answers of the authorizer.
func (a *agreement) derive(at *assignment, made *celgate.Request) bool {
	for _, q := range at.m.quantities {
		if parsed, err := resource.ParseQuantity(q.of.render(at.Text)); err == nil {
			n, ok := partsOf(parsed)
			if !ok {
				return false
			}
			at.ints[q.num] = n
		}
	}
	for _, q := range at.m.accesses {
		text := func(l textLeaf) string { return l.render(at.Text) }
		who := &user.DefaultInfo{Name: made.UserInfo.Username, Groups: made.UserInfo.Groups}
		if namespace, name, ok := strings.Cut(q.account, "/"); ok {
			who = (&serviceaccount.ServiceAccountInfo{Namespace: namespace, Name: name}).UserInfo().(*user.DefaultInfo)
		}
		decision, _, err := a.cluster.Authorizer().Authorize(context.Background(), authorizer.AttributesRecord{User: who,
			Verb: text(q.verb), Path: text(q.path), ResourceRequest: q.path == textLeaf{}, APIGroup: text(q.group),
			APIVersion: "*", Resource: text(q.resource), Subresource: text(q.subresource),
			Namespace: text(q.namespace), Name: text(q.name)})
		at.assign(q.truth, err == nil && decision == authorizer.DecisionAllow)
	}
	return true
}

// TestRandomPairs proves that random policies are as strict as others, and searches for counterexamples to the proofs,
// with lists that are longer than those of the formulas. Every answer without a proof must have a counterexample.
func TestRandomPairs(t *testing.T) {
	pairs := *comparisonCount / 100
	if pairs == 0 {
		pairs = 60
	}
	r := room(t)
	a := newAgreement(t, r, *comparisonSeed, 9)
	for range pairs {
		kind := agreementKinds[a.rand.IntN(len(agreementKinds))]
		g := &writer{rand: a.rand, types: r.Types, kind: kind}
		old, more := g.boolean(2, g.roots()), g.boolean(1, g.roots())
		now := []string{"(" + old + ") && (" + more + ")", "(" + old + ") || (" + more + ")",
			"!(!(" + old + "))", "(" + more + ") ? (" + old + ") : false", more}[a.rand.IntN(5)]
		a.pair(kind, old, now)
	}
	t.Log(a.seen)
}

// pair compares two validations in one direction.
func (a *agreement) pair(kind schema.GroupVersionKind, old, now string) {
	res := a.room.Types.ResourceFor(kind)
	was := sideOf(a.t, a.room, one(kind.Group, kind.Version, res.Resource, old))
	is := sideOf(a.t, a.room, one(kind.Group, kind.Version, res.Resource, now))
	got, err := a.room.Stricter(context.Background(), was, is)
	if err != nil {
		a.t.Fatal(err)
	}
	a.seen[string(got.Answer)]++
	if got.Answer == Undecided && os.Getenv("SHOW") != "" {
		a.t.Logf("undecided\n%s\n%s\n%s %+v", old, now, got.Case, got.Reasons)
	}
	if got.Answer != Proved {
		return
	}
	req := a.creation(kind, was, is)
	p := newPool(was.programs[0].validations[0])
	p.texts = append(p.texts, newPool(is.programs[0].validations[0]).texts...)
	p.longer = true
	for range 60 {
		_, prepared := a.request(req, was, p)
		if prepared == nil {
			continue
		}
		x, err := was.engine.Validate(context.Background(), prepared)
		y, otherErr := is.engine.Validate(context.Background(), prepared)
		if err != nil || otherErr != nil {
			a.t.Fatal(err, otherErr)
		}
		a.compared++
		if !x.Allowed && y.Allowed {
			a.fail(old+"\n"+now, prepared.Request().Object, "a wrong proof")
		}
	}
}

// TestRandomDeadParts removes dead parts from random expressions, and searches for objects for which an engine then has
// another answer, with lists that are longer than those of the formulas.
func TestRandomDeadParts(t *testing.T) {
	expressions := *comparisonCount / 100
	if expressions == 0 {
		expressions = 12
	}
	r := room(t)
	a := newAgreement(t, r, *comparisonSeed, 11)
	for range expressions {
		kind := agreementKinds[a.rand.IntN(len(agreementKinds))]
		g := &writer{rand: a.rand, types: r.Types, kind: kind}
		x, y := g.boolean(1, g.roots()), g.boolean(2, g.roots())
		a.deadIn(kind, []string{"(" + x + ") && ((" + y + ") || (" + x + "))", "(" + x + ") || (" + y + ") || (" + x + ")",
			"(" + x + ") ? (" + y + ") && (" + x + ") : true", "(" + y + ") ? (" + x + ") : (" + x + ")",
			"(" + y + ") && true"}[a.rand.IntN(5)])
	}
	t.Log(a.seen)
	if a.seen["dead"] == 0 {
		t.Error("the expressions have no dead parts")
	}
}

func (a *agreement) deadIn(kind schema.GroupVersionKind, text string) {
	res := a.room.Types.ResourceFor(kind)
	was := sideOf(a.t, a.room, one(kind.Group, kind.Version, res.Resource, text))
	all, err := a.room.Vacuous(context.Background(), was)
	if err != nil {
		a.t.Fatal(err)
	}
	a.seen["undecided"] += all.Undecided
	found := all.Found
	slices.SortFunc(found, func(x, y Vacuity) int { return y.From - x.From })
	shorter := text
	for _, v := range found {
		if v.Instead != "true" && v.Instead != "false" && len(found) > 1 { // the branch that is kept may have dead parts
			return
		}
		if v.To > 0 {
			shorter = shorter[:v.From] + v.Instead + shorter[v.To:]
			a.seen["dead"]++
		}
	}
	if shorter == text {
		return
	}
	is := sideOf(a.t, a.room, one(kind.Group, kind.Version, res.Resource, shorter))
	req := a.creation(kind, was)
	p := newPool(was.programs[0].validations[0])
	p.longer = true
	for range 60 {
		_, prepared := a.request(req, was, p)
		if prepared == nil {
			continue
		}
		x, err := was.engine.Validate(context.Background(), prepared)
		y, otherErr := is.engine.Validate(context.Background(), prepared)
		if err != nil || otherErr != nil {
			a.t.Fatal(err, otherErr)
		}
		a.compared++
		if x.Outcomes[0].Verdict != y.Outcomes[0].Verdict {
			a.fail(text+"\n"+shorter, prepared.Request().Object, "a part makes a difference")
		}
		a.seen[fmt.Sprint(x.Outcomes[0].Verdict)]++
	}
}

func (a *agreement) fail(text string, object map[string]any, what string) {
	a.t.Helper()
	shown, _ := yaml.Marshal(object)
	a.t.Errorf("%s\n%s\n%s", text, what, shown)
}

func userTree(u celgate.UserInfo) map[string]any {
	out := map[string]any{}
	if u.Username != "" {
		out["username"] = u.Username
	}
	if u.UID != "" {
		out["uid"] = u.UID
	}
	var groups []any
	for _, g := range u.Groups {
		groups = append(groups, g)
	}
	if len(groups) > 0 {
		out["groups"] = groups
	}
	return out
}

// A pool holds values that an expression mentions.
type pool struct {
	longer  bool // lists have more items, and maps more entries, than formulas cover
	texts   []string
	numbers []int64
}

func newPool(of *ast.AST) *pool {
	p := &pool{texts: []string{"a", "b", "x"}, numbers: []int64{0, 1, 2, -1}}
	ast.PreOrderVisit(of.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind {
			p.addFor(e.AsCall().FunctionName())
		}
		if e.Kind() != ast.LiteralKind {
			return
		}
		switch v := e.AsLiteral().Value().(type) {
		case string:
			p.texts = append(p.texts, v, v+"a", "a"+v, strings.ToUpper(v))
			if len(v) > 0 {
				p.texts = append(p.texts, v[1:])
			}
		case int64:
			p.numbers = append(p.numbers, v, v+1, v-1)
		}
	}))
	return p
}

// addFor adds texts that a function reads as numbers.
func (p *pool) addFor(function string) {
	switch function {
	case "int":
		p.texts = append(p.texts, "1", "-2", "+3", "12", "007", "9223372036854775807", "9223372036854775808", "4x")
	case "quantity", "isQuantity":
		p.texts = append(p.texts, quantityTexts...)
	}
}

var quantityTexts = []string{"1", "0", "2", "1k", "500m", "1Ki", "1.5", "-1", "500G", "0.001", "499999999999"}

// tree draws a value for a node, including the members that the formula mentions.
func (p *pool) tree(rng *rand.Rand, n *node, depth int) any {
	if n.fixed != nil && n.fixed.isConst() {
		return n.fixed.before
	}
	text := func() string { return p.texts[rng.IntN(len(p.texts))] }
	number := func() int64 { return p.numbers[rng.IntN(len(p.numbers))] }
	switch n.typ.Kind {
	case shape.Struct:
		out := map[string]any{}
		for _, name := range n.order {
			if rng.IntN(5) > 0 || n.members[name].node.isCalled("containers") || name == "spec" || name == "template" {
				out[name] = p.tree(rng, n.members[name].node, depth+1)
			}
		}
		return out
	case shape.Map:
		out := map[string]any{}
		for _, e := range n.slots {
			if rng.IntN(3) > 0 {
				continue
			}
			key := text()
			if e.key.isConst() {
				key = e.key.before
			}
			out[key] = p.tree(rng, e.node, depth+1)
			if p.longer {
				out[text()] = p.tree(rng, e.node, depth+1)
			}
		}
		return out
	case shape.List:
		out := []any{}
		if p.longer && len(n.items) > 0 {
			for range rng.IntN(4) {
				out = append(out, p.tree(rng, n.items[rng.IntN(len(n.items))].node, depth+1))
			}
		}
		for i := range n.items {
			if rng.IntN(4) > 0 || i == 0 && n.isCalled("containers") {
				out = append(out, p.tree(rng, n.items[i].node, depth+1))
			}
		}
		return out
	case shape.Boolean:
		return rng.IntN(2) == 0
	case shape.Integer:
		return number()
	case shape.IntOrString:
		if rng.IntN(2) == 0 {
			return number()
		}
		return text()
	case shape.String:
		return text()
	case shape.Quantity:
		return quantityTexts[rng.IntN(len(quantityTexts))]
	}
	return minimal(n.typ, 0)
}

// An assignment maps the variables of a machine to the values of an object.
type assignment struct {
	m     *machine
	bools map[solve.Formula]bool
	ints  map[solve.Int]int64
	texts map[solve.Text]string
	wrong string // the path of a member that formulas assume to be present, but is absent
}

func newAssignment(m *machine) *assignment {
	return &assignment{m, map[solve.Formula]bool{}, map[solve.Int]int64{}, map[solve.Text]string{}, ""}
}

func (a *assignment) Bool(f solve.Formula) bool { return a.bools[f] }
func (a *assignment) Int(x solve.Int) int64 {
	if v, ok := a.ints[x]; ok {
		return v
	}
	return 1
}
func (a *assignment) Text(x solve.Text) string {
	if v, ok := a.texts[x]; ok {
		return v
	}
	return "a" + strconv.Itoa(int(x))
}

func (a *assignment) text(l textLeaf, to string) {
	if l.isVar {
		a.texts[l.x] = to
	}
}

func (a *assignment) assign(f solve.Formula, to bool) {
	if f > solve.False {
		a.bools[f] = to
	}
}

// assignAbsent assigns values that the facts allow to the variables of absent nodes.
func (a *assignment) assignAbsent(n *node) {
	a.assign(n.truth, n.filled)
	for i, p := range n.items {
		a.assign(p.present, i == 0 && n.filled)
		a.assignAbsent(p.node)
	}
	for i, e := range n.slots {
		a.assign(e.present, i == 0 && n.filled)
		a.assignAbsent(e.node)
	}
	for _, p := range n.members {
		a.assign(p.present, false)
		a.assignAbsent(p.node)
	}
}

// node assigns the variables of a node. It reports whether the value is within bounds, and fails for a value that the
// node cannot represent.
func (a *assignment) node(n *node, v any) bool {
	if n == nil {
		return true
	}
	a.assign(n.null, v == nil)
	if v == nil {
		if n.null == solve.False && n.val != nil {
			a.m.unbounded = append(a.m.unbounded, reason{what: "null"})
		}
		a.assignAbsent(n)
		return true
	}
	if n.fixed != nil {
		return true
	}
	fits := true
	switch n.typ.Kind {
	case shape.Struct:
		object, _ := v.(map[string]any)
		for name, p := range n.members {
			inner, there := object[name]
			a.assign(p.present, there)
			if there && (inner == nil || inner == "") && n.builtin && n.m.isRegistered(n.typ, name) {
				fits = false
			}
			if !there {
				if p.present == solve.True {
					fits = false // a random object that the registry refuses
					if !n.m.isRegistered(n.typ, name) {
						a.wrong = p.node.path
					}
				}
				a.assignAbsent(p.node)
				continue
			}
			fits = a.node(p.node, inner) && fits
		}
	case shape.Map:
		object, _ := v.(map[string]any)
		keys := slices.Sorted(maps.Keys(object))
		for _, e := range n.slots {
			if e.key.isConst() {
				inner, there := object[e.key.before]
				a.assign(e.present, there)
				if there {
					fits = a.node(e.node, inner) && fits
				} else {
					a.assignAbsent(e.node)
				}
				keys = slices.DeleteFunc(keys, func(k string) bool { return k == e.key.before })
			}
		}
		for _, e := range n.slots {
			if !e.key.isVar {
				continue
			}
			if a.assign(e.present, len(keys) > 0); len(keys) == 0 {
				a.assignAbsent(e.node)
				continue
			}
			a.text(e.key, keys[0])
			fits = a.node(e.node, object[keys[0]]) && fits
			keys = keys[1:]
		}
		return fits && (n.slots == nil || len(keys) == 0)
	case shape.List:
		list, _ := v.([]any)
		if n.listed == nil {
			return true
		}
		for i, p := range n.items {
			if a.assign(p.present, i < len(list)); i < len(list) {
				fits = a.node(p.node, list[i]) && fits
			} else {
				a.assignAbsent(p.node)
			}
		}
		return fits && len(list) <= len(n.items)
	case shape.Boolean:
		a.assign(n.truth, v.(bool))
	case shape.Integer:
		a.ints[n.num] = v.(int64)
	case shape.IntOrString:
		number, isInt := v.(int64)
		a.assign(n.isInt, isInt)
		if isInt {
			a.ints[n.num] = number
		} else {
			a.texts[n.text] = v.(string)
		}
	default:
		if s, ok := v.(string); ok && n.val != nil {
			a.texts[n.text] = s
		}
	}
	return fits
}

// A writer writes random expressions for objects of a kind.
type writer struct {
	rand  *rand.Rand
	types *schema.Registry
	kind  schema.GroupVersionKind
	names int
}

// A place is an expression with the type of its value.
type place struct {
	text string
	typ  *shape.Type
}

func (w *writer) roots() []place { return []place{{"object", w.types.Type(w.kind)}} }

// walk moves from a place to one within it; how determines the check for absence.
func (w *writer) walk(p place) (at place, has string) {
	for range 6 {
		switch p.typ.Kind {
		case shape.Struct:
			if len(p.typ.Fields) == 0 {
				return p, has
			}
			f := w.field(p.typ)
			if f.Type.Kind == shape.Any || f.Type.Kind == shape.Union || f.Name == "namespace" && w.rand.IntN(9) > 0 {
				return p, has
			}
			has = "has(" + p.text + "." + f.Name + ")"
			p = place{p.text + "." + f.Name, f.Type}
		default:
			return p, has
		}
		if w.rand.IntN(8) == 0 {
			return p, has
		}
	}
	return p, has
}

var liked = []string{"spec", "metadata", "template", "containers", "labels", "annotations", "image", "name", "ports",
	"securityContext", "runAsUser", "runAsNonRoot", "capabilities", "drop", "replicas", "hostNetwork", "volumes",
	"hostPath", "env", "data", "rules", "verbs", "resources", "limits", "requests", "type", "selector", "targetPort",
	"initContainers"}

func (w *writer) field(t *shape.Type) *shape.Field {
	if w.rand.IntN(4) > 0 {
		for range 12 {
			if f := t.Field(liked[w.rand.IntN(len(liked))]); f != nil {
				return f
			}
		}
	}
	return &t.Fields[w.rand.IntN(len(t.Fields))]
}

func (w *writer) pick(list ...string) string { return list[w.rand.IntN(len(list))] }

// boolean writes an expression with a bool or an error as result.
func (w *writer) boolean(depth int, in []place) string {
	if depth > 0 && w.rand.IntN(3) > 0 {
		a, b := func() string { return w.boolean(depth-1, in) }, func() string { return w.boolean(depth-1, in) }
		switch w.rand.IntN(6) {
		case 0:
			return "!(" + a() + ")"
		case 1:
			return "(" + a() + " ? " + b() + " : " + a() + ")"
		case 2, 3:
			return "(" + a() + " && " + b() + ")"
		}
		return "(" + a() + " || " + b() + ")"
	}
	p, has := w.walk(in[w.rand.IntN(len(in))])
	if has != "" && w.rand.IntN(6) == 0 {
		return has
	}
	test := w.test(p, depth, in)
	if has != "" && w.rand.IntN(2) == 0 {
		return "(" + has + w.pick(" && (", " && (", " || !(") + test + "))"
	}
	return test
}

func (w *writer) test(p place, depth int, in []place) string {
	texts := func() string { return w.pick("'a'", "'b'", "''", "'ab'", "'registry/a'") }
	switch p.typ.Kind {
	case shape.Boolean:
		return w.pick(p.text, "!"+p.text, p.text+" == true", p.text+" != false")
	case shape.Integer:
		switch w.rand.IntN(7) {
		case 0:
			return p.text + w.pick(" / 2", " / 3 ", " / 0") + w.pick(" < ", " == ", " >= ") + w.pick("0", "1", "-1")
		case 1:
			return "string(" + p.text + ")" + w.pick(" == '1'", " != '-1'", " in ['0', '2']", " == 'a'")
		}
		return p.text + w.pick(" < ", " <= ", " == ", " != ", " > ", " >= ") + w.pick("0", "1", "2", "-1", "1 + 1") +
			w.pick("", "", " && "+p.text+" * 3 - 1 < 7")
	case shape.IntOrString:
		return p.text + w.pick(" == ", " != ") + w.pick("1", "'a'", "'1'")
	case shape.String:
		switch w.rand.IntN(10) {
		case 9:
			return "int(" + p.text + ")" + w.pick(" < ", " == ", " >= ", " != ") + w.pick("0", "12", "-2")
		case 8:
			return w.quantity(p, in)
		case 7:
			if w.rand.IntN(5) == 0 {
				return w.question(p)
			}
		case 0:
			return p.text + w.pick(".startsWith(", ".endsWith(", ".contains(") + texts() + ")"
		case 1:
			return p.text + ".matches('" + w.pick("^a+$", "[ab]", "^(a|b)c?", "b$", "(?i)AB", "^.{1,2}$") + "')"
		case 2:
			return p.text + " in [" + texts() + ", " + texts() + "]"
		case 3:
			return "size(" + p.text + ")" + w.pick(" < 2", " == 1", " >= 1", " != 2")
		case 4:
			return p.text + w.pick(".lowerAscii()", ".upperAscii()") + " == " + w.pick("'a'", "'AB'")
		case 5:
			return "(" + texts() + " + " + p.text + ")" + w.pick(" == 'aa'", ".startsWith('a')", ".matches('^aa?$')")
		}
		return p.text + w.pick(" == ", " != ") + texts()
	case shape.Quantity:
		return w.quantity(p, in)
	case shape.List:
		return w.quantifier(p, depth, in)
	case shape.Map:
		return w.mapping(p, depth, in)
	case shape.Struct:
		return p.text + w.pick(" != null", " == null")
	}
	return p.text + w.pick(" != null", " == null")
}

// quantity writes a comparison of quantities.
func (w *writer) quantity(p place, in []place) string {
	other := w.pick("'1'", "'500m'", "'1Ki'", "'500G'", "'x'")
	if q, _ := w.walk(in[w.rand.IntN(len(in))]); q.typ.Kind == shape.String || q.typ.Kind == shape.Quantity {
		other = q.text
	}
	a, b := "quantity("+p.text+")", "quantity("+other+")"
	switch w.rand.IntN(6) {
	case 0:
		return "isQuantity(" + p.text + ")"
	case 1:
		return a + w.pick(" == ", " != ") + b
	case 2:
		return "sign(" + a + ")" + w.pick(" > 0", " == 0", " <= 0")
	case 3:
		a += w.pick(".add(", ".sub(") + w.pick("1", "quantity('100m')") + ")"
	}
	return a + w.pick(".isLessThan("+b+")", ".isGreaterThan("+b+")", ".compareTo("+b+") <= 0", ".compareTo("+b+") == 1")
}

// question writes a question to the authorizer about a text.
func (w *writer) question(p place) string {
	return "authorizer" + w.pick("", ".serviceAccount('default', 'a')", ".serviceAccount('-', 'a')") +
		w.pick(".group('').resource('pods')", ".group("+p.text+").resource('pods').subresource('log')", ".path('/a')",
			".group('').resource('pods').name("+p.text+")", ".group('').resource('pods').namespace("+p.text+")") +
		".check('get').allowed()"
}

func (w *writer) quantifier(p place, depth int, in []place) string {
	w.names++
	name := "x" + strconv.Itoa(w.names)
	inner := append(slices.Clone(in), place{name, p.typ.Elem}, place{name, p.typ.Elem}, place{name, p.typ.Elem})
	body := func() string { return w.boolean(depth-1, inner) }
	switch w.rand.IntN(8) {
	case 0:
		return "size(" + p.text + ")" + w.pick(" < 2", " == 1", " >= 1", " != 2", " > 0")
	case 1:
		if p.typ.Elem.Kind == shape.String {
			return w.pick("'a'", "'b'") + " in " + p.text + w.pick("", ".sort()")
		}
	case 2:
		return p.text + ".exists_one(" + name + ", " + body() + ")"
	case 3:
		return p.text + ".filter(" + name + ", " + body() + ")" + w.pick(".size() == 1", ".size() < 2") +
			w.pick("", " || "+p.text+".all("+name+", "+body()+")")
	case 4:
		return "size(" + p.text + ".map(" + name + ", " + body() + ")) > 1"
	case 5:
		if f := p.typ.Elem.Field("name"); f != nil && f.Type.Kind == shape.String {
			return p.text + ".map(" + name + ", " + name + ".name).sort()" + w.pick(".all(", ".exists(", ".exists_one(") +
				name + ", " + w.test(place{name, textType}, depth-1, in) + ")"
		}
	}
	return p.text + w.pick(".all(", ".exists(") + name + ", " + body() + ")"
}

func (w *writer) mapping(p place, depth int, in []place) string {
	key := w.pick("'a'", "'b'", "'c'")
	at := place{p.text + "[" + key + "]", p.typ.Elem}
	w.names++
	name := "k" + strconv.Itoa(w.names)
	inner := append(slices.Clone(in), place{name, textType}, place{name, textType})
	switch w.rand.IntN(6) {
	case 0:
		return key + " in " + p.text
	case 1:
		return p.text + w.pick(".all(", ".exists(", ".exists_one(") + name + ", " + w.boolean(depth-1, inner) + ")"
	case 2:
		return "size(" + p.text + ")" + w.pick(" < 2", " == 1", " >= 1")
	case 3:
		return p.text + ".all(" + name + ", " + w.test(place{p.text + "[" + name + "]", p.typ.Elem}, depth-1, inner) + ")"
	}
	return w.test(at, depth, in)
}
