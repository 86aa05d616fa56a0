package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/tree"
)

const maxData = 1 << 20 // bytes in a ConfigMap or Secret

// dataKeys judges the keys of ConfigMaps and Secrets and returns the size of their values in bytes; encoded: they are
// in base64.
func (j *judge) dataKeys(data *place, encoded bool) int {
	size := 0
	for _, key := range data.keys() {
		at := data.key(key)
		if !isPlainWord(key) {
			j.each(&at, key, validation.IsConfigMapKey(key))
		}
		if encoded {
			size += base64.StdEncoding.DecodedLen(len(at.text())) - strings.Count(at.text(), "=")
		} else {
			size += len(at.text())
		}
	}
	return size
}

// keepsImmutable requires the members of an object that was immutable to be unchanged.
func (j *judge) keepsImmutable(object, old *place, members ...string) {
	if old == nil {
		return
	}
	now, before := object.member("immutable"), old.member("immutable")
	if !before.isTrue() {
		return
	}
	const detail = "field is immutable when `immutable` is set"
	if !now.isTrue() {
		j.forbidden(&now, detail)
	}
	for _, member := range members {
		a, b := object.member(member), old.member(member)
		if !tree.Equal(a.value, b.value) {
			j.forbidden(&a, detail)
		}
	}
}

func (j *judge) configMap(object, old *place) {
	j.keepsImmutable(object, old, "data", "binaryData")
	data, binary := object.member("data"), object.member("binaryData")
	for _, key := range data.keys() {
		if at := binary.key(key); at.has() {
			shown := data.key(key)
			j.invalid(&shown, key, "duplicate of key present in binaryData")
		}
	}
	if j.dataKeys(&data, false)+j.dataKeys(&binary, true) > maxData {
		j.add(field.TooLong(field.NewPath(""), "", maxData))
	}
}

func (j *judge) secret(object, old *place) {
	kind, data, metadata := object.member("type"), object.member("data"), object.member("metadata")
	j.keepsImmutable(object, old, "data")
	if j.dataKeys(&data, true) > maxData {
		j.tooLong(&data, maxData)
	}
	needs := func(keys ...string) {
		for _, key := range keys {
			if at := data.key(key); !at.has() {
				j.require(&at, "")
			}
		}
	}
	switch kind.text() {
	case "kubernetes.io/service-account-token":
		annotations := metadata.member("annotations")
		if at := annotations.key("kubernetes.io/service-account.name"); at.text() == "" {
			j.require(&at, "")
		}
	case "kubernetes.io/dockercfg":
		j.dockerConfig(&data, ".dockercfg")
	case "kubernetes.io/dockerconfigjson":
		j.dockerConfig(&data, ".dockerconfigjson")
	case "kubernetes.io/basic-auth":
		if user, password := data.key("username"), data.key("password"); !user.has() && !password.has() {
			needs("username", "password")
		}
	case "kubernetes.io/ssh-auth":
		if at := data.key("ssh-privatekey"); at.text() == "" {
			j.require(&at, "")
		}
	case "kubernetes.io/tls":
		needs("tls.crt", "tls.key")
	}
	if old != nil {
		j.keeps(object, old, "type")
	}
}

func (j *judge) dockerConfig(data *place, key string) {
	at := data.key(key)
	if !at.has() {
		j.require(&at, "")
		return
	}
	text, err := base64.StdEncoding.DecodeString(at.text())
	if err != nil {
		return
	}
	if err := json.Unmarshal(text, &map[string]any{}); err != nil {
		j.invalid(&at, "<secret contents redacted>", err.Error())
	}
}

// declaredImmutable requires a member to be unchanged, as a generated rule.
func (j *judge) declaredImmutable(object, old *place, member string) {
	now, before := object.member(member), old.member(member)
	if !tree.Equal(now.value, before.value) {
		j.declare(func() { j.invalid(&now, nil, "field is immutable") })
	}
}

