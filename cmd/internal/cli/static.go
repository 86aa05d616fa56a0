package cli

import (
	"fmt"
	"strings"

	"github.com/celgate/celgate/internal/static"
	"github.com/spf13/pflag"
)

// staticFiles name the policies that the API server reads from files of its own.
type staticFiles struct {
	dirs   []string
	config string // an AdmissionConfiguration that names directories of static policies
}

func (s *staticFiles) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&s.dirs, "static-policies", nil,
		"`DIR` static policies, as the API server reads them from files\n(KEP-5793); may be repeated, once for each kind")
	f.StringVar(&s.config, "admission-control-config-file", "",
		"`FILE` the same flag of the API server: the static policies\nthat the file names are in force")
}

func (s *staticFiles) isEmpty() bool { return len(s.dirs) == 0 && s.config == "" }

// staticDirs returns the directories that the flags name.
func (c *console) staticDirs() (dirs []static.Dir, err error) {
	if c.static.config != "" {
		named, others, err := static.ConfiguredDirs(c.static.config)
		if err != nil {
			return nil, err
		}
		if len(others) > 0 {
			c.say(fmt.Sprintf("%s: celgate ignores its settings for %s", c.static.config,
				strings.Join(others, ", ")), "")
		}
		dirs = named
	}
	for _, dir := range c.static.dirs {
		dirs = append(dirs, static.Dir{Path: dir})
	}
	return dirs, nil
}

// addStatic adds static policies to the set, as an API server does when it starts. An error is one with which the
// server would not start.
func (w *world) addStatic(c *console, version string) error {
	dirs, err := c.staticDirs()
	if err != nil {
		return err
	}
	set, err := static.Load(minorOrNewest(version), dirs...)
	if err != nil {
		return err
	}
	w.set.Policies = append(set.Policies, w.set.Policies...)
	w.set.Bindings = append(set.Bindings, w.set.Bindings...)
	return nil
}
