package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// lone are words that must not be the whole name of a function: prepositions, conjunctions, adverbs and adjectives.
// Established names in Go are exempt: Each and Next of iterators, At of an index, and As, From, To, With and Without of
// conversions and copies.
var lone = words(`about after again alike alone among and around aside at atomic before behind below beside besides
	between beyond bare both brief by certain composite deep due exact for free fresh gone here idempotent in inside
	into last late latest lenient less light more most near nearly never no none not now of on once only optional or
	other others otherwise out over partial plain present same several similar simple single small special stuck there
	together trivial twice under unfit unique unknown until upper visible when whole why within wrong`)

// prepositions are those that no name begins with, either.
var prepositions = words(`about among and aside at before behind below beside besides between beyond by for in inside into
	nearly never of on or under until when why within`)

// participles are the irregular ones; the others end with "ed".
var participles = words(`begun drawn given gone held hidden kept known lost made meant met misread overdrawn ran read said
	sent seen shown spent stuck taken thought told understood unread unseen unset withheld written`)

// named are the functions with such a name that still describes their effect.
var named = words(`at atUsing embed exceed feed forEach forget format need proceed read seed unset`)

func words(list string) map[string]bool {
	of := map[string]bool{}
	for _, w := range strings.Fields(list) {
		of[w] = true
	}
	return of
}

// isMisnamed reports the name of a function that is neither a verb nor a noun: one that begins with a preposition, or
// is a participle or an adjective.
func isMisnamed(name string) bool {
	lower := strings.ToLower(name[:1]) + name[1:]
	if named[lower] {
		return false
	}
	first := lower
	if end := strings.IndexFunc(lower, unicode.IsUpper); end > 0 {
		first = lower[:end]
		return prepositions[first]
	}
	return lone[first] || participles[first] || strings.HasSuffix(first, "ed")
}

func TestFunctionsHaveVerbsForNames(t *testing.T) {
	for _, name := range []string{"held", "Settled", "within", "ofJob", "idempotent", "byName", "orNull"} {
		if !isMisnamed(name) {
			t.Errorf("%s passes as a name", name)
		}
	}
	for _, name := range []string{"holds", "newX", "labelsOf", "isHeld", "toTree", "WithObject", "inventory", "Each"} {
		if isMisnamed(name) {
			t.Errorf("%s does not pass as a name", name)
		}
	}
	found := 0
	eachFile(t, func(files *token.FileSet, _ string, file *ast.File) {
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				found++
				if isMisnamed(f.Name.Name) {
					t.Errorf("%s: %s is neither a verb nor a noun", files.Position(f.Pos()), f.Name.Name)
				}
			}
		}
	})
	if found < 1000 {
		t.Errorf("only %d functions were found", found)
	}
}

// eachFile calls visit with each source file of every module, except tests, and its path in the repository.
func eachFile(t *testing.T, visit func(files *token.FileSet, path string, file *ast.File)) {
	t.Helper()
	root, files := filepath.Join("..", ".."), token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "testdata" || name != ".." && strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(root, path)
		visit(files, filepath.ToSlash(in), file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
