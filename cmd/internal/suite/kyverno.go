package suite

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// A Conversion is the result of converting a test of the Kyverno command line.
type Conversion struct {
	File string // the test
	// as YAML, a document for each policy; file names are relative to the folder of the test. Empty: none
	Suites []byte
	Cases  int
	Left   []*Problem // parts that were not converted, or were added
}

// KyvernoTests finds the tests that the Kyverno command line would run: the named files, and each kyverno-test.yaml
// below a directory.
func KyvernoTests(paths ...string) (files []string, problems []*Problem) {
	for _, root := range paths {
		found := len(files)
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() &&
				(path == root || slices.Contains([]string{"kyverno-test.yaml", "kyverno-test.yml"}, entry.Name())) {
				files = append(files, path)
			}
			return err
		})
		switch {
		case err != nil:
			problems = append(problems, &Problem{policy.Position{File: root}, reasonOf(err), ""})
		case len(files) == found:
			problems = append(problems, &Problem{policy.Position{File: root}, "no kyverno-test.yaml in this directory",
				""})
		}
	}
	return files, problems
}

// FromKyverno converts a test of the Kyverno command line, kind Test of cli.kyverno.io/v1alpha1, as far as it is about
// ValidatingAdmissionPolicies and MutatingAdmissionPolicies. Each result there is about one policy in isolation; the
// equivalent here is a suite for each policy.
func FromKyverno(file string) *Conversion {
	k := &kyverno{Conversion: Conversion{File: file}, dir: filepath.Dir(file)}
	docs, problems := manifest.Load(file)
	for _, p := range problems {
		if !p.Warning {
			k.noteLeft(p.Position, p.Message, "a test has apiVersion: cli.kyverno.io/v1alpha1 and kind: Test")
		}
	}
	for _, d := range docs {
		apiVersion, _ := d.Object["apiVersion"].(string)
		if kind, _ := d.Object["kind"].(string); kind == "Test" && strings.Contains(apiVersion, "kyverno.io/") {
			k.test(d)
		} else {
			k.noteLeft(d.Position(), "not a test: "+kind, "")
		}
	}
	return &k.Conversion
}

// kyverno is the state of a conversion.
type kyverno struct {
	Conversion
	dir       string
	policies  []kyvernoPolicy
	resources []kyvernoObject
	state     []any
	defaults  suiteRequest
	values    map[string]map[string]any // variables by policy/resource; global ones under "/"
	parents   map[string]string         // the subresource, such as deployments/scale, by kind
}

// A kyvernoObject is an object of the files that a test names.
type kyvernoObject struct {
	doc   *manifest.Document
	named string // in the notation of suites: file.yaml#Kind/namespace/name
}

type kyvernoPolicy struct {
	kyvernoObject
	policy   *policy.Policy
	bindings []kyvernoBinding
}

type kyvernoBinding struct {
	kyvernoObject
	binding *policy.Binding
}

func (k *kyverno) noteLeft(at policy.Position, message, hint string) {
	k.Left = append(k.Left, &Problem{at, message, hint})
}

// Members of a suite, in the usual order.
type (
	suiteFile struct {
		APIVersion string        `yaml:"apiVersion"`
		Kind       string        `yaml:"kind"`
		Name       string        `yaml:"name"`
		Policies   []any         `yaml:"policies"`
		State      []any         `yaml:"state,omitempty"`
		Defaults   *suiteRequest `yaml:"defaults,omitempty"`
		Cases      []suiteCase   `yaml:"cases"`
	}
	suiteRequest struct {
		Object      string   `yaml:"object,omitempty"`
		Operation   string   `yaml:"operation,omitempty"`
		Old         string   `yaml:"old,omitempty"`
		Subresource string   `yaml:"subresource,omitempty"`
		User        string   `yaml:"user,omitempty"`
		Groups      []string `yaml:"groups,omitempty,flow"`
	}
	suiteCase struct {
		Name         string `yaml:"name"`
		suiteRequest `yaml:",inline"`
		Expect       any `yaml:"expect"`
	}
)

