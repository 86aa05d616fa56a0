package cli_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// console finds the blocks of a document that show commands and what they print. A block that cannot run here is not a
// console block: it is ```sh.
var console = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestDocumentation runs every command of the ```console blocks in README.md and docs, in the root of the repository, and compares
// what it prints on both outputs. The commands of one block run in one shell, so that echo $? works.
func TestDocumentation(t *testing.T) {
	root := "../.."
	var files []string
	if _, err := os.Stat(filepath.Join(root, "README.md")); err == nil {
		files = append(files, filepath.Join(root, "README.md"))
	}
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := console.FindAllSubmatchIndex(text, -1)
		if len(blocks) == 0 {
			continue
		}
		name, _ := filepath.Rel(root, file)
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			var out bytes.Buffer
			end := 0
			for _, b := range blocks {
				want := string(text[b[2]:b[3]])
				got, err := runBlock(root, want)
				if err != nil {
					t.Fatalf("%s:%d: %v", name, 1+bytes.Count(text[:b[2]], []byte("\n")), err)
				}
				if got != want && !*update {
					t.Errorf("%s:%d: the block should be\n%s", name, 1+bytes.Count(text[:b[2]], []byte("\n")), got)
				}
				out.Write(text[end:b[2]])
				out.WriteString(got)
				end = b[3]
			}
			out.Write(text[end:])
			if *update && !bytes.Equal(out.Bytes(), text) {
				if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// goRun makes "go run ./cmd/celgate" run the celgate of the test, with what go run adds to a failure.
const goRun = `go() {
	if [ "$1 $2" != "run ./cmd/celgate" ]; then command go "$@"; return; fi
	shift 2
	celgate "$@" || { echo "exit status $?" >&2; return 1; }
}
`

// runBlock returns the block as it should be: every "$ command", with what it prints.
func runBlock(dir, block string) (string, error) {
	var script strings.Builder
	var commands []string
	for line := range strings.Lines(block) {
		command, ok := strings.CutPrefix(line, "$ ")
		switch {
		case ok:
			commands = append(commands, command)
		case len(commands) == 0:
			return "", fmt.Errorf("output before the first command: %s", line)
		case strings.HasSuffix(commands[len(commands)-1], "\\\n"):
			commands[len(commands)-1] += line // a continued command
		}
	}
	const mark = "\x01"
	for _, c := range commands {
		// The status of the command before is $? again.
		fmt.Fprintf(&script, "(exit $s)\n%s\ns=$?\nprintf '\\001'\n", strings.TrimRight(c, "\n"))
	}
	cmd := exec.Command("sh", "-c", goRun+"s=0\n"+script.String())
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	outputs := strings.Split(string(text), mark)
	if len(outputs) != len(commands)+1 {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	var b strings.Builder
	for i, c := range commands {
		b.WriteString("$ " + c)
		b.WriteString(outputs[i])
		if outputs[i] != "" && !strings.HasSuffix(outputs[i], "\n") {
			b.WriteString("\n")
		}
	}
	return b.String(), nil
}
