package jsonpatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// An Operation is one step of a patch.
type Operation struct {
	Op   string // add, remove, replace, move, copy or test
	Path string
	From string // of move and copy; the server omits an empty one

	// Value is a JSON tree. It counts only if HasValue is set: null differs from a missing value.
	Value    any
	HasValue bool
}

// ErrTestFailed is the error of a failed test. The server then drops the whole patch without an error.
var ErrTestFailed = errors.New("test failed")

// An OperationError is the error of one operation. Its text is that of Err, which the server prints after "JSON Patch:
// ".
type OperationError struct {
	Index int // of the operation
	Err   error
}

func (e *OperationError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *OperationError) Unwrap() error { return e.Err }

// A PanicError reports an operation at which the server panics. The request then ends with status 500, whatever the
// failurePolicy.
type PanicError struct {
	Reason string // the text of the panic
}

func (e *PanicError) Error() string { return "kube-apiserver panics: " + e.Reason }

const (
	nilMap     = "assignment to entry in nil map"
	nilPointer = "runtime error: invalid memory address or nil pointer dereference"
)

// maxCopyBytes is the JSON that the copy operations of one patch may add: the server's default, set by
// k8s.io/apiserver/pkg/server/config.go v0.37.2.
const maxCopyBytes = 3 << 20

// maxDepth is the nesting limit for copies, that of encoding/json.
const maxDepth = 10_000

var (
	errMissing      = errors.New("missing value")
	errInvalidIndex = errors.New("invalid index referenced")
	errTooDeep      = errors.New("exceeded max depth")
)

// Apply returns doc after the operations, applied in order. The document is an object or an array; nil is the JSON
// null, as doc and as result: only replace with the empty path produces it.
//
// Neither doc nor the values of operations are modified. The result shares parts with them that were not opened by an
// operation, so it must not be modified either. The library encodes opened parts with sorted members, and leaves the
// rest as it was encoded: a map of doc in the result has its members in their original order.
//
// The first operation that fails ends the patch with an [*OperationError]; the result is then doc. After
// [ErrTestFailed] the server continues with the unchanged doc.
func Apply(doc any, ops []Operation) (any, error) { return Patcher{}.Apply(doc, ops) }

// A Charger limits the JSON that copies add: its error ends the patch.
type Charger interface{ ChargeBytes(bytes int) error }

// A Patcher determines how patches are applied.
type Patcher struct {
	Charger Charger // a bound besides the server's; nil: none

	// V412 applies as v4.12.0 of the library, which servers before 1.35 have: replace of the whole document by a scalar
	// does nothing, and test of a missing member panics without a value.
	V412 bool
}

// Apply is [Apply] in the way of the Patcher.
func (p Patcher) Apply(doc any, ops []Operation) (any, error) {
	d := document{Patcher: p}
	switch doc.(type) {
	case nil:
		d.root = null{}
	case map[string]any, []any:
		d.root = doc
	default:
		return doc, fmt.Errorf("the document is neither an object nor an array but a %T", doc)
	}
	for i, op := range ops {
		if err := d.apply(op); err != nil {
			var panics *PanicError
			if errors.As(err, &panics) {
				err = panics // nothing of the library's texts is ever printed
			}
			return doc, &OperationError{Index: i, Err: err}
		}
	}
	result, err := toPlain(d.root, true, maxDepth)
	if err != nil {
		return doc, &OperationError{Index: len(ops) - 1, Err: err}
	}
	return result, nil
}

func (d *document) apply(op Operation) error {
	kind, err := unquote(op.Op)
	if err != nil {
		kind = "unknown"
	}
	switch kind {
	case "add":
		return d.add(op)
	case "remove":
		return d.remove(op)
	case "replace":
		return d.replace(op)
	case "move":
		return d.move(op)
	case "copy":
		return d.copy(op)
	case "test":
		return d.test(op)
	}
	return fmt.Errorf("Unexpected kind: %s", kind)
}

// node returns the value of op as a node of the document.
func (op Operation) node() any {
	if op.HasValue && op.Value == nil {
		return null{}
	}
	return op.Value
}

// fromPath returns the decoded source path of a move or copy.
func (op Operation) fromPath() (string, error) {
	if op.From == "" {
		return "", fmt.Errorf("operation, missing from field: %w", errMissing)
	}
	return unquote(op.From)
}

