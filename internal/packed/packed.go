// Package packed keeps the type tables of several Kubernetes minors in one folder: the complete tables of the newest
// minor, in a folder of its name, and for every older minor the difference from the next newer one, in one file:
//
//	1.37/index
//	1.37/k8s.io_api_core_v1
//	1.36.delta
//	1.35.delta
//
// A delta reads
//
//	file k8s.io_api_core_v1
//	@12 2
//	+	name	string	r	""
//	gone k8s.io_api_lifecycle_v1alpha1
//
// where @12 2 means that the following lines replace the two lines from the twelfth on, counted from zero, in the newer
// file.
package packed

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/celgate/celgate/internal/lcs"
)

const suffix = ".delta"

// Minors returns the minors of a folder such as "1.37", newest last.
func Minors(folder fs.FS) []string {
	entries, _ := fs.ReadDir(folder, ".") // none without a folder
	var minors []string
	for _, e := range entries {
		name, older := strings.CutSuffix(e.Name(), suffix)
		if e.IsDir() || older {
			minors = append(minors, name)
		}
	}
	slices.SortFunc(minors, compare)
	return minors
}

// compare orders minors: 1.9 comes before 1.10.
func compare(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// Open returns the tables of a minor that the folder has. They can only be read by name.
func Open(folder fs.FS, minor string) (fs.FS, error) {
	minors := Minors(folder)
	at := slices.Index(minors, minor)
	if at < 0 {
		return nil, fmt.Errorf("no tables of %s", minor)
	}
	newest := minors[len(minors)-1]
	base, err := fs.Sub(folder, newest)
	if err != nil || minor == newest {
		return base, err
	}
	t := tables{base: base}
	for i := len(minors) - 2; i >= at; i-- {
		text, err := fs.ReadFile(folder, minors[i]+suffix)
		if err != nil {
			return nil, err
		}
		t.deltas = append(t.deltas, read(string(text)))
	}
	return t, nil
}

// A delta is the difference between a minor and the next newer one: hunks by file.
type delta struct {
	hunks map[string]string
	gone  map[string]bool
}

func read(text string) delta {
	d := delta{hunks: map[string]string{}, gone: map[string]bool{}}
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		word, name, _ := strings.Cut(line, " ")
		if word == "gone" {
			d.gone[name], text = true, rest
			continue
		}
		end := len(rest) // of the hunks
		for _, next := range []string{"\nfile ", "\ngone "} {
			if i := strings.Index(rest, next); i >= 0 {
				end = min(end, i+1)
			}
		}
		d.hunks[name], text = rest[:end], rest[end:]
	}
	return d
}

// tables are those of an older minor.
type tables struct {
	base   fs.FS
	deltas []delta // newest first
}

