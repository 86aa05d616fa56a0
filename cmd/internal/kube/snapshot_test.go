package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestSnapshot reads each object once, including missing ones, and reads a whole collection once many of its objects
// are requested.
func TestSnapshot(t *testing.T) {
	f, client := startFake(t)
	for i := range 30 {
		name := fmt.Sprintf("c%02d", i)
		f.put("/api/v1/namespaces/default/configmaps/"+name, configMap(name, "1"))
	}
	s, err := client.Snapshot(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	f.reads = nil
	for range 2 {
		if c, err := s.Get(t.Context(), configMapKind, "default", "c00"); c == nil || err != nil {
			t.Error(c, err)
		}
		if c, err := s.Get(t.Context(), configMapKind, "default", "none"); c != nil || err != nil {
			t.Error(c, err)
		}
	}
	f.put("/api/v1/namespaces/default/configmaps/c00", configMap("c00", "2"))
	if c, _ := s.Get(t.Context(), configMapKind, "default", "c00"); c["data"].(map[string]any)["v"] != "1" {
		t.Error("a snapshot changed", c)
	}
	if want := []string{"/api/v1/namespaces/default/configmaps/c00",
		"/api/v1/namespaces/default/configmaps/none"}; !slices.Equal(f.reads, want) {
		t.Error(f.reads)
	}
	for i := range 30 {
		if c, err := s.Get(t.Context(), configMapKind, "default", fmt.Sprintf("c%02d", i)); c == nil || err != nil {
			t.Error(i, c, err)
		}
	}
	if len(f.reads) > many {
		t.Errorf("%d objects were read one by one", len(f.reads))
	}
	if c, err := s.Get(t.Context(), configMapKind, "default", "neither"); c != nil || err != nil {
		t.Error(c, err)
	}

	f.gone["/api/v1/namespaces/default"] = 403
	if s.Err() != nil {
		t.Error(s.Err())
	}
	for range 2 {
		if _, err := s.Get(t.Context(), namespaceKind, "", "default"); err == nil {
			t.Error("what is forbidden was read")
		}
	}
	if err := s.Err(); err == nil || strings.Count(err.Error(), "\n") != 0 {
		t.Error(err)
	}

	for _, name := range []string{"dev", "nobody"} {
		decision, reason, err := s.Authorizer().Authorize(t.Context(),
			authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Verb: "get", ResourceRequest: true})
		if (decision == authorizer.DecisionAllow) != (name == "dev") || reason != "asked" || err != nil {
			t.Error(name, decision, reason, err)
		}
	}
}
