package prepare

import (
	"maps"
	"slices"
	"strconv"

	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A structure prunes and defaults custom objects by the structural schema of their type: it removes undeclared members
// and nulls that are not allowed, and adds defaults (as apiextensions-apiserver pkg/apiserver/schema v0.37.2: pruning,
// defaulting and objectmeta, in this order; here in one walk). It does not check the types of values; the server does
// that when it validates.
type structure struct {
	prune    bool // false after a mutation, when the server only applies defaults, and inside defaults
	defaults bool // the value is a default: the schema's undeclared members were removed, metadata must be coerced
	unknown  bool
	failed   bool // a metadata member does not fit its type
}

// fallback returns a default with the defaults of its members.
func (s *structure) fallback(t *shape.Type, v any) any {
	inner := structure{defaults: true}
	out, _ := inner.value(t, v, nil)
	return out
}

// value returns the result for v; known is that of a pass.
func (s *structure) value(t *shape.Type, v, known any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		was, _ := known.(map[string]any)
		return s.object(t, v, was)
	case []any:
		was, _ := known.([]any)
		return s.list(t, v, was)
	}
	return v, true
}

func (s *structure) object(t *shape.Type, in, known map[string]any) (map[string]any, bool) {
	o := members{m: in}
	for name, old := range in {
		was, had := known[name]
		if had && tree.IsShared(old, was) {
			continue
		}
		if t.Embedded && typeMember(name) {
			s.meta(t, &o, name, old)
			continue
		}
		typ := member(t, name)
		switch {
		case typ == nil:
			if s.prune && !t.PreserveUnknown {
				s.unknown = true
				o.drop(name)
			}
		case old == nil && !typ.Nullable:
			if typ.Default != nil {
				o.set(name, s.fallback(typ, typ.Default))
			} else if s.prune {
				o.drop(name)
			}
		default:
			if v, same := s.value(typ, old, was); !same {
				o.set(name, v)
			}
		}
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if _, given := in[f.Name]; !given && f.Default != nil {
			o.set(f.Name, s.fallback(f.Type, f.Default))
		}
	}
	return o.m, !o.owned
}

// meta decodes metadata as the Go type ObjectMeta, at the root and in embedded objects, whose apiVersion and kind must
// be strings.
func (s *structure) meta(t *shape.Type, o *members, name string, old any) {
	if name != "metadata" {
		_, isText := old.(string)
		s.unknown = s.unknown || !isText // an error, except at the root
		return
	}
	f := t.Field(name)
	if f == nil || !s.prune && !s.defaults {
		return
	}
	p := pass{}
	v, same := p.value(f.Type, old, nil)
	s.unknown = s.unknown || p.unknown
	s.failed = s.failed || p.failed
	if !same {
		o.set(name, v)
	}
	o.edit(name, func(meta *members) {
		if created, given := meta.m["creationTimestamp"]; given && created == nil {
			meta.drop("creationTimestamp") // unlike in a built-in kind: objectmeta/algorithm.go
		}
	})
}

func (s *structure) list(t *shape.Type, in, known []any) ([]any, bool) {
	out, same := in, true
	for i, old := range in {
		was, had := counterpart(known, in, i)
		if had && tree.IsShared(old, was) {
			continue
		}
		new, unchanged := old, true
		switch {
		case t.Kind != shape.List:
			if s.prune && !t.PreserveUnknown {
				new, unchanged = s.value(anything, old, was)
			}
		case old == nil && !t.Elem.Nullable && t.Elem.Default != nil:
			new, unchanged = s.fallback(t.Elem, t.Elem.Default), false
		default:
			new, unchanged = s.value(elem(t), old, was)
		}
		if unchanged {
			continue
		}
		if same {
			out, same = slices.Clone(in), false
		}
		out[i] = new
	}
	return out, same
}

// member returns the type of a member, or nil if the type does not declare it.
func member(t *shape.Type, name string) *shape.Type {
	if f := t.Field(name); f != nil {
		return f.Type
	}
	if t.Kind == shape.Map {
		return elem(t)
	}
	return nil
}

func typeMember(name string) bool {
	return name == "apiVersion" || name == "kind" || name == "metadata"
}

// customProblems returns the errors of a custom object, in the server's words: an error of its metadata, or the unknown
// fields, those of metadata first.
func customProblems(t *shape.Type, obj map[string]any) (unknown []string, err error) {
	var inMeta, pruned, embedded []string
	refused := func(v any) any {
		if writesUnsetTimes(t) {
			return quirks.AsGo(v)
		}
		return v
	}
	// Embedded metadata is named by a field path, with brackets around keys of maps.
	var walk func(t *shape.Type, v any, path, fieldPath string)
	walk = func(t *shape.Type, v any, path, fieldPath string) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if t.Embedded && typeMember(name) {
					if name != "metadata" {
						if _, isText := v[name].(string); path != "" && !isText && err == nil {
							err = field.Invalid(field.NewPath(join(fieldPath, "."+name)), refused(v[name]), "must be a string")
						}
						continue
					}
					f := t.Field(name)
					if f == nil {
						continue
					}
					found, problem := problems(f.Type, v[name])
					if problem != nil && path != "" { // that of the root does not have a path
						problem = field.Invalid(field.NewPath(join(fieldPath, ".metadata")), refused(v[name]), problem.Error())
					}
					if err == nil {
						err = problem
					}
					for _, inside := range found {
						inside = join(join(fieldPath, ".metadata"), "."+inside)
						if path == "" {
							inMeta = append(inMeta, inside)
						} else {
							embedded = append(embedded, inside)
						}
					}
					continue
				}
				if typ := member(t, name); typ != nil {
					step := "." + name
					if t.Kind == shape.Map {
						step = "[" + name + "]"
					}
					walk(typ, v[name], join(path, "."+name), join(fieldPath, step))
				} else if !t.PreserveUnknown {
					pruned = append(pruned, join(path, "."+name))
				}
			}
		case []any:
			for i, item := range v {
				inner, step := elem(t), "["+strconv.Itoa(i)+"]"
				if t.Kind != shape.List {
					if t.PreserveUnknown {
						return
					}
					inner = anything
				}
				walk(inner, item, join(path, step), join(fieldPath, step))
			}
		}
	}
	walk(t, obj, "", "")
	slices.Sort(pruned)
	slices.Sort(embedded)
	return slices.Concat(inMeta, pruned, embedded), err
}
