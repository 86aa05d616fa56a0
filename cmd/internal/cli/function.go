package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A function is a run as a KRM function (the function specification of kustomize and kpt): a ResourceList on standard
// input becomes a ResourceList on standard output, with mutated items and results.
type function struct {
	*apply
	source  *manifest.Source
	list    map[string]any
	results []result
	only    bool // spec.validateOnly: items stay as they are
}

// A result is one result of a ResourceList.
type result struct {
	severity string // error, warning or info
	message  string
	object   map[string]any // nil: none
	field    string
	change   bool // it describes a change
	heard    bool // it was printed on standard error
}

// resourceList returns the text of standard input if it is a ResourceList. Otherwise the text can be read again.
func (c *console) resourceList() (string, bool, error) {
	const enough = 4 << 10
	in := bufio.NewReaderSize(c.stdin, enough)
	c.stdin = in
	if head, _ := in.Peek(enough); !bytes.Contains(head, []byte(functionGroup+"/")) {
		return "", false, nil
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return "", false, err
	}
	if list, err := decodeTree(text); err == nil && tree.Object(list).Kind().Group == functionGroup &&
		tree.Object(list).Kind().Kind == "ResourceList" {
		return string(text), true, nil
	}
	c.stdin = bytes.NewReader(text)
	return "", false, nil
}

const functionGroup = "config.kubernetes.io"

// decodeTree decodes one document by the rules of package manifest.
func decodeTree(text []byte) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	return tree, kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &tree)
}

// hasPipedInput reports whether standard input is neither a terminal nor closed.
func (c *console) hasPipedInput() bool {
	f, ok := c.stdin.(*os.File)
	if !ok {
		return true
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice == 0
}

// functionInput returns a ResourceList from standard input for a command without arguments. It waits only briefly.
func (c *console) functionInput() (string, bool) {
	if !c.hasPipedInput() {
		return "", false
	}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		if text, ok, err := c.resourceList(); ok && err == nil {
			found <- text
		}
	}()
	select {
	case text, ok := <-found:
		return text, ok
	case <-time.After(5 * time.Second):
		return "", false
	}
}

// runFunction answers a ResourceList. As the specification requires, the exit status is 1 if a result is an error.
func (a *apply) runFunction(ctx context.Context, text string) error {
	list, err := decodeTree([]byte(text))
	if err != nil {
		return err
	}
	f := &function{apply: a, source: &manifest.Source{File: "stdin", Line: 1, Text: text}, list: list}
	a.heard = func(message, hint string) {
		r := result{severity: "info", message: message, heard: true}
		if a.status != exitClean {
			r.severity = "error"
		}
		if hint != "" {
			r.message += " (hint: " + hint + ")"
		}
		f.results = append(f.results, r)
	}
	edits, err := f.decide(ctx)
	if err != nil {
		a.raise(exitFailed)
		a.sayError(err)
	}
	a.heard = nil
	if slices.ContainsFunc(f.results, func(r result) bool { return r.severity == "error" }) {
		a.raise(exitDenied)
	}
	if a.status != exitClean {
		a.status, edits = exitDenied, nil
		f.results = slices.DeleteFunc(f.results, func(r result) bool { return r.change }) // the items do not change
	}
	f.shout()
	if f.only {
		edits = nil
		f.results = slices.DeleteFunc(f.results, func(r result) bool { return r.change })
	}
	out, err := f.output(edits)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.stdout, out)
	return err
}

// shout prints errors on standard error, too: kustomize does not show the results of a function that fails.
func (f *function) shout() {
	for _, r := range f.results {
		if r.severity != "error" || r.heard {
			continue
		}
		message := r.message
		if r.object != nil {
			message = describe(r.object) + ": " + message
		}
		f.say(message, "")
	}
}

func (f *function) decide(ctx context.Context) ([]rewrite.Edit, error) {
	batch := f.items()
	from, err := f.sources()
	if err != nil {
		return nil, err
	}
	loader := &manifest.Loader{Stdin: strings.NewReader("")}
	w, err := f.load(ctx, loader, from, batch)
	if err != nil {
		return nil, err
	}
	if err := w.surround(batch, &f.asked); err != nil {
		return nil, err
	}
	engine, err := celgate.New(&w.set, w.wholeOptions(f.plugins))
	if err != nil {
		return nil, err
	}
	if err := f.sayOrder(engine); err != nil {
		return nil, err
	}
	rejected := w.rejections(engine)
	for _, r := range rejected {
		f.reject(r)
	}
	force := w.policiesInForce(f.console, rejected)
	f.requirePolicies([]string{"the function"}, force)
	d := &decider{world: w, engine: engine, asked: &f.asked, notes: newNotes(force, w, &f.asked), edits: true,
		changes: true, orders: true}
	var edits []rewrite.Edit
	notes := map[string]bool{}
	for _, doc := range batch {
		it := d.answer(ctx, doc)
		f.report(it, w, notes)
		if it.edit != nil {
			edits = append(edits, *it.edit)
		}
	}
	return edits, ctx.Err()
}

