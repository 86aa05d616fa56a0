package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// An exporting is one run of the verb state.
type exporting struct {
	apply
	set   *policy.Set
	world *world
}

func newState(c *console) *cobra.Command {
	e := &exporting{apply: apply{console: c}}
	cmd := &cobra.Command{
		Use:   "state --context NAME [-p POLICIES]",
		Short: "Export the objects of a cluster that policies depend on",
		Long: `state prints the objects of a live cluster that policies depend on, as a cluster
state for apply -c and for suites: the namespaces with their labels, the params that
bindings name or select, the CustomResourceDefinitions of params and of matched
resources, and the RBAC objects if an expression uses the authorizer. Without -p the
policies are those of the cluster. Fields that the server maintains, such as status,
are left out.

state writes nothing to the cluster.`,
		Example: `  celgate state --context prod -p policies/ > cluster.yaml
  celgate apply -p policies/ -c cluster.yaml manifests/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.export(cmd.Context()) },
	}
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&e.policies, "policy", "p", nil, "`FILE|DIR|-` policies and bindings; may be repeated")
		e.live.flags(f)
	})
	return cmd
}

func (e *exporting) export(ctx context.Context) error {
	if e.live == (live{}) {
		return withHint(&usageError{errors.New("the cluster is missing")}, "name one with --context or --kubeconfig")
	}
	client, err := connect(e.live.kubeconfig, e.live.context)
	if err != nil {
		return err
	}
	snapshot, err := client.Snapshot(ctx, "")
	if err != nil {
		return err
	}
	e.world = &world{live: snapshot}
	if err := e.world.addKinds(e.console); err != nil {
		return err
	}
	var given []*manifest.Document
	if len(e.policies) > 0 {
		given = e.read(&manifest.Loader{Stdin: e.stdin}, e.policies)
	} else if given, err = e.world.livePolicies(ctx); err != nil {
		return err
	}
	e.world.addPolicies(e.console, given)
	if e.set = &e.world.set; len(e.set.Policies) == 0 {
		where := strings.Join(e.policies, ", ")
		return fmt.Errorf("no policies in %s", cmp.Or(where, "the cluster"))
	}
	var out strings.Builder
	for _, read := range []func(context.Context) ([]map[string]any, error){e.definitions, e.namespaces, e.params,
		e.roles} {
		objects, err := read(ctx)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if out.Len() > 0 {
				out.WriteString("---\n")
			}
			out.WriteString(rewrite.YAML(stripServerFields(object), e.world.types.Type(tree.Object(object).Kind())))
		}
	}
	if err := snapshot.Err(); err != nil {
		return err
	}
	_, err = fmt.Fprint(e.stdout, out.String())
	return err
}

// definitions returns the definitions of the kinds of params and of the resources that policies match.
func (e *exporting) definitions(ctx context.Context) ([]map[string]any, error) {
	all, err := e.world.live.List(ctx, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}, "")
	return slices.DeleteFunc(slices.Clone(all), func(object map[string]any) bool {
		spec, _ := object["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		group, _ := spec["group"].(string)
		plural, _ := names["plural"].(string)
		kind, _ := names["kind"].(string)
		return !slices.ContainsFunc(e.set.Policies, func(p *policy.Policy) bool {
			if p.ParamKind != nil {
				gv, err := apischema.ParseGroupVersion(p.ParamKind.APIVersion)
				if err == nil && gv.Group == group && p.ParamKind.Kind == kind {
					return true
				}
			}
			return slices.ContainsFunc(p.Rules(), func(r policy.Rule) bool {
				return (slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIGroups, group)) &&
					slices.ContainsFunc(r.Resources, func(name string) bool {
						resource, _, _ := strings.Cut(name, "/")
						return resource == "*" || resource == plural
					})
			})
		})
	}), err
}

func (e *exporting) namespaces(ctx context.Context) ([]map[string]any, error) {
	return e.world.live.List(ctx, namespaceKind, "")
}

// params returns the params that bindings name or select.
func (e *exporting) params(ctx context.Context) ([]map[string]any, error) {
	all, err := e.world.params(ctx, e.set)
	for _, param := range all {
		if kind := tree.Object(param).Kind(); kind.Group == "" && kind.Kind == "Secret" {
			e.say("Secret "+nameOf(param)+" is a param: its data is printed", "")
		}
	}
	return all, err
}

// roles returns all RBAC objects if an expression asks the authorizer.
func (e *exporting) roles(ctx context.Context) ([]map[string]any, error) {
	asks := false
	for _, p := range e.set.Policies {
		for x := range p.Expressions() {
			asks = asks || strings.Contains(x.Src, "authorizer")
		}
	}
	if !asks {
		return nil, nil
	}
	var all []map[string]any
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		objects, err := e.world.live.List(ctx, rbacv1.SchemeGroupVersion.WithKind(kind), "")
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// stripServerFields removes members that only the server sets.
func stripServerFields(object map[string]any) map[string]any {
	object = maps.Clone(object)
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata = tree.Object(metadata).Without("managedFields", "resourceVersion", "uid", "generation", "selfLink",
			"creationTimestamp")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
			if metadata["annotations"] = annotations; len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
		object["metadata"] = metadata
	}
	return object
}
