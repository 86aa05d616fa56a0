package differ

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/shape"
)

// An author writes expressions about one kind, with a sample object as a guide: most of the named fields exist.
type author struct {
	*generator
	kind       *kind
	sample     map[string]any
	variables  []variable
	params     []map[string]any // samples; nil if the policy has none
	messages   bool             // no authorizer
	conditions bool             // no variables
	local      []ref            // bound by macros
}

type variable struct {
	name  string
	class class
}

// A class is the static type of an expression, as far as the author cares.
type class int

const (
	boolean class = iota
	integer
	text
	list
	dynamic
)

// A ref is an expression that names a value of the world.
type ref struct {
	expr  string
	guard []string    // the condition that the field exists
	value any         // in the sample; nil if it is not there
	typ   *shape.Type // nil if unknown
}

var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// literal writes a value as CEL.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return quote(v)
	case float64:
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = literal(item)
			if len(v) > 1 {
				items[i] = "dyn(" + items[i] + ")"
			}
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			item := literal(v[k])
			if len(v) > 1 {
				item = "dyn(" + item + ")"
			}
			items = append(items, quote(k)+": "+item)
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v)
}

func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}

// root picks where a path begins.
func (a *author) root() ref {
	switch n := a.IntN(100); {
	case n < 12 && len(a.local) > 0, n < 50 && len(a.local) > 0 && a.chance(60):
		return pick(a.generator, a.local...)
	case n < 10:
		return ref{expr: "oldObject", value: a.sample, typ: a.kind.typ, guard: []string{"oldObject != null"}}
	case n < 20 && len(a.params) > 0:
		p := pick(a.generator, a.params...)
		return ref{expr: "params", value: p, typ: a.world.types.Type(kindOf(p)), guard: []string{"params != null"}}
	case n < 24:
		return ref{expr: "dyn(namespaceObject)",
			value: map[string]any{"metadata": map[string]any{"name": "shop", "labels": map[string]any{"env": "prod"}}},
			guard: []string{"namespaceObject != null"}}
	}
	return ref{expr: "object", value: a.sample, typ: a.kind.typ, guard: []string{"object != null"}}
}

// ref names a value somewhere below a root.
func (a *author) ref() ref {
	r := a.root()
	for depth := 0; depth < 9; depth++ {
		next, ok := a.step(r, depth)
		if !ok {
			break
		}
		r = next
	}
	return r
}

// step goes one member down; false to stop here.
func (a *author) step(r ref, depth int) (ref, bool) {
	switch v := r.value.(type) {
	case map[string]any:
		if depth > 1 && a.chance(15) {
			return r, false
		}
		names := slices.Sorted(maps.Keys(v))
		name, inner := "", (*shape.Type)(nil)
		switch {
		case r.typ != nil && r.typ.Kind == shape.Struct && len(r.typ.Fields) > 0 && (len(names) == 0 || a.chance(12)):
			f := r.typ.Fields[a.IntN(len(r.typ.Fields))]
			name, inner = f.Name, f.Type
		case len(names) > 0 && !a.chance(3):
			name = pick(a.generator, names...)
		default:
			name = pick(a.generator, mapKeys...)
		}
		if name == "managedFields" {
			return r, false
		}
		if inner == nil && r.typ != nil {
			if inner = r.typ.Elem; r.typ.Kind == shape.Struct {
				if f := r.typ.Field(name); f != nil {
					inner = f.Type
				}
			}
		}
		return a.member(r, name, v[name], inner), true
	case []any:
		if len(v) == 0 || a.chance(50) {
			return r, false
		}
		i := a.IntN(len(v))
		next := ref{expr: fmt.Sprintf("%s[%d]", r.expr, i),
			guard: append(slices.Clone(r.guard), fmt.Sprintf("%s.size() > %d", r.expr, i)), value: v[i]}
		if a.chance(4) {
			next.expr = fmt.Sprintf("%s[%d]", r.expr, len(v)+3)
		}
		if r.typ != nil {
			next.typ = r.typ.Elem
		}
		return next, true
	}
	return r, false
}

func (a *author) member(r ref, name string, value any, typ *shape.Type) ref {
	next := ref{value: value, typ: typ}
	if identifier.MatchString(name) && name != "in" {
		next.expr = r.expr + "." + name
		next.guard = append(slices.Clone(r.guard), "has("+next.expr+")")
	} else {
		next.expr = r.expr + "[" + quote(name) + "]"
		next.guard = append(slices.Clone(r.guard), quote(name)+" in "+r.expr)
		if a.chance(20) {
			next.expr = r.expr + ".`" + name + "`"
		}
	}
	return next
}

