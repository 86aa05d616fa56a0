package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/cli"
)

// BenchmarkApply decides about 10,000 Deployments (6 MB of YAML) with 20 policies, all of which match.
func BenchmarkApply(b *testing.B) {
	const objects, policies = 10_000, 20
	dir := b.TempDir()
	write := func(name, template string, n int) string {
		var text strings.Builder
		for i := range n {
			text.WriteString(strings.ReplaceAll(template, "NUMBER", fmt.Sprint(i)))
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
			b.Fatal(err)
		}
		return file
	}
	template := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", "bench", name))
		if err != nil {
			b.Fatal(err)
		}
		return string(text)
	}
	rules := strings.Split(strings.TrimSpace(template("expressions.txt")), "\n")
	var set strings.Builder
	for i := range policies {
		set.WriteString(strings.NewReplacer("NUMBER", fmt.Sprint(i), "EXPRESSION", rules[i%len(rules)]).Replace(template("policy.yaml")))
	}
	args := []string{"apply", "-p", write("policies.yaml", set.String(), 1), write("deployments.yaml", template("deployment.yaml"), objects)}
	b.ResetTimer()
	for b.Loop() {
		var out, problems bytes.Buffer
		if status := cli.Main(args, strings.NewReader(""), &out, &problems); status != 0 {
			b.Fatalf("exit status %d: %s", status, problems.String())
		}
	}
	b.ReportMetric(float64(b.N)*objects/b.Elapsed().Seconds(), "objects/s")
}
