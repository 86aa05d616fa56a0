package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A LastAudit is what an earlier audit counted.
type LastAudit struct {
	file   string
	totals AuditTotals
	groups map[lastKey]int
}

// A lastKey is what findings of two audits have in common.
type lastKey struct {
	verdict                         AuditVerdict
	policy, binding, field, creates string
}

// ReadAudit reads the counts of a report that celgate audit -o json wrote. The findings in it are passed over, one by
// one.
func ReadAudit(r io.Reader, file string) (*LastAudit, error) {
	wrong := func(err error) error { return fmt.Errorf("%s is not a report of celgate audit -o json: %w", file, err) }
	dec := json.NewDecoder(r)
	if t, err := dec.Token(); err != nil {
		return nil, wrong(err)
	} else if t != json.Delim('{') {
		return nil, wrong(errors.New("it is no object"))
	}
	var kind string
	var summary *jsonSummary
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, wrong(err)
		}
		switch name {
		case "kind":
			err = dec.Decode(&kind)
		case "summary":
			err = dec.Decode(&summary)
		case "findings":
			err = pass(dec)
		default:
			var other json.RawMessage
			err = dec.Decode(&other)
		}
		if err != nil {
			return nil, wrong(err)
		}
	}
	if kind != "AuditReport" || summary == nil {
		return nil, wrong(fmt.Errorf("its kind is %q", kind))
	}
	last := &LastAudit{file: file, totals: summary.Totals, groups: map[lastKey]int{}}
	for _, g := range summary.Groups {
		last.groups[lastKey{g.Verdict, g.Policy, g.Binding, g.Field, g.Creates}] += g.Objects
	}
	return last, nil
}

// pass reads the items of a list and keeps none.
func pass(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}
