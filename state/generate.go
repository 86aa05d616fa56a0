//go:build ignore

// Generate writes bootstrap.json: the roles and bindings that a kube-apiserver creates at startup, one object per line.
// It reads the files that the tests of k8s.io/kubernetes compare with its bootstrap policy.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const module = "k8s.io/kubernetes@v1.37.2"

func main() {
	log.SetFlags(0)
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		log.Fatalf("%s: %v", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		log.Fatal(err)
	}
	folder := filepath.Join(downloaded.Dir, "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata")
	var lines bytes.Buffer
	for _, name := range []string{
		"cluster-roles.yaml", "cluster-role-bindings.yaml", "controller-roles.yaml", "controller-role-bindings.yaml",
		"namespace-roles.yaml", "namespace-role-bindings.yaml",
	} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			log.Fatal(err)
		}
		var list map[string]any
		if err := yaml.Unmarshal(text, &list); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		if err := write(&lines, list); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile("bootstrap.json", lines.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// write writes the objects of a List, which may contain Lists, one per line.
func write(lines *bytes.Buffer, object map[string]any) error {
	items, isList := object["items"].([]any)
	if !isList {
		if object["rules"] == nil {
			delete(object, "rules") // null for roles with aggregated rules
		}
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		lines.Write(text)
		lines.WriteByte('\n')
		return nil
	}
	for _, item := range items {
		o, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is not an object", item)
		}
		if err := write(lines, o); err != nil {
			return err
		}
	}
	return nil
}
