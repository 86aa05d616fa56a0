package prove

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/schema"
)

// The relations between the requests that the old and the new policy deny.
const (
	same   = "="
	looser = "<" // the new one denies less
	tight  = ">"
	other  = "<>"
)

// knownPairs are pairs of validations, for a kind, with their relation.
var knownPairs = []struct{ kind, old, now, relation string }{
	{"Deployment", "object.spec.replicas <= 5", "object.spec.replicas < 6", same},
	{"Deployment", "object.spec.replicas <= 5", "object.spec.replicas < 5", tight},
	{"Deployment", "object.spec.replicas <= 5 && object.spec.replicas >= 2", "object.spec.replicas in [2, 3, 4, 5]", same},
	{"Deployment", "object.spec.replicas * 2 <= 11", "object.spec.replicas <= 5", same}, // replicas is an int32
	{"Deployment", "object.spec.replicas + 1 <= 6", "object.spec.replicas <= 5", same},
	{"Deployment", "object.spec.replicas != 3", "object.spec.replicas < 3 || object.spec.replicas > 3", same},
	{"Deployment", "has(object.spec.replicas) && object.spec.replicas < 4", "object.spec.replicas < 4", same},
	{"Deployment", "object.spec.replicas < 4 || object.spec.paused", "object.spec.replicas < 4 || (has(object.spec.paused) && object.spec.paused)", same},
	{"Pod", "!object.spec.hostNetwork", "!has(object.spec.hostNetwork) || !object.spec.hostNetwork", looser},
	{"Pod", "!has(object.spec.hostNetwork) || !object.spec.hostNetwork", "!has(object.spec.hostNetwork)", same},
	{"Pod", "!object.spec.?hostNetwork.orValue(false)", "object.spec.?hostNetwork.orValue(false) == false", same},
	{"Pod", "object.spec.containers.all(c, has(c.securityContext))", "object.spec.containers.exists(c, has(c.securityContext))", looser},
	{"Pod", "object.spec.containers.all(c, has(c.securityContext))", "!object.spec.containers.exists(c, !has(c.securityContext))", same},
	{"Pod", "object.spec.containers.filter(c, !has(c.securityContext)).size() == 0", "object.spec.containers.all(c, has(c.securityContext))", same},
	{"Pod", "object.spec.containers.exists_one(c, c.image == 'a/b')", "object.spec.containers.exists(c, c.image == 'a/b')", looser},
	{"Pod", "object.spec.containers.all(c, c.image.startsWith('a/'))", "object.spec.containers.all(c, c.image.matches('^a/'))", same},
	{"Pod", "object.spec.containers.all(c, c.image.startsWith('a.b/'))", "object.spec.containers.all(c, c.image.matches('^a.b/'))", looser},
	{"Pod", "object.spec.containers.all(c, c.image.endsWith(':1') || c.image.endsWith(':2'))", "object.spec.containers.all(c, c.image.matches(':[12]$'))", same},
	{"Pod", "object.spec.containers.all(c, c.image.endsWith(':latest'))", "object.spec.containers.all(c, c.image.contains(':latest'))", looser},
	{"Pod", "object.spec.containers.all(c, c.image.matches('^[a-z]+/[a-z]+$'))", "object.spec.containers.all(c, c.image.matches('^[a-z/]+$'))", looser},
	{"Pod", "object.spec.containers.all(c, c.image.lowerAscii() == 'a')", "object.spec.containers.all(c, c.image in ['a', 'A'])", same},
	{"Pod", "object.spec.containers.all(c, c.image.size() <= 10)", "object.spec.containers.all(c, c.image.matches('(?s)^.{0,10}$'))", same},
	{"Pod", "object.spec.containers.all(c, c.securityContext.runAsUser > 0)", "object.spec.containers.all(c, c.securityContext.runAsUser >= 1)", same},
	{"Pod", "object.spec.containers.all(c, c.?securityContext.?runAsUser.orValue(0) > 0)", "object.spec.containers.all(c, c.?securityContext.?runAsUser.orValue(1) > 0)", looser},
	{"Pod", "object.spec.containers.all(c, c.?securityContext.?capabilities.?drop.orValue([]).exists(d, d == 'ALL'))", "object.spec.containers.all(c, 'ALL' in c.securityContext.capabilities.drop)", same},
	{"Pod", "object.spec.containers.all(c, c.?securityContext.?capabilities.?add.orValue([]).all(x, x == 'NET_BIND_SERVICE'))", "object.spec.containers.all(c, c.?securityContext.?capabilities.?add.orValue([]).all(x, x in ['NET_BIND_SERVICE', 'CHOWN']))", looser},
	{"Pod", "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))", "object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))", same},
	{"Pod", "object.spec.?volumes.orValue([]).all(v, has(v.configMap) || has(v.secret))", "object.spec.?volumes.orValue([]).all(v, has(v.configMap) || has(v.secret) || has(v.emptyDir))", looser},
	{"Pod", "object.spec.containers.all(c, !has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))", "object.spec.containers.all(c, c.?ports.orValue([]).all(p, !has(p.hostPort)))", same},
	{"Pod", "object.metadata.labels['team'] != ''", "'team' in object.metadata.labels && object.metadata.labels['team'] != ''", same},
	{"Pod", "'team' in object.metadata.labels", "object.metadata.labels['team'] != ''", tight},
	{"Pod", "object.metadata.labels['team'] in ['a', 'b']", "object.metadata.labels.exists(k, k == 'team' && object.metadata.labels[k] in ['a', 'b'])", same},
	{"Pod", "object.metadata.?labels.orValue({}).all(k, !k.startsWith('x/'))", "!object.metadata.?labels.orValue({}).exists(k, k.startsWith('x/'))", same},
	{"Pod", "object.metadata.namespace != 'kube-system'", "request.namespace != 'kube-system'", same},
	{"Pod", "request.operation == 'CREATE' || object.spec.nodeName == oldObject.spec.nodeName", "request.operation != 'UPDATE' || object.spec.nodeName == oldObject.spec.nodeName", same},
	{"Pod", "object.spec.?priority.orValue(0) < 100 && object.spec.?priority.orValue(0) > -100", "object.spec.?priority.orValue(0) in [0]", tight},
	{"Service", "object.spec.type != 'NodePort'", "!(object.spec.type == 'NodePort' || object.spec.type == 'LoadBalancer')", tight},
	{"ConfigMap", "!has(object.immutable) || object.immutable", "!has(object.immutable) || object.immutable == true", same},
	{"ConfigMap", "object.data.size() > 0", "has(object.data)", same},                                           // an empty map is not encoded
	{"ConfigMap", "int(object.data.level) < 3", "object.data.level.matches('^([+]?0*[012]|-[0-9]+)$')", looser}, // also of numbers below int64
	{"ConfigMap", "int(object.data.level) >= 0", "int(object.data.level) > -1", same},
	{"ConfigMap", "int(object.data.level) == 7", "object.data.level == '7'", tight},
	{"ConfigMap", "quantity(object.data.size).compareTo(quantity('1Gi')) <= 0", "!quantity(object.data.size).isGreaterThan(quantity('1024Mi'))", same},
	{"ConfigMap", "quantity(object.data.size).compareTo(quantity('1G')) <= 0", "quantity(object.data.size).isLessThan(quantity('1Gi'))", looser},
	{"ConfigMap", "quantity(object.data.a).isLessThan(quantity(object.data.b)) && quantity(object.data.b).isLessThan(quantity('1'))",
		"quantity(object.data.a).isLessThan(quantity('1')) && quantity(object.data.a).isLessThan(quantity(object.data.b))", looser},
	{"ConfigMap", "quantity(object.data.a).add(quantity('100m')).isLessThan(quantity('1'))", "quantity(object.data.a).isLessThan(quantity('0.9'))", same},
	{"ConfigMap", "isQuantity(object.data.a)", "isQuantity(object.data.a) && quantity(object.data.a) == quantity(object.data.a)", same},
	{"Pod", "object.spec.containers.all(c, quantity(c.resources.limits['memory']).compareTo(quantity('1Gi')) <= 0)",
		"!object.spec.containers.exists(c, !('memory' in c.resources.limits) || quantity(c.resources.limits['memory']).isGreaterThan(quantity('1Gi')))", same},
	{"Deployment", "object.spec.replicas / 2 <= 3", "object.spec.replicas <= 7", same},
	{"Deployment", "string(object.spec.replicas) in ['1', '2']", "object.spec.replicas in [1, 2]", same},
	{"Pod", "object.spec.containers.map(c, c.image).sort().all(i, i.startsWith('a/'))", "object.spec.containers.all(c, c.image.startsWith('a/'))", same},
	{"Pod", "authorizer.group('').resource('secrets').check('get').allowed()", "authorizer.group('').resource('secrets').check('get').allowed() || object.metadata.name == 'a'", looser},
	{"Pod", "authorizer.requestResource.check('use').allowed() || object.metadata.name == 'a'", "object.metadata.name == 'a' || authorizer.requestResource.check('use').allowed()", same},
	{"Pod", "authorizer.group('').resource('secrets').check('get').allowed()", "authorizer.group('').resource('secrets').check('list').allowed()", other},
	{"Namespace", "object.metadata.name.startsWith('team-')", "object.metadata.name.matches('^team-')", same},
}

