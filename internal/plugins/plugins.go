// Package plugins simulates admission plugins of kube-apiserver, with the objects of a cluster.
//
// A plugin is simulated exactly or not at all: [Answer.Unchecked] lists plugins whose inputs are not known, or that
// this package does not implement. The plugins are those of plugin/pkg/admission v1.37.2.
package plugins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// A Cluster has the objects that plugins read. An object that cannot be read is unknown.
type Cluster interface {
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error)
	List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error)
	Authorizer() authorizer.Authorizer
}

// A Request is the input of plugins. Trees never change.
type Request struct {
	Operation   string // CREATE, UPDATE, DELETE or CONNECT
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string
	Namespace   string
	Name        string
	DisplayName string // the name of the object in refusals
	User        user.Info
	Object, Old map[string]any
}

// An Answer is the result of the plugins of one phase for a request that they do not refuse.
type Answer struct {
	Object      map[string]any // of the request, or a changed copy
	Warnings    []string
	Annotations map[string]string // for the audit log; nil: none
	Unchecked   []string          // plugins that concern the request and could not be simulated, with reasons
}

// A Chain is the enabled plugins, in the order of the server.
type Chain struct {
	plugins  []*plugin
	cluster  Cluster
	complete bool
	minor    string
	types    *schema.Registry
	security *security
}

// Options choose the plugins of a chain.
type Options struct {
	// Choice lists plugins to enable in addition to the defaults of the minor, or to disable if a dash precedes the
	// name, like --enable-admission-plugins and --disable-admission-plugins. The name "-*" disables all plugins enabled
	// before it.
	Choice  []string
	Minor   string // such as "1.37"
	Types   *schema.Registry
	Cluster Cluster

	// Complete means that an object missing in Cluster does not exist. Otherwise it is unknown.
	Complete bool
}

// Choices that are not names of plugins.
const (
	None     = "-*"      // disables all plugins
	Defaults = "default" // a name for the defaults, which are enabled anyway
)

// Kinds are those of the stored objects that plugins read, other than namespaces.
var Kinds = []schema.GroupVersionKind{accountKind, limitKind, quotaKind, priorityKind, runtimeKind, storageKind,
	ingressKind}

// LooksAt reports whether a plugin reads stored objects of a kind, other than namespaces.
func LooksAt(kind schema.GroupKind) bool {
	return slices.ContainsFunc(Kinds, func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind })
}

// New returns a chain. The error is about the name of an unknown plugin.
func New(o Options) (*Chain, error) {
	chosen := map[string]bool{}
	for _, p := range all {
		chosen[p.name] = p.on && p.isIn(o.Minor)
	}
	for _, name := range o.Choice {
		switch name {
		case Defaults:
			continue
		case None:
			clear(chosen)
			continue
		}
		plain := strings.TrimPrefix(name, "-")
		i := slices.IndexFunc(all, func(p *plugin) bool { return p.name == plain })
		if i < 0 || !all[i].isIn(o.Minor) {
			return nil, fmt.Errorf("%q is not an admission plugin of kube-apiserver %s", plain, o.Minor)
		}
		chosen[plain] = plain == name
	}
	c := &Chain{cluster: o.Cluster, complete: o.Complete, minor: o.Minor, types: o.Types}
	for _, p := range all {
		if chosen[p.name] && !quirks.IsBefore(o.Minor, p.active) {
			c.plugins = append(c.plugins, p)
		}
	}
	var err error
	c.security, err = newSecurity(o.Minor)
	return c, err
}

// isIn reports whether servers of a minor have the plugin.
func (p *plugin) isIn(minor string) bool {
	return !quirks.IsBefore(minor, p.since) && (p.until == "" || quirks.IsBefore(minor, p.until))
}

// Has reports whether a plugin is enabled.
func (c *Chain) Has(name string) bool {
	return c != nil && slices.ContainsFunc(c.plugins, func(p *plugin) bool { return p.name == name })
}

// A plugin is an admission plugin of the server.
type plugin struct {
	name string
	on   bool // by default

	// The first minor whose servers have the plugin, the first one without it, and the first one in which its feature
	// gate is on by default; empty: the oldest known minor, none, and that of since.
	since, until, active string

	concerns func(*Request) bool // selects the requests that it may affect; nil: not implemented

	// The two phases; nil: nothing to do. A plugin with neither is not implemented.
	admit, validate func(*call) error
}

// A call is the calls of the plugins of a phase for one request, one after the other.
type call struct {
	*Chain
	*Request
	ctx    context.Context
	plugin *plugin
	answer *Answer
	own    map[string]any // the spec in answer, if setSpec has copied it
}

