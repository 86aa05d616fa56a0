package schema_test

import (
	"testing"
	"testing/fstest"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
)

var thing = schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"}

const index = "group g/v1\nkind Thing a/b.Thing\nresource things Thing cluster\n"

func files(texts ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i := 0; i < len(texts); i += 2 {
		out[texts[i]] = &fstest.MapFile{Data: []byte(texts[i+1])}
	}
	return out
}

func TestOpen(t *testing.T) {
	r, err := schema.Open(files("index", index,
		"a_b", "package a/b\nimport c/d\nstruct Thing !\n\tone\tOther\tpear\t[1,1.5]\n\ttwo\td/e.X\tg\nstruct Other\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Type(thing) != nil {
		t.Error("a package without its import has types")
	}

	r, err = schema.Open(files("index", index,
		"a_b", "package a/b\nimport c/d\nstruct Thing !\n\tone\tOther\tpear\t[1,1.5]\n\ttwo\tc/d.X\tg\nstruct Other\n",
		"c_d", "package c/d\nstruct X !\n"))
	if err != nil {
		t.Fatal(err)
	}
	typ := r.Type(thing)
	if typ == nil || typ.Merge != shape.Atomic || typ.Name != "a/b.Thing" {
		t.Fatalf("%+v", typ)
	}
	one, two := typ.Field("one"), typ.Field("two")
	if !one.Pointer || !one.OmitEmpty || !one.Atomic || !one.Required || one.Default.([]any)[0] != int64(1) ||
		one.Default.([]any)[1] != 1.5 {
		t.Errorf("one: %+v", one)
	}
	if two.Type.Merge != shape.Granular || two.Type.Name != "c/d.X" {
		t.Errorf("two: %+v", two.Type)
	}
}

// Tables that no generator writes give errors or no types, and end.
func TestOpenBroken(t *testing.T) {
	for name, text := range map[string]string{
		"no index": "", "unknown line": "odd\n", "kind without package": "group g/v1\nkind Thing Thing\n",
		"version": "group a/b/c\n", "version of a subresource": "resource a B cluster\nsub s a/b/c K\n",
		"subresource of nothing": "sub s v1 K\n",
	} {
		broken := files("index", text)
		if text == "" {
			broken = fstest.MapFS{}
		}
		if _, err := schema.Open(broken); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, table := range map[string]string{
		"cycle":        "package a/b\nimport a/b\nstruct Thing\n\tx\ta/b.Other\t\nstruct Other\n",
		"undefined":    "package a/b\nstruct Thing\n\tx\tOther\t\n",
		"union":        "package a/b\nunion Thing\n",
		"union type":   "package a/b\nunion Thing string []{x\n",
		"line":         "package a/b\nother Thing\n",
		"flag":         "package a/b\nstruct Thing\n\tx\tstring\t?\n",
		"default":      "package a/b\nstruct Thing\n\tx\tstring\t\t{\n",
		"type":         "package a/b\nstruct Thing\n\tx\tno/where.X\t\n",
		"keys":         "package a/b\nstruct Thing\n\tx\t[]{a\t\n",
		"other kind":   "package a/b\nstruct Other\n",
		"missing file": "",
	} {
		parts := files("index", index, "a_b", table)
		if table == "" {
			delete(parts, "a_b")
		}
		r, err := schema.Open(parts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if typ := r.Type(thing); typ != nil {
			t.Errorf("%s: %+v", name, typ)
		}
	}
}
