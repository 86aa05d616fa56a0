package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"

	"github.com/celgate/celgate/policy"
)

type sarifText struct {
	Text string `json:"text"`
}

// A sarifRule is the kind of results.
type sarifRule struct {
	ID      string      `json:"id"`
	Name    string      `json:"name,omitempty"`
	Short   sarifText   `json:"shortDescription"`
	Full    *sarifText  `json:"fullDescription,omitempty"`
	Default *sarifLevel `json:"defaultConfiguration,omitempty"`
}

type sarifLevel struct {
	Level string `json:"level"`
}

type sarifResult struct {
	RuleID       string             `json:"ruleId"`
	Level        string             `json:"level"`
	Message      sarifText          `json:"message"`
	Locations    []sarifLocation    `json:"locations"`
	Related      []sarifLocation    `json:"relatedLocations,omitempty"`
	Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	Fingerprints map[string]string  `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	Line   int `json:"startLine"`
	Column int `json:"startColumn,omitempty"`
}

// sarifSuppression means that the author of a policy ignores the result.
type sarifSuppression struct {
	Kind          string `json:"kind"`
	Justification string `json:"justification"`
}

func sarifAt(place policy.Position) []sarifLocation {
	var at sarifLocation
	at.Physical.Artifact.URI = place.File
	if place.IsValid() {
		at.Physical.Region = &sarifRegion{place.Line, place.Column}
	}
	return []sarifLocation{at}
}

// fingerprints identify a finding independent of line numbers: by its rule, its file, and the first line of its
// message.
func (f finding) fingerprints() map[string]string {
	headline, _, _ := strings.Cut(f.message, "\n")
	sum := sha256.Sum256([]byte(strings.Join([]string{f.rule, f.place.File, f.title, headline}, "\x00")))
	return map[string]string{"celgate/v1": hex.EncodeToString(sum[:16])}
}

// writeSARIF writes a SARIF 2.1.0 log with the findings of a command of celgate.
func writeSARIF(w io.Writer, command string, rules []sarifRule, all []finding) error {
	results := make([]sarifResult, len(all))
	for i, f := range all {
		results[i] = sarifResult{
			RuleID: f.rule, Level: string(f.level), Message: sarifText{f.message}, Locations: sarifAt(f.place),
			Fingerprints: f.fingerprints(),
		}
		if f.cause.IsValid() {
			results[i].Related = sarifAt(f.cause)
		}
		if f.ignored != "" {
			results[i].Suppressions = []sarifSuppression{{"inSource", f.ignored}}
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool": map[string]any{"driver": map[string]any{
				"name": "celgate " + command, "version": Version(),
				"informationUri": "https://github.com/celgate/celgate", "rules": toNonNil(rules),
			}},
			"results": results,
		}},
	})
}
