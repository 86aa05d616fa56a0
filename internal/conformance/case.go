// Package conformance holds the corpus: requests with the answers of a real kube-apiserver.
//
// A case is one txtar file below testdata, in a folder per area. Its comment states a single idea. Its files:
//
//	policy.yaml   the policies and bindings, in the order in which they are written
//	dialect.yaml  the same policies and bindings in the dialect: celgate lower turns them into policy.yaml
//	stored.yaml   policies and bindings in etcd, even if the server would refuse to write them
//	state.yaml    other existing objects: namespaces, params, CustomResourceDefinitions, RBAC, other objects
//	old.yaml      the stored object of an UPDATE, DELETE or CONNECT, created before the policies
//	object.yaml   the object of a CREATE or UPDATE, or the options object of a DELETE or CONNECT
//	request.yaml  the [Request]; absent in cases about the writing of policies
//	want.yaml     the [Want] of the newest minor, and of minors with the same answer: recorded, never written by hand
//	want-1.36.yaml  the [Want] of minors with another answer, of which 1.36 is the newest
//
// The user dev has all permissions; any other user has those of the RBAC objects in the case's state. Every user is in
// the group system:authenticated. Members that differ from run to run are removed from objects: see [Settle].
//
// The nested module conformance records the cases and checks them against a live server; the test of this package
// replays them through the engine.
package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"reflect"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/tree"
)

// A Case is one file of the corpus. Objects are JSON trees.
type Case struct {
	Name     string // area and file name without its ending, such as "params/selector"
	Idea     string // the comment: the idea of the case
	Policies []map[string]any
	Dialect  []map[string]any // of which Policies are the native form
	Stored   []map[string]any
	State    []map[string]any
	Old      map[string]any
	Object   map[string]any
	Request  *Request // nil if the case is about the writing of its policies
	Want     *Want    // of the newest minor; nil if not recorded yet
	Older    []*Want  // the other answers, of minors that answered otherwise; those of the newest minors first

	archive *txtar.Archive
}

