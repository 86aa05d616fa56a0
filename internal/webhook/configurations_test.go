package webhook_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/manifest"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestConfigurations computes the configurations of each testdata/configurations/*.yaml; the expected ones are in
// *.want.
func TestConfigurations(t *testing.T) {
	files, err := filepath.Glob("testdata/configurations/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			docs, problems := manifest.Load(file)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			bundle := manifest.NewBundle(docs...)
			if err := bundle.Err(); err != nil {
				t.Fatal(err)
			}
			mutating, validating := webhook.Configurations(&bundle.Set,
				webhook.Target{Service: "celgate", Namespace: "celgate-system", CABundle: []byte("PEM")})
			a, err := yaml.Marshal(mutating)
			if err != nil {
				t.Fatal(err)
			}
			b, err := yaml.Marshal(validating)
			if err != nil {
				t.Fatal(err)
			}
			got := string(a) + "---\n" + string(b)
			golden := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("have\n%s\nwant\n%s", got, want)
			}
		})
	}
}
