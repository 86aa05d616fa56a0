package live

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/storable"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema/builtin"
	"k8s.io/apimachinery/pkg/runtime"
)

// proven are objects with structs of all types that a fact is about.
const proven = `
apiVersion: v1
kind: Pod
metadata: {name: facts}
spec:
  initContainers: [{name: i, image: a, volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}]
  containers:
  - name: c
    image: a
    resources: {limits: {cpu: 1}}
    ports: [{containerPort: 80}]
    livenessProbe: {httpGet: {port: 80}}
    volumeMounts: [{name: v, mountPath: /a}]
    volumeDevices: [{name: p, devicePath: /d}]
  - {name: d, image: a, resources: {requests: {cpu: 1}}}
  volumes:
  - {name: v, configMap: {name: a}}
  - {name: p, persistentVolumeClaim: {claimName: a}}
---
apiVersion: v1
kind: Pod
metadata: {name: facts-on-host}
spec:
  hostNetwork: true
  serviceAccountName: a
  containers: [{name: c, image: a, ports: [{containerPort: 80}]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: facts}
spec:
  strategy: {type: RollingUpdate, rollingUpdate: {}}
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: a}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: facts}
spec:
  updateStrategy: {type: RollingUpdate, rollingUpdate: {}}
  persistentVolumeClaimRetentionPolicy: {}
  selector: {matchLabels: {a: b}}
  serviceName: a
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: a}]}}
  volumeClaimTemplates:
  - metadata: {name: v}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: facts}
spec:
  updateStrategy: {type: RollingUpdate, rollingUpdate: {}}
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: a}]}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: facts}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: a}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: facts}
spec:
  schedule: "* * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: facts}
spec: {accessModes: [ReadWriteOnce], resources: {limits: {storage: 2Gi}, requests: {storage: 1Gi}}}
status: {}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: facts}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /a}}
status: {}
---
apiVersion: v1
kind: Service
metadata: {name: facts}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: facts}
data: {a: Yg==}
`

// TestFacts asks the server about every fact of package storable that proofs rest on, in each place of its type: it
// creates objects without the member, with an empty one, with repeated items, without a source. A fact without a stored
// object that shows it, or without a refused one, fails.
func TestFacts(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	q := &facts{t: t, shown: map[storable.Fact]int{}}
	for _, object := range objects(t, proven) {
		q.root = types.Type(tree.Object(object).Kind())
		q.ask(object, func(o map[string]any) *server.Answer { return try(t, api, o) })
	}
	q.askEphemeral(types.Type(tree.Object(objects(t, proven)[0]).Kind()))
	for _, f := range storable.Facts() {
		if q.shown[f] == 0 {
			t.Errorf("%s: no object shows it", f)
		}
	}
	t.Logf("%d facts, %d requests", len(storable.Facts()), q.requests)
}

// facts are the questions about one server.
type facts struct {
	t        *testing.T
	root     *shape.Type
	shown    map[storable.Fact]int
	requests int
}

// ask asks about all structs in an object.
func (q *facts) ask(object map[string]any, send func(map[string]any) *server.Answer) {
	q.t.Helper()
	whole := q.stored(object, send)
	if whole == nil {
		q.t.Fatalf("%s %s is refused: %s", tree.Object(object).Kind(), tree.Object(object).Name(), send(object).Body)
	}
	eachStruct(object, q.root, nil, func(typ *shape.Type, path []any) {
		holds := func(rule storable.Rule, member string) bool { return storable.Holds(rule, typ.Name, member) }
		fact := func(rule storable.Rule, member string) storable.Fact {
			return storable.Fact{Rule: rule, Type: typ.Name, Member: member}
		}
		changed := func(change func(map[string]any)) map[string]any {
			made := runtime.DeepCopyJSON(object)
			change(lookup(made, path).(map[string]any))
			return q.stored(made, send)
		}
		if holds(storable.Filled, "") {
			q.compareFilled(typ, lookup(object, path), lookup(whole, path), path)
			q.shown[fact(storable.Filled, "")]++
		}
		for _, f := range typ.Fields {
			if holds(storable.Defaulted, f.Name) {
				for _, null := range []bool{false, true} {
					answer := changed(func(m map[string]any) {
						if delete(m, f.Name); null {
							m[f.Name] = nil
						}
					})
					if answer == nil {
						continue
					}
					if now, _ := lookup(answer, path).(map[string]any); now[f.Name] == nil {
						q.t.Errorf("%s: %v is stored without it", fact(storable.Defaulted, f.Name), path)
					}
					q.shown[fact(storable.Defaulted, f.Name)]++
				}
			}
			if holds(storable.Required, f.Name) {
				for _, empty := range []any{nil, "", []any{}, map[string]any{}} {
					answer := changed(func(m map[string]any) {
						if m[f.Name] = empty; empty == nil {
							delete(m, f.Name)
						}
					})
					if answer != nil {
						q.t.Errorf("%s: %v is stored with %#v", fact(storable.Required, f.Name), path, empty)
					}
				}
				q.shown[fact(storable.Required, f.Name)]++
			}
			if f.Type.Kind == shape.List && storable.Holds(storable.Distinct, f.Type.Elem.Name, "") {
				list, _ := lookup(object, append(slices.Clone(path), f.Name)).([]any)
				if len(list) == 0 {
					continue
				}
				if changed(func(m map[string]any) { m[f.Name] = append(slices.Clone(list), list[0]) }) != nil {
					q.t.Errorf("%v of %s: repeated items are stored", path, f.Name)
				}
				q.shown[storable.Fact{Rule: storable.Distinct, Type: f.Type.Elem.Name}]++
			}
		}
		if holds(storable.Sourced, "") {
			isSource := func(f shape.Field) bool { return f.Pointer && f.Type.Kind == shape.Struct }
			answer := changed(func(m map[string]any) {
				for _, f := range typ.Fields {
					if isSource(f) {
						delete(m, f.Name)
					}
				}
			})
			now, _ := lookup(answer, path).(map[string]any)
			switch {
			case answer == nil: // a mount of a block device
			case !slices.ContainsFunc(typ.Fields,
				func(f shape.Field) bool { return isSource(f) && now[f.Name] != nil }):
				q.t.Errorf("%s: %v is stored without one", fact(storable.Sourced, ""), path)
			default:
				q.shown[fact(storable.Sourced, "")]++
			}
		}
	})
}

