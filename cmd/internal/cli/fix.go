package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
)

// mostRounds bounds how often files are fixed: one fix may make another possible.
const mostRounds = 20

// fixFiles applies certain fixes to files until there are none left.
func (k *checking) fixFiles(ctx context.Context, paths []string) error {
	for range mostRounds {
		w, state, err := k.world(paths)
		if err != nil {
			return err
		}
		found, err := check.Run(ctx, check.Input{Set: &w.set, Types: w.types, KubeVersion: minorOrNewest(k.kubeVersion),
			State: state}, check.Analyzers()...)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(d check.Diagnostic) bool { return d.Fix == nil || d.Ignored != "" })
		docs, _ := (&manifest.Loader{}).Load(paths...)
		changed := false
		files := fixes(docs, found)
		for _, file := range sortedFiles(files) {
			edits := files[file]
			if err := edits.write(file, w.types); err != nil {
				return err
			}
			changed = true
			slices.SortStableFunc(edits.done,
				func(a, b check.Diagnostic) int { return a.Position.Line - b.Position.Line })
			for _, d := range edits.done {
				fmt.Fprintf(k.stdout, "fixed %s %s: %s\n", d.Code, d.Position, d.Message)
			}
		}
		if !changed {
			return nil
		}
		k.status = exitClean // problems of documents are printed again
	}
	return nil
}

func sortedFiles(files map[string]*fileEdits) []string { return slices.Sorted(maps.Keys(files)) }

// fileEdits are the edits of one file.
type fileEdits struct {
	docs []*manifest.Document // of the file, in order
	to   map[*manifest.Document]map[string]any
	done []check.Diagnostic
}

// fixes applies fixes to the objects of documents: those in expressions all at once, those of other members one at a
// time.
func fixes(docs []*manifest.Document, found []check.Diagnostic) map[string]*fileEdits {
	files := map[string]*fileEdits{}
	for _, d := range docs {
		file := d.Source.File
		var mine []check.Diagnostic
		for _, f := range found {
			if f.Position.File == file && d.Object["kind"] == f.Kind && tree.Object(d.Object).Name() == f.Name {
				mine = append(mine, f)
			}
		}
		object, done := applyFixes(d.Object, mine)
		if files[file] == nil {
			files[file] = &fileEdits{to: map[*manifest.Document]map[string]any{}}
		}
		files[file].docs = append(files[file].docs, d)
		if len(done) > 0 {
			files[file].to[d] = object
			files[file].done = append(files[file].done, done...)
		}
	}
	for file, edits := range files {
		if len(edits.to) == 0 {
			delete(files, file)
		}
	}
	return files
}

// applyFixes returns a copy of an object with fixes applied, and the applied ones.
func applyFixes(object map[string]any, found []check.Diagnostic) (map[string]any, []check.Diagnostic) {
	object, _ = clone(object).(map[string]any)
	type edit struct {
		check.Edit
		of int
	}
	byField := map[string][]edit{}
	var fields []string
	var done []check.Diagnostic
	for i, d := range found {
		for _, e := range d.Fix.Edits {
			if byField[d.Field] == nil {
				fields = append(fields, d.Field)
			}
			byField[d.Field] = append(byField[d.Field], edit{e, i})
		}
	}
	for _, field := range fields {
		src, ok := valueAt(object, field).(string)
		if !ok {
			continue
		}
		edits := byField[field]
		slices.SortStableFunc(edits, func(a, b edit) int { return b.From - a.From })
		end, applied := len(src), map[int]bool{}
		for _, e := range edits {
			if e.To > end || e.From > e.To { // overlaps an applied fix: left for the next round
				continue
			}
			src, end = src[:e.From]+e.New+src[e.To:], e.From
			applied[e.of] = true
		}
		setAt(object, field, src)
		for i := range found {
			if applied[i] {
				done = append(done, found[i])
			}
		}
	}
	if len(done) == 0 {
		for _, d := range found {
			if d.Fix.Object != nil {
				d.Fix.Object(object)
				return object, []check.Diagnostic{d}
			}
		}
	}
	return object, done
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, member := range v {
			copied[key] = clone(member)
		}
		return copied
	case []any:
		copied := make([]any, len(v))
		for i, item := range v {
			copied[i] = clone(item)
		}
		return copied
	}
	return v
}

// steps splits a field path such as spec.validations[0].expression.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func valueAt(v any, path string) any {
	value, _ := tree.Find(v, steps(path))
	return value
}

