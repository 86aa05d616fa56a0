package plugins

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
)

// The annotations of a namespace with the tolerations that its Pods get, and with those that they may have.
const (
	defaultTolerations = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedTolerations = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// addTolerations is Admit of plugin/pkg/admission/podtolerationrestriction/admission.go, without tolerations of the
// cluster, which a server has only by its configuration.
func addTolerations(c *call) error {
	var more []corev1.Toleration
	if c.Operation == create {
		var err error
		if more, err = c.tolerationsOf(defaultTolerations); err != nil {
			return err
		}
	}
	if prepare.QualityOfService(c.spec()) != string(corev1.PodQOSBestEffort) {
		more = append(more, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoSchedule})
	}
	if len(more) > 0 {
		if err := c.tolerate(more); err != nil {
			return err
		}
	}
	c.Object = c.answer.Object
	return checkTolerations(c)
}

// checkTolerations is Validate.
func checkTolerations(c *call) error {
	own, err := c.tolerations()
	if err != nil || len(own) == 0 {
		return err
	}
	allowed, err := c.tolerationsOf(allowedTolerations)
	if err != nil || len(allowed) == 0 {
		return err
	}
	for i := range own {
		covers := func(a corev1.Toleration) bool { return coversToleration(&a, &own[i]) }
		if !slices.ContainsFunc(allowed, covers) {
			return failure("pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist")
		}
	}
	return nil
}

// tolerationsOf reads an annotation of the namespace of the request; nil: it has none.
func (c *call) tolerationsOf(annotation string) (list []corev1.Toleration, err error) {
	namespace, err := c.get(namespaceKind, "", c.Namespace)
	if err != nil {
		return nil, err
	}
	if text := tree.Object(namespace).Annotation(annotation); text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, failure(err.Error())
		}
	}
	return list, nil
}

// tolerations are those of the Pod.
func (c *call) tolerations() ([]corev1.Toleration, error) {
	var spec corev1.PodSpec
	err := c.read(map[string]any{"tolerations": c.spec().List("tolerations")}, &spec)
	return spec.Tolerations, err
}

// tolerate adds tolerations to those of the Pod, and leaves out what another one covers (MergeTolerations of
// pkg/util/tolerations/tolerations.go).
func (c *call) tolerate(more []corev1.Toleration) error {
	own, err := c.tolerations()
	if err != nil {
		return err
	}
	all := append(own, more...)
	var merged []corev1.Toleration
	for i := range all {
		t := &all[i]
		earlier := func(other corev1.Toleration) bool { return coversToleration(&other, t) }
		later := func(other corev1.Toleration) bool {
			return !equality.Semantic.DeepEqual(*t, other) && coversToleration(&other, t)
		}
		if !slices.ContainsFunc(merged, earlier) && !slices.ContainsFunc(all[i+1:], later) {
			merged = append(merged, *t)
		}
	}
	var list []any
	for i := range merged {
		item, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&merged[i])
		if err != nil {
			return err
		}
		list = append(list, item)
	}
	if list != nil {
		c.setSpec(map[string]any{"tolerations": list})
	}
	return nil
}

// coversToleration reports whether a toleration tolerates all that another one does.
func coversToleration(a, b *corev1.Toleration) bool {
	switch {
	case equality.Semantic.DeepEqual(a, b):
		return true
	case a.Key != b.Key && (a.Key != "" || a.Operator != corev1.TolerationOpExists),
		a.Effect != b.Effect && a.Effect != "",
		a.Effect == corev1.TaintEffectNoExecute && a.TolerationSeconds != nil &&
			(b.TolerationSeconds == nil || *b.TolerationSeconds > *a.TolerationSeconds):
		return false
	}
	switch a.Operator {
	case corev1.TolerationOpEqual, "":
		return b.Operator == corev1.TolerationOpEqual && a.Value == b.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
