package registry

// isPlain reports whether metadata certainly satisfies the rules of all kinds, the usual case: a short name of small
// letters, digits and dashes, labels and annotations with plain keys, and no references. Other metadata is validated by
// the server's own functions, which take much longer.
func isPlain(metadata map[string]any) bool {
	const longestAnnotations = 128 << 10 // of the limit of 256 KiB
	size := 0
	for member, value := range metadata {
		switch member {
		case "name":
			if text, ok := value.(string); !ok || !isPlainName(text) {
				return false
			}
		case "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink":
		case "generation":
			if n, ok := value.(int64); !ok || n < 0 {
				return false
			}
		case "labels", "annotations":
			texts, ok := value.(map[string]any)
			if !ok {
				return value == nil
			}
			for key, value := range texts {
				text, ok := value.(string)
				if !ok || !isPlainKey(key) || member == "labels" && !isPlainWord(text) && text != "" {
					return false
				}
				size += len(key) + len(text)
			}
		default:
			return false
		}
	}
	_, named := metadata["name"]
	return named && size < longestAnnotations
}

// isPlainName reports whether a name is valid for every kind.
func isPlainName(name string) bool {
	if len(name) == 0 || len(name) > 52 || name[0] < 'a' || name[0] > 'z' || name[len(name)-1] == '-' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// isPlainKey reports whether a key is a qualified name whose prefix, if any, consists of plain names with dots between
// them.
func isPlainKey(key string) bool {
	for i := range len(key) {
		if key[i] != '/' {
			continue
		}
		from := 0
		for to := range i + 1 {
			if to == i || key[to] == '.' {
				if !isPlainName(key[from:to]) {
					return false
				}
				from = to + 1
			}
		}
		return i <= 253 && isPlainWord(key[i+1:])
	}
	return isPlainWord(key)
}

// isPlainWord reports whether a text is a valid label value.
func isPlainWord(text string) bool {
	if len(text) == 0 || len(text) > 63 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		isInner := c == '-' || c == '_' || c == '.'
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case !isInner || i == 0 || i == len(text)-1:
			return false
		}
	}
	return true
}

// isUnchanged reports whether an update keeps the immutable metadata.
func isUnchanged(metadata, old map[string]any) bool {
	for _, member := range []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds"} {
		if !sameScalar(metadata[member], old[member]) {
			return false
		}
	}
	now, _ := metadata["generation"].(int64)
	if was, _ := old["generation"].(int64); now < was {
		return false
	}
	version, ok := metadata["resourceVersion"].(string)
	return ok && version != "" && version != "0"
}

func sameScalar(a, b any) bool {
	switch a.(type) {
	case nil, string, int64:
		switch b.(type) {
		case nil, string, int64:
			return a == b
		}
	}
	return false
}
