package registry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones independent of the machine

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/tree"
)

// template judges the template of a workload whose Pods always run, and that its selector selects them. kind is the
// name in the server's message about members that the kind does not support.
func (j *judge) template(spec *place, kind string, of podOf) {
	template := spec.member("template")
	podSpec := template.member("spec")
	j.podTemplate(&template, of)
	j.alwaysRuns(&podSpec, kind)
}

// alwaysRuns requires Pods that are restarted and do not have a deadline.
func (j *judge) alwaysRuns(podSpec *place, kind string) {
	if restart := podSpec.member("restartPolicy"); restart.text() != "Always" {
		j.addUnknown(&restart, restart.text(), "Always")
	}
	if deadline := podSpec.member("activeDeadlineSeconds"); deadline.has() {
		j.forbidden(&deadline, "activeDeadlineSeconds in "+kind+" is not Supported")
	}
}

// requiredSelector judges the selector of a workload that needs a non-empty one.
func (j *judge) requiredSelector(selector *place, kind string) {
	if !selector.has() {
		j.require(selector, "")
		return
	}
	j.labelSelector(selector)
	if selector.isEmptySelector() {
		j.invalid(selector, selector.selector(), "empty selector is invalid for "+kind)
	}
}

func (p *place) isEmptySelector() bool {
	labels, expressions := p.member("matchLabels"), p.member("matchExpressions")
	return labels.size()+expressions.size() == 0
}

// compareSelector requires a selector to select the template beside it, and reports whether it is valid.
func (j *judge) compareSelector(spec, selector *place) bool {
	template := spec.member("template")
	metadata := template.member("metadata")
	labels := metadata.member("labels")
	selects, readable := selector.selects(&labels)
	if readable && !selects && !(selector.has() && selector.isEmptySelector()) {
		j.invalid(&labels, labels.value, "`selector` does not match template `labels`")
	}
	return readable
}

// sameSelector requires the selector of an update to equal that of the stored object.
func (j *judge) sameSelector(selector, oldSpec *place) {
	if old := oldSpec.member("selector"); old.has() && !tree.Equal(selector.value, old.value) {
		j.invalid(selector, selector.selector(), "field is immutable")
	}
}

func (j *judge) deployment(object, old *place) {
	spec := object.member("spec")
	replicas, selector, ready := spec.member("replicas"), spec.member("selector"), spec.member("minReadySeconds")
	j.nonnegative(&replicas)
	j.requiredSelector(&selector, "deployment")
	if j.compareSelector(&spec, &selector) {
		j.template(&spec, "ReplicaSet", podOf{})
	} else {
		j.invalid(&selector, selector.selector(), "invalid label selector")
	}
	strategy := spec.member("strategy")
	j.deploymentStrategy(&strategy)
	limit, deadline := spec.member("revisionHistoryLimit"), spec.member("progressDeadlineSeconds")
	j.nonnegative(&ready)
	j.nonnegative(&limit)
	j.nonnegative(&deadline)
	if deadline.has() && deadline.number() <= ready.number() {
		j.invalid(&deadline, deadline.number(), "must be greater than minReadySeconds")
	}
	if old != nil {
		before := old.member("spec")
		j.sameSelector(&selector, &before)
	}
}

func (j *judge) deploymentStrategy(p *place) {
	kind, rolling := p.member("type"), p.member("rollingUpdate")
	switch kind.text() {
	case "Recreate":
		if rolling.has() {
			j.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'")
		}
	case "RollingUpdate":
		if !rolling.has() {
			j.require(&rolling, "this should be defaulted and never be nil")
			return
		}
		unavailable, surge := rolling.member("maxUnavailable"), rolling.member("maxSurge")
		j.positiveIntOrPercent(&unavailable)
		j.positiveIntOrPercent(&surge)
		if unavailable.isZero() && surge.isZero() {
			j.invalid(&unavailable, unavailable.value, "may not be 0 when `maxSurge` is 0")
		}
		j.notAbove100Percent(&unavailable)
	default:
		j.unknownValue(p, shownStrategy{Type: kind.text(), RollingUpdate: shownRolling(&rolling)}, "Recreate",
			"RollingUpdate")
	}
}

// A shownStrategy is a strategy of a workload in the form in which the server prints it.
type shownStrategy struct {
	Type          string
	RollingUpdate any
}

