package suite

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/manifest"
)

var documentFields = fields{
	{"apiVersion", "`celgate.dev/v1alpha1`"},
	{"kind", "`Suite`, or `Case` in a folder `cases`"},
}

var suiteFields = fields{
	{"name", "name of the suite; without it the name of the file, or of the folder of a `suite.yaml`"},
	{"policies", "files and directories with policies and bindings, or objects; without it `policy.yaml`"},
	{"staticPolicies", "directories with [static policies](static.md), as the API server reads them: one, or one for each kind"},
	{"state", "files and directories with the existing objects of the cluster, or the objects: namespaces, params, CustomResourceDefinitions, RBAC, stored objects; by default `state.yaml`, if it exists. A missing namespace is assumed to exist without labels of its own, also for an AdmissionReview (for which `celgate apply` answers 404, as the server does)"},
	{"defaults", "fields of the request for all cases"},
	{"cases", "the cases"},
}

var askedFields = fields{
	{"object", "the manifest: a file, or the object itself. A file with several objects becomes several cases; `file.yaml#name`, `#namespace/name` or `#Kind/name` selects one object"},
	{"patch", "a JSON merge patch of the object: `null` removes a member"},
	{"operation", "`CREATE`, `UPDATE`, `DELETE` or `CONNECT`; by default `CREATE`, or `UPDATE` if the old object is known"},
	{"old", "the object before an update or a deletion, as `object`; by default the object in `state`"},
	{"oldPatch", "a JSON merge patch of the old object or, without `old`, of `object`"},
	{"subresource", "such as `status` or `deployments/scale`"},
	{"user", "the user of the request; by default `celgate`, a user without permissions. A service account, such as `system:serviceaccount:shop:web`, has the groups and the claims that the API server reads from its token"},
	{"groups", "the groups of the user; `system:authenticated` is added"},
	{"uid", "the uid of the user"},
	{"extra", "extra attributes of the user: lists of texts by their keys"},
	{"pod", "`namespace/name` of a Pod in `state` that makes the request with the token of its service account, in place of `user`"},
	{"dryRun", "`true` for a dry-run request"},
	{"namespace", "the namespace of an object without one; by default `default`"},
	{"workloads", "`false`: the objects that controllers create for the object are not evaluated; otherwise settings for them"},
	{"review", "instead of all other fields: an AdmissionReview, as a file or the object itself"},
}

var caseFields = slices.Concat(fields{{"name", "the name of the case"}}, askedFields, fields{
	{"state", "further existing objects for this case, as in the suite"},
	{"expect", "the expected answer"},
	{"table", "variations: each row is a case with the fields of this one, which the row may override. The `patch` of a row is applied after that of the case"},
})

var rowFields = slices.DeleteFunc(slices.Clone(caseFields), func(f field) bool { return f.name == "table" })

var expectFields = fields{
	{"allowed", "`true`; the default without `denied`"},
	{"denied", "`true`, or fields of the denial, or a list of denials: all of them must occur; the server reports only the first denial"},
	{"warnings", "all warnings, in order: the text, or fields of the violation. `[]` for none"},
	{"audited", "failures that a binding with the action Audit writes into the audit log"},
	{"auditAnnotations", "annotations of the audit event by their keys, `policy/key`; `null` for a missing one"},
	{"mutated", "`true`, or a golden file with the object after mutations, or further expectations"},
	{"untouched", "`true`: policies do not change the object"},
	{"idempotent", "`true`: the object does not change when the mutating policies run again on their result"},
	{"survives", "`true`: the final object has the values that each mutating policy set"},
	{"skipped", "`true`: none of the policies is evaluated; or the policy that is not evaluated and the reason, or a list of them"},
	{"created", "the expected answers for the objects that controllers create for an allowed workload, by kind, such as `Pod`, or `Kind/name`: one word, or the fields of this table"},
}

var workloadFields = fields{
	{"podsOf", "custom kinds, such as `Rollout.argoproj.io`, with the path of the Pod template in their objects, such as `spec.template`, or a list of paths, such as `spec.workers[*].template`"},
	{"user", "the user of all controllers, such as `system:kube-controller-manager`; by default each controller uses its service account"},
}

