package merge

import (
	"sync"

	"github.com/celgate/celgate/internal/shape"
)

// A Merger is [Apply] without checks that cannot fail. The zero value is ready for use; it is safe for concurrent use,
// and caches facts about types, so its fields must not change after the first use.
//
// The live objects of built-in kinds must have the server's encoding, as package prepare makes them. They come from Go
// values, so the only invalid part that a schema can find is an item of a keyed list without any of its keys. Few types
// have such lists; for others the time does not depend on the size of the live object. Objects of custom kinds are
// validated as a whole, because the server validates them against their schema only after admission.
type Merger struct {
	// Unique makes [Merger.Apply] refuse live objects with equal items in a set or of equal keys in a keyed list.
	Unique bool
	// EveryKey makes [Merger.Apply] refuse items of a keyed list that lack one of several keys.
	EveryKey bool

	// *schema.Type of an object → map[*schema.Type][]int: the types and members on the way to such lists
	suspects sync.Map
}

// Apply returns live with patch merged into it, as the function does.
func (m *Merger) Apply(live, patch map[string]any, t *shape.Type) (map[string]any, error) {
	v := validator{duplicates: !m.Unique, everyKey: m.EveryKey}
	if t != nil && t.Name != "" {
		v.only = m.leadToSuspects(t)
	}
	return apply(live, patch, t, v)
}

func (m *Merger) leadToSuspects(t *shape.Type) map[*shape.Type][]int {
	if lead, ok := m.suspects.Load(t); ok {
		return lead.(map[*shape.Type][]int)
	}
	suspect := mayLackKeys
	if m.Unique {
		suspect = isAssociative
	}
	lead := leadTo(t, suspect)
	m.suspects.Store(t, lead)
	return lead
}

// leadTo returns the types in t that are suspect or contain such a type, and the members of structs that do.
func leadTo(t *shape.Type, suspect func(*shape.Type) bool) map[*shape.Type][]int {
	users := map[*shape.Type][]*shape.Type{}
	lead := map[*shape.Type][]int{}
	var visit func(t *shape.Type)
	visit = func(t *shape.Type) {
		if _, seen := users[t]; seen {
			return
		}
		users[t] = nil
		if suspect(t) {
			lead[t] = nil
		}
		for _, part := range parts(t) {
			visit(part)
			users[part] = append(users[part], t)
		}
	}
	visit(t)
	for more := true; more; {
		more = false
		for part := range lead {
			for _, user := range users[part] {
				if _, known := lead[user]; !known {
					lead[user], more = nil, true
				}
			}
		}
	}
	for typ := range lead {
		for i := range typ.Fields {
			if _, leads := lead[typ.Fields[i].Type]; leads {
				lead[typ] = append(lead[typ], i)
			}
		}
	}
	return lead
}

// parts returns the types of the members or items of a type.
func parts(t *shape.Type) []*shape.Type {
	var parts []*shape.Type
	for i := range t.Fields {
		if part := t.Fields[i].Type; part != nil {
			parts = append(parts, part)
		}
	}
	if t.Elem != nil {
		parts = append(parts, t.Elem)
	}
	return parts
}

func isAssociative(t *shape.Type) bool {
	return t.Kind == shape.List && (t.Merge == shape.Keyed || t.Merge == shape.Set)
}

// mayLackKeys reports whether a type is a keyed list whose items may lack all keys.
func mayLackKeys(t *shape.Type) bool {
	if t.Kind != shape.List || t.Merge != shape.Keyed || t.Elem == nil {
		return false
	}
	for _, name := range t.Keys {
		field := t.Elem.Field(name)
		if field != nil && (field.Default != nil || !field.OmitEmpty && !field.OmitZero) {
			return false
		}
	}
	return true
}
