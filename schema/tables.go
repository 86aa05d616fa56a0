package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"github.com/celgate/celgate/internal/shape"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// tables are the built-in types of one Kubernetes minor. A package of types is decoded on first use.
//
// The files are written by tools/schematables: "index" lists groups, kinds and resources, and features that are off;
// each other file holds the types of one Go package, named after its path with _ for /. A type file reads
//
//	package k8s.io/api/apps/v1
//	import k8s.io/api/core/v1
//	struct DeploymentSpec
//		replicas	int32	pe
//		template	core/v1.PodTemplateSpec	r	{}
//
// with name, type, flags and default of each member. Flags: p pointer, e omitempty, z omitzero, a atomic and g granular
// at this place, r required. Types: []T is an atomic list, []{}T a set, []{k1,k2}T a keyed list, map T and map! T a
// granular and an atomic map; a struct followed by ! is atomic. A list, map or scalar follows its Go type and = if that
// says more, as in v1.PullPolicy=string.
type tables struct {
	files fs.FS
	kinds map[GroupVersionKind]string // full type name
	off   map[string]bool             // features

	ready atomic.Pointer[map[GroupVersionKind]*shape.Type] // the types in use; replaced, never changed

	mu       sync.Mutex
	packages map[string]*typePackage
}

type typePackage struct {
	path    string
	off     map[string]bool
	imports map[string]*typePackage // by the last two elements of their path
	named   map[string]*shape.Type
	unnamed map[string]*shape.Type // lists and maps, by their notation in the table
	defined int

	granular []string // members of the present struct with flag g
}

// scalars are the types with a one-word notation.
var scalars = map[string]*shape.Type{
	"any":         {Kind: shape.Any, Mixed: true},
	"raw":         {Kind: shape.Any, Merge: shape.Atomic, Mixed: true},
	"bool":        {Kind: shape.Boolean},
	"int32":       {Kind: shape.Integer, Bits: 32},
	"int64":       {Kind: shape.Integer, Bits: 64},
	"number":      {Kind: shape.Number},
	"string":      {Kind: shape.String},
	"bytes":       {Kind: shape.Bytes},
	"quantity":    {Kind: shape.Quantity},
	"time":        {Kind: shape.Time},
	"microtime":   {Kind: shape.MicroTime},
	"duration":    {Kind: shape.Duration},
	"intorstring": {Kind: shape.IntOrString},
}

// typeOf returns the type of a kind, or nil.
func (t *tables) typeOf(kind GroupVersionKind) *shape.Type {
	ready := t.ready.Load()
	if ready != nil {
		if typ := (*ready)[kind]; typ != nil {
			return typ
		}
	}
	name, ok := t.kinds[kind]
	if !ok {
		return nil
	}
	typ := t.lookUp(name)
	if typ == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	more := map[GroupVersionKind]*shape.Type{kind: typ}
	if ready := t.ready.Load(); ready != nil {
		maps.Copy(more, *ready)
	}
	t.ready.Store(&more)
	return typ
}

// lookUp returns the type with a full name such as k8s.io/api/core/v1.PodSpec, or nil.
func (t *tables) lookUp(name string) *shape.Type {
	dot := strings.LastIndexByte(name, '.')
	t.mu.Lock()
	defer t.mu.Unlock()
	pkg, err := t.load(name[:dot])
	if err != nil {
		return nil // a malformed table; builtin's tests read all of them
	}
	return pkg.named[name[dot+1:]]
}

// load decodes the table of a package and of its imports. Go packages do not have import cycles.
func (t *tables) load(path string) (*typePackage, error) {
	if pkg := t.packages[path]; pkg != nil {
		return pkg, nil
	}
	raw, err := fs.ReadFile(t.files, strings.ReplaceAll(path, "/", "_"))
	if err != nil {
		return nil, err
	}
	pkg := &typePackage{path: path, off: t.off, imports: map[string]*typePackage{}, named: map[string]*shape.Type{},
		unnamed: map[string]*shape.Type{}}
	t.packages[path] = pkg // already here, so that an import cycle ends with an error
	if err := pkg.decode(string(raw), t.load); err != nil {
		delete(t.packages, path)
		return nil, err
	}
	return pkg, nil
}

func (p *typePackage) decode(text string, load func(path string) (*typePackage, error)) error {
	var (
		current *shape.Type
		fields  []shape.Field
		number  int
		later   []*shape.Field // their types are complete only at the end
	)
	finish := func() {
		if current != nil && current.Kind == shape.Struct {
			current.SetFields(slices.Clone(fields))
			for _, name := range p.granular {
				later = append(later, current.Field(name))
			}
		}
		fields, p.granular = fields[:0], nil
	}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if member, ok := strings.CutPrefix(line, "\t"); ok {
			field, err := p.field(member)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", p.path, number, err)
			}
			fields = append(fields, field)
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "package":
		case "import":
			imported, err := load(rest)
			if err != nil {
				return err
			}
			p.imports[path.Join(path.Base(path.Dir(rest)), path.Base(rest))] = imported
		case "struct":
			finish()
			name, mark, _ := strings.Cut(rest, " ")
			current = p.reference(name)
			current.Kind = shape.Struct
			if mark == "!" {
				current.Merge = shape.Atomic
			}
			p.defined++
		case "union":
			finish()
			words := strings.Fields(rest)
			if len(words) < 3 {
				return fmt.Errorf("%s:%d: a union of less than two", p.path, number)
			}
			current = p.reference(words[0])
			current.Kind = shape.Union
			for _, expr := range words[1:] {
				alternative, err := p.typ(expr)
				if err != nil {
					return fmt.Errorf("%s:%d: %w", p.path, number, err)
				}
				current.OneOf = append(current.OneOf, alternative)
			}
			p.defined++
		default:
			return fmt.Errorf("%s:%d: unknown line %q", p.path, number, line)
		}
	}
	finish()
	for _, f := range later {
		granular := *f.Type
		granular.Merge = shape.Granular
		f.Type = &granular
	}
	p.mix()
	if p.defined != len(p.named) {
		return fmt.Errorf("%s: %d types are named, %d are defined", p.path, len(p.named), p.defined)
	}
	return nil
}