func shownRolling(p *place) any {
	if !p.has() {
		return nil
	}
	return struct{ MaxUnavailable, MaxSurge any }{p.member("maxUnavailable").value, p.member("maxSurge").value}
}

func (j *judge) replicaSet(object, old *place) {
	spec := object.member("spec")
	replicas, ready, selector := spec.member("replicas"), spec.member("minReadySeconds"), spec.member("selector")
	j.nonnegative(&replicas)
	j.nonnegative(&ready)
	j.requiredSelector(&selector, "deployment")
	if j.compareSelector(&spec, &selector) {
		j.template(&spec, "ReplicaSet", podOf{})
	} else {
		j.invalid(&selector, selector.selector(), "invalid label selector")
	}
	if old != nil {
		before := old.member("spec")
		j.sameSelector(&selector, &before)
	}
}

func (j *judge) replicationController(object, _ *place) {
	spec := object.member("spec")
	replicas, ready, selector, template := spec.member("replicas"), spec.member("minReadySeconds"),
		spec.member("selector"),
		spec.member("template")
	if selector.size() == 0 {
		j.require(&selector, "")
	}
	if !template.has() {
		j.require(&template, "")
	} else {
		metadata := template.member("metadata")
		labels := metadata.member("labels")
		of := place{value: map[string]any{"matchLabels": selector.value}}
		if selects, _ := of.selects(&labels); selector.size() > 0 && !selects {
			j.invalid(&labels, labels.value, "`selector` does not match template `labels`")
		}
		j.template(&spec, "ReplicationController", podOf{})
	}
	j.declare(func() {
		if !replicas.has() {
			j.require(&replicas, "")
		}
		j.nonnegative(&replicas)
		j.nonnegative(&ready)
	})
}

func (j *judge) daemonSet(object, old *place) {
	spec := object.member("spec")
	selector, ready, limit, strategy := spec.member("selector"), spec.member("minReadySeconds"),
		spec.member("revisionHistoryLimit"),
		spec.member("updateStrategy")
	if old != nil {
		before := old.member("spec")
		j.sameSelector(&selector, &before)
	}
	j.labelSelector(&selector)
	j.compareSelector(&spec, &selector)
	if selector.has() && selector.isEmptySelector() {
		j.invalid(&selector, selector.selector(), "empty selector is invalid for daemonset")
	}
	j.template(&spec, "DaemonSet", podOf{})
	j.nonnegative(&ready)
	j.daemonSetStrategy(&strategy)
	j.nonnegative(&limit)
}

func (j *judge) daemonSetStrategy(p *place) {
	kind, rolling := p.member("type"), p.member("rollingUpdate")
	switch kind.text() {
	case "OnDelete":
	case "RollingUpdate":
		if !rolling.has() {
			j.require(&rolling, "")
			return
		}
		unavailable, surge := rolling.member("maxUnavailable"), rolling.member("maxSurge")
		j.positiveIntOrPercent(&unavailable)
		j.positiveIntOrPercent(&surge)
		j.notAbove100Percent(&unavailable)
		j.notAbove100Percent(&surge)
		switch {
		case !unavailable.isZero() && !surge.isZero():
			j.invalid(&surge, surge.value, "may not be set when maxUnavailable is non-zero")
		case unavailable.isZero() && surge.isZero():
			j.require(&unavailable, "cannot be 0 when maxSurge is 0")
		}
	default:
		j.unknownValue(p, shownStrategy{Type: kind.text(), RollingUpdate: shownRolling(&rolling)},
			"RollingUpdate", "OnDelete")
	}
}

