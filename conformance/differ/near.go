package differ

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/policy"
)

// A topic holds the fields and values that a policy mentions in its expressions.
type topic struct {
	paths   map[string][]effects.Path // that it reads or writes, by root: object, params, namespaceObject, request
	texts   []string
	numbers []int64
}

// topicOf parses the expressions of a policy. An expression that does not parse has an empty topic.
func topicOf(envs *celenv.Set, p *policy.Policy) (*topic, error) {
	scope := envs.Scope(celenv.Run, false)
	defer scope.Close()
	env, err := scope.Env(celenv.Declared{Params: true, Authorizer: true, Patch: true})
	if err != nil {
		return nil, err
	}
	t := &topic{paths: map[string][]effects.Path{}}
	names := map[string]string{} // of variables, by their expressions' fields
	for i, v := range p.Variables {
		names[fmt.Sprintf("spec.variables[%d].expression", i)] = v.Name
	}
	results := map[string]effects.Result{}
	for x := range p.Expressions() {
		parsed, issues := env.Parse(x.Src)
		if issues.Err() != nil {
			continue
		}
		root := parsed.NativeRep().Expr()
		reads := effects.ReadsOf(root, results)
		if name := names[x.Field]; name != "" {
			results[name] = reads.Result(root)
		}
		for _, r := range reads.List {
			t.add(r.Path)
		}
		for _, w := range slices.Concat(effects.AppliedLeaves(root), effects.PatchOperations(root)) {
			t.add(w.Path)
		}
		ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() != ast.LiteralKind {
				return
			}
			switch v := e.AsLiteral().Value().(type) {
			case string:
				if len(v) <= 253 && !slices.Contains(t.texts, v) {
					t.texts = append(t.texts, v)
				}
			case int64:
				if !slices.Contains(t.numbers, v) {
					t.numbers = append(t.numbers, v)
				}
			}
		}))
	}
	return t, nil
}

func (t *topic) add(p effects.Path) {
	if p.Root == "oldObject" {
		p.Root = "object"
	}
	steps := p.Split()
	switch { // fields that the request contains elsewhere, or that the server sets
	case len(steps) == 0, p.Root == "object" && (steps[0] == "apiVersion" || steps[0] == "kind"),
		p.Root == "object" && steps[0] == "metadata" &&
			(len(steps) < 2 || steps[1] != "labels" && steps[1] != "annotations"):
		return
	}
	if !slices.Contains(t.paths[p.Root], p) {
		t.paths[p.Root] = append(t.paths[p.Root], p)
	}
}

// speaksOf reports whether the policy reads a field of request, such as userInfo.groups, or something below it.
func (t *topic) speaksOf(root string, steps ...string) bool {
	return slices.ContainsFunc(t.paths[root],
		func(p effects.Path) bool { return effects.NewPath(root, steps...).Contains(p) })
}

// nearManifest returns a copy of a manifest with some of the fields that a policy mentions set, some removed, and few
// other changes.
func (g *generator) nearManifest(t *shape.Type, manifest map[string]any, paths []effects.Path) map[string]any {
	out := runtime.DeepCopyJSON(manifest)
	for range min(len(paths), 1+g.IntN(4)) {
		steps := pick(g, paths...).Split()
		if g.chance(20) {
			drop(out, steps)
		} else {
			out, _ = g.put(t, out, steps).(map[string]any)
		}
	}
	if len(paths) == 0 || g.chance(25) {
		out = g.decorate(t, out, 1+g.IntN(2))
	}
	metadata, _ := out["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		out["metadata"] = metadata
	}
	own, _ := manifest["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace"} {
		if metadata[name] = own[name]; own[name] == nil {
			delete(metadata, name)
		}
	}
	return out
}

// put returns a tree with a value at the end of the steps.
func (g *generator) put(t *shape.Type, tree any, steps []string) any {
	if len(steps) == 0 {
		return g.value(t, 3)
	}
	step, rest := steps[0], steps[1:]
	item := strings.HasPrefix(step, "[")
	object, _ := tree.(map[string]any)
	list, _ := tree.([]any)
	switch {
	case t.Kind == shape.Union:
		return g.put(pick(g, t.OneOf...), tree, steps)
	case t.Kind == shape.Struct:
		f := t.Field(step)
		if f == nil {
			return tree
		}
		if object == nil {
			object = g.members(t, 6)
		}
		object[step] = g.put(f.Type, object[step], rest)
		return object
	case t.Kind == shape.Map, t.Kind == shape.Any && !item:
		below := t.Elem
		if t.Kind == shape.Any {
			below = t
		}
		if item {
			step = g.key()
		}
		if object == nil {
			object = map[string]any{}
		}
		object[step] = g.put(below, object[step], rest)
		return object
	case t.Kind == shape.List && item, t.Kind == shape.Any:
		below := t.Elem
		if t.Kind == shape.Any {
			below = t
		}
		if len(list) == 0 {
			list = []any{g.value(below, 5)}
		}
		for i := range list {
			if len(rest) > 0 && g.chance(75) {
				list[i] = g.put(below, list[i], rest)
			}
		}
		if name, ok := strings.CutPrefix(step, "[name="); ok && g.chance(50) {
			if first, ok := list[0].(map[string]any); ok {
				first["name"] = strings.TrimSuffix(name, "]")
			}
		}
		return list
	}
	return tree
}

// drop removes the value at the end of the steps.
func drop(tree any, steps []string) {
	switch v := tree.(type) {
	case map[string]any:
		if len(steps) == 1 {
			delete(v, steps[0])
			return
		}
		drop(v[steps[0]], steps[1:])
	case []any:
		if len(steps) > 1 {
			for _, item := range v {
				drop(item, steps[1:])
			}
		}
	}
}

// addSelected adds the labels that a selector requires.
func addSelected(object map[string]any, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	asked := maps.Clone(s.MatchLabels)
	if asked == nil {
		asked = map[string]string{}
	}
	for _, e := range s.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
			asked[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists && asked[e.Key] == "":
			asked[e.Key] = "a"
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	if len(asked) == 0 || metadata == nil {
		return
	}
	if labels = maps.Clone(labels); labels == nil {
		labels = map[string]any{}
	}
	for key, value := range asked {
		labels[key] = value
	}
	metadata["labels"] = labels
}

// user draws the user of a request, sometimes one that the policy mentions. Group devs has all permissions.
func (g *generator) user(t *topic) celgate.UserInfo {
	user := pick(g, liveUsers...)
	if len(t.texts) == 0 || g.chance(50) {
		return user
	}
	text := pick(g, t.texts...)
	if text == "" || strings.ContainsAny(text, " \n\"\\,%") || text == "system:authenticated" ||
		strings.Trim(text, printable) != "" {
		return user
	}
	switch {
	case t.speaksOf("request", "userInfo", "groups") && g.chance(60):
		user.Groups = append(slices.Clone(user.Groups), text)
	case t.speaksOf("request", "userInfo", "extra") && strings.Trim(text, lowered) == "":
		user.Extra = map[string]authenticationv1.ExtraValue{text: {pick(g, t.texts...)}}
	case t.speaksOf("request", "userInfo"):
		user = celgate.UserInfo{Username: text, Groups: []string{"devs"}}
	}
	return user
}

const (
	lowered   = "abcdefghijklmnopqrstuvwxyz0123456789-./"
	printable = lowered + "ABCDEFGHIJKLMNOPQRSTUVWXYZ:_@"
)
