package differ

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/corpus"
	"github.com/celgate/celgate/policy"
)

// Fields counts the fields of objects that were compared.
type Fields struct {
	Requests, Fields int
	Differences      []string
}

// CompareFields sends a request of each operation for each kind of the world and compares, field by field, the values
// that policies see: the object, the old object and the options. celgate gets only the manifests, as if they came from
// files.
func (l *Live) CompareFields(ctx context.Context) (*Fields, error) {
	engine, err := celgate.New(&policy.Set{}, celgate.Options{KubeVersion: l.world.minor, Types: l.world.types,
		Cluster: l.world.cluster})
	if err != nil {
		return nil, err
	}
	more, err := l.world.read("fields")
	if err != nil {
		return nil, err
	}
	kinds := slices.Concat(l.world.kinds, more)
	found := make([]Fields, len(kinds))
	err = corpus.Each(len(found), func(i int) error {
		return l.compareFields(ctx, engine, kinds[i], fmt.Sprintf("fields%d", i), &found[i])
	})
	all := &Fields{}
	for _, f := range found {
		all.Requests += f.Requests
		all.Fields += f.Fields
		all.Differences = append(all.Differences, f.Differences...)
	}
	return all, err
}

func (l *Live) compareFields(ctx context.Context, engine *celgate.Engine, k *kind, token string, into *Fields) error {
	named := withName
	switch k.resource.Resource {
	case "customresourcedefinitions", "ipaddresses": // whose names are not free
		named = func(manifest map[string]any, _ string) map[string]any { return manifest }
	}
	manifest := named(k.templates[0], token)
	if !k.resource.Namespaced {
		delete(manifest["metadata"].(map[string]any), "namespace")
	}
	s := &slot{kind: k, c: &Case{}}
	ask := func(q *question) error { return l.askFields(ctx, engine, s, q, into) }
	fresh := named(manifest, "new")
	if err := ask(&question{kind: k, operation: celgate.Create, object: fresh, user: liveUsers[0]}); err != nil ||
		createOnly(k) {
		return err
	}
	s.old = manifest
	var err error
	if s.stored, err = l.recorder.Keep(ctx, manifest); err != nil {
		return err
	}
	changed := runtime.DeepCopyJSON(manifest)
	metadata := changed["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["changed"] = "yes"
	metadata["labels"] = labels
	questions := []*question{{operation: celgate.Update, object: manifest},
		{operation: celgate.Update, object: changed}, {operation: celgate.Delete}}
	if status := k.resource.Subresource("status"); status != nil && status.Kind == k.resource.GroupVersionKind() {
		questions = append(questions, &question{operation: celgate.Update, object: changed, sub: "status"})
	}
	for _, q := range questions {
		q.kind, q.user = k, liveUsers[0]
		if err := ask(q); err != nil {
			return err
		}
	}
	return l.recorder.Remove(ctx, s.stored)
}

// askFields compares one request.
func (l *Live) askFields(ctx context.Context, engine *celgate.Engine, s *slot, q *question, into *Fields) error {
	c := s.corpusCase(q)
	seen, err := l.recorder.Ask(ctx, c)
	if err != nil {
		return err
	}
	if seen.Review == nil { // of kinds without webhook calls, and refused by the registry
		return nil
	}
	r := q.kind.resource
	request := &celgate.Request{
		Kind: r.GroupVersionKind(), Resource: r.GroupVersionResource, SubResource: q.sub, Name: c.Request.Name,
		Namespace: c.Request.Namespace,
		Operation: q.operation, DryRun: true, Object: q.object,
		UserInfo: celgate.UserInfo{Username: q.user.Username, UID: q.user.UID,
			Groups: append(slices.Clone(q.user.Groups), "system:authenticated"), Extra: q.user.Extra},
		Options: map[string]any{"dryRun": []any{"All"}},
	}
	for _, name := range []string{"apiVersion", "kind"} {
		options, _ := seen.Review["options"].(map[string]any)
		request.Options[name] = options[name]
	}
	if q.operation != celgate.Create {
		request.OldObject = s.old
	}
	prepared, err := engine.Prepare(ctx, request)
	if err != nil {
		return err
	}
	request = prepared.Request()
	decision, err := engine.Admit(ctx, prepared)
	if err != nil {
		return err
	}
	into.Requests++
	d := &fieldDiff{}
	if q.operation != celgate.Create {
		d.unknown = unknown[r.Resource]
	}
	d.compare("object", seen.Review["object"], asAny(decision.Object))
	d.compare("oldObject", seen.Review["oldObject"], asAny(request.OldObject))
	d.compare("options", seen.Review["options"], asAny(request.Options))
	into.Fields += d.fields
	if len(d.found) > 0 {
		into.Differences = append(into.Differences,
			fmt.Sprintf("%s %s %s/%s: - server + celgate\n%s", q.operation, r.GroupVersion(), r.Resource, q.sub,
				strings.Join(d.found, "\n")))
	}
	return nil
}

func asAny(tree map[string]any) any {
	if tree == nil {
		return nil
	}
	return tree
}

// A fieldDiff lists the fields in which two trees differ.
type fieldDiff struct {
	unknown *regexp.Regexp // fields that manifests do not contain
	fields  int
	found   []string
}

func (d *fieldDiff) compare(path string, server, ours any) {
	a, isMap := server.(map[string]any)
	b, both := ours.(map[string]any)
	if isMap && both {
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			was, inServer := a[name]
			is, inOurs := b[name]
			at := path + "." + name
			switch {
			case strings.HasSuffix(at, ".metadata.managedFields"): // not computed
			case d.unknown != nil && d.unknown.MatchString(at):
			case !inOurs:
				d.found = append(d.found, fmt.Sprintf("- %s: %v", at, was))
			case !inServer:
				d.found = append(d.found, fmt.Sprintf("+ %s: %v", at, is))
			default:
				d.compare(at, was, is)
			}
		}
		return
	}
	x, isList := server.([]any)
	y, both := ours.([]any)
	if isList && both && len(x) == len(y) {
		for i := range x {
			d.compare(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])
		}
		return
	}
	d.fields++
	if !reflect.DeepEqual(form(path, server), form(path, ours)) {
		d.found = append(d.found, fmt.Sprintf("- %s: %v\n+ %s: %v", path, server, path, ours))
	}
}

// form is a value of an object, or only its form if the server draws it by chance or takes it from its clock.
func form(path string, v any) any {
	switch v := v.(type) {
	case string:
		if strings.HasSuffix(path, ".metadata.resourceVersion") {
			return "<version>"
		}
		return anyTime.ReplaceAllString(madeAddress.ReplaceAllString(madeUID.ReplaceAllString(v, "<uid>"), "<address>"),
			"<time>")
	case int64:
		if strings.HasSuffix(path, "odePort") && v >= 30000 && v < 32768 {
			return "<port>"
		}
	}
	return v
}

// unknown are the fields of stored objects that manifests do not contain, by resource: the creator of a signing
// request, and status fields that controllers of the server write.
var unknown = map[string]*regexp.Regexp{
	"certificatesigningrequests": regexp.MustCompile(`bject\.spec\.(username|uid|groups|extra)$`),
	"customresourcedefinitions":  regexp.MustCompile(`bject\.status\.(acceptedNames\..*|conditions)$`),
	"flowschemas":                regexp.MustCompile(`bject\.status\.conditions$`),
}

var anyTime = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z`)
