package merge

import (
	"sync"

	"github.com/celgate/celgate/internal/shape"
)

// A Merger is [Apply] without a look at what cannot be wrong. The zero value is ready; it may be used from many
// goroutines, and remembers what it finds out about types.
//
// The live objects of built-in kinds must be as the server would encode them, as package prepare makes them. They come
// out of Go values, so that the only thing in them that a schema can refuse is the item of a keyed list whose keys are
// all left out. Few types have such lists; everywhere else the work does not depend on the size of the live object.
// Objects of custom kinds are validated as a whole, since the server validates them against their schema only after
// admission.
type Merger struct {
	// *schema.Type of an object → map[*schema.Type][]int: the types and members that lead to such lists
	keyless sync.Map
}

// Apply returns live with patch merged into it, as the function does.
func (m *Merger) Apply(live, patch map[string]any, t *shape.Type) (map[string]any, error) {
	v := validator{duplicates: true}
	if t != nil && t.Name != "" {
		v.only = m.leadToKeyless(t)
	}
	return apply(live, patch, t, v)
}

func (m *Merger) leadToKeyless(t *shape.Type) map[*shape.Type][]int {
	if lead, ok := m.keyless.Load(t); ok {
		return lead.(map[*shape.Type][]int)
	}
	lead := leadToKeyless(t)
	m.keyless.Store(t, lead)
	return lead
}

// leadToKeyless returns the types in t that are keyed lists whose items may lack all keys, or that have one in them,
// and of structs the members that do.
func leadToKeyless(t *shape.Type) map[*shape.Type][]int {
	users := map[*shape.Type][]*shape.Type{}
	lead := map[*shape.Type][]int{}
	var visit func(t *shape.Type)
	visit = func(t *shape.Type) {
		if _, seen := users[t]; seen {
			return
		}
		users[t] = nil
		if mayLackKeys(t) {
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