// guard writes an expression about a ref so that it mostly does not fail where the value is absent.
func (a *author) guard(r ref, condition string) string {
	switch n := a.IntN(10); {
	case n < 3 || len(r.guard) == 0:
		return condition
	case n < 7:
		return strings.Join(r.guard, " && ") + " && (" + condition + ")"
	case n < 8:
		return "!(" + strings.Join(r.guard, " && ") + ") || " + condition
	}
	return "(" + strings.Join(r.guard, " && ") + " ? " + condition + " : " + pick(a.generator, "true", "false") + ")"
}

// optionalPath writes a path with optional selection, "" if it has none.
func optionalPath(expr string) string {
	at := strings.Index(expr, ".")
	if at < 0 || strings.ContainsAny(expr, "`(") {
		return ""
	}
	out := expr[:at]
	for _, part := range regexp.MustCompile(`\.([_a-zA-Z][_a-zA-Z0-9]*)|\[([^\]]*)\]`).FindAllStringSubmatch(expr[at:],
		-1) {
		if part[1] != "" {
			out += ".?" + part[1]
		} else {
			out += "[?" + part[2] + "]"
		}
	}
	return out
}

// bool writes a boolean expression.
func (a *author) bool(depth int) string {
	if depth > 0 && a.chance(25) {
		x, y := a.bool(depth-1), a.bool(depth-1)
		switch a.IntN(6) {
		case 0:
			return "(" + x + ") && (" + y + ")"
		case 1:
			return "(" + x + ") || (" + y + ")"
		case 2:
			return "!(" + x + ")"
		case 3:
			return "(" + a.bool(0) + ") ? (" + x + ") : (" + y + ")"
		case 4:
			return "[" + x + ", " + y + "].exists(b, b)"
		default:
			return "(" + x + ") == (" + y + ")"
		}
	}
	switch n := a.IntN(100); {
	case n < 10:
		return a.requestTest()
	case n < 13:
		return a.namespaceTest()
	case n < 16 && !a.messages:
		return a.authorizerTest()
	case n < 24 && len(a.variables) > 0 && !a.conditions:
		return a.variableTest()
	case n < 27:
		return pick(a.generator, "true", "false", "1 / 0 == 1", "object == oldObject", "object != null",
			"oldObject == null", "size(object) > 3", "type(object) == map",
			"object.metadata.name == oldObject.metadata.name", "dyn(object) == dyn(1)",
			"object.metadata == object.metadata", "object.nope == 1", "has(object.metadata.labels)",
			"[1, 2, 3].map(i, i * 2).sum() == 12", "{'a': 1}.all(k, k == 'a')", "lists.range(3) == [0, 1, 2]",
			"object.spec == oldObject.spec", "!has(object.metadata.generateName)",
			"object.metadata.?labels[?'app'].orValue('') == 'web'", "optional.of(object).hasValue()",
			"object.?spec.hasValue()", "object.?spec.?nope.hasValue()")
	}
	r := a.ref()
	if a.chance(6) {
		if o := optionalPath(r.expr); o != "" {
			return pick(a.generator, o+".hasValue()", o+".orValue("+a.simpleLiteral(r)+") == "+literal(r.value),
				o+" == optional.none()", o+".optMap(x, "+a.valueTest(ref{expr: "x", value: r.value, typ: r.typ},
					0)+").orValue(false)")
		}
	}
	if len(r.guard) > 1 && a.chance(8) {
		return strings.Join(r.guard, " && ")
	}
	return a.guard(r, a.valueTest(r, depth))
}

// simpleLiteral is a literal as the value of a ref is.
func (a *author) simpleLiteral(r ref) string {
	switch v := r.value.(type) {
	case map[string]any:
		return "{}"
	case []any:
		return "[]"
	case nil:
		return "''"
	default:
		return literal(v)
	}
}

var patterns = []string{"^[a-z]+$", "web", "^[a-z0-9.:/-]+$", "[0-9]+", "a|b", "(", ""}

