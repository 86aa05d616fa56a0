package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate/cmd/internal/report"
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

// helpWidth is the number of columns that help takes at most.
const helpWidth = 80

// newHelp makes celgate help COMMAND, which equals celgate COMMAND --help.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does and its flags",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, sub := range cmd.Root().Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(about, rest[0])
			}
			return about.Help()
		},
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	err := fmt.Errorf("unknown command %q", name)
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		return withHint(err, "did you mean %s?", similar[0])
	}
	return err
}

// writeHelp writes the description of a command, examples, and its flags by section.
func writeHelp(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	for para := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if !strings.HasPrefix(para, " ") { // otherwise it is preformatted
			para = strings.Join(report.Wrap(strings.ReplaceAll(para, "\n", " "), helpWidth), "\n")
		}
		b.WriteString(para + "\n\n")
	}
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() && !strings.Contains(cmd.Use, " ") { // the command itself does nothing
		use = cmd.CommandPath() + " COMMAND [flags]"
	}
	b.WriteString("Usage:\n" + wrap("  ", "      ", use))
	if cmd.Example != "" {
		b.WriteString("\nExamples:\n")
		for line := range strings.SplitSeq(strings.TrimRight(cmd.Example, "\n"), "\n") {
			b.WriteString(wrappedExample(line))
		}
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				b.WriteString(wrap(fmt.Sprintf("  %-12s", sub.Name()), strings.Repeat(" ", 14), sub.Short))
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

// wrap wraps text behind a lead; the lines after the first begin with further.
func wrap(lead, further, text string) string {
	var b strings.Builder
	for _, line := range report.Wrap(text, helpWidth-len(further)) {
		b.WriteString(lead + line + "\n")
		lead = further
	}
	return b.String()
}

// wrappedExample writes a line of an example: a comment, or a command, which is broken before flags and pipes.
func wrappedExample(line string) string {
	if comment, ok := strings.CutPrefix(line, "  # "); ok {
		return wrap("  # ", "  # ", comment)
	}
	if len(line) <= helpWidth {
		return line + "\n"
	}
	at := max(strings.LastIndex(line[:helpWidth-2], " -"), strings.LastIndex(line[:helpWidth-2], " | "))
	if at < len("    celgate") {
		return line + "\n"
	}
	return line[:at] + " \\\n" + wrappedExample("     "+line[at:])
}

// writeFlag writes one flag. Its usage has the name of its value in backquotes if it has one.
func writeFlag(b *strings.Builder, f *pflag.Flag) {
	const column = 34
	left := "      --" + f.Name
	if f.Shorthand != "" {
		left = "  -" + f.Shorthand + ", --" + f.Name
	}
	usage := strings.ReplaceAll(f.Usage, "\n", " ")
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		value, rest, _ := strings.Cut(rest, "` ")
		left, usage = left+" "+value, rest
	}
	further := strings.Repeat(" ", column)
	if len(left) > column-2 {
		b.WriteString(left + "\n")
		left = ""
	}
	b.WriteString(wrap(fmt.Sprintf("%-*s", column, left), further, usage))
}