func (j *judge) volumeClaim(object, old *place) {
	spec := object.member("spec")
	j.claim(&spec)
	if old != nil {
		j.claimUpdate(object, old)
	}
}

func (j *judge) namespace(object, _ *place) {
	spec := object.member("spec")
	list := spec.member("finalizers")
	for i, text := range list.texts() {
		at := list.item(i)
		shown := list
		shown.value = at.value
		j.each(&shown, text, validation.IsQualifiedName(text))
		if !strings.Contains(text, "/") && !standardFinalizers[text] {
			j.invalid(&shown, text, "name is neither a standard finalizer name nor is it fully qualified")
		}
	}
}

func (j *judge) storageClass(object, old *place) {
	provisioner, parameters, policy, mode, topologies := object.member("provisioner"), object.member("parameters"),
		object.member("reclaimPolicy"), object.member("volumeBindingMode"), object.member("allowedTopologies")
	if text := provisioner.text(); text != "" {
		j.qualifiedName(&provisioner, strings.ToLower(text))
	} else {
		j.declare(func() { j.require(&provisioner, "") })
	}
	j.parameters(&parameters)
	j.oneOf(&policy, "Delete", "Retain")
	if !mode.has() {
		j.require(&mode, "")
	} else if text := mode.text(); text != "Immediate" && text != "WaitForFirstConsumer" {
		j.addUnknown(&mode, text, "Immediate", "WaitForFirstConsumer")
	}
	j.topologies(&topologies)
	if old != nil {
		for _, member := range []string{"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"} {
			if _, given := object.value.(map[string]any)[member]; given {
				j.declaredImmutable(object, old, member)
			}
		}
	}
}

func (j *judge) parameters(p *place) {
	const most, maxSize = 512, 256 << 10
	if p.size() > most {
		j.tooLong(p, most)
		return
	}
	size := 0
	for _, key := range p.keys() {
		at := p.key(key)
		if key == "" {
			j.invalid(p, key, "field can not be empty.")
		}
		size += len(key) + len(at.text())
	}
	if size > maxSize {
		j.tooLong(p, maxSize)
	}
}

// topologies judges where volumes of a class may be. The server treats a term without expressions like one that is
// repeated.
func (j *judge) topologies(list *place) {
	var terms []map[string]any
	for i := range list.size() {
		at := list.item(i)
		term := j.topology(&at)
		for _, other := range terms {
			if tree.Equal(other, term) || len(term) == 0 {
				expressions := at.member("matchLabelExpressions")
				j.duplicate(&expressions, "")
				break
			}
		}
		if len(term) == 0 && len(terms) == 0 {
			expressions := at.member("matchLabelExpressions")
			j.duplicate(&expressions, "")
		}
		terms = append(terms, term)
	}
}

// topology judges one term and returns its values for each key.
func (j *judge) topology(p *place) map[string]any {
	list := p.member("matchLabelExpressions")
	term := map[string]any{}
	var seen []string
	for i := range list.size() {
		at := list.item(i)
		key, values := at.member("key"), at.member("values")
		if values.size() == 0 {
			j.require(&values, "")
		}
		texts := values.texts()
		for k, value := range texts {
			if slices.Contains(texts[:k], value) {
				item := values.item(k)
				j.duplicate(&item, value)
			}
		}
		j.labelName(&key)
		if slices.Contains(seen, key.text()) {
			j.duplicate(&key, key.text())
		}
		seen = append(seen, key.text())
		distinct := map[string]any{}
		for _, value := range texts {
			distinct[value] = true
		}
		term[key.text()] = distinct
	}
	return term
}

