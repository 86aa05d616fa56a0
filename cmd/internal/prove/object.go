package prove

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A Case is a class of requests.
type Case struct {
	Resource    *schema.Resource
	SubResource string
	Operation   string // CREATE, UPDATE or DELETE
	Kind        schema.GroupVersionKind
}

// isOutside reports a case that is not supported yet.
func (c Case) isOutside() bool {
	return c.Operation == "CONNECT" || c.SubResource != "" && c.Operation == "CREATE"
}

// String describes the case.
func (c Case) String() string {
	name := c.Resource.Resource
	if c.SubResource != "" {
		name += "/" + c.SubResource
	}
	if c.Resource.Group != "" {
		name += "." + c.Resource.Group
	}
	return fmt.Sprintf("%s %s %s", c.Operation, c.Resource.Version, name)
}

// hasNamespace reports requests with a namespace. Requests for a Namespace have its own name as the namespace.
func (c Case) hasNamespace() bool { return c.Resource.Namespaced || c.isNamespace() }

func (c Case) isNamespace() bool {
	return c.Resource.Group == "" && c.Resource.Resource == "namespaces"
}

// A request represents all requests of a case.
type request struct {
	Case
	m                 *machine
	object, oldObject *node         // nil: null
	after             *value        // the object after mutations; nil: without any
	named             solve.Formula // a new object has a name before mutations; 0: it always has
	namespace         *node         // the object of the namespace; nil: null
	user              *node
	name, inNamespace textLeaf
	dryRun            solve.Formula
	roots             map[string]*value
	params            map[string]*params // by the binding's selection
	types             *schema.Registry
	tied              bool // see tie
}

// params are an object that a binding selects.
type params struct {
	kind   schema.GroupVersionKind
	ref    *policy.ParamRef
	exists solve.Formula
	name   textLeaf
	node   *node // nil: the kind is unknown
	value  *value
}

var (
	textType   = &shape.Type{Kind: shape.String}
	textList   = &shape.Type{Kind: shape.List, Elem: textType}
	extraType  = &shape.Type{Kind: shape.Map, Elem: textList}
	userFields = []shape.Field{
		{Name: "username", Type: textType, OmitEmpty: true}, {Name: "uid", Type: textType, OmitEmpty: true},
		{Name: "groups", Type: textList, OmitEmpty: true}, {Name: "extra", Type: extraType, OmitEmpty: true}}
	userType = &shape.Type{Kind: shape.Struct, Fields: userFields}
)

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// newRequest creates the names that expressions see.
func newRequest(m *machine, c Case, types *schema.Registry) *request {
	r := &request{Case: c, m: m, types: types, params: map[string]*params{}}
	r.name = textLeaf{x: m.newName("a"), isVar: true}
	r.inNamespace = textLeaf{x: m.newName("default"), isVar: true}
	if c.isNamespace() {
		r.inNamespace = r.name
	}
	r.dryRun = m.store.NewBool()
	null := newLeaf(nullLeaf{})
	r.roots = map[string]*value{"object": null, "oldObject": null, "namespaceObject": null}
	if t := types.Type(c.Kind); t != nil {
		if c.Operation != "DELETE" {
			r.object = r.newObject("object", c.Kind, t, c.Resource.Definition == nil)
			r.object.identify(r.name, r.inNamespace, c.Resource.Namespaced)
			r.roots["object"] = newLeaf(r.object)
		}
		if c.Operation != "CREATE" {
			r.oldObject = r.newObject("oldObject", c.Kind, t, c.Resource.Definition == nil)
			r.oldObject.identify(r.name, r.inNamespace, c.Resource.Namespaced)
			r.roots["oldObject"] = newLeaf(r.oldObject)
		}
	} else {
		for _, name := range []string{"object", "oldObject"} {
			r.roots[name] = m.opaqueValue(name, nil, name)
		}
	}
	switch {
	case c.isNamespace():
		r.roots["namespaceObject"] = m.opaqueValue("namespaceObject", nil, "namespaceObject of a Namespace")
	case c.Resource.Namespaced:
		r.namespace = r.newNamespace()
		r.roots["namespaceObject"] = newLeaf(r.namespace)
	}
	r.roots["request"] = r.newRequestValue()
	r.roots["authorizer"] = newLeaf(accessLeaf{})
	target := accessLeaf{stage: ofResource, group: textOf(c.Resource.Group), resource: textOf(c.Resource.Resource),
		subresource: textOf(c.SubResource), name: r.name}
	if r.hasNamespace() {
		target.namespace = r.inNamespace
	}
	r.roots["authorizer.requestResource"] = newLeaf(target)
	return r
}

func (m *machine) newName(wish string) solve.Text { return m.store.NewText(wish) }

