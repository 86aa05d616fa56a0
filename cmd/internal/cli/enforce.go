package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/api/meta"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// failOn are the findings that --fail-on accepts: they make an otherwise clean run fail.
var failOn = []string{"warn", "unbound", "unmatched", "unknown-namespace", "note"}

// A strictness counts the findings that --fail-on names.
type strictness struct {
	names   []string
	strict  bool // all of them
	found   map[string]int
	matched map[policy.Ref]bool
}

func (s *strictness) check() error {
	for _, name := range s.names {
		if !slices.Contains(failOn, name) {
			err := &usageError{fmt.Errorf("--fail-on accepts %s, not %q", strings.Join(failOn, ", "), name)}
			if similar := spell.Nearest(name, failOn, 2); similar != "" {
				return withHint(err, "did you mean %s?", similar)
			}
			return err
		}
	}
	s.found, s.matched = map[string]int{}, map[policy.Ref]bool{}
	return nil
}

// count counts the findings of a decision.
func (s *strictness) count(d *celgate.Decision) {
	for _, o := range d.Outcomes {
		s.matched[o.Kind.Ref(o.Policy)] = true
	}
	for _, v := range d.Violations {
		s.matched[v.Kind.Ref(v.Policy)] = true
	}
	s.found["warn"] += len(d.Warnings)
	for _, n := range d.Notes {
		switch {
		case n.Topic == unknownNamespace:
			s.found["unknown-namespace"]++
		default:
			s.found["note"]++
		}
	}
}

// judge raises the exit status for the findings, and prints the reasons.
func (s *strictness) judge(c *console, force *policy.Set) {
	var idle []string
	for _, p := range force.Policies {
		if !s.matched[p.Ref()] {
			idle = append(idle, p.Name)
		}
	}
	s.found["unmatched"] = len(idle)
	words := map[string]string{
		"warn":              "warnings of policies and the server: %d",
		"unbound":           "policies and bindings without their other half: %d",
		"unmatched":         "policies that matched none of the objects: %d (" + listFew(idle) + ")",
		"unknown-namespace": "objects in namespaces of unknown labels: %d",
		"note":              "notes: %d",
	}
	for _, name := range failOn {
		if n := s.found[name]; n > 0 && (s.strict || slices.Contains(s.names, name)) {
			c.raise(exitDenied)
			c.say("--fail-on="+name+": "+fmt.Sprintf(words[name], n), "")
		}
	}
}

// requirePolicies raises the exit status to 2 if policies were given and none of them is in force.
func (c *console) requirePolicies(given []string, force *policy.Set) {
	if len(given) > 0 && len(force.Policies) == 0 {
		c.raise(exitFailed)
		c.say("nothing is enforced: none of the policies of "+strings.Join(given, ", ")+" is in force",
			"a policy is in force if the server would store it and a binding names it")
	}
}

// policyKinds are the kinds of policies and bindings.
var policyKinds = []string{
	string(policy.Validating), policy.Validating.Binding(), string(policy.Mutating), policy.Mutating.Binding(),
	string(policy.Admission), policy.Admission.Binding(), policy.NamespacedBinding,
}

const nativeGroup = "admissionregistration.k8s.io"

// guessKind returns the kind of policy that was probably meant by an unknown kind; "" for a known kind.
func (w *world) guessKind(kind apischema.GroupVersionKind) string {
	if w.types.Type(kind) != nil {
		return ""
	}
	near := func(a, b string) bool { return spell.Distance(a, b) <= 3 }
	group := near(kind.Group, nativeGroup) || near(kind.Group, policy.OwnGroup)
	known := slices.Contains(policyKinds, kind.Kind)
	if !group && !known {
		return ""
	}
	meant := kind.Kind
	if !known {
		if meant = spell.Nearest(kind.Kind, policyKinds, 6); meant == "" || kind.Kind == "PolicyBinding" ||
			kind.Kind == "Policy" {
			meant = string(policy.Validating) + " or " + string(policy.Mutating)
			if _, binds := policy.KindOf(kind.Kind); binds {
				meant = policy.Validating.Binding() + " or " + policy.Mutating.Binding()
			}
		}
	}
	apiVersion := nativeGroup + "/v1"
	if near(kind.Group, policy.OwnGroup) {
		apiVersion = policy.OwnGroup + "/v1"
	}
	if family, _ := policy.KindOf(meant); family == policy.Admission {
		apiVersion = policy.Dialect
	}
	return apiVersion + " " + meant
}

// engines are the groups of other policy engines, with advice about their policies.
var engines = []struct{ suffix, name, todo string }{
	{"kyverno.io", "Kyverno", "write it as a ValidatingAdmissionPolicy or MutatingAdmissionPolicy; celgate test --convert takes over the tests of its command line"},
	{"gatekeeper.sh", "Gatekeeper", "write it as a ValidatingAdmissionPolicy (the CEL of the engine K8sNativeValidation is " +
		"almost the same), or let Gatekeeper generate it"},
	{"kubewarden.io", "Kubewarden", "write it as a ValidatingAdmissionPolicy"},
}

