package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/internal/patch/merge"
)

// longestValue is the largest size of a Value in bytes.
const longestValue = 80

// Value writes a value in CEL syntax, with the keys of maps sorted.
func Value(v ref.Val) string {
	var b valueWriter
	b.value(v, 0)
	if b.Len() > longestValue && isContainer(v) {
		b = valueWriter{brief: true}
		b.value(v, 0)
	}
	return shorten(b.String())
}

// A valueWriter writes values in CEL syntax. If it is brief, maps in a list are represented by their names, if they
// have any.
type valueWriter struct {
	strings.Builder
	brief bool
}

func shorten(text string) string {
	if len(text) > longestValue {
		cut := longestValue
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}

func (b *valueWriter) value(v ref.Val, depth int) {
	if b.Len() > longestValue || depth > 8 {
		b.WriteString("…")
		return
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case *types.Err:
		b.WriteString(v.Error())
	case types.Null:
		b.WriteString("null")
	case types.Bool:
		b.WriteString(strconv.FormatBool(bool(v)))
	case types.Int:
		b.WriteString(strconv.FormatInt(int64(v), 10))
	case types.Uint:
		b.WriteString(strconv.FormatUint(uint64(v), 10) + "u")
	case types.Double:
		b.WriteString(strconv.FormatFloat(float64(v), 'g', -1, 64))
	case types.String:
		b.text(string(v))
	case *types.Optional:
		if !v.HasValue() {
			b.WriteString("optional.none()")
			return
		}
		b.WriteString("optional.of(")
		b.value(v.GetValue(), depth+1)
		b.WriteString(")")
	case *objects.Mark:
		b.WriteString(v.String())
	case traits.Mapper:
		b.members(v, depth)
	case traits.Lister:
		b.WriteByte('[')
		for it, n := v.Iterator(), 0; it.HasNext() == types.True && b.Len() <= longestValue; n++ {
			if n > 0 {
				b.WriteString(", ")
			}
			b.value(it.Next(), depth+1)
		}
		b.WriteByte(']')
	default:
		switch native := v.Value().(type) {
		case fmt.Stringer:
			b.WriteString(native.String())
		default:
			b.WriteString(v.Type().TypeName())
		}
	}
}

// keysOf returns the keys of a map as text, sorted.
func keysOf(m traits.Mapper) []string {
	var keys []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, fmt.Sprint(it.Next().Value()))
	}
	slices.Sort(keys)
	return keys
}

func (b *valueWriter) members(m traits.Mapper, depth int) {
	if name, ok := m.Find(types.String("name")); ok && b.brief && depth > 0 {
		b.WriteString("{'name': ")
		b.value(name, depth+1)
		if m.Size() != types.IntOne {
			b.WriteString(", …")
		}
		b.WriteByte('}')
		return
	}
	var keys []string
	values := map[string]ref.Val{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		text, ok := key.Value().(string)
		if !ok {
			text = fmt.Sprint(key.Value())
		}
		keys = append(keys, text)
		values[text] = key
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for i, key := range keys {
		if b.Len() > longestValue {
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.text(key)
		b.WriteString(": ")
		member, _ := m.Find(values[key])
		b.value(member, depth+1)
	}
	b.WriteByte('}')
}

func (b *valueWriter) text(s string) {
	quoted := strconv.Quote(s)
	b.WriteString("'" + strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), "'", `\'`) + "'")
}

// Tree returns a patch with texts in place of values without a JSON form: those of the dialect describe their effect,
// others are refused by the server.
func Tree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		shown := make(map[string]any, len(v))
		for key, member := range v {
			shown[key] = Tree(member)
		}
		return shown
	case []any:
		shown := make([]any, len(v))
		for i, item := range v {
			shown[i] = Tree(item)
		}
		return shown
	case nil, string, bool, int64, float64:
		return v
	case structpb.NullValue:
		return nil
	case merge.Unset:
		return "objects.unset()"
	case merge.Remove:
		return map[string]any{"objects.remove": Tree(v.Item)}
	case merge.Replace:
		return map[string]any{"objects.replace": Tree(v.Value)}
	case ref.Val:
		return Value(v)
	}
	return fmt.Sprint(v)
}
