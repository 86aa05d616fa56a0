package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// documents are the OpenAPI v3 documents of the server, by their path.
func documents(t *testing.T) map[string][]byte {
	t.Helper()
	get := func(path string) []byte {
		path, _, _ = strings.Cut(path, "?")
		answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet, Path: path})
		if err == nil && answer.Code == http.StatusNotFound && path != "/openapi/v3" {
			return nil // a group whose definitions were just deleted by another test
		}
		if err != nil || answer.Code != http.StatusOK {
			t.Fatal(path, err, answer)
		}
		return answer.Body
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(get("/openapi/v3"), &index); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for path, of := range index.Paths {
		if strings.Count(path, "/") > 0 && strings.HasPrefix(path, "api") {
			if text := get(of.ServerRelativeURL); len(text) > 0 {
				all[path] = text
			}
		}
	}
	return all
}

// TestOpenAPIKeepsTables reads the documents of the server from which the tables were generated: nothing may change.
func TestOpenAPIKeepsTables(t *testing.T) {
	tables, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for path, text := range documents(t) {
		types, err := tables.OpenAPITypes(text)
		if err != nil {
			t.Fatal(path, err)
		}
		for kind, got := range types {
			want := tables.Type(kind)
			if want == nil {
				continue
			}
			kinds++
			c := comparison{seen: map[[2]*shape.Type]bool{}}
			c.compare(kind.String(), got, want)
			for _, difference := range c.differences {
				t.Error(difference)
			}
		}
	}
	if kinds < 140 {
		t.Errorf("only %d kinds were compared", kinds)
	}
}

// TestOpenAPIAlone builds types from the documents alone: members and merge rules must be those of the tables.
func TestOpenAPIAlone(t *testing.T) {
	tables, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range documents(t) {
		types, err := (&schema.Registry{}).OpenAPITypes(text)
		if err != nil {
			t.Fatal(path, err)
		}
		for kind, got := range types {
			if want := tables.Type(kind); want != nil {
				c := comparison{alone: true, seen: map[[2]*shape.Type]bool{}}
				c.compare(kind.String(), got, want)
				for _, difference := range c.differences {
					t.Error(difference)
				}
			}
		}
	}
}

// A comparison of two types that may occur in themselves.
type comparison struct {
	alone       bool // got does not contain want: values that only tables have are not compared
	seen        map[[2]*shape.Type]bool
	differences []string
}

func (c *comparison) compare(at string, got, want *shape.Type) {
	if c.seen[[2]*shape.Type{got, want}] {
		return
	}
	c.seen[[2]*shape.Type{got, want}] = true
	differ := func(format string, args ...any) {
		c.differences = append(c.differences, at+": "+fmt.Sprintf(format, args...))
	}
	if c.alone && (got.Kind == shape.Any || want.Kind == shape.Any || want.Kind == shape.Union ||
		strings.HasSuffix(at, ".metadata")) {
		return // not described
	}
	if got.Kind != want.Kind && !(c.alone && got.Kind == shape.String && want.Kind == shape.Duration) {
		differ("kind %d, not %d", got.Kind, want.Kind)
		return
	}
	if got.Merge != want.Merge || !slices.Equal(got.Keys, want.Keys) {
		differ("merges as %d %v, not %d %v", got.Merge, got.Keys, want.Merge, want.Keys)
	}
	if got.Elem != nil && want.Elem != nil {
		c.compare(at+"[]", got.Elem, want.Elem)
	}
	for _, f := range want.Fields {
		g := got.Field(f.Name)
		if g == nil {
			differ("no %s", f.Name)
			continue
		}
		if !c.alone &&
			(g.Pointer != f.Pointer || g.OmitEmpty != f.OmitEmpty || g.OmitZero != f.OmitZero || g.Atomic != f.Atomic) {
			differ("%s: other flags", f.Name)
		}
		c.compare(at+"."+f.Name, g.Type, f.Type)
	}
	if len(got.Fields) != len(want.Fields) {
		differ("%d members, not %d", len(got.Fields), len(want.Fields))
	}
}