// items returns the items of the list that belong in a cluster.
func (f *function) items() []*manifest.Document {
	var docs []*manifest.Document
	items, _ := f.list["items"].([]any)
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok || tree.Object(object).Annotation("config.kubernetes.io/local-config") == "true" {
			continue
		}
		docs = append(docs, &manifest.Document{Object: object, Source: f.source,
			Item: "items[" + strconv.Itoa(i) + "]"})
	}
	return docs
}

// sources returns the files named by flags, and the content of the functionConfig: a policy, a List of policies and
// bindings, a ConfigMap whose data are such files, or an object with policies in spec.policies and the cluster state in
// spec.clusterState. With spec.validateOnly the items do not change.
func (f *function) sources() (sources, error) {
	from := sources{policies: f.policies, state: f.state, version: f.kubeVersion}
	config, _ := f.list["functionConfig"].(map[string]any)
	spec, _ := config["spec"].(map[string]any)
	documents := func(list any, path string) (docs []*manifest.Document, err error) {
		items, ok := list.([]any)
		if list != nil && !ok {
			return nil, fmt.Errorf("%s of the functionConfig is not a list", path)
		}
		for i, item := range items {
			object, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s[%d] of the functionConfig is not an object", path, i)
			}
			docs = append(docs, &manifest.Document{Object: object, Source: f.source,
				Item: "functionConfig." + path + "[" + strconv.Itoa(i) + "]"})
		}
		return docs, nil
	}
	kind, err := tree.Object(config).Kind(), error(nil)
	switch {
	case config == nil:
	case policy.IsRecognised(config):
		from.inline = []*manifest.Document{{Object: config, Source: f.source, Item: "functionConfig"}}
		from.inline = append(from.inline, f.bindingFor(config)...)
	case kind.Group == "" && kind.Kind == "List":
		from.inline, err = documents(config["items"], "items")
	case kind.Group == "" && kind.Kind == "ConfigMap":
		data, _ := config["data"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(data)) {
			text, _ := data[name].(string)
			docs, problems := manifest.Read(strings.NewReader(text), name)
			for _, p := range problems {
				return from, &p
			}
			from.inline = append(from.inline, docs...)
		}
	default:
		if from.inline, err = documents(spec["policies"], "spec.policies"); err != nil {
			return from, err
		}
		from.inlineState, err = documents(spec["clusterState"], "spec.clusterState")
		f.only, _ = spec["validateOnly"].(bool)
		version, _ := spec["kubeVersion"].(string)
		from.version = cmp.Or(from.version, version)
	}
	if err == nil && len(from.inline)+len(from.policies) == 0 {
		return from, withHint(errors.New("no policies given"),
			"put them into spec.policies of the functionConfig, or name files with -p")
	}
	return from, err
}

// bindingFor binds a policy that is itself the functionConfig: everywhere, with the action Deny.
func (f *function) bindingFor(config map[string]any) []*manifest.Document {
	spec, _ := config["spec"].(map[string]any)
	kind, _ := config["kind"].(string)
	of, binds := policy.KindOf(kind)
	if binds || spec["paramKind"] != nil {
		return nil
	}
	name := tree.Object(config).Name()
	binding := map[string]any{
		"apiVersion": config["apiVersion"], "kind": of.Binding(), "metadata": map[string]any{"name": name},
		"spec": map[string]any{"policyName": name},
	}
	if of == policy.Validating {
		binding["spec"].(map[string]any)["validationActions"] = []any{"Deny"}
	}
	return []*manifest.Document{{Object: binding, Source: f.source, Item: "functionConfig"}}
}

func (f *function) reject(r report.Rejection) {
	messages := []string{}
	for _, p := range r.Problems {
		messages = append(messages, p.Message)
	}
	if len(messages) == 0 && r.Status != nil {
		messages = append(messages, r.Status.Message)
	}
	f.results = append(f.results, result{severity: "error",
		message: fmt.Sprintf("%s %s is rejected: %s", r.Kind, r.Name, strings.Join(messages, "; "))})
}