// valueTest writes a test of a value.
func (a *author) valueTest(r ref, depth int) string {
	e := r.expr
	g := a.generator
	switch v := r.value.(type) {
	case string:
		other := quote(pick(g, append([]string{v, v, v + "x", strings.ToUpper(v)}, words...)...))
		part := quote(v[:len(v)/2])
		if len(v) > 0 && a.chance(30) {
			part = quote(v[len(v)/2:])
		}
		if !strings.ContainsFunc(v, func(c rune) bool { return c > 127 }) || part == "''" {
			other = pick(g, other, part)
		}
		pattern := quote(pick(g, patterns...))
		return pick(g,
			e+" == "+other, e+" != "+other, e+".startsWith("+other+")", e+".endsWith("+other+")",
			e+".contains("+other+")", e+".matches("+pattern+")",
			e+" in ["+other+", 'web', 'shop']", e+" < "+other, e+" >= "+other, "size("+e+") > "+strconv.Itoa(len(v)),
			e+".size() == "+strconv.Itoa(len(v)),
			e+".lowerAscii() == "+other, e+".upperAscii() != "+other, e+".split('-').size() == 1",
			e+".split(':', 2)[0] == "+other, e+".find("+pattern+") == "+other,
			e+".findAll("+pattern+").size() > 0", e+".replace('e', 'o') == "+other, e+".substring(0, 1) == 'w'",
			e+".charAt(0) == "+other, e+".indexOf('e') > 0", e+".lastIndexOf('e') == 1",
			e+".trim() == "+other, "string("+e+") == "+other, "type("+e+") == string", "isQuantity("+e+")",
			"quantity("+e+").isGreaterThan(quantity('100m'))",
			"quantity("+e+").compareTo(quantity('1')) == 0", "sign(quantity("+e+")) > 0",
			"quantity("+e+").asApproximateFloat() < 2.5", "quantity("+e+").add(1).asInteger() > 1", "isURL("+e+")",
			"url("+e+").getHost() == 'example.com:8443'", "isIP("+e+")", "ip("+e+").family() == 4",
			"ip("+e+").isLoopback()", "isCIDR("+e+")", "cidr("+e+").containsIP('10.0.0.1')",
			"cidr("+e+").prefixLength() == 8", "cidr("+e+").masked() == cidr('10.0.0.0/8')", "isSemver("+e+")",
			"semver("+e+").major() == 1",
			"semver("+e+", true).isLessThan(semver('2.0.0'))", "timestamp("+e+") < timestamp('2025-01-01T00:00:00Z')",
			"timestamp("+e+").getFullYear() == 2024", "duration("+e+") > duration('1m')",
			"!format.dns1123Label().validate("+e+").hasValue()", "format.named('dns1123Subdomain').hasValue()",
			e+" + 'x' != "+other, "int("+e+") > 3", "double("+e+") < 10.5", "bool("+e+")", e+" == 1",
			"bytes("+e+") == b'web'",
			e+".quote() == '\"web\"'", strconv.Quote("%s-%d")+".format(["+e+", 1]) == 'web-1'",
			e+".reverse() == "+other, e+"["+"0"+"] == 'w'", e+" > 1", e+".x == 1")
	case int64:
		n := strconv.FormatInt(v+int64(a.IntN(3))-1, 10)
		return pick(g, e+" == "+n, e+" != "+n, e+" < "+n, e+" <= "+n, e+" > "+n, e+" >= "+n, e+" + 1 > "+n,
			e+" * 2 == "+n, e+" % 2 == 0", e+" / "+n+" > 0", "-"+e+" < 0",
			e+" == "+n+".0", "double("+e+") == "+n+".0", "string("+e+") == '"+n+"'", e+" in ["+n+", 1, 2]",
			"type("+e+") == int", "uint("+e+") == "+"1u", e+" == '"+n+"'", e+" > 0.5", e+" - "+e+" == 0",
			"[1, 2, 3]["+e+"] == 2",
			"timestamp("+e+") > timestamp(0)", "size("+e+") == 1", e+".startsWith('a')", e+" == 1u",
			"'abc'.charAt("+e+") == 'a'", "lists.range("+e+").size() == "+n, "type("+e+") == string")
	case float64:
		n := literal(v)
		return pick(g, e+" == "+n, e+" < 1", "int("+e+") == 0", "string("+e+") == '"+n+"'", e+" * 2.0 > 1.0",
			"type("+e+") == double", e+" in ["+n+"]", e+" + 1 > 1")
	case bool:
		return pick(g, e, "!"+e, e+" == true", e+" != false", e+" ? true : false", "string("+e+") == 'true'",
			"type("+e+") == bool", e+" == 'true'", e+" && "+e, "["+e+"].all(b, b)")
	case []any:
		return a.listTest(r, v, depth)
	case map[string]any:
		return a.mapTest(r, v, depth)
	}
	return pick(g, e+" == null", e+" != null", e+" == ''", "type("+e+") == null_type", e+" > 1",
		"has("+toSelectable(e)+")", e+".size() == 0", "!"+e, e+".all(x, true)")
}

