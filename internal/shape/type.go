// Package shape describes the types of Kubernetes objects: their fields, merge rules and defaults.
//
// One [Type] serves every consumer: prepare (decode, prune, default, normalise), the merge of ApplyConfiguration
// patches and static checks. Package schema creates types from the tables of built-in kinds and from
// CustomResourceDefinitions.
package shape

// A Kind determines the JSON form of values of a type.
type Kind uint8

// The kinds of types.
const (
	Any         Kind = iota // any JSON value, unchanged: RawExtension, JSON, preserve-unknown fields
	Boolean                 // true, false
	Integer                 // a number without fraction; Bits is its width
	Number                  // any number
	String                  // text
	Bytes                   // text in standard base64
	Quantity                // resource.Quantity: text or number in, canonical text out
	Time                    // metav1.Time: RFC 3339 in, seconds and UTC out
	MicroTime               // metav1.MicroTime: RFC 3339 with microseconds
	Duration                // metav1.Duration: Go duration text
	IntOrString             // intstr.IntOrString
	Struct                  // an object with declared Fields
	Map                     // an object with any keys and values of type Elem
	List                    // an array with items of type Elem
	// one of OneOf, chosen by the JSON type of the value: JSONSchemaPropsOrBool and others
	Union
)

// A Merge determines how an ApplyConfiguration merges two values of a struct, map or list.
type Merge uint8

// The merge rules. Granular is the zero value and the rule of structs and maps, Atomic that of lists. A Granular Any
// merges by the JSON types of its values (objects member by member, lists as one value); an Atomic one, such as
// RawExtension, as one value.
const (
	Granular Merge = iota // structs and maps: member by member
	Atomic                // as one value
	Set                   // lists: union of scalars
	Keyed                 // lists: items with equal Keys are merged
)

// A Type is the type of a value. Types are shared and may be recursive; they do not change after construction.
type Type struct {
	Name string // Go type such as "k8s.io/api/core/v1.PodSpec"; empty for anonymous and custom types
	// Go type of a list, map or scalar of a built-in kind, such as "v1.PullPolicy", if Kind and Elem do not imply it
	GoName string
	Kind   Kind
	Bits   uint8   // Integer: 8, 16, 32 or 64
	Elem   *Type   // Map and List; never nil in a Registry's types
	Fields []Field // Struct, in the order of declaration, inlined members included
	Merge  Merge
	Keys   []string // Keyed: the members that identify an item
	OneOf  []*Type  // Union

	// Mixed is set for built-in types that are, or contain, values of Kind Any or Union. In Go these have their own
	// JSON form, and the server presents them to expressions differently from the rest of an object. managedFields do
	// not count.
	Mixed bool

	// Custom types only. An Any without PreserveUnknown accepts any value, but objects in it lose all their members.
	Format          string // String and Integer: the declared format, such as "date-time"
	PreserveUnknown bool   // undeclared members stay
	Nullable        bool
	Embedded        bool // x-kubernetes-embedded-resource: apiVersion, kind and metadata are kept
	Default         any  // a default declared on list items or map values; Field.Default has the defaults of members

	Off map[string]bool // the features of the type's minor that are off; nil for custom types

	index   map[string]int // Fields by name; nil for small structs and for types without SetFields
	implied []*Field       // of Fields, for ImpliedFields; nil for types without SetFields
}

// LacksFeature reports whether a feature gate such as "MaxUnavailableStatefulSet" is off by default in the minor of a
// built-in type.
func (t *Type) LacksFeature(feature string) bool { return t != nil && t.Off[feature] }

// A Field is one member of a struct.
type Field struct {
	Name      string
	Type      *Type
	Pointer   bool // the Go field is a pointer: an explicit zero value is kept
	OmitEmpty bool // json:",omitempty"
	OmitZero  bool // json:",omitzero"
	Atomic    bool // the referenced struct or map merges atomically in this field, whatever its Type says
	Required  bool
	Default   any // default declared in the schema, nil for none
}

// Field returns the member with the given name, or nil if the type does not declare it.
func (t *Type) Field(name string) *Field {
	if t.index != nil {
		if i, ok := t.index[name]; ok {
			return &t.Fields[i]
		}
		return nil
	}
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// ImpliedFields returns the members that may be encoded although the object does not have them. Other members never
// are.
func (t *Type) ImpliedFields() []*Field {
	if t.implied != nil {
		return t.implied
	}
	return impliedFields(t.Fields)
}

// impliedFields excludes the members that omitempty drops: a Go struct is never empty.
func impliedFields(fields []Field) []*Field {
	all := make([]*Field, 0, len(fields))
	for i := range fields {
		f := &fields[i]
		if f.OmitEmpty && f.Default == nil && (f.Pointer || !f.Type.mayBeStruct()) {
			continue
		}
		all = append(all, f)
	}
	return all
}

// mayBeStruct reports whether the Go type may be a struct. Any is also the kind of types that are not read yet.
func (t *Type) mayBeStruct() bool {
	switch t.Kind {
	case Boolean, Integer, Number, String, Bytes, Map, List:
		return false
	}
	return true
}

// maxScan is the number of fields up to which a linear search is as fast as a map.
const maxScan = 8

// SetFields sets the members of a new struct and indexes them.
func (t *Type) SetFields(fields []Field) {
	t.Fields, t.index, t.implied = fields, nil, impliedFields(fields)
	if len(fields) <= maxScan {
		return
	}
	t.index = make(map[string]int, len(fields))
	for i := range fields {
		t.index[fields[i].Name] = i
	}
}
