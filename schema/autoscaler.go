package schema

import (
	"encoding/json"
	"github.com/celgate/celgate/internal/shape"
	"maps"
	"slices"
	"strings"
)

// HorizontalPodAutoscaler: autoscaling/v1 knows only the CPU target. Other members of v2 are kept in annotations, as
// JSON text in the shape of earlier versions (as k8s.io/kubernetes pkg/apis/autoscaling/v1/conversion.go v1.37.2).

func hpa(version string) GroupVersionKind {
	return GroupVersionKind{Group: "autoscaling", Version: version, Kind: "HorizontalPodAutoscaler"}
}

const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	statusesAnnotation   = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"

	defaultCPUUtilization = 80
)

// annotatedTypes are the types of the annotations' values.
const (
	annotatedMetric    = "k8s.io/api/autoscaling/v1.MetricSpec"
	annotatedStatus    = "k8s.io/api/autoscaling/v1.MetricStatus"
	annotatedRules     = "k8s.io/api/autoscaling/v2.HPAScalingRules"
	annotatedCondition = "k8s.io/api/autoscaling/v1.HorizontalPodAutoscalerCondition"
)

// A metricShape maps the members of one type of metric between the two versions.
type metricShape struct {
	member string // of a metric, such as "pods"
	v1     map[string]string
	target []targetMember
	status []targetMember
}

// targetMember is a value of a v2 target or status and its name in v1.
type targetMember struct{ v2, v1 string }

// metricShapes has one entry per type; v1 names by v2 names. A dot separates a member of a member.
var metricShapes = []metricShape{
	{
		member: "object",
		v1: map[string]string{"describedObject": "target", "metric.name": "metricName",
			"metric.selector": "selector"},
		target: []targetMember{{"value", "targetValue"}, {"averageValue", "averageValue"}},
		status: []targetMember{{"value", "currentValue"}, {"averageValue", "averageValue"}},
	},
	{
		member: "pods",
		v1:     map[string]string{"metric.name": "metricName", "metric.selector": "selector"},
		target: []targetMember{{"averageValue", "targetAverageValue"}},
		status: []targetMember{{"averageValue", "currentAverageValue"}},
	},
	{
		member: "resource",
		v1:     map[string]string{"name": "name"},
		target: []targetMember{{"averageUtilization", "targetAverageUtilization"},
			{"averageValue", "targetAverageValue"}},
		status: []targetMember{{"averageUtilization", "currentAverageUtilization"},
			{"averageValue", "currentAverageValue"}},
	},
	{
		member: "containerResource",
		v1:     map[string]string{"name": "name", "container": "container"},
		target: []targetMember{
			{"averageUtilization", "targetAverageUtilization"},
			{"averageValue", "targetAverageValue"},
		},
		status: []targetMember{
			{"averageUtilization", "currentAverageUtilization"},
			{"averageValue", "currentAverageValue"},
		},
	},
	{
		member: "external",
		v1:     map[string]string{"metric.name": "metricName", "metric.selector": "metricSelector"},
		target: []targetMember{{"value", "targetValue"}, {"averageValue", "targetAverageValue"}},
		status: []targetMember{{"value", "currentValue"}, {"averageValue", "currentAverageValue"}},
	},
}

// autoscalerToV1 converts v2 to v1.
func autoscalerToV1(r *Registry, obj map[string]any) (map[string]any, error) {
	annotations := r.dropAnnotations(obj)
	spec, status := object(obj["spec"]), object(obj["status"])

	var others, statuses []any
	for _, metric := range list(spec["metrics"]) {
		metric := object(metric)
		utilization := object(object(metric["resource"])["target"])["averageUtilization"]
		if !isCPU(metric) || utilization == nil {
			others = append(others, metricToV1(metric, "target"))
		} else if spec["targetCPUUtilizationPercentage"] == nil {
			spec["targetCPUUtilizationPercentage"] = utilization
		}
	}
	for _, metric := range list(status["currentMetrics"]) {
		metric := object(metric)
		statuses = append(statuses, metricToV1(metric, "current"))
		if utilization := object(object(metric["resource"])["current"])["averageUtilization"]; isCPU(metric) &&
			utilization != nil {
			status["currentCPUUtilizationPercentage"] = utilization
		}
	}
	if behavior := object(spec["behavior"]); spec["behavior"] != nil {
		annotations[behaviorAnnotation] = behaviorText(behavior, r.annotatedBehavior())
	}
	for annotation, values := range map[string]struct {
		items []any
		typ   string
	}{
		metricsAnnotation:    {others, annotatedMetric},
		statusesAnnotation:   {statuses, annotatedStatus},
		conditionsAnnotation: {list(status["conditions"]), annotatedCondition},
	} {
		if len(values.items) == 0 {
			continue
		}
		text, err := encodeList(values.items, r.tables.lookUp(values.typ))
		if err != nil {
			return nil, err
		}
		annotations[annotation] = text
	}
	return obj, nil
}

