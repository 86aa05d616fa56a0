package differ

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/shape"
)

// applyConfiguration writes an expression that makes an Object.
func (a *author) applyConfiguration() string {
	e := a.object("Object", a.kind.typ, a.sample, 0)
	switch a.IntN(12) {
	case 0:
		return "(" + a.bool(0) + ") ? " + e + " : Object{}"
	case 1:
		return "[" + e + "][0]"
	case 2:
		return "has(object.metadata.labels) ? " + e + " : " + a.object("Object", a.kind.typ, a.sample, 0)
	}
	return e
}

// object writes an object literal of a struct, with a few of its members.
func (a *author) object(name string, t *shape.Type, sample map[string]any, depth int) string {
	var members []string
	used := map[string]bool{}
	for range 1 + a.IntN(2+depth/2) {
		var field string
		var inner *shape.Type
		names := slices.Sorted(maps.Keys(sample))
		switch {
		case depth == 0 && a.chance(30):
			field = "metadata"
		case depth == 0 && a.chance(60):
			field = "spec"
		case len(names) > 0 && a.chance(60):
			field = pick(a.generator, names...)
		case t != nil && t.Kind == shape.Struct && len(t.Fields) > 0:
			field = t.Fields[a.IntN(len(t.Fields))].Name
		default:
			field = pick(a.generator, mapKeys...)
		}
		if a.chance(1) {
			field = "nope"
		}
		if used[field] || field == "managedFields" ||
			depth == 0 && (field == "apiVersion" || field == "kind") && a.chance(80) {
			continue
		}
		used[field] = true
		if t != nil {
			if f := t.Field(field); f != nil {
				inner = f.Type
			} else {
				inner = t.Elem
			}
		}
		key := field
		if !identifier.MatchString(field) || field == "in" {
			key = "`" + field + "`"
		}
		if a.chance(4) {
			r := a.ref()
			if o := optionalPath(r.expr); o != "" {
				members = append(members, "?"+key+": "+o)
				continue
			}
			members = append(members, "?"+key+": "+pick(a.generator, "optional.none()",
				"optional.of("+a.patchValue(name+"."+field, inner, sample[field], depth+1)+")"))
			continue
		}
		members = append(members, key+": "+a.patchValue(name+"."+field, inner, sample[field], depth+1))
	}
	return name + "{" + strings.Join(members, ", ") + "}"
}

// patchValue writes the value of a member of an object literal.
func (a *author) patchValue(name string, t *shape.Type, sample any, depth int) string {
	if a.chance(4) {
		return pick(a.generator, a.ref().expr, "optional.none()", "null", "1u", "b'x'",
			"timestamp('2024-01-01T00:00:00Z')", "duration('5s')", "quantity('1')", "{}", "[]", a.expression(dynamic),
			"dyn("+a.text()+")", "5000000000", "1.0", "'x'", "true")
	}
	if t == nil {
		return pick(a.generator, "'x'", "3", "1.5", "true", "{'a': 'b'}", "['a']", name+"{x: 1}", "["+name+"{x: 1}]",
			"{'a': {'b': 'c'}}", "[['a']]")
	}
	switch t.Kind {
	case shape.Struct:
		m, _ := sample.(map[string]any)
		if depth > 6 {
			return name + "{}"
		}
		return a.object(name, t, m, depth)
	case shape.Map:
		m, _ := sample.(map[string]any)
		key := pick(a.generator, append(slices.Sorted(maps.Keys(m)), mapKeys...)...)
		inner := a.patchValue(name, t.Elem, m[key], depth+1)
		if t.Elem.Kind == shape.Struct {
			inner = strings.Replace(inner, name+"."+key+"{", name+"{", 1)
		}
		quoted := key
		if !identifier.MatchString(key) || key == "in" {
			quoted = "`" + key + "`"
		}
		return pick(a.generator, name+"{"+quoted+": "+inner+"}", "{"+quote(key)+": "+inner+"}")
	case shape.List:
		return a.patchList(name, t, sample, depth)
	case shape.Any:
		return pick(a.generator, "'x'", "{'a': 'b'}", name+"{a: 1, b: ['x']}", "[1]", "object.metadata", "3")
	}
	if a.chance(25) {
		return a.scalarFor(t)
	}
	return literal(a.value(t, depth))
}

// scalarFor computes a scalar.
func (a *author) scalarFor(t *shape.Type) string {
	switch t.Kind {
	case shape.Boolean:
		return a.bool(0)
	case shape.Integer:
		return a.integer()
	case shape.String:
		return a.text()
	}
	return literal(a.value(t, 3))
}