var verdictFields = fields{
	{"policy", "name of the policy"},
	{"binding", "name of the binding"},
	{"param", "`name` or `namespace/name` of the param"},
	{"validation", "index of the validation, from 0"},
	{"message", "the message of the policy, or the whole text of the server"},
	{"reason", "of the answer, such as `Forbidden`"},
	{"code", "of the answer, such as `422`"},
}

var mutatedFields = fields{
	{"file", "golden file; `--update` writes it"},
	{"object", "the object itself"},
	{"fields", "values by their paths, such as `spec.containers[name=app].image`; `null` for one that is not there"},
}

var skipFields = fields{
	{"policy", "name of the policy; without it all"},
	{"binding", "name of the binding"},
	{"by", "`resourceRules`, `excludeResourceRules`, `namespaceSelector`, `objectSelector`, `matchConditions` or `paramRef`; " +
		"of [the dialect](dialect.md) also `namespaces`, `subjects`, `permissions`, and these with `exclude`"},
	{"condition", "name of the match condition that is false"},
}

var textFields = fields{
	{"contains", "text somewhere in it"},
	{"matches", "a regular expression that holds somewhere in it; `^…$` for the whole"},
}

// sources reads files, directories and objects.
func (n node) sources(dir string) []Source {
	var all []Source
	for _, item := range n.list() {
		if s := item.source(dir); s != nil {
			all = append(all, *s)
		}
	}
	return all
}

// source reads a file name or an object.
func (n node) source(dir string) *Source {
	switch v := n.value.(type) {
	case nil:
		return nil
	case map[string]any:
		return &Source{Inline: &manifest.Document{Object: v, Source: n.doc.Source, Item: joinItem(n.doc.Item, n.path)},
			Place: n.place()}
	case string:
		path, only, _ := strings.Cut(v, "#")
		if path == "" {
			break
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, filepath.FromSlash(path))
		}
		return &Source{Path: path, Only: only, Place: n.place()}
	}
	n.add(&Problem{n.place(), fmt.Sprintf("%s is the name of a file or an object, not %s", n.name(), typeOf(n.value)),
		""})
	return nil
}

func joinItem(item, path string) string {
	if item == "" {
		return path
	}
	return item + "." + path
}

func (n node) object() map[string]any {
	if n.value == nil {
		return nil
	}
	m, ok := n.value.(map[string]any)
	if !ok {
		n.add(&Problem{n.place(), fmt.Sprintf("%s is a mapping, not %s", n.name(), typeOf(n.value)), ""})
	}
	return m
}

// readRequest reads the members of a request, with those of a default case for missing ones.
func (n node) readRequest(c Case, dir string) Case {
	a := &c.Asked
	if n.member("review").isGiven() && !n.member("object").isGiven() {
		a.Object = nil // of the defaults
	}
	for name, to := range map[string]**Source{"object": &a.Object, "old": &a.Old, "review": &a.Review} {
		if s := n.member(name).source(dir); s != nil {
			*to = s
		}
	}
	for name, to := range map[string]*string{"operation": &a.Operation, "subresource": &a.Subresource, "user": &a.User,
		"uid": &a.UID, "pod": &a.Pod, "namespace": &a.Namespace} {
		if m := n.member(name); m.isGiven() {
			*to = m.text()
		}
	}
	a.Operation = strings.ToUpper(a.Operation)
	if op := n.member("operation"); op.isGiven() &&
		!slices.Contains([]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, a.Operation) {
		n.add(&Problem{op.place(), fmt.Sprintf("operation is CREATE, UPDATE, DELETE or CONNECT, not %q", a.Operation),
			""})
	}
	if m := n.member("groups"); m.isGiven() {
		a.Groups = m.texts()
	}
	switch pod := n.member("pod"); {
	case !pod.isGiven():
		if n.member("user").isGiven() {
			a.Pod = "" // of the defaults
		}
	case n.member("user").isGiven() || n.member("groups").isGiven():
		n.add(&Problem{pod.place(), "pod cannot be combined with user and groups",
			"a Pod has those of its service account"})
	default:
		a.podPlace, a.User, a.Groups = pod.place(), "", nil // replaces those of the defaults
	}
	if m := n.member("extra"); m.isGiven() {
		a.Extra = map[string]authenticationv1.ExtraValue{}
		for _, key := range slices.Sorted(maps.Keys(m.object())) {
			a.Extra[key] = m.member(key).texts()
		}
	}
	if m := n.member("dryRun"); m.isGiven() {
		a.DryRun = m.boolean()
	}
	if m := n.member("workloads"); m.isGiven() {
		a.Workloads = m.workloads()
	}
	if p := n.member("patch").object(); p != nil {
		a.Patches = append(slices.Clip(a.Patches), p)
	}
	if p := n.member("oldPatch").object(); p != nil {
		a.OldPatches = append(slices.Clip(a.OldPatches), p)
	}
	return c
}