// unsupported are the members of a test that concern other kinds of policies.
var unsupported = map[string]string{
	"checks":          "assertions about the reports of Kyverno do not have a counterpart",
	"exceptions":      "a PolicyException does not have a meaning for these policies; write a case with expect: skipped, or a match condition",
	"jsonPayload":     "these policies see objects of the API only",
	"jsonPayloads":    "these policies see objects of the API only",
	"targetResources": "these policies change the object of the request only",
}

func (k *kyverno) test(d *manifest.Document) {
	r := &reader{doc: d}
	n := r.root()
	for _, name := range slices.Sorted(maps.Keys(unsupported)) {
		if m := n.member(name); m.isGiven() {
			k.noteLeft(m.place(), name+" is left out", unsupported[name])
		}
	}
	name := n.member("metadata").member("name").text()
	if name == "" {
		name = n.member("name").text()
	}
	for _, item := range n.member("policies").list() {
		k.readPolicies(item)
	}
	for _, item := range n.member("resources").list() {
		k.resources = append(k.resources, k.objects(item)...)
	}
	for _, list := range []string{"paramResources", "clusterResources"} {
		for _, item := range n.member(list).list() {
			if path := item.text(); path != "" {
				k.state = append(k.state, path)
			}
		}
	}
	k.readValues(n.member("values"))
	for _, member := range []string{"variables", "userinfo", "context"} {
		m := n.member(member)
		for _, o := range k.objects(m) {
			file := (&reader{doc: o.doc}).root()
			switch member {
			case "variables":
				k.readValues(file)
			case "userinfo":
				k.readUser(file)
			case "context":
				k.readContext(file)
			}
			k.Left = append(k.Left, file.sortedProblems()...)
		}
	}

	results := n.member("results").list()
	if len(results) == 0 {
		k.noteLeft(d.Position(), "the test does not have results", "")
	}
	done := make([]bool, len(results))
	for _, p := range k.policies {
		s := suiteFile{APIVersion: APIVersion, Kind: "Suite", Name: name, State: k.state, Policies: k.nameBound(p)}
		if len(k.policies) > 1 {
			s.Name = strings.TrimPrefix(name+"/"+p.policy.Name, "/")
		}
		if k.defaults.User != "" || k.defaults.Groups != nil {
			s.Defaults = &k.defaults
		}
		for i, result := range results {
			if result.member("policy").text() == p.policy.Name {
				done[i] = true
				s.Cases = append(s.Cases, k.cases(result, p)...)
			}
		}
		if len(s.Cases) == 0 {
			continue
		}
		makeUnique(s.Cases)
		k.write(&s)
	}
	for i, result := range results {
		if !done[i] {
			m := result.member("policy")
			k.noteLeft(m.place(), fmt.Sprintf("the files under policies do not contain a ValidatingAdmissionPolicy or MutatingAdmissionPolicy %q", m.text()), "")
		}
	}
	k.Left = append(k.Left, r.sortedProblems()...)
}

// write adds a suite.
func (k *kyverno) write(s *suiteFile) {
	var text bytes.Buffer
	enc := yaml.NewEncoder(&text)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(s); err != nil {
		k.noteLeft(policy.Position{File: k.File}, err.Error(), "")
		return
	}
	if len(k.Suites) > 0 {
		k.Suites = append(k.Suites, "---\n"...)
	}
	k.Suites = append(k.Suites, text.Bytes()...)
	k.Cases += len(s.Cases)
}

// makeUnique makes the names of cases unique.
func makeUnique(cases []suiteCase) {
	seen := map[string]int{}
	for i := range cases {
		name := cases[i].Name
		if seen[name]++; seen[name] > 1 {
			cases[i].Name += fmt.Sprintf(" (%d)", seen[name])
		}
	}
}