func TestKnownPairs(t *testing.T) {
	r := room(t)
	for _, p := range knownPairs {
		i := slices.IndexFunc(agreementKinds, func(k schema.GroupVersionKind) bool { return k.Kind == p.kind })
		kind := agreementKinds[i]
		res := r.Types.ResourceFor(kind)
		was := sideOf(t, r, one(kind.Group, kind.Version, res.Resource, p.old))
		is := sideOf(t, r, one(kind.Group, kind.Version, res.Resource, p.now))
		checkRelation(t, r, was, is, p.relation, p.old+"\n"+p.now)
	}
}

// checkRelation compares both directions.
func checkRelation(t *testing.T, r *Room, was, is *Side, relation, what string) {
	t.Helper()
	for _, d := range []struct {
		from, to *Side
		proved   bool
		name     string
	}{
		{was, is, relation == same || relation == tight, "the new one denies every request that the old one denies"},
		{is, was, relation == same || relation == looser, "the old one denies every request that the new one denies"},
	} {
		got, err := r.Stricter(context.Background(), d.from, d.to)
		if err != nil {
			t.Fatal(err)
		}
		if got.Answer == Proved != d.proved || got.Answer != Proved && got.Answer != Counterexample {
			t.Errorf("%s\n%s: %s of %s %v", what, d.name, got.Answer, got.Case, messages(got))
			if got.Found != nil {
				t.Logf("%v", got.Found.Request.Object)
			}
		}
	}
}

