package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// An Example is a folder of examples as the page shows it.
type Example struct {
	Name     string `json:"name"`  // of the folder
	Title    string `json:"title"` // the heading of its README
	About    string `json:"about"` // the first paragraph of it, as Markdown
	Policies string `json:"policies"`
	State    string `json:"state"`
	Objects  string `json:"objects"`
	Old      string `json:"old"`
	Earlier  string `json:"earlier,omitempty"` // policies to compare with
	Answer   string `json:"answer"`            // the file with the engine's answer
}

// earlierPolicies matches a text of policies.
var earlierPolicies = regexp.MustCompile(`(?m)^kind: \w*AdmissionPolicy$`)

// first is the example that a visitor without a link sees.
const first = "replica-limit"

// examples returns the folders with a policy and objects to try it on, by name.
func examples(dir string) ([]Example, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Example
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		folder := filepath.Join(dir, entry.Name())
		e := Example{Name: entry.Name()}
		if e.Policies, err = join(folder, "policy.yaml"); err != nil {
			return nil, err
		}
		if e.Objects, err = join(folder, "input.yaml", "fail.yaml", "pass.yaml"); err != nil {
			return nil, err
		}
		if e.Policies == "" || e.Objects == "" {
			continue
		}
		if e.State, err = join(folder, "state.yaml"); err != nil {
			return nil, err
		}
		if e.Old, err = join(folder, "old.yaml"); err != nil {
			return nil, err
		}
		if earlierPolicies.MatchString(e.Old) {
			e.Old, e.Earlier = "", e.Old
		}
		readme, err := join(folder, "README.md")
		if err != nil {
			return nil, err
		}
		title, rest, _ := strings.Cut(readme, "\n")
		e.Title = strings.TrimPrefix(title, "# ")
		e.About, _, _ = strings.Cut(strings.TrimSpace(rest), "\n\n")
		all = append(all, e)
	}
	return all, nil
}

// join returns the files of a folder that exist, as one text of several documents.
func join(folder string, names ...string) (string, error) {
	var texts []string
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimRight(string(text), "\n")+"\n")
	}
	return strings.Join(texts, "---\n"), nil
}