func (d *document) add(op Operation) error {
	path, err := unquote(op.Path)
	if err != nil {
		return fmt.Errorf("add operation failed to decode path: %w", errMissing)
	}
	parent, key, ok := d.open(path)
	if !ok {
		return fmt.Errorf("add operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	if err := insert(parent, key, op.node()); err != nil {
		return fmt.Errorf("error in add for path: '%s': %w", path, err)
	}
	return nil
}

func (d *document) remove(op Operation) error {
	path, err := unquote(op.Path)
	if err != nil {
		return fmt.Errorf("remove operation failed to decode path: %w", errMissing)
	}
	parent, key, ok := d.open(path)
	if !ok {
		return fmt.Errorf("remove operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	if err := remove(parent, key); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err)
	}
	return nil
}

func (d *document) replace(op Operation) error {
	path, err := unquote(op.Path)
	if err != nil {
		return fmt.Errorf("replace operation failed to decode path: %w", err)
	}
	if path == "" {
		return d.replaceRoot(op)
	}
	parent, key, ok := d.open(path)
	if !ok {
		return fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", path, errMissing)
	}
	if _, err := get(parent, key); err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", path, errMissing)
	}
	return set(parent, key, op.node())
}

func (d *document) replaceRoot(op Operation) error {
	if !op.HasValue {
		return &PanicError{Reason: nilPointer}
	}
	root := op.node()
	if !isContainer(root) && d.V412 {
		return nil // it wraps an error that is nil, which is none
	}
	if !isContainer(root) {
		// The library formats an error that is nil.
		return errors.New("replace operation value must be object or array: %!w(<nil>)")
	}
	d.root = root
	return nil
}

func (d *document) move(op Operation) error {
	from, err := op.fromPath()
	if err != nil {
		return fmt.Errorf("move operation failed to decode from: %w", err)
	}
	parent, key, ok := d.open(from)
	if !ok {
		return fmt.Errorf("move operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	node, err := get(parent, key)
	if err == nil {
		err = remove(parent, key)
	}
	if err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	path, err := unquote(op.Path)
	if err != nil {
		return fmt.Errorf("move operation failed to decode path: %w", err)
	}
	parent, key, ok = d.open(path)
	if !ok {
		return fmt.Errorf("move operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	if err := insert(parent, key, node); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", path, err)
	}
	return nil
}

func (d *document) copy(op Operation) error {
	from, err := op.fromPath()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode from: %w", err)
	}
	source, name, ok := d.open(from)
	if !ok {
		return fmt.Errorf("copy operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	if _, err := get(source, name); err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	path, err := unquote(op.Path)
	if err != nil {
		return fmt.Errorf("copy operation failed to decode path: %w", errMissing)
	}
	parent, key, ok := d.open(path)
	if !ok {
		return fmt.Errorf("copy operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	node, err := get(source, name) // only now: a copy into its own source has opened it
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	node, size, err := snapshot(node)
	if err != nil {
		return fmt.Errorf("error while performing deep copy: %w", err)
	}
	d.copied += size
	if d.copied > maxCopyBytes {
		return fmt.Errorf("Unable to complete the copy, the accumulated size increase of copy is %d, exceeding the limit %d", d.copied, maxCopyBytes)
	}
	if d.Charger != nil {
		if err := d.Charger.ChargeBytes(size); err != nil {
			return err
		}
	}
	if err := insert(parent, key, node); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}

// snapshot returns a node that is independent of later operations, and the length of its JSON.
func snapshot(node any) (any, int, error) {
	switch node.(type) {
	case nil:
		return nil, 0, nil
	case null:
		return node, len("null"), nil
	}
	tree, err := toPlain(node, false, maxDepth)
	if err != nil {
		return nil, 0, err
	}
	if err := checkDepth(tree, maxDepth); err != nil {
		return nil, 0, err
	}
	text, err := json.Marshal(tree)
	return tree, len(text), err
}

func (d *document) test(op Operation) error {
	path, err := unquote(op.Path)
	if err != nil {
		return fmt.Errorf("test operation failed to decode path: %w", err)
	}
	if path == "" {
		if !op.HasValue {
			return &PanicError{Reason: nilPointer}
		}
		err := testEqual(path, d.root, op.node())
		d.root = openNode(d.root)
		return err
	}
	parent, key, ok := d.open(path)
	if !ok {
		return fmt.Errorf("test operation does not apply: is missing path: %s: %w", path, errMissing)
	}
	node, err := get(parent, key)
	if err != nil {
		return fmt.Errorf("error in test for path: '%s': %w", path, err)
	}
	switch {
	case node == nil && !op.HasValue && d.V412:
		return &PanicError{Reason: nilPointer}
	case node == nil && !op.HasValue:
		return nil
	case node == nil || !op.HasValue:
		return fmt.Errorf("testing value %s failed: %w", path, ErrTestFailed)
	}
	if err := testEqual(path, node, op.node()); err != nil || !isContainer(node) {
		return err
	}
	return set(parent, key, openNode(node))
}

func testEqual(path string, node, value any) error {
	same, err := equal(node, value, maxDepth)
	if err == nil && !same {
		err = fmt.Errorf("testing value %s failed: %w", path, ErrTestFailed)
	}
	return err
}

// unquote returns the text that the server's library reads after the server has written it as a Go string literal: the
// text itself, or the JSON syntax error of an escape that JSON does not have.
func unquote(text string) (string, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			var decoded string
			err := json.Unmarshal([]byte(strconv.Quote(text)), &decoded)
			return decoded, err
		}
	}
	return text, nil
}
