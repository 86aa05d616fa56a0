package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlaces has a place for every page of the repository.
func TestPlaces(t *testing.T) {
	sections, err := arrange("../..")
	if err != nil {
		t.Fatal(err)
	}
	urls := map[string]string{}
	for _, s := range sections {
		for _, p := range s.Pages {
			if other, taken := urls[p.URL]; taken {
				t.Errorf("%s and %s are both %s", other, p.Source, p.URL)
			}
			urls[p.URL] = p.Source
		}
	}
	for url, source := range map[string]string{"/": "README.md", "/docs/apply/": "docs/apply.md", "/docs/guide/": "docs/guide/README.md"} {
		if urls[url] != source {
			t.Errorf("%s is %q, not %s", url, urls[url], source)
		}
	}
}

// TestCheck finds each kind of dead link, and follows the others.
func TestCheck(t *testing.T) {
	out := t.TempDir()
	for name, text := range map[string]string{
		"index.html":     `<a href="./a/">page</a> <a href="a/#here">part</a> <a href="a/picture.png">file</a> <a href="https://example.com/">other site</a>`,
		"a/index.html":   `<h2 id="here">x</h2><a href="../">home</a><a href="#here">part</a><a href="` + repository + `/site_test.go">file</a>`,
		"a/picture.png":  "",
		"bad/index.html": `<a href="../none/">1</a><a href="../a/#none">2</a><a href="#none">3</a><a href="` + repository + `/none.go">4</a>`,
	} {
		file := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	links, err := check(".", out)
	if err == nil {
		t.Fatal("no link is dead")
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 4 || links != 10 {
		t.Errorf("%d links, and of them dead:\n%v", links, err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, "bad/index.html ") {
			t.Error(line)
		}
	}
}
