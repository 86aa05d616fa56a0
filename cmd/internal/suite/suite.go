// Package suite tests policies: a suite has requests and their expected answers.
//
// Suites are YAML documents of the kind Suite (celgate.dev/v1alpha1), or folders with a policy.yaml and a folder cases
// with documents of the kind Case. [Load] finds them, [Run] decides every request as the API server would, and reports
// unmet expectations.
package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// APIVersion is the version of suites and cases.
const APIVersion = "celgate.dev/v1alpha1"

// A Suite is the content of one file, or of one folder with cases.
type Suite struct {
	Name     string
	File     string // the suite file, or the folder
	Policies []Source
	Static   []Source // directories of static policies
	State    []Source
	Cases    []*Case
}

// A Source is objects in a file or directory, or one object in the suite itself.
type Source struct {
	Path   string // relative to the working directory
	Only   string // the name of one object in the file; empty: all
	Inline *manifest.Document
	Place  policy.Position // where it is named
}

func (s *Source) isZero() bool { return s == nil || s.Path == "" && s.Inline == nil }

// A Case is one request, or the same request for several objects, with its expected answer.
type Case struct {
	Name   string // of the case, and of the row of its table
	Place  policy.Position
	State  []Source // for this case only
	Asked  Asked
	Expect Expectation
}

// Asked describes a request.
type Asked struct {
	Object, Old, Review *Source
	Patches             []map[string]any // JSON merge patches of the object, in order
	OldPatches          []map[string]any
	Operation           string
	Subresource         string
	User                string
	Groups              []string
	UID                 string
	Extra               map[string]authenticationv1.ExtraValue
	Pod                 string // "namespace/name" of the Pod that makes the request
	podPlace            policy.Position
	Workloads           Workloads // whether objects that controllers create are evaluated, too
	DryRun              bool
	Namespace           string
}

// Workloads defines whether and how objects that controllers create for a case's object are evaluated. The zero value
// follows built-in kinds.
type Workloads struct {
	Off    bool
	User   string // of all controllers; empty: a service account for each
	PodsOf requests.PodsOf
}

// An Expectation is everything that must hold for an answer.
type Expectation struct {
	Place       policy.Position
	Denied      []Verdict // each must be among the denials; nil: allowed
	Warnings    []Verdict // exactly these
	Audited     []Verdict // each must be among the audited failures
	Annotations []Annotation
	Mutated     *Mutated
	Untouched   policy.Position // valid: policies must not change the object
	Idempotent  policy.Position // valid: a second run of mutating policies must not change anything
	Survives    policy.Position // valid: the changes of each policy must survive all others
	Skipped     []Skip          // policies that must not match
	Created     []CreatedExpectation

	warningsGiven bool
}

// A Verdict describes a denial, a warning or an audited failure by some of its members.
type Verdict struct {
	Place      policy.Position
	Policy     string
	Binding    string
	Param      string
	Validation int // index; -1: any
	Message    Text
	Reason     string // of the answer
	Code       int    // of the answer; 0: any
}

func (v Verdict) namesPolicy() bool {
	return v.Policy != "" || v.Binding != "" || v.Param != "" || v.Validation >= 0
}

// An Annotation is an audit annotation.
type Annotation struct {
	Place  policy.Position
	Key    string
	Value  Text
	Absent bool
}

// Mutated describes the object after mutations.
type Mutated struct {
	Place  policy.Position
	Golden *Source // a file with the object
	Object *manifest.Document
	Fields []Field
}

// A Field is one value of the mutated object.
type Field struct {
	Place policy.Position
	Path  string
	Value any // nil: missing
}

// A Skip is a policy that must not match, with the reason.
type Skip struct {
	Place     policy.Position
	Policy    string // empty: every policy of the suite
	Binding   string
	By        string // namespaceSelector, …; empty: any
	Condition string // name of a match condition
}

// A Text is a text to compare with; the zero value matches every text.
type Text struct {
	Exact    string
	Contains string
	Matches  *regexp.Regexp
	given    bool
}