func (j *judge) statefulSet(object, old *place) {
	spec := object.member("spec")
	management, strategy := spec.member("podManagementPolicy"), spec.member("updateStrategy")
	if text := management.text(); j.needs(&management) && text != "OrderedReady" && text != "Parallel" {
		j.invalid(&management, word(text), "must be 'OrderedReady' or 'Parallel'")
	}
	j.statefulSetStrategy(&strategy)
	retention, claims := spec.member("persistentVolumeClaimRetentionPolicy"), spec.member("volumeClaimTemplates")
	if retention.has() {
		for _, member := range []string{"whenDeleted", "whenScaled"} {
			if p := retention.member(member); p.text() != "Retain" && p.text() != "Delete" {
				j.addUnknown(&p, p.text(), "Retain", "Delete")
			}
		}
	}
	var names []string
	for i := range claims.size() {
		at := claims.item(i)
		metadata, claim := at.member("metadata"), at.member("spec")
		name := metadata.member("name")
		names = append(names, name.text())
		if old == nil {
			j.claim(&claim)
		}
	}
	replicas, ready, ordinals := spec.member("replicas"), spec.member("minReadySeconds"), spec.member("ordinals")
	j.nonnegative(&replicas)
	j.nonnegative(&ready)
	start, shown := ordinals.member("start"), spec.member("ordinals.start")
	shown.value = start.value
	j.nonnegative(&shown)
	selector, service := spec.member("selector"), spec.member("serviceName")
	if service.text() != "" {
		j.forgive("name of a Service", func() { j.dnsLabel(&service) })
	}
	if selector.has() {
		j.requiredSelector(&selector, "statefulset")
	}
	template := spec.member("template")
	podSpec := template.member("spec")
	if j.compareSelector(&spec, &selector) {
		labels, annotations, metadata := template.member("labels"), template.member("annotations"),
			template.member("metadata")
		labels.value, annotations.value = metadata.member("labels").value, metadata.member("annotations").value
		j.forgive("template", func() { j.podTemplate(&template, podOf{claims: names, anyHost: true}) })
		j.labels(&labels)
		j.annotations(&annotations)
	} else {
		j.invalid(&selector, selector.selector(), "")
	}
	j.alwaysRuns(&podSpec, "StatefulSet")
	if old != nil {
		before := old.member("spec")
		j.sameSelector(&selector, &before)
		j.keeps(&spec, &before, "volumeClaimTemplates", "serviceName", "podManagementPolicy")
	}
	j.declare(func() {
		if !selector.has() {
			j.require(&selector, "")
		}
	})
}

func (j *judge) statefulSetStrategy(p *place) {
	kind, rolling := p.member("type"), p.member("rollingUpdate")
	switch kind.text() {
	case "":
		j.require(p, "")
	case "OnDelete":
		if rolling.has() {
			j.invalid(&rolling, rolling.value, "only allowed for updateStrategy 'RollingUpdate'")
		}
	case "RollingUpdate":
		if !rolling.has() {
			return
		}
		partition, unavailable := rolling.member("partition"), rolling.member("maxUnavailable")
		j.nonnegative(&partition)
		if unavailable.has() {
			j.positiveIntOrPercent(&unavailable)
			if unavailable.isZero() {
				j.invalid(&unavailable, unavailable.value, "cannot be 0")
			}
			j.notAbove100Percent(&unavailable)
		}
	default:
		shown := shownStrategy{Type: kind.text()}
		if rolling.has() {
			partition, unavailable := rolling.member("partition"), rolling.member("maxUnavailable")
			shown.RollingUpdate = struct{ Partition, MaxUnavailable any }{partition.value, unavailable.value}
		}
		j.invalid(p, shown, "must be 'RollingUpdate' or 'OnDelete'")
	}
}

func (j *judge) job(object, old *place) {
	spec := object.member("spec")
	if old == nil {
		j.generatedSelector(object, &spec)
	}
	j.jobSpec(&spec)
	selector := spec.member("selector")
	if !selector.has() {
		j.require(&selector, "")
	} else {
		j.forgive("selector of a Job", func() { j.labelSelector(&selector) })
	}
	j.compareSelector(&spec, &selector)
	if old == nil {
		j.indexedName(object, &spec)
		return
	}
	before := old.member("spec")
	j.jobUpdate(&spec, &before)
}

// generatedSelector requires the selector of a Job to select the labels that the server gives to its Pods, unless the
// selector is manual.
func (j *judge) generatedSelector(object, spec *place) {
	metadata, selector, manual := object.member("metadata"), spec.member("selector"), spec.member("manualSelector")
	if manual.isTrue() || !selector.has() {
		return
	}
	name, uid := metadata.member("name"), metadata.member("uid")
	labels := place{value: map[string]any{
		"job-name": name.text(), "batch.kubernetes.io/job-name": name.text(),
		"controller-uid": uid.text(), "batch.kubernetes.io/controller-uid": uid.text(),
	}}
	if selects, readable := selector.selects(&labels); readable && !selects {
		j.invalid(&selector, selector.selector(), "`selector` not auto-generated")
	}
}

