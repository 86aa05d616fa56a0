package yamlscan

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// DecodePlain returns the value of a plain scalar in YAML 1.1: nil, bool, int64, float64 or string, as
// go.yaml.in/yaml/v2 v2.4.4 resolve.go: resolve, followed by the conversion to JSON of sigs.k8s.io/yaml (integers
// beyond int64 become float64, floats without fraction int64). Infinite numbers and NaN are returned as float64,
// although JSON does not have them.
func DecodePlain(s string) any {
	if s == "" {
		return nil
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9' || c == '-' || c == '+':
		return plainNumber(s)
	case c == '.':
		switch s {
		case ".nan", ".NaN", ".NAN":
			return math.NaN()
		case ".inf", ".Inf", ".INF":
			return math.Inf(1)
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return Number(f)
		}
	case len(s) > 5:
	case s == "~":
		return nil
	default:
		switch s {
		case "null", "Null", "NULL":
			return nil
		case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
			return true
		case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
			return false
		}
	}
	return s
}

// plainNumber is DecodePlain for text that starts with a digit or a sign.
func plainNumber(s string) any {
	if digits := len(s); s[0] >= '1' && digits < 19 && isDigits(s) {
		var n int64
		for i := range digits {
			n = n*10 + int64(s[i]-'0')
		}
		return n
	}
	switch s {
	case "+.inf", "+.Inf", "+.INF":
		return math.Inf(1)
	case "-.inf", "-.Inf", "-.INF":
		return math.Inf(-1)
	}
	if !maybeNumber(s) || isTimestamp(s) {
		return s
	}
	t := strings.ReplaceAll(s, "_", "")
	if n, err := strconv.ParseInt(t, 0, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(t, 0, 64); err == nil {
		return float64(n)
	}
	if isDecimalFloat(t) {
		if f, err := strconv.ParseFloat(t, 64); err == nil {
			return Number(f)
		}
	}
	// This is the rest of "0b" with an inner sign, which the library also reads as a number.
	binary, ok := strings.CutPrefix(t, "0b")
	if !ok {
		if binary, ok = strings.CutPrefix(t, "-0b"); ok {
			binary = "-" + binary
		}
	}
	if ok {
		if n, err := strconv.ParseInt(binary, 2, 64); err == nil {
			return n
		}
	}
	return s
}

// maybeNumber reports whether every byte of s may be part of a number. It excludes quantities such as 100m, versions
// and dates early.
func maybeNumber(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		case c == 'x', c == 'X', c == 'o', c == 'O', c == '_', c == '.', c == '+', c == '-':
		default:
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// isTimestamp reports whether s is a date, which stays text. Timestamps with a time contain letters or colons and never
// look like numbers, so only the date form matters.
func isTimestamp(s string) bool {
	if len(s) < 8 || s[4] != '-' || !isDigits(s[:4]) {
		return false
	}
	_, err := time.Parse("2006-1-2", s)
	return err == nil
}

// isDecimalFloat reports whether s has the form [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?.
func isDecimalFloat(s string) bool {
	sign := func() {
		if s != "" && (s[0] == '-' || s[0] == '+') {
			s = s[1:]
		}
	}
	digits := func() (n int) {
		for s != "" && s[0] >= '0' && s[0] <= '9' {
			s, n = s[1:], n+1
		}
		return n
	}
	sign()
	whole, fraction := digits(), 0
	if s != "" && s[0] == '.' {
		s = s[1:]
		fraction = digits()
	}
	if whole == 0 && fraction == 0 {
		return false
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		sign()
		if digits() == 0 {
			return false
		}
	}
	return s == ""
}

// Number returns f as int64 if JSON would write it without fraction and exponent and it fits, otherwise f. JSON has the
// fewest digits that identify f, so beyond 2^53 the integer may differ from f.
func Number(f float64) any {
	const exact = 1 << 53
	switch {
	case f != math.Trunc(f):
	case f >= -exact && f <= exact:
		return int64(f)
	case math.Abs(f) < 1e21:
		if n, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, 64); err == nil {
			return n
		}
	}
	return f
}