func setAt(object map[string]any, path, value string) {
	i := strings.LastIndexByte(path, '.')
	if holder, ok := valueAt(object, path[:max(i, 0)]).(map[string]any); ok {
		holder[path[i+1:]] = value
	}
}

// write replaces the file atomically.
func (e *fileEdits) write(file string, types *schema.Registry) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := e.text(string(text), types)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return replaceFile(file, changed)
}

// text applies the edits to the text of a file; everything between and beside the edited values stays.
func (e *fileEdits) text(text string, types *schema.Registry) (string, error) {
	var out strings.Builder
	at := 0
	for i := 0; i < len(e.docs); {
		source := e.docs[i].Source
		var edits []rewrite.Edit
		for ; i < len(e.docs) && e.docs[i].Source == source; i++ {
			if to := e.to[e.docs[i]]; to != nil && !tree.Equal(to, e.docs[i].Object) {
				edits = append(edits, rewrite.Edit{Item: e.docs[i].Item, Old: e.docs[i].Object, New: to,
					Type: types.Type(tree.Object(to).Kind())})
			}
		}
		if len(edits) == 0 {
			continue
		}
		begin := strings.Index(text[at:], source.Text)
		if begin < 0 {
			return "", errors.New("the file has changed")
		}
		changed, err := editExpressions(source.Text, edits)
		if err != nil {
			if changed, err = rewrite.Text(source.Text, edits); err != nil {
				return "", err
			}
		}
		out.WriteString(text[at : at+begin])
		out.WriteString(changed)
		at += begin + len(source.Text)
	}
	out.WriteString(text[at:])
	return out.String(), nil
}

// editExpressions edits strings in place, so that folded and quoted ones keep their lines. The error means that this is
// not possible.
func editExpressions(text string, edits []rewrite.Edit) (string, error) {
	changed := text
	for _, edit := range edits {
		for _, c := range changedTexts(edit.Old, edit.New) {
			from := 0
			for from < min(len(c[0]), len(c[1])) && c[0][from] == c[1][from] {
				from++
			}
			tail := 0
			for tail < min(len(c[0]), len(c[1]))-from && c[0][len(c[0])-1-tail] == c[1][len(c[1])-1-tail] {
				tail++
			}
			from, to, ok := widenToUnique(changed, c[0], from, len(c[0])-tail)
			if !ok {
				return "", errors.New("not in one place")
			}
			changed = strings.Replace(changed, c[0][from:to], c[1][from:len(c[1])-(len(c[0])-to)], 1)
		}
	}
	// The result must have the intended meaning.
	docs, problems := manifest.Read(strings.NewReader(changed), "")
	if len(problems) > 0 {
		return "", errors.New("not the same structure")
	}
	for _, edit := range edits {
		i := slices.IndexFunc(docs, func(d *manifest.Document) bool { return d.Item == edit.Item })
		if i < 0 || !tree.Equal(docs[i].Object, edit.New) {
			return "", errors.New("not the same object")
		}
	}
	return changed, nil
}

// widenToUnique widens a part of value until it occurs once in text.
func widenToUnique(text, value string, from, to int) (int, int, bool) {
	for {
		if strings.Contains(value[from:to], `\`) {
			return 0, 0, false // a quoted string is written differently
		}
		if from < to {
			switch strings.Count(text, value[from:to]) {
			case 0:
				return 0, 0, false
			case 1:
				return from, to, true
			}
		}
		if from == 0 && to == len(value) {
			return 0, 0, false
		}
		if from > 0 {
			from--
		}
		if to < len(value) && (value[to] != ' ' && value[to] != '\n' || from == 0) { // may be folded at a space
			to++
		}
	}
}

// changedTexts returns the strings that differ, as pairs of old and new. If anything else differs, it returns nil; the
// caller notices that.
func changedTexts(a, b any) [][2]string {
	var all [][2]string
	switch a := a.(type) {
	case map[string]any:
		other, _ := b.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(a)) {
			all = append(all, changedTexts(a[key], other[key])...)
		}
	case []any:
		other, _ := b.([]any)
		for i, item := range a {
			if i < len(other) {
				all = append(all, changedTexts(item, other[i])...)
			}
		}
	case string:
		if text, ok := b.(string); ok && text != a {
			all = append(all, [2]string{a, text})
		}
	}
	return all
}

// replaceFile replaces the content of a file atomically.
func replaceFile(file, text string) error {
	mode := fs.FileMode(0o644)
	if stat, err := os.Stat(file); err == nil {
		mode = stat.Mode().Perm()
	}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	next, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = next.WriteString(text)
	if err == nil {
		err = next.Chmod(mode)
	}
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}
