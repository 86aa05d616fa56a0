package total

import "strings"

// A kind is the known type of a value.
type kind uint8

const (
	unknown kind = iota // any value
	boolean
	text
	integer
	listing
	mapping  // with string keys
	record   // an object with some known members
	optional // with or without a value
	checker  // the authorizer, and its builders
	decision // of the authorizer
)

// A value is the known facts about a value.
type value struct {
	kind    kind
	elem    *value           // of a list, a map or an optional; nil: none, or unknown
	members map[string]value // of a record
	always  string           // the members of a record that always exist, separated by spaces
}

// member returns the known facts about a member, and whether it always exists.
func (v value) member(name string) (value, bool) {
	switch v.kind {
	case record:
		return v.members[name], strings.Contains(v.always, " "+name+" ")
	case mapping:
		if v.elem != nil {
			return *v.elem, false
		}
	case optional:
		if v.elem != nil {
			inner, _ := v.elem.member(name)
			return inner, false
		}
	}
	return value{}, false
}

// join returns the common facts of two values; nil for none.
func join(a, b *value) *value {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.kind != b.kind || a.kind == record:
		return &value{}
	}
	return &value{kind: a.kind, elem: join(a.elem, b.elem)}
}

// separator separates the steps of a path.
const separator = "\x00"

var (
	aText  = value{kind: text}
	texts  = value{kind: listing, elem: &aText}
	labels = value{kind: mapping, elem: &aText}
	group  = value{kind: record, always: " group version kind resource ",
		members: map[string]value{"group": aText, "version": aText, "kind": aText, "resource": aText}}

	// writtenObject is the facts about a created or updated object.
	writtenObject = value{kind: record, always: " apiVersion kind metadata ", members: map[string]value{
		"apiVersion": aText, "kind": aText,
		"metadata": {kind: record, members: map[string]value{"name": aText, "generateName": aText, "namespace": aText,
			"labels": labels, "annotations": labels, "finalizers": texts}},
	}}

	request = value{kind: record, always: " operation userInfo kind resource ", members: map[string]value{
		"operation": aText, "name": aText, "namespace": aText, "subResource": aText, "kind": group, "resource": group,
		"dryRun": {kind: boolean},
		"userInfo": {kind: record, always: " username ",
			members: map[string]value{"username": aText, "uid": aText, "groups": texts}},
	}}
)
