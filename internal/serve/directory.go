package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/webhook"
)

// A directory holds policies in files, and maybe objects beside them.
type directory struct {
	path string
	last string // signature of what was read last
}

// A folder is what a directory held at one time.
type folder struct {
	set     policy.Set
	objects []map[string]any // everything that is no policy
}

// changed reports whether the files are not those that were read last. It looks at names, sizes and times,
// behind symbolic links: a mounted ConfigMap is replaced by turning one.
func (d *directory) changed() bool { return d.signature() != d.last }

// signature is another one for other files, also for those that cannot be read.
func (d *directory) signature() string {
	var b strings.Builder
	err := filepath.WalkDir(d.path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != d.path && strings.HasPrefix(entry.Name(), ".") { // as manifest.Loader
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			fmt.Fprintf(&b, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// read reads all files. An error names every document that cannot be used: half of a directory is no set of policies.
func (d *directory) read() (*folder, error) {
	signature := d.signature()
	docs, problems := manifest.Load(d.path)
	var errs []error
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, &p)
		}
	}
	f := &folder{}
	for _, doc := range docs {
		object := webhook.Native(doc.Object)
		if !policy.Recognised(object) {
			f.objects = append(f.objects, doc.Object)
			continue
		}
		p, b, err := policy.FromObject(object, doc)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", doc.Position(), err))
		case p != nil:
			if slices.ContainsFunc(f.set.Policies, func(o *policy.Policy) bool { return o.Kind == p.Kind && o.Name == p.Name }) {
				errs = append(errs, fmt.Errorf("%s: %s %s is given twice", doc.Position(), p.Kind, p.Name))
			}
			f.set.Policies = append(f.set.Policies, p)
		default:
			if slices.ContainsFunc(f.set.Bindings, func(o *policy.Binding) bool { return o.Kind == b.Kind && o.Name == b.Name }) {
				errs = append(errs, fmt.Errorf("%s: %sBinding %s is given twice", doc.Position(), b.Kind, b.Name))
			}
			f.set.Bindings = append(f.set.Bindings, b)
		}
	}
	d.last = signature // also of what cannot be used: it is said once
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}