// Load finds the suites in files and directories; directories are searched recursively.
func Load(paths ...string) ([]*Suite, []*Problem) {
	l := &loader{seen: map[string]bool{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			l.problem(&Problem{policy.Position{File: path}, reasonOf(err), ""})
		case info.IsDir():
			l.found = false
			l.directory(path)
			if file := katTest(path); !l.found && file != "" {
				l.problem(&Problem{policy.Position{File: path},
					"no suite in this directory, but tests of kat, such as " + file,
					"write a Suite beside them: the object file as object, and deny or allow in its name as expect: denied or allowed"})
			} else if !l.found {
				l.problem(&Problem{policy.Position{File: path}, "no suite in this directory",
					"a suite is a file of kind: Suite, or policy.yaml beside a folder cases"})
			}
		default:
			l.file(path, true)
		}
	}
	return l.suites, l.problems
}

// katNames matches the files of tests of kat, whose names contain the expectation and the content.
var katNames = pattern.New(`(?i)\.(allow|deny|warn|audit|mutate|error)\.(object|oldObject|params|request|namespaceObject|gold|annotations)\.(ya?ml|json)$`)

// katTest returns the name of a test of kat below a directory; "" if there is none.
func katTest(root string) (name string) {
	// Unreadable files are not tests.
	_ = filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && katNames().MatchString(entry.Name()) {
			name = entry.Name()
			return fs.SkipAll
		}
		return nil
	})
	return name
}