// cases reads a case; one with a table is several.
func (n node) cases(defaults Case, dir string) []*Case {
	c := n.readCase(defaults, dir)
	expect := n.member("expect")
	table := n.member("table")
	if !table.isGiven() {
		n.finish(&c, expect, dir)
		return []*Case{&c}
	}
	var all []*Case
	for i, row := range table.list() {
		if !row.mapping(rowFields) {
			continue
		}
		base := c
		base.Name = ""
		r := row.readCase(base, dir)
		if r.Name == "" {
			r.Name = fmt.Sprintf("row %d", i+1)
		}
		if c.Name != "" {
			r.Name = c.Name + "/" + r.Name
		}
		own := row.member("expect")
		if !own.isGiven() {
			own = expect
		}
		row.finish(&r, own, dir)
		all = append(all, &r)
	}
	if len(all) == 0 && len(n.problems) == 0 {
		n.add(&Problem{table.place(), "table does not have rows", ""})
	}
	return all
}

func (n node) readCase(defaults Case, dir string) Case {
	c := n.readRequest(defaults, dir)
	c.Place = n.place()
	if name := n.member("name"); name.isGiven() {
		c.Name = name.text()
	}
	c.State = append(slices.Clip(c.State), n.member("state").sources(dir)...)
	return c
}

// finish checks that a case is complete.
func (n node) finish(c *Case, expect node, dir string) {
	if c.Name == "" && n.lacks("name", caseFields) {
		n.add(&Problem{n.place(), "name is missing", "describe the case in a few words"})
	}
	switch a := c.Asked; {
	case a.Object.isZero() && a.Review.isZero() && !(a.Operation == "DELETE" && !a.Old.isZero()):
		if !n.lacks("object", caseFields) {
			break
		}
		n.add(&Problem{n.place(), "object is missing", "name a file with the manifest, or write the object here"})
	case !a.Object.isZero() && !a.Review.isZero():
		n.add(&Problem{n.place(), "object and review cannot be combined", "a review contains the whole request"})
	case !a.Review.isZero():
		for _, f := range askedFields {
			if m := n.member(f.name); f.name != "review" && m.isGiven() {
				n.add(&Problem{m.place(), f.name + " and review cannot be combined",
					"a review contains the whole request"})
			}
		}
	}
	if !expect.isGiven() {
		if !n.lacks("expect", caseFields) {
			return
		}
		n.add(&Problem{n.place(), "expect is missing", "write the expected answer, as in expect: allowed"})
		return
	}
	c.Expect = expect.expectation(dir)
}

