package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/cmd/internal/cli"
)

// FuzzApply runs the command with any policy and any manifest: it ends with one of the three exit statuses, explains on
// standard error if it could not decide, and its JSON output is valid.
func FuzzApply(f *testing.F) {
	for _, pattern := range []string{"policies/*.yaml", "*/policy.yaml"} {
		policies, err := filepath.Glob(filepath.Join("..", "..", "examples", pattern))
		if err != nil {
			f.Fatal(err)
		}
		for _, policy := range policies {
			rules, err := os.ReadFile(policy)
			if err != nil {
				f.Fatal(err)
			}
			manifest, err := os.ReadFile(filepath.Join(filepath.Dir(policy), "fail.yaml"))
			if err != nil {
				manifest = []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n")
			}
			f.Add(rules, manifest)
		}
	}
	file := filepath.Join(f.TempDir(), "policy.yaml")
	f.Fuzz(func(t *testing.T, policy, manifest []byte) {
		if err := os.WriteFile(file, policy, 0o666); err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"text", "json"} {
			var out, problems bytes.Buffer
			status := cli.Main([]string{"apply", "-p", file, "-o", format, "-"}, bytes.NewReader(manifest), &out,
				&problems)
			if status < 0 || status > 2 {
				t.Errorf("exit status %d", status)
			}
			if strings.Contains(problems.String(), "internal error") {
				t.Error(problems.String())
			}
			switch {
			case format == "json" && out.Len() > 0 && !json.Valid(out.Bytes()):
				t.Errorf("not JSON: %s", out.Bytes())
			case format == "text" && bytes.ContainsAny(out.Bytes(), "\x1b\x00\r"):
				t.Errorf("control characters: %q", out.Bytes())
			case status == 2 && problems.Len() == 0 && !strings.Contains(out.String(), "rejected"):
				t.Errorf("no word about exit status 2: %s", out.Bytes())
			}
		}
	})
}
