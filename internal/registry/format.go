package registry

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	labelvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/celgate/celgate/internal/pattern"
)

// Formats of strings and numbers that rules of many kinds require. Each rule judges the value; a missing string counts
// as empty.

func (j *judge) dnsLabel(p *place) {
	if text := p.text(); !isPlainName(text) {
		j.eachText(p, validation.IsDNS1123Label(text))
	}
}

// serviceName requires the name of a Service.
func (j *judge) serviceName(p *place) {
	if j.lacks(service.gate) {
		j.eachText(p, service.early(p.text(), false))
		return
	}
	j.dnsLabel(p)
}

func (j *judge) dnsSubdomain(p *place) {
	if text := p.text(); !isPlainName(text) {
		j.eachText(p, validation.IsDNS1123Subdomain(text))
	}
}

func (j *judge) qualifiedName(p *place, text string) {
	if !isPlainKey(text) {
		j.each(p, text, validation.IsQualifiedName(text))
	}
}

// labelName is qualifiedName for a string that is qualified already.
func (j *judge) labelName(p *place) {
	if text := p.text(); !isPlainKey(text) {
		j.add(labelvalidation.ValidateLabelName(text, p.path())...)
	}
}

func (j *judge) portName(p *place) { j.eachText(p, validation.IsValidPortName(p.text())) }

// portNumber judges the number of a port, including 0.
func (j *judge) portNumber(p *place) {
	if n := p.number(); n < 1 || n > 65535 {
		j.each(p, n, validation.IsValidPortNum(int(n)))
	}
}

// port judges an intstr.IntOrString as a port; a missing one is the number 0.
func (j *judge) port(p *place) {
	if _, ok := p.value.(string); ok {
		j.portName(p)
		return
	}
	j.portNumber(p)
}

func (j *judge) pathSegment(p *place) { j.eachText(p, content.IsPathSegmentName(p.text())) }

// needsSegment requires a string that may be a segment of a path.
func (j *judge) needsSegment(p *place) {
	if j.needs(p) {
		j.pathSegment(p)
	}
}

// eachText is each for a string that may be missing.
func (j *judge) eachText(p *place, messages []string) {
	j.each(p, p.text(), messages)
}

func (j *judge) withoutBacksteps(p *place) {
	if text := p.text(); strings.Contains(text, "..") {
		for part := range strings.SplitSeq(text, "/") {
			if part == ".." {
				j.invalid(p, text, "must not contain '..'")
				return
			}
		}
	}
}

// descendingPath requires a relative path that stays below its start. The error is about p, the path is that of from.
func (j *judge) descendingPath(p, from *place) {
	at := *p
	at.value = from.value
	if path.IsAbs(from.text()) {
		j.invalid(&at, from.text(), "must be a relative path")
	}
	j.withoutBacksteps(&at)
}

// localPath is descendingPath for a file whose name does not begin with two points.
func (j *judge) localPath(p *place) {
	j.descendingPath(p, p)
	if text := p.text(); strings.HasPrefix(text, "..") && !strings.HasPrefix(text, "../") {
		j.invalid(p, text, "must not start with '..'")
	}
}