// mix sets Mixed. Types may be recursive, and those of imported packages are complete.
func (p *typePackage) mix() {
	for more := true; more; {
		more = false
		for _, types := range []map[string]*shape.Type{p.named, p.unnamed} {
			for name, t := range types {
				if !t.Mixed && name != "ManagedFieldsEntry" && mixes(t) {
					t.Mixed, more = true, true
				}
			}
		}
	}
}

// mixes reports whether a type contains values that Go writes in a form of their own.
func mixes(t *shape.Type) bool {
	return t.Kind == shape.Union || t.Elem != nil && t.Elem.Mixed ||
		slices.ContainsFunc(t.Fields, func(f shape.Field) bool { return f.Type.Mixed })
}

// field decodes "name<tab>type<tab>flags<tab>default".
func (p *typePackage) field(text string) (shape.Field, error) {
	name, text, _ := strings.Cut(text, "\t")
	expr, text, _ := strings.Cut(text, "\t")
	flags, def, _ := strings.Cut(text, "\t")
	f := shape.Field{Name: name}
	for _, flag := range flags {
		switch flag {
		case 'p':
			f.Pointer = true
		case 'e':
			f.OmitEmpty = true
		case 'z':
			f.OmitZero = true
		case 'a':
			f.Atomic = true
		case 'g':
			p.granular = append(p.granular, name)
		case 'r':
			f.Required = true
		default:
			return f, fmt.Errorf("unknown flag %q", flag)
		}
	}
	var err error
	if f.Default, err = decodeDefault(def); err != nil {
		return f, fmt.Errorf("default of %s: %w", name, err)
	}
	f.Type, err = p.typ(expr)
	return f, err
}

func decodeDefault(text string) (any, error) {
	switch text {
	case "":
		return nil, nil
	case `""`:
		return "", nil
	case "{}":
		return map[string]any{}, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v)
}

// numbers replaces each json.Number by int64 or float64.
func numbers(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case map[string]any:
		for k, member := range v {
			var err error
			if v[k], err = numbers(member); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			var err error
			if v[i], err = numbers(item); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// typ decodes a type.
func (p *typePackage) typ(expr string) (*shape.Type, error) {
	if t := scalars[expr]; t != nil {
		return t, nil
	}
	if t := p.unnamed[expr]; t != nil {
		return t, nil
	}
	t := &shape.Type{}
	var elem string
	switch {
	case strings.HasPrefix(expr, "map "):
		t.Kind, elem = shape.Map, expr[len("map "):]
	case strings.HasPrefix(expr, "map! "):
		t.Kind, t.Merge, elem = shape.Map, shape.Atomic, expr[len("map! "):]
	case strings.HasPrefix(expr, "[]{}"):
		t.Kind, t.Merge, elem = shape.List, shape.Set, expr[len("[]{}"):]
	case strings.HasPrefix(expr, "[]{"):
		keys, rest, ok := strings.Cut(expr[len("[]{"):], "}")
		if !ok {
			return nil, fmt.Errorf("unknown type %q", expr)
		}
		t.Kind, t.Merge, t.Keys, elem = shape.List, shape.Keyed, strings.Split(keys, ","), rest
	case strings.HasPrefix(expr, "[]"):
		t.Kind, t.Merge, elem = shape.List, shape.Atomic, expr[len("[]"):]
	default:
		if name, plain, ok := strings.Cut(expr, "="); ok {
			known, err := p.typ(plain)
			if err != nil {
				return nil, err
			}
			*t = *known
			t.GoName = name
			p.unnamed[expr] = t
			return t, nil
		}
		pkg, name, ok := strings.Cut(expr, ".")
		if !ok {
			return p.reference(expr), nil
		}
		imported := p.imports[pkg]
		if imported == nil || imported.named[name] == nil {
			return nil, fmt.Errorf("unknown type %q", expr)
		}
		return imported.named[name], nil
	}
	var err error
	t.Elem, err = p.typ(elem)
	p.unnamed[expr] = t
	return t, err
}

// reference returns the type of this package called name, which a later line may define.
func (p *typePackage) reference(name string) *shape.Type {
	t := p.named[name]
	if t == nil {
		t = &shape.Type{Name: p.path + "." + name, Off: p.off}
		p.named[name] = t
	}
	return t
}
