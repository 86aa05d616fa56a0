package conformance

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/tree"
)

// Settle returns a copy of an object without values that differ from run to run. These are all the rules:
//
//  1. metadata.uid, creationTimestamp, managedFields, resourceVersion, generation and selfLink are removed.
//  2. Every other string that holds the object's uid holds "<uid>" instead.
//  3. A name that the server made from metadata.generateName ends in "<random>".
//  4. In a v1 Service every address of its own but None is "<address>", and every node port "<port>".
//  5. The current time that the server writes into status (conditions, startTime and the like) is "<time>".
//  6. The name of the volume with the token of a service account ends in "<random>".
func Settle(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	object = runtime.DeepCopyJSON(object)
	metadata := tree.Object(object).Metadata()
	uid, _ := metadata["uid"].(string)
	for _, member := range []string{"uid", "creationTimestamp", "managedFields", "resourceVersion", "generation",
		"selfLink"} {
		delete(metadata, member)
	}
	if uid != "" {
		object = replaceStrings(object, func(s string) string {
			return strings.ReplaceAll(s, uid, "<uid>")
		}).(map[string]any)
		metadata = tree.Object(object).Metadata()
	}
	object = replaceStrings(object, func(s string) string {
		if tokenVolume.MatchString(s) {
			return "kube-api-access-<random>"
		}
		return s
	}).(map[string]any)
	generate, _ := metadata["generateName"].(string)
	if name, _ := metadata["name"].(string); generate != "" && len(name) > len(generate) &&
		strings.HasPrefix(name, generate) {
		metadata["name"] = generate + "<random>"
	}
	if object["apiVersion"] == "v1" && object["kind"] == "Service" {
		settleService(object)
	}
	if status, ok := object["status"].(map[string]any); ok {
		settleTimes(status)
	}
	return object
}

// Strip returns a copy of a status without values that differ from run to run:
//
//  1. its apiVersion and kind, which not every caller sets;
//  2. the managedFields of an object that a message quotes;
//  3. the kind of space behind "proto:", which package protobuf chooses for each build of a program;
//  4. the place where a scheme was made, which a program that is built from Go modules does not know;
//  5. the order of several wrong type names of an Object literal, which is that of a Go map.
func Strip(status *metav1.Status) *metav1.Status {
	status = status.DeepCopy()
	status.TypeMeta = metav1.TypeMeta{}
	settle := func(message *string) {
		*message = strings.ReplaceAll(quotedManagedFields.ReplaceAllString(*message, ""), "\u00a0", " ")
		*message = namedScheme.ReplaceAllString(*message, `in scheme "<scheme>"`)
		if before, names, ok := strings.Cut(*message, "type mismatch: "); ok {
			lines := strings.Split(names, "\n")
			slices.Sort(lines)
			*message = before + "type mismatch: " + strings.Join(lines, "\n")
		}
	}
	settle(&status.Message)
	if status.Details != nil {
		for i := range status.Details.Causes {
			settle(&status.Details.Causes[i].Message)
		}
	}
	return status
}

var tokenVolume = regexp.MustCompile(`^kube-api-access-[b-z2-9]{5}$`)

var namedScheme = regexp.MustCompile(`in scheme "[^"]*"`)

var quotedManagedFields = regexp.MustCompile(`"managedFields":\[.*?"\}\],`)

func settleService(service map[string]any) {
	spec, _ := service["spec"].(map[string]any)
	hide := func(of map[string]any, name string, by any) {
		if v, ok := of[name]; ok && v != "None" {
			of[name] = by
		}
	}
	hide(spec, "clusterIP", "<address>")
	if ips, _ := spec["clusterIPs"].([]any); len(ips) > 0 && ips[0] != "None" {
		for i := range ips {
			ips[i] = "<address>"
		}
	}
	hide(spec, "healthCheckNodePort", "<port>")
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		if port, ok := port.(map[string]any); ok {
			hide(port, "nodePort", "<port>")
		}
	}
}

// settleTimes replaces the values of members whose name ends in Time.
func settleTimes(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			if _, ok := value.(string); ok && strings.HasSuffix(name, "Time") {
				tree[name] = "<time>"
			}
			settleTimes(value)
		}
	case []any:
		for _, item := range tree {
			settleTimes(item)
		}
	}
}

// replaceStrings returns the tree, changed in place, with every string value replaced.
func replaceStrings(tree any, replace func(string) string) any {
	switch tree := tree.(type) {
	case string:
		return replace(tree)
	case []any:
		for i, item := range tree {
			tree[i] = replaceStrings(item, replace)
		}
	case map[string]any:
		for name, value := range tree {
			tree[name] = replaceStrings(value, replace)
		}
	}
	return tree
}

// Differs returns an object if its encoding differs from that of another one, otherwise nil. The numbers 2 and 2.0 have
// the same encoding.
func Differs(object, other map[string]any) map[string]any {
	one, _ := yaml.Marshal(object) // both come from JSON
	two, _ := yaml.Marshal(other)
	if bytes.Equal(one, two) {
		return nil
	}
	return object
}
