package static

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// configGroup is the API group of the server's own configuration files.
const configGroup = "apiserver.config.k8s.io"

// plugins maps the names of the admission plugins for policies to the kinds with the same names.
var plugins = map[string]policy.Kind{
	string(policy.Validating): policy.Validating,
	string(policy.Mutating):   policy.Mutating,
}

// ConfiguredDirs returns the directories of static policies in an AdmissionConfiguration, the file of the server's flag
// --admission-control-config-file, and the other plugins that it configures, which celgate ignores (apiserver
// pkg/admission/config.go and pkg/admission/plugin/policy/config/config.go v0.37.2).
func ConfiguredDirs(file string) (dirs []Dir, others []string, err error) {
	d, err := readSingle(file)
	if err != nil {
		return nil, nil, err
	}
	if v := d.Object["apiVersion"]; v != configGroup+"/v1" && v != "apiserver.k8s.io/v1alpha1" ||
		d.Object["kind"] != "AdmissionConfiguration" {
		return nil, nil, problemAt(d, "", fmt.Sprintf("%v %v is not an AdmissionConfiguration of %s/v1", v, d.Object["kind"],
			configGroup))
	}
	if err := unknownFields(d, d.Object, "", "apiVersion", "kind", "plugins"); err != nil {
		return nil, nil, err
	}
	given, _ := d.Object["plugins"].([]any)
	var errs []error
	seen := map[string]bool{}
	for i, one := range given {
		at := fmt.Sprintf("plugins[%d]", i)
		plugin, _ := one.(map[string]any)
		if plugin == nil {
			errs = append(errs, problemAt(d, at, "must be an object"))
			continue
		}
		if err := unknownFields(d, plugin, at+".", "name", "path", "configuration"); err != nil {
			errs = append(errs, err)
		}
		name, _ := plugin["name"].(string)
		kind, known := plugins[name]
		if seen[name] { // the server uses the first
			continue
		}
		seen[name] = true
		if !known {
			others = append(others, name)
			continue
		}
		dir, err := directoryOf(d, plugin, at, kind)
		if err != nil {
			errs = append(errs, err)
		} else if dir != "" {
			dirs = append(dirs, Dir{dir, kind})
		}
	}
	return dirs, others, errors.Join(errs...)
}

// directoryOf returns the directory in the configuration of a policy plugin; "" if it does not name one.
func directoryOf(d *manifest.Document, plugin map[string]any, at string, kind policy.Kind) (string, error) {
	config, _ := plugin["configuration"].(map[string]any)
	at += ".configuration."
	if elsewhere, _ := plugin["path"].(string); config == nil && elsewhere != "" {
		if !path.IsAbs(elsewhere) {
			elsewhere = filepath.Join(filepath.Dir(d.Position().File), elsewhere)
		}
		other, err := readSingle(elsewhere)
		if err != nil {
			return "", err
		}
		d, config, at = other, other.Object, ""
	}
	if config == nil {
		return "", nil
	}
	if want := string(kind) + "Configuration"; config["apiVersion"] != configGroup+"/v1" || config["kind"] != want {
		return "", problemAt(d, at+"kind", fmt.Sprintf("%v %v is not a %s of %s/v1", config["apiVersion"], config["kind"], want,
			configGroup))
	}
	if err := unknownFields(d, config, at, "apiVersion", "kind", "staticManifestsDir"); err != nil {
		return "", err
	}
	at += "staticManifestsDir"
	dir, isText := config["staticManifestsDir"].(string)
	switch {
	case config["staticManifestsDir"] != nil && !isText:
		return "", problemAt(d, at, "must be a text")
	case dir == "":
		return "", nil
	case !path.IsAbs(dir):
		return "", problemAt(d, at, fmt.Sprintf("Invalid value: %q: must be an absolute file path", dir))
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", problemAt(d, at, fmt.Sprintf("Invalid value: %q: unable to read: %v", dir, err))
	case !info.IsDir():
		return "", problemAt(d, at, fmt.Sprintf("Invalid value: %q: must be a directory", dir))
	}
	return dir, nil
}

// readSingle reads a file with a single document.
func readSingle(file string) (*manifest.Document, error) {
	docs, problems := manifest.Load(file)
	switch {
	case len(problems) > 0:
		return nil, problems[0]
	case len(docs) != 1:
		return nil, fmt.Errorf("%s: %d documents in place of one", file, len(docs))
	}
	return docs[0], nil
}

// unknownFields returns an error for a member that the server does not know; prefix is the path of the object.
func unknownFields(d *manifest.Document, object map[string]any, prefix string, known ...string) error {
	names := map[string]bool{}
	for _, name := range known {
		names[name] = true
	}
	var errs []error
	for name := range object {
		if !names[name] {
			errs = append(errs, problemAt(d, prefix+name, fmt.Sprintf("unknown field %q", prefix+name)))
		}
	}
	return errors.Join(errs...)
}

// problemAt returns a problem with the value at a path; "" is the whole document.
func problemAt(d *manifest.Document, at, message string) error {
	place := d.Position()
	if at != "" {
		place, message = d.Place(at).Locate(0), at+": "+message
	}
	return manifest.Problem{Position: place, Message: message}
}