// HeldAutoscaler returns an autoscaling/v1 HorizontalPodAutoscaler as the server holds it: read into its internal
// version, which has the members of v2, and written as v1 again. The internal object is new, or, if held is not nil,
// that of held, which keeps members that obj lacks.
func (r *Registry) HeldAutoscaler(obj, held map[string]any) (map[string]any, error) {
	var internal map[string]any
	if held != nil {
		var err error
		if internal, err = r.Convert(held, hpa("v2")); err != nil {
			return nil, err
		}
	}
	clean, err := conform(obj, r.Type(hpa("v1")))
	if err != nil {
		return nil, err
	}
	read, err := autoscalerInto(r, clean.(map[string]any), internal)
	if err != nil {
		return nil, err
	}
	if clean, err = conform(read, r.Type(hpa("v2"))); err != nil {
		return nil, err
	}
	written, err := autoscalerToV1(r, clean.(map[string]any))
	if err != nil {
		return nil, err
	}
	if clean, err = conform(written, r.Type(hpa("v1"))); err != nil {
		return nil, err
	}
	return clean.(map[string]any), nil
}

// autoscalerFromV1 converts v1 to v2.
func autoscalerFromV1(r *Registry, obj map[string]any) (map[string]any, error) {
	return autoscalerInto(r, obj, nil)
}

// autoscalerInto reads v1 into an object with the members of v2, which keeps members that obj lacks. An invalid
// annotation is ignored.
func autoscalerInto(r *Registry, obj, into map[string]any) (map[string]any, error) {
	spec, status := object(obj["spec"]), object(obj["status"])
	annotations := object(object(obj["metadata"])["annotations"])

	metrics := list(object(into["spec"])["metrics"])
	if utilization := spec["targetCPUUtilizationPercentage"]; utilization != nil {
		metrics = []any{cpuMetric("target", map[string]any{"type": "Utilization", "averageUtilization": utilization})}
	}
	if items, ok := decodeList(annotations[metricsAnnotation], r.tables.lookUp(annotatedMetric)); ok {
		all := make([]any, 0, len(items)+len(metrics))
		for _, item := range items {
			all = append(all, metricFromV1(item, "target"))
		}
		// Of the old metrics the server copies only the first; the others are empty.
		for i, m := range metrics {
			if i > 0 {
				m = map[string]any{"type": ""}
			}
			all = append(all, m)
		}
		metrics = all
	}
	if len(metrics) == 0 {
		metrics = append(metrics, cpuMetric("target",
			map[string]any{"type": "Utilization", "averageUtilization": int64(defaultCPUUtilization)}))
	}
	spec["metrics"] = metrics
	keep(spec, "behavior", object(into["spec"]))
	if behavior := decodeBehavior(annotations[behaviorAnnotation]); behavior != nil {
		if clean, err := conform(behavior, r.tables.lookUp(
			"k8s.io/api/autoscaling/v2.HorizontalPodAutoscalerBehavior")); err == nil {
			spec["behavior"] = clean
		}
	}

	if items, ok := decodeList(annotations[statusesAnnotation], r.tables.lookUp(annotatedStatus)); ok {
		statuses := make([]any, 0, len(items))
		for _, item := range items {
			statuses = append(statuses, metricFromV1(item, "current"))
		}
		status["currentMetrics"] = statuses
	} else if utilization := status["currentCPUUtilizationPercentage"]; utilization != nil {
		status["currentMetrics"] = []any{cpuMetric("current", map[string]any{"averageUtilization": utilization})}
	} else {
		keep(status, "currentMetrics", object(into["status"]))
	}
	keep(status, "conditions", object(into["status"]))
	if items, ok := decodeList(annotations[conditionsAnnotation], r.tables.lookUp(annotatedCondition)); ok {
		status["conditions"] = items
	}
	r.dropAnnotations(obj)
	return obj, nil
}