// objects reads the objects of a file or directory.
func (k *kyverno) objects(n node) []kyvernoObject {
	if !n.isGiven() {
		return nil
	}
	source := n.source(k.dir)
	if source == nil || source.Inline != nil {
		return nil
	}
	if strings.Contains(n.text(), "://") {
		k.noteLeft(n.place(), "a file of another place is not read: "+n.text(), "download it, and name the file")
		return nil
	}
	docs, problems := source.documents()
	for _, p := range problems {
		k.noteLeft(p.Position, p.Message, p.Hint)
	}
	var all []kyvernoObject
	for _, d := range docs {
		file, err := filepath.Rel(k.dir, d.Source.File)
		if err != nil {
			file = d.Source.File
		}
		named := filepath.ToSlash(file)
		if len(docs) > 1 {
			named += "#" + tree.Object(d.Object).Kind().Kind
			if namespace := tree.Object(d.Object).Namespace(); namespace != "" {
				named += "/" + namespace
			}
			named += "/" + tree.Object(d.Object).Name()
		}
		all = append(all, kyvernoObject{d, named})
	}
	return all
}

// readPolicies reads the policies of a file and their bindings, which may be in another file.
func (k *kyverno) readPolicies(n node) {
	var bindings []kyvernoBinding
	for _, o := range k.objects(n) {
		if !policy.IsRecognised(o.doc.Object) {
			k.noteLeft(o.doc.Position(), fmt.Sprintf("%s is left out: it is a %s",
				tree.Object(o.doc.Object).Name(), tree.Object(o.doc.Object).Kind().Kind), "")
			continue
		}
		p, b, err := policy.FromObject(o.doc.Object, o.doc.Place)
		switch {
		case err != nil:
			k.noteLeft(o.doc.Position(), err.Error(), "")
		case p != nil:
			k.policies = append(k.policies, kyvernoPolicy{kyvernoObject: o, policy: p})
		case b != nil:
			bindings = append(bindings, kyvernoBinding{o, b})
		}
	}
	for i := range k.policies {
		for _, b := range bindings {
			if b.binding.PolicyRef() == k.policies[i].policy.Ref() {
				k.policies[i].bindings = append(k.policies[i].bindings, b)
			}
		}
	}
}

// nameBound names a policy and its bindings. Kyverno applies a policy without a binding; the API server does not, so a
// binding is added.
func (k *kyverno) nameBound(p kyvernoPolicy) []any {
	all := []any{p.named}
	for _, b := range p.bindings {
		all = append(all, b.named)
	}
	if file, _, _ := strings.Cut(p.named, "#"); len(k.policies) == 1 &&
		!slices.ContainsFunc(p.bindings, func(b kyvernoBinding) bool {
			return !strings.HasPrefix(b.named, file+"#")
		}) {
		all = []any{file} // the whole file
	}
	if len(p.bindings) > 0 {
		return all
	}
	spec := map[string]any{"policyName": p.policy.Name}
	if p.policy.Kind == policy.Validating {
		spec["validationActions"] = []string{string(policy.Deny)}
	}
	k.noteLeft(p.policy.Position, fmt.Sprintf("policy %s does not have a binding, so it has no effect in a cluster; the suite contains one", p.policy.Name),
		"add a binding to the policy's files and remove the one of the suite",
	)
	return append(all, map[string]any{
		"apiVersion": p.doc.Object["apiVersion"], "kind": p.policy.Kind.Binding(),
		"metadata": map[string]any{"name": p.policy.Name}, "spec": spec,
	})
}

// verbs are parts of names of cases, by expected result.
var verbs = map[string]string{"pass": "passes", "fail": "fails", "skip": "is skipped"}

// cases converts one result, which concerns several resources.
func (k *kyverno) cases(n node, p kyvernoPolicy) []suiteCase {
	result := n.member("result")
	if !result.isGiven() {
		result = n.member("status")
	}
	var all []suiteCase
	for _, o := range k.objectsOf(n) {
		expect := k.expectation(n, result, p, o)
		if expect == nil {
			return nil // the reason is the same for all resources
		}
		c := suiteCase{Name: tree.Object(o.doc.Object).Name() + " " + verbs[result.text()], Expect: expect}
		c.Object = o.named
		c.Subresource = k.parents[tree.Object(o.doc.Object).Kind().Kind]
		k.variables(&c, p, o, n)
		all = append(all, c)
	}
	return all
}

