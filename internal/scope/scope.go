// Package scope reads the scopes of the dialect: paths to values in an object.
package scope

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/spell"
)

// A Scope is a set of places in an object: a validation or a mutation of the dialect is evaluated for each value there.
type Scope struct {
	Text  string     // as written; empty: the whole object
	Paths []Steps    // one, or those of a named scope
	err   *pathError // the syntax error of the text
}

// IsZero reports whether the scope is the whole object.
func (s *Scope) IsZero() bool { return s.Text == "" }

// Err returns the syntax error of the text; nil if it is valid.
func (s *Scope) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// Steps lead from an object to values.
type Steps []Step

// A Step leads from a value to one of its members, or to its items.
type Step struct {
	Member string // of an object; empty: the items of a list or the values of a map
	Name   string // the name of the key or index in scopePath; empty: none

	Key, Value string // only items with this value of the member Key; both empty: all
	With       string // only a value with this member; empty: any
}

// Names returns the names of keys and indices in scopePath.
func (s *Scope) Names() []string {
	var all []string
	for _, path := range s.Paths {
		for _, step := range path {
			if step.Name != "" {
				all = append(all, step.Name)
			}
		}
	}
	return all
}

// builtinScopes are the named scopes of the library kubernetes.
var builtinScopes = func() map[string][]Steps {
	members := func(names ...string) (path Steps) {
		for _, name := range names {
			path = append(path, Step{Member: name})
		}
		return path
	}
	podSpecs := []Steps{members("spec")} // of a Pod
	seen := map[string]bool{}
	for _, t := range Templates {
		if !seen[t.Path] {
			podSpecs = append(podSpecs, append(members(t.Members()...), Step{Member: "spec"}))
		}
		seen[t.Path] = true
	}
	var containers, specs []Steps
	for _, spec := range podSpecs {
		for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
			containers = append(containers, append(slices.Clone(spec), Step{Member: list}, Step{}))
		}
		spec[len(spec)-1].With = "containers" // the spec of a Deployment has none
		specs = append(specs, spec)
	}
	return map[string][]Steps{Builtin + ".allContainers": containers, Builtin + ".podSpec": specs}
}()

// Parse reads a scope: a path such as spec.containers[*], spec.x[key].y[index].field, metadata.labels["a.b/c"] or
// spec.ports[name=http], or the name of a scope of the library kubernetes.
func Parse(text string) Scope {
	if strings.HasPrefix(text, Builtin+".") {
		return FindNamed(text, builtinScopes)
	}
	s := Scope{Text: text}
	r := pathReader{src: text}
	path := r.read()
	if s.err = r.err; s.err == nil {
		s.Paths = []Steps{path}
	}
	return s
}

// Builtin is the name of the library whose scopes need no import.
const Builtin = "kubernetes"

// FindNamed returns the scope that has a name among those that are known.
func FindNamed(text string, known map[string][]Steps) Scope {
	s := Scope{Text: text, Paths: known[text]}
	if s.Paths == nil {
		names := slices.Sorted(maps.Keys(known))
		s.err = &pathError{-1, "unknown scope: the scopes are " + strings.Join(names, ", ")}
		if len(known) == 0 {
			s.err.text = "unknown scope, the library does not define any"
		}
		if near := spell.Nearest(text, names, len(text)/4); near != "" {
			s.err.text = "no such scope (did you mean " + near + "?)"
		}
	}
	return s
}

// BuiltinNames returns the names of the scopes that need no import.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(builtinScopes)) }

// ParseSteps reads the steps of a path such as spec.templates[*].template or spec.parts[role=worker].template.
func ParseSteps(path string) (Steps, error) {
	r := pathReader{src: path}
	steps := r.read()
	if r.err != nil {
		return nil, r.err
	}
	return steps, nil
}

// A pathError says what is wrong with a path at a byte of it.
type pathError struct {
	at   int // -1: everything of it
	text string
}

// Error says where the path is wrong, from the first byte on, which is 1.
func (e *pathError) Error() string {
	if e.at < 0 {
		return e.text
	}
	return fmt.Sprintf("at %d: %s", e.at+1, e.text)
}

// A pathReader reads a path from left to right until something is wrong.
type pathReader struct {
	src string
	at  int
	err *pathError
}

func (r *pathReader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &pathError{at, fmt.Sprintf(format, args...)}
	}
}

func (r *pathReader) read() (path Steps) {
	names := map[string]bool{locals.Whole: true}
	for r.err == nil && (r.at < len(r.src) || len(path) == 0) {
		begin := r.at
		var step Step
		switch {
		case r.next("["):
			step = r.bracket()
		case len(path) == 0 || r.next("."):
			begin = r.at
			if step.Member = r.readWord(); step.Member == "" {
				r.fail(r.at, "the name of a member is missing")
			}
		default:
			r.fail(r.at, "%q is not the beginning of .member or [items]", r.src[r.at:r.at+1])
		}
		if names[step.Name] {
			r.fail(begin, "the name %s has another meaning already", step.Name)
		}
		if step.Name != "" {
			names[step.Name] = true
		}
		path = append(path, step)
	}
	if len(path) > 0 && path[0].Member == "" {
		r.fail(0, "a path begins with a member of the object")
	}
	return path
}

// bracket reads what is behind an opening bracket.
func (r *pathReader) bracket() (step Step) {
	begin := r.at
	switch {
	case r.next("*"):
	case r.at < len(r.src) && strings.IndexByte(`"'`, r.src[r.at]) >= 0:
		if step.Member = r.readQuoted(); step.Member == "" {
			r.fail(begin, "the name of a member is missing")
		}
	default:
		word := r.readWord()
		if r.next("=") {
			step.Key, step.Value = word, r.value()
			if word == "" || step.Value == "" {
				r.fail(begin, "a member and its text are missing, as in [name=http]")
			}
			break
		}
		if _, err := strconv.Atoi(word); err == nil {
			r.fail(begin, "an index may be another item later: write [*], or [member=text]")
		}
		if step.Name = word; !locals.IsIdentifier(word) {
			r.fail(begin, "%q is neither *, nor a name for scopePath, nor member=text, nor a quoted member", word)
		}
	}
	if !r.next("]") {
		r.fail(r.at, "] is missing")
	}
	return step
}

func (r *pathReader) next(token string) bool {
	if !strings.HasPrefix(r.src[r.at:], token) {
		return false
	}
	r.at += len(token)
	return true
}

// readWord reads a name of letters, digits, _, - and $.
func (r *pathReader) readWord() string {
	begin := r.at
	for r.at < len(r.src) {
		switch c := r.src[r.at]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '$':
			r.at++
			continue
		}
		break
	}
	return r.src[begin:r.at]
}

// value reads a text that is quoted, or goes to the closing bracket.
func (r *pathReader) value() string {
	if r.at < len(r.src) && strings.IndexByte(`"'`, r.src[r.at]) >= 0 {
		return r.readQuoted()
	}
	begin := r.at
	if end := strings.IndexByte(r.src[begin:], ']'); end >= 0 {
		r.at += end
		return r.src[begin:r.at]
	}
	return ""
}

func (r *pathReader) readQuoted() string {
	quote, begin := r.src[r.at:r.at+1], r.at
	end := strings.Index(r.src[begin+1:], quote)
	if end < 0 {
		r.fail(begin, "the closing %s is missing", quote)
		return ""
	}
	r.at += end + 2
	return r.src[begin+1 : r.at-1]
}