// keep sets a member to its old value, if there is one.
func keep(members map[string]any, name string, before map[string]any) {
	if v, ok := before[name]; ok {
		members[name] = v
	}
}

// dropAnnotations removes the annotations that stand for members, and returns the others for writing. A minor without a
// member keeps its annotations.
func (r *Registry) dropAnnotations(obj map[string]any) map[string]any {
	metadata := object(obj["metadata"])
	annotations := object(metadata["annotations"])
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	dropped := []string{metricsAnnotation, statusesAnnotation, conditionsAnnotation, behaviorAnnotation}
	if r.tables.lookUp(annotatedRules).Field("tolerance") != nil {
		dropped = append(dropped, "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
			"autoscaling.alpha.kubernetes.io/scale-up-tolerance")
	}
	for _, name := range dropped {
		delete(annotations, name)
	}
	return annotations
}

func isCPU(metric map[string]any) bool {
	return metric["type"] == "Resource" && metric["resource"] != nil && object(metric["resource"])["name"] == "cpu"
}

func cpuMetric(member string, values map[string]any) map[string]any {
	return map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", member: values}}
}

// metricToV1 converts a metric of v2 to the form in annotations. values is "target" or "current".
func metricToV1(metric map[string]any, values string) map[string]any {
	out := map[string]any{"type": metric["type"]}
	for _, shape := range metricShapes {
		source, ok := metric[shape.member].(map[string]any)
		if !ok {
			continue
		}
		old := map[string]any{}
		for v2, v1 := range shape.v1 {
			outer, inner, nested := strings.Cut(v2, ".")
			value := source[outer]
			if nested {
				value = object(value)[inner]
			}
			old[v1] = value
		}
		for _, m := range shape.members(values) {
			old[m.v1] = object(source[values])[m.v2]
		}
		out[shape.member] = old
	}
	return out
}

func (s metricShape) members(values string) []targetMember {
	if values == "current" {
		return s.status
	}
	return s.target
}

// metricFromV1 is the inverse of metricToV1.
func metricFromV1(item any, values string) map[string]any {
	metric := object(item)
	out := map[string]any{"type": metric["type"]}
	for _, shape := range metricShapes {
		source, ok := metric[shape.member].(map[string]any)
		if !ok {
			continue
		}
		target := map[string]any{}
		for _, m := range shape.members(values) {
			target[m.v2] = source[m.v1]
		}
		if values == "target" {
			target["type"] = targetType(shape.member, target)
			if shape.member == "object" && target["averageValue"] != nil && target["value"] == "0" {
				delete(target, "value") // required in v1
			}
		}
		fresh := map[string]any{values: target}
		for v2, v1 := range shape.v1 {
			outer, inner, nested := strings.Cut(v2, ".")
			if !nested {
				fresh[v2] = source[v1]
				continue
			}
			if fresh[outer] == nil {
				fresh[outer] = map[string]any{}
			}
			object(fresh[outer])[inner] = source[v1]
		}
		out[shape.member] = fresh
	}
	return out
}

// targetType returns the type of a v2 target, which v1 lacks.
func targetType(member string, target map[string]any) string {
	switch member {
	case "object":
		if target["averageValue"] == nil {
			return "Value"
		}
	case "external":
		if target["value"] != nil {
			return "Value"
		}
	case "resource", "containerResource":
		if target["averageUtilization"] != nil {
			return "Utilization"
		}
	}
	return "AverageValue"
}

// encodeList encodes items like Go: the members of a struct in the order of declaration.
func encodeList(items []any, t *shape.Type) (string, error) {
	var b strings.Builder
	clean, err := conform(items, &shape.Type{Kind: shape.List, Elem: t})
	if err == nil {
		err = encode(&b, clean, &shape.Type{Kind: shape.List, Elem: t})
	}
	return b.String(), err
}