func (a *author) patchList(name string, t *shape.Type, sample any, depth int) string {
	items, _ := sample.([]any)
	var inner []string
	for range a.IntN(3) {
		var item any
		if len(items) > 0 && a.chance(70) {
			item = pick(a.generator, items...)
		}
		switch m, ok := item.(map[string]any); {
		case t.Elem.Kind == shape.Struct && t.Merge == shape.Keyed:
			e := a.object(name, t.Elem, m, depth+1)
			for _, key := range t.Keys { // so that the item can merge
				f := t.Elem.Field(key)
				if strings.Contains(e, "{"+key+":") || strings.Contains(e, " "+key+":") || f == nil || a.chance(7) {
					continue
				}
				value := m[key]
				if !ok || value == nil {
					value = a.value(f.Type, 0)
				}
				member := key + ": " + literal(value)
				if e == name+"{}" {
					e = name + "{" + member + "}"
				} else {
					e = name + "{" + member + ", " + strings.TrimPrefix(e, name+"{")
				}
			}
			inner = append(inner, e)
		default:
			inner = append(inner, a.patchValue(name, t.Elem, item, depth+1))
		}
	}
	plain := "[" + strings.Join(inner, ", ") + "]"
	if len(inner) > 1 && t.Elem.Kind != shape.Struct {
		plain = "[dyn(" + strings.Join(inner, "), dyn(") + ")]"
	}
	if len(items) > 0 && a.chance(20) {
		path := strings.ReplaceAll(strings.Replace(name, "Object", "object", 1), "`", "")
		switch {
		case t.Merge == shape.Keyed && len(t.Keys) > 0 && !strings.Contains(path, "containers."):
			var keys []string
			for _, k := range t.Keys {
				keys = append(keys, k+": x."+k)
			}
			return path + ".map(x, " + name + "{" + strings.Join(keys, ", ") + "})"
		default:
			return pick(a.generator, path, path+" + "+plain, path+".filter(x, true)", path+".map(x, x)")
		}
	}
	return plain
}

// jsonPatch writes an expression that makes a list of patches.
func (a *author) jsonPatch() string {
	var ops []string
	for range 1 + a.IntN(3) {
		ops = append(ops, a.operation())
	}
	e := "[" + strings.Join(ops, ", ") + "]"
	switch a.IntN(12) {
	case 0:
		return "(" + a.bool(0) + ") ? " + e + " : []"
	case 1:
		return e + " + [" + a.operation() + "]"
	case 2:
		return "['a', 'b'].map(k, JSONPatch{op: 'add', path: '/metadata/annotations', value: {k: k}})"
	case 3:
		return "[" + a.bool(0) + "].filter(b, b).map(b, " + ops[0] + ")"
	}
	return e
}

func (a *author) operation() string {
	path, value, t := a.pointer()
	op := pick(a.generator, "add", "add", "add", "replace", "replace", "remove", "test", "copy", "move")
	if a.chance(1) {
		op = pick(a.generator, "nope", "", "Add")
	}
	members := []string{"op: " + quote(op)}
	at := quote(path)
	if i := strings.LastIndex(path, "/"); i >= 0 && a.chance(15) {
		last := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i+1:])
		at = quote(path[:i+1]) + " + jsonpatch.escapeKey(" + quote(last) + ")"
	}
	members = append(members, "path: "+at)
	if op == "copy" || op == "move" {
		from, _, _ := a.pointer()
		members = append(members, "from: "+quote(from))
	}
	if (op == "add" || op == "replace" || op == "test") != a.chance(2) {
		e := ""
		switch n := a.IntN(10); {
		case n < 3 && value != nil:
			e = literal(value)
		case n < 4:
			e = a.ref().expr
		case n < 5:
			e = a.patchValue("Object"+strings.ReplaceAll(path, "/", "."), nil, nil, 3)
			e = strings.ReplaceAll(e, "Object"+strings.ReplaceAll(path, "/", ".")+"{", "Object.spec{")
		case n < 6:
			e = pick(a.generator, "null", "1u", "b'x'", "1.5", "9007199254740993", "duration('5s')",
				"timestamp('2024-01-01T00:00:00Z')", "optional.of('x')", "optional.none()", "quantity('1')",
				"{'a': dyn(1), 'b': dyn(['x'])}", "Object.spec{a: 1}", "[Object.spec{a: 'b'}]", "{1: 2}", a.text(),
				a.bool(0), a.integer())
		case t != nil:
			e = literal(a.value(t, 3))
		default:
			e = literal(pick[any](a.generator, "x", int64(1), true, map[string]any{"a": "b"}, []any{"x"}, nil))
		}
		members = append(members, "value: "+e)
	}
	return "JSONPatch{" + strings.Join(members, ", ") + "}"
}

// pointer makes a JSON pointer into the sample, or nearly.
func (a *author) pointer() (string, any, *shape.Type) {
	path := ""
	var at any = a.sample
	t := a.kind.typ
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for depth := 0; depth < 8; depth++ {
		if depth > 0 && a.chance(12) {
			break
		}
		switch v := at.(type) {
		case map[string]any:
			names := slices.Sorted(maps.Keys(v))
			name := pick(a.generator, mapKeys...)
			if t != nil && t.Kind == shape.Struct && len(t.Fields) > 0 && a.chance(15) {
				name = t.Fields[a.IntN(len(t.Fields))].Name
			} else if len(names) > 0 && !a.chance(8) {
				name = pick(a.generator, names...)
			}
			if depth == 0 && (name == "apiVersion" || name == "kind") && a.chance(80) {
				name = "metadata"
			}
			if name == "managedFields" {
				name = "labels"
			}
			path += "/" + escape.Replace(name)
			at = v[name]
			if t != nil {
				inner := t.Elem
				if f := t.Field(name); f != nil {
					inner = f.Type
				}
				t = inner
			}
			continue
		case []any:
			n := strconv.Itoa(a.IntN(len(v) + 1))
			if a.chance(15) {
				n = pick(a.generator, "-", "-1", "01", "9", "x")
			}
			path += "/" + n
			i, err := strconv.Atoi(n)
			if at = nil; err == nil && i >= 0 && i < len(v) {
				at = v[i]
			}
			if t != nil {
				t = t.Elem
			}
			continue
		case nil:
			if a.chance(8) && depth > 0 {
				path += "/x"
			}
		}
		break
	}
	if a.chance(1) {
		path = pick(a.generator, "", "/", "metadata", "/metadata/labels/", "//")
	}
	return path, at, t
}
