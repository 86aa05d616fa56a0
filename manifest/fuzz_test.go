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
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/yamlscan"
	"github.com/celgate/celgate/policy"
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
	files, err := filepath.Glob("testdata/*/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		switch filepath.Ext(file) {
		case ".yaml":
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
			for part := range strings.SplitSeq(string(text), "\n---\n") {
				f.Add(part + "\n")
			}
		case ".txtar":
			archive, err := txtar.ParseFile(file)
			if err != nil {
				f.Fatal(err)
			}
			for _, part := range archive.Files {
				f.Add(string(part.Data))
			}
		}
	}
	for seed := range 20 {
		f.Add(randomScalars(seed))
	}
}

// checkDecode compares the values of our scanner and of the library with those of kubectl. It reports whether the
// scanner decoded text.
func checkDecode(t *testing.T, text string) (fast bool) {
	want, wantErr := kubectlValue(text)
	got, _, err := decodeLibrary(text)
	switch {
	case errors.Is(err, errDuplicate) || errors.Is(err, errDepth):
	case (err == nil) != (wantErr == nil):
		t.Fatalf("library: error %v, kubectl's %v, of %q", err, wantErr, text)
	case err == nil && !reflect.DeepEqual(got, want):
		t.Fatalf("library: %#v, kubectl %#v, of %q", got, want, text)
	}
	s := yamlscan.Look(text)
	if s.Control >= 0 || s.Invalid >= 0 || s.Returns || s.Breaks {
		return false
	}
	var b yamlscan.Scanner
	scanned, ok := b.Decode(text, s.Tabs)
	if ok && (err != nil || !reflect.DeepEqual(scanned, want)) {
		t.Fatalf("scanner: %#v, kubectl %#v (%v), of %q", scanned, want, err, text)
	}
	return ok
}

func FuzzDecode(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) { checkDecode(t, text) })
}

// checkRead reads text and compares every position with the text. It returns the number of compared bytes of values.
func checkRead(t *testing.T, text string) (checked int) {
	documents, problems := Read(strings.NewReader(text), "f")
	lines := strings.Split(text, "\n")
	inside := func(p policy.Position, what string) {
		if p.File != "f" || p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 {
			t.Fatalf("%s at %v of %q", what, p, text)
		}
	}
	for _, p := range problems {
		if p.Message == "" || strings.ContainsAny(p.Message, "\n\r\x00") || !utf8.ValidString(p.Message) {
			t.Fatalf("message %q of %q", p.Message, text)
		}
		if p.Position.IsValid() {
			inside(p.Position, p.Message)
		}
	}
	for _, d := range documents {
		inside(d.Position(), "document")
		if d.Object["kind"] == "" || d.Object["apiVersion"] == "" {
			t.Fatalf("object %v of %q", d.Object, text)
		}
		if len(d.Source.places().Entries) == 0 {
			continue // the library of places does not know the text
		}
		var walk func(v any, path string)
		walk = func(v any, path string) {
			switch v := v.(type) {
			case map[string]any:
				for k, member := range v {
					if path == "" && d.Item != "" && (k == "apiVersion" || k == "kind") {
						continue // may come from the List
					}
					walk(member, path+"["+strconv.Quote(k)+"]")
				}
			case []any:
				for i, item := range v {
					walk(item, path+"["+strconv.Itoa(i)+"]")
				}
			case string:
				place := d.Place(path)
				inside(place.Locate(len(v)), path)
				for i := range len(v) {
					p := place.Locate(i)
					inside(p, path)
					if v[i] <= ' ' || v[i] >= utf8.RuneSelf {
						continue
					}
					checked++
					line := lines[p.Line-1]
					if p.Column > len(line) || line[p.Column-1] != v[i] && line[p.Column-1] != '\\' {
						t.Fatalf("byte %d (%q) of %s = %q is placed at %v of %q", i, v[i], path, v, p, text)
					}
				}
			default:
				inside(d.Place(path).Locate(0), path)
			}
		}
		walk(d.Object, "")
	}
	return checked
}

func FuzzRead(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) { checkRead(t, text) })
}

// randomYAML returns a text made of pieces of YAML. Such texts cover more rules than random bytes do.
func randomYAML(seed int) string {
	keys := []string{"a: ", "b: ", "c:", "key:", "a.b/c: ", "'q': ", "d:  ", "items:", "e: ", `"d q": `, "on: ", "12: ",
		"x :", "? k", "<<: "}
	values := []string{
		"", "", "", "", "v", "two words", "|", "|-", "|+", `"x"`, `"a\n\"b"`, "'it''s'", "{}", "[]",
		"{a: 1, b: [x, \"y\"]}", "[1, 2.5, -v]",
		"~", "yes", "0777", "1.0", "100m", "-1", "# c", "v # c", "v#c", "a:b", "http://x/?a=b#c", "v ", "é", "v, w",
		`"a" # c`, "[a, [b, {c: d}]]",
		">", ">-", "| ", "|2", `"open`, "'open", "[a, b", "{a}", "{a: }", "-", "- x", "a: b", "x:", "&n v", "*n",
		"!!str 1",
		"\tv", "v\tw", "@x", "%x", "...", "---", "{{ x }}", `{"a": "b", 'c': d}`, "{a: b, a: c}", `"a"#c`, "[] x", "- - y", "v\t# c", "v:\t",
	}
	indents := []string{"", "", "  ", "  ", "    ", "    ", "      ", " ", "\t"}
	dashes := []string{"", "", "", "- ", "- ", "-   ", "- - ", "-", "-\t", "--"}
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	tame := r.IntN(2) == 0 // mostly supported by the scanner
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
	return text.String()
}

