package suite

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/test.md")

// TestReference compares the reference of fields in the documentation with the fields of the decoder.
func TestReference(t *testing.T) {
	const file, begin, end = "../../../docs/test.md", "<!-- generated: go test ./cmd/internal/suite -update -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no generated part", file)
	}
	var b strings.Builder
	for _, section := range []struct {
		title string
		fields
	}{
		{"A suite", append(documentFields[:len(documentFields):len(documentFields)], suiteFields...)},
		{"A case, and a row of a table", caseFields},
		{"expect", expectFields},
		{"A denial, a warning, an audited failure", verdictFields},
		{"A text", append(fields{{"(text alone)", "the exact text"}}, textFields...)},
		{"mutated", mutatedFields},
		{"skipped", skipFields},
		{"workloads", workloadFields},
	} {
		fmt.Fprintf(&b, "\n### %s\n\n| field | meaning |\n|---|---|\n", section.title)
		for _, f := range section.fields {
			name := "`" + f.name + "`"
			if strings.HasPrefix(f.name, "(") {
				name = f.name
			}
			fmt.Fprintf(&b, "| %s | %s |\n", name, f.doc)
		}
	}
	b.WriteString("\n")
	want := before + begin + b.String() + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s: the reference is not what the code knows; go test ./cmd/internal/suite -update rewrites it", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}