// toSelectable is an expression that has() takes.
func toSelectable(e string) string {
	if strings.HasSuffix(e, "]") || strings.HasSuffix(e, "`") || !strings.Contains(e, ".") ||
		strings.HasSuffix(e, ")") {
		return "object.spec"
	}
	return e
}

// itemTest writes a test of an item, which a macro binds to name.
func (a *author) itemTest(name string, item ref, depth int) string {
	inner := *a
	inner.local = append(slices.Clone(a.local), ref{expr: name, value: item.value, typ: item.typ})
	if depth > 0 && a.chance(60) {
		if v, ok := item.value.(map[string]any); ok && len(v) > 0 {
			r := inner.local[len(inner.local)-1]
			for d := range 3 {
				next, ok := inner.step(r, d)
				if !ok {
					break
				}
				r = next
			}
			return inner.guard(r, inner.valueTest(r, depth-1))
		}
		return inner.bool(depth - 1)
	}
	return inner.valueTest(ref{expr: name, value: item.value, typ: item.typ}, 0)
}

func (a *author) name() string { return "xyzuvw"[len(a.local)%6 : len(a.local)%6+1] }

func (a *author) listTest(r ref, v []any, depth int) string {
	e, g := r.expr, a.generator
	item := ref{}
	if r.typ != nil {
		item.typ = r.typ.Elem
	}
	if len(v) > 0 {
		item.value = pick(g, v...)
	}
	x := a.name()
	if a.chance(55) {
		inner := a.itemTest(x, item, max(depth, 1))
		return pick(g, e+".all("+x+", "+inner+")", e+".exists("+x+", "+inner+")", e+".exists_one("+x+", "+inner+")",
			e+".filter("+x+", "+inner+").size() > 0",
			e+".map("+x+", "+inner+") == [true]", e+".map("+x+", "+inner+", "+x+").size() == 1",
			e+".all(i, "+x+", "+inner+")", e+".exists(i, "+x+", i > 0 || "+inner+")",
			"!"+e+".existsOne(i, "+x+", "+inner+")",
			e+".transformList(i, "+x+", "+inner+").size() > 1", e+".transformMap(i, "+x+", "+inner+")[0]",
			"optional.of("+e+").optMap(l, l.all("+x+", "+inner+")).orValue(true)")
	}
	lit := literal(item.value)
	n := strconv.Itoa(len(v))
	common := []string{
		"size(" + e + ") == " + n, e + ".size() > " + n, lit + " in " + e, e + " == " + e, e + " == []",
		e + "[0] == " + lit, e + "[" + n + "] == " + lit, "(" + e + " + " + e + ").size() == " + n,
		"type(" + e + ") == list",
		e + ".indexOf(" + lit + ") >= 0", e + ".lastIndexOf(" + lit + ") == 0", e + ".distinct().size() == " + n,
		e + ".reverse() == " + e, e + ".slice(0, 1).size() == 1", e + ".first().hasValue()",
		e + ".last() == optional.of(" + lit + ")",
		"sets.contains(" + e + ", [" + lit + "])", "sets.intersects(" + e + ", " + e + ")",
		"sets.equivalent(" + e + ", [" + lit + "])", e + ".flatten().size() == " + n, e + "[?0].hasValue()",
		e + ".isSorted()", e + "[0.0] == " + lit, e + "['a'] == 1", "'" + n + "' in " + e,
		e + ".sum() == 3", e + ".map(q, q).size() == " + n, "dyn(" + e + ").x == 1",
	}
	if _, ok := item.value.(string); ok {
		common = append(common, e+".join(',') == "+lit, e+".sort() == "+e, e+".min() == "+lit, e+".max() < 'z'",
			e+".exists(s, s.startsWith('a'))", e+".map(s, s + 'x').join() != ''")
	}
	if m, ok := item.value.(map[string]any); ok {
		if _, named := m["name"].(string); named {
			common = append(common, e+".map(s, s.name).join(',') == 'a,b'", e+".sortBy(s, s.name)[0].name == 'a'",
				e+".map(s, s.name).isSorted()", "'app' in "+e+".map(s, s.name)", e+".exists(s, s == "+e+"[0])")
		}
	}
	return pick(g, common...)
}

