package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/cmd/internal/cli"
)

// BenchmarkApply decides about 10,000 Deployments (6 MB of YAML) with 20 policies, all of which match.
func BenchmarkApply(b *testing.B) {
	const policies = 20
	rules := strings.Split(strings.TrimSpace(benchTemplate(b, "expressions.txt")), "\n")
	var set strings.Builder
	for i := range policies {
		set.WriteString(strings.NewReplacer("NUMBER", fmt.Sprint(i), "EXPRESSION",
			rules[i%len(rules)]).Replace(benchTemplate(b, "policy.yaml")))
	}
	benchmarkApply(b, set.String())
}

// BenchmarkApplyYAML prints the same Deployments with the changes of three mutations: a label, the pull policy of all
// containers and a sidecar.
func BenchmarkApplyYAML(b *testing.B) {
	benchmarkApply(b, benchTemplate(b, "mutations.yaml"), "-o", "yaml")
}

func benchTemplate(b *testing.B, name string) string {
	text, err := os.ReadFile(filepath.Join("testdata", "bench", name))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func benchmarkApply(b *testing.B, policies string, flags ...string) {
	const objects = 10_000
	dir := b.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			b.Fatal(err)
		}
		return file
	}
	template := benchTemplate(b, "deployment.yaml")
	var deployments strings.Builder
	for i := range objects {
		deployments.WriteString(strings.ReplaceAll(template, "NUMBER", fmt.Sprint(i)))
	}
	args := append([]string{"apply", "-p", write("policies.yaml", policies)}, flags...)
	args = append(args, write("deployments.yaml", deployments.String()))
	b.ResetTimer()
	for b.Loop() {
		var out, problems bytes.Buffer
		if status := cli.Main(args, strings.NewReader(""), &out, &problems); status != 0 {
			b.Fatalf("exit status %d: %s", status, problems.String())
		}
	}
	b.ReportMetric(float64(b.N)*objects/b.Elapsed().Seconds(), "objects/s")
}
