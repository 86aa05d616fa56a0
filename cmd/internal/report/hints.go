package report

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
)

// A failing is the subject of a hint.
type failing struct {
	message string
	err     error // with the message as its text; nil for a refused policy or request
	expr    policy.Expr
	request *celgate.Request // nil for a policy that is rejected
	param   string
}

// hintFor returns advice for the reader of a message; empty if there is none.
func hintFor(f failing) string {
	if hint := hintOfType(f); hint != "" {
		return hint
	}
	said := wording.Read(f.message)
	for _, h := range hints {
		if said.Is(h.about) && (h.source == "" || strings.Contains(f.expr.Src, h.source)) {
			return h.hint
		}
	}
	if meant := spell.CEL(said); meant != "" {
		return meant
	}
	if said.Kind == wording.Undeclared {
		if strings.HasPrefix(f.expr.Field, "spec.functions") {
			return "a function of a library sees only its parameters"
		}
		if name := spell.Nearest(said.Name, variables, len(said.Name)/3+1); name != "" && name != said.Name {
			return "did you mean " + name + "?"
		}
	}
	return ""
}

// hintOfType returns the hint for an error whose type suffices; empty for other errors.
func hintOfType(f failing) string {
	var key *celgate.NoSuchKeyError
	var unbound *eval.UnboundError
	var expression *celgate.ExpressionError
	var status *apierrors.StatusError
	switch {
	case f.err == nil:
	case errors.As(f.err, &key):
		if hint := escapedHint(key.Key); hint != "" {
			return hint
		}
		return missingKeyHint(f, key.Key)
	case errors.Is(f.err, celgate.ErrBudget) && errors.As(f.err, &expression):
		return "the expression reads too much: avoid nested loops, or narrow their lists with filter or a variable"
	case errors.Is(f.err, celgate.ErrBudget):
		return "all expressions of the policy together looked at too much; a variable is computed once and can serve several of them"
	case errors.As(f.err, &unbound) && unbound.Name == "authorizer":
		return "authorizer is not available in messageExpression and auditAnnotations; use it in a validation instead"
	case errors.Is(f.err, celgate.ErrNoParams):
		return "the binding's paramRef selects nothing: add the param to the policies or with -c"
	case errors.Is(f.err, celgate.ErrNoDefaultParams):
		return "add defaultParams to the policy, or a param to the binding"
	case errors.Is(f.err, celgate.ErrNoParamNamespace):
		return "set paramRef.namespace in the binding, so that cluster-scoped objects have params too"
	case errors.Is(f.err, celgate.ErrNoParamKind):
		return "the kind of the params is unknown: add its CustomResourceDefinition to the policies or with -c"
	case errors.As(f.err, &status) && isMissingNamespace(&status.ErrStatus):
		return giveNamespace
	}
	return ""
}

const giveNamespace = "add the Namespace to the policies, with -c or to the manifests"

// isMissingNamespace reports whether a status is the server's answer about a missing namespace.
func isMissingNamespace(s *metav1.Status) bool {
	return s.Code == http.StatusNotFound && s.Details != nil && s.Details.Kind == "namespaces"
}

var variables = []string{"object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer",
	"quantity", "size", "has"}

// falseHint returns a common mistake in an expression that is false; empty if there is none.
func falseHint(src string) string {
	for _, name := range escapedName().FindAllString(src, -1) {
		if hint := escapedHint(name); hint != "" {
			return hint
		}
	}
	if listOfMap().MatchString(src) && orderMatters().MatchString(src) && !strings.Contains(src, ".sort") {
		return "the keys of a map have a different order each time: sort the result, as in " +
			"labels.map(k, k).sort(), before it is joined, indexed or compared with a list"
	}
	return ""
}

var (
	escapedName  = pattern.New(`\w*__(?:dot|dash|slash|underscores)__\w*`)
	listOfMap    = pattern.New(`\b(?:[dD]ata|[lL]abels|annotations|nodeSelector|limits|requests|capacity|parameters)(?:\.orValue\(\{\}\))?\.(?:map|filter|transformList)\(`)
	orderMatters = pattern.New(`\.join\(|\)\s*\[\d+\]|[=!]=\s*\[|\]\s*[=!]=`)
)

// overwriteHint explains a change of an existing container by an ApplyConfiguration that names it literally: a
// container that was meant to be added is merged into the one of that name. Empty if there is none.
func overwriteHint(set *policy.Set, c celgate.Change) string {
	if set == nil {
		return ""
	}
	was := imagesOf(c.Before)
	for name, image := range imagesOf(c.After) {
		if before, ok := was[name]; !ok || before == image {
			continue
		}
		literal := regexp.MustCompile(`\bname\s*:\s*['"]` + regexp.QuoteMeta(name) + `['"]`)
		for _, p := range set.Policies {
			if p.Kind != c.Kind || p.Name != c.Policy {
				continue
			}
			for _, m := range p.Mutations {
				if m.PatchType == policy.ApplyConfiguration && literal.MatchString(m.Expr.Src) {
					return "the object has a container " + name + " already, and what the policy sets is merged into it: choose another name, or a match condition that looks for it"
				}
			}
		}
	}
	return ""
}

