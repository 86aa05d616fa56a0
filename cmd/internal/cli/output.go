package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/spell"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A reporting writes the results of a command: it holds the flags --output and --color.
type reporting struct {
	formats []string // the names that --output takes; the first is the default
	wanted  []string
	color   string
}

// flags adds the flags; usage describes the formats.
func (r *reporting) flags(f *pflag.FlagSet, formats []string, usage string) {
	r.formats = formats
	f.StringArrayVarP(&r.wanted, "output", "o", nil,
		"`FORMAT[=FILE]` "+usage+"; may be repeated with files, as in -o text -o json=FILE")
}

// colorFlag adds the flag --color, which comes last.
func (r *reporting) colorFlag(f *pflag.FlagSet) {
	f.StringVar(&r.color, "color", "auto", "`WHEN` auto, always or never (default auto)")
}

func (r *reporting) complete(cmd *cobra.Command) {
	completeWith(cmd, "output", r.formats...)
	completeWith(cmd, "color", "auto", "always", "never")
}

// An output is one form of the results, written to a file or to standard output.
type output struct {
	*bufio.Writer
	format string
	file   *os.File // nil: standard output
	final  string   // the name of the file once it is complete; empty: its present name
	color  bool
	width  int
}

// replaced is the format whose files are read at any time: they are replaced atomically.
const replaced = "metrics"

// A target is an output that is not open yet.
type target struct{ format, file string }

// targets parses the flags. At most one output may go to standard output.
func (r *reporting) targets() ([]target, error) {
	if _, err := (&console{}).usesColor(r.color); err != nil {
		return nil, err
	}
	if len(r.wanted) == 0 {
		return []target{{format: r.formats[0]}}, nil
	}
	var all []target
	for _, wanted := range r.wanted {
		format, file, toFile := strings.Cut(wanted, "=")
		t := target{format, file}
		if !slices.Contains(r.formats, format) {
			err := fmt.Errorf("unknown output format %q: one of %s", format, strings.Join(r.formats, ", "))
			if near := spell.Nearest(format, r.formats, 2); near != "" {
				return nil, withHint(&usageError{err}, "did you mean %s?", near)
			}
			return nil, &usageError{err}
		}
		if toFile && file == "" {
			return nil, &usageError{fmt.Errorf("--output %s= does not name a file", format)}
		}
		if slices.ContainsFunc(all, func(had target) bool { return had.file == t.file }) {
			if file == "" {
				return nil, withHint(&usageError{errors.New("two outputs cannot both go to standard output")},
					"name a file for one of them: -o %s=FILE", format)
			}
			return nil, &usageError{fmt.Errorf("two outputs cannot both go to %s", file)}
		}
		all = append(all, t)
	}
	return all, nil
}

// wants reports whether one of the formats is requested.
func (r *reporting) wants(formats ...string) bool {
	return slices.ContainsFunc(r.wanted, func(wanted string) bool {
		format, _, _ := strings.Cut(wanted, "=")
		return slices.Contains(formats, format)
	})
}

// open opens the outputs. Files are plain: without colour, unless it is requested, and without wrapped lines.
func (r *reporting) open(c *console) ([]*output, error) {
	targets, err := r.targets()
	if err != nil {
		return nil, err
	}
	colored, err := c.usesColor(r.color)
	if err != nil {
		return nil, err
	}
	var all []*output
	for _, t := range targets {
		o := &output{format: t.format}
		if t.file == "" {
			o.Writer, o.color, o.width = bufio.NewWriterSize(c.stdout, 64<<10), colored, c.width()
		} else {
			name := t.file
			if t.format == replaced {
				o.final, name = t.file, t.file+".tmp"
			}
			if o.file, err = os.Create(name); err != nil {
				return nil, err
			}
			o.Writer, o.color = bufio.NewWriterSize(o.file, 64<<10), r.color == "always"
		}
		all = append(all, o)
	}
	return all, nil
}

// flushAll flushes the outputs.
func flushAll(all []*output) error {
	var problems []error
	for _, o := range all {
		problems = append(problems, o.Flush())
	}
	return errors.Join(problems...)
}

// closeAll closes the outputs.
func closeAll(all []*output) error {
	problems := []error{flushAll(all)}
	for _, o := range all {
		if o.file != nil {
			problems = append(problems, o.file.Close())
		}
		if o.final != "" && errors.Join(problems...) == nil {
			problems = append(problems, os.Rename(o.file.Name(), o.final))
		}
	}
	return errors.Join(problems...)
}