// rounds returns how many random texts a test takes.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil {
		return n
	}
	return 1000
}

func TestDecodeRandom(t *testing.T) {
	scanned := 0
	for seed := range rounds() {
		if checkDecode(t, randomYAML(seed)) {
			scanned++
		}
	}
	if scanned < rounds()/20 {
		t.Errorf("the scanner took only %d of %d texts", scanned, rounds())
	}
}

// randomScalars returns an object whose values are written in all styles, over several lines.
func randomScalars(seed int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 2))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	words := func(more ...string) string {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(
				pick(append(more, "one", "two", "x.y()", "é", "a:b", "c#d", ",", "-", "[i]", "{", "\t", "  ")...),
			)
			b.WriteString(pick("", " "))
		}
		return b.String()
	}
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: A\ndata:\n")
	for i := range 1 + r.IntN(3) {
		key := "  k" + strconv.Itoa(i) + ": " + pick("", "", "", "!!str ", "&a ", "!!str &b\n    ")
		breaks := func() string { return pick("\n", "\n", "\n\n", "\n  \n", " \n", "\r\n") + pick("    ", "     ", "   ") }
		quoted := func(more ...string) string {
			t := words(more...)
			for range r.IntN(3) {
				t += breaks() + words(more...)
			}
			return t
		}
		switch r.IntN(6) {
		case 0:
			text.WriteString(key + "w" + quoted() + "\n")
		case 1:
			text.WriteString(key + "'" + quoted("''", "\"", "\\") + "'\n")
		case 2:
			text.WriteString(
				key + "\"" + quoted(
					"'",
					`\n`,
					`\"`,
					`\\`,
					`\x41`,
					`\u20ac`,
					`\U0001F600`,
					`\_`,
					"\\\n    ",
					`\/`,
				) + "\"\n",
			)
		default:
			indent := pick("   ", "    ", "      ")
			indicator := pick("", "", "-", "+")
			if r.IntN(4) == 0 {
				indent = "    "
				indicator = pick("2", "-2", "2+", "+2")
			}
			text.WriteString(
				key + pick("|", "|", ">") + indicator + pick("", "", " ", " # c") + pick("\n", "\n", "\r\n"),
			)
			for range 1 + r.IntN(4) {
				text.WriteString(pick("", "", "\n", "  \n", indent+"\n", indent+" \n"))
				text.WriteString(
					indent + pick(
						"",
						"",
						"",
						"  ",
						"\t",
					) + words(
						"\"",
						"'",
						"\\",
					) + pick(
						"\n",
						"\n",
						"\n",
						"\n\n",
						"\r\n",
						"",
					),
				)
				if !strings.HasSuffix(text.String(), "\n") {
					text.WriteString("\n")
				}
			}
		}
	}
	return strings.TrimSuffix(text.String(), pick("\n", "", ""))
}

// TestPlainRandom compares scalars that may be numbers, dates or words with a meaning.
func TestPlainRandom(t *testing.T) {
	pieces := []string{
		"0",
		"1",
		"7",
		"9",
		"2024",
		"12",
		"9223372036854775807",
		"_",
		"+",
		"-",
		".",
		"e",
		"E",
		"x",
		"0x",
		"0o",
		"0b",
		"b",
		"inf",
		"nan",
		"y",
		"on",
		":",
		"T",
		"t",
		"Z",
		"~",
	}
	for seed := range 5 * rounds() {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		s := ""
		for range 1 + r.IntN(6) {
			s += pieces[r.IntN(len(pieces))]
		}
		checkDecode(t, "- "+s+"\n- {k: "+s+"}\n")
		checkDecode(t, s+": v\n")
	}
}

func TestReadRandom(t *testing.T) {
	checked := 0
	for seed := range rounds() {
		checkRead(t, randomYAML(seed))
		checkRead(t, "apiVersion: v1\nkind: A\ndata:\n"+randomYAML(seed)+"\nlast: "+randomYAML(-seed))
		checked += checkRead(t, randomScalars(seed))
	}
	if checked < rounds() {
		t.Errorf("only %d bytes of %d texts had a place", checked, rounds())
	}
}