func (n node) expectation(dir string) Expectation {
	e := Expectation{Place: n.place()}
	if s, ok := n.value.(string); ok {
		switch s {
		case "allowed":
		case "denied":
			e.Denied = []Verdict{{Place: e.Place, Validation: -1}}
		case "mutated":
			e.Mutated = &Mutated{Place: e.Place}
		case "untouched":
			e.Untouched = e.Place
		case "skipped":
			e.Skipped = []Skip{{Place: e.Place}}
		default:
			n.add(&Problem{e.Place, fmt.Sprintf("unknown expectation %q", s),
				"in one word: allowed, denied, mutated, untouched or skipped"})
		}
		return e
	}
	if !n.mapping(expectFields) {
		return e
	}
	e.Denied = n.member("denied").verdicts(true)
	if allowed := n.member("allowed"); allowed.isGiven() {
		switch yes := allowed.boolean(); {
		case yes && e.Denied != nil:
			n.add(&Problem{allowed.place(), "allowed and denied cannot be combined", ""})
		case !yes && e.Denied == nil:
			e.Denied = []Verdict{{Place: allowed.place(), Validation: -1}}
		}
	}
	if w := n.member("warnings"); w.isGiven() {
		e.warningsGiven, e.Warnings = true, w.verdicts(false)
	}
	e.Audited = n.member("audited").verdicts(false)
	if notes := n.member("auditAnnotations"); notes.isGiven() {
		for _, key := range slices.Sorted(maps.Keys(notes.object())) {
			m := notes.member(key)
			e.Annotations = append(e.Annotations,
				Annotation{Place: m.place(), Key: key, Value: m.match(), Absent: m.value == nil})
		}
	}
	e.Mutated = n.member("mutated").readMutated(dir)
	if m := n.member("untouched"); m.isGiven() && m.boolean() {
		e.Untouched = m.place()
	}
	if e.Untouched.IsValid() && e.Mutated != nil {
		n.add(&Problem{e.Untouched, "mutated and untouched cannot be combined", ""})
	}
	if m := n.member("idempotent"); m.isGiven() && m.boolean() {
		e.Idempotent = m.place()
	}
	if m := n.member("survives"); m.isGiven() && m.boolean() {
		e.Survives = m.place()
	}
	e.Skipped = n.member("skipped").skips()
	if created := n.member("created"); created.isGiven() {
		for _, of := range slices.Sorted(maps.Keys(created.object())) {
			m := created.member(of)
			want := CreatedExpectation{Place: m.place(), Of: of, Expectation: m.expectation(dir)}
			if len(want.Created) > 0 {
				n.add(&Problem{m.member("created").place(), "created within created", "name the kind beside " + of})
			}
			if want.Mutated != nil && want.Mutated.Golden != nil {
				n.add(&Problem{m.member("mutated").place(), "a created object does not have a golden file",
					"name fields, or write the object"})
			}
			e.Created = append(e.Created, want)
		}
		if e.Denied != nil {
			n.add(&Problem{created.place(), "denied and created cannot be combined",
				"nothing is created for an object that is denied"})
		}
	}
	return e
}

// workloads reads false, or the settings of workloads.
func (n node) workloads() Workloads {
	if follow, ok := n.value.(bool); ok {
		return Workloads{Off: !follow}
	}
	if !n.mapping(workloadFields) {
		return Workloads{}
	}
	w := Workloads{User: n.member("user").text(), PodsOf: requests.PodsOf{}}
	kinds := n.member("podsOf")
	for _, kind := range slices.Sorted(maps.Keys(kinds.object())) {
		for _, path := range kinds.member(kind).list() {
			if err := w.PodsOf.Add(kind, path.text()); err != nil {
				path.add(&Problem{Position: path.place(), Message: "podsOf: " + err.Error()})
			}
		}
	}
	return w
}

// verdicts reads expectations about denials and the like: true, text, a mapping or a list.
func (n node) verdicts(truth bool) []Verdict {
	if yes, ok := n.value.(bool); ok && truth {
		if !yes {
			return nil
		}
		return []Verdict{{Place: n.place(), Validation: -1}}
	}
	var all []Verdict
	for _, item := range n.list() {
		v := Verdict{Place: item.place(), Validation: -1}
		if s, ok := item.value.(string); ok {
			v.Message = Text{Exact: s, given: true}
			all = append(all, v)
			continue
		}
		known := verdictFields
		m, _ := item.value.(map[string]any)
		if bare := len(m) > 0 && (m["contains"] != nil || m["matches"] != nil); bare {
			v.Message = item.match()
			all = append(all, v)
			continue
		}
		if !item.mapping(known) {
			continue
		}
		v.Policy, v.Binding, v.Param = item.member("policy").text(), item.member("binding").text(),
			item.member("param").text()
		if i, ok := item.member("validation").integer(); ok {
			v.Validation = i
		}
		v.Message, v.Reason = item.member("message").match(), item.member("reason").text()
		v.Code, _ = item.member("code").integer()
		all = append(all, v)
	}
	return all
}

