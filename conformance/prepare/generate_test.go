package prepare

import (
	"encoding/base64"
	"math/rand/v2"

	"github.com/celgate/celgate/internal/shape"
)

// A generator makes random objects of a type: most members have valid values, some are null, empty or zero, and the
// number in wrong are undeclared or of another JSON type.
type generator struct {
	*rand.Rand
	unknown float64
	wrong   float64

	// plausible leaves out zero times, which typed objects lose in their encoding, and volumes of two kinds, of which
	// the server uses only the first.
	plausible bool

	warned bool // texts and keys that the server warns about are likely
}

var words = []string{
	"", "a", "v1", "latest", "web:latest", "web", "registry.example.test:5000/web", "Web",
	"web@sha256:0123456789012345678901234567890123456789012345678901234567890123",
	"Always", "Never", "RollingUpdate", "OnDelete", "Recreate", "Container", "Pod", "User", "Group", "ServiceAccount",
	"ClientIP", "None",
	"ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "ExactCount", "All", "Retain", "10.0.0.1", "Resource",
	"cpu",
}

var names = []string{"a", "cpu", "memory", "app", "example.test/x", "kubernetes.io/hostname"}

var quantities = []any{"1", "100m", "0", "1.5", "1000m", "0.0001", "1Gi", "1024Mi", "1500Ki", "5n", "1e3", "3E",
	int64(2), int64(0), int64(4000), "-1", "12345678901234567890"}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

func (g *generator) value(t *shape.Type, depth int) any {
	if g.Float64() < g.wrong {
		return pick(g, []any{int64(7), 1.5, "text", true, []any{}, []any{"x"}, map[string]any{},
			map[string]any{"x": "y"}, int64(1 << 40), nil})
	}
	switch t.Kind {
	case shape.Any:
		return pick(g, []any{nil, "x", int64(3), map[string]any{"a": int64(1)}, []any{}})
	case shape.Boolean:
		return g.IntN(2) == 0
	case shape.Integer:
		if t.Bits == 64 {
			return pick(g, []any{int64(0), int64(1), int64(-1), int64(80), int64(1 << 40)})
		}
		return pick(g, []any{int64(0), int64(1), int64(-1), int64(80), int64(1<<31 - 1)})
	case shape.Number:
		return pick(g, []any{int64(0), int64(3), 1.5})
	case shape.String:
		if g.warned && g.IntN(3) == 0 {
			return pick(g, warnedWords)
		}
		return pick(g, words)
	case shape.Bytes:
		return base64.StdEncoding.EncodeToString([]byte(pick(g, words)))
	case shape.Quantity:
		return pick(g, quantities)
	case shape.Time:
		if g.plausible {
			return "2024-02-03T04:05:06Z"
		}
		return pick(g, []any{"2024-02-03T04:05:06Z", "2024-02-03T04:05:06.789+02:00", nil, "0001-01-01T00:00:00Z"})
	case shape.MicroTime:
		return pick(g, []any{"2024-02-03T04:05:06.000007Z", "2024-02-03T04:05:06.700000+02:00", nil})
	case shape.Duration:
		return pick(g, []any{"5s", "90m", "0s"})
	case shape.IntOrString:
		return pick(g, []any{int64(0), int64(80), "http", "", "25%"})
	case shape.Union:
		return g.value(pick(g, t.OneOf), depth)
	case shape.Map:
		m := map[string]any{}
		for range g.IntN(3) {
			key := pick(g, names)
			if g.warned && g.IntN(2) == 0 {
				key = pick(g, warnedKeys)
			}
			m[key] = g.orNull(t.Elem, depth)
		}
		return m
	case shape.List:
		list := make([]any, 0, 2)
		for range g.IntN(3) {
			list = append(list, g.orNull(t.Elem, depth))
		}
		return list
	case shape.Struct:
		return g.object(t, depth)
	}
	return nil
}

func (g *generator) orNull(t *shape.Type, depth int) any {
	if g.IntN(30) == 0 {
		return nil
	}
	return g.value(t, depth)
}

func (g *generator) object(t *shape.Type, depth int) map[string]any {
	m := map[string]any{}
	// Few members far down, so that objects end.
	share := 0.7 / float64(1+depth/3)
	if len(t.Fields) > 40 && depth > 6 { // schemas in schemas
		share = 0.05
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Name == "managedFields" || g.Float64() > share {
			continue
		}
		if depth > 14 && (f.Type.Kind == shape.Struct || f.Type.Kind == shape.List || f.Type.Kind == shape.Map ||
			f.Type.Kind == shape.Union) {
			continue
		}
		m[f.Name] = g.orNull(f.Type, depth+1)
	}
	if g.plausible {
		oneSource(t, m)
	}
	if g.Float64() < g.unknown {
		m["surprise"] = "x"
	}
	return m
}

// oneSource leaves a volume one source.
func oneSource(t *shape.Type, m map[string]any) {
	if t.Name != "k8s.io/api/core/v1.Volume" && t.Name != "k8s.io/api/core/v1.VolumeProjection" {
		return
	}
	found := false
	for i := range t.Fields {
		name := t.Fields[i].Name
		if name == "name" || m[name] == nil {
			continue
		}
		if found {
			delete(m, name)
		}
		found = true
	}
}
