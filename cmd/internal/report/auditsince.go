package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A Findings looks up findings about single objects in a report. It keeps only their positions in the file.
type Findings struct {
	of     *StoredAudit
	file   io.ReaderAt
	exprs  map[exprKey]blamed
	places map[string]span // by the uid of the object
}

// Findings indexes the findings of a report. file is the same report.
func (s *StoredAudit) Findings(file io.ReaderAt) (*Findings, error) {
	f := &Findings{of: s, file: file, exprs: s.expressions(), places: map[string]span{}}
	err := s.members(func(name json.Token, dec *json.Decoder) (err error) {
		if name != "findings" {
			var other json.RawMessage
			return dec.Decode(&other)
		}
		for item, at := range list[struct{ Object jsonAuditObject }](dec, &err) {
			place, known := f.places[item.Object.UID]
			if !known {
				place.from = at.from
			} else if place.to != at.from {
				return fmt.Errorf("the findings about %s are not together", item.Object.object())
			}
			place.to = at.to
			f.places[item.Object.UID] = place
		}
		return err
	})
	return f, err
}

// Find returns the findings about an object.
func (f *Findings) Find(uid string) ([]AuditFinding, error) {
	place, known := f.places[uid]
	if !known {
		return nil, nil
	}
	text := make([]byte, place.to-place.from)
	if _, err := f.file.ReadAt(text, place.from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	text = append(append([]byte{'['}, bytes.TrimLeft(text, ", \n")...), ']')
	var found []jsonFinding
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, f.of.wrapError(err)
	}
	all := make([]AuditFinding, len(found))
	for i := range found {
		all[i] = found[i].finding(f.exprs)
	}
	return all, nil
}