// compareFilled compares the members that the server added to a struct with those that it is said to add.
func (q *facts) compareFilled(typ *shape.Type, was, now any, path []any) {
	q.t.Helper()
	old, _ := was.(map[string]any)
	made, _ := now.(map[string]any)
	filled, _ := storable.FilledBy(typ.Name)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		f := typ.Field(name)
		isEncoded := f != nil && (f.Default != nil ||
			!f.OmitZero && (!f.OmitEmpty || f.Type.Kind == shape.Struct && !f.Pointer))
		if _, had := old[name]; !had && !isEncoded && !slices.Contains(filled, name) {
			q.t.Errorf("%v: the server adds %s to %s", path, name, typ.Name)
		}
	}
}

// stored returns the object that the server would store; nil: it refuses it.
func (q *facts) stored(object map[string]any, send func(map[string]any) *server.Answer) map[string]any {
	q.t.Helper()
	q.requests++
	answer := send(object)
	switch answer.Code {
	case http.StatusOK, http.StatusCreated:
		made, err := answer.Object()
		if err != nil {
			q.t.Fatal(err)
		}
		return made
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return nil
	}
	q.t.Fatalf("%d %s", answer.Code, answer.Body)
	return nil
}

// askEphemeral asks about ephemeral containers, which a Pod gets by a subresource.
func (q *facts) askEphemeral(pod *shape.Type) {
	put(q.t, "apiVersion: v1\nkind: Pod\nmetadata: {name: facts}\nspec: {containers: [{name: c, image: a}]}")
	const path = "/api/v1/namespaces/default/pods/facts"
	answer, err := api.Do(q.t.Context(), server.Call{Method: http.MethodGet, Path: path})
	if err != nil {
		q.t.Fatal(err)
	}
	object, err := answer.Object()
	if err != nil {
		q.t.Fatal(err)
	}
	spec := object["spec"].(map[string]any)
	q.root = &shape.Type{Kind: shape.Struct}
	specType := &shape.Type{Kind: shape.Struct}
	specType.SetFields([]shape.Field{*pod.Field("spec").Type.Field("ephemeralContainers")})
	q.root.SetFields([]shape.Field{{Name: "spec", Type: specType}})
	spec["ephemeralContainers"] = []any{map[string]any{"name": "e", "image": "a"}}
	q.ask(object, func(o map[string]any) *server.Answer {
		answer, err := api.Do(q.t.Context(), server.Call{Method: http.MethodPut, Path: path + "/ephemeralcontainers",
			Body: o, Query: map[string][]string{"dryRun": {"All"}}})
		if err != nil {
			q.t.Fatal(err)
		}
		return answer
	})
}

// eachStruct visits the structs in a value with their paths.
func eachStruct(v any, typ *shape.Type, path []any, visit func(*shape.Type, []any)) {
	at := func(step any) []any { return append(slices.Clone(path), step) }
	switch v := v.(type) {
	case map[string]any:
		if typ.Kind == shape.Struct {
			visit(typ, path)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if f := typ.Field(name); typ.Kind == shape.Struct && f != nil {
				eachStruct(v[name], f.Type, at(name), visit)
			}
		}
	case []any:
		for i, inner := range v {
			eachStruct(inner, typ.Elem, at(i), visit)
		}
	}
}

// lookup returns the value at a path; nil if it is absent.
func lookup(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}