// systemPriorities are the values of the classes that every cluster has.
var systemPriorities = map[string]int64{"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}

func (j *judge) priorityClass(object, old *place) {
	value, policy, metadata := object.member("value"), object.member("preemptionPolicy"), object.member("metadata")
	const most = 1_000_000_000
	if old != nil {
		was, oldPolicy := old.member("value"), old.member("preemptionPolicy")
		if value.number() != was.number() {
			j.forbidden(&value, "may not be changed in an update.")
		}
		if !tree.Equal(policy.value, oldPolicy.value) {
			j.invalid(&policy, policy.value, "field is immutable")
		}
		return
	}
	name, global := metadata.member("name"), object.member("globalDefault")
	const reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
	switch known, isKnown := systemPriorities[name.text()]; {
	case !strings.HasPrefix(name.text(), "system-"):
		if value.number() > most {
			j.forbidden(&value, fmt.Sprintf("maximum allowed value of a user defined priority is %d", most))
		}
	case !isKnown:
		j.forbidden(&name, reserved+name.text()+" is not a known system priority class")
	case value.number() != known:
		j.forbidden(&name, fmt.Sprintf("%svalue of %s PriorityClass must be %d", reserved, name.text(), known))
	case global.isTrue():
		j.forbidden(&name, reserved+"globalDefault of "+name.text()+" PriorityClass must be false")
	}
	if policy.has() {
		j.needsOneOf(&policy, "PreemptLowerPriority", "Never")
	}
}

// quotaResources are the countable resources without a domain.
var quotaResources = []string{"cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
	"requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods",
	"resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps",
	"services.nodeports", "services.loadbalancers"}

var (
	quotaScopes = []string{"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass",
		"CrossNamespacePodAffinity", "VolumeAttributesClass"}

	// quotaOfPods are the resources that quotas with scopes of Pods may limit.
	quotaOfPods = []string{"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)

// isScopeOf reports whether a quota of a scope may limit all of the resources, other than those with a domain.
func isScopeOf(scope string, resources []string) bool {
	allowed := quotaOfPods
	switch scope {
	case "BestEffort":
		allowed = quotaOfPods[:1]
	case "VolumeAttributesClass":
		allowed = []string{"persistentvolumeclaims", "requests.storage"}
	case "Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity":
	default:
		return true
	}
	return !slices.ContainsFunc(resources, func(name string) bool {
		return slices.Contains(quotaResources, name) && !slices.Contains(allowed, name)
	})
}

func hasScopeConflict(scopes []string) bool {
	return slices.Contains(scopes, "BestEffort") && slices.Contains(scopes, "NotBestEffort") ||
		slices.Contains(scopes, "Terminating") && slices.Contains(scopes, "NotTerminating")
}

// A shownScope is a requirement of a selector in the form in which the server prints it.
type shownScope struct {
	ScopeName, Operator string
	Values              any
}

// scopeSelector judges the selector of a quota for resources; scopes are its other scopes, as given.
func (j *judge) scopeSelector(p *place, resources []string, scopes any) {
	list := p.member("matchExpressions")
	var given []string
	var shown struct{ MatchExpressions []shownScope }
	for i := range list.size() {
		at := list.item(i)
		scope, operator, values := at.member("scopeName"), at.member("operator"), at.member("values")
		shown.MatchExpressions = append(shown.MatchExpressions, shownScope{scope.text(), operator.text(), values.value})
	}
	for _, e := range shown.MatchExpressions {
		// The server's paths of these do not have an index.
		name, operator, values := list.member("scopeName"), list.member("operator"), list.member("values")
		given = append(given, e.ScopeName)
		if !slices.Contains(quotaScopes, e.ScopeName) {
			j.invalid(&name, word(e.ScopeName), "unsupported scope")
		}
		if !isScopeOf(e.ScopeName, resources) {
			j.invalid(&list, shown, "unsupported scope applied to resource")
		}
		switch e.ScopeName {
		case "BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity":
			if e.Operator != "Exists" {
				j.invalid(&operator, word(e.Operator), "must be 'Exists' when scope is any of "+
					"ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
					"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
			}
		}
		texts, _ := e.Values.([]any)
		switch e.Operator {
		case "In", "NotIn":
			if len(texts) == 0 {
				j.require(&values, "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
			}
		case "Exists", "DoesNotExist":
			if len(texts) > 0 {
				j.invalid(&values, e.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
			}
		default:
			j.invalid(&operator, word(e.Operator), "not a valid selector operator")
		}
	}
	if hasScopeConflict(given) {
		j.invalid(&list, scopes, "conflicting scopes")
	}
}

func (j *judge) resourceQuota(object, old *place) {
	spec := object.member("spec")
	hard, scopes := spec.member("hard"), spec.member("scopes")
	for _, key := range hard.keys() {
		at := hard.key(key)
		j.resourceName(&at)
		isPages := strings.HasPrefix(key, hugePages) || strings.HasPrefix(key, "requests."+hugePages)
		if !strings.Contains(key, "/") && !isPages && !slices.Contains(quotaResources, key) {
			j.invalid(&at, word(key), "must be a standard resource for quota")
		}
		j.amount(&at, key, at.quantity())
	}
	given := scopes.texts()
	for _, scope := range given {
		if !slices.Contains(quotaScopes, scope) {
			j.invalid(&scopes, scopes.value, "unsupported scope")
		}
		if !isScopeOf(scope, hard.keys()) {
			j.invalid(&scopes, scopes.value, "unsupported scope applied to resource")
		}
	}
	if hasScopeConflict(given) {
		j.invalid(&scopes, scopes.value, "conflicting scopes")
	}
	selector := spec.member("scopeSelector")
	j.scopeSelector(&selector, hard.keys(), scopes.value)
	if old == nil {
		return
	}
	before := old.member("spec")
	oldScopes := before.member("scopes")
	was := oldScopes.texts()
	for _, of := range [][2][]string{{given, was}, {was, given}} {
		for _, scope := range of[0] {
			if !slices.Contains(of[1], scope) {
				j.invalid(&scopes, scopes.value, "field is immutable")
				return
			}
		}
	}
}

// limitRange judges the limits of a namespace.
func (j *judge) limitRange(object, _ *place) {
	spec := object.member("spec")
	limits := spec.member("limits")
	seen := map[string]bool{}
	for i := range limits.size() {
		at := limits.item(i)
		kind := at.member("type")
		j.limitType(&kind)
		if seen[kind.text()] {
			j.duplicate(&kind, word(kind.text()))
		}
		seen[kind.text()] = true
		j.limit(&at, kind.text())
	}
}

func (j *judge) limitType(p *place) {
	text := p.text()
	if messages := validation.IsQualifiedName(text); len(messages) > 0 {
		j.each(p, word(text), messages)
	} else if !strings.Contains(text, "/") && text != "Pod" && text != "Container" && text != "PersistentVolumeClaim" {
		j.invalid(p, word(text), "must be a standard limit type or fully qualified")
	}
}

func (j *judge) limit(p *place, kind string) {
	least, most, given, asked, ratio := p.member("min"), p.member("max"), p.member("default"),
		p.member("defaultRequest"),
		p.member("maxLimitRequestRatio")
	keys := map[string]bool{}
	name := func(list *place) {
		for _, key := range list.keys() {
			at := list.key(key)
			if kind == "Pod" || kind == "Container" {
				j.containerResourceName(&at)
			} else {
				j.resourceName(&at)
			}
			keys[key] = true
		}
	}
	name(&most)
	name(&least)
	if kind == "Pod" {
		for _, list := range []*place{&given, &asked} {
			if list.size() > 0 {
				j.forbidden(list, "may not be specified when `type` is 'Pod'")
				list.value = nil
			}
		}
	}
	name(&given)
	name(&asked)
	if a, b := least.member("storage"), most.member("storage"); kind == "PersistentVolumeClaim" && !a.has() &&
		!b.has() {
		at := p.member("limits")
		j.require(&at, "either minimum or maximum storage value is required, but neither was provided")
	}
	name(&ratio)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		j.limitOrder(key, [4]place{least.key(key), most.key(key), given.key(key), asked.key(key)})
		if at := ratio.key(key); at.has() {
			if q := at.quantity(); q.Cmp(resource.MustParse("1")) < 0 {
				j.invalid(&at, q.String(), fmt.Sprintf("ratio %s is less than 1", q.String()))
			}
			j.ratio(&at, least.key(key), most.key(key))
		}
	}
}

// ratio requires a ratio to be at most that of the maximum to the minimum, in thousandths where none is too large.
func (j *judge) ratio(p *place, least, most place) {
	if !least.has() || !most.has() {
		return
	}
	ratio, x, y := p.quantity(), least.quantity(), most.quantity()
	value, low, high := float64(ratio.Value()), x.Value(), y.Value()
	if ratio.Value() < resource.MaxMilliValue && low < resource.MaxMilliValue && high < resource.MaxMilliValue {
		value, low, high = float64(ratio.MilliValue())/1000, x.MilliValue(), y.MilliValue()
	}
	if limit := float64(high) / float64(low); value > limit {
		j.invalid(p, ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), limit))
	}
}

// limitOrder requires the minimum, the default request, the default and the maximum of a resource to be in this order.
func (j *judge) limitOrder(key string, of [4]place) {
	least, most, given, asked := &of[0], &of[1], &of[2], &of[3]
	above := func(a, b, at, shown *place, detail string) {
		x, y := a.quantity(), b.quantity()
		if a.has() && b.has() && x.Cmp(y) > 0 {
			j.invalid(at, shown.value, fmt.Sprintf(detail, x.String(), y.String()))
		}
	}
	above(least, most, least, least, "min value %s is greater than max value %s")
	above(least, asked, asked, asked, "min value %s is greater than default request value %s")
	above(asked, most, asked, asked, "default request value %s is greater than max value %s")
	above(asked, given, asked, asked, "default request value %s is greater than default limit value %s")
	above(least, given, given, least, "min value %s is greater than default value %s")
	above(given, most, given, most, "default value %s is greater than max value %s")
	x, y := given.quantity(), asked.quantity()
	if !mayOvercommit(key) && given.has() && asked.has() && x.Cmp(y) != 0 {
		j.invalid(asked, asked.value, fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s",
			x.String(), y.String(), key))
	}
}

// distinctTolerations requires tolerations to differ in more than their seconds.
func (j *judge) distinctTolerations(list *place) {
	seen := map[shownToleration]bool{}
	for i := range list.size() {
		at := list.item(i)
		key, operator, value, effect, seconds := at.member("key"), at.member("operator"), at.member("value"),
			at.member("effect"),
			at.member("tolerationSeconds")
		of := shownToleration{Key: key.text(), Operator: operator.text(), Value: value.text(), Effect: effect.text()}
		if seen[of] {
			shown := of
			shown.TolerationSeconds = seconds.value
			j.duplicate(&at, shown)
		}
		seen[of] = true
	}
}

// A shownToleration is a toleration in the form in which the server prints a duplicate.
type shownToleration struct {
	Key, Operator, Value, Effect string
	TolerationSeconds            any
}

func (j *judge) runtimeClass(object, old *place) {
	handler, overhead, scheduling := object.member("handler"), object.member("overhead"), object.member("scheduling")
	fixed := overhead.member("podFixed")
	j.overhead(&overhead, fixed.value)
	selector, tolerations := scheduling.member("nodeSelector"), scheduling.member("tolerations")
	j.labels(&selector)
	j.tolerations(&tolerations)
	j.distinctTolerations(&tolerations)
	j.declare(func() {
		if j.needs(&handler) {
			j.dnsLabel(&handler)
		}
	})
	if old != nil {
		j.declaredImmutable(object, old, "handler")
	}
}