var severities = map[policy.Action]string{policy.Deny: "error", policy.Warn: "warning", policy.Audit: "info"}

// report adds the results of an answer.
func (f *function) report(it answer, w *world, notes map[string]bool) {
	say := func(severity, message, field string) {
		f.results = append(f.results, result{severity: severity, message: message, object: it.doc.Object, field: field})
	}
	if it.Failure != nil && it.Failure.Skipped {
		say("info", it.Failure.Message, "")
		return
	}
	if it.Failure != nil {
		say("error", it.Failure.Message, "")
		return
	}
	d := it.Decision
	for _, c := range it.Changes {
		for _, h := range rewrite.Diff(c.Before, c.After, w.types.Type(tree.Object(c.After).Kind())) {
			say("info", fmt.Sprintf("changed by policy %s, binding %s", c.Policy, c.Binding), h.Path)
			f.results[len(f.results)-1].change = true
		}
	}
	denials := 0
	for _, v := range d.Violations {
		severity := "error"
		for _, action := range []policy.Action{policy.Audit, policy.Warn, policy.Deny} { // the strongest action counts
			if slices.Contains(v.Actions, action) {
				severity = severities[action]
			}
		}
		if severity == "error" {
			denials++
		}
		say(severity, fmt.Sprintf("policy %s, binding %s: %s", v.Policy, cmp.Or(v.Binding, "(none)"), v.Message), "")
	}
	if !d.Allowed && denials == 0 && d.Status != nil {
		say("error", d.Status.Message, "")
	}
	for _, warning := range d.Warnings {
		if warning.Violation == nil { // a violation has its own result
			say("warning", warning.Text, "")
		}
	}
	for _, n := range d.Notes {
		if !notes[n.Message] {
			notes[n.Message] = true
			say("info", n.Message, "")
		}
	}
	if text := report.UncheckedText(d); text != "" {
		say("info", text, "")
	}
}

// tree returns a result as a JSON tree.
func (r result) tree() map[string]any {
	out := map[string]any{"message": r.message, "severity": r.severity}
	if r.field != "" {
		out["field"] = map[string]any{"path": r.field}
	}
	if r.object == nil {
		return out
	}
	ref := map[string]any{"apiVersion": r.object["apiVersion"], "kind": r.object["kind"],
		"name": tree.Object(r.object).Name()}
	if namespace := tree.Object(r.object).Namespace(); namespace != "" {
		ref["namespace"] = namespace
	}
	out["resourceRef"] = ref
	for _, prefix := range []string{"internal.config.kubernetes.io/", "config.kubernetes.io/"} {
		path := tree.Object(r.object).Annotation(prefix + "path")
		if path == "" {
			continue
		}
		file := map[string]any{"path": path}
		if index, err := strconv.ParseInt(tree.Object(r.object).Annotation(prefix+"index"), 10, 64); err == nil {
			file["index"] = index
		}
		out["file"] = file
		break
	}
	return out
}

// output returns the list with the mutated items and the results. It keeps the text of the items where possible, so
// that their comments stay.
func (f *function) output(edits []rewrite.Edit) (string, error) {
	var results []any
	for _, r := range f.results {
		results = append(results, any(r.tree()))
	}
	text, err := rewrite.Text(f.source.Text, edits)
	if err != nil {
		return "", err
	}
	want, err := decodeTree([]byte(f.source.Text))
	if err != nil {
		return "", err
	}
	items, _ := want["items"].([]any)
	for _, ed := range edits {
		if i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(ed.Item, "items["), "]")); err == nil {
			items[i] = ed.New
		}
	}
	_, had := want["results"]
	delete(want, "results")
	if len(results) > 0 {
		want["results"] = results
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += rewrite.YAML(map[string]any{"results": results}, nil)
	}
	if got, err := decodeTree([]byte(text)); err == nil && !had && tree.Equal(got, want) {
		return text, nil
	}
	return rewrite.YAML(want, nil), nil
}

// functionRequest returns the ResourceList on standard input if it is the only input, or if there are no arguments.
func (c *console) functionRequest(args []string) (text string, ok bool, err error) {
	switch {
	case len(args) == 0:
		text, ok = c.functionInput()
	case len(args) == 1 && args[0] == "-":
		text, ok, err = c.resourceList()
	}
	return text, ok, err
}
