package manifest

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// kubectlValue returns the value that kubectl gives to one YAML document.
func kubectlValue(text string) (any, error) {
	asJSON, err := sigsyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var v any
	err = kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &v)
	return v, err
}

// addSeeds adds every document of testdata as a seed.
func addSeeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			f.Add(part + "\n")
		}
	}
}

// checkDecode holds our scanner and our use of the library to the values that kubectl sees. It reports whether the
// scanner decoded text.
func checkDecode(t *testing.T, text string) (fast bool) {
	want, wantErr := kubectlValue(text)
	got, err := decodeLibrary(text)
	switch {
	case errors.Is(err, errDuplicate) || errors.Is(err, errDepth):
	case (err == nil) != (wantErr == nil):
		t.Fatalf("library: error %v, kubectl's %v, of %q", err, wantErr, text)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Fatalf("library: %#v, kubectl %#v, of %q", got, want, text)
	}
	s := look(text)
	if s.control >= 0 || s.invalid >= 0 || s.returns || s.breaks {
		return false
	}
	var b block
	scanned, ok := b.decode(text, s.tabs)
	if ok && (err != nil || !reflect.DeepEqual(scanned, want)) {
		t.Fatalf("scanner: %#v, kubectl %#v (%v), of %q", scanned, want, err, text)
	}
	return ok
}

func FuzzDecode(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) { checkDecode(t, text) })
}

// TestDecodeRandom is FuzzDecode on texts made of pieces of YAML, which meet more rules than random bytes do.
func TestDecodeRandom(t *testing.T) {
	rounds := 3000
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil {
		rounds = n
	}
	keys := []string{"a: ", "b: ", "c:", "key:", "a.b/c: ", "'q': ", "d:  ", "items:", "e: ", `"d q": `, "on: ", "12: ", "x :", "? k", "<<: "}
	values := []string{
		"", "", "", "", "v", "two words", "|", "|-", "|+", `"x"`, `"a\n\"b"`, "'it''s'", "{}", "[]", "{a: 1, b: [x, \"y\"]}", "[1, 2.5, -v]",
		"~", "yes", "0777", "1.0", "100m", "-1", "# c", "v # c", "v#c", "a:b", "http://x/?a=b#c", "v ", "é", "v, w", `"a" # c`, "[a, [b, {c: d}]]",
		">", ">-", "| ", "|2", `"open`, "'open", "[a, b", "{a}", "{a: }", "-", "- x", "a: b", "x:", "&n v", "*n", "!!str 1",
		"\tv", "v\tw", "@x", "%x", "...", "---", "{{ x }}", `{"a": "b", 'c': d}`, "{a: b, a: c}", `"a"#c`, "[] x", "- - y", "v\t# c", "v:\t",
	}
	indents := []string{"", "", "  ", "  ", "    ", "    ", "      ", " ", "\t"}
	dashes := []string{"", "", "", "- ", "- ", "-   ", "- - ", "-", "-\t", "--"}
	scanned := 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		tame := r.IntN(2) == 0 // mostly what the scanner knows
		pick := func(from []string) string {
			if tame {
				return from[r.IntN((len(from)+1)/2)]
			}
			return from[r.IntN(len(from))]
		}
		var text strings.Builder
		indent := ""
		for range 1 + r.IntN(6) {
			if r.IntN(3) == 0 {
				indent = pick(indents)
			} else if r.IntN(2) == 0 {
				indent += pick([]string{"", "  "})
			}
			text.WriteString(indent + pick(dashes))
			if r.IntN(5) > 0 {
				text.WriteString(pick(keys))
			}
			text.WriteString(pick(values))
			text.WriteString(pick([]string{"\n", "\n", "\n", "\n", "\n\n", "\n  \n", "\n# c\n", " \n", ""}))
		}
		if checkDecode(t, text.String()) {
			scanned++
		}
	}
	if scanned < rounds/20 {
		t.Errorf("the scanner took only %d of %d texts", scanned, rounds)
	}
	t.Logf("the scanner took %d of %d texts", scanned, rounds)
}
