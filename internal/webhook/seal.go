package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// SealAnnotation holds the seal of a policy or binding with params.
const SealAnnotation = "celgate.dev/params-seal"

// A Seal marks policies and bindings whose author was permitted to read their params, and bindings of namespaces whose
// author was permitted to bind their policies. It tells them from objects that were stored unchecked. A seal is a keyed
// hash of everything that the permission depends on: the kind and the name of the object, and its paramKind, or its
// policies and paramRef. Making one needs the key; design/0009-params.md describes the consequences.
type Seal struct{ key []byte }

// NewSeal returns the seal of a key.
func NewSeal(key []byte) *Seal { return &Seal{key} }

// sealOf returns the seal of a policy or a binding, one of which is nil; "" if it does not have params.
func (s *Seal) sealOf(p *policy.Policy, b *policy.Binding) string {
	var sealed any
	switch {
	case p != nil && p.ParamKind != nil:
		sealed = []any{p.Kind, p.Name, p.ParamKind}
	case b != nil && (b.ParamRef != nil || b.Namespace != ""):
		var policies any = b.PolicyName
		if len(b.Policies) > 0 {
			policies = b.Policies
		}
		sealed = []any{b.Ref().Kind, b.Name, policies, b.ParamRef}
	default:
		return ""
	}
	text, err := json.Marshal(sealed)
	if err != nil {
		return "" // strings and maps of strings can always be marshalled
	}
	hash := hmac.New(sha256.New, s.key)
	hash.Write(text)
	return "v1:" + base64.RawURLEncoding.EncodeToString(hash.Sum(nil))
}

// Holds reports whether an object does not need a seal or has the right one. A nil Seal holds for objects that do not
// need one.
func (s *Seal) Holds(object map[string]any, p *policy.Policy, b *policy.Binding) bool {
	if (p == nil || p.ParamKind == nil) && (b == nil || b.ParamRef == nil && b.Namespace == "") {
		return true
	}
	if s == nil {
		return false
	}
	given := tree.Object(object).Annotation(SealAnnotation)
	return hmac.Equal([]byte(given), []byte(s.sealOf(p, b)))
}

// Put returns the object with its seal.
func (s *Seal) Put(object map[string]any, p *policy.Policy, b *policy.Binding) map[string]any {
	o := tree.Object(object)
	annotations := o.At("metadata", "annotations").With(map[string]any{SealAnnotation: s.sealOf(p, b)})
	return o.WithMetadata(o.Metadata().With(map[string]any{"annotations": annotations}))
}