func (j *judge) fileMode(p *place) {
	j.restrict(p, 0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
}

func (j *judge) userID(p *place) {
	if p.has() {
		j.each(p, p.number(), validation.IsValidUserID(p.number()))
	}
}

func (j *judge) groupID(p *place) {
	if p.has() {
		j.each(p, p.number(), validation.IsValidGroupID(p.number()))
	}
}

// labels judges a map of labels.
func (j *judge) labels(p *place) {
	values, _ := p.value.(map[string]any)
	for key, value := range values {
		if text, _ := value.(string); !isPlainKey(key) || text != "" && !isPlainWord(text) {
			j.add(labelvalidation.ValidateLabels(texts(values), p.path())...)
			return
		}
	}
}

func (j *judge) annotations(p *place) {
	values, _ := p.value.(map[string]any)
	size := 0
	plain := true
	for key, value := range values {
		text, _ := value.(string)
		size += len(key) + len(text)
		plain = plain && isPlainKey(key)
	}
	if !plain || size > 128<<10 {
		j.add(metavalidation.ValidateAnnotations(texts(values), p.path())...)
	}
}

func texts(values map[string]any) map[string]string {
	out := make(map[string]string, len(values))
	for key, value := range values {
		out[key], _ = value.(string)
	}
	return out
}

// labelSelector judges a metav1.LabelSelector, which may be missing.
func (j *judge) labelSelector(p *place) {
	if matchLabels := p.member("matchLabels"); p.size() == 1 && matchLabels.has() {
		before := len(j.found)
		if j.labels(&matchLabels); len(j.found) == before {
			return
		}
		j.found = j.found[:before]
	}
	if of := p.selector(); of != nil {
		j.add(labelvalidation.ValidateLabelSelector(of, labelvalidation.LabelSelectorValidationOptions{}, p.path())...)
	}
}

// selects reports whether a metav1.LabelSelector selects an object with labels, and whether the selector is valid. A
// missing one does not select anything.
func (p *place) selects(of *place) (selected, readable bool) {
	values, _ := of.value.(map[string]any)
	if matchLabels, ok := p.member("matchLabels").value.(map[string]any); ok && p.size() == 1 {
		selected = true
		for key, value := range matchLabels {
			text, _ := value.(string)
			if !isPlainKey(key) || text != "" && !isPlainWord(text) {
				return p.selectsSlowly(values)
			}
			has, _ := values[key].(string)
			selected = selected && values[key] != nil && has == text
		}
		return selected, true
	}
	return p.selectsSlowly(values)
}

func (p *place) selectsSlowly(values map[string]any) (selected, readable bool) {
	selector, err := metav1.LabelSelectorAsSelector(p.selector())
	if err != nil {
		return false, false
	}
	return selector.Matches(labels.Set(texts(values))), true
}

// ipAddress requires an IP address, by the rules of fields that once accepted leading zeros, too.
func (j *judge) ipAddress(p *place) {
	j.add(validation.IsValidIPForLegacyField(p.path(), p.text(), j.isStrictAboutIPs(), nil)...)
}

func (j *judge) network(p *place) {
	j.add(validation.IsValidCIDRForLegacyField(p.path(), p.text(), j.isStrictAboutIPs(), nil)...)
}

func (j *judge) isStrictAboutIPs() bool { return !j.lacks("StrictIPCIDRValidation") }

// hostName requires a DNS name, which may begin with a wildcard.
func (j *judge) hostName(p *place) {
	if strings.Contains(p.text(), "*") {
		j.eachText(p, validation.IsWildcardDNS1123Subdomain(p.text()))
		return
	}
	j.dnsSubdomain(p)
}

// positiveIntOrPercent requires a non-negative integer or a percentage.
func (j *judge) positiveIntOrPercent(p *place) {
	if text, ok := p.value.(string); ok {
		j.each(p, text, validation.IsValidPercent(text))
		return
	}
	j.nonnegative(p)
}

func (j *judge) notAbove100Percent(p *place) {
	if value, isPercent := p.percent(); isPercent && value > 100 {
		j.invalid(p, p.value, "must not be greater than 100%")
	}
}

// percent returns the number of a string such as "25%".
func (p *place) percent() (int, bool) {
	text, ok := p.value.(string)
	if !ok || len(validation.IsValidPercent(text)) > 0 {
		return 0, false
	}
	n := 0
	for _, digit := range strings.TrimSuffix(text, "%") {
		n = min(n*10+int(digit-'0'), 1<<30)
	}
	return n, true
}

// isZero reports whether an intstr.IntOrString evaluates to 0, as an invalid string does.
func (p *place) isZero() bool {
	if value, ok := p.percent(); ok {
		return value == 0
	}
	if text, ok := p.value.(string); ok {
		n := strings.TrimLeft(strings.TrimLeft(text, "+-"), "0")
		return n == "" || !digits().MatchString(n)
	}
	return p.number() == 0
}

var digits = pattern.New(`^[0-9]+$`)
