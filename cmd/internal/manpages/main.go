// Command manpages writes what an archive or a package of celgate holds beside the program: a manual page for each
// command in section 1, and the scripts with which shells complete it. SOURCE_DATE_EPOCH is the date of the pages.
//
//	go run ./cmd/internal/manpages -out bin/pages
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/celgate/celgate/cmd/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func main() {
	out := flag.String("out", "bin/pages", "the `folder` to write, with man and completions in it")
	version := flag.String("version", "", "of celgate")
	flag.Parse()
	if err := write(*out, *version); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func write(folder, version string) error {
	man, completions := filepath.Join(folder, "man"), filepath.Join(folder, "completions")
	for _, dir := range []string{man, completions} {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
			return err
		}
	}
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	root := cli.Commands()
	root.DisableAutoGenTag = true // it holds the day of the build
	header := &doc.GenManHeader{Section: "1", Source: "celgate " + version, Manual: "celgate", Date: &date}
	if err := doc.GenManTree(root, header, man); err != nil {
		return err
	}
	for file, generate := range completionScripts(root) {
		if err := generate(filepath.Join(completions, file)); err != nil {
			return err
		}
	}
	return nil
}

// completionScripts returns, by the names of their files, functions that write the scripts of celgate completion.
func completionScripts(root *cobra.Command) map[string]func(path string) error {
	return map[string]func(path string) error{
		"celgate.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_celgate":     root.GenZshCompletionFile,
		"celgate.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		"celgate.ps1":  root.GenPowerShellCompletionFileWithDesc,
	}
}