// imagesOf returns the images of the containers of a Pod, or of the Pod in a workload, by name.
func imagesOf(object map[string]any) map[string]string {
	images := map[string]string{}
	var walk func(v any)
	walk = func(v any) {
		m, _ := v.(map[string]any)
		for _, list := range []string{"containers", "initContainers"} {
			items, _ := m[list].([]any)
			for _, item := range items {
				container, _ := item.(map[string]any)
				name, _ := container["name"].(string)
				image, _ := container["image"].(string)
				if name != "" {
					images[name] = image
				}
			}
		}
		for _, member := range []string{"spec", "template", "jobTemplate"} {
			if m[member] != nil {
				walk(m[member])
			}
		}
	}
	walk(object)
	return images
}

// escapedHint explains a name that is escaped as in the rules of CustomResourceDefinitions; empty for other names.
func escapedHint(name string) string {
	if !escapedName().MatchString(name) {
		return ""
	}
	key, ok := apiservercel.Unescape(name)
	if !ok || key == name {
		return ""
	}
	return name + " is not unescaped in policies, only in the rules of CustomResourceDefinitions: write ['" + key + "'], and '" + key + "' in … for has(…)"
}

// hints are searched in order: the first one with the sentence, and its source if it has one, is shown.
var hints = []struct {
	about  wording.Sentence // empty members match any value
	source string
	hint   string
}{
	{about: typeConversion, source: ".limits", hint: quantities},
	{about: typeConversion, source: ".requests", hint: quantities},
	{about: typeConversion, source: ".capacity", hint: quantities},
	{about: noOverload, source: "quantity",
		hint: "quantity(…) requires a string; a field that may be a number or a string needs string(…) first"},
	{about: noOverload, source: "maxUnavailable", hint: intOrString},
	{about: noOverload, source: "maxSurge", hint: intOrString},
	{about: noOverload, source: "argetPort", hint: intOrString},
	{about: noOverload, source: ".port", hint: intOrString},
	{about: noOverload, source: "requests", hint: quantities},
	{about: noOverload, source: "limits", hint: quantities},
	{about: noOverload, source: "namespaceObject.metadata.creationTimestamp",
		hint: "at run time it is a string: write timestamp(dyn(namespaceObject.metadata.creationTimestamp))"},
	{about: noOverload,
		hint: "an operator is not defined for the types of its values; test them first, as in type(x) == int"},
	{about: wording.Sentence{Kind: wording.OutOfBounds},
		hint: "guard the index with size(…) > n, or use list[?n].orValue(…)"},
	{about: wording.Sentence{Kind: wording.DivisionByZero},
		hint: "test the divisor in the same expression: d != 0 && n / d …"},
	{about: wording.Sentence{Kind: wording.Undeclared, Name: "variables"},
		hint: "match conditions cannot use variables when they are written; repeat the expression there"},
	{about: wording.Sentence{Kind: wording.Undeclared, Name: "params"},
		hint: "params exists only if the policy has a spec.paramKind"},
	{about: wording.Sentence{Kind: wording.Undeclared, Name: "authorizer"}, hint: "authorizer cannot be used here"},
	{about: wording.Sentence{Kind: wording.Undeclared, Name: "includes"},
		hint: "list.includes is not accepted before Kubernetes 1.38; write value in list"},
	{about: wording.Sentence{Kind: wording.UndefinedField, Name: "uid"},
		hint: "request and namespaceObject do not declare uid"},
	{about: wording.Sentence{Kind: wording.UndefinedField, Name: "object"},
		hint: "the object is not part of request: write object, and oldObject for the stored one"},
	{about: wording.Sentence{Kind: wording.UndefinedField, Name: "oldObject"},
		hint: "the stored object is not part of request: write oldObject"},
	{about: wording.Sentence{Kind: wording.WrongResult, Want: "bool", Got: "dyn"},
		hint: "compare the value, as in object.spec.x == true, or wrap it in bool(…)"},
	{about: wording.Sentence{Kind: wording.WrongResult, Want: "string", Got: "dyn"},
		hint: "wrap the value in string(…)"},
	{about: wording.Sentence{Kind: wording.WrongResult, Want: "one of [string null_type]"},
		hint: "wrap the value in string(…), and return '' to leave the annotation out"},
	{about: wording.Sentence{Kind: wording.WrongResult, Want: "list(JSONPatch)", Got: "list(dyn)"},
		hint: "an empty list needs a typed list in the same expression: cond ? [JSONPatch{…}] : []"},
	{about: wording.Sentence{Kind: wording.MixedTypes},
		hint: "lists and maps hold values of one type; dyn(…) around each value allows a mixture"},
}

var (
	typeConversion = wording.Sentence{Kind: wording.TypeConversion}
	noOverload     = wording.Sentence{Kind: wording.NoSuchOverload}
)

