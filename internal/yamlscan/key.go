package yamlscan

import "strconv"

// Key returns the JSON text of a key, as sigs.k8s.io/yaml v1.6.0 yaml.go: convertToJSONableObject.
func Key(k any) (string, bool) {
	switch k := k.(type) {
	case string:
		return ValidText(k), true
	case int:
		return strconv.Itoa(k), true
	case int64:
		return strconv.FormatInt(k, 10), true
	case bool:
		return strconv.FormatBool(k), true
	case float64:
		switch s := strconv.FormatFloat(k, 'g', -1, 32); s { // large numbers become infinite
		case "+Inf":
			return ".inf", true
		case "-Inf":
			return "-.inf", true
		case "NaN":
			return ".nan", true
		default:
			return s, true
		}
	}
	return "", false
}

// ValidText replaces bytes that are not UTF-8, as encoding/json does. Only !!binary can produce them.
func ValidText(s string) string {
	for _, r := range s {
		if r == '\uFFFD' {
			return string([]rune(s))
		}
	}
	return s
}
