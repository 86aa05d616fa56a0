package prove

import (
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/solve"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
)

// An accessLeaf is the authorizer or a question to it: who may do what. The order of its functions does not matter.
type accessLeaf struct {
	stage                        accessStage
	account                      string // namespace/name of a service account; empty: the user of the request
	group, resource, path        textLeaf
	subresource, namespace, name textLeaf
	verb                         textLeaf
}

type accessStage uint8

const (
	ofUser accessStage = iota
	ofGroup
	ofResource
	ofPath
	decided
)

// An access is the answer to a question: true if it is allowed. Two questions with the same attributes have the same
// answer, and otherwise nothing is assumed about it.
type access struct {
	accessLeaf
	truth solve.Formula
}

func (a *accessLeaf) attributes() []textLeaf {
	return []textLeaf{a.group, a.resource, a.path, a.subresource, a.namespace, a.name, a.verb}
}

// isAllowed returns the condition that a question has the answer yes.
func (m *machine) isAllowed(l accessLeaf) solve.Formula {
	for _, a := range m.accesses {
		if a.accessLeaf == l {
			return a.truth
		}
	}
	s := m.store
	made := &access{l, s.NewBool()}
	for _, a := range m.accesses {
		same, known := solve.True, a.account == l.account
		for i, x := range a.attributes() {
			one, ok := m.textsAreOne(x, l.attributes()[i])
			same, known = s.Conjoin(same, one), known && ok
		}
		if known {
			s.Assume(s.Disjoin(same.Negate(), s.Iff(a.truth, made.truth)))
		}
	}
	m.accesses = append(m.accesses, made)
	return made.truth
}

// ask evaluates a function of the authorizer library.
func (f *frame) ask(name string, a accessLeaf, args []leaf) *value {
	texts := make([]textLeaf, len(args))
	for i, l := range args {
		t, ok := l.(textLeaf)
		if !ok {
			return f.opaqueOf(name, append([]leaf{a}, args...)...)
		}
		texts[i] = t
	}
	isBlank := len(texts) == 1 && texts[0].isConst() && strings.TrimSpace(texts[0].before) == ""
	isConst := !slices.ContainsFunc(texts, func(t textLeaf) bool { return !t.isConst() })
	switch {
	case name == "serviceAccount" && isConst && len(texts) == 2:
		namespace, account := texts[0].before, texts[1].before
		if len(apimachineryvalidation.ValidateServiceAccountName(account, false)) > 0 ||
			len(apimachineryvalidation.ValidateNamespaceName(namespace, false)) > 0 {
			return failure()
		}
		a.account = namespace + "/" + account
	case name == "group":
		a.stage, a.group = ofGroup, texts[0]
	case name == "resource" && isBlank, name == "path" && isBlank:
		return failure()
	case name == "resource" && isConst:
		a.stage, a.resource = ofResource, texts[0]
	case name == "path" && isConst:
		a.stage, a.path = ofPath, texts[0]
	case name == "subresource":
		a.subresource = texts[0]
	case name == "namespace":
		a.namespace = texts[0]
	case name == "name":
		a.name = texts[0]
	case name == "check":
		a.stage, a.verb = decided, texts[0]
	case name == "allowed" && a.stage == decided:
		return newBool(f.isAllowed(a))
	default:
		return f.opaqueOf(name, append([]leaf{a}, args...)...)
	}
	return newLeaf(a)
}

// grant returns the RBAC objects that give an answer yes to a question, with the texts of a model or an object.
func (a *accessLeaf) grant(index int, text func(textLeaf) string, user celgate.UserInfo) []map[string]any {
	name := "access-" + strconv.Itoa(index)
	rule := map[string]any{"verbs": []any{text(a.verb)}}
	if path := text(a.path); path != "" {
		rule["nonResourceURLs"] = []any{path}
	} else {
		resource := text(a.resource)
		if sub := text(a.subresource); sub != "" {
			resource += "/" + sub
		}
		rule["apiGroups"], rule["resources"] = []any{text(a.group)}, []any{resource}
		if only := text(a.name); only != "" {
			rule["resourceNames"] = []any{only}
		}
	}
	subject := map[string]any{"kind": "User", "apiGroup": rbacGroup, "name": user.Username}
	if namespace, account, ok := strings.Cut(a.account, "/"); ok {
		subject = map[string]any{"kind": "ServiceAccount", "namespace": namespace, "name": account}
	}
	kind, metadata := "Cluster", func() map[string]any { return map[string]any{"name": name} }
	if namespace := text(a.namespace); namespace != "" {
		kind, metadata = "", func() map[string]any { return map[string]any{"name": name, "namespace": namespace} }
	}
	return []map[string]any{
		{"apiVersion": rbacGroup + "/v1", "kind": kind + "Role", "metadata": metadata(), "rules": []any{rule}},
		{"apiVersion": rbacGroup + "/v1", "kind": kind + "RoleBinding", "metadata": metadata(),
			"subjects": []any{subject},
			"roleRef":  map[string]any{"apiGroup": rbacGroup, "kind": kind + "Role", "name": name}},
	}
}

const rbacGroup = "rbac.authorization.k8s.io"