func encode(b *strings.Builder, v any, t *shape.Type) error {
	switch {
	case t.Kind == shape.Struct && v != nil:
		b.WriteByte('{')
		first := true
		for i := range t.Fields {
			f := &t.Fields[i]
			member, ok := object(v)[f.Name]
			if !ok {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			b.WriteString(`"` + f.Name + `":`)
			if err := encode(b, member, f.Type); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case t.Kind == shape.List && v != nil:
		b.WriteByte('[')
		for i, item := range list(v) {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := encode(b, item, t.Elem); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	raw, err := json.Marshal(v) // scalars, and maps, whose keys Go sorts
	b.Write(raw)
	return err
}

// decodeList decodes the list in an annotation. Like encoding/json it accepts names in any case.
func decodeList(annotation any, t *shape.Type) ([]any, bool) {
	v, ok := decode(annotation)
	if !ok {
		return nil, false
	}
	listType := &shape.Type{Kind: shape.List, Elem: t}
	clean, err := conform(foldCase(v, listType), listType)
	return list(clean), err == nil
}

func decode(annotation any) (any, bool) {
	text, ok := annotation.(string)
	if !ok {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return nil, false
	}
	v, err := numbers(v)
	return v, err == nil
}

// foldCase changes the names of members to the case in which t declares them.
func foldCase(v any, t *shape.Type) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if t.Kind == shape.Map {
				out[k] = foldCase(v[k], t.Elem)
				continue
			}
			for i := range t.Fields {
				if f := &t.Fields[i]; strings.EqualFold(f.Name, k) {
					out[f.Name] = foldCase(v[k], f.Type)
				}
			}
		}
		return out
	case []any:
		if t.Kind != shape.List {
			return v
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = foldCase(item, t.Elem)
		}
		return out
	}
	return v
}

// The behavior annotation has the server's internal type, whose members do not have JSON names. All are written.
var (
	behaviorType          = behaviorOf(scalingRules)
	behaviorTypeBefore133 = behaviorOf(&shape.Type{Kind: shape.Struct,
		Fields: scalingRules.Fields[:len(scalingRules.Fields)-1]}) // without Tolerance
	scalingRules = &shape.Type{Kind: shape.Struct, Fields: []shape.Field{
		{Name: "StabilizationWindowSeconds", Type: scalars["int32"], Pointer: true},
		{Name: "SelectPolicy", Type: scalars["string"], Pointer: true},
		{Name: "Policies", Type: &shape.Type{Kind: shape.List, Elem: &shape.Type{Kind: shape.Struct, Fields: []shape.Field{
			{Name: "Type", Type: scalars["string"]}, {Name: "Value", Type: scalars["int32"]},
			{Name: "PeriodSeconds", Type: scalars["int32"]},
		}}}},
		{Name: "Tolerance", Type: scalars["quantity"], Pointer: true},
	}}
)

func behaviorOf(rules *shape.Type) *shape.Type {
	return &shape.Type{Kind: shape.Struct, Fields: []shape.Field{{Name: "ScaleUp", Type: rules, Pointer: true},
		{Name: "ScaleDown", Type: rules, Pointer: true}}}
}

// annotatedBehavior returns behaviorType, without Tolerance for minors whose v2 does not have it.
func (r *Registry) annotatedBehavior() *shape.Type {
	t := r.Type(hpa("v2"))
	if t == nil {
		return behaviorType
	}
	for _, name := range [...]string{"spec", "behavior", "scaleUp"} {
		f := t.Field(name)
		if f == nil {
			return behaviorType
		}
		t = f.Type
	}
	if t.Field("tolerance") != nil {
		return behaviorType
	}
	return behaviorTypeBefore133
}

func behaviorText(behavior map[string]any, t *shape.Type) string {
	var b strings.Builder
	clean, err := conform(foldCase(behavior, t), t)
	if err == nil {
		err = encode(&b, clean, t)
	}
	if err != nil {
		return "null" // unreachable: behavior conforms to v2, which has the same types
	}
	return b.String()
}

// decodeBehavior returns the behavior in an annotation with the names of v2; nil if there is none.
func decodeBehavior(annotation any) map[string]any {
	v, ok := decode(annotation)
	if !ok {
		return nil
	}
	clean, err := conform(foldCase(v, behaviorType), behaviorType)
	behavior := object(clean)
	if err != nil || behavior["ScaleUp"] == nil && behavior["ScaleDown"] == nil {
		return nil
	}
	return object(lowerNames(clean))
}

// lowerNames converts ScaleUp to scaleUp, and so on.
func lowerNames(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, member := range v {
			out[strings.ToLower(k[:1])+k[1:]] = lowerNames(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = lowerNames(item)
		}
		return out
	}
	return v
}