const (
	intOrString = "the field holds an integer or a string such as \"25%\": test it first, as in type(x) == int && x <= 1"
	quantities  = "resource amounts are strings: compare them with quantity(…).compareTo(quantity(…)) or isGreaterThan"
)

// missingKeyHint explains "no such key": a variable that is null in this request, or a missing member of the object.
func missingKeyHint(f failing, key string) string {
	src := f.expr.Src
	if r := f.request; r != nil {
		switch {
		case r.Object == nil && rootOf(src, key, "object"):
			return "object is null on " + string(r.Operation) + ": write oldObject, or object == null || …"
		case r.OldObject == nil && rootOf(src, key, "oldObject"):
			return "oldObject is null on " + string(r.Operation) + ": write oldObject == null || …"
		case rootOf(src, key, "namespaceObject"):
			if r.Namespace == "" || r.Kind.Kind == "Namespace" {
				return "namespaceObject is null for " + r.Kind.Kind + " objects: write namespaceObject == null || …"
			}
			return "namespaceObject is null in match conditions; use a namespaceSelector, or test it in a validation"
		case f.param == "" && rootOf(src, key, "params"):
			return "params is null: the binding does not have a paramRef"
		}
	}
	if (key == "kind" || key == "apiVersion") && strings.HasPrefix(f.expr.Field, "spec.mutations") &&
		rootOf(src, key, "params") {
		return "params of a built-in kind have neither apiVersion nor kind in a MutatingAdmissionPolicy"
	}
	if key == "UID" && strings.Contains(src, "namespaceObject") {
		return "namespaceObject.metadata.UID compiles, but never has a value"
	}
	if key == "extra" && strings.Contains(src, "userInfo.extra") {
		return "request.userInfo.extra is absent for users without extra: write request.userInfo.?extra, or set it in the request"
	}
	if r := f.request; key == "name" && r != nil && r.Operation == celgate.Delete && r.Name == "" &&
		strings.Contains(src, "request.name") {
		return "the deletion of a collection does not have request.name: write oldObject.metadata.name"
	}
	found := mentions(src, key)
	if len(found) == 0 {
		if m := computed().FindStringSubmatch(src); m != nil {
			return "'" + key + "' is not set here; guard it with " + m[2] + " in " + m[1] + ", or read it with " + m[1] + "[?" + m[2] + "].orValue(…)"
		}
		return "a member is read that is not set; guard it with has(…), or read it with .? and orValue(…)"
	}
	at := found[0]
	path := pathBefore(src[:at.from])
	member := src[at.from:at.to]
	if strings.HasSuffix(strings.TrimRight(src[:at.from], `'"`), "[") || strings.ContainsAny(key, "./-") {
		if path == "" {
			return "'" + key + "' is not set here; guard it with in, or read it with [?'" + key + "'].orValue(…)"
		}
		return "'" + key + "' is not set here; guard it with '" + key + "' in " + path + ", or read it with " + path + "[?'" + key + "'].orValue(…)"
	}
	if path == "" {
		return member + " is not set here; guard it with has(…), or read it with .?" + member + ".orValue(…)"
	}
	return member + " is not set here; guard it with has(" + path + "." + member + "), or read it with " + path + ".?" + member + ".orValue(…)"
}

// computed matches an index that is a variable, such as object.data[key].
var computed = pattern.New(`([a-zA-Z_][\w.]*)\[([a-zA-Z_][\w.]*)\]`)

// mentions returns the places where an expression reads a member: .key, ['key'] or .`key`. The mark is the key alone.
func mentions(src, key string) []mark {
	q := regexp.QuoteMeta(key)
	re := regexp.MustCompile(
		`\.\s*(` + q + `)\b(?:[^(\w]|$)|\[\s*'(` + q + `)'\s*\]|\[\s*"(` + q + `)"\s*\]|\.\s*` + "`(" + q + ")`",
	)
	var out []mark
	for _, m := range re.FindAllStringSubmatchIndex(src, -1) {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				out = append(out, mark{m[g], m[g+1]})
			}
		}
	}
	return out
}

// rootOf reports whether key is read from the variable itself, as metadata is in object.metadata.
func rootOf(src, key, variable string) bool {
	for _, m := range mentions(src, key) {
		if pathBefore(src[:m.from]) == variable {
			return true
		}
	}
	return false
}

var pathEnd = pattern.New(`([A-Za-z_]\w*(?:\s*\.\s*\w+|\[[^\[\]]*\])*)\s*(?:\.\s*` + "`?" + `|\[\s*['"])$`)

// pathBefore returns the path that ends just before a member; empty if it is not a plain path.
func pathBefore(src string) string {
	m := pathEnd().FindStringSubmatchIndex(src)
	if m == nil {
		return ""
	}
	if m[2] > 0 && strings.ContainsAny(src[m[2]-1:m[2]], ").]`?") {
		return "" // the tail of a longer path, such as f(x).y
	}
	return strings.Join(strings.Fields(src[m[2]:m[3]]), "")
}
