package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"

	"github.com/celgate/celgate/internal/pattern"
)

// The API server puts the name of the webhook and a slash before the keys of a webhook's annotations, and drops keys
// that then are not qualified names (checkKeyFormat in k8s.io/apiserver/pkg/admission/attributes.go v0.37.2). So the
// keys of an engine, "policy/key", are written "policy_key".
const (
	changesKey    = "mutated_by"
	longestKey    = 63 // of the part behind the slash in a qualified name
	longestHashed = longestKey - 9
)

var notInKey = pattern.New(`[^-A-Za-z0-9_.]`)

// annotationKey turns a key of an engine into one that the server accepts.
func annotationKey(key string) string {
	key = strings.TrimPrefix(key, "validation.policy.admission.k8s.io/")
	safe := strings.Trim(notInKey().ReplaceAllString(key, "_"), "-_.")
	if safe != "" && len(safe) <= longestKey {
		return safe
	}
	sum := sha256.Sum256([]byte(key))
	return safe[:min(len(safe), longestHashed)] + "_" + hex.EncodeToString(sum[:4])
}

// annotations returns those of the decision, and one that lists the mutations and their changes by policy and binding,
// as a JSON list: the server's audit log only has the whole patch.
func annotations(d *celgate.Decision) map[string]string {
	if len(d.AuditAnnotations) == 0 && len(d.Changes) == 0 {
		return nil
	}
	out := make(map[string]string, len(d.AuditAnnotations)+1)
	for _, key := range slices.Sorted(maps.Keys(d.AuditAnnotations)) {
		out[annotationKey(key)] = d.AuditAnnotations[key]
	}
	if len(d.Changes) > 0 {
		if text, err := marshal(changes(d.Changes)); err == nil {
			out[changesKey] = string(text)
		}
	}
	return out
}

// A change is one element of the annotation that lists changes.
type change struct {
	Policy    string   `json:"policy"`
	Binding   string   `json:"binding"`
	Param     string   `json:"param,omitempty"`
	Mutations []int    `json:"mutations"` // indices in spec.mutations
	Names     []string `json:"names,omitempty"`
	Second    bool     `json:"reinvoked,omitempty"`
	Paths     []string `json:"paths"`
}

// maxPaths bounds the annotation: of a policy that rewrites a whole object only the first changes are listed.
const maxPaths = 20

func changes(all []celgate.Change) []change {
	out := make([]change, len(all))
	var d differ
	for i, c := range all {
		out[i] = change{Policy: c.Policy, Binding: c.Binding, Param: c.Param, Mutations: c.Mutations, Names: c.Names,
			Second: c.Second, Paths: []string{}}
		if c.Mutations == nil {
			out[i].Mutations = []int{0}
		}
		d.operations = d.operations[:0]
		d.objects(c.Before, c.After)
		for _, o := range d.operations {
			if len(out[i].Paths) == maxPaths {
				out[i].Paths = append(out[i].Paths, "…")
				break
			}
			out[i].Paths = append(out[i].Paths, o.Path)
		}
	}
	return out
}