// objectsOf returns the resources of a result: all of its kind if it does not name any.
func (k *kyverno) objectsOf(n node) []kyvernoObject {
	kind := n.member("kind").text()
	is := func(o kyvernoObject, name, namespace string) bool {
		own, ns := tree.Object(o.doc.Object).Name(), tree.Object(o.doc.Object).Namespace()
		return (name == "" || name == own || name == ns+"/"+own) && (namespace == "" || namespace == ns) &&
			(kind == "" || kind == tree.Object(o.doc.Object).Kind().Kind ||
				strings.HasSuffix(kind, "/"+tree.Object(o.doc.Object).Kind().Kind))
	}
	var all []kyvernoObject
	find := func(at node, name, namespace string) {
		found := false
		for _, o := range k.resources {
			if is(o, name, namespace) {
				all, found = append(all, o), true
			}
		}
		if !found {
			k.noteLeft(at.place(), fmt.Sprintf("the files under resources do not contain the object %s",
				strings.TrimSpace(kind+" "+name)), "")
		}
	}
	names := slices.Concat(n.member("resources").list(), n.member("resource").list())
	for _, item := range names {
		find(item, item.text(), "")
	}
	specs := n.member("resourceSpecs").list()
	for _, item := range specs {
		if sub := item.member("subresource"); sub.isGiven() {
			k.noteLeft(sub.place(), "subresource is left out",
				"write the subresource in the case, such as subresource: deployments/scale")
		}
		find(item, item.member("name").text(), item.member("namespace").text())
	}
	if len(names)+len(specs) == 0 {
		find(n, "", "")
	}
	return all
}

// expectation converts an expected result; nil, with a reason, if it has no equivalent.
func (k *kyverno) expectation(n, result node, p kyvernoPolicy, o kyvernoObject) any {
	for _, name := range []string{"generatedResource", "cloneSourceResource"} {
		if m := n.member(name); m.isGiven() {
			k.noteLeft(m.place(), name+" is left out", "these policies change the object of the request only")
		}
	}
	switch what := result.text(); {
	case what == "skip":
		return map[string]any{"skipped": p.policy.Name}
	case p.policy.Kind == policy.Mutating && what == "pass":
		return k.patchedFile(n, o)
	case p.policy.Kind == policy.Mutating:
	case what == "pass" && p.acts(policy.Deny):
		return "allowed"
	case what == "pass" && p.acts(policy.Warn):
		return map[string]any{"warnings": []string{}}
	case what == "pass":
		return map[string]any{"auditAnnotations": map[string]any{
			"validation.policy.admission.k8s.io/validation_failure": nil}}
	case what == "fail" && p.acts(policy.Deny):
		return map[string]any{"denied": map[string]any{"policy": p.policy.Name}}
	case what == "fail" && p.acts(policy.Warn):
		return map[string]any{"warnings": map[string]any{"policy": p.policy.Name}}
	case what == "fail":
		return map[string]any{"audited": map[string]any{"policy": p.policy.Name}}
	}
	k.noteLeft(result.place(), fmt.Sprintf("the result %q of a %s does not have a counterpart", result.text(), p.policy.Kind),
		"write the case by hand")
	return nil
}

// acts reports whether a binding of a policy has an action; an added binding denies.
func (p kyvernoPolicy) acts(action policy.Action) bool {
	return len(p.bindings) == 0 && action == policy.Deny ||
		slices.ContainsFunc(p.bindings, func(b kyvernoBinding) bool {
			return slices.Contains(b.binding.Actions, action)
		})
}

// patchedFile names the file with the object after mutations, if the test has one.
func (k *kyverno) patchedFile(n node, o kyvernoObject) any {
	file := n.member("patchedResources")
	if !file.isGiven() {
		file = n.member("patchedResource")
	}
	if !file.isGiven() {
		return "mutated"
	}
	for _, golden := range k.objects(file) {
		if describe(golden.doc.Object) == describe(o.doc.Object) {
			return map[string]any{"mutated": golden.named}
		}
	}
	k.noteLeft(file.place(), fmt.Sprintf("%[2]s does not contain the object %[1]s", describe(o.doc.Object), file.text()),
		"the result of the policy is not compared")
	return "mutated"
}

