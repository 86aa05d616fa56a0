// Package mergepatch applies JSON merge patches, as RFC 7386 says.
package mergepatch

import "maps"

// Apply returns target with the patch: members of objects are merged, null takes a member away, everything else takes
// the place of what was there. Neither argument is changed; the result shares with target what is as it was.
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
