package quirks

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/pattern"
)

// AsGo is a refused value as minors before 1.34 write it: lists and maps not as JSON
// (k8s.io/apimachinery pkg/util/validation/field/errors.go v0.33.13).
func AsGo(value any) any {
	if value == nil {
		return "null"
	}
	switch reflect.TypeOf(value).Kind() {
	case reflect.Map, reflect.Slice:
		return goText(fmt.Sprintf("%#v", value))
	}
	return value
}

// policyAsGo is [AsGo] for a value in a native policy or binding, of which servers have internal types.
func policyAsGo(e *field.Error) any {
	if text, ok := AsGo(e.BadValue).(goText); ok {
		return goText(validated().ReplaceAllString(string(text), "admissionregistration."))
	}
	return AsGo(e.BadValue)
}

// validated are the packages in whose place the server has that of its internal types.
var validated = pattern.New(`\b(policy|v1)\.`)

var (
	labels       = pattern.New(`\b(labels|matchLabels)$`)
	resourceName = pattern.New(`^must be a standard resource\b`)
	percentage   = pattern.New(`^(a valid percent string must|must not be greater than 100%$)`)

	// lists are the types of lists of other values than strings, by field.
	lists = []struct {
		field pattern.Regexp
		of    string
	}{
		{pattern.New(`^spec\.scopes$`), "core.ResourceQuotaScope"},
		{pattern.New(`^spec\.policyTypes$`), "networking.PolicyType"},
		{pattern.New(`\.onExitCodes\.values$`), "int32"},
	}
)

// builtinAsGo is [AsGo] for a value in an object of a built-in kind, with the Go types that are known.
func builtinAsGo(e *field.Error) any {
	switch v := e.BadValue.(type) {
	case nil:
		if of := listType(e.Field); of != "" {
			return goText("[]" + of + "(nil)")
		}
		if labels().MatchString(e.Field) {
			return goText(fmt.Sprintf("%#v", map[string]string(nil)))
		}
	case *metav1.LabelSelector:
		if v != nil {
			return goText(fmt.Sprintf("%#v", *v))
		}
	case map[string]any:
		if texts := textsOf(v); texts != nil {
			return goText(fmt.Sprintf("%#v", texts))
		}
	case []any:
		of := listType(e.Field)
		if of == "" && areTexts(v) {
			of = "string"
		}
		if of != "" {
			return goText("[]" + of + strings.TrimPrefix(fmt.Sprintf("%#v", v), "[]interface {}"))
		}
	case int64:
		if percentage().MatchString(e.Detail) {
			return goText(fmt.Sprintf("%#v", intstr.FromInt32(int32(v))))
		}
	}
	if v := reflect.ValueOf(e.BadValue); v.IsValid() && v.Kind() == reflect.String {
		switch {
		case resourceName().MatchString(e.Detail):
			return goText(v.String())
		case percentage().MatchString(e.Detail):
			return goText(fmt.Sprintf("%#v", intstr.FromString(v.String())))
		}
	}
	return AsGo(e.BadValue)
}

// listType returns the type of the items of a list in a field; "": a string, or unknown.
func listType(name string) string {
	for _, l := range lists {
		if l.field().MatchString(name) {
			return l.of
		}
	}
	return ""
}

// textsOf returns a map of strings; nil: v has other values.
func textsOf(v map[string]any) map[string]string {
	texts := make(map[string]string, len(v))
	for key, value := range v {
		text, ok := value.(string)
		if !ok {
			return nil
		}
		texts[key] = text
	}
	return texts
}

func areTexts(list []any) bool {
	for _, item := range list {
		if _, ok := item.(string); !ok {
			return false
		}
	}
	return true
}

// A goText has no form in JSON, so that errors write it as it is.
type goText string

func (g goText) String() string { return string(g) }

// MarshalJSON returns an error.
func (g goText) MarshalJSON() ([]byte, error) { return nil, errors.ErrUnsupported }