func (a *author) mapTest(r ref, v map[string]any, depth int) string {
	e, g := r.expr, a.generator
	names := slices.Sorted(maps.Keys(v))
	key := pick(g, append(names, mapKeys...)...)
	n := strconv.Itoa(len(v))
	if a.chance(35) && len(names) > 0 {
		item := ref{value: v[names[0]]}
		if r.typ != nil {
			item.typ = r.typ.Elem
		}
		x := a.name()
		byKey := a.itemTest(x, ref{value: names[0]}, 0)
		byValue := a.itemTest(x, item, 0)
		return pick(g, e+".all("+x+", "+byKey+")", e+".exists("+x+", "+byKey+")", e+".exists_one("+x+", "+byKey+")",
			e+".filter("+x+", "+byKey+").size() > 0", e+".map("+x+", "+byKey+").size() == "+n,
			e+".all(k, "+x+", "+byValue+")", e+".exists(k, "+x+", k == "+quote(key)+" && "+byValue+")",
			e+".existsOne(k, "+x+", "+byValue+")", e+".transformMap(k, "+x+", "+byValue+").size() == "+n,
			e+".transformList(k, "+x+", k).sort() == "+literal(anys(names)),
			e+".transformMapEntry(k, "+x+", {k: 1}).size() == "+n)
	}
	return pick(g, quote(key)+" in "+e, e+"["+quote(key)+"] == "+literal(v[key]), "size("+e+") == "+n, e+".size() < "+n,
		e+" == "+e, e+" == {}", e+".?"+"name.orValue('') == 'web'", "has("+e+".name)",
		e+"[?"+quote(key)+"].hasValue()", "type("+e+") == map", e+".map(k, k).size() == "+n,
		"!("+quote(key)+" in "+e+")", "1 in "+e, e+"[1] == 1", e+" == "+e+" && true", "dyn("+e+") == dyn([])",
		e+".filter(k, k.startsWith('a')).size() >= 0", e+" != null")
}

func anys(names []string) []any {
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out
}

func (a *author) requestTest() string {
	r := a.kind.resource
	return pick(a.generator, "request.operation == 'CREATE'", "request.operation in ['UPDATE', 'DELETE']",
		"request.namespace == 'shop'", "has(request.namespace) && request.namespace.startsWith('sh')",
		"request.name == 'web'", "has(request.name)", "request.userInfo.username == 'alice'",
		"'devs' in request.userInfo.groups", "request.userInfo.groups.exists(g, g.startsWith('system:'))",
		"has(request.userInfo.extra) && 'scope' in request.userInfo.extra", "request.userInfo.extra.scope[0] == 'a'",
		"request.userInfo.uid == '7'", "request.kind.kind == "+quote(r.Kind), "request.kind.group == "+quote(r.Group),
		"request.kind.version == 'v1'", "request.requestKind == request.kind",
		"request.resource.resource == "+quote(r.Resource),
		"request.requestResource.version == request.resource.version", "request.dryRun", "!request.dryRun",
		"has(request.subResource)", "request.subResource == ''", "request.options == null", "has(request.options)",
		"request.options.kind == 'CreateOptions'", "has(request.options.dryRun) && 'All' in request.options.dryRun",
		"size(request.userInfo.groups) > 1", "dyn(request).operation == 'CREATE'", "has(request.requestSubResource)",
		"request.userInfo.extra.all(k, request.userInfo.extra[k].size() > 0)", "request == request",
		"dyn(request).userInfo.groups[7] == 'x'")
}

func (a *author) namespaceTest() string {
	return pick(a.generator, "namespaceObject == null", "namespaceObject.metadata.name == 'shop'",
		"namespaceObject != null && namespaceObject.metadata.labels['env'] == 'prod'",
		"namespaceObject.metadata.?labels[?'team'].orValue('') == 'shop'", "has(namespaceObject.metadata.annotations)",
		"namespaceObject.spec.finalizers.exists(f, f == 'kubernetes')", "namespaceObject.status.phase == 'Active'",
		"'env' in namespaceObject.metadata.labels", "namespaceObject.metadata.labels.all(k, k != 'x')",
		"has(namespaceObject.metadata.deletionTimestamp)", "namespaceObject.metadata.UID == ''",
		"namespaceObject.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
		"has(namespaceObject.status.conditions)", "size(dyn(namespaceObject)) == 3")
}