// indexedName requires the longest name of a Pod of an indexed Job to be a valid host name.
func (j *judge) indexedName(object, spec *place) {
	mode, completions, metadata := spec.member("completionMode"), spec.member("completions"), object.member("metadata")
	name := metadata.member("name")
	if mode.text() != "Indexed" || completions.number() <= 0 {
		return
	}
	host := fmt.Sprintf("%s-%d", name.text(), completions.number()-1)
	if len(validation.IsDNS1123Label(host)) > 0 {
		j.invalid(&name, name.text(), "will not able to create pod with invalid DNS label: "+host)
	}
}

// jobSpec judges the spec of a Job, or of the template of a CronJob.
func (j *judge) jobSpec(spec *place) {
	for _, member := range []string{"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
		"ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"} {
		at := spec.member(member)
		j.nonnegative(&at)
	}
	perIndex, failed, manager := spec.member("backoffLimitPerIndex"), spec.member("maxFailedIndexes"),
		spec.member("managedBy")
	if failed.has() && !perIndex.has() {
		j.declare(func() { j.require(&perIndex, "when maxFailedIndexes is specified") })
	}
	if manager.has() {
		j.add(validation.IsDomainPrefixedPath(manager.path(), manager.text())...)
		if len(manager.text()) > 63 {
			j.tooLong(&manager, 63)
		}
	}
	j.completionMode(spec)
	failure, success := spec.member("podFailurePolicy"), spec.member("successPolicy")
	if failure.has() {
		j.failurePolicy(&failure, spec)
	}
	if mode := spec.member("completionMode"); success.has() && mode.text() == "Indexed" {
		j.successPolicy(&success, spec)
	} else if success.has() {
		j.invalid(&success, success.value, "requires indexed completion mode")
	}
	if replacement := spec.member("podReplacementPolicy"); replacement.has() {
		if text := replacement.text(); failure.has() && text != "Failed" {
			j.addUnknown(&replacement, text, "Failed")
		} else if text != "Failed" && text != "TerminatingOrFailed" {
			j.addUnknown(&replacement, text, "Failed", "TerminatingOrFailed")
		}
	}
	template := spec.member("template")
	j.podTemplate(&template, podOf{})
	podSpec := template.member("spec")
	switch restart := podSpec.member("restartPolicy"); {
	case restart.text() == "Always" || restart.text() == "":
		j.require(&restart, `valid values: "OnFailure", "Never"`)
	case restart.text() != "OnFailure" && restart.text() != "Never":
		j.addUnknown(&restart, restart.text(), "OnFailure", "Never")
	case failure.has() && restart.text() != "Never":
		j.invalid(&restart, word(restart.text()), `only "Never" is supported when podFailurePolicy is specified`)
	}
}

func (j *judge) successPolicy(p, spec *place) {
	rules, completions := p.member("rules"), spec.member("completions")
	if rules.size() == 0 {
		j.require(&rules, "at least one rules must be specified when the successPolicy is specified")
	}
	if rules.size() > 20 {
		j.tooMany(&rules, 20)
	}
	if !completions.has() {
		return // which is an error of its own
	}
	for i := range rules.size() {
		rule := rules.item(i)
		count, indexes := rule.member("succeededCount"), rule.member("succeededIndexes")
		if !count.has() && !indexes.has() {
			j.require(&rule, "at least one of succeededCount or succeededIndexes must be specified")
		}
		var chosen int64
		if indexes.has() {
			if most := 64 << 10; len(indexes.text()) > most {
				j.tooLong(&indexes, most)
			}
			var wrong string
			if chosen, wrong = countIndexes(indexes.text(), completions.number()); wrong != "" {
				j.invalid(&indexes, indexes.text(), "error parsing succeededIndexes: "+wrong)
			}
		}
		if !count.has() {
			continue
		}
		j.nonnegative(&count)
		if count.number() > completions.number() {
			j.invalid(&count, count.number(), fmt.Sprintf(
				"must be less than or equal to %d (the number of specified completions)", completions.number()))
		}
		if indexes.has() && count.number() > chosen {
			j.invalid(&count, count.number(), fmt.Sprintf(
				"must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", chosen))
		}
	}
}

