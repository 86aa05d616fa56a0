package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const groupAnnotation = "celgate/group"

// group adds flags to cmd as one section of its help.
func group(cmd *cobra.Command, title string, add func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	add(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[groupAnnotation] = []string{title}
	})
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(flags)
}

// writeHelp writes what a command does, examples, and its flags by section.
func writeHelp(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n", strings.TrimSpace(text))
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(&b, "  %s\n", use)
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-12s%s\n", sub.Name(), sub.Short)
			}
		}
	}
	var titles []string
	sections := map[string]*pflag.FlagSet{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		title := "Flags"
		if t := f.Annotations[groupAnnotation]; len(t) > 0 {
			title = t[0]
		}
		if sections[title] == nil {
			titles = append(titles, title)
			sections[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			sections[title].SortFlags = false
		}
		sections[title].AddFlag(f)
	})
	for _, title := range titles {
		fmt.Fprintf(&b, "\n%s:\n", title)
		sections[title].VisitAll(func(f *pflag.Flag) { writeFlag(&b, f) })
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help says more about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFlag writes one flag. Its usage is what it does, after the name of its value in backquotes if it has one.
func writeFlag(b *strings.Builder, f *pflag.Flag) {
	const column = 34
	left := "      --" + f.Name
	if f.Shorthand != "" {
		left = "  -" + f.Shorthand + ", --" + f.Name
	}
	usage := f.Usage
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		value, rest, _ := strings.Cut(rest, "` ")
		left, usage = left+" "+value, rest
	}
	if len(left) > column-2 {
		left += "\n" + strings.Repeat(" ", column)
	} else {
		left += strings.Repeat(" ", column-len(left))
	}
	b.WriteString(left + strings.ReplaceAll(usage, "\n", "\n"+strings.Repeat(" ", column)) + "\n")
}
