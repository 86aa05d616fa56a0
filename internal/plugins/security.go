package plugins

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

var podSecurity = &plugin{name: "PodSecurity", on: true, validate: checkSecurity, concerns: func(r *Request) bool {
	if r.Operation != create && r.Operation != update {
		return false
	}
	switch {
	case r.Resource.Resource == "pods" && r.Resource.Group == "":
		return r.SubResource == "" || r.SubResource == "ephemeralcontainers" || r.SubResource == "resize"
	case r.SubResource != "":
		return false
	case r.Resource.Resource == "namespaces" && r.Resource.Group == "":
		return true
	}
	return templates[r.Resource.GroupResource()] != nil
}}

// templates are the paths of Pod templates in the kinds that PodSecurity checks.
var templates = map[schema.GroupResource][]string{
	{Resource: "replicationcontrollers"}:      {"spec", "template"},
	{Resource: "podtemplates"}:                {"template"},
	{Group: "apps", Resource: "replicasets"}:  {"spec", "template"},
	{Group: "apps", Resource: "deployments"}:  {"spec", "template"},
	{Group: "apps", Resource: "statefulsets"}: {"spec", "template"},
	{Group: "apps", Resource: "daemonsets"}:   {"spec", "template"},
	{Group: "batch", Resource: "jobs"}:        {"spec", "template"},
	{Group: "batch", Resource: "cronjobs"}:    {"spec", "jobTemplate", "spec", "template"},
}

// A security evaluates the Pod Security Standards.
type security struct{ evaluator policy.Evaluator }

// newSecurity returns the standards as servers of a minor define them.
func newSecurity(minor string) (*security, error) {
	known, err := api.ParseVersion("v" + minor)
	if err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), &known)
	return &security{evaluator}, err
}

func (s *security) check(lv api.LevelVersion, pod *corev1.PodTemplateSpec) policy.AggregateCheckResult {
	return policy.AggregateCheckResults(s.evaluator.EvaluatePod(lv, &pod.ObjectMeta, &pod.Spec))
}

// privileged is the policy of a namespace without labels.
var privileged = api.Policy{
	Enforce: api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()},
	Audit:   api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()},
	Warn:    api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()},
}

func policyOf(namespace map[string]any) (api.Policy, field.ErrorList) {
	labels := map[string]string{}
	for key, value := range tree.Object(namespace).Labels() {
		labels[key], _ = value.(string)
	}
	return api.PolicyToEvaluate(labels, privileged)
}

// checkSecurity is k8s.io/pod-security-admission/admission/admission.go v0.37.2 without exemptions, which only the
// configuration of a server can define.
func checkSecurity(c *call) error {
	if c.Resource.Resource == "namespaces" {
		return c.checkNamespace()
	}
	isPod := c.Resource.Resource == "pods"
	if isPod && c.SubResource == "resize" {
		return nil // the standards do not concern the change
	}
	namespace, err := c.cluster.Get(c.ctx, namespaceKind, "", c.Namespace)
	if err != nil {
		return c.leave(err.Error())
	}
	if namespace == nil {
		return c.leave("namespace " + c.Namespace + " is not known")
	}
	by, errs := policyOf(namespace)
	switch {
	case len(errs) > 0:
	case isPod && by.FullyPrivileged():
		c.record(api.AuditAnnotationPrefix+api.EnforcedPolicyAnnotationKey, by.Enforce.String())
		return nil
	case !isPod && by.Warn.Level == api.LevelPrivileged && by.Audit.Level == api.LevelPrivileged:
		return nil
	}
	pod, err := c.template(c.Object)
	if err != nil || pod == nil {
		return err
	}
	if isPod && c.Operation == update {
		old, err := c.template(c.Old)
		if err != nil || !changesImages(&pod.Spec, &old.Spec) {
			return err
		}
	}
	if err := errs.ToAggregate(); err != nil {
		c.record(api.AuditAnnotationPrefix+"error", fmt.Sprintf("Failed to parse policy: %v", err))
	}
	return c.judge(by, pod, isPod)
}

// judge checks a Pod against the standards of its namespace. Only Pods are refused.
func (c *call) judge(by api.Policy, pod *corev1.PodTemplateSpec, enforce bool) error {
	var refusal error
	if enforce {
		c.record(api.AuditAnnotationPrefix+api.EnforcedPolicyAnnotationKey, by.Enforce.String())
		if r := c.security.check(by.Enforce, pod); !r.Allowed {
			refusal = c.forbid("violates PodSecurity %q: %s", by.Enforce.String(), r.ForbiddenDetail())
		}
	}
	if r := c.security.check(by.Audit, pod); !r.Allowed {
		c.record(api.AuditAnnotationPrefix+api.AuditViolationsAnnotationKey,
			fmt.Sprintf("would violate PodSecurity %q: %s", by.Audit.String(), r.ForbiddenDetail()))
	}
	if refusal != nil {
		return refusal
	}
	if r := c.security.check(by.Warn, pod); !r.Allowed {
		c.warn(fmt.Sprintf("would violate PodSecurity %q: %s", by.Warn.String(), r.ForbiddenDetail()))
	}
	return nil
}

// template returns the Pod, or the Pod template of an object; nil without one.
func (c *call) template(object map[string]any) (*corev1.PodTemplateSpec, error) {
	if c.Resource.Resource != "pods" {
		if object = tree.Object(object).At(templates[c.Resource.GroupResource()]...); object == nil {
			return nil, nil
		}
	}
	pod := &corev1.PodTemplateSpec{}
	o := tree.Object(object)
	return pod, c.read(map[string]any{"metadata": map[string]any(o.Metadata()), "spec": map[string]any(o.At("spec"))}, pod)
}

// changesImages reports whether an update of a Pod changes its containers or their images, which the standards concern.
func changesImages(pod, old *corev1.PodSpec) bool {
	differ := func(a, b []corev1.Container) bool {
		return !slices.EqualFunc(a, b, func(a, b corev1.Container) bool { return a.Image == b.Image })
	}
	if differ(pod.Containers, old.Containers) || differ(pod.InitContainers, old.InitContainers) {
		return true
	}
	return slices.ContainsFunc(pod.EphemeralContainers, func(e corev1.EphemeralContainer) bool {
		i := slices.IndexFunc(old.EphemeralContainers,
			func(o corev1.EphemeralContainer) bool { return o.Name == e.Name })
		return i < 0 || old.EphemeralContainers[i].Image != e.Image
	})
}

// checkNamespace refuses invalid labels. It does not check existing Pods against a new level.
func (c *call) checkNamespace() error {
	now, errs := policyOf(c.Object)
	name := tree.Object(c.Object).Name()
	invalid := func() error {
		return apierrors.NewInvalid(c.Kind.GroupKind(), name, errs)
	}
	if c.Operation == create {
		if len(errs) > 0 {
			return invalid()
		}
		return nil
	}
	was, before := policyOf(c.Old)
	same := slices.EqualFunc(errs, before, func(a, b *field.Error) bool { return a.Error() == b.Error() })
	switch {
	case len(errs) > 0 && (len(before) == 0 || !same):
		return invalid()
	case now.Enforce == was.Enforce || now.Enforce.Level == api.LevelPrivileged,
		now.Enforce.Version == was.Enforce.Version && api.CompareLevels(now.Enforce.Level, was.Enforce.Level) < 1:
		return nil
	}
	return c.leave("the Pods that the namespace has are not compared with the new level")
}
