package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/cmd/internal/cli"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/quirks"
)

// TestUpgrades reports what each upgrade changes of policies whose answers servers of all minors gave (make upgrades): no
// change is missing, and none is false.
func TestUpgrades(t *testing.T) {
	rows, err := conformance.Upgrades()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var policies, objects []string
	document := func(tree map[string]any) string {
		text, err := yaml.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, row := range rows {
		policy, binding := row.Policy()
		policies = append(policies, document(policy), document(binding))
		objects = append(objects, document(row.Object))
	}
	file := filepath.Join(folder, "policies.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(policies, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	releases := quirks.Releases()
	for i, older := range releases {
		for _, newer := range releases[i+1:] {
			pair := older.Minor + ".." + newer.Minor
			t.Run(pair, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				cli.Main([]string{"diff", "--admission-plugins=-*", "--kube-version", pair, "-p", file, "-o", "json", "-"},
					strings.NewReader(strings.Join(objects, "---\n")), &stdout, &stderr)
				var report conformance.UpgradeReport
				if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
					t.Fatalf("%v: %s", err, stderr.String())
				}
				for _, row := range rows {
					want := [2]string{row.AnswerOf(older.Minor), row.AnswerOf(newer.Minor)}
					if problem := report.Check(row, want); problem != "" {
						t.Error(problem)
					}
				}
				if n := len(report.Items); n > len(rows) || report.Requests == 0 {
					t.Errorf("%d items of %d requests about %d rows", n, report.Requests, len(rows))
				}
			})
		}
	}
}
