package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// fence finds the blocks of a document. A console block shows commands and their output; a block that cannot run here
// has another language, such as ```sh. A block with a name behind its language is a file: ```yaml policy.yaml.
var fence = regexp.MustCompile("(?ms)^```([a-z]+)(?: (\\S+))?\n(.*?)^```$")

// TestDocumentation runs every command of the console blocks in README.md, docs, examples and recipes and compares the
// output on both streams. The commands of one block run in one shell, so that echo $? works. They run in the root of
// the repository; those of a document with files run in a folder with only the files above the command. The commands
// for CI systems in these files must pass.
func TestDocumentation(t *testing.T) {
	if testing.Short() {
		t.Skip("every command of the documentation")
	}
	root := "../../.."
	var files []string
	if _, err := os.Stat(filepath.Join(root, "README.md")); err == nil {
		files = append(files, filepath.Join(root, "README.md"))
	}
	for _, dir := range []string{"docs", "examples", "recipes"} {
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
		if !bytes.Contains(text, []byte("\n```console\n")) {
			continue
		}
		name, _ := filepath.Rel(root, file)
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			dir := root
			var out bytes.Buffer
			end := 0
			for _, b := range fence.FindAllSubmatchIndex(text, -1) {
				at := fmt.Sprintf("%s:%d", name, 1+bytes.Count(text[:b[0]], []byte("\n")))
				language, body := string(text[b[2]:b[3]]), text[b[6]:b[7]]
				if b[4] >= 0 {
					if dir == root {
						dir = t.TempDir()
					}
					created := filepath.Join(dir, filepath.FromSlash(string(text[b[4]:b[5]])))
					if err := os.MkdirAll(filepath.Dir(created), 0o777); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(created, body, 0o666); err != nil {
						t.Fatal(err)
					}
				}
				if language != "console" {
					continue
				}
				got, err := runBlock(dir, string(body))
				if err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				if got != string(body) && !*update {
					t.Errorf("%s: the block should be\n%s", at, got)
				}
				out.Write(text[end:b[6]])
				out.WriteString(got)
				end = b[7]
			}
			out.Write(text[end:])
			if *update && !bytes.Equal(out.Bytes(), text) {
				if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if dir != root {
				runPipelines(t, dir)
			}
		})
	}
}

// runPipelines runs the celgate commands that a folder's CI files name: each must pass.
func runPipelines(t *testing.T, dir string) {
	workflows, _ := filepath.Glob(filepath.Join(dir, ".github", "workflows", "*.yaml"))
	for _, file := range append(workflows, filepath.Join(dir, ".gitlab-ci.yml")) {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		var pipeline any
		if err := yaml.Unmarshal(text, &pipeline); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		commands := celgateCommands(pipeline)
		if len(commands) == 0 {
			t.Errorf("%s runs no celgate", file)
		}
		for _, c := range commands {
			cmd := exec.Command("sh", "-c", c)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", filepath.Base(file), c, err, out)
			}
		}
	}
}

// celgateCommands returns the texts of a YAML tree that are commands of celgate, in the order of the text.
func celgateCommands(v any) []string {
	var all []string
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "celgate ") {
			all = append(all, v)
		}
	case []any:
		for _, item := range v {
			all = append(all, celgateCommands(item)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, celgateCommands(v[key])...)
		}
	}
	return all
}

// goRun makes "go run ./cmd/celgate" run the celgate of the test, and adds the output of go run on failure.
const goRun = `go() {
	if [ "$1 $2" != "run ./cmd/celgate" ]; then command go "$@"; return; fi
	shift 2
	celgate "$@" || { echo "exit status $?" >&2; return 1; }
}
`

// runBlock returns the expected block: every "$ command" with its output.
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
	cmd.Env = append(os.Environ(), "COLUMNS=")
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