func reasonOf(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

type loader struct {
	suites   []*Suite
	problems []*Problem
	seen     map[string]bool // files and folders; true: with a suite
	found    bool            // a suite or a problem in the current directory
}

func (l *loader) problem(p *Problem) {
	l.problems, l.found = append(l.problems, p), true
}

func (l *loader) directory(root string) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			l.problem(&Problem{policy.Position{File: path}, reasonOf(err), ""})
			return nil
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			if entry.Name() == "cases" && exists(filepath.Join(filepath.Dir(path), "policy.yaml")) {
				l.folder(filepath.Dir(path))
				return fs.SkipDir
			}
			return nil
		case slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
			l.file(path, false)
		}
		return nil
	})
	if err != nil {
		l.problem(&Problem{policy.Position{File: root}, reasonOf(err), ""})
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// file reads the suites of a file. A named file must have one.
func (l *loader) file(path string, named bool) {
	key := filepath.Clean(path)
	if had, seen := l.seen[key]; seen {
		l.found = l.found || had
		return
	}
	l.seen[key] = false
	text, err := os.ReadFile(path)
	if err != nil {
		l.problem(&Problem{policy.Position{File: path}, reasonOf(err), ""})
		return
	}
	if !named && !strings.Contains(string(text), "celgate.dev/") {
		return
	}
	docs, problems := manifest.Read(strings.NewReader(string(text)), path)
	for _, p := range problems {
		l.problem(&Problem{p.Position, p.Message, ""})
	}
	found := false
	for _, d := range docs {
		switch kind, _ := d.Object["kind"].(string); {
		case !IsRecognised(d.Object):
			continue
		case kind == "Suite":
			l.suite(d)
		case kind == "Case":
			dir := filepath.Dir(path)
			if parent := filepath.Dir(dir); filepath.Base(dir) == "cases" &&
				exists(filepath.Join(parent, "policy.yaml")) {
				l.folder(parent)
			} else {
				l.problem(&Problem{d.Position(), "a Case belongs in a folder cases next to a policy.yaml",
					"or write it under cases of a Suite"})
			}
		default:
			l.problem(&Problem{d.Position(), fmt.Sprintf("unknown kind %q of %s", kind, d.Object["apiVersion"]),
				"the kinds are Suite and Case"})
		}
		found = true
		l.found, l.seen[key] = true, true
	}
	if named && !found && len(problems) == 0 {
		l.problem(&Problem{policy.Position{File: path}, "no suite in this file",
			"a suite has apiVersion: " + APIVersion + " and kind: Suite"})
	}
}

// IsRecognised reports whether an object is of this package's kinds.
func IsRecognised(object map[string]any) bool {
	return manifest.IsSuite(object)
}

// folder reads a folder with policy.yaml and cases.
func (l *loader) folder(dir string) {
	key := filepath.Join(dir, "cases")
	l.found = true
	if l.seen[key] {
		return
	}
	l.seen[key] = true
	s := &Suite{Name: nameOfDirectory(dir), File: dir}
	s.conventions(dir)
	docs, problems := manifest.Load(key)
	for _, p := range problems {
		if !p.Warning {
			l.problem(&Problem{p.Position, p.Message, ""})
		}
	}
	for _, d := range docs {
		if kind, _ := d.Object["kind"].(string); !IsRecognised(d.Object) || kind != "Case" {
			continue // objects named by cases
		}
		r := &reader{doc: d}
		n := r.root()
		n.version()
		if n.mapping(slices.Concat(documentFields, caseFields)) {
			base := strings.TrimSuffix(filepath.Base(d.Source.File), filepath.Ext(d.Source.File))
			s.Cases = append(s.Cases, n.cases(Case{Name: base}, filepath.Dir(d.Source.File))...)
		}
		l.problems = append(l.problems, r.sortedProblems()...)
	}
	if len(s.Cases) == 0 && len(problems) == 0 {
		l.problem(&Problem{policy.Position{File: key}, "no case in this directory",
			"a case has apiVersion: " + APIVersion + " and kind: Case"})
	}
	l.suites = append(l.suites, s)
}

// conventions are the default files of a suite.
func (s *Suite) conventions(dir string) {
	if s.Policies == nil {
		if path := filepath.Join(dir, "policy.yaml"); exists(path) {
			s.Policies = []Source{{Path: path, Place: policy.Position{File: s.File}}}
		}
	}
	if s.State == nil {
		if path := filepath.Join(dir, "state.yaml"); exists(path) {
			s.State = []Source{{Path: path, Place: policy.Position{File: s.File}}}
		}
	}
}

func nameOfDirectory(dir string) string {
	if absolute, err := filepath.Abs(dir); err == nil {
		return filepath.Base(absolute)
	}
	return filepath.Base(dir)
}

func (l *loader) suite(d *manifest.Document) {
	r := &reader{doc: d}
	n := r.root()
	n.version()
	defer func() { l.problems = append(l.problems, r.sortedProblems()...) }()
	if !n.mapping(slices.Concat(documentFields, suiteFields)) {
		return
	}
	dir := filepath.Dir(d.Source.File)
	s := &Suite{Name: n.member("name").text(), File: d.Source.File}
	if s.Name == "" {
		if s.Name = strings.TrimSuffix(filepath.Base(d.Source.File), filepath.Ext(d.Source.File)); s.Name == "suite" {
			s.Name = nameOfDirectory(dir)
		}
	}
	s.Policies, s.State = n.member("policies").sources(dir), n.member("state").sources(dir)
	s.Static = n.member("staticPolicies").sources(dir)
	s.conventions(dir)
	if len(s.Policies)+len(s.Static) == 0 {
		n.add(&Problem{d.Position(), "policies is missing",
			"name the files of the policies, as in policies: [policy.yaml]"})
	}
	var defaults Case
	if from := n.member("defaults"); from.isGiven() && from.mapping(askedFields) {
		defaults = from.readRequest(defaults, dir)
	}
	cases := n.member("cases")
	if len(cases.list()) == 0 && n.lacks("cases", suiteFields) {
		n.add(&Problem{cases.place(), "cases is missing", "a case has a name, an object and an expectation"})
	}
	names := map[string]policy.Position{}
	for _, item := range cases.list() {
		if !item.mapping(caseFields) {
			continue
		}
		for _, c := range item.cases(defaults, dir) {
			if first, taken := names[c.Name]; taken && c.Name != "" {
				n.add(&Problem{c.Place, fmt.Sprintf("a second case %q", c.Name), "the first is at " + first.String()})
			}
			names[c.Name] = c.Place
			s.Cases = append(s.Cases, c)
		}
	}
	l.suites = append(l.suites, s)
}

func (n node) version() {
	if v := n.member("apiVersion"); v.value != APIVersion {
		n.add(&Problem{v.place(), fmt.Sprintf("unknown apiVersion %q", v.value), "it is " + APIVersion})
	}
}

// Files returns the files and directories of suites.
func Files(suites []*Suite) []string {
	files := map[string]bool{}
	add := func(sources ...*Source) {
		for _, s := range sources {
			if s != nil && s.Path != "" {
				files[s.Path] = true
			}
		}
	}
	for _, s := range suites {
		files[s.File] = true
		for _, list := range [][]Source{s.Policies, s.Static, s.State} {
			for i := range list {
				add(&list[i])
			}
		}
		for _, c := range s.Cases {
			for i := range c.State {
				add(&c.State[i])
			}
			add(c.Asked.Object, c.Asked.Old, c.Asked.Review)
			if c.Expect.Mutated != nil {
				add(c.Expect.Mutated.Golden)
			}
		}
	}
	return slices.Sorted(maps.Keys(files))
}