// errUnchecked ends a plugin that cannot be simulated.
var errUnchecked = errors.New("unchecked")

// Admit runs the mutating plugins. The error is the server's response to a refused request.
func (c *Chain) Admit(ctx context.Context, r Request) (Answer, error) {
	return c.run(ctx, r, func(p *plugin) func(*call) error { return p.admit })
}

// Validate runs the validating plugins, like Admit.
func (c *Chain) Validate(ctx context.Context, r Request) (Answer, error) {
	return c.run(ctx, r, func(p *plugin) func(*call) error {
		if p.admit == nil && p.validate == nil {
			return func(in *call) error { return in.leave("") }
		}
		return p.validate
	})
}

func (c *Chain) run(ctx context.Context, r Request, does func(*plugin) func(*call) error) (Answer, error) {
	answer := Answer{Object: r.Object}
	if c == nil {
		return answer, nil
	}
	in := call{Chain: c, Request: &r, ctx: ctx, answer: &answer}
	for _, p := range c.plugins {
		do := does(p)
		if do == nil || p.concerns == nil || !p.concerns(&r) {
			continue
		}
		r.Object, in.plugin = answer.Object, p
		if err := do(&in); err != nil && !errors.Is(err, errUnchecked) {
			return answer, err
		}
	}
	return answer, nil
}

// leave records that the plugin could not be simulated, and why; empty: it is not implemented.
func (c *call) leave(why string) error {
	text := c.plugin.name
	if why != "" {
		text += " (" + why + ")"
	}
	if !slices.Contains(c.answer.Unchecked, text) {
		c.answer.Unchecked = append(c.answer.Unchecked, text)
	}
	return errUnchecked
}

// forbid returns the refusal of a plugin (as pkg/admission/errors.go of apiserver v0.37.2).
func (c *call) forbid(format string, args ...any) error {
	return apierrors.NewForbidden(c.Resource.GroupResource(), c.DisplayName, fmt.Errorf(format, args...))
}

// failure returns the server's answer to an error of a plugin without a status
// (pkg/endpoints/handlers/responsewriters/status.go of apiserver v0.37.2).
func failure(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Code: http.StatusInternalServerError, Message: message}}
}

// get reads an object. It returns nil if the object is known not to exist, and an error if that is unknown.
func (c *call) get(kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	object, err := c.cluster.Get(c.ctx, kind, namespace, name)
	switch {
	case err != nil:
		return nil, c.leave(err.Error())
	case object == nil && !c.complete:
		return nil, c.leave(c.describeUnknown(kind, namespace, name))
	}
	return object, nil
}

// describeUnknown describes an object whose existence is unknown.
func (c *call) describeUnknown(kind schema.GroupVersionKind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind.Kind + " " + name + " is not known"
}

// list reads all objects of a kind in a namespace. The error means that they are unknown.
func (c *call) list(kind schema.GroupVersionKind, namespace string) ([]map[string]any, error) {
	objects, err := c.cluster.List(c.ctx, kind, namespace)
	if err != nil {
		return nil, c.leave(err.Error())
	}
	return objects, nil
}

// read decodes an object into its Go type.
func (c *call) read(object map[string]any, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, into); err != nil {
		return c.leave(err.Error())
	}
	return nil
}

// spec returns the spec of the object.
func (c *call) spec() tree.Object { return tree.Object(c.answer.Object).At("spec") }

// setSpec sets members of the spec of the object. The first call in a phase makes a copy, which later ones change.
func (c *call) setSpec(members map[string]any) {
	if c.own == nil {
		c.own = c.spec().With(members)
		c.answer.Object = tree.Object(c.answer.Object).With(map[string]any{"spec": c.own})
		return
	}
	maps.Copy(c.own, members)
}

// annotate sets an annotation of the object.
func (c *call) annotate(key, value string) {
	metadata := tree.Object(c.answer.Object).Metadata()
	annotations := metadata.At("annotations").With(map[string]any{key: value})
	c.answer.Object = tree.Object(c.answer.Object).WithMetadata(metadata.With(map[string]any{"annotations": annotations}))
}

// warn sends a warning to the client.
func (c *call) warn(text string) { c.answer.Warnings = append(c.answer.Warnings, text) }

// record adds an annotation to the audit log.
func (c *call) record(key, value string) {
	if c.answer.Annotations == nil {
		c.answer.Annotations = map[string]string{}
	}
	c.answer.Annotations[key] = value
}

// requests selects requests for a resource with one of the operations.
func requests(group, resource string, operations ...string) func(*Request) bool {
	return func(r *Request) bool {
		return r.Resource.Resource == resource && r.Resource.Group == group && r.SubResource == "" &&
			slices.Contains(operations, r.Operation)
	}
}