// sayForeign prints the policies of other engines among the documents, once for each kind, and returns their number.
func (c *console) sayForeign(docs []*manifest.Document) int {
	first, count := map[apischema.GroupVersionKind]*manifest.Document{}, map[apischema.GroupVersionKind]int{}
	var kinds []apischema.GroupVersionKind
	for _, d := range docs {
		kind := tree.Object(d.Object).Kind()
		if kind.Group == "apiextensions.k8s.io" {
			continue
		}
		if first[kind] == nil {
			first[kind], kinds = d, append(kinds, kind)
		}
		count[kind]++
	}
	all := 0
	for _, kind := range kinds {
		for _, e := range engines {
			if kind.Group != e.suffix && !strings.HasSuffix(kind.Group, "."+e.suffix) {
				continue
			}
			all += count[kind]
			more := ""
			if n := count[kind] - 1; n > 0 {
				more = fmt.Sprintf(" (and %d more)", n)
			}
			c.say(prefixPlace(first[kind].Position(), fmt.Sprintf("%s is of %s and is not evaluated%s",
				describe(first[kind].Object), e.name, more)), e.todo)
		}
	}
	return all
}

// unbuilt warns about directories whose manifests a tool generates.
func (c *console) unbuilt(paths []string) {
	for _, path := range paths {
		for _, tool := range []struct{ file, what, run string }{
			{"kustomization.yaml", "a kustomization", "kustomize build %s | celgate apply -p POLICIES -"},
			{"kustomization.yml", "a kustomization", "kustomize build %s | celgate apply -p POLICIES -"},
			{"Kustomization", "a kustomization", "kustomize build %s | celgate apply -p POLICIES -"},
			{"Chart.yaml", "a Helm chart", "helm template %s | celgate apply -p POLICIES -"},
		} {
			if st, err := os.Stat(filepath.Join(path, tool.file)); path != "-" && err == nil && !st.IsDir() {
				c.say(path+" is "+tool.what+": its files are evaluated as they are, not as it renders them", fmt.Sprintf(tool.run, path))
				break
			}
		}
	}
}

// noPoliciesError is the error for files without policies.
func noPoliciesError(paths []string, batch []*manifest.Document) error {
	err := fmt.Errorf("no policies in %s", strings.Join(paths, ", "))
	for _, d := range batch {
		if policy.IsRecognised(d.Object) {
			return withHint(err, "%s contains a policy: perhaps -p and the manifests are swapped", d.Position())
		}
	}
	return err
}

// binds explains a binding whose policy is missing: a wrong kind, a static policy, or a misspelt name; "" if unknown.
func (w *world) binds(b *policy.Binding) string {
	var names []string
	for _, p := range w.set.Policies {
		switch {
		case p.Static != b.Static:
			if p.Name == b.PolicyName && p.Static {
				return fmt.Sprintf("only a static binding puts the static policy %s in force, and %s is not static", p.Name,
					b.Name)
			}
		case p.Kind == b.Kind:
			names = append(names, p.Name)
		case p.Name == b.PolicyName:
			return fmt.Sprintf("%s is a %s, and %s is a %sBinding: the kinds must agree", p.Name, p.Kind, b.Name,
				b.Kind)
		}
	}
	if similar := spell.Nearest(b.PolicyName, names, len(b.PolicyName)/3+1); similar != "" {
		return fmt.Sprintf("did you mean %s? (spec.policyName of %s)", similar, prefixPlace(b.Position, b.Name))
	}
	return ""
}

var errUnknownKinds = errors.New("--unknown-kinds is skip, plain or fail")

// mayMatch reports whether a rule may match objects of a kind whose resource is unknown. A rule for all groups does if
// it is for all resources, or for the one that the kind would usually have.
func mayMatch(set *policy.Set, kind apischema.GroupVersionKind) bool {
	plural, singular := meta.UnsafeGuessKindToResource(kind)
	usual := []string{"*", "*/*", plural.Resource, singular.Resource}
	for _, p := range set.Policies {
		for _, r := range p.Rules() {
			switch {
			// another version may be an equivalent one
			case slices.Contains(r.APIGroups, kind.Group):
				return true
			case slices.Contains(r.APIGroups, "*") &&
				slices.ContainsFunc(r.Resources, func(name string) bool { return slices.Contains(usual, name) }):
				return true
			}
		}
	}
	return false
}

// crdOf makes a definition for an unknown kind: its objects are used as written.
func crdOf(kind apischema.GroupVersionKind) map[string]any {
	plural := strings.ToLower(kind.Kind) + "s"
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + kind.Group},
		"spec": map[string]any{
			"group": kind.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "kind": kind.Kind, "singular": strings.ToLower(kind.Kind),
				"listKind": kind.Kind + "List"},
			"versions": []any{map[string]any{
				"name": kind.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}

// unknownNamespace is the topic of notes about namespaces of unknown labels.
const unknownNamespace = "unknown namespace"

// skippedFailure reports an object that is left out and so does not have a decision.
func skippedFailure(kind apischema.GroupVersionKind) *report.Failure {
	return &report.Failure{
		Skipped: true,
		Message: "unknown kind " + kind.GroupVersion().String() + " " + kind.Kind + ", whose group no policy matches",
		Hint:    "add its CustomResourceDefinition with -c, or set --unknown-kinds=fail",
	}
}
