// Command packtables puts tables that schematables wrote into package schema/builtin, beside those of the other minors
// that it has:
//
//	go run ./packtables DIR
//
// DIR contains a folder for each minor.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/celgate/celgate/internal/packed"
)

func main() {
	out := flag.String("out", "../schema/builtin/tables", "the `folder` of the tables")
	flag.Parse()
	if err := run(flag.Arg(0), *out); err != nil {
		fmt.Fprintln(os.Stderr, "packtables:", err)
		os.Exit(1)
	}
}

func run(from, out string) error {
	if from == "" {
		return errors.New("packtables [-out DIR] DIR")
	}
	minors := map[string]map[string][]byte{}
	for _, minor := range packed.Minors(os.DirFS(from)) {
		files, err := filepath.Glob(filepath.Join(from, minor, "*"))
		if err != nil {
			return err
		}
		minors[minor] = map[string][]byte{}
		for _, file := range files {
			if minors[minor][filepath.Base(file)], err = os.ReadFile(file); err != nil {
				return err
			}
		}
	}
	if len(minors) == 0 {
		return fmt.Errorf("no tables in %s", from)
	}
	return packed.Write(out, minors)
}