// A Request describes the request to the server. By default, Group, Version, Namespace and Name are those of the
// object, or of the old object if the request does not have one.
type Request struct {
	Operation   string `json:"operation"` // CREATE, UPDATE, DELETE or CONNECT
	APIVersion  string `json:"apiVersion,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Collection  bool   `json:"collection,omitempty"` // a DELETE of all objects of the namespace

	User   string                                 `json:"user,omitempty"` // dev if empty
	UID    string                                 `json:"uid,omitempty"`
	Groups []string                               `json:"groups,omitempty"` // besides system:authenticated
	Extra  map[string]authenticationv1.ExtraValue `json:"extra,omitempty"`

	// Apply is the field manager that applies the object to the stored one, on the server's side. The object has all
	// fields of the stored one.
	Apply string `json:"apply,omitempty"`

	// Stored means that etcd contains the old object even if the server would refuse to write it. It is a policy or a
	// binding.
	Stored bool `json:"stored,omitempty"`

	DryRun bool `json:"dryRun,omitempty"`
	// Strict, Warn (the server's default) or Ignore
	FieldValidation string `json:"fieldValidation,omitempty"`

	// Answers is the number of different answers of the server, because its order of policies is random. With more than
	// one, the recorder repeats the request until it has seen all of them.
	Answers int `json:"answers,omitempty"`
}

// A Want is the recorded answer.
type Want struct {
	Minors []string `json:"minors"` // the Kubernetes minors that answered so, the newest first

	// Unable is the reason why servers of the minors cannot answer, such as a kind of the state that they do not serve.
	Unable string `json:"unable,omitempty"`

	// Rejected holds the policies and bindings that the server refused to store. The request, if any, was sent
	// nevertheless.
	Rejected []Rejection `json:"rejected,omitempty"`

	Allowed          *bool             `json:"allowed,omitempty"` // nil without a request
	Status           *metav1.Status    `json:"status,omitempty"`  // of a refused request, without its metadata
	Warnings         []string          `json:"warnings,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"` // those of policies

	// Object is the object that the server would store, as its validating phase sees it. It is absent if the request
	// was refused, and on DELETE.
	Object map[string]any `json:"object,omitempty"`

	// Mutated is the object at the end of the mutating phase, if it differs from Object.
	Mutated map[string]any `json:"mutated,omitempty"`

	// Others are the other answers of a case whose policies depend on their order.
	Others []*Want `json:"others,omitempty"`
}

// A Rejection is one object that the server refused to store.
type Rejection struct {
	Kind   string         `json:"kind"`
	Name   string         `json:"name"`
	Status *metav1.Status `json:"status"`
}

// Area is the folder of the case.
func (c *Case) Area() string { return path.Dir(c.Name) }

// HasPlugins reports a case that is recorded with the admission plugins that are on by default. All other cases are
// recorded without the disturbing ones.
func (c *Case) HasPlugins() bool { return c.Area() == "plugins" || len(c.AddedPlugins()) > 0 }

// AddedPlugins are admission plugins that are enabled for the case, in addition to those that are on by default.
func (c *Case) AddedPlugins() []string {
	if c.Area() != "plugins-added" {
		return nil
	}
	return []string{"ExtendedResourceToleration", "OwnerReferencesPermissionEnforcement", "PodTolerationRestriction"}
}

// Load reads all cases below the root of fsys, sorted by name. All errors are returned together, with the cases that
// are right.
func Load(fsys fs.FS) ([]*Case, error) {
	var cases []*Case
	var errs []error
	err := fs.WalkDir(fsys, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".txtar" {
			return err
		}
		content, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		c, err := Parse(strings.TrimSuffix(file, ".txtar"), content)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
			return nil
		}
		cases = append(cases, c)
		return nil
	})
	return cases, errors.Join(append(errs, err)...)
}

// Parse reads one case. A file that the format does not know is an error, and so is an unknown field.
func Parse(name string, content []byte) (*Case, error) {
	archive := txtar.Parse(content)
	c := &Case{Name: name, Idea: strings.TrimSpace(string(archive.Comment)), archive: archive}
	if c.Idea == "" {
		return nil, errors.New("the comment with the idea is missing")
	}
	for _, file := range archive.Files {
		if err := c.read(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
	}
	if c.Request == nil {
		if len(c.Policies) == 0 {
			return nil, errors.New("neither policies nor a request")
		}
		return c, nil
	}
	return c, c.Request.complete(c)
}

func (c *Case) read(file txtar.File) (err error) {
	switch file.Name {
	case "policy.yaml":
		c.Policies, err = Documents(file.Data)
	case "dialect.yaml":
		c.Dialect, err = Documents(file.Data)
	case "stored.yaml":
		c.Stored, err = Documents(file.Data)
	case "state.yaml":
		c.State, err = Documents(file.Data)
	case "old.yaml":
		c.Old, err = document(file.Data)
	case "object.yaml":
		c.Object, err = document(file.Data)
	case "request.yaml":
		c.Request = new(Request)
		err = yaml.UnmarshalStrict(file.Data, c.Request)
	case wantFile:
		c.Want, err = readWant(file.Data)
	default:
		if !isOlderWant(file.Name) {
			return errors.New("not a file of a case")
		}
		var w *Want
		if w, err = readWant(file.Data); err == nil {
			c.Older = append(c.Older, w)
		}
	}
	return err
}

func readWant(content []byte) (*Want, error) {
	w := new(Want)
	if err := yaml.UnmarshalStrict(content, w); err != nil {
		return nil, err
	}
	if len(w.Minors) == 0 {
		return nil, errors.New("no minor")
	}
	// Once more as trees, because the first pass makes every number a float64.
	trees, err := document(content)
	if err != nil {
		return nil, err
	}
	w.takeObjects(trees)
	return w, nil
}

// takeObjects replaces the objects by those of the same document read as trees.
func (w *Want) takeObjects(document map[string]any) {
	w.Object, _ = document["object"].(map[string]any)
	w.Mutated, _ = document["mutated"].(map[string]any)
	others, _ := document["others"].([]any)
	for i, other := range others {
		if tree, ok := other.(map[string]any); ok && i < len(w.Others) {
			w.Others[i].takeObjects(tree)
		}
	}
}

// complete fills in defaults from the objects.
func (r *Request) complete(c *Case) error {
	object := c.Object
	if object == nil || r.Operation == "CONNECT" || r.Operation == "DELETE" {
		object = c.Old
	}
	metadata := tree.Object(object).Metadata()
	fill := func(field *string, from any) {
		if text, ok := from.(string); ok && *field == "" {
			*field = text
		}
	}
	if r.Subresource == "" { // the object of a subresource may be of another group
		fill(&r.APIVersion, object["apiVersion"])
	} else if c.Old != nil {
		fill(&r.APIVersion, c.Old["apiVersion"])
	}
	fill(&r.Namespace, metadata["namespace"])
	if !r.Collection {
		fill(&r.Name, metadata["name"])
	}
	fill(&r.User, "dev")
	switch r.Operation {
	case "CREATE", "UPDATE", "DELETE", "CONNECT":
	default:
		return fmt.Errorf("request.yaml: operation %q", r.Operation)
	}
	if r.Resource == "" || r.APIVersion == "" {
		return errors.New("request.yaml: no resource or no apiVersion")
	}
	return nil
}

// Format returns the file of the case.
func (c *Case) Format() ([]byte, error) {
	archive := &txtar.Archive{Comment: c.archive.Comment}
	for _, file := range c.archive.Files {
		if file.Name != wantFile && !isOlderWant(file.Name) {
			archive.Files = append(archive.Files, file)
		}
	}
	add := func(name string, w *Want) error {
		recorded, err := yaml.Marshal(w)
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: recorded})
		return err
	}
	if c.Want != nil {
		if err := add(wantFile, c.Want); err != nil {
			return nil, err
		}
	}
	for _, w := range c.Older {
		if err := add(olderWant(w.Minors[0]), w); err != nil {
			return nil, err
		}
	}
	return txtar.Format(archive), nil
}

// SamePolicies reports whether both cases have the same policies and the same state.
func (c *Case) SamePolicies(other *Case) bool {
	return other != nil && reflect.DeepEqual(c.Policies, other.Policies) && reflect.DeepEqual(c.Stored, other.Stored) &&
		reflect.DeepEqual(c.State, other.State)
}

// Documents reads YAML documents as JSON trees, leaving out empty ones.
func Documents(content []byte) ([]map[string]any, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var trees []map[string]any
	for {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return trees, nil
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSONStrict(raw)
		if err != nil {
			return nil, err
		}
		var tree map[string]any
		if err := utiljson.Unmarshal(asJSON, &tree); err != nil {
			return nil, err
		}
		if tree != nil {
			trees = append(trees, tree)
		}
	}
}

func document(content []byte) (map[string]any, error) {
	trees, err := Documents(content)
	if err != nil {
		return nil, err
	}
	if len(trees) != 1 {
		return nil, fmt.Errorf("%d documents, not one", len(trees))
	}
	return trees[0], nil
}
