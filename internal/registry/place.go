package registry

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
)

// A place is a value in the judged object, and its path. The value is nil if it is missing.
type place struct {
	above *place
	name  string // of a member, or the key in a map
	index int    // of an item
	step  step
	value any
}

type step uint8

const (
	toMember step = iota
	toItem
	toKey
)

// member returns a member of the struct at a place.
func (p *place) member(name string) place {
	members, _ := p.value.(map[string]any)
	return place{above: p, name: name, value: members[name]}
}

// item returns an item of the list at a place.
func (p *place) item(i int) place {
	items, _ := p.value.([]any)
	return place{above: p, index: i, step: toItem, value: items[i]}
}

// key returns the value of a key of the map at a place.
func (p *place) key(key string) place {
	values, _ := p.value.(map[string]any)
	return place{above: p, name: key, step: toKey, value: values[key]}
}

func (p *place) has() bool { return p.value != nil }

func (p *place) text() string {
	text, _ := p.value.(string)
	return text
}

// number returns an integer; 0 for other values.
func (p *place) number() int64 {
	n, _ := p.value.(int64)
	return n
}

func (p *place) isTrue() bool { return p.value == true }

// size returns the number of items or members.
func (p *place) size() int {
	switch v := p.value.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	return 0
}

// keys returns the keys of the map at a place, sorted.
func (p *place) keys() []string {
	values, _ := p.value.(map[string]any)
	switch len(values) {
	case 0:
		return nil
	case 1:
		for key := range values {
			return []string{key}
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// hasItem reports whether an item of the list at a place has a member with a text; a missing one counts as empty.
func (p *place) hasItem(member, text string) bool {
	for i := range p.size() {
		item := p.item(i)
		if at := item.member(member); at.text() == text {
			return true
		}
	}
	return false
}

// texts returns the strings of the list at a place.
func (p *place) texts() []string {
	items, _ := p.value.([]any)
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i], _ = item.(string)
	}
	return texts
}

func (p *place) quantity() resource.Quantity {
	q, _ := resource.ParseQuantity(p.text())
	return q
}

func (p *place) path() *field.Path {
	if p.above == nil {
		return nil
	}
	above := p.above.path()
	switch p.step {
	case toItem:
		return above.Index(p.index)
	case toKey:
		return above.Key(p.name)
	}
	return above.Child(p.name)
}

// selector returns the metav1.LabelSelector at a place; nil if it is missing or malformed.
func (p *place) selector() *metav1.LabelSelector {
	members, ok := p.value.(map[string]any)
	if !ok {
		return nil
	}
	var out metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(members, &out); err != nil {
		return nil
	}
	return &out
}

// A judge collects the errors about an object, in the server's order.
type judge struct {
	found     []finding
	lacks     func(feature string) bool // of the server's minor
	envs      *celenv.Set               // nil: expressions are not compiled
	generated bool                      // findings come from a rule that the server has generated
}

// A finding is an error and its treatment.
type finding struct {
	err  *field.Error
	late bool   // of a generated rule: the server appends those
	kept string // the name of a rule that is not applied to an update if the stored object violates it, too
}

func (j *judge) add(errs ...*field.Error) {
	for _, err := range errs {
		j.found = append(j.found, finding{err: err, late: j.generated})
	}
}

// declare adds findings of generated rules, which the server appends to those of its handwritten code.
func (j *judge) declare(rule func()) {
	j.generated = true
	rule()
	j.generated = false
}

// forgive adds findings of a rule that is not applied to an update if the stored object already violates it.
func (j *judge) forgive(name string, rule func()) {
	before := len(j.found)
	rule()
	for i := before; i < len(j.found); i++ {
		j.found[i].kept = name
	}
}

// errs returns the findings in the server's order; old has those about the stored object.
func (j *judge) errs(old *judge) field.ErrorList {
	if len(j.found) == 0 {
		return nil
	}
	broken := map[string]bool{}
	if old != nil {
		for _, f := range old.found {
			broken[f.kept] = true
		}
	}
	var first, last field.ErrorList
	for _, f := range j.found {
		switch {
		case f.kept != "" && broken[f.kept]:
		case f.late:
			last = append(last, f.err)
		default:
			first = append(first, f.err)
		}
	}
	return append(first, last...)
}

func (j *judge) invalid(p *place, value any, detail string) {
	j.add(field.Invalid(p.path(), value, detail))
}
func (j *judge) require(p *place, detail string)   { j.add(field.Required(p.path(), detail)) }
func (j *judge) forbidden(p *place, detail string) { j.add(field.Forbidden(p.path(), detail)) }
func (j *judge) duplicate(p *place, value any)     { j.add(field.Duplicate(p.path(), value)) }

func (j *judge) addUnknown(p *place, value string, known ...string) {
	j.add(field.NotSupported(p.path(), word(value), known))
}

// A word is a string that the server quotes like its Go types based on string.
type word string

// needs reports whether there is a non-empty string, and otherwise adds that it is required.
func (j *judge) needs(p *place) bool {
	if p.text() != "" {
		return true
	}
	j.require(p, "")
	return false
}

// oneOf requires one of the known strings; a missing or empty one is not judged.
func (j *judge) oneOf(p *place, known ...string) {
	if text := p.text(); text != "" && !slices.Contains(known, text) {
		j.addUnknown(p, text, known...)
	}
}

// needsOneOf requires a string, and one of the known ones.
func (j *judge) needsOneOf(p *place, known ...string) {
	if j.needs(p) {
		j.oneOf(p, known...)
	}
}

// nonnegative requires an integer, if present, to be at least 0.
func (j *judge) nonnegative(p *place) {
	if n := p.number(); n < 0 {
		j.add(field.Invalid(p.path(), n, "must be greater than or equal to 0"))
	}
}

// restrict requires an integer, if present, to be in a range.
func (j *judge) restrict(p *place, low, high int64, detail string) {
	if p.has() && (p.number() < low || p.number() > high) {
		j.invalid(p, p.number(), detail)
	}
}

// each adds an error about a value for each message.
func (j *judge) each(p *place, value any, messages []string) {
	for _, message := range messages {
		j.invalid(p, value, message)
	}
}

func (j *judge) notFound(p *place, value, detail string) {
	err := field.NotFound(p.path(), value)
	err.Detail = detail
	j.add(err)
}

func (j *judge) tooLong(p *place, limit int) { j.add(field.TooLong(p.path(), "", limit)) }
func (j *judge) tooMany(p *place, limit int) { j.add(field.TooMany(p.path(), p.size(), limit)) }

// unknownValue is unknown for a value other than a string.
func (j *judge) unknownValue(p *place, value any, known ...string) {
	j.add(field.NotSupported(p.path(), value, known))
}

// invalidWithoutValue is invalid for a value that the server does not print.
func (j *judge) invalidWithoutValue(p *place, detail string) {
	j.add(field.Invalid(p.path(), field.OmitValueType{}, detail))
}
