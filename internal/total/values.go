package total

import "strings"

// A kind says what a value is known to be.
type kind uint8

const (
	unknown kind = iota // any value
	boolean
	text
	integer
	listing
	mapping  // from texts
	record   // an object with some members that are known
	optional // with or without a value
	checker  // the authorizer, and what is said to it
	decision // of the authorizer
)

// A value is what is known of one.
type value struct {
	kind    kind
	elem    *value           // of a list, a map or an optional; nil: there is none, or nothing is known of it
	members map[string]value // of a record
	always  string           // the members of a record that are always there, in spaces
}

// member is what is known of a member, and whether it is there for sure.
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

// join is what is known of a value that is one of two; nil for none.
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

// separator is between the steps of a path.
const separator = "\x00"

var (
	aText  = value{kind: text}
	texts  = value{kind: listing, elem: &aText}
	labels = value{kind: mapping, elem: &aText}
	group  = value{kind: record, always: " group version kind resource ",
		members: map[string]value{"group": aText, "version": aText, "kind": aText, "resource": aText}}

	// writtenObject is an object that is created or updated, as it is in every request.
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