// newObject returns an object of a kind.
func (r *request) newObject(name string, kind schema.GroupVersionKind, t *shape.Type, builtin bool) *node {
	n := r.m.newNode(name, name, t, builtin)
	n.fix("apiVersion", textOf(kind.GroupVersion().String()))
	n.fix("kind", textOf(kind.Kind))
	if p := n.member("metadata"); p != nil {
		p.present, p.null = solve.True, solve.False
		p.node.builtin = true
	}
	return n
}

// identify sets the name of an object, and its namespace if it has one.
func (n *node) identify(name, namespace textLeaf, namespaced bool) {
	if p := n.member("metadata"); p != nil {
		p.node.fix("name", name)
		if namespaced {
			p.node.fix("namespace", namespace)
		}
	}
}

// tie makes the parts that an update cannot change the same in both objects, as validating policies see them. It comes
// before the first use of these parts.
func (r *request) tie() {
	if r.tied || r.object == nil || r.oldObject == nil {
		return
	}
	r.tied = true
	for _, k := range prepare.KeptBy(r.Resource, r.SubResource) {
		old, now := r.oldObject, r.object
		for i, name := range k.Path {
			p, q := old.member(name), now.member(name)
			switch {
			case p == nil || i < len(k.Path)-1 && p.present != solve.True:
				old = nil
			case i == len(k.Path)-1 && len(k.Except) == 0:
				old.members[name], old = q, nil
			default:
				p.present, p.node.null = q.present, q.node.null
				old, now = p.node, q.node
			}
			if old == nil {
				break
			}
		}
		if old != nil && old.typ.Kind == shape.Struct {
			old.share(now, k.Except)
		}
	}
}

// fix sets the value of a member of a struct.
func (n *node) fix(name string, to textLeaf) {
	made := n.m.newNode(n.path+"."+name, n.class+"."+name, textType, n.builtin)
	made.val, made.fixed = newLeaf(to), &to
	n.addMember(name, &part{solve.True, made})
}

// declaredMetadata are the metadata members of a namespace that policies see.
var declaredMetadata = []string{"name", "generateName", "namespace", "labels", "annotations", "uid", "creationTimestamp",
	"deletionGracePeriodSeconds", "deletionTimestamp", "generation", "resourceVersion", "finalizers"}

func (r *request) newNamespace() *node {
	t := *r.types.Type(namespaceKind)
	meta := *t.Field("metadata").Type
	var shown []shape.Field
	for _, f := range meta.Fields {
		if slices.Contains(declaredMetadata, f.Name) {
			shown = append(shown, f)
		}
	}
	meta.SetFields(shown)
	var fields []shape.Field
	for _, f := range t.Fields {
		switch f.Name {
		case "metadata":
			f.Type = &meta
		case "spec", "status":
		default:
			continue
		}
		fields = append(fields, f)
	}
	t.SetFields(fields)
	n := r.m.newNode("namespaceObject", "namespaceObject", &t, true)
	if p := n.member("metadata"); p != nil {
		p.present, p.null = solve.True, solve.False
		p.node.fix("name", r.inNamespace)
	}
	return n
}

// newRequestValue returns the variable request.
func (r *request) newRequestValue() *value {
	group := func(group, version, last, name string) *value {
		return newLeaf(&dict{keys: []string{"group", "version", last}, values: map[string]*value{
			"group": newLeaf(textOf(group)), "version": newLeaf(textOf(version)), last: newLeaf(textOf(name))}})
	}
	r.user = r.m.newNode("request.userInfo", "request.userInfo", userType, true)
	kind := group(r.Kind.Group, r.Kind.Version, "kind", r.Kind.Kind)
	resource := group(r.Resource.Group, r.Resource.Version, "resource", r.Resource.Resource)
	d := &dict{values: map[string]*value{
		"uid": newLeaf(textOf("")), "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
		"operation": newLeaf(textOf(r.Operation)), "userInfo": newLeaf(r.user), "dryRun": newBool(r.dryRun),
		"options": r.m.opaqueValue("request.options", nil, "request.options"), "name": newLeaf(r.name),
		"object": newLeaf(nullLeaf{}), "oldObject": newLeaf(nullLeaf{}),
	}}
	if r.SubResource != "" {
		d.values["subResource"], d.values["requestSubResource"] = newLeaf(textOf(r.SubResource)),
			newLeaf(textOf(r.SubResource))
	}
	if r.hasNamespace() {
		d.values["namespace"] = newLeaf(r.inNamespace)
	}
	for key := range d.values {
		d.keys = append(d.keys, key)
	}
	slices.Sort(d.keys)
	return newLeaf(d)
}

