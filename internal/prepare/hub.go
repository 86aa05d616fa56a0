package prepare

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// hubs are the changes by converting an object to the server's internal version and back, by Go type: the functions
// written by hand in k8s.io/kubernetes v1.37.2 pkg/apis/*/v*/conversion.go. The server converts every object that it
// decodes, and a mutated object after the mutating phase. hubs never change after initialisation.
var hubs = map[string]func(o *members) error{
	core + "Node":                                       nodeHub,
	core + "Secret":                                     secretHub,
	"k8s.io/api/apps/v1.Deployment":                     deploymentHub,
	"k8s.io/api/apps/v1.StatefulSet":                    statefulSetHub,
	"k8s.io/api/autoscaling/v2.HorizontalPodAutoscaler": scalerHub,
	"k8s.io/api/resource/v1beta1.ResourceSlice":         basicDevices,
	apiextensions + "CustomResourceDefinition":          conversionHub,
}

// heldHubs are those of kinds whose internal object keeps members that the decoded object lacks. The server decodes a
// mutated object into the one that it holds, in the same version; held is nil for a newly decoded object.
var heldHubs = map[string]func(o *members, held map[string]any, types *schema.Registry) error{
	"k8s.io/api/apps/v1.DaemonSet":                      daemonSetHub,
	"k8s.io/api/autoscaling/v1.HorizontalPodAutoscaler": scalerV1Hub,
}

// throughHub converts an object of a built-in kind to the internal version, into the held object, and back.
func throughHub(t *shape.Type, obj, held map[string]any, types *schema.Registry) (out map[string]any, err error) {
	convert, convertHeld := hubs[t.Name], heldHubs[t.Name]
	if convert == nil && convertHeld == nil {
		return obj, nil
	}
	o := members{m: obj}
	if convert != nil {
		err = convert(&o)
	} else {
		err = convertHeld(&o, held, types)
	}
	return o.m, err
}

// nodeHub keeps the first of spec.podCIDRs and spec.podCIDR equal; podCIDR wins.
func nodeHub(o *members) error {
	o.edit("spec", func(s *members) {
		one := s.text("podCIDR")
		all, _ := s.m["podCIDRs"].([]any)
		switch {
		case one != "" && (len(all) == 0 || all[0] != one):
			s.set("podCIDRs", []any{one})
		case one == "" && len(all) > 0:
			if first, _ := all[0].(string); first != "" {
				s.set("podCIDR", first)
			}
		}
	})
	return nil
}

// secretHub merges stringData into data, and drops it.
func secretHub(o *members) error {
	plain, _ := o.m["stringData"].(map[string]any)
	if len(plain) > 0 {
		o.fill("data", map[string]any{})
		o.edit("data", func(data *members) {
			for name, v := range plain {
				text, _ := v.(string)
				data.set(name, base64.StdEncoding.EncodeToString([]byte(text)))
			}
		})
	}
	o.drop("stringData")
	return nil
}

// annotations applies f to the annotations, and drops them if none are left.
func (o *members) annotations(f func(*members)) {
	o.edit("metadata", func(meta *members) {
		given, _ := meta.m["annotations"].(map[string]any)
		notes := members{m: given}
		f(&notes)
		switch {
		case len(notes.m) == 0:
			meta.drop("annotations")
		case notes.owned:
			meta.set("annotations", notes.m)
		}
	})
}

func deploymentHub(o *members) (err error) {
	const rollback = "deprecated.deployment.rollback.rollback-to"
	o.annotations(func(notes *members) {
		text := notes.text(rollback)
		if text == "" {
			notes.drop(rollback)
			return
		}
		revision, problem := strconv.ParseInt(text, 10, 64)
		if problem != nil {
			err = fmt.Errorf("failed to parse annotation[%s]=%s as int64: %w", rollback, text, problem)
			return
		}
		notes.set(rollback, strconv.FormatInt(revision, 10))
	})
	o.edit("spec", func(s *members) {
		s.edit("strategy", func(u *members) { u.edit("rollingUpdate", zeroRollingUpdate) })
	})
	return err
}

// zeroRollingUpdate writes the zero values of another strategy: the internal version does not have pointers there.
func zeroRollingUpdate(r *members) {
	r.fill("maxUnavailable", int64(0))
	r.fill("maxSurge", int64(0))
}

func daemonSetHub(o *members, held map[string]any, _ *schema.Registry) (err error) {
	const generation = "deprecated.daemonset.template.generation"
	o.annotations(func(notes *members) {
		n := int64(0)
		v, given := notes.m[generation]
		if !given {
			v, given = mapAt(held, "metadata", "annotations")[generation]
		}
		if given {
			text, _ := v.(string)
			n, err = strconv.ParseInt(text, 10, 64)
		}
		if text := strconv.FormatInt(n, 10); notes.m[generation] != text {
			notes.set(generation, text)
		}
	})
	o.edit("spec", func(s *members) {
		s.edit("updateStrategy", func(u *members) { u.edit("rollingUpdate", zeroRollingUpdate) })
	})
	return err
}

func statefulSetHub(o *members) error {
	o.edit("spec", func(s *members) {
		s.edit("updateStrategy", func(u *members) {
			u.edit("rollingUpdate", func(r *members) { r.fill("partition", int64(0)) })
		})
		s.each("volumeClaimTemplates", func(claim *members) {
			if claim.m["apiVersion"] != "v1" {
				claim.set("apiVersion", "v1")
			}
			if claim.m["kind"] != "PersistentVolumeClaim" {
				claim.set("kind", "PersistentVolumeClaim")
			}
		})
	})
	return nil
}

const scalerNote = "autoscaling.alpha.kubernetes.io/"

// scalerHub drops the annotations in which autoscaling/v1 keeps members of later versions.
func scalerHub(o *members) error {
	o.annotations(func(notes *members) {
		for _, name := range [...]string{"metrics", "behavior", "current-metrics", "conditions"} {
			notes.drop(scalerNote + name)
		}
	})
	return nil
}

// scalerV1Hub converts the annotations, in which autoscaling/v1 keeps members that it does not have as fields, through
// the internal version.
func scalerV1Hub(o *members, held map[string]any, types *schema.Registry) error {
	out, err := types.HeldAutoscaler(o.m, held)
	if err != nil {
		return err
	}
	o.annotations(func(notes *members) {
		written := mapAt(out, "metadata", "annotations")
		if !tree.Equal(notes.m, written) {
			*notes = members{m: written, owned: true}
		}
	})
	for member, percentage := range map[string]string{"spec": "targetCPUUtilizationPercentage",
		"status": "currentCPUUtilizationPercentage"} {
		o.edit(member, func(m *members) {
			if from := mapAt(out, member); m.m[percentage] != from[percentage] {
				m.take(percentage, from)
			}
		})
	}
	return nil
}

// basicDevices writes the struct that contains the members of a device in resource.k8s.io/v1beta1.
func basicDevices(o *members) error {
	o.edit("spec", func(s *members) {
		s.each("devices", func(d *members) { d.fill("basic", map[string]any{}) })
	})
	return nil
}

// conversionHub drops an empty webhook of a CustomResourceDefinition.
func conversionHub(o *members) error {
	o.edit("spec", func(s *members) {
		s.edit("conversion", func(c *members) {
			w, ok := c.m["webhook"].(map[string]any)
			if ok && w["clientConfig"] == nil && w["conversionReviewVersions"] == nil {
				c.drop("webhook")
			}
		})
	})
	return nil
}
