package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// An engine is celgate's side: a request is prepared once, as in every use of celgate.
type engine struct {
	*celgate.Engine
	workload *workload
	request  *celgate.Prepared
}

func newEngine(w *workload) (*engine, error) {
	set, err := readSet(w.policies)
	if err != nil {
		return nil, err
	}
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		return nil, err
	}
	if w.definition != "" {
		definitions, err := readObjects(w.definition)
		if err != nil {
			return nil, err
		}
		if types, err = types.WithCustomResources(definitions...); err != nil {
			return nil, err
		}
	}
	objects, err := readObjects(w.state)
	if err != nil {
		return nil, err
	}
	cluster, err := state.New(types, objects...)
	if err != nil {
		return nil, err
	}
	e, err := celgate.New(set, celgate.Options{Types: types, Cluster: cluster})
	if err != nil {
		return nil, err
	}
	for _, r := range e.Rejections() {
		return nil, fmt.Errorf("%s is rejected: %s", r.Name, r.Status.Message)
	}
	object, err := readObjects(w.object)
	if err != nil {
		return nil, err
	}
	old, err := readObjects(w.old)
	if err != nil {
		return nil, err
	}
	req := &celgate.Request{
		Kind: w.kind, Resource: w.resource, Name: "example", Namespace: "default", Operation: celgate.Create,
		UserInfo: celgate.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}, Object: object[0],
	}
	if len(old) > 0 {
		req.Operation, req.OldObject = celgate.Update, old[0]
	}
	prepared, err := e.Prepare(context.Background(), req)
	if err != nil {
		return nil, err
	}
	return &engine{e, w, prepared}, nil
}

func (e *engine) prepare(n int) (func() error, error) {
	decide := e.Validate
	if e.workload.mutating {
		decide = e.Mutate
	}
	ctx := context.Background()
	return func() error {
		for range n {
			d, err := decide(ctx, e.request)
			if err != nil {
				return err
			}
			if !d.Allowed || d.Mutated != e.workload.changes {
				return fmt.Errorf("celgate: allowed %v, mutated %v: %v", d.Allowed, d.Mutated, d.Status)
			}
		}
		return nil
	}, nil
}

func readObjects(text string) ([]map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	docs, problems := manifest.Read(strings.NewReader(text), "bench.yaml")
	if len(problems) > 0 {
		return nil, problems[0]
	}
	var objects []map[string]any
	for _, doc := range docs {
		objects = append(objects, doc.Object)
	}
	return objects, nil
}

func readSet(text string) (*policy.Set, error) {
	objects, err := readObjects(text)
	if err != nil {
		return nil, err
	}
	bundle := manifest.NewBundle(manifest.DocumentsOf(objects)...)
	return &bundle.Set, bundle.Err()
}

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}