// tree returns the value of a node in a model, as JSON.
func (n *node) tree(m *solve.Model) any {
	if m.Holds(n.null) {
		return nil
	}
	if n.fixed != nil {
		return textIn(m, *n.fixed)
	}
	switch n.typ.Kind {
	case shape.Struct:
		return n.structTree(m)
	case shape.Map:
		return n.mapTree(m)
	case shape.List:
		var items []any
		for _, p := range n.items {
			if m.Holds(p.present) {
				items = append(items, p.tree(m))
			}
		}
		if len(items) == 0 && n.filled && n.listed == nil {
			items = []any{minimal(n.typ.Elem, 0)}
		}
		distinguish(items, n.typ, n.m.exact)
		return append([]any{}, items...)
	}
	if n.val == nil {
		return minimal(n.typ, 0)
	}
	switch n.typ.Kind {
	case shape.Boolean:
		return m.Holds(n.truth)
	case shape.Integer:
		return m.Int(n.num)
	case shape.IntOrString:
		if m.Holds(n.isInt) {
			return m.Int(n.num)
		}
		return n.textTree(m)
	case shape.String, shape.Bytes, shape.Quantity, shape.Time, shape.MicroTime, shape.Duration:
		return n.textTree(m)
	}
	return map[string]any{}
}

// textTree returns the text of a node in a model; that of a quantity has the number that it has in the model.
func (n *node) textTree(m *solve.Model) string {
	if q := n.m.quantities[textLeaf{x: n.text, isVar: true}]; q != nil && q.isCompared && m.Holds(q.valid) {
		return quantityText(m.Int(q.num))
	}
	return m.Text(n.text)
}

func (n *node) structTree(m *solve.Model) any {
	out := map[string]any{}
	if n.shared != nil {
		for _, name := range n.shared.order {
			n.member(name)
		}
	}
	for _, name := range n.order {
		if p := n.members[name]; m.Holds(p.present) {
			out[name] = p.tree(m)
		}
	}
	for i := range n.typ.Fields {
		if f := &n.typ.Fields[i]; f.Required && n.members[f.Name] == nil {
			out[f.Name] = minimal(f.Type, 0)
		}
	}
	return out
}

func (n *node) mapTree(m *solve.Model) any {
	out := map[string]any{}
	for _, e := range n.slots {
		if m.Holds(e.present) {
			out[textIn(m, e.key)] = e.tree(m)
		}
	}
	if len(out) == 0 && n.filled && n.slots == nil {
		out["a"] = minimal(n.typ.Elem, 0)
	}
	return out
}

func textIn(m *solve.Model, l textLeaf) string {
	return l.render(m.Text)
}

// render returns the text with the value of its variable.
func (l textLeaf) render(word func(solve.Text) string) string {
	switch {
	case !l.isVar:
		return l.before
	case l.letters == lower:
		return l.before + lowerASCII(word(l.x)) + l.after
	case l.letters == upper:
		return l.before + upperASCII(word(l.x)) + l.after
	}
	return l.before + word(l.x) + l.after
}

// distinguish sets distinct keys for the items of a keyed list if the model leaves them open. If the keys have to be
// those of the model, it changes only repeated ones.
func distinguish(items []any, t *shape.Type, exact bool) {
	if t.Merge != shape.Keyed {
		return
	}
	seen := map[string]bool{}
	for i, it := range items {
		object, ok := it.(map[string]any)
		if !ok {
			continue
		}
		for _, key := range t.Keys {
			f := t.Elem.Field(key)
			if f == nil || object[key] != nil && object[key] != placeholder && object[key] != int64(1) {
				continue
			}
			switch f.Type.Kind {
			case shape.String:
				if key != "protocol" && (!exact || object[key] == nil || seen[key]) {
					object[key] = placeholder + fmt.Sprint(i)
				}
				seen[key] = true
			case shape.Integer:
				if object[key] == nil {
					object[key] = int64(8000 + i)
				}
			}
		}
	}
}

const placeholder = "a"

// minimal returns a value of a type with only the required parts.
func minimal(t *shape.Type, depth int) any {
	switch t.Kind {
	case shape.Boolean:
		return true
	case shape.Integer, shape.IntOrString:
		return int64(1)
	case shape.Number:
		return float64(1)
	case shape.Bytes:
		return "YQ=="
	case shape.Quantity:
		return "1"
	case shape.Time:
		return "2026-01-01T00:00:00Z"
	case shape.MicroTime:
		return "2026-01-01T00:00:00.000000Z"
	case shape.Duration:
		return "1m0s"
	case shape.List:
		if depth > 4 {
			return []any{}
		}
		items := []any{minimal(t.Elem, depth+1)}
		distinguish(items, t, false)
		return items
	case shape.Map:
		if depth > 4 {
			return map[string]any{}
		}
		return map[string]any{"a": minimal(t.Elem, depth+1)}
	case shape.Struct:
		out := map[string]any{}
		for i := range t.Fields {
			if f := &t.Fields[i]; f.Required && depth <= 4 {
				out[f.Name] = minimal(f.Type, depth+1)
			}
		}
		return out
	case shape.String:
		return placeholder
	}
	return map[string]any{}
}

// isCalled reports whether the class of a node ends in a member, such as ".labels".
func (n *node) isCalled(name string) bool { return strings.HasSuffix(n.class, "."+name) }
