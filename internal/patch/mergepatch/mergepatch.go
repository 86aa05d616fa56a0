// Package mergepatch applies JSON merge patches (RFC 7386).
package mergepatch

import "maps"

// Apply returns target with the patch: members of objects are merged, null removes a member, other values replace the
// old ones. Neither argument is changed; the result shares unchanged parts with target.
func Apply(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	before, _ := target.(map[string]any)
	merged := maps.Clone(before)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, value := range members {
		if value == nil {
			delete(merged, name)
			continue
		}
		merged[name] = Apply(before[name], value)
	}
	return merged
}