// variables takes the operation from Kyverno's variables; other variables do not exist for these policies.
func (k *kyverno) variables(c *suiteCase, p kyvernoPolicy, o kyvernoObject, n node) {
	values := maps.Clone(k.values["/"])
	if values == nil {
		values = map[string]any{}
	}
	maps.Copy(values, k.values[p.policy.Name+"/"+tree.Object(o.doc.Object).Name()])
	operation, _ := values["request.operation"].(string)
	switch operation = strings.ToUpper(operation); {
	case operation == "" && c.Subresource != "", operation == "UPDATE": // a subresource belongs to an existing object
		operation = "UPDATE"
		c.Operation, c.Old = operation, c.Object
		k.noteLeft(n.place(), fmt.Sprintf("the test does not contain %s before the update; the suite uses it unchanged", describe(o.doc.Object)), "add it under old")
	case operation != "CREATE":
		c.Operation = operation
	}
}

// readValues reads namespaces, operations and subresources of a document of the kind Values.
func (k *kyverno) readValues(n node) {
	if k.values == nil {
		k.values, k.parents = map[string]map[string]any{}, map[string]string{}
	}
	for _, item := range n.member("namespaceSelector").list() {
		metadata := map[string]any{"name": item.member("name").text()}
		if labels := item.member("labels").object(); labels != nil {
			metadata["labels"] = labels
		}
		k.state = append(k.state, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
	}
	for _, item := range n.member("namespaces").list() {
		namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace"}
		maps.Copy(namespace, item.object())
		k.state = append(k.state, namespace)
	}
	take := func(under string, values node) {
		for _, name := range slices.Sorted(maps.Keys(values.object())) {
			m := values.member(name)
			if name != "request.operation" {
				k.noteLeft(m.place(), fmt.Sprintf("the variable %s is left out", name),
					"these policies see the request, params and the namespace only")
				continue
			}
			if k.values[under] == nil {
				k.values[under] = map[string]any{}
			}
			k.values[under][name] = m.value
		}
	}
	take("/", n.member("globalValues"))
	for _, p := range n.member("policies").list() {
		for _, resource := range p.member("resources").list() {
			take(p.member("name").text()+"/"+resource.member("name").text(), resource.member("values"))
		}
		if rules := p.member("rules"); rules.isGiven() {
			k.noteLeft(rules.place(), "values of rules are left out", "these policies do not have rules")
		}
	}
	for _, item := range n.member("subresources").list() {
		sub := item.member("subresource")
		if name := sub.member("name").text(); name != "" {
			k.parents[sub.member("kind").text()] = name
		}
	}
}

// readUser reads the user of a document of the kind UserInfo.
func (k *kyverno) readUser(n node) {
	user := n.member("userInfo")
	k.defaults.User = user.member("username").text()
	if groups := user.member("groups"); groups.isGiven() {
		k.defaults.Groups = groups.texts()
	}
	for _, name := range []string{"roles", "clusterRoles"} {
		if m := n.member(name); m.isGiven() {
			k.noteLeft(m.place(), name+" are left out", "give the Roles and their bindings under state")
		}
	}
}

// readContext reads the objects of a document of the kind Context as the state of the cluster.
func (k *kyverno) readContext(n node) {
	for _, item := range n.member("spec").member("resources").list() {
		if object := item.object(); object != nil {
			k.state = append(k.state, object)
		}
	}
	if images := n.member("spec").member("images"); images.isGiven() {
		k.noteLeft(images.place(), "images are left out", "these policies know no image registry")
	}
}

// WriteSuites writes the suites beside the test, without overwriting files.
func (c *Conversion) WriteSuites() (string, error) {
	path := filepath.Join(filepath.Dir(c.File), "suite.yaml")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return path, err
	}
	_, err = file.Write(c.Suites)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return path, err
}