// subresource selects requests for a subresource with one of the operations.
func subresource(group, resource, name string, operations ...string) func(*Request) bool {
	return func(r *Request) bool {
		return r.Resource.Resource == resource && r.Resource.Group == group && r.SubResource == name &&
			slices.Contains(operations, r.Operation)
	}
}

// either selects requests that satisfy one of several conditions.
func either(conditions ...func(*Request) bool) func(*Request) bool {
	return func(r *Request) bool {
		return slices.ContainsFunc(conditions, func(holds func(*Request) bool) bool { return holds(r) })
	}
}

const (
	create = "CREATE"
	update = "UPDATE"
)

var newPod = requests("", "pods", create)

// all are the plugins in the order of pkg/kubeapiserver/options/plugins.go v1.37.2, without those of policies and
// webhooks. NamespaceLifecycle is part of the preparation of requests.
var all = []*plugin{
	{name: "AlwaysAdmit"},
	{name: "NamespaceAutoProvision", concerns: anyRequest},
	{name: "NamespaceLifecycle", on: true},
	{name: "NamespaceExists", concerns: anyRequest},
	{name: "LimitPodHardAntiAffinityTopology", concerns: requests("", "pods", create, update)},
	limitRanger,
	serviceAccount,
	{name: "NodeRestriction", concerns: anyRequest},
	{name: "TaintNodesByCondition", on: true, concerns: requests("", "nodes", create), admit: taintNode},
	{name: "AlwaysPullImages", concerns: requests("", "pods", create, update)},
	{name: "ImagePolicyWebhook", concerns: requests("", "pods", create, update)},
	podSecurity,
	{name: "PodNodeSelector", concerns: requests("", "pods", create)},
	priority,
	{name: "DefaultTolerationSeconds", on: true, concerns: requests("", "pods", create, update), admit: tolerateOutage},
	{name: "PodTolerationRestriction", concerns: requests("", "pods", create, update), admit: addTolerations,
		validate: checkTolerations},
	{name: "EventRateLimit", concerns: requests("", "events", create, update)},
	{name: "ExtendedResourceToleration", concerns: requests("", "pods", create, update), admit: tolerateResources},
	{name: "DefaultStorageClass", on: true, concerns: requests("", "persistentvolumeclaims", create), admit: defaultStorage},
	{name: "StorageObjectInUseProtection", on: true, concerns: either(requests("", "persistentvolumes", create),
		requests("", "persistentvolumeclaims", create), requests("storage.k8s.io", "volumeattributesclasses", create)),
		admit: protectStorage},
	{name: "PodGroupProtection", on: true, since: "1.36"}, // does nothing while the feature GenericWorkload is off
	{name: "OwnerReferencesPermissionEnforcement", concerns: concernsOwners, validate: checkOwners},
	{name: "PersistentVolumeClaimResize", on: true, concerns: requests("", "persistentvolumeclaims", update),
		validate: resizeClaim},
	runtimeClass,
	{name: "CertificateApproval", on: true, concerns: subresource(certificates, "certificatesigningrequests", "approval", update),
		validate: checkApproval},
	{name: "CertificateSigning", on: true, concerns: subresource(certificates, "certificatesigningrequests", "status", update),
		validate: checkSigning},
	{name: "ClusterTrustBundleAttest", on: true, active: "1.37",
		concerns: requests(certificates, "clustertrustbundles", create, update), validate: checkAttest},
	{name: "CertificateSubjectRestriction", on: true, validate: checkSubject, concerns: func(r *Request) bool {
		return requests(certificates, "certificatesigningrequests", create)(r) && signerOf(r.Object) == clientSigner
	}},
	{name: "DefaultIngressClass", on: true, concerns: requests("networking.k8s.io", "ingresses", create), admit: defaultIngress},
	{name: "DenyServiceExternalIPs", concerns: requests("", "services", create, update)},
	{name: "PodTopologyLabels", on: true, since: "1.33", active: "1.35", admit: labelByNode, concerns: func(r *Request) bool {
		return (newPod(r) || subresource("", "pods", "binding", create)(r)) && nodeOf(r) != ""
	}},
	{name: "NodeDeclaredFeatureValidator", on: true, since: "1.35", active: "1.36", concerns: subresource("", "pods", "resize", update)},
	{name: "PodResizeValidator", on: true, since: "1.36", concerns: subresource("", "pods", "resize", update)},
	{name: "ResourceQuota", on: true},
	{name: "AlwaysDeny", concerns: anyRequest},
}

func anyRequest(*Request) bool { return true }
