package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRestrict leaves the builds of one platform, of the configuration as it is.
func TestRestrict(t *testing.T) {
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := restrict(text, []string{"windows_arm64"})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Dist   string
		Builds []struct {
			ID      string
			Targets []string
			Skip    bool
		}
	}
	if err := yaml.Unmarshal(got, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Builds) != 2 || config.Dist != folder {
		t.Fatalf("%+v", config)
	}
	if b := config.Builds[0]; b.ID != "celgate" || !slices.Equal(b.Targets, []string{"windows_arm64"}) || b.Skip {
		t.Errorf("%+v", b)
	}
	if b := config.Builds[1]; b.ID != "celgate-webhook" || !b.Skip { // clusters run on Linux
		t.Errorf("%+v", b)
	}
	if _, err := restrict(text, []string{"plan9_amd64"}); err == nil || !strings.Contains(err.Error(), "linux_amd64") {
		t.Errorf("an unknown platform: %v", err)
	}
}

// TestCompare names each file that two builds do not have in common.
func TestCompare(t *testing.T) {
	a := map[string]string{"same": "1", "other": "1", "first": "1"}
	err := compare(a, map[string]string{"same": "1", "other": "2", "second": "1"})
	if err == nil {
		t.Fatal("nothing differs")
	}
	for _, name := range []string{"other", "first", "second"} {
		if !strings.Contains(err.Error(), name+" ") {
			t.Errorf("%s is not named:\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "same ") {
		t.Errorf("same files differ:\n%v", err)
	}
	if err := compare(a, a); err != nil {
		t.Error(err)
	}
}