func (a *author) authorizerTest() string {
	verb := pick(a.generator, "get", "list", "create", "fail", "")
	check := pick(a.generator, "authorizer.requestResource", "authorizer.group('apps').resource('deployments')",
		"authorizer.group('').resource('pods').namespace('shop').name('x')", "authorizer.path('/healthz')",
		"authorizer.group('apps').resource('deployments').subresource('scale')",
		"authorizer.group('').resource('secrets').fieldSelector('metadata.name=x').labelSelector('app in (a, b)')",
		"authorizer.serviceAccount('shop', 'robot').group('').resource('pods')",
		"authorizer.group('').resource('pods').labelSelector('((')",
		"authorizer.group('x').resource('y').namespace(request.namespace)", "authorizer.path('')",
		"authorizer.serviceAccount('SHOP', 'robot').path('/x')") + ".check(" + quote(verb) + ")"
	return pick(a.generator, check+".allowed()", "!"+check+".allowed()", check+".reason().contains('get')",
		check+".reason() == ''", check+".errored()", check+".error().startsWith('the')", check+" == "+check)
}

func (a *author) variableTest() string {
	v := pick(a.generator, a.variables...)
	e := "variables." + v.name
	switch v.class {
	case boolean:
		return pick(a.generator, e, "!"+e, e+" || "+e)
	case integer:
		return pick(a.generator, e+" > 1", e+" == "+e, e+" < 10", e+" / 0 == 1")
	case text:
		return a.valueTest(ref{expr: e, value: "web"}, 0)
	case list:
		return pick(a.generator, e+".size() > 0", e+".all(x, x == x)", e+" == []", e+"[0] == "+e+"[0]")
	}
	return pick(a.generator, e+" == "+e, e+" == null", "type("+e+") == map", e+".size() > 0", "has("+e+".name)")
}

// text writes an expression of type string.
func (a *author) text() string {
	r := a.ref()
	for range 5 {
		if _, ok := r.value.(string); ok {
			break
		}
		r = a.ref()
	}
	e := "string(" + r.expr + ")"
	if o := optionalPath(r.expr); o != "" && a.chance(25) {
		e = "string(" + o + ".orValue(" + a.simpleLiteral(r) + "))"
	}
	return pick(a.generator, e, e, "'it is ' + "+e, e+" + ' at ' + request.operation",
		quote(pick(a.generator, words...)), "("+a.bool(0)+") ? 'yes' : "+e, e+".trim() + ' '", "' '", "'a\\nb'",
		"string(1 / 0)", "request.userInfo.username",
		strconv.Quote("%s of %v")+".format(["+e+", "+r.expr+"])", "string(size("+e+"))", "string(object.metadata.name)",
		"'x' + string(object.metadata.namespace)", "string("+a.integer()+")",
		"object.metadata.labels.map(k, k).sort().join(',')", "'<&>é'",
		"string("+pick(a.generator, "1.5", "true", "duration('90s')", "timestamp('2024-01-01T00:00:00Z')", "b'abc'",
			"1u", "quantity('1')", "ip('10.0.0.1')", "cidr('10.0.0.0/8')")+")")
}

// integer writes an expression of type int.
func (a *author) integer() string {
	r := a.ref()
	switch v := r.value.(type) {
	case int64:
		return "int(" + r.expr + ")" + pick(a.generator, "", " + 1", " * 2", " - 3")
	case []any, map[string]any:
		return "size(" + r.expr + ")"
	case string:
		if v != "" {
			return "size(string(" + r.expr + "))"
		}
	}
	return strconv.Itoa(a.IntN(5))
}

// expression writes an expression of a class.
func (a *author) expression(c class) string {
	switch c {
	case boolean:
		return a.bool(1)
	case integer:
		return a.integer()
	case text:
		return a.text()
	case list:
		return pick(a.generator, "[1, 2, 3]", "['a', "+a.text()+"]", "["+a.integer()+"]",
			"object.metadata.name.split('-')", "['x'].map(y, y + 'z')")
	}
	r := a.ref()
	if o := optionalPath(r.expr); o != "" && a.chance(40) {
		return o + ".orValue(" + a.simpleLiteral(r) + ")"
	}
	return pick(a.generator, r.expr, r.expr, "("+a.bool(0)+") ? "+"dyn("+r.expr+") : dyn(null)",
		"optional.of("+r.expr+")", "quantity('1')")
}