// PatternProblem describes the error of a regular expression.
func PatternProblem(err error) string {
	if wrong := (*syntax.Error)(nil); errors.As(err, &wrong) {
		return fmt.Sprintf("%s: `%s`", wrong.Code, wrong.Expr)
	}
	return err.Error()
}

// match reads a text to compare with.
func (n node) match() Text {
	switch v := n.value.(type) {
	case nil:
		return Text{}
	case map[string]any:
		if !n.mapping(textFields) {
			return Text{}
		}
		t := Text{Contains: n.member("contains").text(), given: true}
		if m := n.member("matches"); m.isGiven() {
			re, err := regexp.Compile(m.text())
			if err != nil {
				n.add(&Problem{m.place(), "matches: " + PatternProblem(err), ""})
			}
			t.Matches = re
		}
		return t
	case string:
		return Text{Exact: v, given: true}
	}
	n.add(&Problem{n.place(), fmt.Sprintf("%s is a string, not %s", n.name(), typeOf(n.value)), "put it in quotes"})
	return Text{}
}

func (n node) readMutated(dir string) *Mutated {
	switch v := n.value.(type) {
	case nil:
		return nil
	case bool:
		if v {
			return &Mutated{Place: n.place()}
		}
		n.add(&Problem{n.place(), "mutated is true, a file or a mapping",
			"write untouched: true for an object that is not changed"})
		return nil
	case string:
		return &Mutated{Place: n.place(), Golden: n.source(dir)}
	}
	if !n.mapping(mutatedFields) {
		return nil
	}
	m := &Mutated{Place: n.place()}
	if file := n.member("file"); file.isGiven() {
		if s := file.source(dir); s != nil && s.Inline == nil {
			m.Golden = s
		}
	}
	if object := n.member("object"); object.isGiven() {
		switch s := object.source(dir); {
		case s == nil:
		case s.Inline != nil:
			m.Object = s.Inline
		default:
			m.Golden = s
		}
	}
	if given := n.member("fields"); given.isGiven() {
		for _, path := range slices.Sorted(maps.Keys(given.object())) {
			f := Field{Place: given.member(path).place(), Path: path, Value: given.member(path).value}
			if _, err := parsePath(path); err != nil {
				n.add(&Problem{f.Place, err.Error(),
					`a path is like spec.containers[0].image or metadata.labels["example.com/team"]`})
			}
			m.Fields = append(m.Fields, f)
		}
	}
	return m
}

var matchers = []string{"resourceRules", "excludeResourceRules", "namespaceSelector", "objectSelector",
	"matchConditions", "paramRef", "namespaces", "excludeNamespaces", "subjects", "excludeSubjects", "permissions",
	"excludePermissions"}

func (n node) skips() []Skip {
	if yes, ok := n.value.(bool); ok {
		if !yes {
			return nil
		}
		return []Skip{{Place: n.place()}}
	}
	var all []Skip
	for _, item := range n.list() {
		s := Skip{Place: item.place()}
		if name, ok := item.value.(string); ok {
			s.Policy = name
			all = append(all, s)
			continue
		}
		if !item.mapping(skipFields) {
			continue
		}
		s.Policy, s.Binding = item.member("policy").text(), item.member("binding").text()
		s.By, s.Condition = item.member("by").text(), item.member("condition").text()
		if s.By != "" && !slices.Contains(matchers, s.By) {
			n.add(&Problem{item.member("by").place(), fmt.Sprintf("by is not one of the matchers: %q", s.By),
				"they are " + strings.Join(matchers, ", ")})
		}
		if s.Condition != "" && s.By == "" {
			s.By = "matchConditions"
		}
		all = append(all, s)
	}
	return all
}