// countIndexes returns the number of indexes in a text such as "1,3-5", each below completions, or what is wrong with it.
func countIndexes(text string, completions int64) (count int64, wrong string) {
	if text == "" {
		return 0, ""
	}
	last := int64(-1 << 31)
	for i, interval := range strings.Split(text, ",") {
		ends := strings.Split(interval, "-")
		if len(ends) > 2 {
			return 0, fmt.Sprintf(
				"the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", interval)
		}
		var limits []int64
		for _, end := range ends {
			n, err := strconv.Atoi(end)
			switch {
			case err != nil:
				return 0, fmt.Sprintf("cannot convert string to integer for index: %q", end)
			case int64(n) >= completions:
				return 0, fmt.Sprintf("too large index: %q", end)
			}
			limits = append(limits, int64(n))
		}
		from, to := limits[0], limits[len(limits)-1]
		if len(limits) == 2 && from >= to {
			return 0, fmt.Sprintf("non-increasing order, previous: %d, current: %d", from, to)
		}
		if i > 0 && last >= from {
			return 0, fmt.Sprintf("non-increasing order, previous: %d, current: %d", last, from)
		}
		count, last = count+to-from+1, to
	}
	return count, ""
}

func (j *judge) completionMode(spec *place) {
	mode, completions, parallelism := spec.member("completionMode"), spec.member("completions"),
		spec.member("parallelism")
	perIndex, failed := spec.member("backoffLimitPerIndex"), spec.member("maxFailedIndexes")
	const most, fewer = 100_000, 10_000
	if mode.has() && mode.text() != "NonIndexed" && mode.text() != "Indexed" {
		j.addUnknown(&mode, mode.text(), "NonIndexed", "Indexed")
	}
	switch {
	case mode.text() == "Indexed":
		if !completions.has() {
			j.require(&completions, "when completion mode is Indexed")
		}
		if parallelism.number() > most {
			j.invalid(&parallelism, parallelism.number(),
				fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", most))
		}
		if completions.has() && failed.has() && failed.number() > completions.number() {
			j.invalid(&failed, failed.number(), "must be less than or equal to completions")
		}
		if failed.number() > most {
			j.invalid(&failed, failed.number(), fmt.Sprintf("must be less than or equal to %d", most))
		}
		if completions.number() <= most || !perIndex.has() {
			return
		}
		if !failed.has() {
			j.require(&failed, fmt.Sprintf("must be specified when completions is above %d", most))
		}
		for _, p := range []*place{&parallelism, &failed} {
			if p.number() > fewer {
				j.invalid(p, p.number(), fmt.Sprintf("must be less than or equal to %d when completions are above %d "+
					"and used with backoff limit per index", fewer, most))
			}
		}
	case !mode.has() || mode.text() == "NonIndexed":
		for _, p := range []*place{&perIndex, &failed} {
			if p.has() {
				j.invalid(p, p.number(), "requires indexed completion mode")
			}
		}
	}
}

// failurePolicy judges the podFailurePolicy of a Job.
func (j *judge) failurePolicy(p, spec *place) {
	rules := p.member("rules")
	if rules.size() > 20 {
		j.tooMany(&rules, 20)
	}
	var names []string
	template := spec.member("template")
	podSpec := template.member("spec")
	for _, member := range []string{"containers", "initContainers"} {
		list := podSpec.member(member)
		for i := range list.size() {
			at := list.item(i)
			name := at.member("name")
			names = append(names, name.text())
		}
	}
	perIndex := spec.member("backoffLimitPerIndex")
	for i := range rules.size() {
		at := rules.item(i)
		action, codes, conditions := at.member("action"), at.member("onExitCodes"), at.member("onPodConditions")
		switch known := []string{"Count", "FailIndex", "FailJob", "Ignore"}; {
		case action.text() == "":
			j.require(&action, fmt.Sprintf("valid values: %q", known))
		case action.text() == "FailIndex" && !perIndex.has():
			j.invalid(&action, word(action.text()), "requires the backoffLimitPerIndex to be set")
		case !slices.Contains(known, action.text()):
			j.addUnknown(&action, action.text(), known...)
		}
		if codes.has() {
			j.exitCodes(&codes, names)
		}
		for k := range conditions.size() {
			pattern := conditions.item(k)
			kind, status := pattern.member("type"), pattern.member("status")
			j.qualifiedName(&kind, kind.text())
			if known := []string{"False", "True", "Unknown"}; status.text() == "" {
				j.require(&status, fmt.Sprintf("valid values: %q", known))
			} else {
				j.oneOf(&status, known...)
			}
		}
		switch {
		case codes.has() && conditions.size() > 0:
			j.invalidWithoutValue(&at, "specifying both OnExitCodes and OnPodConditions is not supported")
		case !codes.has() && conditions.size() == 0:
			j.invalidWithoutValue(&at, "specifying one of OnExitCodes and OnPodConditions is required")
		}
	}
}

func (j *judge) exitCodes(p *place, containers []string) {
	operator, name, values := p.member("operator"), p.member("containerName"), p.member("values")
	if known := []string{"In", "NotIn"}; operator.text() == "" {
		j.require(&operator, fmt.Sprintf("valid values: %q", known))
	} else {
		j.oneOf(&operator, known...)
	}
	if name.has() && !slices.Contains(containers, name.text()) {
		j.invalid(&name, name.text(), "must be one of the container or initContainer names in the pod template")
	}
	switch {
	case values.size() == 0:
		j.invalid(&values, values.value, "at least one value is required")
	case values.size() > 255:
		j.tooMany(&values, 255)
	}
	seen := map[int64]bool{}
	sorted := true
	last := int64(0)
	for i := range values.size() {
		at := values.item(i)
		code := at.number()
		if code == 0 && operator.text() == "In" {
			j.invalid(&at, code, "must not be 0 for the In operator")
		}
		if seen[code] {
			j.duplicate(&at, code)
		}
		sorted = sorted && (i == 0 || last <= code)
		seen[code], last = true, code
	}
	if !sorted {
		j.invalid(&values, values.value, "must be ordered")
	}
}

func (j *judge) cronJob(object, old *place) {
	spec := object.member("spec")
	schedule, zone, concurrency := spec.member("schedule"), spec.member("timeZone"), spec.member("concurrencyPolicy")
	var oldSchedule, oldZone place
	if old != nil {
		before := old.member("spec")
		oldSchedule, oldZone = before.member("schedule"), before.member("timeZone")
	}
	if text := schedule.text(); text == "" {
		j.declare(func() { j.require(&schedule, "") })
	} else {
		j.schedule(&schedule)
		switch mayHaveZone := strings.Contains(oldSchedule.text(), "TZ"); {
		case !strings.Contains(text, "TZ"):
		case !mayHaveZone:
			j.invalid(&schedule, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
		case zone.has():
			j.invalid(&schedule, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
		}
	}
	deadline := spec.member("startingDeadlineSeconds")
	j.nonnegative(&deadline)
	if zone.has() && (old == nil || zone.value != oldZone.value) {
		j.timeZone(&zone)
	}
	j.needsOneOf(&concurrency, "Allow", "Forbid", "Replace")
	template := spec.member("jobTemplate")
	jobSpec := template.member("spec")
	j.jobSpec(&jobSpec)
	selector, manual := jobSpec.member("selector"), jobSpec.member("manualSelector")
	if selector.has() {
		j.invalid(&selector, selector.selector(), "`selector` will be auto-generated")
	}
	if manual.isTrue() {
		j.unknownValue(&manual, true, "nil", "false")
	}
	for _, member := range []string{"successfulJobsHistoryLimit", "failedJobsHistoryLimit"} {
		at := spec.member(member)
		j.nonnegative(&at)
	}
	const longest = 52 // leaves room for the suffix of the names of its Jobs
	metadata := object.member("metadata")
	if name := metadata.member("name"); old == nil && len(name.text()) > longest {
		j.invalid(&name, name.text(), fmt.Sprintf("must be no more than %d characters", longest))
	}
}

func (j *judge) schedule(p *place) {
	defer func() {
		if problem := recover(); problem != nil { // the server recovers from panics of the parser, too
			j.invalid(p, p.text(), fmt.Sprintf("invalid schedule format: %v", problem))
		}
	}()
	if _, err := cron.ParseStandard(p.text()); err != nil {
		j.invalid(p, p.text(), err.Error())
	}
}

var zonePart = pattern.New(`^[A-Za-z\.\-_0-9+]{1,14}$`)

func (j *judge) timeZone(p *place) {
	text := p.text()
	if text == "" {
		j.invalid(p, word(text), "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(text, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart().MatchString(part) {
			j.invalid(p, word(text), "unknown time zone "+text)
			return
		}
	}
	if strings.EqualFold(text, "Local") {
		j.invalid(p, word(text), "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(text); err != nil {
		j.invalid(p, word(text), err.Error())
	}
}