// editedExamples are edits of policies of the examples.
var editedExamples = []struct{ file, from, to, relation string }{
	{"policies/replicas.yaml", "? 20 : 3", "? 20 : 4", looser},
	{"policies/replicas.yaml", "? 20 : 3", "? 10 : 3", tight},
	{"policies/replicas.yaml", "? 20 : 3", "? 10 : 4", other},
	{"policies/replicas.yaml", "<= variables.limit", "< variables.limit + 1", same},
	{"policies/replicas.yaml", "[deployments, statefulsets]", "[deployments]", looser},
	{"policies/team-label.yaml", "'team' in object.metadata.?labels.orValue({})", "has(object.metadata.labels) && 'team' in object.metadata.labels", same},
	{"policies/team-label.yaml", "'team' in object.metadata.?labels.orValue({})", "object.metadata.labels['team'] != ''", same}, // its binding only warns
	{"policies/team-label.yaml", "[Warn, Audit]", "[Audit, Deny]", tight},
	{"policies/privileges.yaml", "runAsNonRoot.orValue(false)", "runAsNonRoot.orValue(true)", looser},
	{"policies/load-balancers.yaml", "variables.approval != ''", "variables.approval.size() > 0", same},
	{"policies/load-balancers.yaml", "object.spec.type == 'LoadBalancer'", "object.spec.type in ['LoadBalancer', 'NodePort']", tight},
	{"transition-rule/policy.yaml", "variables.oldOwner == '' ||", "variables.oldOwner.size() == 0 ||", same},
	{"transition-rule/policy.yaml", "variables.oldOwner == '' ||", "", tight},
}

func TestEditedExamples(t *testing.T) {
	r := room(t)
	for _, e := range editedExamples {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", filepath.FromSlash(e.file)))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), e.from) {
			t.Errorf("%s does not have %s", e.file, e.from)
			continue
		}
		was := sideOf(t, r, string(text))
		is := sideOf(t, r, strings.Replace(string(text), e.from, e.to, 1))
		checkRelation(t, r, was, is, e.relation, e.file+": "+e.to)
	}
}