// ReadFile returns a file of the minor.
func (t tables) ReadFile(name string) ([]byte, error) {
	content, err := fs.ReadFile(t.base, name)
	exists := err == nil
	for _, d := range t.deltas {
		hunks, changed := d.hunks[name]
		switch {
		case d.gone[name]:
			content, exists = nil, false
		case changed:
			if content, err = apply(content, hunks); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			exists = true
		}
	}
	if !exists {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return content, nil
}

// Open opens a file of the minor.
func (t tables) Open(name string) (fs.File, error) {
	content, err := t.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &file{Reader: bytes.NewReader(content), name: name}, nil
}

// names are those of all files, sorted.
func (t tables) names() ([]string, error) {
	entries, err := fs.ReadDir(t.base, ".")
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, e := range entries {
		all[e.Name()] = true
	}
	for _, d := range t.deltas {
		for name := range d.hunks {
			all[name] = true
		}
		for name := range d.gone {
			delete(all, name)
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// apply returns content with the lines of hunks in place of its own.
func apply(content []byte, hunks string) ([]byte, error) {
	lines := bytes.SplitAfter(content, []byte("\n"))
	var out bytes.Buffer
	at := 0 // the first line that is not yet taken
	take := func(to int) error {
		if to < at || to > len(lines) {
			return fmt.Errorf("a delta speaks of line %d of %d", to, len(lines))
		}
		for ; at < to; at++ {
			out.Write(lines[at])
		}
		return nil
	}
	for line := range strings.Lines(hunks) {
		if added, ok := strings.CutPrefix(line, "+"); ok {
			out.WriteString(added)
			continue
		}
		from, count, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "@"), "\n"), " ")
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("a delta has the line %q", line)
		}
		removed, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("a delta has the line %q", line)
		}
		if err := take(first); err != nil {
			return nil, err
		}
		at += removed
	}
	if err := take(len(lines)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// A file is an open file.
type file struct {
	*bytes.Reader
	name string
}

func (f *file) Close() error               { return nil }
func (f *file) Stat() (fs.FileInfo, error) { return f, nil }
func (f *file) Name() string               { return f.name }
func (f *file) Mode() fs.FileMode          { return 0o444 }
func (f *file) ModTime() time.Time         { return time.Time{} }
func (f *file) IsDir() bool                { return false }
func (f *file) Sys() any                   { return nil }

var _ io.Reader = (*file)(nil)

// Write replaces the tables of the given minors in a folder, and keeps the others: files by name. Every file ends with
// a newline.
func Write(folder string, given map[string]map[string][]byte) error {
	all, err := readAll(os.DirFS(folder))
	if err != nil {
		return err
	}
	maps.Copy(all, given)
	minors := slices.SortedFunc(maps.Keys(all), compare)
	if len(minors) == 0 {
		return fmt.Errorf("no tables for %s", folder)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	newest := minors[len(minors)-1]
	if err := os.MkdirAll(filepath.Join(folder, newest), 0o755); err != nil {
		return err
	}
	for name, content := range all[newest] {
		if err := os.WriteFile(filepath.Join(folder, newest, name), content, 0o644); err != nil {
			return err
		}
	}
	for i := len(minors) - 2; i >= 0; i-- {
		text := difference(all[minors[i+1]], all[minors[i]])
		if err := os.WriteFile(filepath.Join(folder, minors[i]+suffix), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readAll returns the files of all minors of a folder.
func readAll(folder fs.FS) (map[string]map[string][]byte, error) {
	all := map[string]map[string][]byte{}
	for _, minor := range Minors(folder) {
		opened, err := Open(folder, minor)
		if err != nil {
			return nil, err
		}
		t, older := opened.(tables)
		if !older {
			t = tables{base: opened}
		}
		names, err := t.names()
		if err != nil {
			return nil, err
		}
		all[minor] = map[string][]byte{}
		for _, name := range names {
			if all[minor][name], err = t.ReadFile(name); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// difference returns the delta that makes the files of an older minor of those of the newer.
func difference(newer, older map[string][]byte) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(older)) {
		if hunks := hunksOf(lines(newer[name]), lines(older[name])); hunks != "" {
			fmt.Fprintf(&out, "file %s\n%s", name, hunks)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(newer)) {
		if older[name] == nil {
			fmt.Fprintf(&out, "gone %s\n", name)
		}
	}
	return out.String()
}

func lines(content []byte) []string { return slices.Collect(strings.Lines(string(content))) }

// hunksOf returns the changes from a to b, by their longest common subsequence.
func hunksOf(a, b []string) string {
	c := lcs.Compare(a, b)
	var out strings.Builder
	for i, j := 0, 0; i < len(a) || j < len(b); {
		first, added := i, j
		for step, more := c.Next(i, j); more && step != lcs.Keep; step, more = c.Next(i, j) {
			if step == lcs.Drop {
				i++
			} else {
				j++
			}
		}
		if i == first && j == added {
			i, j = i+1, j+1
			continue
		}
		fmt.Fprintf(&out, "@%d %d\n", first, i-first)
		for _, line := range b[added:j] {
			out.WriteString("+" + line)
		}
	}
	return out.String()
}
